"""Security of the TCP listener and the socket: every refusal typed, nothing done."""
import http.client
import json
import os
import pathlib
import re
import socket
import stat
import subprocess
import unittest

import bulkhead_fixture as fixture

JOB = json.dumps({"command": ["/bin/true"], "mode": "observe", "record": False})
TYPE = {"Content-Type": "application/json"}


class Security(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server()
        cls.server = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def bearer(self, **more):
        return {"Authorization": "Bearer " + self.server.token(), **more}

    def raw_bytes(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as connection:
            connection.sendall(data)
            connection.settimeout(20)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
                if b"\r\n\r\n" in answer and b"}" in answer:
                    break
            return answer

    def refused(self, method, path, body, headers, status, code):
        got, answered, text = self.server.raw(method, path, body, headers)
        self.assertEqual(got, status, text)
        self.assertEqual(answered["Content-Type"], "application/problem+json")
        self.assertEqual(json.loads(text)["code"], code)
        self.assertNotIn("Access-Control-Allow-Origin", answered)
        return answered

    def test_host(self):
        for host in ("evil.example", f"evil.example:{self.server.port}", "0.0.0.0:%d" % self.server.port,
                     f"localhost.:{self.server.port}", "localhost"):
            self.refused("GET", "/v1/jobs", None, self.bearer(Host=host), 421, "wrong_host")
        for host in ("localhost", "127.0.0.1", "[::1]"):
            status, _, _ = self.server.raw("GET", "/v1/jobs", None,
                                           self.bearer(Host=f"{host}:{self.server.port}"))
            self.assertEqual(status, 200)

    def test_host_absent_or_repeated(self):
        token = self.server.token().encode()
        own = b"127.0.0.1:%d" % self.server.port
        for head in (b"", b"Host: " + own + b"\r\nHost: " + own + b"\r\n"):
            answer = self.raw_bytes(b"GET /v1/jobs HTTP/1.1\r\n" + head + b"Authorization: Bearer " + token +
                                    b"\r\n\r\n")
            self.assertRegex(answer[:20], rb"^HTTP/1\.1 4(21|00) ")

    def test_absolute_target_with_another_authority(self):
        token = self.server.token().encode()
        own = b"127.0.0.1:%d" % self.server.port
        answer = self.raw_bytes(b"GET http://evil.example/v1/jobs HTTP/1.1\r\nHost: " + own +
                                b"\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 421 "), answer[:80])
        answer = self.raw_bytes(b"GET http://" + own + b"/v1/jobs HTTP/1.1\r\nHost: " + own +
                                b"\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:80])

    def test_token(self):
        answered = self.refused("GET", "/v1/jobs", None, {}, 401, "unauthorized")
        self.assertTrue(answered["WWW-Authenticate"].startswith("Bearer"))
        for value in ("Bearer wrong", "Basic x", "Bearer " + self.server.token()[:-1]):
            self.refused("GET", "/v1/jobs", None, {"Authorization": value}, 401, "unauthorized")
        for scheme in ("Bearer ", "bearer ", "BEARER "):
            status, _, _ = self.server.raw("GET", "/v1/jobs", None,
                                           {"Authorization": scheme + self.server.token()})
            self.assertEqual(status, 200)
        for path in ("/openapi.json", "/metrics", "/v1/info", "/v1/nothing"):
            self.refused("GET", path, None, {}, 401, "unauthorized")

    def test_open_routes(self):
        for path in ("/livez", "/readyz"):
            status, _, text = self.server.raw("GET", path)
            self.assertEqual(status, 200)
            self.assertLessEqual(len(text), 64)
        status, answered, _ = self.server.raw("GET", "/")
        self.assertEqual(status, 200)
        policy = answered["Content-Security-Policy"]
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(answered["X-Content-Type-Options"], "nosniff")
        self.assertEqual(answered["Referrer-Policy"], "no-referrer")
        self.assertEqual(answered["Cross-Origin-Resource-Policy"], "same-origin")

    def test_origin_and_fetch_site(self):
        own = f"http://127.0.0.1:{self.server.port}"
        for origin in ("http://evil.example", "null", own.replace("127.0.0.1", "localhost"), own + ".evil"):
            self.refused("POST", "/v1/jobs", JOB, self.bearer(Origin=origin, **TYPE), 403, "forbidden_origin")
        self.refused("POST", "/v1/jobs", JOB, self.bearer(**{"Sec-Fetch-Site": "cross-site"}, **TYPE), 403,
                     "forbidden_origin")
        status, _, _ = self.server.raw("GET", "/v1/jobs", None, self.bearer(Origin="http://evil.example"))
        self.assertEqual(status, 200)  # ignored on GET: without CORS headers nobody can read it
        status, _, text = self.server.raw("POST", "/v1/jobs", JOB, self.bearer(Origin=own, **TYPE))
        self.assertEqual(status, 201, text)

    def test_content_type(self):
        for kind in (None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
            headers = self.bearer(**({"Content-Type": kind} if kind else {}))
            self.refused("POST", "/v1/jobs", JOB, headers, 415, "unsupported_media_type")

    def test_login_cookie_and_csrf(self):
        own = f"http://127.0.0.1:{self.server.port}"
        code = self.server.login_url.split("#code=")[1]
        self.refused("POST", "/v1/login", json.dumps({"code": "0" * 64}), {"Origin": own, **TYPE}, 401,
                     "login_refused")
        self.refused("POST", "/v1/login", json.dumps({"code": code}), TYPE, 403, "forbidden_origin")
        status, answered, text = self.server.raw("POST", "/v1/login", json.dumps({"code": code}),
                                                 {"Origin": own, **TYPE})
        self.assertEqual(status, 200, text)
        session = json.loads(text)
        cookie = answered["Set-Cookie"]
        self.assertRegex(cookie, rf"^bulkhead_{self.server.port}=[0-9a-f]{{64}}; ")
        self.assertIn("HttpOnly", cookie)
        self.assertIn("SameSite=Strict", cookie)
        self.assertRegex(session["expires_at"], r"^\d{4}-\d\d-\d\dT.*Z$")
        self.refused("POST", "/v1/login", json.dumps({"code": code}), {"Origin": own, **TYPE}, 401,
                     "login_refused")  # once only
        mine = {"Cookie": cookie.split(";")[0]}
        status, _, _ = self.server.raw("GET", "/v1/jobs", None, mine)
        self.assertEqual(status, 200)
        self.refused("POST", "/v1/jobs", JOB, {**mine, "Origin": own, **TYPE}, 403, "csrf_required")
        self.refused("POST", "/v1/jobs", JOB, {**mine, "X-Bulkhead-CSRF": session["csrf"], **TYPE}, 403,
                     "forbidden_origin")
        status, _, text = self.server.raw("POST", "/v1/jobs", JOB,
                                          {**mine, "Origin": own, "X-Bulkhead-CSRF": session["csrf"], **TYPE})
        self.assertEqual(status, 201, text)

    def test_login_link_is_fresh_and_works(self):
        out = subprocess.run([str(fixture.BIN / "bulkheadd"), "--state", self.server.state, "--login-link"],
                             capture_output=True, text=True, timeout=20, check=True).stdout.strip()
        self.assertRegex(out, rf"^http://127\.0\.0\.1:{self.server.port}/#code=[0-9a-f]{{64}}$")
        own = f"http://127.0.0.1:{self.server.port}"
        status, _, _ = self.server.raw("POST", "/v1/login", json.dumps({"code": out.split("=")[1]}),
                                       {"Origin": own, **TYPE})
        self.assertEqual(status, 200)

    def test_files_are_private(self):
        for name, mode in (("token", 0o600), ("bulkhead.sock", 0o600), ("bulkhead.db", 0o600), ("jobs", 0o700)):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.server.state, name)).st_mode), mode, name)
        printed = subprocess.run([str(fixture.BIN / "bulkheadd"), "--state", self.server.state, "--print-token"],
                                 capture_output=True, text=True, timeout=20, check=True).stdout.strip()
        self.assertEqual(printed, self.server.token())

    def test_the_job_never_sees_the_token(self):
        job = self.server.client.launch(["/bin/sh", "-c", "env; cat /proc/$PPID/cmdline"], mode="observe",
                                        record=False)
        job.wait(timeout=30)
        with self.server.client.open("GET", f"/v1/jobs/{job.id}/logs") as response:
            text = response.read().decode()
            response.bulkhead_connection.close()
        self.assertNotIn(self.server.token(), text)
        arguments = pathlib.Path("/proc", str(self.server.process.pid), "cmdline").read_bytes()
        self.assertNotIn(self.server.token().encode(), arguments)

    def test_methods(self):
        answered = self.refused("DELETE", "/v1/jobs", None, self.bearer(), 405, "method_not_allowed")
        self.assertEqual(answered["Allow"], "POST, GET, HEAD")
        answered = self.refused("OPTIONS", "/v1/jobs", None, self.bearer(), 405, "method_not_allowed")
        self.assertNotIn("Access-Control-Allow-Methods", answered)
        self.refused("TRACE", "/v1/jobs", None, self.bearer(), 405, "method_not_allowed")
        self.refused("GET", "/v1/nothing", None, self.bearer(), 404, "not_found")
        for path in ("/../../etc/passwd", "/%2e%2e/token", "/token", "/jobs/../../token"):
            status, _, text = self.server.raw("GET", path, None, self.bearer())
            self.assertEqual(status, 404, path)

    def test_refusals_are_shown(self):
        self.refused("GET", "/v1/jobs", None, self.bearer(Host="evil.example"), 421, "wrong_host")
        info = self.server.client.request("GET", "/v1/info")
        self.assertGreater(info["security"]["refused_total"], 0)
        self.assertIn("wrong_host", [e["code"] for e in info["security"]["recent"]])


class Scopes(unittest.TestCase):
    def test_scope_files(self):
        with fixture.server() as server:
            server.terminate()
            os.mkdir(os.path.join(server.state, "tokens"), 0o700)
            for scope in ("read", "control", "launch"):
                path = os.path.join(server.state, "tokens", f"bot.{scope}")
                with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                    file.write(f"{scope}-token-0123456789\n")
            server.start()
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)

            def status(scope, method, path, body=None):
                headers = {"Authorization": f"Bearer {scope}-token-0123456789", **(TYPE if body else {})}
                return server.raw(method, path, body, headers)[0]

            self.assertEqual(status("read", "GET", f"/v1/jobs/{job.id}"), 200)
            self.assertEqual(status("read", "POST", f"/v1/jobs/{job.id}/signal", '{"signal":"SIGCONT"}'), 403)
            self.assertEqual(status("control", "POST", f"/v1/jobs/{job.id}/signal", '{"signal":"SIGCONT"}'), 202)
            self.assertEqual(status("control", "POST", "/v1/jobs", JOB), 403)
            self.assertEqual(status("launch", "POST", "/v1/jobs", JOB), 201)
            self.assertEqual(status("launch", "POST", f"/v1/jobs/{job.id}/kill"), 202)


class Listening(unittest.TestCase):
    def run_server(self, *options):
        return subprocess.run([str(fixture.BIN / "bulkheadd"), *options], capture_output=True, text=True,
                              timeout=20, stdin=subprocess.DEVNULL)

    def test_second_server_is_refused_with_the_pid(self):
        with fixture.server() as server:
            done = self.run_server("--state", server.state, "--listen", "127.0.0.1:0")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, rf"\b{server.process.pid}\b")
            self.assertEqual(server.client.request("GET", "/v1/info")["pid"], server.process.pid)

    def test_taken_port_and_foreign_addresses(self):
        with fixture.server() as server:
            done = self.run_server("--state", server.state + "-2", "--listen", f"127.0.0.1:{server.port}")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--listen", done.stderr)
            done = self.run_server("--state", server.state + "-2", "--listen", "0.0.0.0:0")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--insecure-listen", done.stderr)

    def test_version_and_help(self):
        self.assertRegex(self.run_server("--version").stdout, r"^bulkheadd \d+\.\d+\.\d+$")
        self.assertIn("--allow-host", self.run_server("--help").stdout)
        self.assertEqual(self.run_server("--nonsense").returncode, 64)

    def test_rate_is_bounded(self):
        with fixture.server("--request-rate", "20") as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            seen = set()
            for _ in range(200):
                connection.request("GET", "/livez")
                response = connection.getresponse()
                response.read()
                seen.add(response.status)
                if response.status == 429:
                    self.assertIsNotNone(response.getheader("Retry-After"))
                    break
            connection.close()
            self.assertIn(429, seen)
            self.assertEqual(server.client.request("GET", "/v1/info")["name"], "bulkhead")  # the socket is exempt


if __name__ == "__main__":
    unittest.main()
