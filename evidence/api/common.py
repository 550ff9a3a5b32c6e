"""What the evidence scripts about the API share: a server of a private copy of the programs on a fresh state directory,
CPU and memory of its processes, small programs made with cc, arguments. Standard library only; needs cc and a built tree."""
import argparse
import atexit
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))
from measure import LoadedResult as Result  # noqa: E402, F401

PROGRAMS = ("bulkheadd", "bulkhead-supervise")
DEADLINE_S = 120.0  # against hanging


class Bench:
    """A private copy of the programs, so that their processes are told from others'; everything in one folder."""

    def __init__(self, args):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bulkhead-evidence-", dir=args.folder or None))
        atexit.register(self.clean)
        self.build = pathlib.Path(args.bin).resolve().parent
        for name in PROGRAMS:
            shutil.copy2(self.build / "bin" / name, self.directory / name)
        self.recorder = self.build / "lib" / "libbulkhead-record.so"

    def clean(self):
        """Whatever a script that failed left behind goes too: a decider stops its job at TERM."""
        end = time.monotonic() + 20
        while (left := self.processes()) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
            time.sleep(0.5)
        shutil.rmtree(self.directory, ignore_errors=True)

    def compile(self, source: str, *options) -> pathlib.Path:
        """One program of this folder, made from its source."""
        program = self.directory / pathlib.Path(source).stem
        subprocess.run(["cc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-o", program,
                        ROOT / "evidence/api" / source, *options], check=True)
        return program

    def server(self, *options, recorder=True, state="state", reindex=False) -> "Server":
        return Server(self, options, recorder, state, reindex)

    def processes(self, name: str = "") -> list:
        """Pids of the running copies: of one program, or of all."""
        wanted = {str(self.directory / program) for program in PROGRAMS if name in ("", program)}
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{entry}/exe") in wanted:
                        found.append(int(entry))
        return found


class Server:
    def __init__(self, bench, options, recorder, state, reindex):
        self.bench = bench
        self.state = bench.directory / state
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.log = open(bench.directory / f"{state}.log", "ab")
        argv = [bench.directory / "bulkheadd", "--state", self.state, "--listen", "127.0.0.1:0", "--request-rate", "0",
                "--recorder", bench.recorder if recorder else "none", "--openapi", ROOT / "openapi/openapi.json",
                "--web", ROOT / "web", *(["--reindex"] if reindex else []), *options]
        began = time.monotonic()
        self.process = subprocess.Popen(list(map(str, argv)), stdout=subprocess.PIPE, stderr=self.log,
                                        stdin=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.start_s = time.monotonic() - began
        if "http://" not in line:
            raise RuntimeError(f"no link but {line!r}: {(bench.directory / (state + '.log')).read_text()[-2000:]}")
        self.pid = self.process.pid
        self.port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
        self.socket = self.state / "bulkhead.sock"
        self.token = (self.state / "token").read_text().strip()

    def connect(self) -> http.client.HTTPConnection:
        """A kept connection through the unix socket."""
        connection = http.client.HTTPConnection("localhost", timeout=DEADLINE_S)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(DEADLINE_S)
        connection.sock.connect(str(self.socket))
        return connection

    def ask(self, method, path, body=None, connection=None):
        kept = connection or self.connect()
        kept.request(method, path, json.dumps(body) if body is not None else None,
                     {"Content-Type": "application/json"} if body is not None else {})
        response = kept.getresponse()
        text = response.read()
        if not connection:
            kept.close()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:500]!r}")
        return json.loads(text) if text else None

    def launch(self, *command, **spec) -> dict:
        return self.ask("POST", "/v1/jobs", {"command": list(map(str, command)), "mode": "observe", **spec})

    def kill_jobs(self):
        for job in self.ask("GET", "/v1/jobs?state=running,starting,stopping,checkpointing&limit=1000")["jobs"]:
            with contextlib.suppress(RuntimeError):
                self.ask("POST", f"/v1/jobs/{job['id']}/kill")
        until(lambda: not self.bench.processes("bulkhead-supervise"), "the supervisors end")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=DEADLINE_S)
        self.process.stdout.close()
        self.log.close()


def until(condition, what: str, pause_s: float = 0.05):
    end = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"not within {DEADLINE_S:.0f} s: {what}")
        time.sleep(pause_s)
    return value


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, in ns (the kernel's scheduler keeps it exactly)."""
    total = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                total += int(pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    return total


def memory(pid: int) -> dict:
    """VmRSS and its parts, in bytes."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon", "RssFile", "VmHWM")}


def figures(text: str) -> dict:
    """The "name value" lines of a small program."""
    found = {}
    for line in text.splitlines():
        name, number = line.split()
        found.setdefault(name, []).append(float(number))
    return found


def arguments(text: str, **defaults):
    parser = argparse.ArgumentParser(description=text.strip().splitlines()[0])
    parser.add_argument("--bin", default=os.environ.get("BULKHEAD_BIN_DIR", str(ROOT / "build/release/bin")),
                        help="where bulkheadd and bulkhead-supervise are")
    parser.add_argument("--folder", default="", help="an existing folder on the disk to measure (default: the temporary one)")
    for name, default in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    return parser.parse_args()
