"""Full disks, state directories that are not right, idle crowds, and what a server keeps of many requests and jobs."""
import contextlib
import http.client
import os
import resource
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import adversary
import bulkhead_fixture as fixture

REQUESTS = 100000 if adversary.FULL else 10000
JOBS = 1000 if adversary.FULL else 40


def start(*options, **popen):
    """A bulkheadd that is expected to refuse: its exit code and what it said; SIGTERM when it serves."""
    process = subprocess.Popen([fixture.BIN / "bulkheadd", "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **popen)
    line = process.stdout.readline()
    if line:
        process.terminate()
    output, errors = process.communicate(timeout=30)
    return process.returncode, line + output, errors


class State(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def make(self, name, mode=0o700):
        path = os.path.join(self.directory.name, name)
        os.mkdir(path)
        os.chmod(path, mode)
        return path

    def refused(self, state, code, word):
        status, output, errors = start("--state", state)
        self.assertEqual((status, output), (code, ""), errors)
        self.assertIn(word, errors)

    def test_paths(self):
        top = self.directory.name
        self.refused(os.path.join(top, "x" * 100), 64, "shorter")
        self.refused(os.path.join(top, "x" * 300), 64, "")
        real = self.make("real")
        os.symlink(real, os.path.join(top, "link"))
        self.refused(os.path.join(top, "link"), 70, "symbolic link")
        with open(os.path.join(top, "file"), "w", encoding="ascii"):
            pass
        self.refused(os.path.join(top, "file"), 64, "file")
        holder = self.make("holder")
        os.symlink(real, os.path.join(holder, "jobs"))
        self.refused(holder, 70, "symbolic link")
        if os.geteuid() == 0:
            other = self.make("other")
            os.chown(other, 12345, 12345)
            self.refused(other, 70, "12345")

    def test_what_others_could_touch(self):
        state = self.make("open", 0o777)
        self.assertEqual(start("--state", state)[0], 0)
        self.assertEqual(stat.S_IMODE(os.stat(state).st_mode) & 0o022, 0)
        token = os.path.join(state, "token")
        os.chmod(token, 0o644)
        self.refused(state, 70, "token")
        os.unlink(token)
        os.symlink("/dev/null", token)
        self.refused(state, 70, "token")

    def test_what_is_in_the_way(self):
        state = self.make("sock")
        path = os.path.join(state, "bulkhead.sock")
        with open(path, "w", encoding="ascii") as file:
            file.write("precious")
        self.refused(state, 64, "socket")
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_closed_standard_streams(self):
        for closed in ((0,), (2,), (0, 2)):
            state = self.make("closed-" + "-".join(map(str, closed)))
            status, _, errors = start("--state", state, preexec_fn=lambda: [os.close(fd) for fd in closed])
            self.assertEqual(status, 0, errors)
            status, _, errors = start("--state", state)
            self.assertEqual(status, 0, errors)


@unittest.skipUnless(os.geteuid() == 0, "mounting a small tmpfs needs root")
class FullDisk(unittest.TestCase):
    def test_full(self):
        with tempfile.TemporaryDirectory() as directory:
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "bulkhead-test", directory], check=False).returncode:
                self.skipTest("no mount here")
            try:
                self.fill(directory)
            finally:
                subprocess.run(["umount", "-l", directory], check=True)

    def fill(self, directory):
        state = os.path.join(directory, "state")
        os.mkdir(state, 0o700)
        with tempfile.TemporaryDirectory() as logs:
            server = fixture.Server(state, "--request-rate", "0")
            os.symlink(os.path.join(logs, "log"), os.path.join(directory, "state.server.log"))
            server.start()
            self.addCleanup(server.stop)
            ask = lambda *args, **headers: adversary.ask(server, *args, **headers)
            job = ask("POST", "/v1/jobs", {"command": ["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep .05; done"],
                                           "limit": "200MiB", "record": False}).json()
            path = f"/v1/jobs/{job['id']}"
            fixture.wait_until(lambda: ask("GET", path + "/logs").body == b"up\n", "up")
            with open(os.path.join(directory, "fill"), "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * 4096)
            true = {"command": ["/bin/true"], "mode": "observe", "record": False}
            for headers in ({}, {"Idempotency_Key": "full"}):
                answer = ask("POST", "/v1/jobs", true, **headers)
                self.assertEqual((answer.status, answer.json()["code"]), (503, "no_space"))
                self.assertIn("Retry-After", answer.headers)
            self.assertEqual(ask("GET", path).json()["state"], "running")
            self.assertEqual(ask("POST", path + "/stop").status, 202)
            fixture.wait_until(lambda: not os.path.exists(f"/proc/{job['root_pid']}"), "enforcement goes on: the job was stopped")
            fixture.wait_until(lambda: not fixture.processes_with(job["id"]), "its supervisor is gone too")
            # tried again and again without space: never given up, and never shown as something it is not
            end = time.monotonic() + 8
            while time.monotonic() < end:
                self.assertIn(ask("GET", path).json()["state"], ("stopping", "finished"))
                time.sleep(0.2)
            os.unlink(os.path.join(directory, "fill"))
            over = fixture.wait_until(lambda: (j := ask("GET", path).json())["state"] == "finished" and j, "finished once there is space")
            self.assertIn(over["outcome"]["kind"], ("child_exited", "policy_intervention", "partial_artifact_failure", "supervisor_lost"))
            self.assertEqual(ask("POST", "/v1/jobs", true, Idempotency_Key="full").status, 201)


class Crowds(adversary.Scenario):
    def test_a_thousand_idle_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 2048:
            self.skipTest("too few descriptors here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = adversary.descriptors(self.server.process.pid)
        with contextlib.ExitStack() as stack:
            for _ in range(1000):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    client.connect(("127.0.0.1", self.server.port))
            # the unix socket has connections of its own
            self.assertEqual(self.server.client.request("GET", "/v1/info")["name"], "bulkhead")
            # and TCP serves again once the idle ones have been cut, which is their header deadline
            self.assertEqual(self.server.raw("GET", "/livez")[0], 200)
        fixture.wait_until(lambda: adversary.descriptors(self.server.process.pid) <= before + 4, "descriptors are given back")

    def test_requests_leave_nothing(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        self.addCleanup(connection.close)
        headers = {"Authorization": "Bearer " + self.server.token(), "Content-Type": "application/json"}
        kinds = (("GET", "/v1/jobs", None, headers), ("GET", "/v1/jobs/none", None, headers), ("GET", "/nope", None, {}),
                 ("POST", "/v1/jobs", b'{"command":["x"],"limit":"3g"}', headers), ("POST", "/v1/jobs", b'{"a":[[[[1', headers),
                 ("GET", "/v1/jobs?limit=0", None, headers), ("GET", "/metrics", None, headers))

        def send(number):
            for i in range(number):
                connection.request(*kinds[i % len(kinds)])
                connection.getresponse().read()
        send(2000)
        pid = self.server.process.pid
        resident, open_now = adversary.resident_kib(pid), adversary.descriptors(pid)
        send(REQUESTS)
        self.assertLess(adversary.resident_kib(pid) - resident, 1024, "KiB grown")
        self.assertEqual(adversary.descriptors(pid), open_now)

    def test_jobs_leave_nothing(self):
        pid = self.server.process.pid
        ids = [self.ask("POST", "/v1/jobs", {"command": ["/bin/true"], "mode": "observe", "record": False}).json()["id"] for _ in range(5)]
        for job_id in ids:
            self.wait_over(job_id)
        before = adversary.descriptors(pid)
        for _ in range(JOBS):
            self.assertEqual(self.ask("POST", "/v1/jobs", {"command": ["/bin/true"], "mode": "observe", "record": False}).status, 201)
        fixture.wait_until(lambda: not self.ask("GET", "/v1/jobs?state=starting,running,stopping").json()["jobs"], "all are over")
        fixture.wait_until(lambda: adversary.descriptors(pid) <= before + 2, "descriptors are given back")

    def test_requests_that_never_finish(self):
        """Heads that trickle are cut at their deadline, however busy they look."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=0.5) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\nX: ")

            def cut():
                try:
                    client.sendall(b"a")
                    return client.recv(1) == b""
                except TimeoutError:
                    return False
                except OSError:
                    return True
            fixture.wait_until(cut, "the connection is cut", 30)


if __name__ == "__main__":
    unittest.main()
