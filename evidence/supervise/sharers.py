#!/usr/bin/env python3
"""What the exact rounds cost: jobs whose pages are shared, where the plain sum crosses the limit again and again.

16 idle workers of a parent of --parent-mib under twice its size; a parent that forks a short child 20 times a second;
workers that hover near the limit. Series: the decider in per cent of one core, while the sharing is found out and later;
rounds per second.
"""
from common import MIB, Bench, Result, arguments, share_over

FORKER = """
import os, time
x = bytearray(b"x") * ({bytes})
print("ready", flush=True)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    pid = os.fork()
    if pid == 0:
        time.sleep(0.02); os._exit(0)
    os.waitpid(pid, 0); time.sleep(0.03)
"""


def main():
    args = arguments(__doc__, seconds=8.0, rounds=3, parent_mib=1024)
    bench = Bench(args.bin)
    result = Result("supervise/sharers", unit="per cent of one core; rounds per second")
    parent = args.parent_mib * MIB
    cases = {"16 idle workers under twice the parent": (("load", "workers", parent, 16, "idle"), 2 * parent),
             "16 idle workers, limit 10 % above the truth": (("load", "workers", parent, 16, "idle"), parent * 11 // 10 + 64 * MIB),
             "20 forks a second of the parent": (("python3", "-S", "-c", FORKER.format(bytes=parent, seconds=args.seconds + 5)),
                                                 parent * 3 // 2)}
    for name, (command, limit) in cases.items():
        firsts, shares, rounds = [], [], []
        for _ in range(args.rounds):
            run = bench.start(*command, limit=limit).ready()
            first, _ = share_over(run, 3)
            share, _ = share_over(run, args.seconds)
            report = run.end()
            assert report["outcome"]["kind"] == "child_exited", report["outcome"]
            firsts.append(first)
            shares.append(share)
            rounds.append(report["supervisor"]["exact_rounds"] / (report["outcome"]["at_ms"] / 1000))
        result.series(name + ", decider in the first 3 s", firsts)
        result.series(name + ", decider later", shares)
        result.series(name + ", rounds a second", rounds)
    result.save()


if __name__ == "__main__":
    main()
