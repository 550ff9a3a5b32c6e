"""Event streams asked for in odd ways, jobs that vanish under a stream, and what a stream's head says."""
import select
import socket
import time
import unittest

import adversary
from test_api_streams import Stream


class Streams(adversary.Scenario):
    def raw(self, path):
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        self.addCleanup(client.close)
        client.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n"
                       % (path.encode(), self.server.port, self.server.token().encode()))
        return client

    def read_until(self, client, wanted):
        text = b""
        while wanted not in text:
            got = client.recv(65536)
            self.assertTrue(got, text)
            text += got
        return text

    def test_ids_that_are_none(self):
        job = self.launch("/bin/sleep", "600")
        for path in ("/v1/events", f"/v1/jobs/{job['id']}/events"):
            for since in ("x", "-1", "1.2.3", "99999999999999999999", "0x1", "ffffffff.1", "%20"):
                text = self.read_until(self.raw(f"{path}?since={since}"), b"event: job")
                self.assertIn(b"event: gap\n", text, (path, since))
                self.assertIn(b"retry: ", text)

    def test_job_by_name_and_type(self):
        self.launch("/bin/sleep", "600", name="one")
        other = self.launch("/bin/sleep", "600", name="two")
        with Stream(self.server, "/v1/events?job=two&types=sample") as stream:
            for _ in range(4):
                _, kind, data = stream.next()
                self.assertEqual((kind, data["job_id"]), ("sample", other["id"]))
                self.assertLessEqual(data["charge"]["min"], data["charge"]["max"])
        self.read_until(self.raw("/v1/events?types="), b"event: host")
        self.refused(self.ask("GET", "/v1/events?job=three"), 404, "not_found")
        self.refused(self.ask("GET", "/v1/jobs/three/events"), 404, "not_found")

    def test_samples_are_few(self):
        """At most four a second for each job, however often it is sampled."""
        job = self.launch("/bin/sleep", "600", sample_interval="10ms")
        with Stream(self.server, f"/v1/events?types=sample&job={job['id']}") as stream:
            stream.next()
            first = stream.next()[2]["to_us"]
            last = [stream.next()[2]["to_us"] for _ in range(9)][-1]
        self.assertGreaterEqual(last - first, 8 * 240000)

    def test_removed_under_its_stream(self):
        job = self.launch("/bin/echo", "x")
        self.wait_over(job["id"])
        client = self.raw(f"/v1/jobs/{job['id']}/events?since=0")
        self.read_until(client, b"retry: ")
        self.assertEqual(self.ask("DELETE", f"/v1/jobs/{job['id']}").status, 204)
        self.assertEqual(self.ask("GET", f"/v1/jobs/{job['id']}").status, 404)

    def test_log_followed_to_its_end(self):
        job = self.launch("/bin/sh", "-c", "echo one; sleep 0.3; echo two")
        answer = self.ask("GET", f"/v1/jobs/{job['id']}/logs?follow=1")
        self.assertEqual(answer.body, b"one\ntwo\n")

    def test_a_reader_that_stops_is_cut_or_served(self):
        """A client that takes nothing holds neither the others nor the server's end."""
        client = self.raw("/v1/events")
        self.read_until(client, b"retry: ")
        with Stream(self.server, "/v1/events") as stream:
            end = time.monotonic() + 2
            while time.monotonic() < end:
                self.assertIsNotNone(stream.next())
        self.assertTrue(select.select([client], [], [], 20)[0])


if __name__ == "__main__":
    unittest.main()
