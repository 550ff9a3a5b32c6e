"""Options, help text and man page say the same."""
import pathlib
import re
import subprocess
import unittest

from supervise_support import ROOT, SUPERVISE


class Documentation(unittest.TestCase):
    def test_every_option_is_in_help_and_man_page(self):
        table = re.findall(r'BH_OPTION\("(--[a-z-]+)"', (ROOT / "core/super/options.def").read_text())
        options = set(table) | {"--run-dir", "--report", "--quiet", "--json", "--help"}
        shown = subprocess.run([SUPERVISE, "run", "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(shown.returncode, 0)
        page = (ROOT / "deploy/man/bulkhead-supervise.1").read_text().replace("\\-", "-")
        self.assertEqual(set(re.findall(r"^  (--[a-z-]+)", shown.stdout, re.M)), options)
        self.assertEqual(set(re.findall(r"^\.B (--[a-z-]+)", page, re.M)), options)


if __name__ == "__main__":
    unittest.main()
