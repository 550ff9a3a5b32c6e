"""Cost of creating one array, in nanoseconds, in one of two shapes. Run by run.py in a process of its own
per configuration; prints the minimum and the median over rounds as JSON.

add:   one call site, 32 frames deep, ten arrays alive: the shape of the add benchmark.
many:  2,000 functions (code objects) and 20,000 arrays alive; each round walks through other call paths.
"""
import json
import sys
import time

import mlx.core as mx

DEPTH = 32


def deep(depth, work):
    if depth == 0:
        return work()
    return deep(depth - 1, work)


def frames_now():
    frame, count = sys._getframe(), 0
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count


def shape_add(rounds, batch):
    a = mx.ones((4,))
    mx.eval(a)
    live = [a + a for _ in range(10)]

    def work():
        results = []
        clock = time.perf_counter_ns
        indices = range(batch)
        add = mx.add
        for _ in range(rounds):
            start = clock()
            for index in indices:
                live[index % 10] = add(a, a)
            results.append((clock() - start) / batch)
        return results

    return deep(DEPTH - frames_now() - 2, work)


def shape_many(rounds, batch):
    """A tree of generated functions: 250 chains of 8 functions each, entered at depth 24."""
    chains = []
    for chain in range(250):
        source, name = [], f"c{chain}"
        for level in range(8):
            body = "return add(a, a)" if level == 7 else f"return {name}_{level + 1}(add, a)"
            source.append(f"def {name}_{level}(add, a):\n    {body}\n")
        scope = {}
        exec(compile("".join(source), f"<chain {chain}>", "exec"), scope)
        chains.append(scope[f"{name}_0"])
    a = mx.ones((4,))
    mx.eval(a)
    live = [a + a for _ in range(20000)]

    def work():
        results, at = [], 0
        clock = time.perf_counter_ns
        add = mx.add
        count = len(chains)
        for _ in range(rounds):
            start = clock()
            for index in range(batch):
                live[at] = chains[index % count](add, a)
                at = at + 7 if at < 19990 else at - 19983
            results.append((clock() - start) / batch)
        return results

    return deep(DEPTH - 8 - frames_now() - 2, work)


def main():
    shape, rounds, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    results = sorted({"add": shape_add, "many": shape_many}[shape](rounds, batch))
    print(json.dumps({"min": results[0], "median": results[len(results) // 2], "rounds": rounds, "batch": batch}))


if __name__ == "__main__":
    main()
