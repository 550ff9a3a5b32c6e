"""The byte oracle over mlx_lm's own generation and LoRA training, and that both give the same results bit for bit."""
import pathlib
import subprocess

import ring_file
from bulkhead_fixture import PYTHON
from test_recorder import Recorded

PROGRAMS = pathlib.Path(__file__).with_name("recorder_lm_programs.py")
DEADLINE_S = 240  # compiling a training step's kernels takes most of it


class LanguageModels(Recorded):
    def run_both(self, name):
        def run(environment):
            return subprocess.run([PYTHON, str(PROGRAMS), name], env=environment, text=True, capture_output=True,
                                  timeout=DEADLINE_S)
        plain, recorded = run(None), run(self.environment())
        # with several streams plain MLX aborts at its exit at times, after everything was printed
        self.assertIn(plain.returncode, (0, -6), plain.stderr)
        self.assertIn(recorded.returncode, (0, -6), recorded.stderr)
        self.assertEqual(recorded.stdout, plain.stdout)
        self.assertGreater(len(plain.stdout), 100)
        return self.ring()

    def test_generate(self):
        ring = self.run_both("generate")
        self.assertEqual(len(self.assert_oracle(ring).marks), 3)
        self.assertGreater(len({slot["stream"] for slot in ring.allocations()} - {-1}), 1)
        names = {ring.strings[slot["primitive"]] for slot in ring.allocations()}
        self.assertLess({"Gather", "Matmul", "LogSumExp", "ArgReduce"}, names)

    def test_lora(self):
        ring = self.run_both("lora")
        self.assertEqual(len(self.assert_oracle(ring).marks), 2)
        self.assertTrue(any((name or "").startswith("Compiled") for name in ring.strings.values()))
        paths = [[frame[0] for frame in ring.stacks[slot["stack"]]] for slot in ring.allocations() if slot["stack"]]
        self.assertGreater(sum(any("mlx_lm/tuner" in path for path in stack) for stack in paths), 50)
