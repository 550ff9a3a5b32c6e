"""The example that saves a real MLX model: asked at its limit, and what it wrote can be loaded."""
import pathlib
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture
from bulkhead_fixture import PYTHON

SAVING = fixture.ROOT / "deploy/demo/saving.py"
LOADS = "import mlx.core as mx, sys; print(sum(v.size for v in mx.load(sys.argv[1]).values()))"


class Saving(unittest.TestCase):
    def run_saving(self, folder, *options):
        path, report = pathlib.Path(folder, "model.safetensors"), pathlib.Path(folder, "report.json")
        done = subprocess.run([str(fixture.BIN / "bulkhead-supervise"), "run", "--limit", "400MiB", "--emergency", "4GiB",
                               "--report", str(report), *options, "--", PYTHON, str(SAVING), "--to", str(path)],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=180)
        self.assertEqual(done.returncode, 75, done.stderr)
        return path, fixture.load_json(report)

    def test_it_saves_before_it_is_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            path, report = self.run_saving(folder, "--checkpoint-timeout", "60s")
            self.assertEqual(report["checkpoint"]["status"], "acknowledged_unverified_durability")
            self.assertEqual(report["checkpoint"]["artifact_bytes"]["value"], path.stat().st_size)
            self.assertEqual(report["signals"][0]["reason"], "checkpoint_acknowledged")
            loaded = subprocess.run([PYTHON, "-c", LOADS, str(path)], capture_output=True, text=True, timeout=120)
            self.assertEqual(int(loaded.stdout), 64 * 128 + 128 + 128 * 10 + 10, loaded.stderr)

    def test_it_runs_without_being_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            path, report = self.run_saving(folder)
            self.assertFalse(path.exists())
            self.assertEqual(report["signals"][0]["reason"], "not_negotiated")


if __name__ == "__main__":
    unittest.main()
