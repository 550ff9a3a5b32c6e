"""What is measured: shared pages once, every kind of memory, nobody hidden behind an exited leader, and no job
stopped for pages that it does not have. core/super/supervision.md, section 1."""
import pathlib
import time
import unittest

import bulkhead_fixture as fixture
from supervised import FULL, GIB, MIB, HostileTest, run

HELD = 64 * MIB
PARENT, WORKERS = (GIB, 16) if FULL else (192 * MIB, 16)


def hugetlb_pages(count: int) -> bool:
    """Asks the kernel for huge pages; True when it has them free."""
    try:
        pathlib.Path("/proc/sys/vm/nr_hugepages").write_text(str(count))
    except OSError:
        pass
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("HugePages_Free:"):
            return int(line.split()[1]) >= count > 0
    return False


class Kinds(HostileTest):
    """64 MiB of each kind is seen as 64 MiB, and stopped by a limit below."""

    def hold(self, kind: str, bytes_: int):
        job = self.job("load", "hold", kind, bytes_)
        job.wait_ready()
        time.sleep(0.3)  # several readings, and the second's own look at what the quick one cannot see
        if kind in ("tables", "hugetlb"):
            time.sleep(1.0)
        self.assertEqual(job.finish(), 0, job.errors)
        return job.peak

    def check_kind(self, kind: str, tables: int = HELD // 512):
        charged = self.hold(kind, HELD) - self.hold(kind, 0)
        known = HELD + tables
        self.assertLess(abs(charged - known), known // 200, f"{charged} charged, {known} held")
        job = run("load", "hold", kind, HELD, limit=HELD // 2)
        self.assert_stopped(job, job.process.returncode)

    def test_anonymous(self):
        self.check_kind("anon")

    def test_transparent_huge_pages(self):
        self.check_kind("thp", 0 if self.thp_works() else HELD // 512)

    @staticmethod
    def thp_works() -> bool:
        return "[never]" not in pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()

    def test_shared_anonymous(self):
        self.check_kind("shared")

    def test_memfd(self):
        self.check_kind("memfd")

    def test_system_v_shared_memory(self):
        self.check_kind("sysv")

    def test_written_pages_of_a_private_file_mapping(self):
        self.check_kind("private-file")

    def test_page_tables(self):
        self.check_kind("tables", 0)

    def test_huge_pages_of_the_pool(self):
        before = pathlib.Path("/proc/sys/vm/nr_hugepages").read_text()
        if not hugetlb_pages(40):
            self.skipTest("the kernel gives no huge pages here")
        try:
            self.check_kind("hugetlb", 0)
        finally:
            pathlib.Path("/proc/sys/vm/nr_hugepages").write_text(before)


class Shared(HostileTest):
    """A plain sum would be wrong by up to 17 times here."""

    def test_forked_idle_workers_are_never_touched(self):
        job = self.job("load", "workers", PARENT, WORKERS, "idle", limit=2 * PARENT)
        job.wait_ready()
        time.sleep(10 if FULL else 2)
        self.assert_untouched(job, job.finish())
        self.assertLess(job.peak, PARENT + PARENT // 4, "the peak counts shared pages more than once")
        self.assertGreater(job.peak, PARENT)

    def test_the_same_workers_writing_their_pages_are_stopped(self):
        job = run("load", "workers", PARENT, WORKERS, "write", limit=2 * PARENT)
        self.assert_stopped(job, job.process.returncode)
        # how far over is a matter of how busy the machine is; left alone they would hold 17 times as much
        self.assertLess(job.peak, 16 * PARENT)

    def test_many_idle_workers_of_a_small_parent(self):
        job = self.job("load", "workers", 32 * MIB, 150, "idle", limit=96 * MIB)
        job.wait_ready()
        time.sleep(1)
        self.assert_untouched(job, job.finish())

    def test_short_children_of_a_large_parent_are_never_touched(self):
        """20 forks a second, each child lives 20 ms and writes nothing: shorter than a round over the parent takes."""
        program = ("import os, time\n"
                   f"x = bytearray(b'x') * ({GIB if FULL else 512 * MIB})\n"
                   "end = time.monotonic() + 4\n"
                   "while time.monotonic() < end:\n"
                   "    pid = os.fork()\n"
                   "    if pid == 0:\n"
                   "        time.sleep(0.02); os._exit(0)\n"
                   "    os.waitpid(pid, 0); time.sleep(0.03)\n")
        job = run(fixture.PYTHON, "-S", "-c", program, limit=(GIB if FULL else 512 * MIB) * 3 // 2)
        self.assert_untouched(job, job.process.returncode)

    def test_executed_workers_on_one_shared_memory(self):
        job = self.job("load", "shared", 100 * MIB, 6, limit=250 * MIB)
        job.wait_ready()
        time.sleep(2)
        self.assert_untouched(job, job.finish())
        self.assertLess(job.peak, 130 * MIB)

    def test_peak_does_not_creep_with_each_sharer(self):
        """Each worker adds a tenth to the sum and nothing to the truth: the peak that a user sets a limit by."""
        job = self.job("load", "shared", 10 * MIB, 24, 90 * MIB, 120)
        job.wait_ready()
        time.sleep(0.3)
        job.finish()
        self.assertLess(job.peak, 125 * MIB, "100 MiB are held, no round took back what was added")

    def test_python_processes_on_one_shared_memory(self):
        program = ("import multiprocessing as m, time\n"
                   "from multiprocessing.shared_memory import SharedMemory\n"
                   "def work(name):\n"
                   "    s = SharedMemory(name=name); n = sum(s.buf[::4096]); time.sleep(1); s.close()\n"
                   "if __name__ == '__main__':\n"
                   "    m.set_start_method('spawn')\n"
                   "    s = SharedMemory(create=True, size=200 << 20); s.buf[:] = bytes(200 << 20)\n"
                   "    w = [m.Process(target=work, args=(s.name,)) for _ in range(6)]\n"
                   "    [p.start() for p in w]; [p.join() for p in w]\n"
                   "    s.close(); s.unlink()\n")
        directory = pathlib.Path(self.id() + ".py")
        with fixture.tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, directory.name)
            path.write_text(program)
            job = run(fixture.PYTHON, path, limit=800 * MIB)
        self.assert_untouched(job, job.process.returncode)


class Handed(HostileTest):
    """Pages of a process that never runs: another writes them from outside. Far below the bands only who ran is read."""

    def test_pages_handed_to_a_sleeper_are_seen_as_they_come(self):
        job = run("load", "grow", "handed", 512 * MIB, 2 * GIB, "plain", limit=GIB)
        self.assert_stopped(job, job.process.returncode)
        self.assertLess(job.report["peaks"]["decision_overshoot_bytes"]["value"], 64 * MIB)

    def test_handed_in_one_go(self):
        job = run("load", "grow", "handed", 0, 3 * GIB, "plain", limit=GIB)
        self.assert_stopped(job, job.process.returncode)
        self.assertLess(job.peak, 2 * GIB)


class Hidden(HostileTest):
    def test_exited_leader_with_live_threads(self):
        job = self.job("load", "grow", "anon", 0, HELD, "leader")
        time.sleep(0.6)
        job.finish()
        self.assertGreaterEqual(job.peak, HELD)
        self.assertEqual(job.report["supervisor"]["incomplete_samples"], 0)

    def test_exited_leader_is_stopped(self):
        job = run("load", "grow", "anon", 0, HELD, "leader", limit=HELD // 2)
        self.assert_stopped(job, job.process.returncode)

    def test_a_program_nobody_may_inspect_is_still_measured(self):
        """Not dumpable and of another user: smaps_rollup is refused, the sum decides."""
        program = ("import ctypes, os, time\n"
                   "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
                   "x = bytearray(b'x') * (96 << 20)\n"
                   "os.fork()\n"
                   "time.sleep(20)\n")
        job = run(fixture.PYTHON, "-c", program, limit=64 * MIB)
        self.assert_stopped(job, job.process.returncode)

    def test_page_cache_is_not_charged(self):
        with fixture.tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "large")
            with open(path, "wb") as file:
                for _ in range(256):
                    file.write(b"\1" * MIB)
            job = run("sh", "-c", f"cat {path} | cat > /dev/null; dd if={path} of={path}.2 bs=1M 2>/dev/null",
                      limit=32 * MIB)
            self.assert_untouched(job, job.process.returncode)
            mapped = ("import mmap, sys\n"
                      "f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
                      "print(sum(m[i] for i in range(0, len(m), 4096)))\n")
            job = run(fixture.PYTHON, "-c", mapped, path, limit=64 * MIB)
            self.assert_untouched(job, job.process.returncode)


if __name__ == "__main__":
    unittest.main()
