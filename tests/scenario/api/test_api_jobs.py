"""Jobs over the API: launch, look, wait, command, end, remove."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

import bulkhead
import bulkhead_fixture as fixture


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server()
        cls.server = cls.context.__enter__()
        cls.client = cls.server.client

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def open(self, *args):
        response = self.client.open(*args)
        self.addCleanup(response.bulkhead_connection.close)
        return response

    def launch(self, *command, **spec):
        spec.setdefault("record", False)
        if "limit" not in spec:
            spec.setdefault("mode", "observe")
        job = self.client.launch(list(command), **spec)
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        try:
            job.kill()
        except bulkhead.BulkheadError:
            pass

    def post(self, path, body=None, headers=None):
        response = self.open("POST", path, body, headers)
        return response.status, response.getheaders(), json.loads(response.read() or b"null")

    def wait_up(self, job):
        """The program has said "up": its traps are set."""
        fixture.wait_until(lambda: self.open("GET", f"/v1/jobs/{job.id}/logs").read() == b"up\n", "up")

    def error(self, method, path, body=None, headers=None):
        with self.assertRaises(bulkhead.BulkheadError) as caught:
            self.open(method, path, body, headers)
        return caught.exception

    def test_launch_answers_with_the_running_job(self):
        status, headers, job = self.post("/jobs", {"command": ["/bin/sleep", "600"], "limit": "100MiB",
                                                   "wall_time": "2h", "record": False, "labels": {"a": "b"}})
        self.addCleanup(lambda: self.client.request("POST", f"/v1/jobs/{job['id']}/kill"))
        self.assertEqual(status, 201)
        self.assertEqual(dict(headers)["Location"], f"/v1/jobs/{job['id']}")
        self.assertEqual(job["state"], "running")
        self.assertEqual(job["limit_bytes"], 100 << 20)
        self.assertEqual(job["wall_time_ms"], 7200000)
        self.assertEqual(job["labels"], {"a": "b"})
        self.assertIsNotNone(job["started_at"])
        with open(f"/proc/{job['root_pid']}/cmdline", "rb") as file:
            self.assertEqual(file.read(), b"/bin/sleep\x00600\x00")

    def test_end_of_a_job(self):
        job = self.launch("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
        job.wait(timeout=30)
        data = self.client.request("GET", f"/v1/jobs/{job.id}")
        self.assertEqual(data["state"], "finished")
        self.assertEqual(data["policy_state"], "exited")
        self.assertEqual((data["outcome"]["kind"], data["outcome"]["cause"], data["outcome"]["exit_code"]),
                         ("child_exited", "child_error", 3))
        self.assertTrue(data["outcome"]["sentence"])
        report = self.client.request("GET", f"/v1/jobs/{job.id}/report")
        self.assertEqual(report["run"]["run_id"], job.id)
        with open(os.path.join(self.server.state, "jobs", job.id, "report.json"), "rb") as file:
            raw = self.open("GET", f"/v1/jobs/{job.id}/report").read()
            self.assertEqual(raw, file.read())
        self.assertEqual(self.open("GET", f"/v1/jobs/{job.id}/logs").read(), b"out\n")
        self.assertEqual(self.open("GET", f"/v1/jobs/{job.id}/logs?stream=stderr").read(), b"err\n")
        for verb in ("stop", "kill", "checkpoint"):
            self.assertEqual(self.error("POST", f"/v1/jobs/{job.id}/{verb}").code, "wrong_state")

    def test_report_while_running(self):
        job = self.launch("/bin/sleep", "600")
        self.assertEqual(self.error("GET", f"/v1/jobs/{job.id}/report").code, "report_not_ready")
        self.assertEqual(self.error("DELETE", f"/v1/jobs/{job.id}").code, "wrong_state")

    def test_stop_twice_does_not_escalate(self):
        job = self.launch("/bin/sh", "-c", "trap 'sleep 2; exit 0' TERM; echo up; while :; do sleep 0.05; done",
                          stop={"grace": {"base": "20s"}})
        self.wait_up(job)
        for _ in range(3):
            status, _, data = self.post(f"/v1/jobs/{job.id}/stop", {})
            self.assertEqual(status, 202)
            self.assertIn(data["state"], ("stopping", "running"))
        job.wait(timeout=30)
        signals = self.client.request("GET", f"/v1/jobs/{job.id}/signals")["signals"]
        self.assertEqual([s["signal"] for s in signals if s["reason"] == "stop_requested"], ["SIGTERM"])
        self.assertNotIn("SIGKILL", [s["signal"] for s in signals])

    def test_waiting_for_names_who_is_left(self):
        job = self.launch("/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done",
                          stop={"grace": {"base": "30s"}})
        self.wait_up(job)
        self.post(f"/v1/jobs/{job.id}/stop", {})
        data = fixture.wait_until(
            lambda: (d := self.client.request("GET", f"/v1/jobs/{job.id}"))["waiting_for"] and d, "waiting_for")
        self.assertIn(data["root_pid"], [p["pid"] for p in data["waiting_for"]])
        self.post(f"/v1/jobs/{job.id}/kill")
        job.wait(timeout=30)

    def test_signal_reaches_the_job_and_the_journal(self):
        job = self.launch("/bin/sh", "-c", "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.05; done")
        self.wait_up(job)
        status, _, _ = self.post(f"/v1/jobs/{job.id}/signal", {"signal": "SIGUSR1"})
        self.assertEqual(status, 202)
        job.wait(timeout=30)
        self.assertIn(b"got", self.open("GET", f"/v1/jobs/{job.id}/logs").read())
        signals = self.client.request("GET", f"/v1/jobs/{job.id}/signals")["signals"]
        self.assertIn(("SIGUSR1", "requested"), [(s["signal"], s["reason"]) for s in signals])
        self.assertEqual(self.error("POST", f"/v1/jobs/{job.id}/signal", {"signal": "SIGNOPE"}).status, 422)

    def test_names(self):
        job = self.launch("/bin/sleep", "600", name="one")
        self.assertEqual(self.client.request("GET", "/v1/jobs/one")["id"], job.id)
        refused = self.error("POST", "/v1/jobs", {"command": ["/bin/true"], "mode": "observe", "name": "one"})
        self.assertEqual((refused.status, refused.code), (409, "name_taken"))
        self.assertEqual(refused.problem["job_url"], f"/v1/jobs/{job.id}")
        status, _, same = self.post("/v1/jobs", {"command": ["/bin/true"], "mode": "observe", "name": "one",
                                                 "if_exists": "return"})
        self.assertEqual((status, same["id"]), (200, job.id))
        job.kill()
        job.wait(timeout=30)
        self.assertEqual(self.error("GET", "/v1/jobs/one").code, "not_found")
        again = self.launch("/bin/true", name="one")
        self.assertNotEqual(again.id, job.id)

    def test_long_poll(self):
        job = self.launch("/bin/sleep", "600")
        data = self.client.request("GET", f"/v1/jobs/{job.id}")
        answers = []

        def poll():
            answers.append(self.client.request("GET", f"/v1/jobs/{job.id}?wait=30s"))

        thread = threading.Thread(target=poll)
        thread.start()
        self.post(f"/v1/jobs/{job.id}/kill")
        thread.join(timeout=25)
        self.assertFalse(thread.is_alive())
        self.assertGreater(answers[0]["event_sequence"], data["event_sequence"])
        old = self.client.request("GET", f"/v1/jobs/{job.id}?wait=30s&since=0")  # at once: something is newer
        self.assertGreater(old["event_sequence"], 0)
        self.assertEqual(self.error("GET", f"/v1/jobs/{job.id}?wait=61s").code, "bad_query")

    def test_list(self):
        jobs = [self.launch("/bin/true", labels={"set": "list"}) for _ in range(5)]
        for job in jobs:
            job.wait(timeout=30)
        ids = []
        cursor = ""
        while True:
            page = self.client.request("GET", f"/v1/jobs?label=set:list&limit=2{cursor}")
            ids += [j["id"] for j in page["jobs"]]
            if page["next_cursor"] is None:
                break
            cursor = "&cursor=" + page["next_cursor"]
        self.assertEqual(ids, [j.id for j in reversed(jobs)])
        live = self.launch("/bin/sleep", "600", labels={"set": "list"})
        page = self.client.request("GET", "/v1/jobs?label=set:list&state=running,stopping")
        self.assertEqual([j["id"] for j in page["jobs"]], [live.id])
        page = self.client.request("GET", "/v1/jobs?label=set:list&state=finished&limit=1")
        self.assertEqual(page["jobs"][0]["id"], jobs[-1].id)
        for query in ("nope=1", "limit=0", "limit=x", "state=done", "label=x", "cursor=abc", "name=%ff"):
            self.assertEqual(self.error("GET", f"/v1/jobs?{query}").status, 400, query)

    def test_remove(self):
        job = self.launch("/bin/true")
        job.wait(timeout=30)
        response = self.open("DELETE", f"/v1/jobs/{job.id}")
        self.assertEqual(response.status, 204)
        self.assertEqual(self.error("GET", f"/v1/jobs/{job.id}").code, "not_found")
        directory = os.path.join(self.server.state, "jobs", job.id)
        fixture.wait_until(lambda: not os.path.exists(directory), "the run directory is gone")

    def test_spec_shows_no_secret(self):
        job = self.launch("/bin/true", env={"SECRET": "hf_0123456789"})
        text = self.open("GET", f"/v1/jobs/{job.id}/spec").read()
        self.assertNotIn(b"hf_0123456789", text)
        self.assertEqual(json.loads(text)["env"], {"SECRET": "redacted"})

    def test_relaunch(self):
        job = self.launch("/bin/sh", "-c", "echo $MARK", env={"MARK": "again"}, name="first")
        job.wait(timeout=30)
        status, _, second = self.post(f"/v1/jobs/{job.id}/relaunch", {"name": "second"})
        self.assertEqual((status, second["name"], second["relaunch_of"]), (201, "second", job.id))
        done = self.client.job(second["id"])
        done.wait(timeout=30)
        self.assertEqual(self.open("GET", f"/v1/jobs/{second['id']}/logs").read(), b"again\n")

    def test_idempotency_key(self):
        body = {"command": ["/bin/sleep", "600"], "mode": "observe", "record": False}
        key = {"Idempotency-Key": f"k-{os.getpid()}"}
        status, _, first = self.post("/v1/jobs", body, key)
        self.addCleanup(lambda: self.client.request("POST", f"/v1/jobs/{first['id']}/kill"))
        again, _, second = self.post("/v1/jobs", body, key)
        self.assertEqual((status, again), (201, 201))
        self.assertEqual(first["id"], second["id"])
        refused = self.error("POST", "/v1/jobs", {**body, "labels": {"x": "y"}}, key)
        self.assertEqual((refused.status, refused.code), (422, "idempotency_mismatch"))

    def test_idempotency_key_and_name(self):
        body = {"command": ["/bin/sleep", "600"], "mode": "observe", "record": False, "name": "keyed"}
        key = {"Idempotency-Key": "keyed-1"}
        _, _, first = self.post("/v1/jobs", body, key)
        self.addCleanup(lambda: self.client.request("POST", f"/v1/jobs/{first['id']}/kill"))
        self.assertEqual(self.post("/v1/jobs", body, key)[2]["id"], first["id"])
        for _ in range(2):  # refused, and the other key is not used up by it
            self.assertEqual(self.error("POST", "/v1/jobs", body, {"Idempotency-Key": "keyed-2"}).code, "name_taken")

    def test_owner_must_exist(self):
        refused = self.error("POST", "/v1/jobs", {"command": ["/bin/true"], "mode": "observe",
                                                  "owner": {"pid": 4194303}, "on_owner_exit": "stop"})
        self.assertEqual((refused.status, refused.errors[0]["pointer"]), (422, "/owner/pid"))

    def test_owner_exit_stops_the_job(self):
        owner = subprocess.Popen(["/bin/sleep", "600"])
        who = {"owner": {"pid": owner.pid}, "on_owner_exit": "stop"}
        job = self.launch("/bin/sleep", "600", limit="100MiB", **who)
        watched = self.launch("/bin/sleep", "600", **who)
        data = self.client.request("GET", f"/v1/jobs/{watched.id}")
        self.assertIn("only observed", " ".join(data["warnings"]))
        owner.kill()
        owner.wait()
        job.wait(timeout=30)
        self.assertEqual(self.client.request("GET", f"/v1/jobs/{job.id}")["outcome"]["cause"], "owner_exit")

    def test_checkpoint(self):
        job = self.launch("/bin/sleep", "600")
        self.assertEqual(self.error("POST", f"/v1/jobs/{job.id}/checkpoint").code, "checkpoint_unavailable")
        with tempfile.TemporaryDirectory() as folder:
            program = "trap 'echo saved > ck.txt; sync' USR1; echo up; while :; do sleep 0.05; done"
            job = self.launch("/bin/sh", "-c", program, cwd=folder,
                              checkpoint={"signal": "SIGUSR1", "path": "ck.txt", "timeout": "10s"})
            self.wait_up(job)
            status, _, data = self.post(f"/v1/jobs/{job.id}/checkpoint")
            self.assertEqual((status, data["checkpoint"]["method"]), (202, "signal"))
            fixture.wait_until(lambda: self.client.request("GET", f"/v1/jobs/{job.id}")["checkpoint"]["status"]
                               == "verified_file", "the checkpoint is verified")
            data = self.client.request("GET", f"/v1/jobs/{job.id}")
            self.assertEqual((data["checkpoint"]["size_bytes"], data["state"]), (6, "running"))
            job.kill()
            job.wait(timeout=30)

    def test_recording_marks(self):
        job = self.launch("/bin/sleep", "600", record={"enabled": True})
        self.assertEqual(self.post(f"/v1/jobs/{job.id}/recording", {"mark": "epoch 3"})[0], 202)
        self.assertEqual(self.error("POST", f"/v1/jobs/{job.id}/recording", {}).status, 422)

        def marked():
            line = self.client.request("GET", f"/v1/jobs/{job.id}/timeline?points=5")
            return [m for m in line["markers"] if m["kind"] == "mark" and m["label"] == "epoch 3"]
        fixture.wait_until(marked, "the mark is in the timeline")

    def test_limits(self):
        job = self.launch("/bin/sleep", "600", limit="100MiB")
        path = f"/v1/jobs/{job.id}/limits"
        self.assertEqual(self.error("PATCH", path, {"limit": "200MiB"}).status, 428)
        self.assertEqual(self.error("PATCH", path, {"limit": "200MiB"}, {"If-Match": '"limits-9"'}).status, 412)
        refused = self.error("PATCH", path, {"bands": {"warning": "300MiB"}}, {"If-Match": '"limits-1"'})
        self.assertEqual(refused.status, 422)
        response = self.open("PATCH", path, {"limit": "200MiB"}, {"If-Match": '"limits-1"'})
        data = json.loads(response.read())
        self.assertEqual((response.status, data["limit_bytes"], data["limits_revision"]), (200, 200 << 20, 2))
        self.assertGreater(data["bands"]["emergency_bytes"], 200 << 20)

    def test_logs(self):
        job = self.launch("/bin/sh", "-c", "printf 0123456789; sleep 600")
        path = f"/v1/jobs/{job.id}/logs"
        fixture.wait_until(lambda: self.open("GET", path).read() == b"0123456789", "output")
        self.assertEqual(self.open("GET", path + "?from=4").read(), b"456789")
        self.assertEqual(self.open("GET", path + "?from=400").read(), b"")
        for value, want, where in (("bytes=2-4", b"234", "2-4"), ("bytes=7-", b"789", "7-9"), ("bytes=-2", b"89", "8-9")):
            response = self.open("GET", path, None, {"Range": value})
            self.assertEqual((response.status, response.read()), (206, want))
            self.assertEqual(response.getheader("Content-Range"), f"bytes {where}/10")
        self.assertEqual(self.error("GET", path, None, {"Range": "bytes=10-"}).status, 416)
        response = self.open("GET", path + "?follow=1")
        self.assertEqual(response.read1(100), b"0123456789")
        self.post(f"/v1/jobs/{job.id}/kill")
        self.assertEqual(response.read(), b"")  # ends with the job

    def test_log_that_was_cut(self):
        job = self.launch("/bin/sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x")
        job.wait(timeout=30)
        file = os.path.join(self.server.state, "jobs", job.id, "out.log")
        subprocess.run(["fallocate", "--punch-hole", "--offset", "0", "--length", "8192", file], check=True)
        path = f"/v1/jobs/{job.id}/logs"
        response = self.open("GET", path)
        self.assertEqual((response.getheader("X-Bulkhead-Log-From"), response.read()), ("8192", b"x" * 11808))
        for where in ("from=0", "from=8191"):
            refused = self.error("GET", f"{path}?{where}")
            self.assertEqual((refused.status, refused.code), (410, "log_cut"))
        self.assertEqual(self.open("GET", path + "?from=19999").read(), b"x")  # offsets are stable

    def test_traces_of_a_job_without_events(self):
        job = self.launch("/bin/true")
        job.wait(timeout=30)
        import pickle
        self.assertIn("device_traces", pickle.loads(self.open("GET", f"/v1/jobs/{job.id}/memory.pickle").read()))
        events = self.client.request("GET", f"/v1/jobs/{job.id}/memory-events")
        self.assertEqual(events, {"events": [], "next_from": None})
        self.assertEqual(self.error("GET", f"/v1/jobs/{job.id}/live").code, "no_trace")
        line = self.client.request("GET", f"/v1/jobs/{job.id}/timeline?points=10")
        self.assertEqual(len({len(line[k]) for k in ("t_us", "active_min", "charge_max", "reserved_min")}), 1)
        self.assertIn("traceEvents", self.client.request("GET", f"/v1/jobs/{job.id}/trace.json"))

    def test_host_info_metrics_openapi(self):
        job = self.launch("/bin/sleep", "600", limit="100MiB", name="metered")
        host = self.client.request("GET", "/v1/host")
        self.assertGreaterEqual(host["committed_bytes"], 100 << 20)
        self.assertGreater(host["memory_total_bytes"], host["memory_available_bytes"])
        text = self.open("GET", "/metrics").read().decode()
        self.assertIn(f'bulkhead_job_limit_bytes{{job="{job.id}",name="metered"}} {100 << 20}', text)
        self.assertIn('bulkhead_http_requests_total{route="/v1/host",method="GET",status="200"}', text)
        families = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
        self.assertEqual(families["bulkhead_decision_latency_seconds"], "histogram")
        for line in text.splitlines():  # every sample belongs to a family that was declared
            if not line.startswith("#"):
                name = line.split("{")[0].split(" ")[0]
                base = re.sub(r"_(bucket|sum|count)$", "", name)
                self.assertTrue(name in families or base in families, line)
                float(line.rsplit(" ", 1)[1])
        job.kill()
        job.wait(timeout=30)
        later = self.open("GET", "/metrics").read().decode()
        self.assertIn('bulkhead_signals_total{signal="SIGKILL"}', later)
        self.assertIn(f'bulkhead_job_limit_bytes{{job="{job.id}"', later)  # for ten minutes more
        other = self.open("GET", "/metrics", None, {"Accept": "application/openmetrics-text"}).read()
        self.assertTrue(other.endswith(b"# EOF\n"))

    def test_warnings_about_the_recorder(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "true")
            shutil.copy("/bin/true", program)
            os.chmod(program, 0o4755)
            _, _, job = self.post("/v1/jobs", {"command": [program], "mode": "observe"})
            self.assertRegex(" ".join(job["warnings"]), "setuid|not installed")
            self.client.job(job["id"]).wait(timeout=30)

    def test_head(self):
        job = self.launch("/bin/true")
        for path in (f"/v1/jobs/{job.id}", "/v1/jobs", "/", "/livez", f"/v1/jobs/{job.id}/memory.pickle"):
            response = self.open("HEAD", path)
            self.assertEqual((response.status, response.read()), (200, b""), path)


class External(unittest.TestCase):
    EVENT = {"addr": 4096, "size": 100, "timestamp_us": 1796004589421563, "elapsed_us": 5, "action": "AllocNew",
             "primitive_name": "Add", "stream": 0, "traceback": [["a.py", "f", 3]]}

    def test_external_job(self):
        with fixture.server() as server:
            client = server.client
            data = client.request("POST", "/v1/jobs", {"external": True, "name": "mac"})
            path = f"/v1/jobs/{data['id']}"
            self.assertEqual((data["state"], data["command"]), ("running", []))
            client.request("POST", path + "/memory-events", [self.EVENT])
            two = [{**self.EVENT, "addr": 8192, "seq": 2}, {**self.EVENT, "addr": 12288, "seq": 1}]
            with self.assertRaises(bulkhead.BulkheadError) as caught:
                client.open("POST", path + "/memory-events", two)
            self.assertEqual((caught.exception.code, caught.exception.problem["last_seq"]),
                             ("sequence_went_back", 1))
            self.assertEqual(caught.exception.errors[0]["pointer"], "/1/seq")
            events = fixture.wait_until(
                lambda: client.request("GET", path + "/memory-events")["events"], "events are imported")
            self.assertEqual([e["addr"] for e in events], [4096])  # the refused request left nothing
            self.assertEqual(client.request("GET", path + "/live")["total_bytes"], 100)
            report = {"schema": "bulkhead.report", "schema_version": 1, "run": {"run_id": data["id"]},
                      "outcome": {"kind": "child_exited", "cause": "completed", "sentence": "Done."}}
            with self.assertRaises(bulkhead.BulkheadError):
                client.open("PUT", path + "/report", {**report, "run": {"run_id": "x"}})
            client.request("PUT", path + "/report", report)
            self.assertEqual(client.request("GET", path)["outcome"]["sentence"], "Done.")
            self.assertEqual(client.request("GET", path + "/report"), report)
            with self.assertRaises(bulkhead.BulkheadError) as caught:
                client.open("PUT", path + "/report", report)
            self.assertEqual(caught.exception.code, "wrong_state")


if __name__ == "__main__":
    unittest.main()
