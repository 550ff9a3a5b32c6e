"""What a job finds around it when the server launches it: program, directory, environment, streams."""
import os
import pathlib
import tempfile
import unittest

import bulkhead
import bulkhead_fixture as fixture


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server()
        cls.server = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        tool = self.folder / "a-tool-of-this-test"
        tool.write_text("#!/bin/sh\necho found\n")
        tool.chmod(0o755)

    def output(self, *command, **spec):
        spec = {"mode": "observe", "record": False, **spec}
        job = self.server.client.launch(list(command), **spec)
        job.wait(timeout=30)
        return pathlib.Path(self.server.state, "jobs", job.id, "out.log").read_text()

    def test_a_program_on_the_jobs_own_path(self):
        with self.assertRaises(bulkhead.BulkheadError) as refused:
            self.output("a-tool-of-this-test")
        self.assertEqual(refused.exception.code, "launch_not_found")
        self.assertEqual(self.output("a-tool-of-this-test", env={"PATH": f"/no/such:{self.folder}"}), "found\n")

    def test_a_program_beside_the_jobs_directory(self):
        self.assertEqual(self.output("./a-tool-of-this-test", cwd=str(self.folder)), "found\n")

    def test_cleared_environment(self):
        self.assertEqual(self.output("/usr/bin/env", env={"A": "1 2"}, clear_env=True), "A=1 2\n")
        lines = self.output("/usr/bin/env", env={"A": "1 2", "HOME": "/nowhere"}).splitlines()
        self.assertLessEqual({"A=1 2", "HOME=/nowhere", "PYTHONUNBUFFERED=1"}, set(lines))
        self.assertEqual([line for line in lines if line.startswith(("BULKHEAD_", "MLX_GUARD_", "LISTEN_", "NOTIFY_"))], [])

    def test_preloaded_libraries_stay(self):
        library = next((fixture.BIN / ".." / "lib").rglob("libbulkhead-record.so"), None)
        if not library:
            self.skipTest("the recorder is not built")
        lines = self.output("/usr/bin/env", env={"LD_PRELOAD": "/no/such.so"}, record={"enabled": True}).splitlines()
        value = next(line for line in lines if line.startswith("LD_PRELOAD=")).partition("=")[2].split(":")
        self.assertEqual((value[0], os.path.basename(value[1]), len(value)), ("/no/such.so", "libbulkhead-record.so", 2))

    def test_streams_and_nothing_else(self):
        text = self.output("/bin/sh", "-c", "readlink /proc/self/fd/0; ls /proc/self/fd")
        self.assertEqual(text.split(), ["/dev/null", "0", "1", "2", "3"])  # 3 is the list itself


if __name__ == "__main__":
    unittest.main()
