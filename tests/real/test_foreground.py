"""The foreground command on real MLX: who held the memory is said on the terminal and stays out of the report."""
import pathlib
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture
from bulkhead_fixture import LEAKY, PYTHON

APPEND_LINE = next(n for n, line in enumerate(LEAKY.read_text().splitlines(), 1) if "history.append" in line)


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


if __name__ == "__main__":
    unittest.main()
