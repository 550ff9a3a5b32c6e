#!/usr/bin/env python3
"""What watching costs while nothing happens: members that hold memory far below their limit.

1, 16 and 64 members at the default schedule (50 ms when far from the limit), and a job that hovers 8 MiB below its
limit, where readings are dense. Whether somebody was born is asked of the whole host: where other programs start
processes all the time each reading looks at everybody's children as well, so the members are measured both here and
alone in a process namespace. Series are CPU in per cent of one core, each over `--seconds`: the decider alone, and
all of the run's processes with the scribe. Beside them, in the same run, the least that can be had: a bare loop that
waits 50 ms and reads the same members' statm files, and one that only waits (bare_loop.c).
"""
import subprocess

from common import FIXED, GIB, MIB, ROOT, Bench, Result, arguments, children_of, share_over


def bare(bench, seconds, pids) -> float:
    program = bench.directory / "bare_loop"
    if not program.exists():
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "evidence/supervise/bare_loop.c"], check=True)
    return float(subprocess.run([program, str(seconds), *map(str, pids)], check=True, capture_output=True).stdout)


def main():
    args = arguments(__doc__, seconds=8.0, hover_seconds=20.0, rounds=5)
    bench = Bench(args.bin)
    result = Result("supervise/idle", unit="per cent of one core", compared_with="the fixed 50 ms schedule, same run",
                    note="members are forked after the parent touched 4 MiB; hover: one process, 8 MiB below 1 GiB, from its start (the budget's 30 ms burst included)")
    for members, alone in ((1, True), (16, True), (64, True), (16, False)):
        decider, everything, loop, wait = [], [], [], []
        for _ in range(args.rounds):
            run = bench.start("load", "workers", 4 * MIB, members - 1, "idle", limit=8 * GIB, alone=alone).ready()
            one, all_ = share_over(run, args.seconds)
            if members == 16 and alone:
                root, = (pid for pid in children_of(run.decider) if pid not in run.helpers())
                loop.append(bare(bench, args.seconds, [root, *children_of(root)]))
                wait.append(bare(bench, args.seconds, []))
            run.end()
            decider.append(one)
            everything.append(all_)
        where = "alone" if alone else "births elsewhere"
        result.series(f"{members} members, {where}, decider", decider)
        result.series(f"{members} members, {where}, all processes", everything)
        if loop:
            result.series(f"the least: a bare loop over the statm files of {members} members", loop)
            result.series("the least: a bare loop that only waits", wait)
    for label, options in (("adaptive", ()), ("fixed 50 ms", FIXED)):
        decider, everything, readings = [], [], []
        for _ in range(min(args.rounds, 3)):
            run = bench.start("load", "hold", "anon", GIB - 8 * MIB, limit=GIB, options=options).ready()
            one, all_ = share_over(run, args.hover_seconds)
            report = run.end()
            decider.append(one)
            everything.append(all_)
            assert report["outcome"]["kind"] == "child_exited", report["outcome"]
            readings.append(report["supervisor"]["complete_samples"])
        result.series(f"hover 8 MiB below the limit, {label}, decider", decider, readings=max(readings))
        result.series(f"hover 8 MiB below the limit, {label}, all processes", everything)
    result.save()


if __name__ == "__main__":
    main()
