"""Planted markers in arguments, environment, working directory, output and names: none of them is in what is kept.
core/model/report.md, section 2."""
import json
import os
import pathlib
import signal
import time
import unittest

import bulkhead_fixture as fixture
from supervised import GIB, MIB, SUPERVISE, TEMP, HostileTest

# the files that a run directory shares with others; the spec and the job's own logs are its owner's
SCANNED = ("journal.bhj", "report.json", "reclamation.json", "status.bin", "samples.0", "samples.1")
MARKERS = {name: f"MARK{name.upper()}{n}SECRET" for n, name in enumerate(
    ("argument", "variable", "value", "directory", "output", "errors", "thread", "runpath", "reportpath", "grandchild",
     "checkpoint", "title"))}

PROGRAM = """
import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(15, b"{thread}", 0, 0, 0)   # the name that ps shows
print("{output}", flush=True)
print("{errors}", file=sys.stderr, flush=True)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(0.6)", "{grandchild}"])
x = bytearray(b"x") * (100 << 20)
for _ in range({rounds}):
    time.sleep(0.05)
child.wait()
"""


class Redaction(HostileTest):
    def supervise(self, *options, rounds=20, limit=GIB, stop=None, kill=False):
        folder = pathlib.Path(self.enterContext(fixture.tempfile.TemporaryDirectory(dir=TEMP)))
        cwd = folder / MARKERS["directory"]
        cwd.mkdir()
        run_dir = folder / MARKERS["runpath"]
        report = folder / MARKERS["reportpath"]
        program = cwd / "program.py"
        program.write_text(PROGRAM.format(rounds=rounds, **MARKERS))
        (folder / "state/bulkhead").mkdir(parents=True)  # where the key of the correlation hash is kept
        env = {**os.environ, MARKERS["variable"]: MARKERS["value"], "XDG_STATE_HOME": str(folder / "state")}
        process = fixture.subprocess.Popen(
            [SUPERVISE, "run", "--limit", str(limit), "--run-dir", run_dir, "--report", report, "--json", *options, "--",
             fixture.PYTHON, "-S", program, MARKERS["argument"]], cwd=cwd, env=env, stdin=fixture.subprocess.DEVNULL,
            stdout=fixture.subprocess.PIPE, stderr=fixture.subprocess.PIPE)
        self.assertEqual(process.stdout.readline().decode().strip(), MARKERS["output"])
        if stop:
            process.send_signal(stop)
        if kill:
            process.kill()
        _, errors = process.communicate(timeout=fixture.DEADLINE_S)
        fixture.wait_until((run_dir / "report.json").exists, "the report is there")
        if not kill:  # 10 s later, and by the scribe alone
            fixture.wait_until((run_dir / "reclamation.json").exists, "the first readings are there", 30)
        self.errors = errors.decode().replace(MARKERS["errors"], "", 1)  # the job's own word
        files = {name: (run_dir / name).read_bytes() for name in SCANNED if (run_dir / name).exists()}
        if report.exists():
            files["--report"] = report.read_bytes()
        files["standard error"] = self.errors.encode()
        return files

    def assert_clean(self, files):
        self.assertIn("journal.bhj", files)
        self.assertIn("report.json", files)
        for name, data in files.items():
            for planted, marker in MARKERS.items():
                for form in (marker.encode(), marker.encode("utf-16-le"), marker.encode()[:15]):
                    self.assertNotIn(form, data, f"the marker of {planted} is in {name}")
        report = json.loads(files["report.json"])
        self.assertEqual(report["run"]["argument_count"], 3)
        self.assertRegex(report["run"]["correlation_hash"], "^[0-9a-f]{32}$")
        self.assertEqual(report["run"]["executable_basename"], pathlib.Path(fixture.PYTHON).name)

    def test_normal_end(self):
        self.assert_clean(self.supervise(rounds=5))

    def test_stopped_at_its_limit(self):
        files = self.supervise(limit=64 * MIB)
        self.assert_clean(files)
        self.assertEqual(json.loads(files["report.json"])["outcome"]["kind"], "policy_intervention")

    def test_stopped_by_its_user(self):
        self.assert_clean(self.supervise(rounds=200, stop=signal.SIGTERM))

    def test_lost_supervisor(self):
        self.assert_clean(self.supervise(rounds=200, kill=True))

    def test_checkpoint_file(self):
        self.assert_clean(self.supervise("--checkpoint-signal", "SIGCONT", "--checkpoint-path", MARKERS["checkpoint"],
                                         "--checkpoint-timeout", "200ms", limit=64 * MIB))

    def test_modes_of_what_is_kept(self):
        job = self.job("sh", "-c", "exit 0", limit=GIB)
        job.finish()
        self.assertEqual(job.run_dir.stat().st_mode & 0o777, 0o700)
        for path in job.run_dir.iterdir():
            self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)


if __name__ == "__main__":
    unittest.main()
