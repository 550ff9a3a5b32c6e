"""Nanoseconds per array, JSON on stdout: `data`, made from data and dropped, the path with the most hooks for the
least work; `add`, one addition evaluated, as real programs do."""
import json
import sys
import time

import mlx.core as mx


def data(batch):
    value = [1.0]
    for _ in range(batch):
        mx.array(value)


def add(batch, a=mx.ones((64,))):
    for _ in range(batch):
        mx.eval(a + a)


def main():
    work, rounds, batch = {"data": data, "add": add}[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
    results, clock = [], time.perf_counter_ns
    for _ in range(rounds):
        start = clock()
        work(batch)
        results.append((clock() - start) / batch)
    results.sort()
    print(json.dumps({"min": results[0], "median": results[len(results) // 2]}))


main()
