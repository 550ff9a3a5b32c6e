"""bulkhead-policy as its user meets it: exit status, where errors go, standard input, help."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture

TOOL = str(fixture.BIN / "bulkhead-policy")
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden/policy"
CONFIG = '{"mode":"enforce","limit":100}'
TICK = '{"type":"tick","at":1}\n'
TOCK = '{"t":1,"state":"normal","actions":[],"next_deadline":null}\n'


def tool(*args, text=""):
    return subprocess.run([TOOL, *args], input=text, text=True, capture_output=True, timeout=60)


class PolicyTool(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def test_every_golden_through_the_program(self):
        for name in (GOLDEN / "cases.txt").read_text().split():
            case = GOLDEN / name
            done = tool("replay", str(case / "config.json"), str(case / "events.ndjson"))
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertEqual(done.stdout, (case / "expected.ndjson").read_text(), name)

    def test_standard_input(self):
        done = tool("replay", self.file("c", CONFIG), "-", text=TICK)
        self.assertEqual((done.returncode, done.stdout), (0, TOCK))
        done = tool("replay", "-", self.file("e", TICK), text=CONFIG)
        self.assertEqual((done.returncode, done.stdout), (0, TOCK))
        self.assertEqual(tool("replay", "-", "-").returncode, 64)

    def test_answers_before_the_next_event(self):
        done = subprocess.Popen([TOOL, "replay", self.file("c", CONFIG), "-"], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3):
            done.stdin.write(TICK)
            done.stdin.flush()
            self.assertEqual(done.stdout.readline(), TOCK)
        done.stdin.close()
        self.assertEqual(done.wait(60), 0)
        done.stdout.close()

    def test_refused_configs_name_the_key_and_print_nothing(self):
        events = self.file("e", TICK)
        for line in (GOLDEN / "refused_configs.tsv").read_text().splitlines():
            key, config = line.split("\t", 1)
            done = tool("replay", self.file("c", config), events)
            self.assertEqual((done.returncode, done.stdout), (64, ""), line)
            self.assertIn(f"key {key}:" if key else "config", done.stderr, line)

    def test_a_bad_line_is_numbered_and_the_lines_before_it_are_printed(self):
        bad = [line for line in (GOLDEN / "bad_lines.txt").read_bytes().split(b"\n") if line]
        config = self.file("c", CONFIG)
        path = self.folder / "e"
        for line in bad:
            path.write_bytes(TICK.encode() + b"\n" + TICK.encode() + line + b"\n" + TICK.encode())
            done = tool("replay", config, str(path))
            self.assertEqual((done.returncode, done.stdout), (64, TOCK * 2), line)
            self.assertIn("line 4:", done.stderr, line)

    def test_usage(self):
        for args in ([], ["replay"], ["replay", "c"], ["replay", "a", "b", "c"], ["play", "a", "b"], ["version", "x"]):
            done = tool(*args)
            self.assertEqual((done.returncode, done.stdout), (64, ""), args)
            self.assertIn("--help", done.stderr)
        self.assertEqual(tool("replay", "/nonexistent/c", "-").returncode, 64)
        self.assertEqual(tool("replay", self.file("c", CONFIG), "/nonexistent/e").returncode, 64)

    def test_help_and_version(self):
        done = tool("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("replay CONFIG.json EVENTS.ndjson", done.stdout)
        for key in ("required_breaches", "grace_per_gib_ns", "breach_hold_ns", "first_request_id"):
            self.assertIn(key, done.stdout)
        self.assertEqual(tool("replay", "--help").stdout, done.stdout)
        self.assertRegex(tool("version").stdout, r"^bulkhead-policy \d+\.\d+\.\d+\n$")

    def test_a_full_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TOOL, "replay", self.file("c", CONFIG), self.file("e", TICK)], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, env=os.environ)
        self.assertEqual(done.returncode, 74)
        self.assertIn("output", done.stderr)


if __name__ == "__main__":
    unittest.main()
