#!/usr/bin/env python3
"""How far past its limit a growing job is when the decision falls, and what the watching costs.

A ramp of 128 MiB/s to a limit of 1 GiB and a step of 1 GiB at once over a limit of 512 MiB, with the adaptive schedule
and, in the same run and alternating, with a fixed 50 ms one. Overshoot is the charge at the decision minus the limit,
from the report; CPU is the decider's own from launch to the end.
"""
from common import FIXED, GIB, MIB, Bench, Result, arguments, cpu_ns, value


def one(bench, command, limit, options):
    run = bench.start(*command, limit=limit, options=options).launched()
    before = cpu_ns(run.decider)
    report = run.wait()
    assert report["outcome"]["cause"] in ("limit_exceeded", "emergency"), report["outcome"]
    assert report["outcome"]["emptiness"] == "proven", report["outcome"]
    peaks = report["peaks"]
    cpu = value(report["supervisor"]["cpu_us"]) * 1000 - before
    return (value(peaks["decision_overshoot_bytes"]) / MIB, value(peaks["overshoot_bytes"]) / MIB,
            100 * cpu / (report["outcome"]["at_ms"] * 1e6))


def main():
    args = arguments(__doc__, ramps=10, steps=40)
    bench = Bench(args.bin)
    result = Result("supervise/growth", unit="MiB of overshoot; per cent of one core",
                    compared_with="the fixed 50 ms schedule, alternating in the same run",
                    note="emergency band at its default, limit + 10 %")
    ways = {"adaptive, one reading": ("--breaches", "1"), "adaptive, two readings": ("--breaches", "2"),
            "fixed 50 ms, two readings": (*FIXED, "--breaches", "2")}
    for name, command, limit, count in (
            ("ramp 128 MiB/s", ("load", "grow", "anon", 128 * MIB, 2 * GIB, "plain"), GIB, args.ramps),
            ("step 1 GiB", ("load", "grow", "anon", 0, 2 * GIB, "plain"), GIB, args.steps)):
        runs = {way: [] for way in ways}
        for _ in range(count):
            for way, options in ways.items():
                runs[way].append(one(bench, command, limit, options))
        for way, rows in runs.items():
            result.series(f"{name}, {way}, decision overshoot MiB", [r[0] for r in rows])
            result.series(f"{name}, {way}, peak overshoot MiB", [r[1] for r in rows])
            result.series(f"{name}, {way}, decider % of a core", [r[2] for r in rows])
        series = result.data["series"]
        fixed = series[f"{name}, fixed 50 ms, two readings, decision overshoot MiB"]["median"]
        ours = series[f"{name}, adaptive, two readings, decision overshoot MiB"]["median"]
        if ours:
            result.value(f"{name}, overshoot of the fixed schedule over ours, medians", fixed / ours)
    result.save()


if __name__ == "__main__":
    main()
