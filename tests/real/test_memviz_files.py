"""PyTorch's own torch/cuda/_memory_viz.py reads every golden snapshot: stats, trace, and the two plots
that need no network. (Its `memory` and `segments` commands fetch a script and are not run.)"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VIZ = os.environ.get("BULKHEAD_MEMORY_VIZ")


@unittest.skipUnless(VIZ, "BULKHEAD_MEMORY_VIZ is not set; tests/real/fetch_memory_viz.sh prints its path")
class Goldens(unittest.TestCase):
    def test_stats_trace_and_plots(self):
        for file in sorted((ROOT / "tests/golden/pickle").glob("*.pickle")):
            for command in ("stats", "trace", "trace_plot", "segment_plot"):
                with self.subTest(f"{command} {file.name}"), tempfile.TemporaryDirectory() as place:
                    plot = ["-o", os.path.join(place, "plot.html")] if command.endswith("plot") else []
                    done = subprocess.run([sys.executable, VIZ, command, str(file), *plot], capture_output=True,
                                          timeout=120)
                    self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
