"""The foreground command on real MLX: who held the memory is said on the terminal and stays out of the report."""
import json
import pathlib
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

    def record(self, *command):
        """What the report says of the recorder; {journal} in the command is the journal's path."""
        with tempfile.TemporaryDirectory() as directory:
            place = pathlib.Path(directory, "run")
            command = [str(place / "journal.bhj") if word == "{journal}" else word for word in command]
            done = subprocess.run([str(fixture.BIN / "bulkhead-supervise"), "run", "--limit", "1GiB", "--quiet", "--record",
                                   "--run-dir", str(place), "--", *command], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            recorder = json.loads((place / "report.json").read_text())["recorder"]
            return recorder["state"], recorder["reason"]

    def test_mlx_without_the_recorder_is_told_from_no_mlx(self):
        self.assertEqual(self.record("env", "-u", "LD_PRELOAD", PYTHON, "-c", UNREACHED, "{journal}"),
                         ("absent", "hooks_not_reached"))
        self.assertEqual(self.record("true"), ("absent", "no_mlx"))
        self.assertEqual(self.record(PYTHON, "-c", "import mlx.core as mx; mx.eval(mx.ones((3,)))"), ("attached", None))


if __name__ == "__main__":
    unittest.main()
