"""What the adversary's scenarios share: requests without conveniences, raw bytes, facts about the server's process."""
import json
import os
import pathlib
import socket
import time
import unittest

import bulkhead_fixture as fixture

FULL = os.environ.get("BULKHEAD_FULL", "0") not in ("", "0")
OVER = ("finished", "failed_to_start")


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:400]!r}"


def ask(server, method, path, body=None, **headers) -> Answer:
    """One request over TCP with the token; a dict or list becomes JSON, header names take _ for -."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers.setdefault("Authorization", "Bearer " + server.token())
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
    return Answer(*server.raw(method, path, body, headers))


def exchange(port, data: bytes, deadline_s: float = 20) -> bytes:
    """Raw bytes to the TCP listener and all that comes until it closes; fails when it does not close."""
    end = time.monotonic() + deadline_s
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=deadline_s) as connection:
        connection.sendall(data)
        try:
            while chunk := connection.recv(65536):
                answer += chunk
                if time.monotonic() > end:
                    raise AssertionError(f"no end after {deadline_s} s: {answer[:200]!r}")
        except ConnectionResetError:
            pass
        except TimeoutError as error:
            raise AssertionError(f"neither answered nor closed: {data[:80]!r} got {answer[:200]!r}") from error
    return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def descriptors(pid) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_kib(pid) -> int:
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


class Scenario(unittest.TestCase):
    """A server for the class; `options` are its flags. Each test ends with the server alive and answering."""

    options = ("--request-rate", "0")

    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server(*cls.options)
        cls.server = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "the server died")
        self.assertEqual(self.ask("GET", "/v1/info").status, 200)

    def ask(self, method, path, body=None, **headers):
        return ask(self.server, method, path, body, **headers)

    def launch(self, *command, **spec):
        spec.setdefault("record", False)
        if "limit" not in spec:
            spec.setdefault("mode", "observe")
        answer = self.ask("POST", "/v1/jobs", {"command": list(command), **spec})
        self.assertEqual(answer.status, 201, answer)
        job = answer.json()
        self.addCleanup(self.ask, "POST", f"/v1/jobs/{job['id']}/kill")
        return job

    def job(self, job_id):
        return self.ask("GET", f"/v1/jobs/{job_id}").json()

    def wait_over(self, job_id):
        return fixture.wait_until(lambda: (job := self.job(job_id))["state"] in OVER and job, f"{job_id} is over")

    def refused(self, answer, status, code, pointer=None):
        """A problem in the one shape: every member there, and the sentence is not only the title again."""
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
        problem = answer.json()
        self.assertEqual(problem["code"], code, answer)
        self.assertEqual(problem["status"], status)
        self.assertEqual(problem["type"], "urn:bulkhead:error:" + code)
        self.assertTrue(problem["title"] and problem["instance"])
        self.assertTrue(problem["detail"])
        if pointer is not None:
            self.assertIn(pointer, [error["pointer"] for error in problem["errors"]], answer)
        self.assertEqual(answer.headers["Cache-Control"], "no-store")
        return problem
