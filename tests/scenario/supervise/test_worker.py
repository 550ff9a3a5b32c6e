"""bulkhead_worker.py, what a program saves on request with: asked at its limit, asked while it runs, in the wrong
process, and without anybody who asks."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import bulkhead
import bulkhead_fixture as fixture
from supervise_support import PYTHON, run

MODULE = fixture.ROOT / "api/client/python"

# argv: a file to save to, then code that is run after each step
POLLS = """
import os, sys, time
sys.path.insert(0, {module!r})
import bulkhead_worker
path, blocks = sys.argv[1], []
print("asked" if bulkhead_worker.start() else "alone", flush=True)
while True:
    if len(blocks) < int(sys.argv[2]):
        blocks.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.002)
    request = bulkhead_worker.poll()
    if request:
        {answer}
"""
SAVES = "open(path, 'wb').write(b'weights'); request.done(path)"


def polls(answer=SAVES):
    return POLLS.format(module=str(MODULE), answer=answer)


class AtTheLimit(unittest.TestCase):
    def at_limit(self, program, *more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved")
            done = run("--limit", "100MiB", "--emergency", "10GiB", "--checkpoint-timeout", "20s", *more,
                       command=[PYTHON, "-S", "-c", program, path, "300"])
            saved = pathlib.Path(path).read_bytes() if os.path.isfile(path) else None
        self.assertEqual((done.code, done.outcome["cause"]), (75, "limit_exceeded"), done.err)
        return done, saved

    def test_file(self):
        done, saved = self.at_limit(polls())
        checkpoint = done.report["checkpoint"]
        self.assertEqual(saved, b"weights")
        self.assertEqual((checkpoint["status"], checkpoint["artifact_kind"], checkpoint["artifact_bytes"]["value"]),
                         ("acknowledged_unverified_durability", "file", 7))
        self.assertTrue(0 < checkpoint["request_id"] < 1 << 62)
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_acknowledged")

    def test_directory_elsewhere_and_nothing(self):
        folder = "os.mkdir(path); open(path + '/a', 'wb').write(b'123'); open(path + '/b', 'wb').write(b'45'); "
        for answer, kind, size in ((folder + "request.done(path)", "directory", 5), ("request.done(size=9)", "opaque", 9),
                                   ("request.done()", "none", None)):
            with self.subTest(kind=kind):
                checkpoint = self.at_limit(polls(answer))[0].report["checkpoint"]
                self.assertEqual((checkpoint["status"], checkpoint["artifact_kind"]),
                                 ("acknowledged_unverified_durability", kind))
                self.assertEqual(checkpoint["artifact_bytes"].get("value"), size)

    def test_failed_and_cancelled(self):
        for answer in ("failed", "cancelled"):
            with self.subTest(answer=answer):
                done, _ = self.at_limit(polls(f"request.{answer}(); request.done()"))  # the second one is dropped
                self.assertEqual(done.report["checkpoint"]["status"], answer)
                self.assertEqual(done.report["checkpoint"]["rejected"], 0)

    def test_function(self):
        program = polls("raise SystemExit('not both')").replace("path, blocks", """
@bulkhead_worker.on_checkpoint
def save(request):
    open(sys.argv[1], 'wb').write(b'by function')
    return sys.argv[1]
path, blocks""", 1)
        done, saved = self.at_limit(program)
        self.assertEqual(saved, b"by function")
        self.assertEqual(done.report["checkpoint"]["artifact_bytes"]["value"], 11)

    def test_function_that_fails(self):
        program = polls("pass").replace("path, blocks", """
@bulkhead_worker.on_checkpoint
def save(request):
    raise OSError('the disk is full')
path, blocks""", 1)
        done, _ = self.at_limit(program)
        self.assertEqual(done.report["checkpoint"]["status"], "failed")

    def test_below_a_wrapper(self):
        """Only who said ready is signalled: a shell around it would die of it."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(polls())
            done = run("--limit", "100MiB", "--emergency", "10GiB", "--checkpoint-timeout", "20s",
                       command=["sh", "-c", f"'{PYTHON}' -S '{program}' '{folder}/saved' 300; exit $?"])
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_acknowledged", done.err)

    def test_few_descriptors(self):
        """The channel is descriptor 198: where that cannot be, the job runs without, and the report says so."""
        import resource
        done = subprocess.run([str(fixture.BIN / "bulkhead-supervise"), "run", "--limit", "100MiB", "--emergency", "10GiB",
                               "--checkpoint-timeout", "20s", "--report", "/dev/fd/1", "--quiet", "--", PYTHON, "-S", "-c",
                               "import os, sys, time\nassert 'BULKHEAD_CHECKPOINT_FD' not in os.environ\n"
                               "x = bytearray(b'x') * (200 << 20)\ntime.sleep(60)"],
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (198, 4096)),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertIn('"checkpoint_channel": false', done.stdout)
        self.assertIn('"not_negotiated"', done.stdout)


class WhileItRuns(unittest.TestCase):
    def test_any_number_of_requests(self):
        with fixture.server() as server, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved")
            job = server.client.launch([PYTHON, "-S", "-c", polls("open(path, 'ab').write(b'x'); request.done(path)"), path,
                                        "0"], limit="1GiB", record=False,
                                       checkpoint={"protocol": "mgcp", "timeout": "30s", "repeat": True})
            url = f"/v1/jobs/{job.id}"
            ask = lambda: server.client.request("GET", url)["checkpoint"]
            for count in range(1, 6):
                fixture.wait_until(lambda: self.taken(server, url), "it can be asked")  # not before it said ready
                fixture.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) == count, "it saved once more")
                fixture.wait_until(lambda: ask()["size_bytes"] == count, "its word came")
            server.client.request("POST", url + "/stop", {"checkpoint": True})
            job.wait(timeout=30)
            self.assertEqual(os.path.getsize(path), 6)
            report = server.client.request("GET", url + "/report")
            self.assertEqual(report["signals"][0]["reason"], "checkpoint_acknowledged")
            self.assertEqual(report["checkpoint"]["rejected"], 0)


    @staticmethod
    def taken(server, url):
        try:
            return server.client.request("POST", url + "/checkpoint", {})
        except bulkhead.BulkheadError as error:
            if error.code != "checkpoint_unavailable":
                raise
            return None


class Alone(unittest.TestCase):
    """Nobody asks, or not this process: everything goes on as without."""

    def python(self, program, **named):
        done = subprocess.run([sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(MODULE)!r})\n"
                               f"import bulkhead_worker, os\n{program}"], capture_output=True, text=True, timeout=60, **named)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_without_a_supervisor(self):
        env = {k: v for k, v in os.environ.items() if "CHECKPOINT_FD" not in k}
        self.assertEqual(self.python("print(bulkhead_worker.start(), bulkhead_worker.poll())", env=env), "False None\n")

    def test_a_number_that_leads_nowhere(self):
        for number in ("198", "1", "x", "-1", "", "99999999999999999999"):
            with self.subTest(number=number):
                text = self.python("print(bulkhead_worker.start(), bulkhead_worker.poll())",
                                   env={**os.environ, "BULKHEAD_CHECKPOINT_FD": number})
                self.assertEqual(text, "False None\n")

    def test_somebody_elses_socket(self):
        """Not closed, not read from: it is another's."""
        self.assertEqual(self.python(
            "import socket\na, b = socket.socketpair()\nb.sendall(b'x' * 50)\n"
            "os.environ['BULKHEAD_CHECKPOINT_FD'] = str(a.fileno())\n"
            "print(bulkhead_worker.start(), len(a.recv(100)))"), "False 50\n")

    def test_second_process_and_child(self):
        """The first that asks has the channel; another is told that it has none, and a forked child answers nothing."""
        program = ("import os, subprocess, sys\nsys.path.insert(0, {module!r})\nimport bulkhead_worker\n"
                   "print(bulkhead_worker.start(), flush=True)\n"
                   "subprocess.run([sys.executable, '-S', '-c', 'import sys; sys.path.insert(0, sys.argv[1]); "
                   "import bulkhead_worker; print(bulkhead_worker.start())', {module!r}], close_fds=False)\n"
                   "pid = os.fork()\n"
                   "if pid == 0: print(bulkhead_worker.start(), bulkhead_worker.poll(), flush=True); os._exit(0)\n"
                   "os.waitpid(pid, 0)\n").format(module=str(MODULE))
        done = run("--limit", "1GiB", "--checkpoint-timeout", "20s", command=[PYTHON, "-S", "-c", program])
        self.assertEqual(done.out, "True\nFalse\nFalse None\n", done.err)

    def test_not_in_another_thread(self):
        self.assertIn("main thread", self.python(
            "import socket, threading\na, b = socket.socketpair()\nos.environ['BULKHEAD_CHECKPOINT_FD'] = str(a.fileno())\n"
            "def begin():\n    try: bulkhead_worker.start()\n    except RuntimeError as error: print(error)\n"
            "t = threading.Thread(target=begin); t.start(); t.join()"))


if __name__ == "__main__":
    unittest.main()
