#!/usr/bin/env python3
"""From sending POST /v1/jobs to the first instruction of the job's process, with the spec durable before it runs.

The job is exec_clock.c: it reads the clock first thing. Three ways: linked statically without the recorder (what the
system and Bulkhead alone cost), linked dynamically without, and as everybody's jobs are, with the recorder preloaded.
Beside it, in turn in the same run: one fsync of a small new file on the disk of the state directory, and the least that
such a start can cost, an fsync of a new file, of its folder and of the folder above, then fork and exec of the same
static program. Where a control group (cgroup v2) can be made, each job enters one of its own: what that step costs here
by writing to cgroup.procs, which waits for all processors, and by a clone into the group, is measured too. With strace
(where it is) one more launch of each way says which syncs come before the exec, by process.
Goal: p95 of at most 15 ms.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from common import Bench, Result, arguments, figures, until

WAYS = {"static, no recorder": ("static", False), "dynamic, no recorder": ("dynamic", False),
        "dynamic, recorder": ("dynamic", True)}


def post(server, connection, body: bytes):
    """(ns before the first byte is sent, ns when the answer was read, the job)"""
    before = time.monotonic_ns()
    connection.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    after = time.monotonic_ns()
    if response.status != 201:
        raise RuntimeError(f"{response.status} {text[:300]!r}")
    return before, after, json.loads(text)


def spec(program, record: bool, stamp) -> bytes:
    return json.dumps({"command": [str(program), str(stamp)], "mode": "observe",
                       **({} if record else {"record": False})}).encode()


def read_stamp(path) -> int:
    until(path.exists, "the job says when it ran", 0.002)
    value = int(path.read_text())
    path.unlink()
    return value


def fsync_ms(folder) -> float:
    path = folder / "probe"
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.write(fd, b"x" * 400)
    began = time.monotonic_ns()
    os.fsync(fd)
    took = time.monotonic_ns() - began
    os.close(fd)
    path.unlink()
    return took / 1e6


def least_ms(folder, program, number: int, stamp) -> float:
    """The three syncs of a durable spec, and a plain start of the same program."""
    began = time.monotonic_ns()
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.mkdir(f"least-{number}", 0o700, dir_fd=above)
    own = os.open(f"least-{number}", os.O_RDONLY | os.O_DIRECTORY, dir_fd=above)
    fd = os.open("spec", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=own)
    os.write(fd, b"x" * 400)
    for each in (fd, own, above):
        os.fsync(each)
    child = os.posix_spawn(program, [str(program), str(stamp)], {})
    at = read_stamp(stamp)
    os.waitpid(child, 0)
    for each in (fd, own, above):
        os.close(each)
    shutil.rmtree(folder / f"least-{number}")
    return (at - began) / 1e6


def enter_group_ms(program, number: int) -> dict:
    """Fork until the child is in a new control group, both ways (enter_group.c), or nothing where none can be made."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        group = pathlib.Path(place) / f"bulkhead-evidence-{os.getpid()}-{number}"
        if kind != "cgroup2" or not os.access(place, os.W_OK):
            continue
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            done = subprocess.run([program, group], capture_output=True, text=True)
            return figures(done.stdout) if done.returncode == 0 else {}
        finally:
            until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
            group.rmdir()
    return {}


def trace(server, connection, program, record, stamp):
    """The syncs before the job's exec, by program, or None without strace."""
    if not shutil.which("strace"):
        return None
    out = server.bench.directory / "strace"
    tracer = subprocess.Popen(["strace", "-f", "-ttt", "-e", "trace=fsync,fdatasync,msync,sync_file_range,syncfs,execve",
                               "-o", out, "-p", str(server.pid)], stderr=subprocess.PIPE)
    tracer.stderr.readline()  # attached
    time.sleep(0.3)  # … to all threads
    post(server, connection, spec(program, record, stamp))
    read_stamp(stamp)
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    names, counts = {}, {}
    for line in out.read_text(errors="replace").splitlines():
        call = re.match(r"(\d+) +[\d.]+ (\w+)\((.*)", line)
        if not call:
            continue
        pid, what, rest = call.groups()
        if what == "execve":
            if str(program) in rest.split(",")[0]:
                return counts
            names[pid] = "after exec of " + os.path.basename(rest.split('"')[1])
        else:
            key = f"{what} by {'the supervisor' if 'supervise' in names.get(pid, '') else 'the server or a forked helper'}"
            counts[key] = counts.get(key, 0) + 1
    raise RuntimeError("the trace does not show the job's exec")


def main():
    args = arguments(__doc__, launches=200, warm=10)
    bench = Bench(args)
    programs = {"dynamic": bench.compile("exec_clock.c").rename(bench.directory / "clock_dynamic"),
                "static": bench.compile("exec_clock.c", "-static")}
    server = bench.server("--keep-jobs", "0")
    connection = server.connect()
    result = Result("api/launch", unit="ms",
                    compared_with="one fsync on the same disk, and three with a plain fork and exec, in turn",
                    note="one launch at a time through the unix socket; a new supervisor, scribe and helpers each time")
    to_exec, to_answer = {way: [] for way in WAYS}, {way: [] for way in WAYS}
    fsyncs, least, entering = [], [], {}
    enter_group = bench.compile("enter_group.c")
    for number in range(args.warm + args.launches):
        for way, (kind, record) in WAYS.items():
            stamp = bench.directory / f"stamp-{number}-{record}-{kind}"
            one_fsync = fsync_ms(bench.directory)
            before, after, job = post(server, connection, spec(programs[kind], record, stamp))
            at = read_stamp(stamp)
            path = f"/v1/jobs/{job['id']}"
            until(lambda: server.ask("GET", path, connection=connection)["state"] == "finished", "the job ends", 0.01)
            if number < args.warm:
                continue
            fsyncs.append(one_fsync)
            to_exec[way].append((at - before) / 1e6)
            to_answer[way].append((after - before) / 1e6)
        stamp = bench.directory / f"stamp-{number}"
        if number >= args.warm:
            least.append(least_ms(bench.directory, programs["static"], number, stamp))
            for name, values in enter_group_ms(enter_group, number).items():
                entering.setdefault(name, []).extend(values)
    for way in WAYS:
        found = result.series(f"POST to exec, {way}", to_exec[way])
        result.value(f"goal p95 15 ms, {way}", "kept" if found["p95"] <= 15 else "missed")
        result.series(f"POST to answer, {way}", to_answer[way])
    result.series("one fsync of a small new file", fsyncs)
    result.series("the least: three syncs, fork and exec", least)
    for name, values in entering.items():
        result.series(f"entering a control group: {name}", values)
    for way, (kind, record) in WAYS.items():
        counts = trace(server, connection, programs[kind], record, bench.directory / "stamp-traced")
        result.value(f"syncs before the exec, {way}", counts if counts is not None else "no strace here")
    server.stop()
    print(result.save())


if __name__ == "__main__":
    main()
