"""A job for the browser tests: prints markup, then keeps every array it makes. Real MLX.

usage: leak.py [--step MIB] [--pause SECONDS] [--most MIB]
"""
import argparse
import time

import mlx.core as mx

kept = []


def keep(step_mib):
    kept.append(mx.random.normal((step_mib * 256, 1024)))
    mx.eval(kept[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.1)
    parser.add_argument("--most", type=int, default=1 << 20)
    options = parser.parse_args()
    print("<script>document.title = 'owned'</script><img src=x onerror=alert(1)>", flush=True)
    step = 0
    while True:
        if len(kept) * options.step < options.most:
            keep(options.step)
            step += 1
            print(f"step {step}: {len(kept) * options.step} MiB kept", flush=True)
        time.sleep(options.pause)


if __name__ == "__main__":
    main()
