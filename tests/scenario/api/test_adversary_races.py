"""Many at once, servers that die at the wrong moment, and two servers on one state."""
import concurrent.futures
import contextlib
import os
import random
import subprocess
import tempfile
import unittest

import adversary
import bulkhead_fixture as fixture

ROUNDS = 10 if adversary.FULL else 2


def at_once(number, call):
    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        return list(pool.map(call, range(number)))


class Races(adversary.Scenario):
    def test_fifty_launches(self):
        jobs = at_once(50, lambda i: self.ask("POST", "/v1/jobs", {"command": ["/bin/echo", str(i)], "mode": "observe",
                                                                   "record": False, "name": f"n{i}"}))
        self.assertEqual({job.status for job in jobs}, {201})
        ids = [job.json()["id"] for job in jobs]
        self.assertEqual(len(set(ids)), 50)
        for number, job_id in enumerate(ids):
            self.assertEqual(self.wait_over(job_id)["outcome"]["exit_code"], 0)
            self.assertEqual(self.ask("GET", f"/v1/jobs/{job_id}/logs").body, b"%d\n" % number)

    def test_one_name_and_one_key(self):
        body = {"command": ["/bin/sleep", "600"], "mode": "observe", "record": False}
        answers = at_once(16, lambda i: self.ask("POST", "/v1/jobs", {**body, "name": "same"}))
        self.assertEqual(sorted(a.status for a in answers), [201] + [409] * 15)
        self.assertEqual({a.json()["code"] for a in answers if a.status == 409}, {"name_taken"})
        answers = at_once(16, lambda i: self.ask("POST", "/v1/jobs", body, Idempotency_Key="one"))
        self.assertLessEqual({a.status for a in answers}, {201, 409})
        self.assertEqual(len({a.json()["id"] for a in answers if a.status == 201}), 1)
        live = self.ask("GET", "/v1/jobs?state=starting,running").json()["jobs"]
        self.assertEqual(len(live), 2)
        for job in live:
            self.ask("POST", f"/v1/jobs/{job['id']}/kill")

    def test_stop_kill_and_remove_together(self):
        job = self.launch("/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done", stop={"grace": {"base": "1h", "max": "1h"}})
        path = f"/v1/jobs/{job['id']}"
        fixture.wait_until(lambda: self.ask("GET", path + "/logs").body == b"up\n", "up")
        rest = (("POST", "/stop"), ("POST", "/kill"), ("DELETE", ""), ("GET", ""))
        answers = at_once(60, lambda i: self.ask(rest[i % 4][0], path + rest[i % 4][1]).status)
        self.assertLessEqual(set(answers), {200, 202, 204, 404, 409, 503})
        fixture.wait_until(lambda: (a := self.ask("GET", path)).status == 404 or a.json()["state"] == "finished", "it is over")
        self.assertLessEqual(answers.count(204), 1)

    def test_removed_once(self):
        job = self.launch("/bin/true")
        self.wait_over(job["id"])
        answers = at_once(16, lambda i: self.ask("DELETE", f"/v1/jobs/{job['id']}").status)
        self.assertEqual(sorted(answers), [204] + [404] * 15)

    def test_two_servers_on_one_state(self):
        second = subprocess.run([fixture.BIN / "bulkheadd", "--state", self.server.state, "--listen", "127.0.0.1:0"],
                                capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(second.returncode, 70, second.stderr)
        self.assertIn(str(self.server.process.pid), second.stderr)


class Deaths(unittest.TestCase):
    def test_killed_in_the_middle_of_launches(self):
        """Each job of a repeated request runs once: none lost, none doubled, none without a row."""
        chance = random.Random(7)
        with tempfile.TemporaryDirectory() as directory:
            state = os.path.join(directory, "state")
            os.mkdir(state, 0o700)
            for number in range(ROUNDS):
                self.one_round(directory, state, number, chance.choice((0.0, 0.02, 0.05, 0.1)))

    def one_round(self, directory, state, number, delay_s):
        keys = [f"r{number}-{i}" for i in range(24)]
        body = lambda key: {"command": ["/bin/sh", "-c", f"echo x >> {directory}/{key}; exec sleep 600"], "mode": "observe",
                            "record": False, "name": key}
        server = fixture.Server(state, "--request-rate", "0").start()
        first = {}

        def launch(key):
            with contextlib.suppress(OSError, fixture.http.client.HTTPException):
                first[key] = adversary.ask(server, "POST", "/v1/jobs", body(key), Idempotency_Key=key)
        with concurrent.futures.ThreadPoolExecutor(len(keys)) as pool:
            for key in keys:
                pool.submit(launch, key)
            # a moment of the middle: which one it is does not matter to what is asserted
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(delay_s)
            server.kill9()
        server = fixture.Server(state, "--request-rate", "0").start()
        self.addCleanup(server.stop)
        for key in keys:
            again = adversary.ask(server, "POST", "/v1/jobs", body(key), Idempotency_Key=key)
            self.assertEqual(again.status, 201, again)
            if key in first and first[key].status == 201:
                self.assertEqual(again.json()["id"], first[key].json()["id"])
        for key in keys:
            fixture.wait_until(lambda: os.path.exists(path := os.path.join(directory, key)) and os.path.getsize(path), f"{key} runs")
        jobs = adversary.ask(server, "GET", "/v1/jobs?state=running&limit=1000").json()["jobs"]
        self.assertEqual(sorted(job["name"] for job in jobs), sorted(keys))
        for job in jobs:
            adversary.ask(server, "POST", f"/v1/jobs/{job['id']}/kill")
        fixture.wait_until(lambda: not adversary.ask(server, "GET", "/v1/jobs?state=running,stopping").json()["jobs"], "all are over")
        for key in keys:
            with open(os.path.join(directory, key), encoding="ascii") as file:
                self.assertEqual(file.read(), "x\n", f"{key} ran twice")
        self.assertEqual(server.terminate(), 0)

    def test_sigterm_leaves_jobs_running(self):
        with fixture.server() as server:
            job = adversary.ask(server, "POST", "/v1/jobs", {"command": ["/bin/sleep", "600"], "mode": "observe", "record": False}).json()
            self.assertEqual(server.terminate(), 0)
            os.kill(job["root_pid"], 0)
            server.start()
            again = fixture.wait_until(lambda: (j := adversary.ask(server, "GET", f"/v1/jobs/{job['id']}").json())["state"] == "running" and j,
                                       "the job is found again")
            self.assertEqual(again["root_pid"], job["root_pid"])


if __name__ == "__main__":
    unittest.main()
