"""Measures the trace store: import into SQLite while it serves, timeline queries, live sets, pickles,
bytes an event, and kills during the import.

    python3 evidence/traces/store.py --build build/release [--events 10000000] [--live 20000] [--runs 3] [--kills 200]

Builds store_bench.c against the libraries of a built tree. The event log is synthetic (the generator is
tests/support/trace_maker.h: allocations, reuses, frees and links over a bounded set of live buffers); its
shape is stated in the result. The folder that is measured lies on the disk of --folder.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))
from measure import Result  # noqa: E402


def build_bench(build: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    libraries = [build / "lib" / f"libbh_{name}.a" for name in ("server", "api", "viz", "wire", "model", "base")]
    missing = [str(library.relative_to(build)) for library in libraries if not library.exists()]
    if missing:
        sys.exit(f"not built: {', '.join(missing)}; build the tree first")
    program = folder / "store_bench"
    subprocess.run(["cc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}", f"-I{ROOT / 'tests/support'}",
                    str(ROOT / "evidence/traces/store_bench.c"), *map(str, libraries), "-lsqlite3", "-ljansson", "-lpthread",
                    "-o", str(program)], check=True)
    return program


def run_bench(program: pathlib.Path, folder: str, events: int, live: int) -> dict:
    out = subprocess.run([str(program), folder, str(events), str(live)], check=True, capture_output=True,
                         text=True).stdout
    figures: dict = {}
    for line in out.splitlines():
        name, value = line.split()
        figures.setdefault(name, []).append(float(value))
    return figures


def measure_kills(build: pathlib.Path, kills: int, result: Result) -> None:
    """An importing process is killed at random moments; at the end every table is compared, row by row,
    with an import that nothing disturbed. The test fails on any difference, lost or doubled."""
    test = build / "tests" / "test_server_import_harm"
    if not test.exists():
        result.value("after the kills", "not built")
        return
    done = subprocess.run([str(test), "kill"], env={"BH_KILLS": str(kills), "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True)
    text = done.stdout + done.stderr
    good = re.search(r"\[       OK \] test_kill_at_any_point_loses_and_doubles_nothing", text)
    lines = re.findall(r"^killed after_ms (\d+\.\d+) cpu_ms (\d+\.\d+) imported (\d+)$", text, re.MULTILINE)
    for index, label in enumerate(("wall_ms until the kill", "cpu_ms until the kill", "events imported before the kill")):
        if lines:
            result.series(label, [float(line[index]) for line in lines])
    result.value("kills during the import", len(lines))
    result.value("kills that met an import that had committed", sum(int(line[2]) > 0 for line in lines))
    result.value("after the kills", "0 lost, 0 doubled" if good else "FAILED")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="a built tree")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--live", type=int, default=20_000, help="live buffers")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--folder", default=None, help="where the database is put (default: a temporary folder)")
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    result = Result("traces/store", unit="as named", compared_with="goals of the trace store in the contracts",
                    note="synthetic log; import with a concurrent timeline query every 20 ms; queries warm")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        program = build_bench(build, pathlib.Path(folder))
        runs = [run_bench(program, folder, arguments.events, arguments.live) for _ in range(arguments.runs)]
        small = [run_bench(program, folder, 1_000_000, arguments.live) for _ in range(arguments.runs)]
    joined = {name: [value for run in runs for value in run.get(name, [])] for name in runs[0]}
    for name in ("import_events_per_s", "import_cpu_s", "timeline_ms", "timeline_cpu_ms", "live_ms", "live_cpu_ms",
                 "growth_ms", "growth_cpu_ms", "pickle_s", "pickle_cpu_s"):
        result.series(f"{name} of {arguments.events} events", joined[name])
    for name in ("pickle_s", "pickle_cpu_s", "pickle_rss_growth_kb", "timeline_cpu_ms", "live_cpu_ms",
                 "growth_cpu_ms"):
        result.series(f"{name} of 1000000 events", [value for run in small for value in run[name]])
    for name in ("log_bytes_per_event", "segment_bytes_per_event", "level_bytes_per_event",
                 "keyframe_bytes_per_event", "database_bytes_per_event", "import_rss_kb"):
        result.value(name, joined[name][-1])
    result.value("load average at the end, 1 and 15 minutes", [os.getloadavg()[0], os.getloadavg()[2]])
    result.value("events", arguments.events)
    result.value("live_buffers", arguments.live)
    measure_kills(build, arguments.kills, result)
    print(result.save())


if __name__ == "__main__":
    main()
