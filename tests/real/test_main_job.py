"""The main job on a real, unmodified MLX: the five points the product stands on, as one user sees them."""
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture
from bulkhead_fixture import LEAKY, PYTHON, wait_until

LIMIT = 1 << 30
APPEND_LINE = next(n for n, line in enumerate(LEAKY.read_text().splitlines(), 1) if "history.append" in line)


def curl(*arguments) -> dict:
    done = subprocess.run(["curl", "-sS", "--fail-with-body", *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(f"curl exit {done.returncode}: {done.stderr} {done.stdout}")
    return json.loads(done.stdout)


def torch_memory_viz():
    """PyPI torch's own reader, one file of the wheel (tests/real/fetch_memory_viz.sh), else None."""
    path = os.environ.get("BULKHEAD_MEMORY_VIZ")
    return path if path and os.path.exists(path) else None


class MainJob(unittest.TestCase):
    """One server for all; the tests run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="bulkhead-main-")
        state = os.path.join(cls.directory, "state")
        os.mkdir(state, 0o700)
        cls.server = fixture.Server(state).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        shutil.rmtree(cls.directory, ignore_errors=True)

    def body(self, *options, **members) -> str:
        spec = {"command": [PYTHON, str(LEAKY), *options], "limit": "1GiB", **members}
        return json.dumps(spec)

    def check_limit_report(self, job):
        """What every job that leaked past 1 GiB must show, whatever ended it."""
        self.assertEqual(job.outcome["kind"], "policy_intervention", job.data)
        self.assertEqual(job.outcome["cause"], "limit_exceeded")
        self.assertIn("1 GiB limit", job.sentence)
        report = job.report()
        self.assertEqual(report["schema"], "bulkhead.report")
        self.assertEqual(report["run"]["run_id"], job.id)
        states = [t["to"] for t in report["transitions"]]
        self.assertIn("warning", states)
        self.assertIn("terminating", states)
        self.assertEqual(states[-1], "exited")
        self.assertGreaterEqual(job.peak_charge, LIMIT)
        term = [s for s in report["signals"] if s["signal"] == "SIGTERM"]
        self.assertTrue(term and term[0]["result"] == "delivered", report["signals"])
        text = json.dumps(report)
        self.assertNotIn("leaky.py", text, "the report names an argument")
        self.assertNotIn(self.directory, text, "the report names a path")
        return report

    def test_1_launch_over_the_socket_and_over_tcp(self):
        socket = os.path.join(self.server.state, "bulkhead.sock")
        job = curl("--unix-socket", socket, "--json", self.body(), "http://localhost/jobs")
        self.assertIn(job["state"], ("starting", "running"))
        self.assertEqual(job["limit_bytes"], LIMIT)
        self.assertGreater(job["root_pid"], 1)
        type(self).first = job["id"]
        over_tcp = curl("-H", "Authorization: Bearer " + self.server.token(), "--json",
                        self.body("--most", "64", name="quiet"), f"http://127.0.0.1:{self.server.port}/jobs")
        self.assertNotEqual(over_tcp["id"], job["id"])
        type(self).quiet = over_tcp["id"]

    def test_2_supervisor_crosses_warning_and_limit_and_stops_it(self):
        job = self.server.client.job(self.first)
        supervisors = fixture.processes_with(self.first)
        self.assertTrue(supervisors, "no supervisor process names the job")
        self.assertNotIn(self.server.process.pid, supervisors)
        job.wait(timeout=120)
        report = self.check_limit_report(job)
        self.assertEqual([s for s in report["signals"] if s["signal"] == "SIGKILL"], [])
        self.assertEqual(job.outcome["signal"] in ("SIGTERM", 15), True, job.outcome)
        self.assertFalse(os.path.exists(f"/proc/{job['root_pid']}"), "the root is still there")
        quiet = self.server.client.job("quiet")
        self.assertEqual(quiet.state, "running", "the other job was touched")

    def test_3_what_was_recorded_survives_sigkill(self):
        job = self.server.client.launch([PYTHON, str(LEAKY), "--ignore-term"], limit="1GiB",
                                        stop={"grace": {"base": "300ms", "per_gib": "0s", "max": "300ms"}})
        job.wait(timeout=120)
        report = self.check_limit_report(job)
        kills = [s for s in report["signals"] if s["signal"] == "SIGKILL"]
        self.assertTrue(kills and kills[0]["reason"] in ("grace_expired", "emergency"), report["signals"])
        self.assertEqual(job["recorder"]["state"], "attached", job["recorder"])
        self.assertGreater(job["recorder"]["events"], 100)
        self.assertEqual(job["recorder"]["lost"], 0)
        live = job.live("limit", group="stack", top=5)
        self.assertGreater(live["total_bytes"], LIMIT // 2)
        frame = live["groups"][0]["traceback"][-1]
        self.assertTrue(frame[0].endswith("leaky.py"), live["groups"][0])
        self.assertEqual((frame[1], frame[2]), ("remember", APPEND_LINE))
        self.assertGreater(live["groups"][0]["share"], 0.9)
        type(self).killed = job.id

    def test_4_active_reserved_and_charge_on_one_axis(self):
        job = self.server.client.job(self.killed)
        timeline = job.timeline(points=200)
        length = len(timeline["t_us"])
        self.assertGreater(length, 10)
        for name in ("active", "reserved", "charge"):
            for bound in ("_min", "_max"):
                self.assertEqual(len(timeline[name + bound]), length, name + bound)
        known = [v for v in timeline["active_max"] if v is not None]
        charge = [v for v in timeline["charge_max"] if v is not None]
        self.assertEqual(max(charge), job.peak_charge)
        # large MLX buffers are written at once: the allocator's peak and the charge go together
        self.assertLess(abs(max(known) - max(charge)), 400 << 20)
        kinds = {m["kind"] for m in timeline["markers"]}
        self.assertLessEqual({"transition", "signal", "limit_crossed"}, kinds)

    def test_5_report_and_pickle_deliver(self):
        job = self.server.client.job(self.killed)
        report = job.download_report(os.path.join(self.directory, "report.json"))
        self.assertEqual(fixture.load_json(report)["outcome"]["sentence"], job.sentence)
        path = job.download_pickle(os.path.join(self.directory, "memory.pickle"))
        with open(path, "rb") as file:
            snapshot = pickle.load(file)
        self.assertGreater(len(snapshot["device_traces"][0]), 100)
        self.assertTrue(snapshot["segments"])
        actions = {e["action"] for e in snapshot["device_traces"][0]}
        self.assertLessEqual({"alloc", "segment_alloc", "oom", "snapshot"}, actions)
        viz = torch_memory_viz()
        if viz:
            for verb in ("stats", "trace"):
                done = subprocess.run([PYTHON, viz, verb, path], capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, f"_memory_viz.py {verb}: {done.stderr[-800:]}")

    def test_6_kill_9_of_the_server_loses_nothing(self):
        job = self.server.client.launch([PYTHON, str(LEAKY), "--pause", "0.05"], limit="1GiB", name="survivor")
        wait_until(lambda: job.refresh()["recorder"]["events"] > 0, "events of the survivor")
        before = self.server.client.job(self.killed)
        # the readings 2 s and 10 s after the end are merged into the report when they come
        report_before = wait_until(lambda: settled(before.report()), "the reclamation verdict", 30)
        live_before = before.live("end", group="stack")
        root = job["root_pid"]
        self.server.kill9()
        self.assertTrue(os.path.exists(f"/proc/{root}"), "the job died with the server")
        wait_until(lambda: not pathlib.Path(f"/proc/{root}").exists() or rss(root) > (700 << 20),
                   "the job going on without a server", 120)
        self.server.start()
        again = self.server.client.job(self.killed)
        self.assertEqual(again.report(), report_before)
        self.assertEqual(again.live("end", group="stack"), live_before)
        job = self.server.client.job(job.id)
        job.wait(timeout=120)
        self.check_limit_report(job)
        timeline = job.timeline(points=500)
        self.assertTrue(any(v for v in timeline["active_max"]))
        self.assertEqual(job["recorder"]["lost"], 0)
        quiet = self.server.client.job("quiet")
        self.assertEqual(quiet.state, "running")
        quiet.stop().wait(timeout=60)
        self.assertEqual(quiet.outcome["cause"], "user_stop")


def settled(report: dict):
    return report if report["reclamation"]["verdict"] != "pending" else None


def rss(pid: int) -> int:
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0


if __name__ == "__main__":
    unittest.main()
