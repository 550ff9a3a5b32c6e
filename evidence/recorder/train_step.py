"""usage: train_step.py BLOCKS [DRAIN]

What recording costs a training step: steps of a small Llama of mlx_lm with random weights (nothing is downloaded,
nothing is compiled, so every array is seen), in one process, in blocks of three modes in random order:

    plain     the allocator has its own table again; what stays is one store per array node
    off       attached and switched off
    recorded  switched on

A block's figure for a mode is the median of STEPS steps after one that is not counted (it writes the baseline and
leads the calls). Neighbouring steps of one process share whatever noise the machine has. DRAIN: play the ring's reader,
where no scribe does. Prints JSON: seconds and CPU seconds (all threads) per step, by mode, block by block.

The plain mode goes behind the recorder's back, so its table of buffers is wrong afterwards: good for timing alone."""
import ctypes
import glob
import json
import os
import random
import re
import statistics
import struct
import sys
import time

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx_lm.models import llama

STEPS = 4
HEAD, CONTROL, TAIL = 192, 128, 136


def training_step():
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

    def run():
        value, gradients = step(model, tokens)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state, value)
        return value

    return run


class Allocator:
    """MLX's allocator object, whose table pointer the recorder exchanged."""

    def __init__(self):
        maps = [line.split() for line in open("/proc/self/maps") if "libmlx.so" in line]
        find = ctypes.CDLL(maps[0][5])["_ZN3mlx4core9allocator9allocatorEv"]
        find.restype = ctypes.c_uint64
        self.table = ctypes.c_uint64.from_address(find())
        self.recorders = self.table.value
        # the original: the other place in libmlx that has this run-time type behind an offset of 0
        kind = struct.pack("<QQ", 0, ctypes.c_uint64.from_address(self.recorders - 8).value)
        self.original, = (low + at.start() + 16 for low, data in self._memory(maps)
                          for at in re.finditer(re.escape(kind), data))

    @staticmethod
    def _memory(maps):
        for span, rights, *_ in maps:
            low, high = (int(end, 16) for end in span.split("-"))
            if rights.startswith("r") and "x" not in rights:
                yield low, ctypes.string_at(low, high - low)

    def use(self, original):
        self.table.value = self.original if original else self.recorders


class Recorder:
    def __init__(self, step, drain):
        self.step, self.drain, self.allocator = step, drain, Allocator()
        ring, = glob.glob(f"{os.environ['BULKHEAD_RING_DIR']}/*.ring")
        self.file = os.open(ring, os.O_RDWR)

    def enter(self, mode):
        if self.drain:
            head, = struct.unpack("<Q", os.pread(self.file, 8, HEAD))
            os.pwrite(self.file, struct.pack("<QQ", head, head ^ 0xFFFFFFFFFFFFFFFF), TAIL)
        self.allocator.use(original=False)
        os.pwrite(self.file, bytes([mode == "recorded"]), CONTROL)
        self.step()
        self.allocator.use(original=mode == "plain")


def main():
    blocks, step = int(sys.argv[1]), training_step()
    for _ in range(10):
        value = step()
    recorder = Recorder(step, drain=len(sys.argv) > 2)
    modes, order = ["plain", "off", "recorded"], random.Random(1)
    seconds, cpu = {mode: [] for mode in modes}, {mode: [] for mode in modes}
    for _ in range(blocks):
        order.shuffle(modes)
        for mode in modes:
            recorder.enter(mode)
            taken = []
            for _ in range(STEPS):
                start = time.perf_counter(), time.process_time()
                value = step()
                taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
            seconds[mode].append(statistics.median(one for one, _ in taken))
            cpu[mode].append(statistics.median(two for _, two in taken))
    recorder.enter("off")
    print(json.dumps({"loss": value.item(), "seconds": seconds, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
