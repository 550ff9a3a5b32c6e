#!/usr/bin/env python3
"""What each binary links and exports, proven on the built files with readelf and nm.

usage: symbols.py ROOT BUILD
"""
import pathlib
import re
import subprocess
import sys

# binary -> shared libraries it may need (besides the loader)
NEEDED = {
    "bin/bulkhead-supervise": set(),  # static: nothing is resolved at run time
    "bin/bulkhead-tool": {"libc.so.6", "libm.so.6"},
    "bin/bulkhead-policy": {"libc.so.6", "libm.so.6", "libjansson.so.4"},
    "bin/bulkheadd": {"libc.so.6", "libm.so.6", "libjansson.so.4", "libuv.so.1", "libmicrohttpd.so.12", "libsqlite3.so.0"},
    "lib/libbulkhead-record.so": {"libc.so.6", "libdl.so.2", "libgcc_s.so.1"},
}
FORBIDDEN_IN_SUPERVISE = {"getaddrinfo", "dlopen", "sqlite3_open", "json_loads", "uv_run"}
RECORDER_EXPORTS = re.compile(r"^(_ZN3mlx4core|bh_record_)")


def output(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(path) -> set:
    return set(re.findall(r"\(NEEDED\).*\[([^\]]+)\]", output("readelf", "-d", str(path))))


def hardening(path) -> list:
    dynamic = output("readelf", "-d", str(path))
    headers = output("readelf", "-lW", str(path))
    problems = []
    if "BIND_NOW" not in dynamic and "NOW" not in dynamic:
        problems.append("not linked with -z now")
    if "GNU_RELRO" not in headers:
        problems.append("no RELRO")
    if re.search(r"GNU_STACK.*RWE", headers):
        problems.append("executable stack")
    return problems


def main(build: pathlib.Path) -> int:
    problems = []
    for name, permitted in NEEDED.items():
        path = build / name
        if not path.exists():
            problems.append(f"{name}: not built")
            continue
        extra = {lib for lib in needed(path) - permitted if not lib.startswith("ld-linux")}
        if extra:
            problems.append(f"{name}: needs {', '.join(sorted(extra))}")
        problems += [f"{name}: {p}" for p in hardening(path)]
    recorder = build / "lib/libbulkhead-record.so"
    if recorder.exists():
        for line in output("nm", "-D", "--defined-only", str(recorder)).splitlines():
            symbol = line.split()[-1].split("@")[0]
            if not RECORDER_EXPORTS.match(symbol) and not symbol.startswith("BULKHEAD_"):
                problems.append(f"libbulkhead-record.so exports {symbol}")
    supervise = build / "bin/bulkhead-supervise"
    if supervise.exists():
        names = {line.split()[-1] for line in output("nm", str(supervise)).splitlines() if line.split()}
        for symbol in sorted(FORBIDDEN_IN_SUPERVISE & names - {"dlopen"}):
            problems.append(f"bulkhead-supervise contains {symbol}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[2])))
