"""usage: train_step.py STEPS [toggle]

Seconds per training step of a small Llama of mlx_lm with random weights (nothing is downloaded): prints the
steps' times as JSON. Not compiled, so that every array of a step is seen by a recorder."""
import glob
import json
import os
import sys
import time

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx_lm.models import llama


def switch():
    """A function that switches the recording of this process on and off, through its ring's control word."""
    folder = os.environ.get("BULKHEAD_RING_DIR")
    if len(sys.argv) < 3 or folder is None:
        return lambda on: None
    ring, = glob.glob(f"{folder}/*.ring")
    file = os.open(ring, os.O_RDWR)
    return lambda on: os.pwrite(file, bytes([on]), 128)


def main():
    steps = int(sys.argv[1])
    mx.random.seed(0)
    model = llama.Model(llama.ModelArgs(model_type="llama", hidden_size=64, num_hidden_layers=2,
                                        intermediate_size=192, num_attention_heads=4, num_key_value_heads=2,
                                        rms_norm_eps=1e-5, vocab_size=512, head_dim=16))
    optimizer = optim.AdamW(1e-4)
    tokens = mx.random.randint(0, 512, (2, 33))
    mx.eval(model.parameters(), tokens)

    def loss(model, tokens):
        logits = model(tokens[:, :-1])
        return nn.losses.cross_entropy(logits, tokens[:, 1:]).mean()

    step = nn.value_and_grad(model, loss)
    times, cpu = [], 0.0
    turn = switch()
    for index in range(steps + 3):
        turn(index % 2)  # the odd ones are recorded
        if index == 3:
            cpu = time.process_time()
        start = time.perf_counter()
        value, gradients = step(model, tokens)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state, value)
        times.append(time.perf_counter() - start)
    print(json.dumps({"loss": value.item(), "seconds": times[3:], "cpu_seconds": (time.process_time() - cpu) / steps}))


if __name__ == "__main__":
    main()
