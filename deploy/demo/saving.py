"""A program that saves its model when it is asked to: it trains a little network on a real MLX, holds more and more
memory until its limit, and writes its weights before it is stopped. The file is put in place whole.

usage: saving.py [--to FILE] [--step MIB]
"""
import argparse
import os
import pathlib
import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten

# beside this file in the source tree, or in share/bulkhead/python of an installation
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "api/client/python"))
import bulkhead_worker


def save(model, path):
    part = f"{path}.part.safetensors"
    mx.save_safetensors(part, dict(tree_flatten(model.parameters())))
    os.replace(part, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", default="model.safetensors")
    parser.add_argument("--step", type=int, default=4, help="MiB held more after each step")
    options = parser.parse_args()
    bulkhead_worker.start()
    mx.random.seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = optim.Adam(learning_rate=1e-3)
    inputs, labels = mx.random.normal((256, 64)), mx.random.randint(0, 10, (256,))
    step = nn.value_and_grad(model, lambda m: nn.losses.cross_entropy(m(inputs), labels, reduction="mean"))
    held = []
    while True:
        _, gradients = step(model)
        optimizer.update(model, gradients)
        held.append(mx.random.normal((options.step, 256, 1024)))
        mx.eval(model.parameters(), optimizer.state, held[-1])
        request = bulkhead_worker.poll()  # between two steps: weights and optimizer belong together here
        if request:
            save(model, options.to)
            request.done(options.to)


if __name__ == "__main__":
    main()
