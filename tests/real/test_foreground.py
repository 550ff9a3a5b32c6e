"""The foreground command on real MLX: who held the memory is said on the terminal and stays out of the report."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture
from bulkhead_fixture import LEAKY, PYTHON

APPEND_LINE = next(n for n, line in enumerate(LEAKY.read_text().splitlines(), 1) if "history.append" in line)


# uses MLX until the journal beside its report says why it is not recorded
UNREACHED = """
import pathlib, sys, time
import mlx.core as mx
end = time.monotonic() + 60
while b"hooks_not_reached" not in pathlib.Path(sys.argv[1]).read_bytes() and time.monotonic() < end:
    mx.eval(mx.ones((10,)) + 1)
    time.sleep(0.01)
"""


class Foreground(unittest.TestCase):
    def run_leaky(self, *options):
        with tempfile.TemporaryDirectory() as directory:
            report = pathlib.Path(directory, "report.json")
            done = subprocess.run([str(fixture.BIN / "bulkhead-supervise"), "run", "--limit", "256MiB", "--report",
                                   str(report), *options, "--", PYTHON, str(LEAKY), "--pause", "0.005"],
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
            return done, report.read_text()

    def test_the_top_line_points_at_the_append(self):
        done, report = self.run_leaky("--record")
        self.assertEqual(done.returncode, 75, done.stderr)
        lines = done.stderr.splitlines()
        self.assertIn("256 MiB limit", lines[0])
        self.assertTrue(lines[1].startswith("At the limit"), lines)
        self.assertIn(f"remember (leaky.py:{APPEND_LINE})", lines[2])
        self.assertIn("Matmul", lines[2])
        self.assertIn("--run-dir", lines[-1], "nobody is told that the trace is gone")
        self.assertNotIn("leaky", report)
        self.assertNotIn("remember", report)

    def test_quiet_says_nothing(self):
        done, _ = self.run_leaky("--record", "--quiet")
        self.assertEqual((done.returncode, done.stderr), (75, ""))

    def test_without_recording_there_is_one_line(self):
        done, _ = self.run_leaky()
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def recorder(self, *command):
        """The report's words on the recorder; {journal} in the command is the journal's path."""
        with tempfile.TemporaryDirectory() as directory:
            place = pathlib.Path(directory, "run")
            command = [str(place / "journal.bhj") if word == "{journal}" else word for word in command]
            done = subprocess.run([str(fixture.BIN / "bulkhead-supervise"), "run", "--limit", "1GiB", "--quiet", "--record",
                                   "--run-dir", str(place), "--", *command], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads((place / "report.json").read_text())["recorder"]

    def assert_recorder(self, state, reason, *command):
        recorder = self.recorder(*command)
        self.assertEqual((recorder["state"], recorder["reason"]), (state, reason))

    def test_mlx_without_the_recorder_is_told_from_no_mlx(self):
        self.assert_recorder("absent", "hooks_not_reached", "env", "-u", "LD_PRELOAD", PYTHON, "-c", UNREACHED, "{journal}")
        self.assert_recorder("absent", "no_mlx", "true")
        self.assert_recorder("attached", None, PYTHON, "-c", "import mlx.core as mx; mx.eval(mx.ones((3,)))")

    @unittest.skipUnless(shutil.which("unshare") and subprocess.run(
        ["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0, "may not make pid namespaces")
    def test_a_pid_namespace_of_the_jobs_own(self):
        """Its pids mean nothing outside: the ring is read to the end all the same."""
        program = "import time, mlx.core as mx\nfor i in range(60):\n mx.eval(mx.ones((10,)) + i); time.sleep(0.01)"
        # not as process 1, of which the kernel may refuse to tell anything
        recorder = self.recorder("unshare", "--pid", "--fork", "sh", "-c", '"$@"; exit $?', "sh", PYTHON, "-c", program)
        self.assertEqual((recorder["state"], recorder["lost"]), ("attached", 0))
        self.assertGreaterEqual(recorder["events"], 120)


if __name__ == "__main__":
    unittest.main()
