"""What the evidence scripts about supervision share: runs of bulkhead-supervise over tests/helpers/load.c, CPU time of
its processes, arguments. Standard library only; needs cc and a built tree (--bin)."""
import argparse
import atexit
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))
from measure import LoadedResult as Result  # noqa: E402, F401

MIB, GIB = 1 << 20, 1 << 30
FIXED = ("--interval", "50ms", "--min-interval", "50ms")  # the schedule of the design it descends from


class Bench:
    """A private copy of the program (so that its processes are told from others') and of the load generator."""

    def __init__(self, bin_dir: str):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bulkhead-evidence-"))
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)
        self.program = self.directory / "bulkhead-supervise"
        shutil.copy2(pathlib.Path(bin_dir) / "bulkhead-supervise", self.program)
        self.load = self.directory / "load"
        subprocess.run(["cc", "-std=gnu11", "-O1", "-o", self.load, ROOT / "tests/helpers/load.c",
                        ROOT / "tests/helpers/load_memory.c", "-lpthread"], check=True)
        self.runs = 0

    def start(self, *command, limit=None, options=(), mode=None, alone=False) -> "Run":
        """alone: in a process namespace of its own, where nothing is born but by the job."""
        self.runs += 1
        return Run(self, self.directory / f"run-{self.runs}", command, limit, options, mode, alone)


class Run:
    def __init__(self, bench, folder, command, limit, options, mode, alone):
        self.bench, self.folder = bench, folder
        folder.mkdir()
        self.run_dir = folder / "run"
        command = [str(bench.load) if word == "load" else str(word) for word in command]
        argv = ["unshare", "--pid", "--fork", "--mount-proc"] if alone else []
        argv += [bench.program, mode or ("run" if limit is not None else "observe"), "--quiet", "--run-dir", self.run_dir]
        argv += ["--limit", str(limit)] if limit is not None else []
        self.process = subprocess.Popen([*map(str, argv), *map(str, options), "--", *command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.decider = self.process.pid
        if alone:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            while not children.read_text().split() and self.process.poll() is None:
                time.sleep(0.001)
            self.decider = int(children.read_text().split()[0])

    def ready(self) -> "Run":
        line = self.process.stdout.readline()
        if line != b"ready\n":
            raise RuntimeError(f"not ready but {line!r}")
        return self

    def launched(self, deadline_s=10) -> "Run":
        """Until the job's root, leader of a group of its own, runs."""
        end = time.monotonic() + deadline_s
        children = pathlib.Path(f"/proc/{self.decider}/task/{self.decider}/children")
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                for pid in map(int, children.read_text().split()):
                    if os.getpgid(pid) == pid and os.readlink(f"/proc/{pid}/exe") != str(self.bench.program):
                        return self
            time.sleep(0.001)
        return self

    def end(self) -> dict:
        """Ends its input, waits, the report."""
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> dict:
        self.code = self.process.wait(timeout=300)
        self.process.stdout.close()
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.report = json.loads((self.run_dir / "report.json").read_text())
        return self.report

    def helpers(self) -> list:
        """Pids of the scribe and the other helpers of this run."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != self.decider:
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{entry}/exe") == str(self.bench.program) and \
                            str(self.run_dir).encode() in pathlib.Path("/proc", entry, "cmdline").read_bytes():
                        found.append(int(entry))
        return found


def children_of(pid: int) -> list:
    """Of its main thread, with the numbers they have here."""
    return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def cpu_ns(pid: int) -> int:
    """CPU time of a single-threaded process, in ns (the kernel's scheduler keeps it exactly)."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except OSError:
        return 0


def share_over(run: Run, seconds: float) -> tuple:
    """CPU of the decider, and of all processes of the run, in per cent of one core over so many seconds."""
    helpers = run.helpers()
    def look():
        return time.monotonic_ns(), cpu_ns(run.decider), sum(map(cpu_ns, helpers))
    t0, d0, h0 = look()
    time.sleep(seconds)
    t1, d1, h1 = look()
    return 100 * (d1 - d0) / (t1 - t0), 100 * (d1 - d0 + h1 - h0) / (t1 - t0)


def private_bytes(pid: int) -> int:
    total = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            total += int(line.split()[1]) * 1024
    return total


def value(observed):
    return observed["value"] if observed["status"] == "available" else None


def arguments(text: str, **defaults):
    parser = argparse.ArgumentParser(description=text.strip().splitlines()[0])
    parser.add_argument("--bin", default=os.environ.get("BULKHEAD_BIN_DIR", str(ROOT / "build/release/bin")),
                        help="where bulkhead-supervise is")
    for name, default in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    return parser.parse_args()
