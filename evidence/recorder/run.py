"""What recording costs, beside a reference implementation of the scheme that it replaces, in one run.

    python3 evidence/recorder/run.py [--build build/release] [--python PYTHON] [--only create,event,off,step,toggle,million]

PYTHON needs mlx[cpu] and mlx-lm. Processes are pinned to one core each and interleaved, so that a slow minute
hits all of them. Results: evidence/recorder/*.json.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from measure import Result  # noqa: E402


class Bench:
    def __init__(self, arguments):
        self.python = arguments.python
        self.build = pathlib.Path(arguments.build)
        self.library = self.build / "lib/libbulkhead-record.so"
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="bulkhead-evidence-", dir="/dev/shm"))
        self.core = str(max(os.sched_getaffinity(0)))

    def compile(self, source, target, *flags):
        out = self.work / target
        subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", f"-I{ROOT}", f"-I{ROOT / 'core'}", "-o", str(out),
                        str(HERE / source), *flags], check=True)
        return out

    def run(self, script, *arguments, preload=None, record=None):
        """One pinned process; returns what it printed, from JSON."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BULKHEAD_")}
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        rings = self.work / "rings"
        shutil.rmtree(rings, ignore_errors=True)
        rings.mkdir()
        if record is not None:
            environment.update(BULKHEAD_RING_DIR=str(rings), BULKHEAD_RECORD=record)
        done = subprocess.run(["taskset", "-c", self.core, self.python, str(HERE / script), *map(str, arguments)],
                              env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def supervised(self, script, *arguments, record, pinned=True):
        run_dir = self.work / "run"
        shutil.rmtree(run_dir, ignore_errors=True)
        command = [str(self.build / "bin/bulkhead-supervise"), "run", "--limit", "4GiB", "--quiet", "--run-dir",
                   str(run_dir), *(["--record"] if record else []), "--",
                   *(["taskset", "-c", self.core] if pinned else []), self.python, str(HERE / script),
                   *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        report = json.loads((run_dir / "report.json").read_text())
        log = run_dir / "events.bhe"
        return json.loads(done.stdout.splitlines()[-1]), report["recorder"], log.stat().st_size if record else 0


def create(bench, repeats):
    """Per created array at 32 frames, hooks and id in the array included on both sides."""
    reference = bench.compile("reference.c", "libreference.so", "-shared", "-fPIC", "-ldl")
    for shape in ("add", "many"):
        result = Result(f"recorder/create-{shape}", unit="ns per created array, 32 frames",
                        compared_with="public frame API, lines decoded at capture, interned under a mutex, id in the array")
        cost = {"recorder": [], "reference": []}
        series = {"plain": [], "recorder": [], "reference": []}
        medians = {"plain": [], "recorder": [], "reference": []}
        for _ in range(repeats):
            for name, preload, record in (("plain", None, None), ("recorder", bench.library, "v1"),
                                          ("reference", reference, None)):
                measured = bench.run("create_cost.py", shape, 150, 2000, preload=preload, record=record)
                series[name].append(measured["min"])
                medians[name].append(measured["median"])
        for name in series:
            result.series(f"{name}, minimum of a process", series[name])
            result.series(f"{name}, median of a process", medians[name])
        for name in cost:
            result.value(f"{name}: added ns, minima", round(min(series[name]) - min(series["plain"]), 1))
            result.value(f"{name}: added ns, medians",
                         round(statistics.median(medians[name]) - statistics.median(medians["plain"]), 1))
        for kind in ("minima", "medians"):
            result.value(f"times cheaper, {kind}", round(result.data["values"][f"reference: added ns, {kind}"]
                                                         / result.data["values"][f"recorder: added ns, {kind}"], 1))
        result.save()


def event(bench, repeats):
    program = bench.compile("event_cost.c", "event_cost", "-lpthread")
    result = Result("recorder/event", unit="ns per slot with timestamp and lock")
    samples = []
    for _ in range(repeats):
        done = subprocess.run(["taskset", "-c", bench.core, str(program), str(bench.work), "20"], capture_output=True,
                              text=True, check=True)
        samples += [float(line) for line in done.stdout.split()]
        for ring in bench.work.glob("*.ring"):
            ring.unlink()
    result.series("slot", samples)
    result.save()


def off(bench, repeats):
    configurations = {"no preload": (None, None), "preloaded, not asked for": (bench.library, None),
                      "attached, switched off": (bench.library, "v1;on=0"),
                      "recording": (bench.library, "v1;slots=2097152")}
    for work, batch, what in (("data", 5000, "array made from data and dropped"), ("add", 500, "evaluated addition")):
        result = Result(f"recorder/off-{work}", unit=f"ns per {what}, minimum of a process", compared_with="no preload")
        series = {name: [] for name in configurations}
        for _ in range(repeats):
            for name, (preload, record) in configurations.items():
                series[name].append(bench.run("off_cost.py", work, 100, batch, preload=preload, record=record)["min"])
        for name, samples in series.items():
            result.series(name, samples)
            if name != "no preload":
                result.value(f"{name}: added ns, minima", round(min(samples) - min(series["no preload"]), 1))
                result.value(f"{name}: added ns, medians",
                             round(statistics.median(samples) - statistics.median(series["no preload"]), 1))
        result.save()


def compare(result, name, ours, plain):
    """The ratios of neighbours, as percentages: their median with its distribution-free 95 % confidence interval
    (order statistics), and the mean of the middle 80 % of their logarithms with its normal one."""
    ratios = sorted(math.log(one / other) for one, other in zip(ours, plain))
    count, reach = len(ratios), math.ceil(0.98 * math.sqrt(len(ratios)))
    middle = ratios[count // 10:count - count // 10]
    mean, error = statistics.mean(middle), statistics.stdev(middle) / math.sqrt(len(middle))

    def percent(logarithms):
        return [round(100 * math.expm1(one), 2) for one in logarithms]

    result.value(f"{name}, median, percent", percent([statistics.median(ratios)])[0])
    result.value(f"{name}, median, 95 % confidence interval, percent",
                 percent([ratios[max(0, count // 2 - reach)], ratios[min(count - 1, count // 2 + reach)]]))
    result.value(f"{name}, middle mean, percent", percent([mean])[0])
    result.value(f"{name}, middle mean, 95 % confidence interval, percent",
                 percent([mean - 1.96 * error, mean + 1.96 * error]))


def training(result, measured):
    for kind in ("seconds", "cpu_seconds"):
        for mode in ("plain", "off", "recorded"):
            result.series(f"{mode}, {kind}", measured[kind][mode])
        for mode in ("off", "recorded"):
            compare(result, f"slowdown, {mode}, {kind}", measured[kind][mode], measured[kind]["plain"])


NOTE = "per block of one process: median of four steps; cpu_seconds: all threads; plain: the allocator's own table"


def step(bench, blocks):
    """A supervised training job, its drain and log included, free to use every core."""
    result = Result("recorder/step", unit="s per training step", note=NOTE,
                    compared_with="the same process with MLX's own allocator table, in blocks of random order")
    measured, recorder, _ = bench.supervised("train_step.py", blocks, record=True, pinned=False)
    assert recorder["lost"] == 0, recorder
    training(result, measured)
    result.value("events", recorder["events"])
    result.save()


def toggle(bench, blocks):
    """The same without a supervisor and on one core: the recorder's own part alone, with less noise."""
    result = Result("recorder/toggle", unit="s per training step", note=NOTE,
                    compared_with="the same process with MLX's own allocator table, in blocks of random order")
    training(result, bench.run("train_step.py", blocks, "drain", preload=bench.library, record="v1"))
    result.save()


def million(bench, repeats):
    result = Result("recorder/million", unit="events lost of more than a million, default ring",
                    note="one thread that allocates and frees as fast as it can")
    lost, events, sizes = [], [], []
    for _ in range(repeats):
        _, recorder, size = bench.supervised("million.py", record=True)
        lost.append(recorder["lost"])
        events.append(recorder["events"])
        sizes.append(size)
    result.series("lost", lost)
    result.series("events", events)
    result.series("bytes of the log per event", [round(size / count, 2) for size, count in zip(sizes, events)])
    result.save()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--python", default=os.environ.get("BULKHEAD_PYTHON", sys.executable))
    parser.add_argument("--only", default="create,event,off,step,toggle,million")
    parser.add_argument("--blocks", type=int, default=600,
                        help="of the training job; one takes about 0.3 s (default 600)")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    try:
        for name in arguments.only.split(","):
            {"create": lambda: create(bench, 7), "event": lambda: event(bench, 7), "off": lambda: off(bench, 9),
             "step": lambda: step(bench, arguments.blocks), "toggle": lambda: toggle(bench, arguments.blocks),
             "million": lambda: million(bench, 9)}[name]()
    finally:
        shutil.rmtree(bench.work)


if __name__ == "__main__":
    main()
