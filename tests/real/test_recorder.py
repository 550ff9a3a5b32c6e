"""The recorder on a real, unmodified MLX: the byte oracle over programs, stacks, losses, control, processes, and
that the job never notices."""
import collections
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import unittest

import elf_slots
import ring_file
from bulkhead_fixture import BIN, PYTHON
from ring_file import FLAG_CHILD, FLAG_DESC_WORD, FLAG_LINKS, FLAG_LOSSY, FLAG_STREAMS, WALK_PUBLIC, WALK_RAW

LIBRARY = pathlib.Path(os.environ.get("BULKHEAD_RECORD_LIBRARY", BIN.parent / "lib/libbulkhead-record.so"))
PROGRAMS = pathlib.Path(__file__).with_name("recorder_programs.py")
DEADLINE_S = 120


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="bulkhead-recorder-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, options="check=1"):
        return {**os.environ, "LD_PRELOAD": str(LIBRARY), "BULKHEAD_RING_DIR": self.folder,
                "BULKHEAD_RECORD": f"v1;{options}"}

    def run_program(self, *arguments, options="check=1", python=PYTHON, **keywords):
        return subprocess.run([python, str(PROGRAMS), *arguments], env=self.environment(options), text=True,
                              capture_output=True, timeout=DEADLINE_S, **keywords)

    def rings(self):
        return ring_file.rings(self.folder)

    def ring(self):
        rings = self.rings()
        self.assertEqual(len(rings), 1, [ring.path.name for ring in rings])
        return rings[0]

    def assert_oracle(self, ring):
        """MLX's own counters agreed after every event, and the events alone lead to the same numbers."""
        self.assertEqual((ring.state, ring.reason), (ring_file.STATE_ATTACHED, ""))
        self.assertEqual((ring.lost, ring.mismatches), (0, 0))
        self.assertGreater(ring.checks, 0)
        replay = ring_file.replay(ring)
        self.assertEqual((replay.active_bytes, replay.cache_bytes), (ring.active_bytes, ring.cache_bytes))
        for label, active, cached in replay.marks:
            self.assertEqual(label, f"{active},{cached}")
        return replay


class Oracle(Recorded):
    """Single-threaded programs: after every event. Each also gives the same results as without the recorder."""

    def check(self, name, minimum_marks=1):
        plain = subprocess.run([PYTHON, str(PROGRAMS), name], text=True, capture_output=True, timeout=DEADLINE_S)
        recorded = self.run_program(name)
        self.assertEqual((recorded.returncode, recorded.stdout, recorded.stderr),
                         (plain.returncode, plain.stdout, plain.stderr))
        self.assertEqual(plain.returncode, 0, plain.stderr)
        ring = self.ring()
        self.assertGreaterEqual(len(self.assert_oracle(ring).marks), minimum_marks)
        return ring

    def test_add(self):
        ring = self.check("add", 200)
        self.assertEqual(ring.flags & (FLAG_LINKS | FLAG_STREAMS | FLAG_DESC_WORD | FLAG_LOSSY),
                         FLAG_LINKS | FLAG_STREAMS | FLAG_DESC_WORD)
        raw = ring.python_version.startswith(("3.11.", "3.12.", "3.13."))
        self.assertEqual(ring.walk, WALK_RAW if raw else WALK_PUBLIC)
        names = collections.Counter(ring.strings[slot["primitive"]] for slot in ring.allocations())
        self.assertGreaterEqual(names["Add"], 200)
        self.assertEqual({slot["kind"] for slot in ring.slots} & {ring_file.ALLOC_NEW, ring_file.ALLOC_REUSE},
                         {ring_file.ALLOC_NEW, ring_file.ALLOC_REUSE})

    def test_matmul(self):
        self.check("matmul", 40)

    def test_training(self):
        ring = self.check("training", 15)
        self.assertEqual([slot for slot in ring.allocations() if not slot["stack"]], [])
        self.assertTrue({"AddMM", "Maximum", "Sqrt", "LogSumExp"} <= set(ring.strings.values()))

    def test_temporaries_belong_to_their_operation(self):
        ring = self.check("temporaries", 1)
        names = collections.Counter(ring.strings[slot["primitive"]] for slot in ring.allocations()
                                    if slot["size_bytes"] == 100 * 300 * 4)
        self.assertGreater(names["Matmul"] + names["AddMM"], 20)  # copies of transposed inputs

    def test_compile(self):
        ring = self.check("compiled", 5)  # and only one ring: sh, g++ and the like leave none
        self.assertTrue(any((name or "").startswith("Compiled") for name in ring.strings.values()))

    def test_transforms(self):
        self.check("transforms")

    def test_cache_limits(self):
        ring = self.check("cache_limits", 300)
        self.assertTrue(ring.of_kind(ring_file.CACHE_TO_OS) and ring.of_kind(ring_file.FREE_TO_OS))

    def test_exceptions(self):
        self.check("exceptions", 20)


class Throwing(Recorded):
    def test_exceptions_pass_through(self):
        for case in ("inverse", "svd", "load"):
            with self.subTest(case):
                plain = subprocess.run([PYTHON, str(PROGRAMS), "throwing", case], text=True, capture_output=True,
                                       timeout=DEADLINE_S)
                done = self.run_program("throwing", case)
                self.assertTrue(plain.stdout.startswith("["))
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (plain.returncode, plain.stdout, plain.stderr))
                ring, = self.rings()
                self.assert_oracle(ring)
                ring.path.unlink()


class Concurrency(Recorded):
    """Several threads: at rest, and after every event while nobody empties the cache."""

    def test_streams(self):
        done = self.run_program("streams")
        self.assertIn(done.returncode, (0, -6))  # plain MLX aborts at exit at times with several streams
        ring = self.ring()
        self.assert_oracle(ring)
        self.assertGreater(len({slot["stream"] for slot in ring.allocations()} - {-1}), 1)

    def test_threads_and_clear_cache(self):
        done = self.run_program("threads")
        self.assertEqual(done.returncode, 0, done.stderr)
        ring = self.ring()
        self.assert_oracle(ring)
        self.assertGreaterEqual(len({slot["thread"] for slot in ring.slots}), 5)


    def test_switched_to_and_fro_under_way(self):
        """Calls are led elsewhere and back while four threads are inside them."""
        with subprocess.Popen([PYTHON, str(PROGRAMS), "busy"], env=self.environment("check=1;slots=65536"), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            path, = pathlib.Path(self.folder).glob("*.ring")
            with ring_file.Hand(path) as hand:
                for turn in range(400):
                    hand.release()
                    head = hand.head()
                    hand.switch(turn % 2)
                    hand.wait_for(head + (64 if turn % 2 else 1), DEADLINE_S)
                hand.release()
            process.stdin.close()
            self.assertEqual(process.wait(DEADLINE_S), 0)
        ring = self.ring()
        self.assertEqual((ring.state, ring.reason, ring.mismatches), (ring_file.STATE_ATTACHED, "", 0))
        self.assertGreater(ring.checks, 1000)
        self.assertGreater(ring.head, 200 * 64)


class Stacks(Recorded):
    def test_stacks_equal_traceback(self):
        self.compare_stacks(PYTHON)

    def compare_stacks(self, python):
        done = self.run_program("stacks", options="check=1;depth=256", python=python)
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = collections.defaultdict(list)
        for line in done.stdout.splitlines():
            size, file, function, number = line.split("\t")
            wanted[int(size)].append((file, function, int(number)))
        ring = self.ring()
        found = {slot["size_bytes"] // 4: ring.stacks[slot["stack"]] for slot in ring.allocations()}
        self.assertGreater(len(wanted), 10)
        for size, frames in wanted.items():
            self.assertEqual(found[size], frames[::-1], f"case {size}")

    def test_innermost_frames_are_kept(self):
        self.assertEqual(self.run_program("stacks", options="depth=5").returncode, 0)
        ring = self.ring()
        deep = {slot["size_bytes"] // 4: ring.stacks[slot["stack"]] for slot in ring.allocations()}[1010]
        self.assertEqual([frame[1] for frame in deep], ["plain"] + ["deep"] * 4)

    def test_none(self):
        self.assertEqual(self.run_program("add", options="stacks=none").returncode, 0)
        ring = self.ring()
        self.assertEqual((ring.walk, len(ring.stacks)), (ring_file.WALK_NONE, 1))
        self.assertIn("Add", ring.strings.values())

    def test_a_full_arena_loses_stacks_only(self):
        self.assertEqual(self.run_program("many_stacks", "4000", options="check=1;arena=65536").returncode, 0)
        ring = self.ring()
        self.assert_oracle(ring)
        self.assertGreater(ring.stacks_lost, 1000)
        self.assertTrue(ring.flags & FLAG_LOSSY)
        self.assertLessEqual(ring.arena_used, 65536)


class Kill(Recorded):
    def test_everything_survives_sigkill(self):
        done = self.run_program("leak")
        self.assertEqual((done.returncode, done.stdout), (-9, "ready\n"))
        ring = self.ring()
        replay = self.assert_oracle(ring)
        self.assertEqual(len(replay.marks), 1)
        held = collections.Counter()
        for address, size in replay.active.items():
            stack = ring.stacks[replay.alloc[address]["stack"]]
            held[stack[0][1:] if stack else None] += size
        (top, size), = held.most_common(1)
        append = next(number for number, line in enumerate(PROGRAMS.read_text().splitlines(), 1)
                      if "keep.append(mx.ones" in line)
        self.assertEqual(top, ("forgotten", append))
        self.assertEqual(size, 100 * 250 * 250 * 4)


class Steered(Recorded):
    """A program that does what the test says, while the test plays the reader of its ring."""

    def start(self, options, **changes):
        environment = {**self.environment(options), **changes}
        self.process = subprocess.Popen([PYTHON, str(PROGRAMS), "steered"], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        env={name: value for name, value in environment.items() if value is not None})
        self.addCleanup(self.stop)

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()

    def order(self, text):
        """Returns MLX's active and cached bytes after it."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return tuple(int(number) for number in self.process.stdout.readline().split())

    def test_a_full_ring_loses_with_a_count_and_recovers_with_a_baseline(self):
        self.start("check=1;slots=1024")
        replay, slots = ring_file.Replay(), []

        def read():
            ring = self.ring()
            slots.extend(ring.slots)
            for slot in ring.slots:
                replay.apply(slot)
            ring.release()
            return ring

        self.order("make 20")
        self.order("churn 800")  # two events each, and nobody reads
        ring = read()
        self.assertGreater(ring.lost, 200)
        self.assertEqual(len(ring.slots), 1024)
        self.assertTrue(ring.flags & FLAG_LOSSY)
        self.assertGreaterEqual(len(replay.active), 20)
        self.order("drop 15")  # the first of these finds room: count, baseline, and then exact again
        read()
        for _ in range(3):
            sums = self.order("make 1")
            ring = read()
        self.assertEqual(ring.mismatches, 0)
        self.assertEqual((ring.active_bytes, ring.cache_bytes), sums)
        self.assertEqual((replay.active_bytes, replay.cache_bytes), sums)
        gaps = [at for at, slot in enumerate(slots) if slot["kind"] == ring_file.LOST]
        self.assertTrue(gaps)
        self.assertEqual(sum(slots[at]["requested_bytes"] for at in gaps), ring.lost)
        self.assertTrue(all(slots[at + 1]["kind"] == ring_file.BASELINE_BEGIN for at in gaps))

    def test_off_and_on(self):
        self.start("check=1")
        self.order("make 5")
        self.ring().switch(False)
        self.order("make 20")
        head = self.ring().head
        self.order("drop 3")
        sums = self.order("make 7")
        ring = self.ring()
        self.assertEqual(ring.head, head)  # nothing at all while off
        self.assertEqual(ring.slots[-1]["kind"], ring_file.OFF)
        self.assertEqual((ring.active_bytes, ring.cache_bytes), sums)
        ring.switch(True)
        sums = self.order("make 1")
        ring = self.ring()
        replay = ring_file.replay(ring)
        self.assertEqual((replay.active_bytes, replay.cache_bytes), sums)
        begin, = ring.of_kind(ring_file.BASELINE_BEGIN)[1:]
        self.assertEqual(begin["requested_bytes"], len(ring.of_kind(ring_file.BASELINE)))
        self.assertGreaterEqual(len(ring.of_kind(ring_file.BASELINE)), 29)
        self.assertEqual(ring.mismatches, 0)

    INIT = "_ZN3mlx4core5array9ArrayDesc4initEv"

    def calls_taken(self):
        """The functions of MLX whose calls, in MLX's own objects, go to the recorder."""
        library, pid = LIBRARY.resolve().name, self.process.pid
        return set(elf_slots.into(pid, library, "libmlx.so") + elf_slots.into(pid, library, "core.cpython"))

    def test_calls_that_tell_nothing_go_straight_to_mlx(self):
        self.start("check=1")
        self.order("add 100")  # nodes are understood by now
        recording = self.calls_taken()
        self.assertIn(self.INIT, recording)
        rest = recording - {self.INIT}
        self.assertTrue(rest and all("set_data" in name for name in rest), recording)
        self.ring().switch(False)
        self.order("make 1")
        self.assertEqual(self.calls_taken(), {self.INIT})
        self.ring().switch(True)
        sums = self.order("make 1")
        self.assertEqual(self.calls_taken(), recording)
        replay = ring_file.replay(self.ring())
        self.assertEqual((replay.active_bytes, replay.cache_bytes), sums)

    def test_not_asked_for_no_call_comes_here(self):
        self.start("", BULKHEAD_RECORD=None, BULKHEAD_RING_DIR=None)
        self.order("make 1")
        self.assertEqual(self.calls_taken(), set())

    def test_refused_no_call_comes_here(self):
        self.start("", BULKHEAD_RECORD="v2")
        self.order("make 1")
        self.assertEqual(self.calls_taken(), set())
        self.assertEqual(self.ring().state, ring_file.STATE_REFUSED)

    def test_switched_on_the_next_array_has_its_stack(self):
        """A node made while off keeps no stack of a node that lay there before; one made right after has its own."""
        self.start("check=1")
        self.order("add 100")
        self.ring().switch(False)
        self.order("drop 100")
        self.order("lazy 100")
        self.ring().switch(True)
        self.order("lazy 50")
        self.order("evaluate 0")
        ring = self.ring()
        begin = ring.of_kind(ring_file.BASELINE_BEGIN)[1]["ticket"]
        found = [slot for slot in ring.allocations() if slot["ticket"] > begin and slot["requested_bytes"] >= 9000 * 4]
        found.sort(key=lambda slot: slot["requested_bytes"])  # as they were made
        self.assertEqual([bool(slot["stack"]) for slot in found], [False] * 100 + [True] * 50)
        self.assertEqual({ring.stacks[slot["stack"]][0][1] for slot in found[100:]} - {"<listcomp>", "steered"}, set())


class Options(Recorded):
    def test_small_ones_are_counted_not_recorded(self):
        done = self.run_program("small_and_large", options="check=1;min=4096")
        self.assertEqual(done.returncode, 0, done.stderr)
        ring = self.ring()
        self.assertEqual(ring.mismatches, 0)
        events = [slot for slot in ring.slots if slot["kind"] <= ring_file.CACHE_TO_OS]
        self.assertTrue(events)
        self.assertTrue(all(slot["size_bytes"] >= 4096 for slot in events))
        self.assertGreaterEqual(ring.small_count, 3)
        self.assertGreaterEqual(ring.small_bytes, 120)

    def test_an_unknown_setting_is_refused_with_a_reason(self):
        environment = {**self.environment(), "BULKHEAD_RECORD": "v2;stacks=python"}
        done = subprocess.run([PYTHON, "-c", "import mlx.core as mx; print(mx.ones((2,)).sum().item())"],
                              env=environment, text=True, capture_output=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout), (0, "2.0\n"))
        ring = self.ring()
        self.assertEqual((ring.state, ring.slot_count), (ring_file.STATE_REFUSED, 0))
        self.assertIn("BULKHEAD_RECORD", ring.reason)

    def test_a_file_size_limit_is_no_death(self):
        """Growing a file beyond RLIMIT_FSIZE is answered with SIGXFSZ: the ring must not try."""
        done = self.run_program("small_and_large", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        ring = self.ring()
        self.assertEqual(ring.state, ring_file.STATE_REFUSED)
        self.assertIn("file size limit", ring.reason)

    def test_a_missing_folder_disturbs_nobody(self):
        environment = {**self.environment(), "BULKHEAD_RING_DIR": "/nonexistent/rings"}
        done = subprocess.run([PYTHON, "-c", "import mlx.core as mx; print(mx.ones((2,)).sum().item())"],
                              env=environment, text=True, capture_output=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "2.0\n", ""))


class Processes(Recorded):
    def test_fork_and_exec(self):
        done = self.run_program("forks")
        self.assertEqual(done.returncode, 0, done.stderr)
        parent, child, image = self.rings()
        self.assertEqual((parent.pid, parent.image), (image.pid, image.image - 1))
        self.assertEqual(child.parent_pid, parent.pid)
        self.assertTrue(child.flags & FLAG_CHILD)
        self.assertEqual(len(child.of_kind(ring_file.BASELINE)), len(parent.of_kind(ring_file.BASELINE)) + 2)
        for ring in (parent, child, image):
            self.assert_oracle(ring)
        inherited = child.of_kind(ring_file.BASELINE)
        self.assertTrue(any(child.stacks[slot["stack"]] for slot in inherited))  # ids hold in the copy
        self.assertTrue(all(child.stacks[slot["stack"]][0][1] in ("forks", "<listcomp>")
                            for slot in child.of_kind(ring_file.LINK) if slot["stack"]))

    def test_programs_without_mlx_leave_nothing(self):
        for command in (["/bin/sh", "-c", "ls / | grep -c bin; cat /etc/hostname >/dev/null"],
                        [PYTHON, "-c", "import json, ctypes; print(1)"], ["/usr/bin/env", "true"]):
            plain = subprocess.run(command, text=True, capture_output=True, timeout=DEADLINE_S)
            done = subprocess.run(command, env=self.environment(), text=True, capture_output=True, timeout=DEADLINE_S)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (plain.returncode, plain.stdout, plain.stderr))
        self.assertEqual(os.listdir(self.folder), [])

    def test_not_asked_for_means_untouched(self):
        environment = {**os.environ, "LD_PRELOAD": str(LIBRARY)}
        environment.pop("BULKHEAD_RECORD", None)
        done = subprocess.run([PYTHON, str(PROGRAMS), "add"], env=environment, text=True, capture_output=True,
                              timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


FAKE_MLX = r"""
// A library that calls itself libmlx and is not what the recorder knows.
#include <cstddef>
#include <cstdlib>
namespace mlx::core {
const char *version() { return VERSION; }
size_t get_active_memory() { return 0; }
size_t get_cache_memory() { return 0; }
void clear_cache() {}
void reset_peak_memory() {}
namespace allocator {
struct Buffer { void *pointer; };
struct CLASS {
    virtual Buffer malloc(size_t size) { return {std::malloc(size + 8)}; }
    virtual void free(Buffer buffer) { std::free(buffer.pointer); }
    virtual size_t size(Buffer) const { return SIZE; }
    virtual Buffer make_buffer(void *, size_t) { return {nullptr}; }
    virtual void release(Buffer) {}
    virtual ~CLASS() = default;
};
CLASS &allocator() { static CLASS one; return one; }
}
}
extern "C" int use() {
    auto &one = mlx::core::allocator::allocator();
    auto buffer = one.malloc(100);
    one.free(buffer);
    return buffer.pointer != nullptr;
}
"""


@unittest.skipUnless(shutil.which("g++"), "needs g++")
class Strangers(Recorded):
    """Something that is called libmlx but is not known: the program runs on, the ring says why not."""

    def refused(self, **defines):
        values = {"VERSION": '"0.32.4"', "CLASS": "Allocator", "SIZE": "100", **defines}
        build = tempfile.mkdtemp(prefix="bulkhead-fake-")
        self.addCleanup(shutil.rmtree, build)
        source = pathlib.Path(build, "fake.cpp")
        source.write_text(FAKE_MLX)
        subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", f"{build}/libmlx.so", str(source),
                        *(f"-D{name}={value}" for name, value in values.items())], check=True, timeout=DEADLINE_S)
        done = subprocess.run([PYTHON, "-c", f"import ctypes; print(ctypes.CDLL({build + '/libmlx.so'!r}).use())"],
                              env=self.environment(), text=True, capture_output=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1\n", ""))
        ring = self.ring()
        self.assertEqual((ring.state, ring.slot_count, ring.head), (ring_file.STATE_REFUSED, 0, 0))
        return ring.reason

    def test_unknown_version(self):
        self.assertIn("version", self.refused(VERSION='"0.99.0"'))

    def test_counters_that_do_not_follow(self):
        self.assertIn("counters", self.refused())

    def test_moved_size_slot(self):
        self.assertIn("counters", self.refused(SIZE="1u<<30"))


if __name__ == "__main__":
    unittest.main()
