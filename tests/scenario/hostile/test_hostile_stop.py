"""How a job is ended: asked, given time, killed, and said to be gone only when it is. core/super/supervision.md, section 6."""
import fcntl
import os
import pathlib
import pty
import signal
import subprocess
import termios
import time
import unittest

import bulkhead_fixture as fixture
from supervised import FULL, GIB, MIB, HostileTest, kernel_ring, run


def names(job) -> list:
    return [(s["signal"], s["reason"]) for s in job.report["signals"]]


class Ladder(HostileTest):
    def test_deaf_tree_is_killed_after_its_grace(self):
        job = self.job("load", "deaf", 5, limit=GIB, options=("--grace", "300ms", "--grace-per-gib", "0s"))
        job.wait_ready()
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + 15)
        self.assertEqual(names(job), [("SIGTERM", "external_signal"), ("SIGKILL", "grace_expired")])
        term, kill = (s["at_ms"] for s in job.report["signals"])
        self.assertGreaterEqual(kill - term, 299)
        self.assertEqual(job.outcome["emptiness"], "proven")
        self.assertEqual(job.leftovers(), [])

    def test_second_interrupt_is_kill(self):
        job = self.job("load", "deaf", 3, limit=GIB, options=("--grace", "60s"))
        job.wait_ready()
        job.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(job.process.poll(), "the first one must leave it its grace")
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(), 128 + 2)
        self.assertEqual(names(job), [("SIGINT", "external_signal"), ("SIGKILL", "external_signal")])
        self.assertEqual(job.outcome["cause"], "user_stop")

    def test_each_stopping_signal_is_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            job = self.job("sleep", "60", limit=GIB)
            job.root_pid()
            job.process.send_signal(number)
            self.assertEqual(job.wait(), 128 + number)
            self.assertEqual(names(job)[0], (number.name, "external_signal"))
            self.assertEqual(job.outcome["child_status"]["signal"], number.name)

    def test_own_stop_signal_at_the_limit(self):
        program = ("import signal, sys, time\n"
                   "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                   "signal.signal(signal.SIGINT, lambda *a: sys.exit(5))\n"
                   "x = bytearray(b'x') * (80 << 20)\n"
                   "while True: time.sleep(0.05)\n")
        job = run(fixture.PYTHON, "-S", "-c", program, limit=64 * MIB,
                  options=("--stop-signal", "SIGINT", "--emergency", "1GiB"))
        self.assertEqual(job.process.returncode, 75)
        self.assertEqual(job.outcome["child_status"]["exit_code"], 5)
        self.assertEqual(names(job), [("SIGINT", "not_negotiated")])

    def test_grace_is_kept_while_memory_falls(self):
        """It gives back a little at a time for longer than its base grace: nobody kills it."""
        self.give_back("mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS")

    def test_grace_is_kept_while_shared_memory_falls(self):
        self.give_back("mmap.MAP_SHARED | mmap.MAP_ANONYMOUS")

    def give_back(self, flags):
        program = ("import mmap, signal, sys, time\n"
                   f"m = [mmap.mmap(-1, 4 << 20, flags={flags}) for _ in range(24)]\n"
                   "def free(*a):\n"
                   "    while m:\n"
                   "        m.pop().close(); time.sleep(0.15)\n"
                   "    sys.exit(6)\n"
                   "signal.signal(signal.SIGTERM, free)\n"
                   "for x in m: x.write(b'x' * (4 << 20))\n"
                   "while True: time.sleep(0.05)\n")
        job = run(fixture.PYTHON, "-S", "-c", program, limit=80 * MIB,
                  options=("--emergency", "1GiB", "--grace", "2s", "--grace-per-gib", "0s"))  # in all it takes 3.6 s
        self.assertEqual(job.outcome["child_status"]["exit_code"], 6, job.report["signals"])
        self.assertNotIn("SIGKILL", [s for s, _ in names(job)])

    def test_growth_in_the_grace_is_killed(self):
        program = ("import signal, time\n"
                   "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                   "x = []\n"
                   "while len(x) < 500: x.append(bytearray(b'x') * (1 << 20)); time.sleep(0.002)\n"
                   "time.sleep(30)\n")
        job = run(fixture.PYTHON, "-S", "-c", program, limit=80 * MIB, options=("--grace", "20s"))
        self.assertEqual(job.process.returncode, 75)
        self.assertEqual(job.outcome["child_status"]["signal"], "SIGKILL")
        if kernel_ring():  # the wall at 88 MiB is the emergency band: the kernel's KILL is as good as ours, and may be first
            self.assertIn(names(job)[-1], [("SIGKILL", "emergency"), ("SIGTERM", "not_negotiated")])
            self.assertLess(job.peak, 90 * MIB)
        else:
            self.assertEqual(names(job)[-1], ("SIGKILL", "emergency"))
            self.assertLess(job.peak, 200 * MIB)
        self.assertLess(job.outcome["at_ms"] - job.report["signals"][0]["at_ms"], 20000, "it was left to its grace")

    def test_emergency_action_term(self):
        job = run("load", "grow", "anon", 0, 300 * MIB, "plain", limit=64 * MIB,
                  options=("--breaches", 1000, "--emergency-action", "term", "--grace", "10s"))
        self.assertEqual(job.process.returncode, 75)
        self.assertEqual(names(job), [("SIGTERM", "emergency")])
        self.assertEqual(job.outcome["cause"], "emergency")

    def test_wall_time(self):
        job = run("sleep", "60", limit=GIB, options=("--wall-time", "300ms"))
        self.assertEqual(job.process.returncode, 75)
        self.assertEqual(job.outcome["cause"], "wall_time")
        self.assertGreaterEqual(job.report["signals"][0]["at_ms"], 300)

    def test_a_stopped_job_is_ended_all_the_same(self):
        program = "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(9))\nos.kill(os.getpid(), signal.SIGSTOP)\nsignal.pause()\n"
        job = run(fixture.PYTHON, "-S", "-c", program, limit=GIB, options=("--wall-time", "600ms", "--grace", "20s"))
        self.assertEqual(job.process.returncode, 75)
        self.assertEqual(job.outcome["child_status"]["exit_code"], 9)

    def test_large_job_is_given_back(self):
        """Killed with much memory: empty is said when it is, and the memory is back at the end."""
        size = 2 * GIB if FULL else 512 * MIB
        job = run("load", "grow", "anon", 0, size * 2, "plain", limit=size, options=("--breaches", 100000))
        self.assert_stopped(job, job.process.returncode, ("emergency",))


class Observe(HostileTest):
    def test_never_stops(self):
        job = self.job("load", "hold", "anon", 128 * MIB, mode="observe")
        job.wait_ready()
        time.sleep(0.4)
        self.assert_untouched(job, job.finish())
        calibration = job.report["calibration"]
        self.assertTrue(calibration["observation_only"])
        self.assertFalse(calibration["safety_certified"])
        self.assertIsNone(calibration["automatic_limit_bytes"])
        self.assertGreaterEqual(calibration["peak_aggregate"]["value"], 128 * MIB)

    def test_keeps_what_the_root_leaves(self):
        """The root ends, a descendant works on: observing means that it may."""
        with fixture.tempfile.TemporaryDirectory() as folder:
            mark = pathlib.Path(folder, "mark")
            job = run("sh", "-c", f"(sleep 0.5; echo done > {mark}) & exit 4", mode="observe")
            self.assertEqual(job.process.returncode, 4)
            self.assertEqual(mark.read_text(), "done\n")
        self.assertEqual(job.report["signals"], [])

    def test_is_stopped_by_its_user(self):
        job = self.job("sleep", "60", mode="observe")
        job.root_pid()
        job.process.send_signal(signal.SIGTERM)
        job.wait()
        self.assertEqual((job.outcome["kind"], job.outcome["cause"]), ("policy_intervention", "user_stop"))

    def test_kills_what_ignores_its_user(self):
        job = self.job("load", "deaf", 2, mode="observe", options=("--grace", "200ms"))
        job.wait_ready()
        job.process.send_signal(signal.SIGTERM)
        job.wait()
        self.assertEqual(names(job)[-1], ("SIGKILL", "grace_expired"))


class Around(HostileTest):
    """The supervisor's own surroundings."""

    def test_killed_supervisor(self):
        """The root hears of it at once, the scribe ends the rest and writes the report."""
        self.kill_supervisor(1.0)

    def test_killed_supervisor_right_after_a_fork(self):
        """What was born one reading ago is known to the scribe too."""
        self.kill_supervisor(0.1)

    def kill_supervisor(self, after_s):
        job = self.job("load", "escape", 4, 0, limit=GIB)
        job.wait_ready()
        time.sleep(after_s)  # two base intervals
        job.process.kill()
        job.process.wait()
        fixture.wait_until(lambda: not job.leftovers(), "the tree is gone", 15)
        report = job.run_dir / "report.json"
        fixture.wait_until(report.exists, "the report is written")
        report = fixture.load_json(report)
        self.assertEqual(report["outcome"]["kind"], "supervisor_lost", report["outcome"])
        if not report["capabilities"]["cgroup"]:  # only a group of its own can prove it then
            self.assertNotEqual(report["outcome"]["emptiness"], "proven")

    def test_stopped_in_the_background_of_a_shell(self):
        """A shell's & leaves SIGINT ignored; the job must not inherit that."""
        job = run("sh", "-c", "grep SigIgn /proc/self/status; grep SigBlk /proc/self/status", limit=GIB,
                  preexec_fn=lambda: [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGQUIT)])
        for line in job.output.decode().splitlines():
            self.assertEqual(int(line.split()[1], 16), 0, line)

    def test_no_descriptor_is_inherited(self):
        read, write = os.pipe()
        os.set_inheritable(write, True)
        job = run("sh", "-c", "ls /proc/self/fd", limit=GIB, close_fds=False, stdin=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        self.assertLessEqual(set(job.output.decode().split()), {"0", "1", "2", "3"})

    def test_limits_and_oom_score_of_the_job(self):
        import resource
        resource_limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        job = run("sh", "-c", "ulimit -Sn; ulimit -Hn; cat /proc/self/oom_score_adj; nice", limit=GIB)
        soft, hard, score, nice = job.output.decode().split()
        self.assertEqual((int(soft), int(hard)), resource_limits)
        self.assertEqual(int(score), 1000)
        self.assertEqual(int(nice), os.nice(0))

    def test_out_of_descriptors_is_an_incomplete_total(self):
        """Failing closed: what cannot be read is not zero. A group's own sum has those too that cannot be opened."""
        import resource
        job = self.job("load", "workers", MIB, 60, "idle", limit=GIB,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))
        if kernel_ring():
            job.wait_ready()
            time.sleep(0.5)
            self.assert_untouched(job, job.finish())
            self.assertLess(max(s["members"] for s in job.report["samples"]), 61)
            self.assertEqual(job.report["supervisor"]["incomplete_samples"], 0)
            return
        job.wait()
        self.assertEqual(job.process.returncode, 70)
        self.assertEqual(job.outcome["cause"], "observation_failed", job.outcome)
        self.assertIn("not enough descriptors", job.outcome["sentence"])
        self.assertEqual(job.leftovers(), [])

    def test_terminal_is_handed_over_and_taken_back(self):
        master, slave = pty.openpty()
        program = "import os\nprint(os.tcgetpgrp(0) == os.getpgrp(), os.isatty(0), flush=True)\n"
        wrapper = (f"import os, subprocess, sys\n"
                   f"code = subprocess.call(sys.argv[1:])\n"
                   f"print('back', os.tcgetpgrp(0) == os.getpgrp(), code, flush=True)\n")
        process = subprocess.Popen([fixture.PYTHON, "-c", wrapper, str(fixture.BIN / "bulkhead-supervise"), "run", "--limit",
                                    "1GiB", "--quiet", "--", fixture.PYTHON, "-c", program],
                                   stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        process.wait(timeout=fixture.DEADLINE_S)
        os.close(slave)
        text = b""
        try:
            while chunk := os.read(master, 4096):
                text += chunk
        except OSError:
            pass
        os.close(master)
        self.assertIn(b"True True", text)  # in the foreground, on the terminal
        self.assertIn(b"back True 0", text)

    def test_stop_and_continue_reach_the_job(self):
        job = self.job("sleep", "60", limit=GIB)
        pid = job.root_pid()
        state = lambda p: pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()[0]
        fixture.wait_until(lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "it runs")
        job.process.send_signal(signal.SIGTSTP)
        fixture.wait_until(lambda: state(pid) == "T" and state(job.process.pid) == "T", "both are stopped")
        job.process.send_signal(signal.SIGCONT)
        fixture.wait_until(lambda: state(pid) == "S" and state(job.process.pid) == "S", "both run again")
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + 15)
        self.assertEqual(job.outcome["cause"], "user_stop")


if __name__ == "__main__":
    unittest.main()
