"""The kernel ring on a host that gives a writable cgroup v2 with the memory controller. Elsewhere every test is
skipped with the reason that the supervisor itself reports: absence of the ring is normal and never an error."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import bulkhead_fixture as fixture

SUPERVISE = str(fixture.BIN / "bulkhead-supervise")
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
MIB = 1 << 20
READ_A_LARGE_FILE = ("import os, tempfile\n"
                     "with tempfile.NamedTemporaryFile(dir='/var/tmp') as f:\n"
                     " for _ in range(256): f.write(os.urandom(1 << 20))\n"
                     " f.flush()\n"
                     " for _ in range(3):\n"
                     "  f.seek(0)\n"
                     "  while f.read(1 << 20): pass\n")
HUGE_PRIVATE = "mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000"  # MAP_HUGETLB
HUGE_SHARED = "mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x40000"
MAP_HUGE = ("import mmap, os, time\n"
            "m = mmap.mmap(-1, {pages} << 21, flags={flags})\n"
            "for i in range({pages}): m[i << 21] = 1; time.sleep(0.005)\n")


class Run:
    """One foreground run: exit status, report, how long it took."""

    def __init__(self, *arguments, mode="run"):
        with tempfile.TemporaryDirectory(prefix="bulkhead-cgroup-") as directory:
            report = os.path.join(directory, "report.json")
            self.done = subprocess.run([SUPERVISE, mode, "--report", report, *arguments], capture_output=True, text=True,
                                       stdin=subprocess.DEVNULL, timeout=120)
            text = pathlib.Path(report).read_text() if os.path.exists(report) else "{}"
        self.report = json.loads(text)
        self.code = self.done.returncode



def ring_reason():
    """None where the ring is in force, else why not, in the supervisor's own words."""
    run = Run("--limit", "64MiB", "--", "true")
    capabilities = run.report.get("capabilities", {})
    if capabilities.get("cgroup") and run.report["host"]["boundary"] == "kernel_enforced":
        return None
    return capabilities.get("cgroup_reason") or "no reason given"


def groups() -> set:
    found = set()
    for root, directories, _ in os.walk("/sys/fs/cgroup"):
        found.update(os.path.join(root, d) for d in directories if "bulkhead" in d)
    return found


class Ring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = ring_reason()
        if reason is not None:
            raise unittest.SkipTest(f"no kernel ring here: {reason}")

    def setUp(self):
        self.groups_before = groups()

    def tearDown(self):
        end = time.monotonic() + 20
        while groups() - self.groups_before and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(groups() - self.groups_before, set(), "a control group was left behind")

    def run_python(self, limit, source, *options):
        return Run("--limit", limit, *options, "--", PYTHON, "-c", source)

    def test_boundary_is_named(self):
        run = Run("--limit", "64MiB", "--", "true")
        self.assertEqual(run.code, 0)
        self.assertIn("memory.max", run.report["host"]["boundary_mechanism"])
        self.assertIn("cgroup", run.report["host"]["footprint_metric"])

    def test_a_leap_past_the_emergency_band_is_stopped_by_the_kernel(self):
        # one memset of 1 GiB under 128 MiB: faster than any sampler that sleeps; memory.max is the wall
        run = self.run_python("128MiB", f"b = bytearray({1 << 30})\nb[:] = b'x' * len(b)")
        self.assertNotEqual(run.code, 0)
        peak = run.report["peaks"]["sampled"]["aggregate"]["value"]
        self.assertLess(peak, 128 * MIB * 1.15, "the wall let too much through")
        self.assertIn(run.report["outcome"]["cause"], ("kernel_oom", "emergency", "limit_exceeded"))
        self.assertEqual(run.report["outcome"]["survivor_count"], 0)

    def test_a_ramp_is_stopped_by_term_before_the_wall(self):
        source = "import time\nheld = []\nwhile True:\n held.append(bytearray(b'x' * (1 << 20)))\n time.sleep(0.004)"
        run = self.run_python("128MiB", source)
        self.assertEqual(run.code, 75, run.done.stderr)
        self.assertEqual(run.report["outcome"]["cause"], "limit_exceeded")

    def test_page_cache_is_not_charged(self):
        run = self.run_python("128MiB", READ_A_LARGE_FILE)
        self.assertEqual(run.code, 0, run.done.stderr)
        self.assertLess(run.report["peaks"]["sampled"]["aggregate"]["value"], 100 * MIB)

    def test_unmapped_memfd_is_charged(self):
        source = ("import os, time\nfd = os.memfd_create('x')\n"
                  "for _ in range(300): os.write(fd, b'x' * (1 << 20)); time.sleep(0.002)\ntime.sleep(5)")
        run = self.run_python("128MiB", source)
        self.assertEqual(run.code, 75, run.done.stderr)

    def test_forked_workers_are_counted_once(self):
        source = ("import os, time\nb = bytearray(200 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n"
                  "for _ in range(8):\n if os.fork() == 0: time.sleep(2); os._exit(0)\ntime.sleep(2.5)")
        run = self.run_python("400MiB", source)
        self.assertEqual(run.code, 0, run.done.stderr)
        self.assertLess(run.report["peaks"]["sampled"]["aggregate"]["value"], 300 * MIB)

    def test_fork_hoppers_and_escapees_are_emptied(self):
        source = ("import os, time\n"
                  "for _ in range(20):\n"
                  " if os.fork() == 0:\n"
                  "  os.setsid()\n"
                  "  while True:\n"
                  "   if os.fork(): os._exit(0)\n"
                  "while True: time.sleep(1)")
        run = self.run_python("1GiB", source, "--wall-time", "1s", "--grace", "200ms")
        self.assertEqual(run.code, 75, run.done.stderr)
        self.assertEqual(run.report["outcome"]["emptiness"], "proven")
        self.assertEqual(run.report["outcome"]["survivor_count"], 0)

    def test_a_braked_leak_is_asked_before_it_meets_the_wall(self):
        # as fast as memory comes: held up at the limit it has the time to answer, whatever the host does meanwhile
        source = ("import os, signal\n"
                  "signal.signal(signal.SIGTERM, lambda *a: os._exit(7))\n"
                  "held = []\n"
                  "while True: held.append(bytearray(b'x') * (1 << 20))\n")
        run = self.run_python("128MiB", source, "--brake", "--grace", "20s")
        self.assertEqual(run.code, 75, run.done.stderr)
        self.assertTrue(run.report["capabilities"]["brake"])
        self.assertIn("memory.high", run.report["host"]["boundary_mechanism"])
        self.assertEqual(run.report["outcome"]["cause"], "limit_exceeded")
        self.assertEqual([s["signal"] for s in run.report["signals"]], ["SIGTERM"])
        self.assertEqual(run.report["outcome"]["child_status"]["exit_code"], 7)

    def test_a_braked_job_can_still_save(self):
        # held up it would take some 20 s and more for this; the brake is let go when it is asked to end
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bulkhead-save-") as directory:
            path = os.path.join(directory, "save")
            source = ("import os, signal, time\n"
                      "def save(*a):\n"
                      f" with open('{path}', 'wb') as f:\n"
                      "  for _ in range(64): f.write(b'y' * (1 << 20))\n"
                      " own = open('/proc/self/cgroup').read().rsplit('0::', 1)[1].strip()\n"
                      " while open('/sys/fs/cgroup' + own + '/memory.high').read() != 'max\\n': time.sleep(0.01)\n"
                      " os._exit(7)\n"
                      "signal.signal(signal.SIGTERM, save)\n"
                      "held = []\n"
                      "while True: held.append(bytearray(b'x') * (1 << 20))\n")
            run = self.run_python("256MiB", source, "--brake", "--grace", "60s")
            self.assertEqual(run.report["outcome"]["child_status"]["exit_code"], 7, run.done.stderr)
            self.assertEqual(os.path.getsize(path), 64 * MIB)
            self.assertEqual(run.report["outcome"]["cause"], "limit_exceeded")

    def test_page_cache_at_the_brake_is_no_breach(self):
        run = self.run_python("128MiB", READ_A_LARGE_FILE, "--brake")
        self.assertEqual(run.code, 0, run.done.stderr)
        self.assertTrue(run.report["capabilities"]["brake"])
        self.assertEqual(run.report["signals"], [])
        self.assertLess(run.report["peaks"]["sampled"]["aggregate"]["value"], 100 * MIB)

    def huge_pages(self, count):
        """Reserves so many pages of 2 MiB for the test, or skips it."""
        pool = pathlib.Path("/proc/sys/vm/nr_hugepages")
        try:
            before = int(pool.read_text())
            pool.write_text(str(before + count))
        except OSError as error:
            self.skipTest(f"no huge pages can be reserved: {error}")
        self.addCleanup(pool.write_text, str(before))
        if int(pool.read_text()) < before + count:
            self.skipTest("there is too little memory in one piece for huge pages")

    def test_huge_pages_are_charged(self):
        self.huge_pages(120)
        run = self.run_python("128MiB", MAP_HUGE.format(flags=HUGE_PRIVATE, pages=110) + "time.sleep(30)\n")
        self.assertEqual(run.code, 75, run.done.stderr)
        self.assertGreater(run.report["peaks"]["sampled"]["aggregate"]["value"], 128 * MIB)

    def test_shared_huge_pages_are_charged_once(self):
        self.huge_pages(60)
        workers = "for _ in range(4):\n if os.fork() == 0: time.sleep(4); os._exit(sum(m[::1 << 21]) != 50)\n"
        run = self.run_python("200MiB", MAP_HUGE.format(flags=HUGE_SHARED, pages=50) + workers +
                              "bad = [os.wait()[1] for _ in range(4)]\nassert not any(bad), bad\n")
        self.assertEqual(run.code, 0, run.done.stderr)
        peak = run.report["peaks"]["sampled"]["aggregate"]["value"]
        self.assertGreater(peak, 100 * MIB)
        self.assertLess(peak, 150 * MIB)

    def test_rings_of_the_recorder_are_no_charge(self):
        python = fixture.PYTHON
        if subprocess.run([python, "-c", "import mlx.core"], capture_output=True).returncode:
            self.skipTest("no MLX here")
        source = "import mlx.core as mx, time\na = mx.zeros((25 << 20,), dtype=mx.float32); mx.eval(a); time.sleep(1)"
        peaks, rings = [], []
        for options in ((), ("--record",)):
            run = Run("--limit", "2GiB", *options, "--", python, "-c", source)
            self.assertEqual(run.code, 0, run.done.stderr)
            peaks.append(run.report["peaks"]["sampled"]["aggregate"]["value"])
            rings.append(run.report["recorder"]["ring_bytes"])
        self.assertGreater(rings[1], 16 * MIB)
        self.assertLess(abs(peaks[1] - peaks[0]), rings[1] / 2, (peaks, rings))

    def test_whoever_leaves_the_group_is_counted(self):
        source = ("import os, sys, time\n"
                  "own = open('/proc/self/cgroup').read().rsplit('0::', 1)[1].strip()\n"
                  "try:\n"
                  " open('/sys/fs/cgroup' + os.path.dirname(own) + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
                  "except OSError as error:\n"
                  " sys.exit(3)\n"
                  "held = []\n"
                  "while len(held) < 600: held.append(bytearray(b'x') * (1 << 20)); time.sleep(0.01)\n")
        run = self.run_python("128MiB", source)
        if run.code == 3:
            self.skipTest("the group above takes no processes here")
        self.assertEqual(run.code, 75, run.done.stderr)
        self.assertLess(run.report["peaks"]["sampled"]["aggregate"]["value"], 400 * MIB)

    def test_emergency_term_leaves_the_wall_away(self):
        run = Run("--limit", "128MiB", "--emergency-action", "term", "--", "true")
        self.assertEqual(run.report["host"]["boundary"], "sampled")

    def test_observe_has_no_wall(self):
        run = Run("--", PYTHON, "-c", f"b = bytearray(b'x' * {256 * MIB})", mode="observe")
        self.assertEqual(run.code, 0)
        self.assertEqual(run.report["host"]["boundary"], "sampled")

    def test_a_killed_supervisor_leaves_nothing(self):
        process = subprocess.Popen([SUPERVISE, "run", "--limit", "128MiB", "--", "sh", "-c",
                                    "(setsid sleep 4711 &) ; sleep 4711"], stdin=subprocess.DEVNULL)
        fixture.wait_until(lambda: len(fixture.processes_with("4711")) >= 4, "the job and its escapee")
        process.kill()
        process.wait()
        fixture.wait_until(lambda: not fixture.processes_with("sleep\0" + "4711"), "the job's end", 30)


if __name__ == "__main__":
    unittest.main()
