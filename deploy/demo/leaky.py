"""A program that leaks on purpose: it "forgets" every activation in a list, the most common way a
training script grows until the machine stops. On a real, unmodified MLX.

usage: leaky.py [--step MIB] [--pause SECONDS] [--ignore-term] [--most MIB]
"""
import argparse
import signal
import time

import mlx.core as mx

history = []  # the bug: nothing ever leaves this list


def remember(batch, weight):
    history.append(batch @ weight)


def train_step(weight, rows):
    batch = mx.random.normal((rows, 16))
    remember(batch, weight)
    mx.eval(history[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=8, help="MiB leaked by each step")
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--ignore-term", action="store_true", help="make KILL necessary")
    parser.add_argument("--most", type=int, default=1 << 20, help="stop leaking at this many MiB")
    options = parser.parse_args()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    weight = mx.random.normal((16, 1024)) * 0.1
    rows = options.step * 256  # of 1,024 floats = 4 KiB each
    step = 0
    while True:
        if len(history) * options.step < options.most:
            train_step(weight, rows)
            step += 1
            if step % 10 == 0:
                print(f"step {step}: {len(history) * options.step} MiB of activations kept", flush=True)
        time.sleep(options.pause)


if __name__ == "__main__":
    main()
