"""`bulkhead-supervise run` and `observe` with real programs."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from supervise_support import (GROW, HOLD, MIB, PYTHON, SUPERVISE, alive, program, run, running, wait_until,
                               with_marker)


class Endings(unittest.TestCase):
    def test_child_status_is_passed_on(self):
        for code in (0, 1, 7, 75, 255):
            with self.subTest(code=code):
                done = run("--limit", "1GiB", command=["sh", "-c", f"exit {code}"])
                self.assertEqual(done.code, code)
                self.assertEqual(done.outcome["kind"], "child_exited")
                self.assertEqual(done.outcome["exit_code"], code)

    def test_child_signal_is_passed_on(self):
        done = run("--limit", "1GiB", command=["sh", "-c", "kill -SEGV $$"])
        self.assertEqual(done.code, 128 + signal.SIGSEGV)
        self.assertEqual((done.outcome["kind"], done.outcome["cause"]), ("child_signaled", "crash_signal"))

    def test_killed_by_a_stranger_is_not_called_our_kill(self):
        done = run("--limit", "1GiB", command=["sh", "-c", "kill -KILL $$"])
        self.assertEqual(done.code, 128 + signal.SIGKILL)
        self.assertEqual(done.outcome["cause"], "killed_by_other")

    def test_last_line_and_quiet(self):
        done = run("--limit", "1GiB", command=["true"])
        self.assertEqual(len(done.err.splitlines()), 1, done.err)
        self.assertIn("Peak", done.err)
        self.assertIn("1 GiB", done.err)
        self.assertEqual(run("--limit", "1GiB", "--quiet", command=["true"]).err, "")

    def test_output_is_the_jobs_own(self):
        done = run("--limit", "1GiB", "--quiet", command=["sh", "-c", "echo out; echo err >&2"])
        self.assertEqual((done.out, done.err), ("out\n", "err\n"))

    def test_stdin_is_the_callers(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"from the caller\n")
            file.seek(0)
            done = run("--limit", "1GiB", command=["cat"], stdin=file)
        self.assertEqual(done.out, "from the caller\n")


class Correlation(unittest.TestCase):
    def test_the_same_command_is_recognised_where_there_is_a_state(self):
        with tempfile.TemporaryDirectory() as state:
            env = {**os.environ, "XDG_STATE_HOME": state}
            hash_of = lambda *command: run("--limit", "1GiB", command=command, env=env).report["run"]["correlation_hash"]
            self.assertIsNone(hash_of("true", "a"))
            self.assertEqual(os.listdir(state), [], "the foreground makes no state directory")
            os.mkdir(os.path.join(state, "bulkhead"), 0o700)
            first = hash_of("true", "a")
            self.assertRegex(first, "^[0-9a-f]{32}$")
            self.assertEqual(hash_of("true", "a"), first)
            self.assertNotEqual(hash_of("true", "b"), first)


class Limits(unittest.TestCase):
    def test_a_growing_program_is_stopped(self):
        done = run("--limit", "150MiB", "--json", command=[PYTHON, "-c", GROW, "600"])
        self.assertEqual(done.code, 75, done.err)
        self.assertEqual((done.outcome["kind"], done.outcome["cause"]), ("policy_intervention", "limit_exceeded"))
        self.assertEqual([line["type"] for line in done.lines if line["type"] != "checkpoint"][-1], "outcome")
        states = [line["to"] for line in done.lines if line["type"] == "transition"]
        self.assertEqual(states[:2], ["warning", "terminating"])
        peak = done.report["peaks"]["sampled"]["aggregate"]["value"]
        self.assertTrue(150 * MIB <= peak < 200 * MIB, peak)

    def test_a_program_below_its_limit_is_left_alone(self):
        done = run("--limit", "400MiB", command=program("b = bytearray(200 << 20); print('done')"))
        self.assertEqual((done.code, done.out), (0, "done\n"))
        self.assertEqual(done.report["signals"], [])
        self.assertGreaterEqual(done.report["peaks"]["sampled"]["aggregate"]["value"], 0)

    def test_term_is_ignored_then_kill(self):
        done = run("--limit", "100MiB", "--emergency", "10GiB", "--grace", "200ms", "--grace-per-gib", "0s",
                   command=[PYTHON, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + GROW, "150"])
        self.assertEqual(done.code, 75)
        self.assertEqual([(s["signal"], s["reason"]) for s in done.report["signals"]],
                         [("SIGTERM", "not_negotiated"), ("SIGKILL", "grace_expired")])

    def test_emergency_band_kills_at_once(self):
        done = run("--limit", "50MiB", "--breaches", "1000000", command=[PYTHON, "-c", HOLD, "300"])
        self.assertEqual(done.code, 75)
        self.assertEqual(done.outcome["cause"], "emergency")
        self.assertEqual(done.outcome["child_status"]["signal"], "SIGKILL")
        reasons = [s["reason"] for s in done.report["signals"]]
        if done.report["host"]["boundary"] == "kernel_enforced":  # the wall is the band: the kernel may have been first
            self.assertLessEqual(set(reasons), {"emergency", "root_exited"})
        else:
            self.assertEqual(reasons[0], "emergency")

    def test_emergency_action_term(self):
        done = run("--limit", "50MiB", "--breaches", "1000000", "--emergency-action", "term",
                   command=[PYTHON, "-c", HOLD, "300"])
        self.assertEqual([(s["signal"], s["reason"]) for s in done.report["signals"]], [("SIGTERM", "emergency")])

    def test_a_brake_is_told_apart_from_a_wish(self):
        done = run("--limit", "1GiB", "--brake", command=["true"])
        self.assertEqual(done.code, 0, done.err)
        self.assertTrue(done.report["configuration"]["brake"])
        had = done.report["capabilities"]
        self.assertEqual(had["brake"], "memory.high" in (done.report["host"]["boundary_mechanism"] or ""))
        if not had["brake"]:  # most hosts: then it is said why
            self.assertTrue(had["cgroup_reason"])
        without = run("--limit", "1GiB", command=["true"]).report
        self.assertFalse(without["configuration"]["brake"] or without["capabilities"]["brake"])

    def test_stop_signal_of_the_spec(self):
        done = run("--limit", "100MiB", "--stop-signal", "SIGINT", command=[PYTHON, "-c", GROW, "400"])
        self.assertEqual(done.report["signals"][0]["signal"], "SIGINT")

    def test_wall_time(self):
        done = run("--limit", "1GiB", "--wall-time", "300ms", command=["sleep", "100"])
        self.assertEqual((done.code, done.outcome["cause"]), (75, "wall_time"))

    def test_shared_memory_is_counted_once(self):
        done = run("--limit", "400MiB", command=program("""
            import mmap, os, time
            shared = mmap.mmap(-1, 150 << 20)
            for at in range(0, 150 << 20, 4096): shared[at] = 1
            children = []
            for _ in range(5):
                pid = os.fork()
                if pid == 0:
                    total = sum(shared[at] for at in range(0, 150 << 20, 4096))
                    time.sleep(0.7)
                    os._exit(0)
                children.append(pid)
            for pid in children: os.waitpid(pid, 0)
            print('alive')
        """))
        self.assertEqual((done.code, done.out), (0, "alive\n"), done.err)

    def test_forked_idle_workers_are_left_alone_and_writing_ones_stopped(self):
        source = """
            import os, sys, time
            block = bytearray(200 << 20)
            for at in range(0, len(block), 4096): block[at] = 1
            children = []
            for _ in range(6):
                pid = os.fork()
                if pid == 0:
                    if sys.argv[1] == 'write':
                        for at in range(0, len(block), 4096): block[at] = 2
                    time.sleep(1.0)
                    os._exit(0)
                children.append(pid)
            for pid in children: os.waitpid(pid, 0)
        """
        idle = run("--limit", "500MiB", command=program(source) + ["idle"])
        self.assertEqual(idle.code, 0, idle.err)
        self.assertEqual(idle.report["signals"], [])
        writing = run("--limit", "500MiB", command=program(source) + ["write"])
        self.assertEqual(writing.code, 75, writing.err)

    def test_many_vforks_of_a_large_parent(self):
        done = run("--limit", "400MiB", command=program("""
            import subprocess
            block = bytearray(250 << 20)
            for at in range(0, len(block), 4096): block[at] = 1
            for _ in range(100): subprocess.run(['true'])
        """))
        self.assertEqual(done.code, 0, done.err)

    def test_leader_that_exited_before_its_threads(self):
        done = run("--limit", "150MiB", command=program("""
            import ctypes, threading, time
            def grow():
                blocks = []
                for _ in range(400):
                    blocks.append(bytearray(1 << 20))
                    time.sleep(0.002)
                time.sleep(100)
            threading.Thread(target=grow).start()
            time.sleep(0.1)
            ctypes.CDLL(None).syscall(60, 0)  # exit of this thread alone, on x86-64
        """)) if os.uname().machine == "x86_64" else None
        if done is None:
            self.skipTest("the system call number is x86-64's")
        self.assertEqual((done.code, done.outcome["cause"]), (75, "limit_exceeded"), done.err)


class Trees(unittest.TestCase):
    def test_escapees_that_ignore_term_are_gone_at_the_end(self):
        marker = f"escapee-{os.getpid()}"
        done = run("--limit", "100MiB", "--grace", "200ms", "--grace-per-gib", "0s", command=program("""
            import os, signal, sys, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for _ in range(5):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork(): os._exit(0)
                    time.sleep(1000)
            blocks = []
            for _ in range(300):
                blocks.append(bytearray(1 << 20)); time.sleep(0.002)
            time.sleep(1000)
        """) + [marker])
        self.assertEqual(done.code, 75)
        self.assertEqual(with_marker(marker), [])
        self.assertTrue(done.report["escape"]["detected"])
        self.assertGreaterEqual(done.report["escape"]["escaped_count"], 5)
        self.assertEqual(done.outcome["emptiness"], "proven")

    def test_forkers_that_never_stand_still(self):
        marker = f"hopper-{os.getpid()}"
        done = run("--limit", "1GiB", "--wall-time", "300ms", "--grace", "100ms", "--grace-per-gib", "0s",
                   command=program("""
            import os, signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            for _ in range(3):
                if os.fork() == 0:
                    while True:
                        if os.fork(): os._exit(0)
                        os.setsid()
            time.sleep(1000)
        """) + [marker])
        self.assertEqual((done.code, done.outcome["cause"]), (75, "wall_time"), done.err)
        self.assertEqual(with_marker(marker), [])
        self.assertEqual(done.outcome["emptiness"], "proven")

    def test_root_exit_takes_the_rest_along(self):
        marker = f"orphan-{os.getpid()}"
        done = run("--limit", "1GiB", command=["sh", "-c", f"sh -c 'sleep 1000; : {marker}' & exit 5"])
        self.assertEqual(done.code, 5)
        self.assertEqual(done.report["signals"][0]["reason"], "root_exited")
        self.assertEqual(with_marker(marker), [])

    def test_stopped_processes_are_ended_too(self):
        done = run("--limit", "1GiB", "--wall-time", "200ms", "--grace", "5s",
                   command=["sh", "-c", "kill -STOP $$; sleep 1000"])
        self.assertEqual(done.code, 75)
        self.assertEqual([s["signal"] for s in done.report["signals"]], ["SIGTERM"])


class Launching(unittest.TestCase):
    def look(self, source, **named):
        done = run("--limit", "1GiB", "--quiet", command=program(source), **named)
        self.assertEqual(done.code, 0, done.err)
        return json.loads(done.out)

    def test_no_foreign_descriptor(self):
        read, write = os.pipe()
        os.set_inheritable(write, True)
        try:
            with tempfile.TemporaryDirectory() as directory:
                done = subprocess.run(
                    [SUPERVISE, "run", "--quiet", "--limit", "1GiB", "--run-dir", directory + "/run", "--",
                     "ls", "-l", "/proc/self/fd"], capture_output=True, text=True, close_fds=False, timeout=60)
        finally:
            os.close(read)
            os.close(write)
        # 0, 1, 2 and the one that ls itself opened
        self.assertEqual(len([line for line in done.stdout.splitlines() if "->" in line]), 4, done.stdout)

    def test_signals_are_reset(self):
        def ignore_all():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGPIPE):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGALRM})
        done = subprocess.run([SUPERVISE, "run", "--quiet", "--limit", "1GiB", "--", "grep", "Sig", "/proc/self/status"],
                              capture_output=True, text=True, preexec_fn=ignore_all, timeout=60)
        values = dict(line.split(":\t") for line in done.stdout.splitlines())
        self.assertEqual(int(values["SigBlk"], 16), 0, done.stdout)
        self.assertEqual(int(values["SigIgn"], 16), 0, done.stdout)

    def test_own_group_and_oom_score(self):
        seen = self.look("""
            import json, os
            print(json.dumps([os.getpgrp() == os.getpid(), int(open('/proc/self/oom_score_adj').read())]))
        """)
        self.assertEqual(seen, [True, 1000])

    def test_environment(self):
        env = {**os.environ, "BULKHEAD_STATE": "x", "NOTIFY_SOCKET": "y", "LISTEN_FDS": "3",
               "MLX_GUARD_CHECKPOINT_FD": "9", "KEPT": "yes"}
        env.pop("PYTHONUNBUFFERED", None)
        seen = self.look("import json, os; print(json.dumps(dict(os.environ)))", env=env)
        for name in ("BULKHEAD_STATE", "NOTIFY_SOCKET", "LISTEN_FDS", "MLX_GUARD_CHECKPOINT_FD", "LD_PRELOAD"):
            self.assertNotIn(name, seen)
        self.assertEqual((seen["KEPT"], seen["PYTHONUNBUFFERED"]), ("yes", "1"))

    def test_literal_arguments(self):
        odd = ["$HOME", "a b", "*", "'", "--", "-x", "é\n"]
        done = run("--limit", "1GiB", "--quiet", command=program("import json, sys; print(json.dumps(sys.argv[1:]))") + odd)
        self.assertEqual(json.loads(done.out), odd)

    def test_limits_and_nice_are_the_callers(self):
        seen = self.look("""
            import json, os, resource
            print(json.dumps([resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0), os.sched_getscheduler(0)]))
        """)
        import resource
        self.assertEqual(seen[0], list(resource.getrlimit(resource.RLIMIT_NOFILE)))
        self.assertEqual(seen[1], os.nice(0))
        self.assertEqual(seen[2], os.SCHED_OTHER)

    def test_job_dies_with_a_killed_supervisor(self):
        with running("--limit", "1GiB", command=[PYTHON, "-c", HOLD, "1"]) as supervisor:
            self.assertEqual(supervisor.stdout.readline(), "ready\n")
            children = pathlib.Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
            supervisor.kill()
            supervisor.wait()
            wait_until(lambda: not any(alive(int(child)) for child in children), "the job ended with its supervisor")


class OwnSignals(unittest.TestCase):
    def test_a_signal_stops_and_a_second_kills(self):
        source = ("import signal, time; signal.signal(signal.SIGINT, lambda *_: print('heard', flush=True))\n"
                  "print('ready', flush=True)\nwhile True: time.sleep(1000)\n")
        with tempfile.TemporaryDirectory() as directory:
            report = os.path.join(directory, "report.json")
            with running("--limit", "1GiB", "--grace", "60s", "--report", report,
                         command=[PYTHON, "-c", source]) as supervisor:
                self.assertEqual(supervisor.stdout.readline(), "ready\n")
                child = int(pathlib.Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()[0])
                supervisor.send_signal(signal.SIGINT)
                self.assertEqual(supervisor.stdout.readline(), "heard\n")
                self.assertTrue(alive(child))
                supervisor.send_signal(signal.SIGINT)
                self.assertEqual(supervisor.wait(30), 128 + signal.SIGINT)
            outcome = json.loads(pathlib.Path(report).read_text())["outcome"]
        self.assertEqual((outcome["kind"], outcome["cause"]), ("policy_intervention", "user_stop"))

    def test_term_is_forwarded(self):
        with running("--limit", "1GiB", command=[PYTHON, "-c", HOLD, "1"]) as supervisor:
            self.assertEqual(supervisor.stdout.readline(), "ready\n")
            supervisor.send_signal(signal.SIGTERM)
            self.assertEqual(supervisor.wait(30), 128 + signal.SIGTERM)


class Observing(unittest.TestCase):
    def test_peaks_are_measured_and_nothing_is_stopped(self):
        done = run(verb="observe", command=program("""
            import time
            block = bytearray(200 << 20)
            for at in range(0, len(block), 4096): block[at] = 1
            time.sleep(0.3)
        """))
        self.assertEqual(done.code, 0)
        self.assertEqual(done.report["signals"], [])
        calibration = done.report["calibration"]
        self.assertFalse(calibration["safety_certified"])
        self.assertIsNone(calibration["automatic_limit_bytes"])
        self.assertGreater(calibration["peak_aggregate"]["value"], 200 * MIB)
        self.assertLess(calibration["peak_aggregate"]["value"], 240 * MIB)


class Directories(unittest.TestCase):
    def test_kept_directory_and_modes(self):
        with tempfile.TemporaryDirectory() as base:
            place = os.path.join(base, "run")
            done = run("--limit", "1GiB", "--run-dir", place, command=["true"])
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(os.stat(place).st_mode & 0o777, 0o700)
            for name in ("journal.bhj", "report.json", "status.bin", "spec.bin", "lock", "runtime"):
                self.assertEqual(os.stat(os.path.join(place, name)).st_mode & 0o777, 0o600, name)
            again = run("--limit", "1GiB", "--run-dir", place, command=["true"])
            self.assertEqual(again.code, 64)
            self.assertIn("run-dir", again.err)

    def test_nothing_is_left_of_a_temporary_one(self):
        runtime = pathlib.Path(os.environ.get("XDG_RUNTIME_DIR") or "/dev/shm")
        before = {p for p in runtime.glob("bulkhead*/*")}
        run("--limit", "1GiB", command=["true"])
        mine = {p for p in runtime.glob("bulkhead*/*")} - before
        wait_until(lambda: not any(p.exists() for p in mine), "the runtime folders are gone")

    def test_report_that_cannot_be_written_is_refused_first(self):
        with tempfile.TemporaryDirectory() as base:
            mark = os.path.join(base, "mark")
            done = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--report", base + "/no/such/r.json", "--",
                                   "touch", mark], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 64)
            self.assertIn("--report", done.stderr)
            self.assertFalse(os.path.exists(mark))


if __name__ == "__main__":
    unittest.main()
