"""Bad input: each a clear typed error, nothing launched, nothing lost. The API and the foreground command."""
import json
import os
import pathlib
import socket
import stat
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture


class OverTheApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server()
        cls.server = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def setUp(self):
        self.before = {j.id: j.state for j in self.server.client.jobs()}

    def tearDown(self):
        after = {j.id: j.state for j in self.server.client.jobs()}
        added = {i: s for i, s in after.items() if i not in self.before}
        self.assertTrue(all(s == "failed_to_start" for s in added.values()), f"something was launched: {added}")
        self.assertEqual({i: after.get(i) for i in self.before}, self.before, "a job was lost or changed")

    def post(self, body, headers=None):
        own = {"Authorization": "Bearer " + self.server.token(), "Content-Type": "application/json"}
        own.update(headers or {})
        own = {k: v for k, v in own.items() if v is not None}
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        status, answered, text = self.server.raw("POST", "/v1/jobs", data, own)
        self.assertEqual(answered.get("Content-Type"), "application/problem+json", text)
        problem = json.loads(text)
        self.assertEqual(problem["status"], status)
        for member in ("type", "title", "detail", "code"):
            self.assertTrue(problem.get(member), f"{member} is missing: {problem}")
        return status, problem

    def job(self, **changes):
        spec = {"command": ["/bin/true"], "limit": "1GiB", **changes}
        return {k: v for k, v in spec.items() if v is not None}

    def assert_field(self, problem, pointer):
        self.assertIn(pointer, [e["pointer"] for e in problem.get("errors", [])], problem)

    def test_unknown_member(self):
        status, problem = self.post(self.job(limt="1GiB"))
        self.assertEqual((status, problem["code"]), (422, "unknown_member"))
        self.assert_field(problem, "/limt")

    def test_limit_3g(self):
        status, problem = self.post(self.job(limit="3g"))
        self.assertEqual((status, problem["code"]), (422, "invalid_value"))
        self.assert_field(problem, "/limit")
        self.assertIn("3g", json.dumps(problem))
        self.assertIn("GiB", json.dumps(problem), "it does not show a right one")

    def test_neither_limit_nor_mode(self):
        status, problem = self.post(self.job(limit=None))
        self.assertEqual((status, problem["code"]), (422, "limit_or_mode_required"))
        self.assertIn("limit", problem["detail"])
        self.assertIn("mode", problem["detail"])

    def test_empty_command(self):
        status, problem = self.post(self.job(command=[]))
        self.assertEqual(status, 422)
        self.assert_field(problem, "/command")

    def test_missing_program(self):
        status, problem = self.post(self.job(command=["no-such-program-anywhere"]))
        self.assertEqual((status, problem["code"]), (422, "launch_not_found"))

    def test_not_executable_program(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("#!/bin/sh\n")
            file.flush()
            os.chmod(file.name, stat.S_IRUSR)
            status, problem = self.post(self.job(command=[file.name]))
        self.assertEqual((status, problem["code"]), (422, "launch_not_executable"))

    def test_argument_too_long_for_the_system(self):
        status, problem = self.post(self.job(command=["true", "x" * (200 << 10)]))
        self.assertEqual((status, problem["code"]), (422, "launch_too_long"))
        self.assert_field(problem, "/command")

    def test_unreadable_cwd(self):
        status, problem = self.post(self.job(cwd="/no/such/directory"))
        self.assertEqual((status, problem["code"]), (422, "launch_cwd"))

    def test_limit_above_the_host(self):
        status, problem = self.post(self.job(limit="900TiB"))
        self.assertEqual((status, problem["code"]), (422, "limit_exceeds_host"))

    def test_broken_json_and_duplicate_keys(self):
        for body in ("{", '{"command":["/bin/true"],"limit":1,"limit":2}', '{"command":["/bin/true"]} x', b"\xff\xfe{}", ""):
            with self.subTest(body=body):
                status, problem = self.post(body)
                self.assertEqual((status, problem["code"]), (400, "invalid_json"))

    def test_wrong_token(self):
        for value in (None, "Bearer " + "0" * 64, "Basic abc", "Bearer"):
            with self.subTest(value=value):
                status, problem = self.post(self.job(), {"Authorization": value})
                self.assertEqual((status, problem["code"]), (401, "unauthorized"))

    def test_foreign_host(self):
        for value in ("evil.example", f"localhost.:{self.server.port}", f"0.0.0.0:{self.server.port}", "127.0.0.1:1"):
            with self.subTest(value=value):
                status, problem = self.post(self.job(), {"Host": value})
                self.assertEqual((status, problem["code"]), (421, "wrong_host"))

    def test_foreign_origin(self):
        status, problem = self.post(self.job(), {"Origin": "http://evil.example"})
        self.assertEqual((status, problem["code"]), (403, "forbidden_origin"))

    def test_wrong_type_of_body(self):
        status, problem = self.post(self.job(), {"Content-Type": "text/plain"})
        self.assertEqual((status, problem["code"]), (415, "unsupported_media_type"))

    def test_body_too_large(self):
        # announced and refused before it is sent: a client that sends it all may see the connection close
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            connection.sendall((f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nAuthorization: Bearer "
                                f"{self.server.token()}\r\nContent-Type: application/json\r\nContent-Length: {2 << 20}"
                                "\r\n\r\n").encode() + b"{" * 4096)
            head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
        self.assertIn(b" 413 ", head.splitlines()[0])
        self.assertEqual(json.loads(body)["code"], "body_too_large")

    def test_unknown_job_and_method(self):
        headers = {"Authorization": "Bearer " + self.server.token()}
        status, _, text = self.server.raw("GET", "/v1/jobs/zzzzzzzzzzzzzzzzzzzz", headers=headers)
        self.assertEqual((status, json.loads(text)["code"]), (404, "not_found"))
        status, answered, text = self.server.raw("PUT", "/v1/jobs", b"{}", {**headers, "Content-Type": "application/json"})
        self.assertEqual((status, json.loads(text)["code"]), (405, "method_not_allowed"))
        self.assertIn("POST", answered["Allow"])


class InTheForeground(unittest.TestCase):
    def run_it(self, *arguments, cwd=None):
        return subprocess.run([str(fixture.BIN / "bulkhead-supervise"), *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, cwd=cwd, timeout=60)

    def refused(self, code, *arguments, says=(), cwd=None):
        with tempfile.TemporaryDirectory() as directory:
            mark = pathlib.Path(directory, "launched")
            arguments = [a.replace("MARK", str(mark)) for a in arguments]
            done = self.run_it(*arguments, cwd=cwd)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertFalse(mark.exists(), "the command was launched")
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertLessEqual(len(done.stderr.splitlines()), 8, done.stderr)

    def test_bad_arguments(self):
        touch = ["--", "touch", "MARK"]
        self.refused(64, "run", "--limit", "3g", *touch, says=["limit", "3g", "GiB"])
        self.refused(64, "run", "--limt", "1GiB", *touch, says=["--limt"])
        self.refused(64, "run", *touch, says=["--limit"])
        self.refused(64, "run", "--limit", "1GiB", "--", says=["command"])
        self.refused(64, "run", "--limit", "1GiB", "--warning", "2GiB", *touch, says=["warning"])
        self.refused(64, "run", "--limit", "1GiB", "--breaches", "0", *touch, says=["breaches"])
        self.refused(64, "run", "--limit", "1GiB", "--wall-time", "10", *touch, says=["wall-time"])
        self.refused(64, "run", "--limit", "1GiB", "--stop-signal", "SIGNOPE", *touch, says=["stop-signal"])
        self.refused(64, "frobnicate", says=["frobnicate"])

    def test_missing_and_not_executable(self):
        self.refused(127, "run", "--limit", "1GiB", "--", "no-such-program-anywhere", says=["no-such-program-anywhere"])
        self.refused(126, "run", "--limit", "1GiB", "--", "/etc/passwd", says=["/etc/passwd"])

    def test_deleted_cwd(self):
        gone = tempfile.mkdtemp()
        done = subprocess.run(["sh", "-c", f'cd "{gone}" && rmdir "{gone}" && exec "$0" run --limit 1GiB -- true',
                               str(fixture.BIN / "bulkhead-supervise")], capture_output=True, text=True, timeout=60)
        self.assertIn(done.returncode, (0, 126), done.stderr)

    def test_run_directory_that_is_a_link_or_not_ours(self):
        with tempfile.TemporaryDirectory() as directory:
            target = pathlib.Path(directory, "target")
            target.mkdir()
            link = pathlib.Path(directory, "link")
            link.symlink_to(target)
            done = self.run_it("run", "--limit", "1GiB", "--run-dir", str(link), "--", "true")
            self.assertEqual(done.returncode, 70, done.stderr)
            self.assertIn("symbolic link", done.stderr)
            self.assertEqual(list(target.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
