"""Framing, targets, hosts and the order of checks, sent as raw bytes."""
import json
import select
import socket
import unittest

import adversary
from adversary import exchange, status_of


class Http(adversary.Scenario):
    @property
    def host(self):
        return b"Host: 127.0.0.1:%d\r\n" % self.server.port

    @property
    def bearer(self):
        return b"Authorization: Bearer %s\r\n" % self.server.token().encode()

    def send(self, line, *headers, body=b""):
        return exchange(self.server.port, line + b" HTTP/1.1\r\n" + b"".join(headers) + b"Connection: close\r\n\r\n" + body)

    def post(self, *headers, body=b"{}"):
        return self.send(b"POST /v1/jobs", self.host, self.bearer, b"Content-Type: application/json\r\n", *headers, body=body)

    def test_host_forms(self):
        port = self.server.port
        for name in (b"localhost:%d", b"LOCALHOST:%d", b"127.0.0.1:%d", b"[::1]:%d"):
            self.assertEqual(status_of(self.send(b"GET /livez", b"Host: " + name % port + b"\r\n")), 200, name)
        for name in (b"localhost.:%d", b"0.0.0.0:%d", b"127.1:%d", b"2130706433:%d", b"[0:0:0:0:0:0:0:1]:%d", b"[::1%%25lo]:%d",
                     b"[::1:%d", b"127.0.0.1:0%d", b"127.0.0.1:%d,evil", b"127.0.0.1:%d@evil", b"x@127.0.0.1:%d",
                     b"evil:%d", b"127.0.0.1:1%d"):
            for path in (b"GET /livez", b"GET /", b"GET /v1/jobs", b"POST /v1/login"):
                answer = self.send(path, b"Host: " + name % port + b"\r\n")
                self.assertEqual(status_of(answer), 421, (name, path, answer[:100]))
        for name in (b"127.0.0.1", b"", b"::1", b"[::1"):
            self.assertEqual(status_of(self.send(b"GET /livez", b"Host: " + name + b"\r\n")), 421, name)
        self.assertIn(status_of(self.send(b"GET /livez", self.host, self.host)), (400, 421))
        self.assertIn(status_of(self.send(b"GET /livez", self.host, b"Host: evil\r\n")), (400, 421))
        self.assertIn(status_of(self.send(b"GET /livez")), (400, 421))
        self.assertIn(status_of(exchange(self.server.port, b"GET /livez HTTP/1.0\r\n\r\n")), (400, 421))

    def test_absolute_targets(self):
        port = self.server.port
        for target in (b"http://127.0.0.1:%d/livez", b"HTTP://LOCALHOST:%d/livez"):
            self.assertEqual(status_of(self.send(b"GET " + target % port, self.host)), 200, target)
        for target in (b"http://evil/livez", b"http://evil:%d/livez" % port, b"http://x@127.0.0.1:%d/livez" % port,
                       b"https://evil/livez", b"https://evil", b"ftp://evil/", b"http://", b"http:///livez"):
            answer = self.send(b"GET " + target, self.host, self.bearer)
            self.assertEqual(status_of(answer), 421, (target, answer[:100]))
        self.assertEqual(status_of(self.send(b"GET http://127.0.0.1:%d?limit=1" % port, self.host, self.bearer)), 200)

    def test_order_of_checks(self):
        evil = b"Host: evil\r\n"
        origin = b"Origin: http://evil\r\n"
        text = b"Content-Type: text/plain\r\nContent-Length: 1\r\n"
        for wanted, line, headers in (
                (421, b"POST /nope", (evil, origin, text)),
                (401, b"POST /nope", (self.host, origin, text)),
                (403, b"POST /nope", (self.host, self.bearer, origin, text)),
                (404, b"POST /nope", (self.host, self.bearer, text)),
                (405, b"POST /v1/info", (self.host, self.bearer, text)),
                (415, b"POST /v1/jobs", (self.host, self.bearer, text)),
                (400, b"POST /v1/jobs", (self.host, self.bearer, text.replace(b"text/plain", b"application/json")))):
            answer = self.send(line, *headers, body=b"x")
            self.assertEqual(status_of(answer), wanted, (line, headers, answer[:200]))

    def test_transfer_encodings(self):
        chunked = b"2\r\n{}\r\n0\r\n\r\n"
        self.assertEqual(status_of(self.post(b"Transfer-Encoding: chunked\r\n", body=chunked)), 422)
        self.assertEqual(status_of(self.post(b"Transfer-Encoding: Chunked\r\n", body=chunked)), 422)
        for header in (b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n",
                       b"Transfer-Encoding: chunked, chunked\r\n", b"Transfer-Encoding: xchunked\r\n",
                       b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
                       b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                       b"Transfer-Encoding:\r\n"):
            answer = self.post(header, body=chunked)
            self.assertEqual(status_of(answer), 400, (header, answer[:200]))
            self.assertIn(b"\r\nconnection: close\r\n", answer.lower())

    def test_nothing_is_smuggled(self):
        """What follows a refused frame is never taken for a request."""
        hidden = b"GET /livez HTTP/1.1\r\n" + self.host + b"\r\n"
        for header in (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 2\r\nContent-Length: 2\r\n",
                       b"Content-Length: 2\r\nContent-Length: 200\r\n", b"Content-Length: -1\r\n", b"Content-Length: 2, 2\r\n",
                       b"Content-Length: 0x2\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: gzip\r\n"):
            data = (b"POST /v1/jobs HTTP/1.1\r\n" + self.host + self.bearer + b"Content-Type: application/json\r\n" + header
                    + b"\r\n" + hidden)
            answer = exchange(self.server.port, data)
            self.assertNotIn(b"HTTP/1.1 200", answer, header)
            self.assertIn(status_of(answer), (400, 413), header)

    def test_a_body_without_end_is_told_so(self):
        """413 also for a chunked body that never ends; the answer arrives although the client goes on sending."""
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as client:
            client.sendall(b"POST /v1/jobs HTTP/1.1\r\n" + self.host + self.bearer + b"Content-Type: application/json\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n")
            client.setblocking(False)
            answer, left = b"", b""
            while b"body_too_large" not in answer:
                readable, writable, _ = select.select([client], [client], [], 20)
                self.assertTrue(readable or writable, "neither read nor answered")
                if readable:
                    got = client.recv(65536)
                    self.assertTrue(got, answer)
                    answer += got
                elif writable:
                    left = left or chunk
                    left = left[client.send(left):]
        self.assertEqual(status_of(answer), 413)

    def test_targets_that_are_none(self):
        for line, wanted in ((b"GET *", (400, 404)), (b"OPTIONS *", (400, 404)), (b"CONNECT evil:1", (400, 404)), (b"GET v1/info", (400, 404)),
                             (b"GET //v1/info", (404,)), (b"GET /v1/../v1/info", (404,)), (b"GET /v1/info/", (404,)),
                             (b"GET /v1/jobs/%00", (400,)), (b"GET /v1/jobs/%ff", (400,)), (b"GET /v1/jobs/%2", (400,)),
                             (b"GET /v1/jobs/\xff", (400,)), (b"GET /..%2f..%2fetc%2fpasswd", (404,))):
            answer = self.send(line, self.host, self.bearer)
            self.assertIn(status_of(answer), wanted, (line, answer[:200]))

    def test_head_tells_what_get_would(self):
        job = self.launch("/bin/echo", "hello")
        self.wait_over(job["id"])
        logs = f"/v1/jobs/{job['id']}/logs"
        for path, headers in ((logs, {}), (logs, {"Range": "bytes=1-2"}), ("/v1/info", {}), (f"/v1/jobs/{job['id']}/report", {}),
                              (f"/v1/jobs/{job['id']}/memory.pickle", {}), ("/v1/jobs/nope", {}), ("/v1/events", {})):
            head = self.ask("HEAD", path, **headers)
            self.assertEqual(head.body, b"")
            if path == "/v1/events":  # endless: no length at all
                self.assertNotIn("Content-Length", head.headers)
                continue
            get = self.ask("GET", path, **headers)
            self.assertEqual(head.status, get.status, path)
            self.assertEqual(head.headers["Content-Type"], get.headers["Content-Type"])
            self.assertEqual(head.headers.get("Content-Length"), get.headers.get("Content-Length"), path)
            self.assertEqual(head.headers.get("Content-Range"), get.headers.get("Content-Range"), path)

    def test_allow_names_the_methods(self):
        for path, wanted in (("/v1/jobs", "POST, GET, HEAD"), ("/v1/info", "GET, HEAD"), ("/v1/jobs/x/stop", "POST"),
                             ("/v1/jobs/x", "GET, HEAD, DELETE"), ("/jobs/x/limits", "PATCH")):
            for method in ("PUT", "TRACE", "OPTIONS", "PROPFIND", "get"):
                answer = self.ask(method, path)
                self.refused(answer, 405, "method_not_allowed")
                self.assertEqual(answer.headers["Allow"], wanted, path)

    def test_tokens_nearly_right(self):
        token = self.server.token()
        for value in ("Bearer" + token, "Bearer " + token + "x", "Bearer " + token[:-1], "Bearer ", "Bearer", "Basic " + token,
                      "Bearer " + token.upper(), token, "Bearer " + token + "," + token, "Bearer " + "a" * 5000):
            answer = self.ask("GET", "/v1/info", Authorization=value)
            self.refused(answer, 401, "unauthorized")
            self.assertTrue(answer.headers["WWW-Authenticate"].startswith("Bearer"))
        for value in ("bearer " + token, "BEARER   " + token):
            self.assertEqual(self.ask("GET", "/v1/info", Authorization=value).status, 200)
        self.assertEqual(status_of(self.send(b"GET /v1/info", self.host, self.bearer, self.bearer)), 401)

    def test_origins_and_fetch_sites(self):
        port = self.server.port
        job = self.launch("/bin/sleep", "600")
        path = f"/v1/jobs/{job['id']}/signal"
        ask = lambda **headers: self.ask("POST", path, {"signal": "SIGCONT"}, **headers).status
        for origin in (f"http://localhost:{port}", f"https://127.0.0.1:{port}", "null", f"http://127.0.0.1:{port}/",
                       "http://127.0.0.1", "http://evil", f"http://127.0.0.1:{port} http://evil"):
            self.assertEqual(ask(Origin=origin), 403, origin)
        self.assertEqual(ask(Origin=f"http://127.0.0.1:{port}"), 202)
        for site in ("same-site", "cross-site", "x", "same-origin, none"):
            self.assertEqual(ask(Sec_Fetch_Site=site), 403, site)
        for site in ("same-origin", "none"):
            self.assertEqual(ask(Sec_Fetch_Site=site), 202, site)
        self.assertEqual(self.ask("GET", "/v1/info", Origin="http://evil", Sec_Fetch_Site="cross-site").status, 200)

    def test_logins(self):
        """Single use, refused from elsewhere without using it up, and few failures a minute."""
        own = f"http://127.0.0.1:{self.server.port}"

        def log_in(code, **headers):
            headers = {"Content-Type": "application/json", "Origin": own, **headers}
            return adversary.Answer(*self.server.raw("POST", "/v1/login", json.dumps({"code": code}), headers))
        code = self.server.login_url.partition("code=")[2]
        self.assertEqual(log_in(code, Origin="http://evil").status, 403)
        self.assertEqual(log_in(code, **{"Sec-Fetch-Site": "cross-site"}).status, 403)
        answer = log_in(code)
        self.assertEqual(answer.status, 200, answer)
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        for word in ("HttpOnly", "SameSite=Strict", "Path=/"):
            self.assertIn(word, answer.headers["Set-Cookie"])
        self.assertEqual(log_in(code).status, 401)
        # the cookie alone reads, also among others; it is this port's, whole, and never beside a wrong token
        read = lambda **headers: self.server.raw("GET", "/v1/info", None, headers)[0]
        self.assertEqual(read(Cookie=f"a=b; {cookie}; c=d"), 200)
        for wrong in (cookie[:-1], cookie + "0", cookie.replace("_", "x_", 1), "x" + cookie):
            self.assertEqual(read(Cookie=wrong), 401, wrong)
        self.assertEqual(read(Cookie=cookie, Authorization="Bearer x"), 401)
        job = self.launch("/bin/sleep", "600")
        csrf = answer.json()["csrf"]

        def write(**headers):
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            return self.server.raw("POST", f"/v1/jobs/{job['id']}/signal", '{"signal":"SIGCONT"}',
                                   {"Content-Type": "application/json", "Cookie": cookie, **headers})[0]
        self.assertEqual(write(Origin=own, X_Bulkhead_CSRF=csrf), 202)
        for headers in ({}, {"Origin": own}, {"X_Bulkhead_CSRF": csrf}, {"Origin": own, "X_Bulkhead_CSRF": csrf[:-1]},
                        {"Origin": own, "X_Bulkhead_CSRF": csrf, "Sec_Fetch_Site": "cross-site"}):
            self.assertEqual(write(**headers), 403, headers)
        limited = None
        for number in range(25):
            answer = log_in(f"{number:064d}")
            if answer.status == 429:
                limited = answer
        self.refused(limited, 429, "too_many_requests")
        self.assertEqual(limited.headers["Retry-After"], "60")


if __name__ == "__main__":
    unittest.main()
