#!/usr/bin/env python3
"""The server with many finished jobs: resident memory, start-up, and how long a page of the list takes.

One real job runs and ends; its run directory is copied under new ids (clone_run.c: real records, encoded anew), and the
server takes the copies in as it takes any run directories, at its start with --reindex. Memory is VmRSS of the server after
each step: that start, all pages of the list read, reports read, a plain start, all pages again. Goal: 24 MiB with 10,000.
Beside it the same with the one job alone. Start-up is the time until the server prints its link, when it serves.
"""
import subprocess
import time

from common import ROOT, Bench, Result, arguments, memory, until

KEEP = ("--keep-jobs", "0", "--keep-time", "0s", "--keep-bytes", "0")


def clone(bench, run_dir, count: int):
    libraries = [str(bench.build / "lib" / f"libbh_{name}.a") for name in ("wire", "model", "base")]
    program = bench.compile("clone_run.c", f"-I{ROOT}", *libraries, "-lm")
    subprocess.run([program, run_dir, run_dir.parent, str(count)], check=True)


def pages(server, limit: int) -> tuple:
    """Latency of each page of the whole list, in ms, and the number of jobs."""
    connection, cursor, took, jobs = server.connect(), "", [], 0
    while cursor is not None:
        began = time.monotonic_ns()
        page = server.ask("GET", f"/v1/jobs?limit={limit}" + (f"&cursor={cursor}" if cursor else ""), connection=connection)
        took.append((time.monotonic_ns() - began) / 1e6)
        jobs += len(page["jobs"])
        cursor = page["next_cursor"]
    connection.close()
    return took, jobs


def main():
    args = arguments(__doc__, jobs=10000, reports=200)
    bench = Bench(args)
    result = Result("api/finished", unit="bytes, ms, s as named", compared_with="the same server with one job, same run",
                    note="page latencies as a client in Python sees them, its JSON decoding included; files are cached")
    server = bench.server(*KEEP)
    job = server.launch("/bin/sleep", 1, limit="1GiB", mode="enforce", labels={"kind": "evidence"}, sample_interval="50ms")
    until(lambda: server.ask("GET", f"/v1/jobs/{job['id']}")["state"] == "finished", "the job ends")
    until(lambda: not bench.processes("bulkhead-supervise"), "its scribe ends")
    server.stop()
    worst = {}

    def note(label, server):
        found = memory(server.pid)
        for name, value in found.items():
            result.value(f"{label}, {name}", value)
        worst[label] = found["VmRSS"]

    server = bench.server(*KEEP)
    pages(server, 100)
    note("one job", server)
    result.value("start with one job, s", server.start_s)
    server.stop()

    clone(bench, server.state / "jobs" / job["id"], args.jobs - 1)
    server = bench.server(*KEEP, reindex=True)
    result.value("start with --reindex, s", server.start_s)
    note("after --reindex", server)
    took, jobs = pages(server, 100)
    if jobs != args.jobs:
        raise RuntimeError(f"{jobs} jobs of {args.jobs} are listed")
    note("after all pages", server)
    ids = [each["id"] for each in server.ask("GET", f"/v1/jobs?limit={min(args.reports, 1000)}")["jobs"]]
    connection = server.connect()
    for each in ids:
        server.ask("GET", f"/v1/jobs/{each}/report", connection=connection)
    connection.close()
    note(f"after {len(ids)} reports", server)
    server.stop()

    server = bench.server(*KEEP)
    result.value("plain start, s", server.start_s)
    note("after a plain start", server)
    again, _ = pages(server, 100)
    result.series("page of 100", took + again)
    note("after all pages of a plain start", server)
    large, _ = pages(server, 1000)
    result.series("page of 1000", large)
    connection, first = server.connect(), []
    for _ in range(50):
        began = time.monotonic_ns()
        server.ask("GET", "/v1/jobs?limit=100", connection=connection)
        first.append((time.monotonic_ns() - began) / 1e6)
    connection.close()
    result.series("first page of 100", first)
    note("after pages of 1000", server)
    result.value("database bytes", sum(path.stat().st_size for path in server.state.glob("bulkhead.db*")))
    result.value("jobs", jobs)
    server.stop()
    worst.pop("one job")
    label, most = max(worst.items(), key=lambda item: item[1])
    result.value("most, VmRSS MiB", most / (1 << 20))
    result.value("most came", label)
    result.value("goal 24 MiB", "kept" if most <= 24 << 20 else "missed")
    print(result.save())


if __name__ == "__main__":
    main()
