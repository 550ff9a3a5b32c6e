"""What every evidence script shares: the host's facts, the five numbers of a series, the result file.

    from measure import Result
    result = Result("recorder/overhead", unit="ns per array", compared_with="public frame API, same run")
    result.series("raw walk", samples)           # a list of numbers
    result.save()                                 # evidence/recorder/overhead.<host>.json

Standard library only. A result names the script, the commit, n, min, median, p95, max, and the host by
its hardware and kernel; never by a host name or a path.
"""
import datetime
import json
import os
import pathlib
import platform
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def summary(samples) -> dict:
    """n, min, median, p95, max of a non-empty list; p95 is the nearest-rank percentile."""
    ordered = sorted(samples)
    n = len(ordered)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return {"n": n, "min": ordered[0], "median": middle, "p95": ordered[max(0, -(-n * 95 // 100) - 1)],
            "max": ordered[-1]}


def host() -> dict:
    cpu = "unknown"
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {"system": platform.system(), "kernel": platform.release().split("-")[0], "machine": platform.machine(),
            "cpu": cpu, "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES")}


def commit() -> str:
    done = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


class Result:
    def __init__(self, name: str, unit: str, compared_with: str = "", note: str = ""):
        self.name = name
        self.data = {"schema": "bulkhead.evidence", "schema_version": 1, "name": name, "unit": unit,
                     "compared_with": compared_with, "note": note, "commit": commit(), "host": host(),
                     "measured_at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "series": {}, "values": {}}

    def series(self, label: str, samples, **facts) -> dict:
        self.data["series"][label] = {**summary(samples), **facts}
        return self.data["series"][label]

    def value(self, label: str, number):
        """A single derived number, such as a ratio of two medians of this run."""
        self.data["values"][label] = number

    def save(self, directory=None) -> pathlib.Path:
        h = self.data["host"]
        suffix = f"{h['system'].lower()}-{h['machine']}-{h['cores']}cores"
        path = pathlib.Path(directory or HERE) / f"{self.name}.{suffix}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.data, indent=2) + "\n", encoding="utf-8")
        print(json.dumps(self.data["series"], indent=2))
        print(json.dumps(self.data["values"], indent=2))
        return path


class LoadedResult(Result):
    """A result that also says how busy the host was: on a busy one latencies and rates are not ours alone. Written to
    BULKHEAD_EVIDENCE_DIR where that is set."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.loads = [os.getloadavg()[0]]

    def series(self, label, samples, **facts):
        self.loads.append(os.getloadavg()[0])
        print(f"{label}: {summary(samples)}", flush=True)
        return super().series(label, samples, **facts)

    def save(self, directory=None):
        self.data["load_average"] = {"min": min(self.loads), "max": max(self.loads)}
        return super().save(directory or os.environ.get("BULKHEAD_EVIDENCE_DIR"))
