#!/usr/bin/env python3
"""Bulkhead's client: a module for notebooks and scripts, and the `bulkhead` command.

    from bulkhead import Client
    job = Client().launch(["python3", "train.py"], limit="6GiB")
    print(job.wait().sentence)

Standard library only, Python 3.9 or later. It talks to the server's unix socket (default
<state>/bulkhead.sock); the operating system says who we are there, so no token is needed. With
url="http://127.0.0.1:7373" it uses TCP and the token file instead.

Errors: BulkheadError for whatever the server refuses (`code`, `status`, `detail`, `errors`), and
NoServer when nothing answers. Sizes are bytes, times are seconds unless a name says otherwise.
"""
from __future__ import annotations

import argparse
import html
import http.client
import json
import os
import shutil
import socket
import sys
import time
import urllib.parse
import webbrowser

__all__ = ["Client", "Job", "BulkheadError", "NoServer"]
FINISHED = ("finished", "failed_to_start")


class BulkheadError(Exception):
    """The server refused: code is stable text, detail says what to do."""

    def __init__(self, status: int, problem: dict):
        self.status = status
        self.code = problem.get("code", "unknown")
        self.detail = problem.get("detail") or problem.get("title") or f"HTTP {status}"
        self.errors = problem.get("errors", [])
        self.problem = problem
        lines = [self.detail] + [f"  {e.get('pointer', '')}: {e.get('detail', '')}" for e in self.errors]
        super().__init__("\n".join(dict.fromkeys(lines)))


class NoServer(BulkheadError):
    """No server answers there."""

    def __init__(self, where: str, cause: Exception):
        super().__init__(0, {"code": "no_server",
                             "detail": f"No server answers at {where} ({cause}). Start one with: bulkheadd"})


def state_dir() -> str:
    """The server's state directory: BULKHEAD_STATE, else where bulkheadd puts it by default."""
    if os.environ.get("BULKHEAD_STATE"):
        return os.environ["BULKHEAD_STATE"]
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/bulkhead")
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "bulkhead")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        # a path beyond the 108 bytes of sockaddr_un is reached through its directory's descriptor
        if len(os.fsencode(self._path)) < 104:
            self.sock.connect(self._path)
            return
        directory = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{directory}/{os.path.basename(self._path)}")
        finally:
            os.close(directory)


class Client:
    """A connection to one server. Cheap; every request opens its own connection."""

    def __init__(self, state: str | None = None, url: str | None = None, token: str | None = None,
                 timeout: float = 90.0):
        self.state = state or state_dir()
        self.url = url or os.environ.get("BULKHEAD_URL")
        self.timeout = timeout
        self._token = token

    @property
    def where(self) -> str:
        return self.url or os.path.join(self.state, "bulkhead.sock")

    def _connect(self, timeout: float) -> tuple[http.client.HTTPConnection, dict]:
        if not self.url:
            return _UnixConnection(self.where, timeout), {}
        parts = urllib.parse.urlsplit(self.url)
        if not self._token:
            with open(os.path.join(self.state, "token"), encoding="ascii") as file:
                self._token = file.read().strip()
        return (http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout),
                {"Authorization": "Bearer " + self._token})

    def open(self, method: str, path: str, body=None, headers=None, timeout=None) -> http.client.HTTPResponse:
        """One request; the response is the caller's to read. Raises for every status >= 400."""
        try:
            connection, own = self._connect(timeout or self.timeout)
            own.update(headers or {})
            data = None
            if body is not None:
                data = json.dumps(body).encode()
                own["Content-Type"] = "application/json"
            connection.request(method, path, data, own)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as cause:
            raise NoServer(self.where, cause) from None
        response.bulkhead_connection = connection  # keeps it open as long as the response lives
        if response.status >= 400:
            text = response.read()
            connection.close()
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {"detail": text.decode("utf-8", "replace")[:200]}
            raise BulkheadError(response.status, problem)
        return response

    def request(self, method: str, path: str, body=None, headers=None, timeout=None):
        """One request with a JSON answer (None for an empty one)."""
        response = self.open(method, path, body, headers, timeout)
        try:
            text = response.read()
        finally:
            response.bulkhead_connection.close()
        return json.loads(text) if text else None

    def launch(self, command, limit=None, **spec) -> "Job":
        """Starts a job. Members of the spec as in the API: mode, name, cwd, env, wall_time, stop, brake, …

        cwd defaults to the current directory, as people expect from a notebook or a shell.
        """
        body = {"command": list(command), **spec}
        if limit is not None:
            body["limit"] = limit
        body.setdefault("cwd", os.getcwd())
        return Job(self, self.request("POST", "/v1/jobs", body))

    def job(self, name_or_id: str) -> "Job":
        return Job(self, self.request("GET", "/v1/jobs/" + urllib.parse.quote(name_or_id, safe="")))

    def jobs(self, **query) -> list["Job"]:
        """Newest first, all pages."""
        found, cursor = [], None
        while True:
            fields = {**query, **({"cursor": cursor} if cursor else {})}
            suffix = "?" + urllib.parse.urlencode(fields) if fields else ""
            page = self.request("GET", "/v1/jobs" + suffix)
            found += [Job(self, entry) for entry in page["jobs"]]
            cursor = page.get("next_cursor")
            if not cursor:
                return found

    def host(self) -> dict:
        return self.request("GET", "/v1/host")


def _value(tagged):
    return tagged.get("value") if isinstance(tagged, dict) and tagged.get("status") == "available" else None


def format_bytes(value) -> str:
    if value is None:
        return "-"
    unit = 0
    scaled = float(value)
    while scaled >= 1024 and unit < 4:
        scaled /= 1024
        unit += 1
    text = f"{scaled:.0f}" if unit == 0 or scaled >= 100 else f"{scaled:.3g}"
    return f"{text} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def _name(job) -> str:
    """The name that somebody gave it: a job without one carries its id there."""
    name = job.data.get("name")
    return "" if name == job.id else name or ""


class Job:
    """One job. Attributes of the job object are items: job["state"]; refresh() reads them again.

    As a context manager the job is stopped when the block is left while it still runs.
    """

    def __init__(self, client: Client, data: dict):
        self.client = client
        self.data = data

    id = property(lambda self: self.data["id"])
    state = property(lambda self: self.data["state"])
    finished = property(lambda self: self.data["state"] in FINISHED)
    outcome = property(lambda self: self.data.get("outcome") or {})
    sentence = property(lambda self: self.outcome.get("sentence"))
    charge = property(lambda self: _value(self.data.get("charge")))
    peak_charge = property(lambda self: _value(self.data.get("peak_charge")))

    def __getitem__(self, name):
        return self.data[name]

    def __repr__(self):
        return f"<Job {self.id} {self.data.get('name') or ''} {self.state}>"

    def _path(self, rest: str = "") -> str:
        return f"/v1/jobs/{self.id}{rest}"

    def _post(self, verb: str, body=None) -> "Job":
        self.data = self.client.request("POST", self._path("/" + verb), body or {})
        return self

    def refresh(self) -> "Job":
        self.data = self.client.request("GET", self._path())
        return self

    def wait(self, timeout: float | None = None) -> "Job":
        """Returns when the job has ended, or raises TimeoutError. Interrupting it (Ctrl-C, the
        notebook's stop button) ends the waiting only; the job runs on."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.finished:
            left = 30.0 if deadline is None else min(30.0, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"job {self.id} is still {self.state}")
            query = urllib.parse.urlencode({"wait": f"{max(1, int(left * 1000))}ms",
                                            "since": self.data.get("event_sequence", 0)})
            self.data = self.client.request("GET", self._path("?" + query))
        return self

    def stop(self, grace=None, checkpoint=None) -> "Job":
        body = {k: v for k, v in (("grace", grace), ("checkpoint", checkpoint)) if v is not None}
        return self._post("stop", body)

    def kill(self) -> "Job":
        return self._post("kill")

    def checkpoint(self) -> "Job":
        return self._post("checkpoint")

    def signal(self, name: str) -> "Job":
        return self._post("signal", {"signal": name})

    def report(self) -> dict:
        return self.client.request("GET", self._path("/report?merged=1"))

    def timeline(self, points: int = 1000, **span) -> dict:
        return self.client.request("GET", self._path("/timeline?" + urllib.parse.urlencode({"points": points, **span})))

    def live(self, at: str | None = None, **query) -> dict:
        fields = {**query, **({"at": at} if at else {})}
        return self.client.request("GET", self._path("/live?" + urllib.parse.urlencode(fields)))

    def _download(self, rest: str, path: str) -> str:
        """Writes beside the target and renames, so that an interrupted download leaves no half file."""
        response = self.client.open("GET", self._path(rest), timeout=600)
        partial = path + ".part"
        try:
            with open(partial, "wb") as file:
                shutil.copyfileobj(response, file, 1 << 16)
            os.replace(partial, path)
        finally:
            response.bulkhead_connection.close()
            if os.path.exists(partial):
                os.unlink(partial)
        return path

    def download_pickle(self, path: str = "memory.pickle") -> str:
        return self._download("/memory.pickle", path)

    def download_report(self, path: str = "report.json") -> str:
        return self._download("/report", path)

    def logs(self, stream: str = "stdout", follow: bool = False, start: int = 0):
        """Yields bytes as they come; with follow until the job has ended."""
        suffix = "&follow=1" if follow else ""
        response = self.client.open("GET", self._path(f"/logs?stream={stream}&from={start}{suffix}"),
                                    timeout=86400 if follow else None)
        try:
            while chunk := response.read1(1 << 16):
                yield chunk
        finally:
            response.bulkhead_connection.close()

    def events(self, since: int = 0):
        """Yields {"type", "id", "data"} as they happen, until the stream ends."""
        response = self.client.open("GET", self._path(f"/events?since={since}"), timeout=86400)
        event: dict = {}
        try:
            for line in response:
                text = line.decode("utf-8").rstrip("\n")
                name, _, value = text.partition(": ")
                if name in ("event", "id", "data"):
                    event[name] = event.get(name, "") + value
                elif not text and "data" in event:
                    yield {"type": event.get("event", "message"), "id": event.get("id"),
                           "data": json.loads(event["data"])}
                    event = {}
        finally:
            response.bulkhead_connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.refresh().finished:
            self.stop()

    def _repr_html_(self):
        limit = self.data.get("limit_bytes")
        rows = (("Job", _name(self) or self.id), ("State", self.state),
                ("Charge", format_bytes(self.charge)), ("Peak", format_bytes(self.peak_charge)),
                ("Limit", format_bytes(limit)), ("Outcome", self.sentence or "-"))
        return "<table>" + "".join(f"<tr><th style='text-align:left'>{k}</th><td>{html.escape(str(v))}</td></tr>"
                                   for k, v in rows) + "</table>"


# ---- the `bulkhead` command ----------------------------------------------------------------------

_LAUNCH_EXIT = {"launch_not_found": 127, "launch_not_executable": 126, "launch_too_long": 126}


def _exit_code(job: Job) -> int:
    """As `bulkhead-supervise run` would exit: core/model/report.md, section 4."""
    outcome = job.outcome
    kind, code, signal = outcome.get("kind"), outcome.get("exit_code"), outcome.get("signal")
    if kind in _LAUNCH_EXIT:
        return _LAUNCH_EXIT[kind]
    if kind == "partial_artifact_failure":
        return 74
    if kind in ("supervisor_failure", "supervisor_lost", "unkillable"):
        return 70
    if kind == "policy_intervention":
        return 75
    if signal:
        number = signal if isinstance(signal, int) else _signal_number(signal)
        return 128 + number
    return code if isinstance(code, int) else 70


def _signal_number(name: str) -> int:
    import signal
    return int(getattr(signal, name, 0))


def _cmd_run(client: Client, args) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise BulkheadError(0, {"code": "usage", "detail": "Give a command: bulkhead run --limit 6GiB -- python3 train.py"})
    spec: dict = {"mode": "observe"} if args.observe else {}
    for member in ("name", "wall_time"):
        if getattr(args, member):
            spec[member] = getattr(args, member)
    if args.stop_signal:
        spec["stop"] = {"signal": args.stop_signal}
    if args.brake:
        spec["brake"] = True
    if args.no_record:
        spec["record"] = False
    job = client.launch(command, limit=args.limit, **spec)
    print(f"{job.id} {job.state}", file=sys.stderr)
    for warning in job.data.get("warnings") or []:
        print(f"warning: {warning if isinstance(warning, str) else warning.get('detail')}", file=sys.stderr)
    if args.detach:
        print(job.id)
        return 0
    try:
        for chunk in job.logs(follow=True):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        job.wait()
    except KeyboardInterrupt:
        print("\nStill running: bulkhead logs -f " + job.id + " shows it, bulkhead stop " + job.id +
              " stops it.", file=sys.stderr)
        return 130
    if job.outcome.get("kind") not in ("child_exited",) or job.outcome.get("exit_code"):
        tail = b"".join(job.logs("stderr"))[-4000:]
        sys.stderr.write(tail.decode("utf-8", "replace"))
    print(job.sentence, file=sys.stderr)
    return _exit_code(job)


def _cmd_ps(client: Client, args) -> int:
    rows = [("ID", "NAME", "STATE", "CHARGE", "PEAK", "LIMIT", "OUTCOME")]
    for job in client.jobs(limit=100) if args.all else client.jobs():
        if args.all or not job.finished or len(rows) <= 20:
            rows.append((job.id, _name(job) or "-", job.state, format_bytes(job.charge),
                         format_bytes(job.peak_charge), format_bytes(job.data.get("limit_bytes")), job.sentence or ""))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[6])
    return 0


def _cmd_logs(client: Client, args) -> int:
    for chunk in client.job(args.job).logs("stderr" if args.stderr else "stdout", follow=args.follow):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    return 0


def _cmd_stop(client: Client, args) -> int:
    job = client.job(args.job)
    if args.verb == "stop":
        job.stop(grace=args.grace, checkpoint=True if args.checkpoint else None)
    else:
        job.kill()
    if not args.no_wait:
        print(job.wait().sentence)
    return 0


def _cmd_report(client: Client, args) -> int:
    job = client.job(args.job)
    if args.output:
        print(job.download_report(args.output))
    else:
        json.dump(job.report(), sys.stdout, indent=2)
        print()
    return 0


def _cmd_pickle(client: Client, args) -> int:
    print(client.job(args.job).download_pickle(args.output or "memory.pickle"))
    return 0


def _cmd_open(client: Client, args) -> int:
    link = client.request("POST", "/v1/login-link", {})["url"]
    print(link)
    if args.browser:
        webbrowser.open(link)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bulkhead", description="Launch and watch memory-hungry jobs under a limit.")
    parser.add_argument("--state", help="the server's state directory (default: BULKHEAD_STATE or the usual place)")
    parser.add_argument("--url", help="use TCP, for example http://127.0.0.1:7373")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, run, text, job=True):
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        if job:
            sub.add_argument("job", help="id, or the name of a live job")
        return sub

    sub = verb("run", _cmd_run, "Launch a job and follow its output. Ctrl-C ends the following, not the job.", job=False)
    sub.add_argument("--limit", help="6GiB, 500MB, or bytes")
    sub.add_argument("--observe", action="store_true", help="measure only, never stop it")
    sub.add_argument("--name")
    sub.add_argument("--wall-time", dest="wall_time", help="2h, 30m")
    sub.add_argument("--stop-signal", dest="stop_signal", help="SIGINT for mlx_lm.server")
    sub.add_argument("--brake", action="store_true", help="let the kernel hold it up at the limit, where it can")
    sub.add_argument("--no-record", action="store_true", help="do not record allocator events")
    sub.add_argument("-d", "--detach", action="store_true", help="print the id and return")
    sub.add_argument("command", nargs=argparse.REMAINDER, help="-- program arguments…")
    sub = verb("ps", _cmd_ps, "List jobs, newest first.", job=False)
    sub.add_argument("-a", "--all", action="store_true", help="all ended ones too")
    sub = verb("logs", _cmd_logs, "Print a job's output.")
    sub.add_argument("-f", "--follow", action="store_true")
    sub.add_argument("--stderr", action="store_true")
    for name, text in (("stop", "Stop a job: TERM, grace, KILL."), ("kill", "Kill a job at once.")):
        sub = verb(name, _cmd_stop, text)
        sub.add_argument("--no-wait", action="store_true")
        if name == "stop":
            sub.add_argument("--grace", help="10s")
            sub.add_argument("--checkpoint", action="store_true", help="ask for a checkpoint first")
    sub = verb("report", _cmd_report, "Print or save a finished job's report.")
    sub.add_argument("-o", "--output")
    sub = verb("pickle", _cmd_pickle, "Save the allocator trace for PyTorch's memory_viz.")
    sub.add_argument("-o", "--output")
    sub = verb("open", _cmd_open, "Print a fresh login link for the page.", job=False)
    sub.add_argument("--browser", action="store_true", help="open it")
    return parser


def main(argv=None) -> int:
    args = _parser().parse_args(argv)
    try:
        return args.run(Client(state=args.state, url=args.url), args)
    except BulkheadError as error:
        print(f"bulkhead: {error}", file=sys.stderr)
        if error.code in _LAUNCH_EXIT:
            return _LAUNCH_EXIT[error.code]
        return 69 if isinstance(error, NoServer) else 70 if error.status >= 500 else 64
    except BrokenPipeError:
        return 141
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
