"""Hostile and clumsy clients: the server answers or closes, and goes on serving."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import socket
import threading
import unittest

import bulkhead_fixture as fixture


class Robust(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server("--request-rate", "0")
        cls.server = cls.context.__enter__()
        cls.head = (b"Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                    % (cls.server.port, cls.server.token().encode()))

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "the server died")
        self.assertEqual(self.server.client.request("GET", "/v1/info")["name"], "bulkhead")

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        self.addCleanup(connection.close)
        return connection

    def exchange(self, data, close=False):
        connection = self.connect()
        try:
            connection.sendall(data)
            if close:
                with contextlib.suppress(OSError):  # the server may have refused and closed already
                    connection.shutdown(socket.SHUT_WR)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
                if b"\r\n\r\n" in answer and not close:
                    head, _, body = answer.partition(b"\r\n\r\n")
                    length = [int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length")]
                    if length and len(body) >= length[0]:
                        break
            return answer
        except ConnectionError:
            return b""

    def exchange_all(self, requests):
        """Many at once; each ends with an answer or a closed connection."""
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            for result in [pool.submit(self.exchange, data, True) for data in requests]:
                result.result()

    def status(self, answer):
        return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.1 ") else 0

    def test_random_bytes(self):
        chance = random.Random(11)
        self.exchange_all([bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400)))
                           for _ in range(300)])

    def test_mutated_requests(self):
        chance = random.Random(12)
        body = b'{"command":["/bin/true"],"limit":"3g"}'
        good = (b"POST /v1/jobs?x=%20y HTTP/1.1\r\n" + self.head + b"Content-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)) + body
        requests = []
        for _ in range(500):
            data = bytearray(good)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(data))
                action = chance.randrange(3)
                if action == 0:
                    data[at] = chance.randrange(256)
                elif action == 1:
                    del data[at:at + chance.randrange(1, 9)]
                else:
                    data[at:at] = bytes([chance.randrange(256)]) * chance.randrange(1, 5)
            requests.append(bytes(data))
        self.exchange_all(requests)

    def test_length_and_encoding_together_are_refused_and_closed(self):
        answer = self.exchange(b"POST /v1/jobs HTTP/1.1\r\n" + self.head + b"Content-Type: application/json\r\n"
                               b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
                               b"GET /livez HTTP/1.1\r\n" + self.head + b"\r\n", close=True)
        self.assertEqual(self.status(answer), 400, answer[:200])
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1, "a second request was served")

    def test_bodies_that_are_too_large(self):
        big = b'{"command":["' + b"a" * (1 << 20) + b'"]}'
        status, answered, text = self.server.raw("POST", "/v1/jobs", big, {
            "Authorization": "Bearer " + self.server.token(), "Content-Type": "application/json"})
        self.assertEqual((status, json.loads(text)["code"]), (413, "body_too_large"))
        # without a length: chunked
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/jobs", iter([big[:600000], big[600000:]]), {
            "Authorization": "Bearer " + self.server.token(), "Content-Type": "application/json"},
            encode_chunked=True)
        response = connection.getresponse()
        self.assertEqual((response.status, json.loads(response.read())["code"]), (413, "body_too_large"))
        answer = self.exchange(b"POST /v1/jobs HTTP/1.1\r\n" + self.head + b"Content-Type: application/json\r\n"
                               b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
        self.assertEqual(self.status(answer), 413)
        for length in (b"-1", b"x", b"99999999999999999999999", b"1, 1"):
            answer = self.exchange(b"POST /v1/jobs HTTP/1.1\r\n" + self.head + b"Content-Length: " + length +
                                   b"\r\n\r\n", close=True)
            self.assertIn(self.status(answer), (0, 400, 413), length)

    def test_refused_bodies_still_get_their_answer(self):
        body = b"x" * 500000
        for path, status in (("/v1/jobs", 401), ("/v1/login", 403)):
            got, _, _ = self.server.raw("POST", path, body, {"Content-Type": "application/json"})
            self.assertEqual(got, status)

    def test_long_heads(self):
        answer = self.exchange(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + self.head + b"\r\n", close=True)
        self.assertIn(self.status(answer), (0, 414, 431))
        answer = self.exchange(b"GET /livez HTTP/1.1\r\n" + self.head + b"X: " + b"a" * 100000 + b"\r\n\r\n", close=True)
        self.assertIn(self.status(answer), (0, 431))
        answer = self.exchange(b"GET /v1/jobs?" + b"&".join(b"a%d=1" % i for i in range(50)) + b" HTTP/1.1\r\n" +
                               self.head + b"\r\n")
        self.assertEqual(self.status(answer), 400)

    def test_bad_escapes(self):
        for target in (b"/v1/jobs/%", b"/v1/jobs/%zz", b"/v1/jobs/%00", b"/v1/jobs/%ff", b"/v1/jobs?name=%c3"):
            answer = self.exchange(b"GET " + target + b" HTTP/1.1\r\n" + self.head + b"\r\n")
            self.assertIn(self.status(answer), (400, 404), target)

    def test_slow_heads_are_cut(self):
        slow = self.connect()
        slow.settimeout(60)
        stop = threading.Event()

        def drip():
            with fixture.contextlib.suppress(OSError):
                slow.sendall(b"GET /livez HTTP/1.1\r\n")
                while not stop.wait(0.5):
                    slow.sendall(b"X: y\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with fixture.contextlib.suppress(ConnectionError):
                self.assertEqual(slow.recv(1), b"")  # the end of the connection, not an answer
        finally:
            stop.set()
            thread.join()

    def test_many_connections(self):
        held = [self.connect() for _ in range(300)]
        for connection in held[::7]:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % self.server.port)
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200 "))
        for connection in held:
            connection.close()

    def test_pipelined_requests_are_answered_in_order(self):
        connection = self.connect()
        connection.sendall((b"GET /livez HTTP/1.1\r\n" + self.head + b"\r\n") * 50 +
                           b"GET /v1/info HTTP/1.1\r\n" + self.head + b"Connection: close\r\n\r\n")
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        self.assertEqual(answer.count(b"HTTP/1.1 200 "), 51)
        self.assertTrue(answer.rstrip().endswith(b"}"))

    def test_clients_that_leave(self):
        job = self.server.client.launch(["/bin/sh", "-c", "head -c 3000000 /dev/zero; sleep 600"], mode="observe",
                                        record=False)
        path = os.path.join(self.server.state, "jobs", job.id, "out.log")
        fixture.wait_until(lambda: os.path.getsize(path) == 3000000, "output")
        for target in (b"/v1/jobs/%s/logs", b"/v1/jobs/%s?wait=30s", b"/v1/jobs/%s/events", b"/v1/jobs/%s/memory.pickle",
                       b"/v1/jobs/%s/logs?follow=1"):
            for _ in range(5):
                connection = self.connect()
                connection.sendall(b"GET " + target % job.id.encode() + b" HTTP/1.1\r\n" + self.head + b"\r\n")
                connection.close()
        job.kill()
        job.wait(timeout=30)

    def test_large_exports_to_slow_and_leaving_clients(self):
        client = self.server.client
        data = client.request("POST", "/v1/jobs", {"external": True, "name": "large"})
        path = f"/v1/jobs/{data['id']}"
        lines = []
        for n in range(20000):
            lines.append(json.dumps({"addr": 4096 * (n + 1), "size": 100 + n % 7, "timestamp_us": 1796004589421563 + n,
                                     "elapsed_us": n, "action": "AllocNew", "primitive_name": "Add", "stream": 0,
                                     "traceback": [["a.py", f"f{n % 97}", n % 1000]]}))
        status, _, text = self.server.raw("POST", path + "/memory-events", "\n".join(lines), {
            "Authorization": "Bearer " + self.server.token(), "Content-Type": "application/x-ndjson"})
        self.assertEqual(status, 204, text)
        fixture.wait_until(lambda: client.request("GET", path)["recorder"]["events"] == 20000, "the import")

        def read(target, pause):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            self.addCleanup(connection.close)
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            connection.request("GET", target, headers={"Authorization": "Bearer " + self.server.token()})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            body = bytearray()
            while chunk := response.read(32768):
                body += chunk
                if pause:
                    threading.Event().wait(0.001)
            return bytes(body)

        for target in (path + "/memory.pickle", path + "/memory-events?limit=20000&format=ndjson"):
            fast = read(target, False)
            self.assertGreater(len(fast), 1 << 20)  # more than the buffer between the two threads
            slow = read(target, True)
            self.assertEqual(fast, slow)
            for _ in range(12):  # more than run at once: leave in the middle
                connection = self.connect()
                connection.sendall(b"GET " + target.encode() + b" HTTP/1.1\r\n" + self.head + b"\r\n")
                connection.recv(100)
                connection.close()
            self.assertEqual(read(target, False), fast)
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            results = [pool.submit(client.request, "GET", path + "/timeline?points=50") for _ in range(80)]
            self.assertEqual(len({json.dumps(r.result()) for r in results}), 1)

    def test_launches_at_once(self):
        results = []

        def launch():
            results.append(self.server.client.launch(["/bin/true"], mode="observe", record=False))

        threads = [threading.Thread(target=launch) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({j.id for j in results}), 20)
        for job in results:
            job.wait(timeout=60)
            self.assertEqual(self.server.client.request("GET", f"/v1/jobs/{job.id}")["outcome"]["cause"], "completed")


if __name__ == "__main__":
    unittest.main()
