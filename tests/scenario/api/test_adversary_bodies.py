"""Bodies and query fields: what is refused, where the pointer points, and that nothing happened."""
import copy
import json
import os
import tempfile
import unittest

import adversary
import bulkhead_fixture as fixture

OK = {"command": ["/bin/true"], "mode": "observe", "record": False}


class Bodies(adversary.Scenario):
    def post(self, body, **headers):
        return self.ask("POST", "/v1/jobs", body, **headers)

    def count(self):
        return len(self.ask("GET", "/v1/jobs?limit=1000").json()["jobs"])

    def test_json_that_is_none(self):
        before = self.count()
        good = json.dumps(OK).encode()
        for body in (b"", b" ", good + b"x", good + good, b"\xef\xbb\xbf" + good, b"\x00" + good, good + b"\x00", good[:-1], good[:-1] + b",}",
                     b'{"mode":"observe","mode":"observe"}', b'{"labels":{"a":"1","a":"2"}}', b'{"a":"\\u0000"}', b'{"\\u0000":1}',
                     b'{"a":"\\ud800"}', b'{"a":"\x01"}', b'{"a":1e999}', b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":NaN}',
                     b'{"a":Infinity}', b"{'a':1}", b'{"a":"\xff"}', b'{"a":"\xc0\x80"}', b'{"a":"\xed\xa0\x80"}',
                     b'{"a":' + b"[" * 32 + b"]" * 32 + b"}", b"[" * 100000, b'{"a":' * 100000, b'{"limit":99999999999999999999}',
                     good.decode().encode("utf-16")):
            self.refused(self.post(body), 400, "invalid_json")
        for body in (b"null", b"[]", b'"x"', b"1", b"true"):
            self.refused(self.post(body), 422, "invalid_value", "")
        self.assertEqual(self.count(), before)

    def test_members_by_their_pointers(self):
        before = self.count()
        for change, code, pointer in (
                ({"a/b~c": 1}, "unknown_member", "/a~1b~0c"), ({"labels": {"": "x"}}, "invalid_value", "/labels"),
                ({"labels": {str(i): "" for i in range(17)}}, "invalid_value", "/labels"),
                ({"labels": {"a": 1}}, "invalid_value", "/labels"), ({"command": "x"}, "invalid_value", "/command"),
                ({"command": []}, "invalid_value", "/command"), ({"command": ["/bin/true", None]}, "invalid_value", "/command/1"),
                ({"command": ["x"] * 4097}, "invalid_value", "/command"), ({"mode": None}, "invalid_value", "/mode"),
                ({"name": None}, "invalid_value", "/name"), ({"name": ""}, "invalid_value", "/name"),
                ({"name": "x" * 65}, "invalid_value", "/name"), ({"name": "a/b"}, "invalid_value", "/name"),
                ({"name": "abc\n"}, "invalid_value", "/name"), ({"name": "0" * 20}, "invalid_value", "/name"),
                ({"name": "é"}, "invalid_value", "/name"), ({"cwd": "relative"}, "invalid_value", "/cwd"),
                ({"env": {"A=B": ""}}, "invalid_value", "/env"), ({"env": {"BULKHEAD_X": ""}}, "invalid_value", "/env"),
                ({"owner": {"pid": 0}}, "invalid_value", "/owner/pid"), ({"owner": {"pid": 1.5}}, "invalid_value", "/owner/pid"),
                ({"owner": {}}, "missing_member", "/owner/pid"), ({"on_owner_exit": "stop"}, "missing_member", "/owner"),
                ({"wall_time": 5}, "invalid_value", "/wall_time"), ({"wall_time": "1.5s"}, "invalid_value", "/wall_time"),
                ({"wall_time": "5"}, "invalid_value", "/wall_time"), ({"wall_time": "99999999999h"}, "invalid_value", "/wall_time"),
                ({"wall_time": " 5s"}, "invalid_value", "/wall_time"), ({"wall_time": "5S"}, "invalid_value", "/wall_time"),
                ({"record": {"depth": 0}}, "invalid_value", "/record/depth"), ({"record": {"x": 1}}, "unknown_member", "/record/x"),
                ({"stop": {"grace": {"base": "-1s"}}}, "invalid_value", "/stop/grace/base"),
                ({"stop": {"signal": "SIGFOO"}}, "invalid_value", "/stop/signal"), ({"checkpoint": {}}, "invalid_value", "/checkpoint"),
                ({"breach": {"count": 0}}, "invalid_value", "/breach/count"), ({"clear_env": 1}, "invalid_value", "/clear_env")):
            self.refused(self.post({**OK, **change}), 422, code, pointer)
        self.assertEqual(self.count(), before)

    def test_sizes(self):
        for text in ("3g", "1 GiB", " 1GiB", "1GiB ", "1.0001GiB", "1.5", ".5GiB", "1.GiB", "-1", "+1", "0x10", "1e9", "1gib", "99PiB",
                     "9223372036854775808", "8388608TiB", "", "GiB", "１GiB", "0", "0GiB", -1, 0, 1.0, 1073741824.0, True, None, [], {}):
            self.refused(self.post({"command": ["/bin/true"], "limit": text}), 422, "invalid_value", "/limit")
        for text, value in (("1.5GiB", 3 << 29), ("100000KB", 100000000), ("268435456", 1 << 28), (1 << 28, 1 << 28),
                            ("268435456B", 1 << 28), ("1.001GB", 1001000000)):
            job = self.launch("/bin/true", limit=text)
            self.assertEqual(job["limit_bytes"], value)
        self.refused(self.post({"command": ["/bin/true"], "limit": "99TiB"}), 422, "limit_exceeds_host", "/limit")

    def test_an_external_job_is_never_enforced(self):
        job = self.post({"external": True, "limit": "1GiB"}).json()
        self.assertEqual(job["mode"], "observe")
        self.refused(self.post({"external": True, "mode": "enforce", "limit": "1GiB"}), 422, "invalid_value", "/mode")
        self.refused(self.post({"external": True, "command": ["x"]}), 422, "invalid_value", "/command")
        for verb in ("stop", "kill", "checkpoint"):
            self.refused(self.ask("POST", f"/v1/jobs/{job['id']}/{verb}"), 409, "wrong_state")

    def test_limits_change_only_by_what_is_valid(self):
        job = self.launch("/bin/sleep", "600", limit="1GiB")
        path = f"/v1/jobs/{job['id']}/limits"
        tag = f'"limits-{job["limits_revision"]}"'
        for body in ({"limit": 0}, {"limit": "0"}, {"limit": "0B"}, {"bands": {"warning": 0}}, {"bands": {}}, {}, {"limit": "3g"},
                     {"bands": {"warning": "2GiB"}}, {"bands": {"emergency": "1KiB"}}, {"x": 1}, {"limit": None}):
            answer = self.ask("PATCH", path, body, If_Match=tag)
            self.assertEqual(answer.status, 422, (body, answer))
        self.refused(self.ask("PATCH", path, {"limit": "2GiB"}), 428, "precondition_required")
        for stale in ("*", "limits-1", 'W/' + tag, '"limits-99"', tag + ', "limits-2"', '"limits-"', '"limits--1"'):
            self.refused(self.ask("PATCH", path, {"limit": "2GiB"}, If_Match=stale), 412, "precondition_failed")
        after = self.job(job["id"])
        self.assertEqual((after["limit_bytes"], after["bands"], after["limits_revision"]),
                         (job["limit_bytes"], job["bands"], job["limits_revision"]))
        changed = self.ask("PATCH", path, {"limit": "2GiB"}, If_Match=tag)
        self.assertEqual(changed.status, 200, changed)
        self.assertEqual(changed.json()["limit_bytes"], 2 << 30)
        self.refused(self.ask("PATCH", path, {"limit": "3GiB"}, If_Match=tag), 412, "precondition_failed")

    def test_commands_that_cannot_be(self):
        job = self.launch("/bin/sleep", "600")
        path = f"/v1/jobs/{job['id']}/"
        for verb, body, code, pointer in (
                ("signal", {}, "missing_member", "/signal"), ("signal", {"signal": 15}, "invalid_value", "/signal"),
                ("signal", {"signal": "0"}, "invalid_value", "/signal"), ("signal", {"signal": "sigterm"}, "invalid_value", "/signal"),
                ("kill", {"x": 1}, "unknown_member", "/x"), ("stop", {"grace": 5}, "invalid_value", "/grace"),
                ("stop", [], "invalid_value", ""), ("recording", {}, "missing_member", ""), ("recording", {"mark": ""}, "invalid_value", "/mark"),
                ("recording", {"mark": "x" * 129}, "invalid_value", "/mark"), ("relaunch", [], "invalid_value", ""),
                ("relaunch", {"x": 1}, "unknown_member", "/x")):
            self.refused(self.ask("POST", path + verb, body), 422, code, pointer)
        self.refused(self.ask("POST", path + "stop", b"nul"), 400, "invalid_json")
        problem = self.refused(self.ask("POST", path + "checkpoint"), 409, "checkpoint_unavailable")
        self.assertNotEqual(problem["detail"], problem["title"])
        problem = self.refused(self.ask("POST", path + "recording", {"mark": "x"}), 409, "wrong_state")
        self.assertNotEqual(problem["detail"], problem["title"])
        self.refused(self.ask("DELETE", path[:-1]), 409, "wrong_state")
        self.assertEqual(self.job(job["id"])["state"], "running")

    def test_why_a_job_did_not_start(self):
        problem = self.refused(self.post({"command": ["no-such-program"], "mode": "observe"}), 422, "launch_not_found", "/command/0")
        for _ in range(2):
            job = self.job(problem["job_id"])
            self.assertEqual(job["state"], "failed_to_start")
            self.assertEqual(job["outcome"]["kind"], "launch_not_found")
            self.assertEqual(job["outcome"]["exit_code"], 127)
            self.assertIn("no-such-program", job["outcome"]["sentence"])
        self.refused(self.ask("GET", f"/v1/jobs/{job['id']}/report"), 409, "report_suppressed")
        problem = self.refused(self.post({"command": ["/tmp"], "mode": "observe"}), 422, "launch_not_executable", "/command/0")
        self.assertEqual(self.job(problem["job_id"])["outcome"]["exit_code"], 126)

    def test_labels_are_found_whole(self):
        labels = {"k" * 64: "v" * 256, "a b": "x:y&=%"}
        job = self.launch("/bin/sleep", "600", labels=labels)
        found = lambda query: [j["id"] for j in self.ask("GET", "/v1/jobs?label=" + query).json()["jobs"]]
        self.assertEqual(found("k" * 64 + ":" + "v" * 256), [job["id"]])
        self.assertEqual(found("k" * 64 + ":" + "v" * 255), [])
        self.assertEqual(found("a%20b:x:y%26%3D%25"), [job["id"]])
        self.refused(self.ask("GET", "/v1/jobs?label=k"), 400, "bad_query", "?label")

    def test_query_fields(self):
        job = self.launch("/bin/sleep", "600")
        path = f"/v1/jobs/{job['id']}"
        for query in ("?limit=0", "?limit=1001", "?limit=-1", "?limit=", "?limit=1e1", "?limit=1&limit=2", "?nope", "?cursor=x", "?state=nope"):
            self.refused(self.ask("GET", "/v1/jobs" + query), 400, "bad_query")
        for query in ("?wait=61s", "?wait=1", "?wait=-1s", "?since=-1", "?since=", "?wait=1ms&since=99999999999999999999"):
            self.refused(self.ask("GET", path + query), 400, "bad_query")
        for rest in ("/timeline?points=0", "/timeline?from_us=5&to_us=4", "/timeline?from_us=-1", "/live?at=peak&at_us=1", "/live?top=0",
                     "/live?format=xml", "/memory-events?limit=100001", "/memory-events?format=csv", "/memory.pickle?from_us=3&to_us=2",
                     "/logs?stream=x", "/logs?from=-1", "/logs?follow=2", "/report?merged=2", "/spec?x", "/events?types=nope", "/events?job=x"):
            self.refused(self.ask("GET", path + rest), 400, "bad_query")
        self.refused(self.ask("GET", "/v1/events?job=nope"), 404, "not_found")

    def test_pages(self):
        ids = {self.launch("/bin/true", name=f"page-{i}")["id"] for i in range(7)}
        for job_id in ids:
            self.wait_over(job_id)
        everything = self.ask("GET", "/v1/jobs?limit=1000").json()["jobs"]
        self.assertEqual([j["id"] for j in everything], sorted((j["id"] for j in everything), reverse=True))
        for size in (1, 3, len(everything) - 1, len(everything), len(everything) + 1):
            seen, cursor = [], ""
            while cursor is not None:
                page = self.ask("GET", f"/v1/jobs?limit={size}" + (cursor and "&cursor=" + cursor)).json()
                self.assertTrue(page["jobs"], "a page without jobs")
                seen += [j["id"] for j in page["jobs"]]
                cursor = page["next_cursor"]
            self.assertEqual(seen, [j["id"] for j in everything], size)

    def test_ranges_of_a_hostile_log(self):
        text = b"<script>alert(1)</script>\x00\xff\xfe\x1b[31m\r\nHTTP/1.1 200 OK\r\n\r\n"
        with tempfile.NamedTemporaryFile(dir="/tmp") as file:
            file.write(text)
            file.flush()
            job = self.launch("/bin/cat", file.name)
            self.wait_over(job["id"])
        path = f"/v1/jobs/{job['id']}/logs"
        whole = self.ask("GET", path)
        self.assertEqual(whole.body, text)
        self.assertTrue(whole.headers["Content-Type"].startswith("text/plain"))
        self.assertEqual(whole.headers["X-Content-Type-Options"], "nosniff")
        size = len(text)
        for value, wanted in (("bytes=0-3", (0, 3)), ("bytes=5-", (5, size - 1)), ("bytes=-4", (size - 4, size - 1)),
                              (f"bytes=0-{size * 9}", (0, size - 1)), (f"bytes=-{size * 9}", (0, size - 1)), (f"bytes={size - 1}-", (size - 1, size - 1))):
            part = self.ask("GET", path, Range=value)
            self.assertEqual(part.status, 206, value)
            self.assertEqual(part.body, text[wanted[0]:wanted[1] + 1])
            self.assertEqual(part.headers["Content-Range"], f"bytes {wanted[0]}-{wanted[1]}/{size}")
        for value in (f"bytes={size}-", "bytes=-0", f"bytes={size}-{size + 5}"):
            answer = self.ask("GET", path, Range=value)
            self.refused(answer, 416, "range_not_satisfiable")
            self.assertEqual(answer.headers["Content-Range"], f"bytes */{size}")
        for value in ("bytes=3-1", "bytes=0-1,3-4", "bytes=", "bytes=-", "items=0-1", "bytes=a-b", "bytes=99999999999999999999-"):
            self.assertEqual(self.ask("GET", path, Range=value).body, text, value)
        self.assertEqual(self.ask("GET", path + f"?from={size + 5}").body, b"")

    def test_what_an_external_job_is_told(self):
        job = self.post({"external": True}).json()
        path = f"/v1/jobs/{job['id']}/"
        for body, kind, status, pointer in (
                (b"{}", "application/json", 400, None), (b"", "application/json", 400, None), (b"[1]", "application/json", 422, "/0"),
                (b"[{}]", "application/json", 422, "/0/action"), (b"{}\n", "application/x-ndjson", 422, "/0/action"),
                (b"nonsense", "application/x-ndjson", 400, "/0"), (b"[]", "text/csv", 415, None)):
            answer = self.ask("POST", path + "memory-events", body, Content_Type=kind)
            self.assertEqual(answer.status, status, (body, answer))
            if pointer:
                self.assertIn(pointer, [e["pointer"] for e in answer.json()["errors"]])
        report = fixture.load_json(fixture.ROOT / "openapi/examples/report.json")
        self.refused(self.ask("PUT", path + "report", report), 422, "invalid_value", "/run/run_id")
        mine = copy.deepcopy(report)
        mine["run"]["run_id"] = job["id"]
        self.assertEqual(self.ask("PUT", path + "report", mine).status, 204)
        self.refused(self.ask("PUT", path + "report", mine), 409, "wrong_state")
        self.refused(self.ask("POST", path + "memory-events", []), 409, "wrong_state")


class Keys(adversary.Scenario):
    def test_a_key_answers_whatever_has_changed_since(self):
        with tempfile.TemporaryDirectory() as directory:
            cwd = os.path.join(directory, "work")
            os.mkdir(cwd)
            body = {**OK, "cwd": cwd}
            first = self.ask("POST", "/v1/jobs", body, Idempotency_Key="cwd")
            self.assertEqual(first.status, 201)
            os.rmdir(cwd)
            again = self.ask("POST", "/v1/jobs", body, Idempotency_Key="cwd")
        self.assertEqual((again.status, again.body), (201, first.body))
        self.assertEqual(again.headers["Location"], first.headers["Location"])

    def test_keys(self):
        failed = self.ask("POST", "/v1/jobs", {"command": ["no-such"], "mode": "observe"}, Idempotency_Key="f")
        again = self.ask("POST", "/v1/jobs", {"command": ["no-such"], "mode": "observe"}, Idempotency_Key="f")
        self.assertEqual((failed.status, failed.body), (again.status, again.body))
        self.refused(self.ask("POST", "/v1/jobs", OK, Idempotency_Key="f"), 422, "idempotency_mismatch")
        self.refused(self.ask("POST", "/v1/jobs", OK, Idempotency_Key=""), 422, "invalid_value")
        self.refused(self.ask("POST", "/v1/jobs", OK, Idempotency_Key="k" * 256), 422, "invalid_value")
        # what could not be valid never took the key
        self.assertEqual(self.ask("POST", "/v1/jobs", {"command": ["x"]}, Idempotency_Key="g").status, 422)
        self.assertEqual(self.ask("POST", "/v1/jobs", OK, Idempotency_Key="g").status, 201)


if __name__ == "__main__":
    unittest.main()
