"""The Python client and the `bulkhead` command against a real server, as a notebook and a shell use them."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import bulkhead
import bulkhead_fixture as fixture
from bulkhead_fixture import wait_until

COMMAND = fixture.ROOT / "api/client/python/bulkhead.py"


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = fixture.server()
        cls.server = cls.context.__enter__()
        cls.client = cls.server.client

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)


class Module(WithServer):
    def test_launch_wait_report(self):
        job = self.client.launch(["sh", "-c", "echo out; echo err >&2; exit 3"], limit="64MiB", name="three")
        self.assertEqual(job["limit_bytes"], 64 << 20)
        job.wait(timeout=30)
        self.assertEqual((job.state, job.outcome["exit_code"]), ("finished", 3))
        self.assertIn("exit code 3", job.sentence)
        self.assertEqual(b"".join(job.logs()), b"out\n")
        self.assertEqual(b"".join(job.logs("stderr")), b"err\n")
        self.assertEqual(job.report()["outcome"]["kind"], "child_exited")
        self.assertIn("three", job._repr_html_())
        self.assertIn(job.id, [j.id for j in self.client.jobs()])
        self.assertIn(job.id, [j.id for j in self.client.jobs(state="finished", limit=1)], "paging loses jobs")

    def test_over_tcp_with_the_token_file(self):
        job = self.server.tcp.launch(["true"], limit="64MiB")
        self.assertEqual(job.wait(timeout=30).outcome["cause"], "completed")

    def test_cwd_is_the_callers(self):
        job = self.client.launch(["pwd"], mode="observe").wait(timeout=30)
        self.assertEqual(b"".join(job.logs()).decode().strip(), os.getcwd())

    def test_refusals_are_typed(self):
        with self.assertRaises(bulkhead.BulkheadError) as caught:
            self.client.launch(["true"], limit="3g")
        self.assertEqual((caught.exception.status, caught.exception.code), (422, "invalid_value"))
        self.assertEqual(caught.exception.errors[0]["pointer"], "/limit")
        self.assertIn("3g", str(caught.exception))
        with self.assertRaises(bulkhead.BulkheadError) as caught:
            self.client.job("no-such-job")
        self.assertEqual(caught.exception.code, "not_found")

    def test_no_server(self):
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaises(bulkhead.NoServer) as caught:
                bulkhead.Client(state=directory).jobs()
        self.assertIn("bulkheadd", str(caught.exception))

    def test_context_manager_stops_what_still_runs(self):
        with self.client.launch(["sleep", "1000"], limit="64MiB") as job:
            pid = job["root_pid"]
            self.assertTrue(os.path.exists(f"/proc/{pid}"))
        job.wait(timeout=30)
        self.assertEqual(job.outcome["cause"], "user_stop")
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_wait_times_out_and_leaves_the_job_alone(self):
        job = self.client.launch(["sleep", "1000"], limit="64MiB")
        with self.assertRaises(TimeoutError):
            job.wait(timeout=1.2)
        self.assertEqual(job.refresh().state, "running")
        job.kill().wait(timeout=30)
        self.assertEqual(job.outcome["cause"], "user_stop")

    def test_events_from_start_to_end(self):
        job = self.client.launch(["sleep", "1"], limit="64MiB")
        seen = []
        for event in job.events():
            seen.append(event)
            if event["type"] == "job" and event["data"]["state"] == "finished":
                break
        self.assertTrue(any(e["type"] == "transition" for e in seen), [e["type"] for e in seen])

    def test_follow_ends_with_the_job(self):
        job = self.client.launch(["sh", "-c", "echo one; sleep 0.5; echo two"], limit="64MiB")
        self.assertEqual(b"".join(job.logs(follow=True)), b"one\ntwo\n")

    def test_downloads_replace_whole_files(self):
        job = self.client.launch(["true"], limit="64MiB").wait(timeout=30)
        with tempfile.TemporaryDirectory() as directory:
            for name, fetch in (("r.json", job.download_report), ("m.pickle", job.download_pickle)):
                path = os.path.join(directory, name)
                self.assertEqual(fetch(path), path)
                self.assertGreater(os.path.getsize(path), 10)
            self.assertEqual(sorted(os.listdir(directory)), ["m.pickle", "r.json"])

    def test_a_long_state_path_is_reached(self):
        with tempfile.TemporaryDirectory() as directory:
            deep = pathlib.Path(directory, *["d" * 40] * 3)
            deep.mkdir(parents=True)
            link = deep / "state"
            link.symlink_to(self.server.state)
            self.assertIsInstance(bulkhead.Client(state=str(link)).jobs(), list)


class Command(WithServer):
    def bulkhead(self, *arguments, timeout=60):
        return subprocess.run([sys.executable, str(COMMAND), "--state", self.server.state, *arguments],
                              capture_output=True, text=True, timeout=timeout)

    def test_run_follows_output_and_takes_the_exit_code(self):
        done = self.bulkhead("run", "--limit", "64MiB", "--", "sh", "-c", "echo hello; exit 5")
        self.assertEqual((done.returncode, done.stdout), (5, "hello\n"), done.stderr)
        self.assertIn("exit code 5", done.stderr)
        self.assertEqual(self.bulkhead("run", "--limit", "64MiB", "--", "no-such-program").returncode, 127)
        self.assertEqual(self.bulkhead("run", "--limit", "64MiB", "--", "sh", "-c", "kill -9 $$").returncode, 137)
        done = self.bulkhead("run", "--limit", "3g", "--", "true")
        self.assertEqual(done.returncode, 64)
        self.assertIn("3g", done.stderr)
        self.assertEqual(self.bulkhead("run", "--limit", "1GiB").returncode, 64)

    def test_a_brake_reaches_the_spec_and_the_report(self):
        for options, wanted in (((), False), (("--brake",), True)):
            done = self.bulkhead("run", "-d", "--limit", "64MiB", *options, "--", "true")
            job = self.client.job(done.stdout.strip()).wait(timeout=30)
            self.assertEqual(self.client.request("GET", f"/v1/jobs/{job.id}/spec")["brake"], wanted)
            self.assertEqual(job.report()["configuration"]["brake"], wanted)

    def test_run_says_75_when_the_limit_stopped_it(self):
        code = "import time\nheld = []\nwhile True:\n held.append(bytearray(b'x' * (4 << 20))); time.sleep(0.01)"
        done = self.bulkhead("run", "--limit", "128MiB", "--", "/usr/bin/python3", "-c", code)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertIn("128 MiB limit", done.stderr)

    def test_ctrl_c_ends_the_following_only(self):
        process = subprocess.Popen([sys.executable, str(COMMAND), "--state", self.server.state, "run", "--limit", "64MiB",
                                    "--name", "interrupted", "--", "sh", "-c", "echo up; sleep 1000"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertIn("Still running", errors)
        self.assertEqual(self.client.job("interrupted").state, "running")
        done = self.bulkhead("stop", "interrupted")
        self.assertIn("You stopped it", done.stdout)

    def test_detach_ps_logs_kill_report_pickle_open(self):
        ident = self.bulkhead("run", "-d", "--observe", "--name", "bg", "--", "sh", "-c", "echo line; sleep 1000").stdout.strip()
        wait_until(lambda: "line" in self.bulkhead("logs", "bg").stdout, "the line in the log")
        self.assertIn(ident, self.bulkhead("ps").stdout)
        follower = threading.Thread(target=lambda: self.bulkhead("logs", "-f", "bg"))
        follower.start()
        self.assertEqual(self.bulkhead("kill", "bg").returncode, 0)
        follower.join(timeout=30)
        self.assertFalse(follower.is_alive(), "logs -f did not end with the job")
        self.assertIn('"bulkhead.report"', self.bulkhead("report", ident).stdout)
        with tempfile.TemporaryDirectory() as directory:
            done = self.bulkhead("pickle", ident, "-o", os.path.join(directory, "m.pickle"))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(self.bulkhead("open").stdout, r"^http://127\.0\.0\.1:\d+/#code=")

    def test_no_server_is_said(self):
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run([sys.executable, str(COMMAND), "--state", directory, "ps"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 69)
        self.assertIn("bulkheadd", done.stderr)


if __name__ == "__main__":
    unittest.main()
