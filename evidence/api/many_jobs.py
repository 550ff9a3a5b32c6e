#!/usr/bin/env python3
"""Many idle jobs at once: what watching them costs, and what their events cost when everybody looks on.

100 sleeping jobs at a reading every 50 ms. First nobody looks: the CPU of the server, of the deciders, of the scribes and
other helpers, together at most 25 per cent of one core; jobs without the recorder and jobs with it preloaded, as
everybody's are, for a scribe that may have to empty a ring wakes more often. Then, over the recorded ones, 1 and 64
readers of GET /v1/events (sse_clients.c): no event lost, by the server's own numbers; CPU and lag beside it. The readers
share the cores with what they measure.
"""
import os
import pathlib
import subprocess
import time

from common import Bench, Result, arguments, cpu_ns, figures, until


def roles(bench, server) -> dict:
    """Pids by what they do. A decider is the process that has the job as its child."""
    own = set(bench.processes("bulkhead-supervise"))
    deciders = set()
    for pid in own:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if set(map(int, children)) - own:
            deciders.add(pid)
    return {"server": {server.pid}, "deciders": deciders, "scribes and helpers": own - deciders}


def shares(who: dict, work) -> tuple:
    """Per cent of one core by role over what work() takes, and what work() gave."""
    def look():
        return time.monotonic_ns(), {role: sum(map(cpu_ns, pids)) for role, pids in who.items()}
    t0, before = look()
    got = work()
    t1, after = look()
    return {role: 100 * (after[role] - before[role]) / (t1 - t0) for role in who}, got


def launch_all(bench, server, args, **spec) -> dict:
    for _ in range(args.jobs):
        server.launch("/bin/sleep", 3600, sample_interval="50ms", **spec)
    until(lambda: len(server.ask("GET", "/v1/jobs?state=running&limit=1000")["jobs"]) == args.jobs, "all jobs run")
    time.sleep(args.settle)  # the dense readings of the first seconds are over
    return roles(bench, server)


def measure_alone(result, who, args, label: str) -> float:
    alone = {}
    for _ in range(args.rounds):
        got, _ = shares(who, lambda: time.sleep(args.seconds))
        for role, share in {**got, "all": sum(got.values())}.items():
            alone.setdefault(role, []).append(share)
    for role, values in alone.items():
        found = result.series(f"nobody looks, {label}, {role}", values)
    return found["median"]  # of all


def measure_readers(result, server, who, args, program, clients: int):
    command = [str(program), str(server.port), server.token, str(clients), str(args.stream_seconds)]
    time.sleep(2)  # the streams before these are closed, and noticed: the server has room for 64
    got, text = shares(who, lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    found = figures(text)
    per_client = found.pop("samples_of_a_client")
    one = {name: values[0] for name, values in found.items()}
    label = f"{clients} reader{'s' if clients > 1 else ''}"
    for role, share in {**got, "all": sum(got.values())}.items():
        result.value(f"{label}, CPU of {role}", share)
    result.series(f"{label}, samples a second, job and client", [n / args.stream_seconds / args.jobs for n in per_client])
    for name, number in one.items():
        result.value(f"{label}, {name}", number)
    lost = one["missing"] + one["gap_events"]
    result.value(f"{label}, goal without a lost event",
                 "not checked" if one["clients_unchecked"] else "kept" if lost == 0 else "missed")


def main():
    args = arguments(__doc__, jobs=100, seconds=10.0, rounds=5, clients=64, stream_seconds=20.0, settle=5.0)
    bench = Bench(args)
    readers = bench.compile("sse_clients.c")
    result = Result("api/many_jobs", unit="per cent of one core, ms of lag",
                    compared_with="one reader of the same jobs, same run",
                    note=f"{args.jobs} sleeping jobs, sample_interval 50 ms; the jobs' own CPU is not counted")
    server = bench.server("--keep-jobs", "0")
    who = launch_all(bench, server, args, record=False)
    share = measure_alone(result, who, args, "not recorded")
    result.value("goal 25 per cent, all, not recorded", "kept" if share <= 25 else "missed")
    server.kill_jobs()
    who = launch_all(bench, server, args)
    share = measure_alone(result, who, args, "recorded")
    result.value("goal 25 per cent, all, recorded", "kept" if share <= 25 else "missed")
    result.value("deciders", len(who["deciders"]))
    result.value("scribes and helpers", len(who["scribes and helpers"]))
    for clients in (1, args.clients):
        measure_readers(result, server, who, args, readers, clients)
    server.kill_jobs()
    server.stop()
    print(result.save())


if __name__ == "__main__":
    main()
