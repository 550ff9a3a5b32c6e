"""What the Python tests share: a real server on a temporary state, conditions with deadlines, and
programs that behave badly on purpose. Standard library only; the client under api/ does the HTTP.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import bulkhead

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", ROOT / "build/release/bin"))
PYTHON = os.environ.get("BULKHEAD_PYTHON", sys.executable)
LEAKY = ROOT / "deploy/demo/leaky.py"
DEADLINE_S = 60.0  # against hanging, never a statement about speed


def wait_until(condition, what: str, deadline_s: float = DEADLINE_S, pause_s: float = 0.05):
    """Calls condition until it gives something true, which is returned; fails after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(pause_s)


class Server:
    """A bulkheadd of the build under test. stop() ends it and whatever its jobs left behind."""

    def __init__(self, state: str, *options: str, listen: str = "127.0.0.1:0"):
        self.state = state
        self.options = options
        self.listen = listen
        self.process = None
        self.login_url = None

    def start(self) -> "Server":
        self.log = open(os.path.join(self.state, "..", os.path.basename(self.state) + ".server.log"), "ab")
        self.process = subprocess.Popen(
            [str(BIN / "bulkheadd"), "--state", self.state, "--listen", self.listen, *self.options],
            stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        match = re.search(r"http://(127\.0\.0\.1|\[::1\]|localhost):(\d+)/#code=\S+", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"bulkheadd did not print its link but {line!r}; see {self.log.name}: "
                                 + pathlib.Path(self.log.name).read_text()[-2000:])
        self.login_url = match.group(0)
        self.port = int(match.group(2))
        self.client = bulkhead.Client(state=self.state)
        self.tcp = bulkhead.Client(state=self.state, url=f"http://127.0.0.1:{self.port}")
        return self

    def kill9(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def terminate(self, deadline_s: float = 20) -> int:
        self.process.terminate()
        code = self.process.wait(timeout=deadline_s)
        self.process.stdout.close()
        self.log.close()
        return code

    def raw(self, method: str, path: str, body=None, headers=None):
        """One TCP request without the client's conveniences: (status, headers, bytes)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def token(self) -> str:
        return pathlib.Path(self.state, "token").read_text().strip()

    def stop(self):
        with contextlib.suppress(Exception):
            for job in self.client.jobs():
                if not job.finished:
                    job.kill()
                    job.wait(timeout=20)
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process and self.process.stdout:
            self.process.stdout.close()
        self.log.close()


@contextlib.contextmanager
def server(*options: str, **named):
    """with server() as s: … — on a fresh state directory that goes away afterwards."""
    with tempfile.TemporaryDirectory(prefix="bulkhead-test-") as directory:
        state = os.path.join(directory, "state")
        os.mkdir(state, 0o700)
        running = Server(state, *options, **named).start()
        try:
            yield running
        finally:
            running.stop()


def processes_with(marker: str) -> list:
    """Pids of live processes whose command line holds the marker."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                data = pathlib.Path("/proc", entry, "cmdline").read_bytes()
                if marker.encode() in data and int(entry) != os.getpid():
                    found.append(int(entry))
    return found


def unix_request(path: str, text: bytes) -> bytes:
    """Raw bytes to a unix socket, everything that comes back until it closes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(path)
        connection.sendall(text)
        answer = b""
        with contextlib.suppress(TimeoutError):
            while chunk := connection.recv(65536):
                answer += chunk
        return answer


def load_json(path) -> dict:
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
