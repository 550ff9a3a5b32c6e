"""The server dies and comes back: nothing is lost, live jobs are found again."""
import concurrent.futures
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import bulkhead
import bulkhead_fixture as fixture


class Restart(unittest.TestCase):
    def test_kill9_and_restart(self):
        with fixture.server() as server:
            done = server.client.launch(["/bin/sh", "-c", "echo out; exit 2"], mode="observe", record=False)
            done.wait(timeout=30)
            report = server.client.request("GET", f"/v1/jobs/{done.id}/report")
            live = server.client.launch(["/bin/sleep", "600"], limit="100MiB", record=False, name="live")
            brief = server.client.launch(["/bin/sh", "-c", "read x < /proc/self/stat; exec sleep 2"], mode="observe",
                                         record=False)
            before = server.client.request("GET", f"/v1/jobs/{live.id}")
            epoch = server.client.request("GET", "/v1/info")["server_epoch"]
            server.kill9()
            server.start()
            self.assertNotEqual(server.client.request("GET", "/v1/info")["server_epoch"], epoch)
            after = server.client.request("GET", "/v1/jobs/live")
            for member in ("id", "root_pid", "started_at", "limit_bytes", "anchor", "created_at"):
                self.assertEqual(after[member], before[member], member)
            self.assertEqual(after["state"], "running")
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{done.id}/report"), report)
            ended = server.client.job(brief.id).wait(timeout=30)
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{brief.id}")["outcome"]["kind"], "child_exited")
            server.client.request("POST", "/v1/jobs/live/stop", {})  # still supervised
            server.client.job(live.id).wait(timeout=30)
            outcome = server.client.request("GET", f"/v1/jobs/{live.id}")["outcome"]
            self.assertEqual((outcome["kind"], outcome["cause"]), ("policy_intervention", "user_stop"))

    def test_on_server_exit_terminate(self):
        with fixture.server() as server:
            launch = lambda **more: server.client.launch(["/bin/sleep", "600"], mode="observe", record=False, **more)
            bound, other = launch(on_server_exit="terminate"), launch()
            report = os.path.join(server.state, "jobs", bound.id, "report.json")
            server.kill9()
            server.start()  # well within the five seconds
            time.sleep(7)  # and they are over: nothing may happen, so there is nothing to wait for
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{bound.id}")["state"], "running")
            server.kill9()
            fixture.wait_until(lambda: os.path.exists(report), "the job ends with its server", 30)
            server.start()
            server.client.job(bound.id).wait(timeout=30)
            outcome = server.client.request("GET", f"/v1/jobs/{bound.id}")["outcome"]
            self.assertEqual((outcome["kind"], outcome["cause"]), ("policy_intervention", "user_stop"))
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{other.id}")["state"], "running")

    def test_a_job_that_ended_meanwhile(self):
        with fixture.server() as server:
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            pid = server.client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]
            server.kill9()
            os.kill(pid, signal.SIGKILL)
            report = os.path.join(server.state, "jobs", job.id, "report.json")
            fixture.wait_until(lambda: os.path.exists(report), "the supervisor reports without a server")
            server.start()
            server.client.job(job.id).wait(timeout=30)
            outcome = server.client.request("GET", f"/v1/jobs/{job.id}")["outcome"]
            self.assertEqual((outcome["cause"], outcome["signal"]), ("killed_by_other", "SIGKILL"))

    def test_a_job_whose_supervisor_is_gone_too(self):
        with fixture.server() as server:
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            pid = server.client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]
            server.kill9()
            mark = os.path.join("jobs", job.id)
            for helper in fixture.processes_with(mark):
                with contextlib.suppress(ProcessLookupError):  # some end with another
                    os.kill(helper, signal.SIGKILL)
            server.start()
            server.client.job(job.id).wait(timeout=60)
            data = server.client.request("GET", f"/v1/jobs/{job.id}")
            self.assertEqual(data["outcome"]["cause"], "supervisor_lost", data["outcome"])
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}/report")["outcome"]["cause"],
                             "supervisor_lost")
            fixture.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the program is gone")

    def test_a_supervisor_that_dies_under_a_running_server(self):
        with fixture.server() as server:
            for whole in (False, True):
                job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
                pid = server.client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]
                helpers = fixture.processes_with(os.path.join("jobs", job.id))
                with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                    decider = int(file.read().rsplit(")", 1)[1].split()[1])
                self.assertIn(decider, helpers)
                for helper in helpers if whole else [decider]:
                    with contextlib.suppress(ProcessLookupError):  # some end with the decider
                        os.kill(helper, signal.SIGKILL)
                server.client.job(job.id).wait(timeout=60)
                outcome = server.client.request("GET", f"/v1/jobs/{job.id}")["outcome"]
                self.assertEqual((outcome["kind"], outcome["cause"]), ("supervisor_lost", "supervisor_lost"), whole)
                self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}/report")["outcome"]["kind"],
                                 "supervisor_lost")

    def test_a_supervisor_that_stands_still(self):
        """Whoever asks is answered in the end, and what was asked is done when it goes on."""
        with fixture.server() as server:
            client = bulkhead.Client(state=server.state)
            job = client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            pid = client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                decider = int(file.read().rsplit(")", 1)[1].split()[1])
            os.kill(decider, signal.SIGSTOP)
            try:
                with self.assertRaises(bulkhead.BulkheadError) as refused:
                    client.request("POST", f"/v1/jobs/{job.id}/stop", {})
                self.assertEqual((refused.exception.status, refused.exception.code), (503, "try_again"))
                self.assertIn("has not answered", str(refused.exception))
                self.assertEqual(client.request("GET", f"/v1/jobs/{job.id}")["state"], "running")
                with concurrent.futures.ThreadPoolExecutor(101) as pool:  # more than are kept for later
                    members = pool.submit(client.request, "GET", f"/v1/jobs/{job.id}/members")
                    asked = [pool.submit(self.signal_answer, client, job.id) for _ in range(100)]
                    self.assertEqual({future.result() for future in asked}, {"try_again"})
                    self.assertEqual(len(members.result()["members"]), 1)  # those of the journal
            finally:
                os.kill(decider, signal.SIGCONT)
            client.job(job.id).wait(timeout=30)
            outcome = client.request("GET", f"/v1/jobs/{job.id}")["outcome"]
            self.assertEqual((outcome["kind"], outcome["cause"]), ("policy_intervention", "user_stop"))

    @staticmethod
    def signal_answer(client, job_id):
        try:
            client.request("POST", f"/v1/jobs/{job_id}/signal", {"signal": "SIGCONT"})
            return "taken"
        except bulkhead.BulkheadError as error:
            return error.code

    def test_a_run_directory_that_somebody_removed(self):
        with fixture.server() as server:
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            pid = server.client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]
            folder = os.path.join(server.state, "jobs", job.id)
            # its supervisor goes on writing there: again until it is gone
            fixture.wait_until(lambda: shutil.rmtree(folder, ignore_errors=True) or not os.path.exists(folder),
                               "the directory is gone")
            server.kill9()
            os.kill(pid, signal.SIGKILL)
            server.start()
            lost = server.client.request("GET", f"/v1/jobs/{job.id}")
            self.assertEqual((lost["state"], lost["outcome"]["kind"], lost["outcome"]["cause"]),
                             ("finished", "partial_artifact_failure", "unknown"))
            self.assertIn("run directory is gone", lost["outcome"]["sentence"])
            with self.assertRaises(bulkhead.BulkheadError) as refused:
                server.client.request("GET", f"/v1/jobs/{job.id}/report")
            self.assertEqual((refused.exception.status, refused.exception.code), (409, "report_suppressed"))
            self.assertEqual(server.client.launch(["/bin/true"], mode="observe", record=False).wait(timeout=30).state,
                             "finished")

    def test_a_run_directory_that_somebody_emptied(self):
        """Nothing in it says that it ever ran, but the server knows."""
        with fixture.server() as server:
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            folder = os.path.join(server.state, "jobs", job.id)
            pids = [*fixture.processes_with(job.id), server.client.request("GET", f"/v1/jobs/{job.id}")["root_pid"]]
            server.kill9()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for name in set(os.listdir(folder)) - {"spec.bin"}:
                os.unlink(os.path.join(folder, name))
            server.start()
            server.client.job(job.id).wait(timeout=30)
            lost = server.client.request("GET", f"/v1/jobs/{job.id}")
            self.assertEqual((lost["state"], lost["outcome"]["kind"]), ("finished", "partial_artifact_failure"))

    def test_retention(self):
        with fixture.server("--keep-jobs", "3") as server:
            ids = []
            for _ in range(6):
                job = server.client.launch(["/bin/true"], mode="observe", record=False)
                job.wait(timeout=30)
                ids.append(job.id)
            folder = os.path.join(server.state, "jobs")
            fixture.wait_until(lambda: set(os.listdir(folder)) == set(ids[3:]), "the oldest are removed")
            left = server.client.request("GET", "/v1/jobs")["jobs"]
            self.assertEqual([j["id"] for j in left], list(reversed(ids[3:])))

    def test_a_second_server_on_the_same_state_is_refused(self):
        """It says who has it, touches nothing, and the first one goes on."""
        with fixture.server() as server:
            job = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            done = subprocess.run([str(fixture.BIN / "bulkheadd"), "--state", server.state, "--listen", "127.0.0.1:0"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(str(server.process.pid), done.stderr)
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}")["state"], "running")

    def test_reindex(self):
        with fixture.server() as server:
            job = server.client.launch(["/bin/sh", "-c", "exit 4"], mode="observe", record=False)
            job.wait(timeout=30)
            before = server.client.request("GET", f"/v1/jobs/{job.id}")
            self.assertEqual(server.terminate(), 0)
            server.options = ("--reindex",)
            server.start()
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}"), before)

    def test_damaged_database_is_said(self):
        """Moved aside, rebuilt, and said to whoever looks, until the old file is gone."""
        with fixture.server() as server:
            job = server.client.launch(["/bin/sh", "-c", "exit 5"], mode="observe", record=False)
            job.wait(timeout=30)
            self.assertEqual(server.client.request("GET", "/v1/info")["notices"], [])
            for damaged in (True, False):
                server.kill9()
                if damaged:
                    for name in os.listdir(server.state):
                        if name.startswith("bulkhead.db-"):
                            os.unlink(os.path.join(server.state, name))
                    with open(os.path.join(server.state, "bulkhead.db"), "wb") as database:
                        database.write(b"not a database" * 1000)
                server.start()
                [notice] = server.client.request("GET", "/v1/info")["notices"]
                self.assertEqual(notice["code"], "database_rebuilt")
                [name] = [n for n in os.listdir(server.state) if ".damaged-" in n and not n.endswith(("-wal", "-shm"))]
                self.assertIn(name, notice["detail"])
                self.assertNotIn("/", notice["detail"])
                self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}")["outcome"]["exit_code"], 5)
            self.assertEqual(server.terminate(), 0)
            os.unlink(os.path.join(server.state, name))
            server.start()
            self.assertEqual(server.client.request("GET", "/v1/info")["notices"], [])

    def test_lost_database_is_rebuilt(self):
        with fixture.server() as server:
            job = server.client.launch(["/bin/sh", "-c", "exit 5"], mode="observe", record=False, name="kept")
            job.wait(timeout=30)
            live = server.client.launch(["/bin/sleep", "600"], mode="observe", record=False)
            report = server.client.request("GET", f"/v1/jobs/{job.id}/report")
            self.assertEqual(server.terminate(), 0)
            for name in os.listdir(server.state):
                if name.startswith("bulkhead.db"):
                    os.unlink(os.path.join(server.state, name))
            server.start()
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{job.id}/report"), report)
            self.assertEqual(server.client.request("GET", f"/v1/jobs/{live.id}")["state"], "running")

    def test_service_manager_is_told(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(os.path.join(folder, "notify"))
            manager.settimeout(30)
            with unittest.mock.patch.dict(os.environ, {"NOTIFY_SOCKET": manager.getsockname()}):
                with fixture.server() as server:
                    self.assertEqual(manager.recv(100), b"READY=1")
                    job = server.client.launch(["/bin/sh", "-c", "env"], mode="observe", record=False)
                    job.wait(timeout=30)
                    with server.client.open("GET", f"/v1/jobs/{job.id}/logs") as response:
                        self.assertNotIn(b"NOTIFY_SOCKET", response.read())
                        response.bulkhead_connection.close()
                    self.assertEqual(server.terminate(), 0)
                    self.assertEqual(manager.recv(100), b"STOPPING=1")
                    server.start()

    def test_socket_only(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([str(fixture.BIN / "bulkheadd"), "--state", folder, "--listen", "none"],
                                       stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            try:
                self.assertIn("bulkhead.sock", process.stdout.readline())
                import bulkhead
                client = bulkhead.Client(state=folder)
                self.assertEqual(client.request("GET", "/v1/info")["pid"], process.pid)
                with self.assertRaises(bulkhead.BulkheadError):
                    client.request("POST", "/v1/login-link", {})
            finally:
                process.terminate()
                self.assertEqual(process.wait(timeout=20), 0)
                process.stdout.close()

    def test_missing_supervisor_program(self):
        with fixture.server("--supervisor", "/nonexistent/bulkhead-supervise") as server:
            import bulkhead
            with self.assertRaises(bulkhead.BulkheadError) as caught:
                server.client.launch(["/bin/true"], mode="observe", record=False)
            self.assertEqual((caught.exception.status, caught.exception.code), (503, "supervisor_start_failed"))
            jobs = server.client.request("GET", "/v1/jobs")["jobs"]
            self.assertEqual([j["state"] for j in jobs], ["failed_to_start"])


if __name__ == "__main__":
    unittest.main()
