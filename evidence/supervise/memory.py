#!/usr/bin/env python3
"""How much memory the supervisor itself takes, and whether it grows.

Private memory (smaps_rollup, clean and dirty) of the decider and of the scribe: with one member, with 64, and over a
soak in which 100 children a second come and go.
"""
import time

from common import GIB, MIB, Bench, Result, arguments, private_bytes


def look(run, times, pause):
    decider, scribe = [], []
    for _ in range(times):
        time.sleep(pause)
        decider.append(private_bytes(run.decider) / MIB)
        scribe.append(max(map(private_bytes, run.helpers()), default=0) / MIB)
    return decider, scribe


def main():
    args = arguments(__doc__, seconds=60)
    bench = Bench(args.bin)
    result = Result("supervise/memory", unit="MiB private")
    for members in (1, 64):
        run = bench.start("load", "workers", 4 * MIB, members - 1, "idle", limit=8 * GIB).ready()
        decider, scribe = look(run, 5, 0.5)
        run.end()
        result.series(f"decider, {members} members", decider)
        result.series(f"largest helper, {members} members", scribe)
    run = bench.start("load", "churn", args.seconds, 100, limit=GIB).launched()
    time.sleep(5)
    decider, scribe = look(run, max(2, (args.seconds - 7) // 2), 2)
    report = run.end()
    assert report["outcome"]["kind"] == "child_exited", report["outcome"]
    result.series("decider in the soak", decider, seconds=args.seconds)
    result.series("largest helper in the soak", scribe)
    result.value("decider's growth from 5 s to the end of the soak, MiB", decider[-1] - decider[0])
    result.value("helper's growth from 5 s to the end of the soak, MiB", scribe[-1] - scribe[0])
    result.value("soak: children", report["escape"]["members_seen"])
    result.save()


if __name__ == "__main__":
    main()
