#!/usr/bin/env python3
"""GET of a job on kept connections, as a share of the rate of a trivial handler (/livez) of the same server and run.

A running job and a finished one (which comes out of the database), over loopback TCP with the token and over the unix
socket; the four are asked in turn, `--rounds` times. Client and server share the host, so beside the rates there is the
server's CPU time an answer, which the client's share of the cores does not change. Goal: a running job at 40 % or more.
"""
import statistics
import subprocess

from common import Bench, Result, arguments, cpu_ns, figures, until


def main():
    args = arguments(__doc__, seconds=3.0, rounds=7, connections=32)
    bench = Bench(args)
    load = bench.compile("http_load.c")
    server = bench.server()
    running = server.launch("/bin/sleep", 3600)["id"]
    finished = server.launch("/bin/true")["id"]
    until(lambda: server.ask("GET", f"/v1/jobs/{finished}")["state"] == "finished", "the job ends")
    result = Result("api/get", unit="answers a second, and us of the server's CPU an answer",
                    compared_with="/livez of the same server, in turn in the same run",
                    note=f"{args.connections} kept connections of one client thread, which shares the cores with the server")
    paths = {"livez": "/livez", "running job": f"/v1/jobs/{running}", "finished job": f"/v1/jobs/{finished}"}
    wheres = {"tcp": (server.port, server.token), "unix": (server.socket, "-")}
    rates, cpus, p95 = {}, {}, {}
    for _ in range(args.rounds):
        for where, (place, token) in wheres.items():
            for label, path in paths.items():
                before = cpu_ns(server.pid)
                text = subprocess.run([load, str(place), token, path, str(args.connections), str(args.seconds)], check=True,
                                      capture_output=True, text=True).stdout
                got = {name: values[0] for name, values in figures(text).items()}
                rates.setdefault((where, label), []).append(got["rate"])
                cpus.setdefault((where, label), []).append((cpu_ns(server.pid) - before) / 1000 / got["answers"])
                p95.setdefault((where, label), []).append(got["p95_us"])
    for key in rates:
        name = f"{key[1]}, {key[0]}"
        result.series(f"{name}, answers a second", rates[key])
        result.series(f"{name}, CPU us an answer", cpus[key])
        result.series(f"{name}, p95 us of a round", p95[key])
    for where in wheres:
        for label in ("running job", "finished job"):
            share = [100 * one / other for one, other in zip(rates[where, label], rates[where, "livez"])]
            cpu = [100 * other / one for one, other in zip(cpus[where, label], cpus[where, "livez"])]
            result.series(f"share of /livez, {label}, {where}, per cent", share)
            result.series(f"share of /livez by CPU, {label}, {where}, per cent", cpu)
            if label == "running job":
                result.value(f"goal 40 per cent, {where}", "kept" if statistics.median(share) >= 40 else "missed")
    server.kill_jobs()
    server.stop()
    print(result.save())


if __name__ == "__main__":
    main()
