"""Real programs below their limit: builds, data loaders, readers of the page cache, compressors, sorts, MLX training.


The limit is 1.5 times what the program needs, measured by observing it first: a false charge of shared or cached
pages would cross it.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import bulkhead_fixture as fixture
from supervised import FULL, GIB, MIB, TEMP, HostileTest, run

SIZE = 64 if FULL else 12  # MiB of input


def sources(folder: pathlib.Path, files: int) -> None:
    for i in range(files):
        functions = "".join(f"int f{i}_{k}(int x) {{ int s = 0; for (int j = 0; j < x; j++) s += (j * {k}) ^ (s >> 3); "
                            f"return s + {k}; }}\n" for k in range(400))
        (folder / f"part{i}.c").write_text(functions)
    (folder / "Makefile").write_text("all: " + " ".join(f"part{i}.o" for i in range(files)) +
                                     "\n\t$(AR) rcs liball.a *.o\n%.o: %.c\n\t$(CC) -O2 -g -c -o $@ $<\n")


LOADER = """
import mmap, os, sys
from multiprocessing import Pool
path = sys.argv[1]
table = bytearray(range(256)) * 4096 * {table}       # every worker inherits it
def work(part):
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        total = sum(m[part::4096 * 8]) + table[part]
    return total
if __name__ == "__main__":
    for epoch in range(3):                               # new workers for each epoch
        with Pool(8) as pool:
            print(sum(pool.map(work, range(64))))
"""

SUBPROCESSES = """
import os, subprocess, sys
big = bytearray(b"x") * ({size} << 20)
for _ in range(60):
    subprocess.run(["true"], check=True)
for _ in range(20):                                      # a plain fork doubles the sum for a moment
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/true", ["true"])
    os.waitpid(pid, 0)
print(len(big))
"""

TRAIN = """
import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim
mx.random.seed(1)
model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 10))
mx.eval(model.parameters())
opt = optim.Adam(learning_rate=1e-3)
x, y = mx.random.normal((512, 256)), mx.random.randint(0, 10, (512,))
step = nn.value_and_grad(model, lambda m: nn.losses.cross_entropy(m(x), y, reduction="mean"))
for _ in range({rounds}):
    loss, grads = step(model)
    opt.update(model, grads)
    mx.eval(model.parameters(), opt.state, loss)
print(f"{{loss.item():.6f}}")
"""

NUMPY = """
import numpy as np
rng = np.random.default_rng(1)
a = rng.standard_normal((1200, 1200)); b = rng.standard_normal((1200, 1200))
for _ in range(4): a = np.tanh(a @ b / 40)
print(f"{np.abs(np.fft.fft2(a)).sum():.3f}", f"{np.linalg.svd(a[:300, :300], compute_uv=False).sum():.4f}")
"""


DENSE = ("--interval", "1ms", "--min-interval", "1ms")


class Safe(HostileTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(TEMP, "safe")
        cls.folder.mkdir(exist_ok=True)
        cls.input = cls.folder / "input"
        cls.tree = cls.folder / "tree"
        if not cls.input.exists():
            words = b"".join(b"%d %d line of text\n" % (i * 7919 % 1000003, i) for i in range(SIZE * 40000))
            cls.input.write_bytes(words)
            cls.tree.mkdir()
            for i in range(40):
                (cls.tree / f"d{i}").mkdir()
                for k in range(25):
                    (cls.tree / f"d{i}" / f"f{k}").write_bytes(words[i * 1000:i * 1000 + 4000])

    def safe(self, *command, floor=8 * MIB, cwd=None):
        """The same without us, observed, and under a limit of 1.5 times the peak: one output, one status.

        Observed every millisecond: compressors fill their tables in less than the default interval, and a peak that
        nobody looked at would give a limit below what the program needs."""
        command = [str(c) for c in command]
        place = cwd or self.folder
        plain = subprocess.run(command, cwd=place, capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        seen = run(*command, mode="observe", options=DENSE, cwd=place, stdin=subprocess.DEVNULL)
        self.assert_untouched(seen, seen.process.returncode)
        job = run(*command, limit=max(seen.peak + seen.peak // 2, floor), cwd=place, stdin=subprocess.DEVNULL)
        self.assert_untouched(job, job.process.returncode)
        self.assertEqual(job.output, plain.stdout)
        self.assertEqual(job.report["supervisor"]["incomplete_samples"], 0)

    def need(self, *programs):
        for program in programs:
            if not shutil.which(program):
                self.skipTest(f"{program} is not installed")

    def test_make_with_four_compilers(self):
        self.need("make", "cc")
        build = self.folder / "build"
        build.mkdir()
        sources(build, 6)
        self.safe("make", "-s", "-B", "-j4", cwd=build, floor=64 * MIB)

    def test_one_large_compilation(self):
        self.need("cc")
        build = self.folder / "large"
        build.mkdir()
        sources(build, 1)
        self.safe("cc", "-O2", "-c", "-o", "/dev/null", build / "part0.c")

    def test_python_compileall(self):
        sources = self.folder / "json"  # a copy: the interpreter's own folder is not ours to write in
        shutil.copytree(os.path.dirname(subprocess.__file__) + "/json", sources)
        self.safe(fixture.PYTHON, "-m", "compileall", "-q", "-f", "-j", "2", sources, floor=64 * MIB)

    def test_dd_reads_and_writes(self):
        self.safe("dd", f"if={self.input}", f"of={self.folder}/copy", "bs=1M", "status=none")

    def test_cat_through_a_pipe(self):
        self.safe("sh", "-c", f"cat {self.input} | cat | wc -c")

    def test_mapped_file_read(self):
        self.safe(fixture.PYTHON, "-S", "-c", "import mmap,sys; f=open(sys.argv[1],'rb'); m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ);"
                  "print(sum(m[::512]))", self.input)

    def test_gzip(self):
        self.need("gzip")
        self.safe("sh", "-c", f"gzip -c {self.input} | gzip -dc | cksum")

    def test_xz(self):
        self.need("xz")
        self.safe("sh", "-c", f"head -c 4000000 {self.input} | xz -2 -c | xz -dc | cksum", floor=32 * MIB)

    def test_zstd_with_threads(self):
        self.need("zstd")
        self.safe("sh", "-c", f"zstd -q -T2 -c {self.input} | zstd -dc | cksum")

    def test_bzip2(self):
        self.need("bzip2")
        self.safe("sh", "-c", f"head -c 3000000 {self.input} | bzip2 | bunzip2 | cksum")

    def test_sort(self):
        self.safe("sort", "-n", "-S", "16M", "--parallel=2", "-o", "/dev/null", self.input)

    def test_sort_spilling_to_files(self):
        self.safe("sh", "-c", f"sort -S 2M -T {self.folder} {self.input} | cksum")

    def test_tar(self):
        self.need("tar")
        self.safe("sh", "-c", f"tar -C {self.folder} -cf - tree | tar -tf - | sort | cksum")

    def test_find(self):
        self.safe("sh", "-c", f"find {self.tree} -type f -exec cat {{}} + | cksum")

    def test_find_with_a_process_each(self):
        self.safe("sh", "-c", f"find {self.tree}/d1 {self.tree}/d2 -type f | xargs -n1 -P4 cksum | sort | cksum")

    def test_grep_and_awk(self):
        self.safe("sh", "-c", f"grep -c 77 {self.input}; awk '{{ s += $1 }} END {{ print s }}' {self.input}")

    def test_sha256(self):
        self.safe("sha256sum", self.input)

    def test_shell_loop(self):
        self.safe("sh", "-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); /bin/true; done; echo $i")

    def test_sqlite(self):
        self.safe(fixture.PYTHON, "-c", "import sqlite3; d=sqlite3.connect(':memory:'); d.execute('create table t(a,b)');"
                  "d.executemany('insert into t values(?,?)', ((i*7%1009, i) for i in range(120000)));"
                  "print(d.execute('select a, count(*), sum(b) from t group by a order by 3 desc limit 3').fetchall())")

    def test_git(self):
        self.need("git")
        self.safe("git", "-c", f"safe.directory={fixture.ROOT}", "-C", fixture.ROOT, "log", "--oneline", "-n", "200", "--stat")

    def test_node(self):
        self.need("node")
        self.safe("node", "-e", "let a=[];for(let i=0;i<3e5;i++)a.push({i,s:String(i)});console.log(a.length)", floor=64 * MIB)

    def test_data_loader(self):
        program = self.folder / "loader.py"
        program.write_text(LOADER.format(table=128 if FULL else 48))
        self.safe(fixture.PYTHON, program, self.input, floor=64 * MIB)

    def test_many_subprocesses_of_a_large_parent(self):
        self.safe(fixture.PYTHON, "-S", "-c", SUBPROCESSES.format(size=512 if FULL else 128))

    def test_numpy(self):
        if subprocess.run([fixture.PYTHON, "-c", "import numpy"], capture_output=True).returncode:
            self.skipTest("no numpy here")
        self.safe(fixture.PYTHON, "-c", NUMPY)

    def test_mlx_training(self):
        if subprocess.run([fixture.PYTHON, "-c", "import mlx.core"], capture_output=True).returncode:
            self.skipTest("no MLX here")
        self.safe(fixture.PYTHON, "-c", TRAIN.format(rounds=200 if FULL else 10))

    def test_mlx_training_is_the_same_with_the_recorder(self):
        """Same output, same status, with and without the recorder; and untouched with it."""
        if subprocess.run([fixture.PYTHON, "-c", "import mlx.core"], capture_output=True).returncode:
            self.skipTest("no MLX here")
        program = TRAIN.format(rounds=20)
        outputs = []
        for options in ((), ("--record",), ("--record", "--stacks", "all"), ("--record", "--stacks", "none")):
            job = run(fixture.PYTHON, "-c", program, limit=4 * GIB, options=options)
            self.assert_untouched(job, job.process.returncode)
            if options:
                self.assertEqual(job.report["recorder"]["state"], "attached", job.report["recorder"])
                self.assertGreater(job.report["recorder"]["events"], 1000)
            outputs.append(job.output)
        self.assertEqual(outputs, outputs[:1] * 4)


if __name__ == "__main__":
    unittest.main()
