"""What the scenario tests of the supervisor share: running it, its control socket, programs that
behave in known ways. Standard library only."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", ROOT / "build/release/bin"))
SUPERVISE = str(BIN / "bulkhead-supervise")
PYTHON = sys.executable
MIB = 1 << 20
DEADLINE_S = 60.0  # against hanging, never a statement about speed


def wait_until(condition, what, deadline_s=DEADLINE_S, pause_s=0.02):
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(pause_s)


def program(text):
    """argv of a Python program given as source."""
    return [PYTHON, "-c", textwrap.dedent(text)]


# holds N MiB, touched, and then sleeps
HOLD = "import sys,time\nb=bytearray(int(sys.argv[1])<<20)\nprint('ready',flush=True)\ntime.sleep(1000)\n"
# grows by a MiB at a time up to N MiB, then sleeps
GROW = """
import sys, time
blocks = []
for i in range(int(sys.argv[1])):
    blocks.append(bytearray(1 << 20))
    time.sleep(0.001)
time.sleep(1000)
"""


class Done:
    def __init__(self, code, out, err, report):
        self.code, self.out, self.err, self.report = code, out, err, report

    @property
    def outcome(self):
        return self.report["outcome"]

    @property
    def lines(self):
        """The JSON lines of --json."""
        return [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]


def run(*arguments, verb="run", command, env=None, stdin=subprocess.DEVNULL, cwd=None, timeout=120):
    """Runs to the end; the report is read from --report."""
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory, "report.json")
        done = subprocess.run([SUPERVISE, verb, "--report", str(report), *arguments, "--", *command],
                              capture_output=True, text=True, env=env, stdin=stdin, cwd=cwd, timeout=timeout)
        text = report.read_text() if report.exists() else ""
        return Done(done.returncode, done.stdout, done.stderr, json.loads(text) if text else None)


@contextlib.contextmanager
def running(*arguments, verb="run", command, **named):
    """The supervisor as a process; killed at the end if a test failed on the way."""
    process = subprocess.Popen([SUPERVISE, verb, *arguments, "--", *command], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **named)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()
        process.stderr.close()


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def with_marker(marker):
    """Live processes whose command line or environment holds the marker, the supervisor left out."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            command = pathlib.Path("/proc", entry, "cmdline").read_bytes()
            if marker.encode() in command and b"bulkhead-supervise" not in command and alive(int(entry)):
                found.append(int(entry))
    return found


@contextlib.contextmanager
def run_directory(*arguments, verb="run", command):
    """A directory with the spec.bin of this command line, as the server would have written it."""
    with tempfile.TemporaryDirectory(prefix="bulkhead-run-") as base:
        first, second = os.path.join(base, "first"), os.path.join(base, "job")
        # the foreground leaves its spec in the run directory before it launches: a short run gives it
        with tempfile.TemporaryDirectory() as elsewhere:
            brief = subprocess.Popen([SUPERVISE, verb, "--quiet", "--run-dir", first, *arguments, "--", *command],
                                     cwd=elsewhere, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            spec = os.path.join(first, "spec.bin")
            wait_until(lambda: os.path.exists(spec) or brief.poll() is not None, "the spec is written")
            while brief.poll() is None:
                brief.send_signal(signal.SIGTERM)
                time.sleep(0.05)
        os.mkdir(second, 0o700)
        os.rename(os.path.join(first, "spec.bin"), os.path.join(second, "spec.bin"))
        yield second


# ---- control socket --------------------------------------------------------------------------------
HELLO, WELCOME, ERROR, BYE, STATUS, WATCH, MEMBERS = 10, 11, 12, 13, 20, 21, 22
STOP, KILL, SIGNAL, CHECKPOINT, LIMITS, RECORDING = 30, 31, 32, 33, 34, 35
EV_SAMPLE, EV_RECORD, EV_DRAIN, EV_FINAL = 40, 41, 46, 47
TAG_VERSION, TAG_PEER, TAG_RUN_ID, TAG_STATUS, TAG_ERROR, TAG_DETAIL, TAG_GRACE = 1, 2, 3, 4, 5, 6, 7
TAG_CHECKPOINT, TAG_SIGNAL, TAG_LIMIT, TAG_REVISION, TAG_MARK = 8, 9, 10, 14, 16
TAG_RECORD, TAG_MIN, TAG_MAX, TAG_MEMBER, TAG_PID, TAG_ESCAPED = 18, 19, 20, 24, 25, 29


def u64(tag, value):
    return struct.pack("<HHIQ", tag, 1, 8, value)


def text(tag, value):
    data = value.encode()
    return struct.pack("<HHI", tag, 3, len(data)) + data


def items(body):
    at, found = 0, []
    while at < len(body):
        tag, kind, length = struct.unpack_from("<HHI", body, at)
        value = body[at + 8:at + 8 + length]
        if kind in (1, 2):
            value = struct.unpack("<Q" if kind == 1 else "<q", value)[0]
        elif kind == 3:
            value = value.decode()
        elif kind == 5:
            value = items(value)
        found.append((tag & 0x7FFF, value))
        at += 8 + length
    return found


class Frame:
    def __init__(self, kind, flags, sequence, body):
        self.kind, self.flags, self.sequence = kind, flags, sequence
        self.items = items(body)

    def get(self, tag):
        return next((value for number, value in self.items if number == tag), None)


class Control:
    def __init__(self, directory, hello=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            self.socket.connect(f"/proc/self/fd/{descriptor}/ctl.sock")
        finally:
            os.close(descriptor)
        self.sequence, self.buffer, self.events = 0, b"", []
        if hello:
            self.welcome = self.ask(HELLO, u64(TAG_VERSION, 1) + text(TAG_PEER, "test"))

    def close(self):
        self.socket.close()

    def send(self, kind, body=b""):
        self.sequence += 1
        self.socket.sendall(struct.pack("<IBBHII", 0x46434842, 1, kind, 0, self.sequence, len(body)) + body)

    def read(self):
        """The next frame, None at the end."""
        while True:
            if len(self.buffer) >= 16:
                _, _, kind, flags, sequence, length = struct.unpack_from("<IBBHII", self.buffer)
                if len(self.buffer) >= 16 + length:
                    body, self.buffer = self.buffer[16:16 + length], self.buffer[16 + length:]
                    return Frame(kind, flags, sequence, body)
            data = self.socket.recv(65536)
            if not data:
                return None
            self.buffer += data

    def ask(self, kind, body=b""):
        self.send(kind, body)
        while (frame := self.read()) is not None:
            if frame.flags & 1 and frame.sequence == self.sequence:
                return frame
            self.events.append(frame)
        raise AssertionError("the supervisor closed the connection without an answer")

    def until(self, kind):
        """Events up to and with the first one of this kind."""
        seen = self.events
        self.events = []
        while (frame := self.read()) is not None:
            seen.append(frame)
            if frame.kind == kind:
                return seen
        raise AssertionError(f"no event {kind} came")
