"""Server-sent events: what comes, in which order, resumed after a break, with many clients at once."""
import http.client
import json
import socket
import unittest

import bulkhead_fixture as fixture


class Stream:
    """Reads one event stream; events() gives (id, type, data) until the deadline of a read."""

    def __init__(self, server, path, last=None, tcp=True):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        headers = {"Authorization": "Bearer " + server.token()}
        if last is not None:
            headers["Last-Event-ID"] = last
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # the socket itself: the response would read on to the end of an endless body
        if self.connection.sock:
            self.connection.sock.close()
        self.response.close()
        self.connection.close()

    def next(self):
        event = {"id": None, "event": "message", "data": ""}
        seen = False
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            line = line.rstrip("\n")
            if not line:
                if seen:
                    return event["id"], event["event"], json.loads(event["data"])
                continue
            if line.startswith(":") or line.startswith("retry:"):
                continue
            name, _, value = line.partition(": ")
            event[name] = value
            seen = seen or name in ("event", "data")

    def until(self, condition, most=2000):
        """The first event that fulfils condition(id, type, data)."""
        for _ in range(most):
            event = self.next()
            if event is None:
                raise AssertionError("the stream ended")
            if condition(*event):
                return event
        raise AssertionError(f"not within {most} events")


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server()
        cls.server = cls.context.__enter__()
        cls.client = cls.server.client

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def launch(self, *command, **spec):
        job = self.client.launch(list(command), mode="observe", record=False, **spec)
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        try:
            job.kill()
            job.wait(timeout=30)
        except Exception:
            pass

    def no_streams(self):
        with self.client.open("GET", "/metrics") as response:
            text = response.read().decode()
            response.bulkhead_connection.close()
        return "\nbulkhead_sse_clients 0\n" in text

    def test_a_job_from_start_to_end(self):
        job = self.launch("/bin/sleep", "600")
        with Stream(self.server, f"/v1/jobs/{job.id}/events") as stream:
            self.assertEqual(stream.response.getheader("Content-Type"), "text/event-stream")
            number, kind, data = stream.next()
            self.assertEqual((kind, data["id"], data["state"]), ("job", job.id, "running"))
            self.assertEqual(int(number), data["event_sequence"])
            number, _, data = stream.until(lambda i, t, d: t == "sample")
            self.assertIsNone(number)
            self.assertLessEqual(data["charge"]["min"], data["charge"]["last"])
            self.assertGreaterEqual(data["charge"]["max"], data["charge"]["last"])
            self.client.request("POST", f"/v1/jobs/{job.id}/stop", {})
            number, _, data = stream.until(lambda i, t, d: t == "signal")
            self.assertEqual((data["signal"], data["seq"]), ("SIGTERM", int(number)))
            stream.until(lambda i, t, d: t == "job" and d["state"] == "finished")
        facts = self.client.request("GET", f"/v1/jobs/{job.id}/signals")["signals"]
        self.assertEqual(facts[0]["seq"], int(number))

    def test_resume_replays_the_facts(self):
        job = self.launch("/bin/sleep", "600")
        with Stream(self.server, f"/v1/jobs/{job.id}/events") as stream:
            first = stream.next()[0]
        self.client.request("POST", f"/v1/jobs/{job.id}/stop", {})
        job.wait(timeout=30)
        with Stream(self.server, f"/v1/jobs/{job.id}/events", last=first) as stream:
            seen = []
            stream.until(lambda i, t, d: seen.append((t, i)) or t == "job")
            self.assertIn("transition", [t for t, _ in seen])
            self.assertIn("signal", [t for t, _ in seen])
            numbers = [int(i) for t, i in seen if t != "job"]
            self.assertEqual(numbers, sorted(set(numbers)))
            self.assertTrue(all(n > int(first) for n in numbers))

    def test_an_id_from_the_future_or_another_epoch_is_a_gap(self):
        job = self.launch("/bin/sleep", "600")
        for path, last in ((f"/v1/jobs/{job.id}/events", "999999"), ("/v1/events", "00000000.5"),
                           ("/v1/events", "nonsense")):
            with Stream(self.server, path, last=last) as stream:
                self.assertEqual(stream.next()[1], "gap", path)

    def test_global_stream_begins_with_live_jobs_and_the_host(self):
        job = self.launch("/bin/sleep", "600")
        with Stream(self.server, "/v1/events") as stream:
            seen = set()
            stream.until(lambda i, t, d: seen.add((t, d.get("id"))) or t == "host")
            self.assertIn(("job", job.id), seen)
            number = stream.until(lambda i, t, d: t == "host")[0]
        epoch = self.client.request("GET", "/v1/info")["server_epoch"]
        self.assertTrue(number.startswith(epoch + "."))
        with Stream(self.server, "/v1/events?types=job", last=number) as stream:
            self.client.request("POST", f"/v1/jobs/{job.id}/kill")
            number2, kind, data = stream.next()
            self.assertEqual((kind, data["id"]), ("job", job.id))
            self.assertGreater(int(number2.split(".")[1]), int(number.split(".")[1]))

    def test_log_events(self):
        job = self.launch("/bin/sh", "-c", "while :; do echo x; sleep 0.2; done")
        with Stream(self.server, "/v1/events?types=log") as stream:
            data = stream.until(lambda i, t, d: d["job_id"] == job.id and d["stdout_bytes"] > 0)[2]
            stream.until(lambda i, t, d: d["job_id"] == job.id and d["stdout_bytes"] > data["stdout_bytes"])

    def test_sixty_four_streams_and_no_more(self):
        job = self.launch("/bin/sleep", "600")
        fixture.wait_until(self.no_streams, "the streams of other tests are gone")
        streams = []
        try:
            for _ in range(64):
                streams.append(Stream(self.server, "/v1/events?types=job"))
                self.assertEqual(streams[-1].status, 200)
            with Stream(self.server, "/v1/events") as one_more:
                self.assertEqual(one_more.status, 503)
                self.assertIsNotNone(one_more.response.getheader("Retry-After"))
            with Stream(self.server, f"/v1/jobs/{job.id}/logs?follow=1") as log:
                self.assertEqual(log.status, 503)
            self.client.request("POST", f"/v1/jobs/{job.id}/kill")
            for stream in streams:  # everybody hears of it
                stream.until(lambda i, t, d: d["id"] == job.id and d["state"] == "finished")
        finally:
            for stream in streams:
                stream.__exit__()
        fixture.wait_until(self.no_streams, "streams that were left make room")

    def test_a_client_that_reads_nothing_hurts_nobody(self):
        sleeper = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.addCleanup(sleeper.close)
        sleeper.sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n"
                        % (self.server.port, self.server.token().encode()))
        for _ in range(30):
            self.launch("/bin/true")
        job = self.launch("/bin/sleep", "600")
        with Stream(self.server, f"/v1/jobs/{job.id}/events") as stream:
            self.assertEqual(stream.next()[1], "job")
        self.assertEqual(self.client.request("GET", f"/v1/jobs/{job.id}")["state"], "running")


class Exit(unittest.TestCase):
    def test_sigterm_says_bye_and_leaves_jobs_running(self):
        with fixture.server() as server:
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            pid = server.client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]
            with Stream(server, "/v1/events") as stream:
                stream.until(lambda i, t, d: t == "host")
                server.process.terminate()
                self.assertEqual(stream.until(lambda i, t, d: t == "bye")[2], {"reason": "server_exit"})
                self.assertIsNone(stream.next())
            self.assertEqual(server.process.wait(timeout=20), 0)
            server.process.stdout.close()
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                self.assertNotIn(") Z ", file.read())
            server.start()
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}")["state"], "running")

    def test_on_server_exit_terminate(self):
        with fixture.server() as server:
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False,
                                       on_server_exit="terminate")
            pid = server.client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]
            self.assertEqual(server.terminate(), 0)

            def gone():
                try:
                    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                        return ") Z " in file.read()
                except FileNotFoundError:
                    return True
            fixture.wait_until(gone, "the job ends with the server")
            server.start()
            data = server.client.job(job.id).wait(timeout=30)
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}")["outcome"]["cause"], "user_stop")


if __name__ == "__main__":
    unittest.main()
