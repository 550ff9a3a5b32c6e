"""Small MLX programs for the recorder's tests: `python recorder_programs.py NAME [ARGUMENT]`.

Each prints its results (compared with and without the recorder) and leaves marks `active,cache` with MLX's own
counters, against which the recorded events are replayed."""
import asyncio
import ctypes
import os
import random
import signal
import sys
import tempfile
import threading
import traceback

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

try:
    _mark = ctypes.CDLL(None).bh_record_mark
except AttributeError:  # not preloaded
    _mark = None


def mark():
    if _mark is not None:
        _mark(f"{mx.get_active_memory()},{mx.get_cache_memory()}".encode())


def show(*arrays):
    mx.eval(*arrays)
    mark()
    for array in arrays:
        print([repr(value) for value in array.reshape(-1).tolist()[:64]])


def add():
    a = mx.arange(64 * 64, dtype=mx.float32).reshape(64, 64)
    for index in range(200):
        b = a + index
        mx.eval(b)
        mark()
    show(b)


def matmul():
    a = mx.arange(96 * 96, dtype=mx.float32).reshape(96, 96) / 9216
    for _ in range(40):
        a = (a @ a) / 50
        mx.eval(a)
        mark()
    show(a)


def training():
    mx.random.seed(3)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 8))
    optimizer = optim.AdamW(1e-3)
    x, y = mx.random.normal((16, 32)), mx.random.randint(0, 8, (16,))
    mx.eval(model.parameters(), x, y)

    def loss(model, x, y):
        return nn.losses.cross_entropy(model(x), y).mean()

    step = nn.value_and_grad(model, loss)
    for _ in range(15):
        value, gradients = step(model, x, y)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state, value)
        mark()
    show(value, model.layers[0].weight)


def temporaries():
    """Operands that the matrix product must copy first."""
    a = mx.zeros((100, 300, 2))[:, :, 0]
    b = mx.ones((300, 50))
    for _ in range(10):
        mx.eval(a @ b, b.T @ a.T)
    show((a @ b)[0, :3])


def compiled():
    @mx.compile
    def function(x, y):
        return mx.exp(-x * y) + mx.sin(x) / (1 + mx.abs(y))

    x = mx.arange(100) / 100
    for index in range(5):
        y = mx.ones((100,)) * index
        mx.eval(x, y)  # kept by their names, or the result would take over their buffers
        show(function(x, y))


def transforms():
    show(mx.grad(lambda x: (mx.sin(x) * x).sum())(mx.arange(20) / 7))
    show(mx.vmap(lambda x, y: (x * y).sum())(mx.ones((5, 30)), mx.arange(150).reshape(5, 30)))
    a = mx.arange(100, dtype=mx.float32).reshape(10, 10)
    show(a[2:5].T + 1, mx.sort(-a, axis=0), mx.concatenate([a, a]), *mx.split(a, 2), mx.softmax(a, axis=-1),
         mx.abs(mx.fft.fft(a)), mx.conv1d(mx.ones((1, 10, 3)), mx.ones((4, 3, 3))))


def cache_limits():
    rng = random.Random(5)
    for _ in range(300):
        choice = rng.random()
        if choice < 0.05:
            mx.clear_cache()
        elif choice < 0.12:
            mx.set_cache_limit(rng.choice([0, 1000, 100000, 1 << 20, 32 << 20]))
        arrays = [mx.zeros((rng.randint(1, 6000),)) for _ in range(5)]
        mx.eval(arrays)
        mark()
    show(arrays[0])


def exceptions():
    for _ in range(20):
        for bad in (lambda: mx.ones((3,)) @ mx.ones((4,)), lambda: mx.zeros((2, 3)).reshape(7),
                    lambda: mx.load("/nonexistent.npy")):
            try:
                mx.eval(bad())
            except (ValueError, RuntimeError) as error:
                print(type(error).__name__)
        mark()
    show(mx.ones((5,)))


def throwing():
    """An exception out of an operation's own evaluation, through the recorder's frames. Nothing is evaluated after
    it: plain MLX may hang then."""
    def truncated_file():
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            mx.save(file.name, mx.ones((1000,)))
            array = mx.load(file.name)
            os.truncate(file.name, 200)
            mx.eval(array)

    cases = {"inverse": lambda: mx.eval(mx.linalg.inv(mx.zeros((3, 3)), stream=mx.cpu)),
             "svd": lambda: mx.eval(*mx.linalg.svd(mx.full((3, 3), float("nan")), stream=mx.cpu)),
             "load": truncated_file}
    try:
        cases[sys.argv[2]]()
    except RuntimeError as error:
        print(str(error).split("]")[0])
    mark()


def streams():
    first, second = mx.new_stream(mx.cpu), mx.new_stream(mx.cpu)
    for index in range(60):
        a = mx.add(mx.ones((300,)), index, stream=first)
        b = mx.multiply(a, 2, stream=second)
        mx.eval(b)
    mx.synchronize(first)
    mx.synchronize(second)
    show(b)


def threads():
    def work(size):
        for index in range(200):
            mx.eval(mx.add(mx.ones((size,)), index))

    workers = [threading.Thread(target=work, args=(50 * (index + 1),)) for index in range(4)]
    for worker in workers:
        worker.start()
    flusher_runs = 20
    for _ in range(flusher_runs):
        mx.clear_cache()
    for worker in workers:
        worker.join()
    show(mx.ones((7,)))


def busy():
    """Four threads that make, evaluate and drop until standard input ends."""
    go_on = True

    def work(size):
        while go_on:
            mx.eval(mx.add(mx.ones((size,)), mx.array([1.0] * size)) * 2)

    workers = [threading.Thread(target=work, args=(50 * (index + 1),)) for index in range(4)]
    for worker in workers:
        worker.start()
    print("ready", flush=True)
    sys.stdin.read()
    go_on = False
    for worker in workers:
        worker.join()
    mark()


def leak():
    keep = []

    def forgotten(index):
        keep.append(mx.ones((250, 250)) * index)
        mx.eval(keep[-1])

    for index in range(100):
        forgotten(index)
    mark()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def stacks():
    """Every case runs twice from the same lines: once with mx.zeros, and once with a function in its place that
    prints where it was called from, in traceback's words."""
    kept = []

    def probe(shape, dtype=None):
        for frame in traceback.extract_stack()[:-1]:
            print(shape[0], frame.filename, frame.name, frame.lineno, sep="\t")

    def plain(zeros, size):
        kept.append(zeros((size,)))

    def several_lines(zeros, size):
        kept.append(
            zeros(
                (size,),
                dtype=(
                    mx.float32)))

    def chained(zeros, size):
        return [kept.append(
            one) for one in
            [zeros((
                size,))]]

    def in_lambda(zeros, size):
        (lambda:
         plain(zeros, size))()

    def in_generator(zeros, size):
        list(plain(zeros, one) for one in (size,))

    def in_comprehension(zeros, size):
        {kept.append(zeros((one,))) for one in (size,)}

    class Holder:
        def __init__(self, zeros, size):
            self.zeros, self.size = zeros, size

        @property
        def value(self):
            return plain(self.zeros, self.size)

        def __enter__(self):
            plain(self.zeros, self.size)

        def __exit__(self, *_):
            pass

    def in_property(zeros, size):
        Holder(zeros, size).value

    def in_with(zeros, size):
        with Holder(zeros, size):
            pass

    def in_except(zeros, size):
        try:
            raise KeyError
        except KeyError:
            plain(zeros, size)

    def deep(zeros, size, depth=60):
        return deep(zeros, size, depth - 1) if depth else plain(zeros, size)

    def in_thread(zeros, size):
        def work():  # a stream belongs to its thread: evaluated here
            plain(zeros, size)
            mx.eval(*(array for array in kept[-1:] if array is not None))

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()

    def in_exec(zeros, size):
        exec(compile("\n\n\nplain(zeros,\n  size)", "<wörter>", "exec"), {"plain": plain, "zeros": zeros, "size": size})

    async def coroutine(zeros, size):
        plain(zeros, size)

    def in_coroutine(zeros, size):
        asyncio.run(coroutine(zeros, size))

    cases = (plain, several_lines, chained, in_lambda, in_generator, in_comprehension, in_property, in_with,
             in_except, deep, in_thread, in_exec, in_coroutine)
    for size, case in enumerate(cases, 1001):
        for zeros in (mx.zeros, probe):
            case(zeros, size)
    mx.eval(*(array for array in kept if array is not None))


def many_stacks():
    """A different stack for each of thousands of arrays."""
    scope = {"mx": mx}
    for index in range(int(sys.argv[2])):
        exec(compile(f"def function_{index}():\n    return mx.array([1.0, 2.0])\n", f"<made {index}>", "exec"), scope)
        scope[f"function_{index}"]()
    mark()


def forks():
    a = mx.ones((1000,))
    mx.eval(a)
    mark()
    pid = os.fork()
    if pid == 0:
        kept = [mx.array([1.0] * 500) for _ in range(10)]
        mark()
        del kept, a
        mark()
        os._exit(0)
    os.waitpid(pid, 0)
    show(a[:3])
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, __file__, "add"])


def steered():
    """Takes orders on standard input: make N, add N, lazy N, evaluate 0, churn N, drop N; answers each
    with MLX's counters."""
    kept, late = [], []
    for line in sys.stdin:
        order, number = line.split()
        if order == "make":
            new = [mx.array([float(len(kept) + index)] * 250) for index in range(int(number))]
            mx.eval(new)
            kept += new
            del new
        elif order == "add":
            kept += [mx.ones((100 + index,)) + index for index in range(int(number))]
            mx.eval(kept)
        elif order == "lazy":
            late += [mx.arange(9000 + len(late) + index) for index in range(int(number))]
        elif order == "evaluate":
            mx.eval(late)
        elif order == "churn":
            for _ in range(int(number)):
                mx.array([1.0] * 250)
        elif order == "drop":
            del kept[:int(number)]
        mark()
        print(mx.get_active_memory(), mx.get_cache_memory(), flush=True)


def small_and_large():
    kept = [mx.array([1.0] * size) for size in (10, 10, 10, 5000, 5000)]
    mx.eval(kept)
    print(mx.get_active_memory())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
