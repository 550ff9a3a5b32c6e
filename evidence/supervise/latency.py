#!/usr/bin/env python3
"""How quickly a decision becomes a signal, a tree becomes empty, and a stop becomes a report.

- decision to first signal: from the report, journal on; at the limit (TERM) and in an emergency (KILL). Beside it, in the
  same run, the least that can be had: the system call alone (bare_signal.c).
- fork-hopper: 8 processes that fork a successor into a session of its own and exit, for ever; from the KILL to proven
  emptiness.
- external TERM of a child that ends at once: from kill(2) to the report in its place and to the supervisor's exit, timed
  from outside.
- escapees: 500 double-forked processes in sessions of their own: how many the report counts, how many are left.
"""
import os
import signal
import subprocess
import time

from common import GIB, MIB, ROOT, Bench, Result, arguments, value


def decisions(bench, result, count):
    for label, options in (("TERM at the limit", ()), ("KILL in an emergency", ("--breaches", "1000000"))):
        found = []
        for _ in range(count):
            report = bench.start("load", "grow", "anon", 256 * MIB, GIB, "plain", limit=32 * MIB, options=options).wait()
            took_ms = value(report["latencies"]["decision_to_signal_ms"])
            if took_ms is not None:  # where a control group holds the emergency band, the kernel kills by itself
                found.append(took_ms * 1000)
        if found:
            result.series(f"decision to first signal, {label}, us", found, runs=count)


def bare_signals(bench, result, count):
    program = bench.directory / "bare_signal"
    subprocess.run(["cc", "-O2", "-o", program, ROOT / "evidence/supervise/bare_signal.c"], check=True)
    lines = subprocess.run([program, str(count)], check=True, capture_output=True, text=True).stdout.split()
    result.series("the least: pidfd_send_signal alone, us", list(map(float, lines)))


def hoppers(bench, result, count):
    empty = []
    for _ in range(count):
        report = bench.start("load", "hop-step", 8, GIB, limit=64 * MIB, options=("--breaches", "1000000")).wait()
        assert report["outcome"]["emptiness"] == "proven", report["outcome"]
        assert report["signals"][0]["signal"] == "SIGKILL", report["signals"]
        empty.append(value(report["latencies"]["to_empty_ms"]))
    result.series("fork-hopper of 8 with a 70 MiB root: KILL to empty, ms", empty)
    empty = []
    for _ in range(count):
        run = bench.start("load", "hop", 8, limit=GIB).ready()
        time.sleep(0.1)
        os.kill(run.decider, signal.SIGTERM)  # they ignore it; the second one is KILL
        time.sleep(0.02)
        os.kill(run.decider, signal.SIGINT)
        report = run.wait()
        kill = next(s["at_ms"] for s in report["signals"] if s["signal"] == "SIGKILL")
        first = report["signals"][0]["at_ms"]
        empty.append(value(report["latencies"]["to_empty_ms"]) - (kill - first))
    result.series("fork-hopper of 8: second interrupt to empty, ms (to 1 ms)", empty)


def stops(bench, result, count):
    reported, exited = [], []
    for _ in range(count):
        run = bench.start("load", "hold", "anon", 0, limit=GIB).ready()
        time.sleep(0.05)
        report = str(run.run_dir / "report.json")
        begin = time.monotonic_ns()
        os.kill(run.decider, signal.SIGTERM)
        while not os.path.exists(report):
            time.sleep(0.0001)
        reported.append((time.monotonic_ns() - begin) / 1e6)
        run.process.wait()
        exited.append((time.monotonic_ns() - begin) / 1e6)
        run.wait()
    result.series("external TERM of a quick child to the report in place, ms", reported)
    result.series("external TERM of a quick child to the supervisor's exit, ms", exited)


def escapees(bench, result, rounds):
    counted, left = [], []
    for _ in range(rounds):
        run = bench.start("load", "escape", 500, 0, limit=8 * GIB).ready()
        time.sleep(0.3)
        os.kill(run.decider, signal.SIGTERM)
        report = run.wait()
        counted.append(report["escape"]["escaped_count"])
        left.append(len(alive(bench)))
    result.series("escapees counted of 500", counted)
    result.series("escapees alive after the report", left)


def alive(bench) -> list:
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/exe") == str(bench.load):
                found.append(entry)
        except OSError:
            pass
    return found


def main():
    args = arguments(__doc__, decisions=60, hops=30, stops=60, escapes=5)
    bench = Bench(args.bin)
    result = Result("supervise/latency", unit="as each series says")
    decisions(bench, result, args.decisions)
    bare_signals(bench, result, args.decisions)
    hoppers(bench, result, args.hops)
    stops(bench, result, args.stops)
    escapees(bench, result, args.escapes)
    result.save()


if __name__ == "__main__":
    main()
