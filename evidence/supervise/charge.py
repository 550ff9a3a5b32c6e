#!/usr/bin/env python3
"""How exact the charge is: a known 64 MiB of each kind of memory, ten runs each.

The peak of a run that holds 64 MiB minus the peak of one that holds nothing of it, against 64 MiB and the page tables
that such a mapping takes: 2 MiB aligned, 1/512 of it, also kept ready for transparent huge pages, and for page tables
themselves the level above; none for huge pages of the pool. Also the case
that a plain sum gets wrong: 16 forked idle workers of a 1 GiB parent.
"""
import pathlib
import time

from common import GIB, MIB, Bench, Result, arguments

HELD = 64 * MIB
TABLES = HELD // 512


def peak(bench, kind, held, seconds):
    run = bench.start("load", "hold", kind, held).ready()
    time.sleep(seconds)
    return run.end()["peaks"]["sampled"]["aggregate"]["value"]


def with_huge_pages(pages: int) -> str:
    """What was set before, empty when the kernel gives none."""
    path = pathlib.Path("/proc/sys/vm/nr_hugepages")
    before = path.read_text()
    try:
        path.write_text(str(pages))
    except OSError:
        return ""
    free = int(next(l.split()[1] for l in pathlib.Path("/proc/meminfo").read_text().splitlines()
                    if l.startswith("HugePages_Free:")))
    if free < pages:
        path.write_text(before)
        return ""
    return before


def main():
    args = arguments(__doc__, rounds=10, parent_mib=1024)
    bench = Bench(args.bin)
    result = Result("supervise/charge", unit="per cent of 64 MiB and its page tables, absolute")
    kinds = {"anonymous": ("anon", TABLES), "transparent huge pages": ("thp", TABLES), "shared anonymous": ("shared", TABLES),
             "memfd": ("memfd", TABLES), "System V shared memory": ("sysv", TABLES),
             "private file mapping, written": ("private-file", TABLES), "page tables": ("tables", TABLES)}
    before = with_huge_pages(40)
    if before:
        kinds["huge pages of the pool"] = ("hugetlb", 0)
    for name, (kind, tables) in kinds.items():
        seconds = 1.2 if kind in ("tables", "hugetlb") else 0.2
        errors = []
        for _ in range(args.rounds):
            charged = peak(bench, kind, HELD, seconds) - peak(bench, kind, 0, 0.1)
            errors.append(100 * abs(charged - HELD - tables) / (HELD + tables))
        result.series(name, errors)
    if before:
        pathlib.Path("/proc/sys/vm/nr_hugepages").write_text(before)
    parent, workers = args.parent_mib * MIB, []
    for _ in range(3):
        run = bench.start("load", "workers", parent, 16, "idle", limit=2 * parent).ready()
        time.sleep(2)
        report = run.end()
        assert report["outcome"]["kind"] == "child_exited", report["outcome"]
        workers.append(report["peaks"]["sampled"]["aggregate"]["value"] / parent)
    result.series("16 idle workers: peak as a multiple of the parent (a plain sum: 17)", workers)
    result.save()


if __name__ == "__main__":
    main()
