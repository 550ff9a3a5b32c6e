"""Runs programs under bulkhead-supervise and reads what it says about them: what the hostile scenarios
share. `load` is tests/helpers/load.c, compiled once per file of tests.

Nothing here waits blindly: a program says `ready` on its standard output and ends when its input ends.
"""
import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture

SUPERVISE = fixture.BIN / "bulkhead-supervise"
HELPERS = fixture.ROOT / "tests/helpers"
FULL = os.environ.get("BULKHEAD_FULL", "0") not in ("", "0")
MIB = 1 << 20
GIB = 1 << 30

TEMP = tempfile.mkdtemp(prefix="bulkhead-hostile-")
atexit.register(shutil.rmtree, TEMP, ignore_errors=True)


@functools.lru_cache(maxsize=None)
def load_program() -> pathlib.Path:
    target = pathlib.Path(TEMP, "load")
    subprocess.run(["cc", "-std=gnu11", "-O1", "-o", target, HELPERS / "load.c", HELPERS / "load_memory.c",
                    "-lpthread"], check=True)
    return target


def processes_of(program) -> list:
    """Pids of processes whose executable this is; zombies have none."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/exe") == str(program):
                    found.append(int(entry))
    return found


@functools.lru_cache(maxsize=None)
def kernel_ring() -> bool:
    """Whether a job's own control group holds and counts it here, as the report states its boundary: then nobody is missed
    whoever cannot be read, and the kernel itself kills at the emergency band."""
    with tempfile.TemporaryDirectory(prefix="bulkhead-ring-") as directory:
        report = os.path.join(directory, "report.json")
        subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--quiet", "--report", report, "--", "true"], check=True)
        return fixture.load_json(pathlib.Path(report))["host"]["boundary"] == "kernel_enforced"


class Job:
    """One foreground run. Use as a context: what is left of it at the end is killed, and that is a failure."""

    count = 0

    def __init__(self, *command, limit=None, options=(), mode=None, env=None, cwd=None, prefix=(), user=None, stdin=subprocess.PIPE,
                 **popen):
        Job.count += 1
        self.directory = pathlib.Path(TEMP, f"run-{Job.count}")
        self.run_dir = self.directory / "run"
        self.report_path = self.directory / "report.json"
        self.directory.mkdir()
        self.command = [str(word) for word in command]
        if self.command[0] == "load":  # a name of its own: so that leftovers are this run's
            self.program = self.directory / "load"
            os.link(load_program(), self.program)
            self.command[0] = str(self.program)
        else:
            self.program = None
        mode = mode or ("run" if limit is not None else "observe")
        if user is not None:
            os.chmod(TEMP, 0o711)
            os.chown(self.directory, user, user)
            prefix = (*prefix, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        self.argv = [*prefix, str(SUPERVISE), mode, *(["--limit", str(limit)] if limit is not None else []),
                     "--run-dir", str(self.run_dir), "--report", str(self.report_path), *map(str, options), "--",
                     *self.command]
        self.process = subprocess.Popen(self.argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                                        cwd=cwd, **popen)
        self.output = self.errors = b""

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        left = self.leftovers() if self.process.poll() is not None else []
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream and not stream.closed:
                stream.close()
        self.process.wait()
        for pid in self.leftovers():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        if left and kind is None:
            raise AssertionError(f"left behind after the supervisor ended: {left}")

    def leftovers(self) -> list:
        """Live processes that run this run's program (its scribe lives on for ten seconds: not one of them)."""
        return [p for p in processes_of(self.program) if self.program]

    def wait_ready(self):
        line = self.process.stdout.readline()
        if line != b"ready\n":
            _, errors = self.process.communicate(timeout=fixture.DEADLINE_S)
            raise AssertionError(f"it did not say ready but {line!r}: {errors.decode()}")
        return self

    def end_input(self):
        self.process.stdin.close()
        self.process.stdin = None

    def wait(self, deadline_s=fixture.DEADLINE_S) -> int:
        """Its exit code; its input stays open until then."""
        stdin, self.process.stdin = self.process.stdin, None
        try:
            self.output, self.errors = self.process.communicate(timeout=deadline_s)
        finally:
            if stdin:
                stdin.close()
        return self.process.returncode

    def finish(self, deadline_s=fixture.DEADLINE_S) -> int:
        """Lets the program end by itself."""
        if self.process.stdin:
            self.end_input()
        return self.wait(deadline_s)

    def members(self) -> int:
        """How many processes it watches now, as status.bin has it (core/wire/status_file.c); 0 before the first."""
        with contextlib.suppress(OSError):
            status = (self.run_dir / "status.bin").read_bytes()
            if len(status) == 256:
                return int.from_bytes(status[48:52], "little")
        return 0

    @functools.cached_property
    def report(self) -> dict:
        return fixture.load_json(self.report_path)

    @property
    def outcome(self) -> dict:
        return self.report["outcome"]

    @property
    def peak(self) -> int:
        return self.report["peaks"]["sampled"]["aggregate"]["value"]

    def root_pid(self) -> int:
        """The job's first process: the child of the supervisor that leads a group of its own."""
        def find():
            with contextlib.suppress(OSError, ValueError):
                path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
                for pid in map(int, pathlib.Path(path).read_text().split()):
                    if os.getpgid(pid) == pid and os.readlink(f"/proc/{pid}/exe") != str(SUPERVISE):
                        return pid
            return None
        return fixture.wait_until(find, "the job was launched", pause_s=0.002)


def run(*command, **named) -> Job:
    """Runs to the end; the job with its report."""
    job = Job(*command, **named)
    with job:
        job.wait()
    return job


class HostileTest(unittest.TestCase):
    def job(self, *command, **named) -> Job:
        return self.enterContext(Job(*command, **named))

    def assert_stopped(self, job: Job, code: int, causes=("limit_exceeded", "emergency")):
        """Found, stopped as a whole, said so."""
        self.assertEqual(code, 75, f"{job.errors.decode()}\n{job.command}")
        outcome = job.outcome
        self.assertEqual(outcome["kind"], "policy_intervention", outcome)
        self.assertIn(outcome["cause"], causes, outcome)
        self.assertEqual(outcome["emptiness"], "proven", outcome)
        self.assertEqual(job.leftovers(), [])

    def assert_untouched(self, job: Job, code: int, expected: int = 0):
        self.assertEqual(code, expected, job.errors.decode())
        # what a root leaves behind is stopped in any case: that is no intervention
        signals = [s for s in job.report["signals"] if s["reason"] not in ("root_exited", "grace_expired")]
        self.assertEqual(signals, [], "it was signalled")
        states = {t["to"] for t in job.report["transitions"]}
        left = any(s["reason"] == "root_exited" for s in job.report["signals"])
        self.assertLessEqual(states, {"normal", "warning", "exited"} | ({"terminating", "emergency"} if left else set()))
        self.assertIn(job.outcome["kind"], ("child_exited",), job.outcome)
