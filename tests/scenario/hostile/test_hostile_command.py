"""The foreground command with bad input and odd surroundings, its exit codes, and that nothing is launched or lost.
core/super/supervision.md, section 9; core/model/report.md, section 4."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import unittest

import bulkhead_fixture as fixture
from supervised import GIB, MIB, SUPERVISE, TEMP, HostileTest, run


class Refused(unittest.TestCase):
    """Each bad line: exit 64, one line that names the field, and the command was not started."""

    def setUp(self):
        self.folder = self.enterContext(fixture.tempfile.TemporaryDirectory(dir=TEMP))
        self.mark = pathlib.Path(self.folder, "launched")

    def refuse(self, *options, mode="run", code=64, names=None, command=None, **popen):
        command = command or ["touch", str(self.mark)]
        self.mark.unlink(missing_ok=True)
        done = subprocess.run([SUPERVISE, mode, *options, "--", *command], capture_output=True, text=True,
                              timeout=15, stdin=subprocess.DEVNULL, **popen)
        self.assertIn(done.returncode, code if isinstance(code, tuple) else (code,), f"{options}: {done.stderr}")
        self.assertFalse(self.mark.exists(), f"{options}: it was launched")
        self.assertRegex(done.stderr, r"^bulkhead-supervise: [a-z_]+: ", options)
        self.assertEqual(done.stdout, "")
        if names:
            self.assertIn(names, done.stderr)

    def test_every_size_option(self):
        for option in ("--limit", "--warning", "--recovery", "--emergency", "--min-size", "--trace-max"):
            for value in ("3g", "", "-1", "1.5.2GiB", "0x10", "1 GiB", "99999999999999999999", "NaN", "1e9", "GiB",
                          "9223372036854775807"):
                limit = () if option == "--limit" else ("--limit", "1GiB")
                if value == "9223372036854775807" and option in ("--min-size", "--trace-max", "--emergency"):
                    continue  # a size like any other there
                with self.subTest(option=option, value=value):
                    self.refuse(*limit, option, value, names=option)

    def test_every_duration_option(self):
        for option in ("--hold", "--interval", "--min-interval", "--wall-time", "--checkpoint-timeout", "--grace",
                       "--grace-per-gib", "--grace-max", "--kill-retry", "--kill-wait"):
            for value in ("", "5", "-1s", "1.2.3s", "s", "99999999999999999999s", "1h30", "5 s"):
                with self.subTest(option=option, value=value):
                    self.refuse("--limit", "1GiB", option, value, names=option)

    def test_every_count_option(self):
        for option in ("--breaches", "--max-unusable"):
            for value in ("0", "", "-1", "1.5", "4294967296", "two"):
                with self.subTest(option=option, value=value):
                    self.refuse("--limit", "1GiB", option, value, names=option)

    def test_signals_and_words(self):
        for option, value in (("--stop-signal", "SIGNOPE"), ("--stop-signal", "0"), ("--stop-signal", "65"),
                              ("--stop-signal", ""), ("--checkpoint-signal", "USR"), ("--emergency-action", "stop"),
                              ("--stacks", "c"), ("--stop-signal", "SIGKILL"), ("--stop-signal", "SIGSTOP")):
            with self.subTest(option=option, value=value):
                self.refuse("--limit", "1GiB", option, value, names=option)

    def test_bands_out_of_order(self):
        for options, name in ((("--recovery", "950MiB"), "--recovery"), (("--warning", "2GiB"), "--warning"),
                              (("--emergency", "1GiB"), "--emergency"), (("--limit", "1"), "--limit")):
            limit = () if options[0] == "--limit" else ("--limit", "1GiB")
            with self.subTest(options=options):
                self.refuse(*limit, *options, names=name)

    def test_line(self):
        self.refuse(names="--limit")
        self.refuse("--limit", "1GiB", mode="observe", names="--limit")
        self.refuse("--limit", "1GiB", "--limit", "2GiB", names="--limit")
        self.refuse("--limit", "1GiB", "--no-such", names="--no-such")
        self.refuse("--limit", "1GiB", "-x")
        self.refuse("--limit", "1GiB", "--record=yes", names="--record")
        self.refuse("--limit", names="--limit")
        for line in (["run", "--limit", "1GiB"], ["run", "--limit", "1GiB", "--"], ["run", "--limit", "1GiB", "true"], [],
                     ["nonsense"], ["start"], ["adopt", "a", "b"]):
            done = subprocess.run([SUPERVISE, *line], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 64, f"{line}: {done.stderr}")
            self.assertTrue(done.stderr)

    def test_missing_and_not_executable(self):
        plain = pathlib.Path(self.folder, "plain")
        plain.write_text("not a program")
        plain.chmod(0o644)
        broken = pathlib.Path(self.folder, "broken")
        broken.write_bytes(b"\x7fELF" + bytes(40))
        broken.chmod(0o755)
        lost = pathlib.Path(self.folder, "lost")
        lost.write_text("#!/no/such/interpreter\n")
        lost.chmod(0o755)
        for command, code in ((["/no/such/program"], 127), (["no-such-program-at-all"], 127), ([str(plain)], 126),
                              ([self.folder], 126), ([str(broken)], 126), (["./nothing"], 127),
                              ([str(lost)], 127)):
            with self.subTest(command=command):
                self.refuse("--limit", "1GiB", code=code, command=command)

    def test_failed_launch_is_reported(self):
        for command, code, kind in ((["/no/such/program"], 127, "launch_not_found"),
                                    ([self.folder], 126, "launch_not_executable")):
            path = pathlib.Path(self.folder, kind)
            self.refuse("--limit", "1GiB", "--report", str(path), code=code, command=command)
            self.assertEqual(fixture.load_json(path)["outcome"]["kind"], kind)

    def test_deleted_working_directory(self):
        gone = pathlib.Path(self.folder, "gone")
        gone.mkdir()
        done = subprocess.run(["sh", "-c", f"cd {gone}; rmdir {gone}; exec {SUPERVISE} run --limit 1GiB -- touch {self.mark}"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        # a program that needs no working directory runs in a deleted one as it does without us
        self.assertIn(done.returncode, (0, 64, 126, 127), done.stderr)
        self.assertEqual(self.mark.exists(), done.returncode == 0)

    def test_run_directories(self):
        target = pathlib.Path(self.folder, "target")
        target.mkdir()
        link = pathlib.Path(self.folder, "link")
        link.symlink_to(target)
        file = pathlib.Path(self.folder, "file")
        file.write_text("mine")
        other = pathlib.Path(self.folder, "other")
        other.mkdir(mode=0o700)
        cases = [link, file, file / "below", pathlib.Path("/proc/nowhere"), "", "/" + "x/" * 3000]
        for mode in (0o777, 0o770, 0o1777):  # others could put what they like in the place of our files
            shared = pathlib.Path(self.folder, f"shared{mode:o}")
            shared.mkdir()
            shared.chmod(mode)
            cases.append(shared)
        if os.geteuid() == 0:
            os.chown(other, 65534, 65534)
            cases.append(other)
        for path in cases:
            with self.subTest(path=str(path)[:80]):
                self.refuse("--limit", "1GiB", "--run-dir", str(path), code=(64, 70))
        self.assertEqual(list(target.iterdir()), [])
        self.assertEqual(file.read_text(), "mine")
        self.assertEqual(list(other.iterdir()), [])

    def test_used_run_directory(self):
        path = pathlib.Path(self.folder, "used")
        first = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--run-dir", path, "--", "true"], stdin=subprocess.DEVNULL)
        self.assertEqual(first.returncode, 0)
        before = {p.name: p.read_bytes() for p in path.iterdir() if p.name != "reclamation.json"}
        self.refuse("--limit", "1GiB", "--run-dir", str(path), code=(64, 70))
        self.assertEqual({p.name: p.read_bytes() for p in path.iterdir() if p.name in before}, before)

    def test_reports(self):
        fifo = pathlib.Path(self.folder, "fifo")
        os.mkfifo(fifo)
        for path in ("/no/such/folder/report", self.folder, "", str(fifo)):
            with self.subTest(path=path):
                self.refuse("--limit", "1GiB", "--report", path, names="--report")

    def test_report_keeps_nothing_of_an_older_one(self):
        path = pathlib.Path(self.folder, "report")
        path.write_text("x" * 100000)
        done = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--report", path, "--", "true"], stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0)
        fixture.load_json(path)

    def test_report_that_is_lost_at_the_end(self):
        done = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--report", "/dev/full", "--", "true"],
                              capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 74, done.stderr)

    def test_variables_that_are_ours(self):
        """A caller cannot smuggle in a channel: the job sees none that we did not make."""
        env = {**os.environ, "MLX_GUARD_CHECKPOINT_FD": "0", "BULKHEAD_CHECKPOINT_FD": "0", "NOTIFY_SOCKET": "/x",
               "LISTEN_FDS": "3", "BULKHEAD_RUN_DIR": "/x"}
        done = subprocess.run([SUPERVISE, "observe", "--quiet", "--", "env"], env=env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        seen = [l for l in done.stdout.splitlines()
                if l.startswith(("MLX_GUARD", "BULKHEAD", "NOTIFY_SOCKET", "LISTEN_"))]
        self.assertEqual(seen, [])


class Codes(HostileTest):
    def check(self, code, kind, cause, *command, **named):
        job = run(*command, **{"limit": GIB, **named})
        outcome = job.outcome
        self.assertEqual((job.process.returncode, outcome["kind"], outcome["cause"]), (code, kind, cause), outcome)
        self.assertEqual(outcome["reported_exit_code"], code)
        self.assertTrue(outcome["sentence"].endswith("."), outcome["sentence"])
        self.assertEqual(job.errors.decode().strip().splitlines()[-1][:9], "bulkhead:")
        return job

    def test_every_exit_status_is_the_childs(self):
        for code in (0, 1, 2, 42, 64, 70, 74, 75, 126, 127, 128, 255):
            with self.subTest(code=code):
                self.check(code, "child_exited", "completed" if code == 0 else "child_error", "sh", "-c", f"exit {code}")

    def test_signals(self):
        for name, cause in (("SEGV", "crash_signal"), ("ABRT", "crash_signal"), ("KILL", "killed_by_other"),
                            ("TERM", "killed_by_other"), ("USR1", "killed_by_other")):
            with self.subTest(name=name):
                number = getattr(signal, "SIG" + name)
                self.check(128 + number, "child_signaled", cause, "sh", "-c", f"ulimit -c 0; kill -{name} $$")

    def test_real_time_signal(self):
        self.check(128 + 40, "child_signaled", "killed_by_other", "sh", "-c", "kill -40 $$")

    def test_policy(self):
        self.check(75, "policy_intervention", "wall_time", "sleep", "60", options=("--wall-time", "100ms"))

    def test_instant_child_keeps_its_status(self):
        for _ in range(30):
            job = run("/bin/false", limit=2 * MIB)
            self.assertEqual(job.process.returncode, 1, job.errors)

    def test_it_exits_by_itself_while_stopping(self):
        """It answers TERM with success: it is a policy intervention all the same, and its own status is kept apart."""
        program = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
        job = self.check(75, "policy_intervention", "wall_time", "sh", "-c", program, options=("--wall-time", "200ms"))
        self.assertEqual(job.outcome["child_status"]["exit_code"], 0)

    def test_observe_keeps_the_childs_code(self):
        self.check(7, "child_exited", "child_error", "sh", "-c", "exit 7", limit=None)


class Surroundings(HostileTest):
    def closed(self, *numbers):
        def close():
            for number in numbers:
                os.close(number)
        return close

    def test_closed_standard_descriptors(self):
        for numbers in ((0,), (1,), (2,), (0, 1), (0, 1, 2)):
            with self.subTest(closed=numbers), fixture.tempfile.TemporaryDirectory(dir=TEMP) as folder:
                report = pathlib.Path(folder, "report")
                out = pathlib.Path(folder, "out")
                done = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--run-dir", f"{folder}/run", "--report", report,
                                       "--", "sh", "-c", f"echo hello > {out}; echo to-''out; echo to-''err >&2; exit 3"],
                                      preexec_fn=self.closed(*numbers), timeout=fixture.DEADLINE_S)
                self.assertEqual(done.returncode, 3)
                self.assertEqual(out.read_text(), "hello\n")
                self.assertEqual(fixture.load_json(report)["outcome"]["exit_code"], 3)
                for file in pathlib.Path(folder, "run").iterdir():
                    self.assertNotIn(b"to-out", file.read_bytes(), "the job wrote into our files")
                    self.assertNotIn(b"to-err", file.read_bytes(), "the job wrote into our files")

    def test_output_is_the_jobs_own(self):
        job = run("sh", "-c", "printf out; printf err >&2", limit=GIB, options=("--quiet",))
        self.assertEqual((job.output, job.errors), (b"out", b"err"))

    def test_input_is_the_jobs_own(self):
        job = self.job("cat", limit=GIB)
        job.process.stdin.write(b"through\n")
        self.assertEqual(job.finish(), 0)
        self.assertEqual(job.output, b"through\n")

    def test_json_lines(self):
        job = run("load", "grow", "anon", 0, 200 * MIB, "plain", limit=32 * MIB, options=("--json", "--quiet"))
        lines = [json.loads(line) for line in job.errors.decode().splitlines()]
        self.assertLessEqual({"transition", "signal", "outcome"}, {l["type"] for l in lines})

    def test_broken_pipe_for_our_own_words(self):
        read, write = os.pipe()
        os.close(read)
        process = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--json", "--", "sh", "-c", "exit 9"], stderr=write,
                                 stdin=subprocess.DEVNULL)
        os.close(write)
        self.assertEqual(process.returncode, 9)

    def test_no_files_at_all(self):
        """RLIMIT_FSIZE 0, whatever the signal for it does: a full disk, said so, and nothing is launched."""
        for action in (signal.SIG_DFL, signal.SIG_IGN):
            with self.subTest(action=action):
                job = self.job("sh", "-c", "echo launched", limit=GIB,
                               preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, action),
                                                   resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))))
                self.assertEqual(job.wait(), 74)
                self.assertRegex(job.errors.decode(), "^bulkhead-supervise: [a-z_]+: ")
                self.assertEqual(job.output, b"")

    def test_umask_of_the_caller(self):
        """It is the job's, and nothing to our own files."""
        for mask in (0o000, 0o027, 0o777):
            with self.subTest(mask=oct(mask)):
                job = run("sh", "-c", "umask", limit=GIB, preexec_fn=lambda: os.umask(mask))
                self.assertEqual(job.process.returncode, 0, job.errors)
                self.assertEqual(int(job.output, 8), mask)
                self.assertEqual(job.run_dir.stat().st_mode & 0o777, 0o700)
                for path in [*job.run_dir.iterdir(), job.report_path]:
                    self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)

    def test_small_address_room_is_no_reason_to_fail(self):
        job = run("sh", "-c", "exit 4", limit=GIB, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0)))
        self.assertEqual(job.process.returncode, 4)

    def test_blocked_signals_of_the_caller(self):
        job = self.job("sleep", "60", limit=GIB,
                       preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)))
        job.root_pid()
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + 15)

    def test_child_handling_of_the_caller(self):
        job = run("sh", "-c", "exit 5", limit=GIB, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(job.process.returncode, 5)

    def test_foreign_child_of_the_caller(self):
        """A shell that execs us leaves us its children: none of the job's, never signalled, never waited for."""
        with fixture.tempfile.TemporaryDirectory(dir=TEMP) as folder:
            pid_file = pathlib.Path(folder, "pid")
            done = subprocess.run(["sh", "-c", f"sleep 30 >/dev/null 2>&1 & echo $! > {pid_file}; exec {SUPERVISE} run --limit 1GiB --wall-time "
                                   f"300ms --report {folder}/report -- sleep 60"], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=20)
            pid = int(pid_file.read_text())
            alive = pathlib.Path(f"/proc/{pid}/stat").exists()
            if alive:
                os.kill(pid, signal.SIGKILL)
            self.assertTrue(alive, "a child that was there before the job was stopped with it")
            self.assertEqual(done.returncode, 75)


if __name__ == "__main__":
    unittest.main()
