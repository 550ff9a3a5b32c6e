"""The recorder in other interpreters than the system's: BULKHEAD_PYTHONS, paths of interpreters that have mlx, joined by
`:` (`tests/run.sh --full` makes environments for those it finds). The byte oracle, and stacks line by line."""
import os
import re
import subprocess
import unittest

import test_recorder
from ring_file import WALK_PUBLIC, WALK_RAW

PYTHONS = [path for path in os.environ.get("BULKHEAD_PYTHONS", "").split(":") if path]
RAW_WALKED = ("3.11", "3.12", "3.13")


def version_of(python):
    return re.search(r"3\.\d+", subprocess.run([python, "-V"], text=True, capture_output=True, check=True).stdout)[0]


@unittest.skipUnless(PYTHONS, "other interpreters with mlx: name them in BULKHEAD_PYTHONS")
class Interpreters(test_recorder.Recorded):
    def check(self, python, name):
        plain = subprocess.run([python, str(test_recorder.PROGRAMS), name], text=True, capture_output=True, timeout=120)
        done = self.run_program(name, python=python)
        self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)
        ring = self.ring()
        ring.path.unlink()
        self.assert_oracle(ring)
        self.assertTrue(ring.python_version.startswith(version_of(python) + "."))
        self.assertEqual(ring.walk, WALK_RAW if version_of(python) in RAW_WALKED else WALK_PUBLIC)

    def test_oracle(self):
        for python in PYTHONS:
            for name in ("add", "training", "cache_limits"):
                with self.subTest(python=python, program=name):
                    self.check(python, name)

    def test_stacks_equal_traceback(self):
        for python in PYTHONS:
            with self.subTest(python=python):
                test_recorder.Stacks.compare_stacks(self, python)
                self.ring().path.unlink()
