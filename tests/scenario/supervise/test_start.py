"""`bulkhead-supervise start RUNDIR` and its control socket."""
import json
import os
import pathlib
import subprocess
import time
import unittest

from supervise_support import (CHECKPOINT, EV_FINAL, EV_RECORD, EV_SAMPLE, BYE, ERROR, KILL, LIMITS, MEMBERS, MIB,
                               RECORDING, SIGNAL, STATUS, STOP, SUPERVISE, TAG_DETAIL, TAG_ERROR, TAG_GRACE, TAG_LIMIT,
                               TAG_MARK, TAG_MAX, TAG_MEMBER, TAG_MIN, TAG_PID, TAG_REVISION, TAG_SIGNAL, TAG_STATUS,
                               WATCH, WELCOME, Control, program, run_directory, text, u64, wait_until)

SLEEP = ["sleep", "1000"]


def start(directory):
    return subprocess.run([SUPERVISE, "start", directory], capture_output=True, text=True, timeout=60)


def report(directory):
    path = pathlib.Path(directory, "report.json")
    wait_until(path.exists, "the report")
    return json.loads(path.read_text())


class Started:
    """A started job that is killed at the end, whatever the test did."""

    def __init__(self, test, *arguments, command=SLEEP, **named):
        self.context = run_directory(*arguments, command=command, **named)
        self.directory = self.context.__enter__()
        done = start(self.directory)
        test.assertEqual((done.returncode, done.stderr), (0, ""))
        self.control = Control(self.directory)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        try:
            if not os.path.exists(os.path.join(self.directory, "report.json")):
                control = Control(self.directory)
                control.ask(KILL)
                control.close()
                report(self.directory)
        except (OSError, AssertionError):
            pass
        self.control.close()
        self.context.__exit__(None, None, None)


class Starting(unittest.TestCase):
    def test_ready_when_it_runs_and_nobodys_child(self):
        with Started(self, "--limit", "1GiB") as job:
            self.assertEqual(job.control.welcome.kind, WELCOME)
            status = job.control.welcome.get(TAG_STATUS)
            self.assertEqual(len(status), 256)
            members = job.control.ask(MEMBERS)
            pids = [dict(group)[TAG_PID] for tag, group in members.items if tag == TAG_MEMBER]
            self.assertEqual(len(pids), 1)
            parent = pathlib.Path(f"/proc/{pids[0]}/stat").read_text().rsplit(")", 1)[1].split()[1]
            grandparent, session = [pathlib.Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[i]
                                    for i in (1, 3)]
            self.assertNotEqual(int(grandparent), os.getpid())
            self.assertNotEqual(int(session), os.getsid(0))

    def test_launch_failure_is_typed_and_leaves_a_report(self):
        for command, code, status in ((["no-such-program"], "launch_not_found", 127),
                                      (["/etc/passwd"], "launch_not_executable", 126)):
            with self.subTest(command=command), run_directory("--limit", "1GiB", command=command) as directory:
                done = start(directory)
                self.assertEqual(done.returncode, status)
                self.assertEqual(json.loads(done.stdout)["code"], code)
                self.assertIn(code + ":", done.stderr)
                self.assertEqual(report(directory)["outcome"]["kind"], code)

    def test_bad_directories(self):
        self.assertEqual(start("/no/such/directory").returncode, 64)
        with run_directory("--limit", "1GiB", command=SLEEP) as directory:
            spec = pathlib.Path(directory, "spec.bin")
            data = bytearray(spec.read_bytes())
            data[-1] ^= 1
            spec.write_bytes(data)
            done = start(directory)
            self.assertEqual(json.loads(done.stdout)["code"], "checksum_mismatch")
            self.assertFalse(pathlib.Path(directory, "journal.bhj").exists())

    def test_second_start_is_refused(self):
        with Started(self, "--limit", "1GiB") as job:
            done = start(job.directory)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(json.loads(done.stdout)["code"], "busy")
            job.control.ask(KILL)
            report(job.directory)
            wait_until(lambda: json.loads(start(job.directory).stdout)["code"] == "already_exists", "the lock was free")

    def test_logs(self):
        with Started(self, "--limit", "1GiB", command=["sh", "-c", "echo out; echo err >&2; read x; echo eof"]) as job:
            report(job.directory)
            self.assertEqual(pathlib.Path(job.directory, "out.log").read_text(), "out\neof\n")
            self.assertEqual(pathlib.Path(job.directory, "err.log").read_text(), "err\n")


class Commands(unittest.TestCase):
    def test_hello_comes_first(self):
        with Started(self, "--limit", "1GiB") as job:
            rude = Control(job.directory, hello=False)
            self.assertEqual(rude.ask(STATUS).kind, ERROR)
            rude.close()

    def test_stop_and_final(self):
        with Started(self, "--limit", "1GiB") as job:
            job.control.ask(WATCH)
            job.control.ask(STOP)
            events = job.control.until(EV_FINAL)
            self.assertTrue(os.path.exists(os.path.join(job.directory, "report.json")))
            self.assertIsNone(events[-1].get(TAG_ERROR))
            self.assertGreaterEqual(len([e for e in events if e.kind == EV_RECORD]), 4)
            self.assertEqual(job.control.read().kind, BYE)
            self.assertIsNone(job.control.read())
            outcome = report(job.directory)["outcome"]
            self.assertEqual((outcome["kind"], outcome["cause"], outcome["signal"]),
                             ("policy_intervention", "user_stop", "SIGTERM"))

    def test_repeated_stop_does_not_escalate(self):
        source = program("""
            import signal, time
            signal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True))
            print('ready', flush=True)
            while True: time.sleep(1000)
        """)
        with Started(self, "--limit", "1GiB", "--grace", "60s", command=source) as job:
            log = pathlib.Path(job.directory, "out.log")
            wait_until(lambda: "ready" in log.read_text(), "the handler is installed")
            for _ in range(5):
                self.assertEqual(job.control.ask(STOP).kind, STOP)
            wait_until(lambda: "heard" in log.read_text(), "the signal came")
            self.assertEqual(log.read_text().count("heard"), 1)
            self.assertEqual(job.control.ask(KILL).kind, KILL)
            self.assertEqual([s["signal"] for s in report(job.directory)["signals"]], ["SIGTERM", "SIGKILL"])

    def test_stop_with_its_own_grace(self):
        source = program("""
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print('ready', flush=True)
            while True: time.sleep(1000)
        """)
        with Started(self, "--limit", "1GiB", "--grace", "60s", command=source) as job:
            log = pathlib.Path(job.directory, "out.log")
            wait_until(lambda: "ready" in log.read_text(), "the handler is installed")
            job.control.ask(STOP, u64(TAG_GRACE, 100_000_000))
            self.assertEqual(report(job.directory)["signals"][1]["reason"], "grace_expired")

    def test_signal_reaches_the_root_and_no_policy(self):
        source = program("""
            import signal, time
            signal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True))
            print('ready', flush=True)
            while True: time.sleep(1000)
        """)
        with Started(self, "--limit", "1GiB", command=source) as job:
            log = pathlib.Path(job.directory, "out.log")
            wait_until(lambda: "ready" in log.read_text(), "the handler is installed")
            self.assertEqual(job.control.ask(SIGNAL, u64(TAG_SIGNAL, 10)).kind, SIGNAL)
            wait_until(lambda: "heard" in log.read_text(), "the signal came")
            self.assertEqual(job.control.ask(SIGNAL, u64(TAG_SIGNAL, 99)).kind, ERROR)
            job.control.ask(KILL)
            signals = report(job.directory)["signals"]
            self.assertEqual((signals[0]["signal"], signals[0]["reason"]), ("SIGUSR1", "requested"))

    def test_limits_change_while_it_runs(self):
        source = program("""
            import time
            block = bytearray(200 << 20)
            for at in range(0, len(block), 4096): block[at] = 1
            print('ready', flush=True)
            time.sleep(1000)
        """)
        with Started(self, "--limit", "1GiB", command=source) as job:
            wait_until(lambda: "ready" in pathlib.Path(job.directory, "out.log").read_text(), "the memory is held")
            wrong = job.control.ask(LIMITS, u64(TAG_LIMIT, 100 * MIB) + u64(TAG_REVISION, 9))
            self.assertEqual(wrong.kind, ERROR)
            self.assertIn("revision", wrong.get(TAG_DETAIL))
            self.assertEqual(job.control.ask(LIMITS, u64(TAG_LIMIT, 1) + u64(TAG_REVISION, 1)).kind, ERROR)
            self.assertEqual(job.control.ask(LIMITS, u64(TAG_LIMIT, 190 * MIB) + u64(TAG_REVISION, 1)).kind, LIMITS)
            self.assertEqual(report(job.directory)["outcome"]["cause"], "limit_exceeded")

    def test_samples_are_at_most_four_a_second(self):
        with Started(self, "--limit", "1GiB", "--interval", "5ms") as job:
            job.control.ask(WATCH)
            begin = time.monotonic()
            samples = []
            while len(samples) < 6:
                frame = job.control.read()
                if frame.kind == EV_SAMPLE:
                    samples.append(frame)
            self.assertGreaterEqual(time.monotonic() - begin, 5 * 0.24)
            for sample in samples[1:]:
                self.assertLessEqual(sample.get(TAG_MIN), sample.get(TAG_MAX))

    def test_marks_and_unknown_requests(self):
        with Started(self, "--limit", "1GiB") as job:
            self.assertEqual(job.control.ask(RECORDING, text(TAG_MARK, "epoch 3")).kind, RECORDING)
            self.assertEqual(job.control.ask(CHECKPOINT).kind, ERROR)
            self.assertEqual(job.control.ask(39).kind, ERROR)
            job.control.ask(KILL)
            self.assertEqual(report(job.directory)["marks"][0]["label"], "epoch 3")

    def test_nonsense_ends_only_its_own_connection(self):
        with Started(self, "--limit", "1GiB") as job:
            bad = Control(job.directory)
            bad.socket.sendall(b"\xff" * 64)
            self.assertIsNone(bad.read())
            bad.close()
            self.assertEqual(job.control.ask(STATUS).kind, STATUS)

    def test_a_watcher_that_does_not_read_is_dropped_and_holds_nobody_up(self):
        source = program("""
            import subprocess, time
            while True:
                for _ in range(50): subprocess.run(['true'])
                time.sleep(0.1)
        """)
        with Started(self, "--limit", "1GiB", "--interval", "1ms", command=source) as job:
            deaf = Control(job.directory)
            deaf.ask(WATCH)
            for _ in range(40):
                self.assertEqual(job.control.ask(STATUS).kind, STATUS)
                time.sleep(0.02)
            job.control.ask(STOP)
            report(job.directory)
            deaf.close()


if __name__ == "__main__":
    unittest.main()
