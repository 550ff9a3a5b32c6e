"""What is around the supervisor breaks: full or vanishing storage, dead helpers, a paused supervisor, odd processes.
Enforcement goes on, and no job is stopped for it. core/super/supervision.md, section 8."""
import os
import pathlib
import resource
import signal
import subprocess
import time
import unittest

import bulkhead_fixture as fixture
from supervised import GIB, MIB, SUPERVISE, TEMP, HostileTest, kernel_ring, load_program, processes_of, run

GROW = ("load", "grow", "anon", 128 * MIB, 512 * MIB, "plain")


def helpers(job) -> list:
    """The scribe, its standby and the others: same executable, same run directory, not the decider."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != job.process.pid:
            try:
                if os.readlink(f"/proc/{entry}/exe") == str(SUPERVISE.resolve()) and \
                        str(job.run_dir).encode() in pathlib.Path("/proc", entry, "cmdline").read_bytes():
                    found.append(int(entry))
            except OSError:
                pass
    return found


class Storage(HostileTest):
    """In a mount namespace of its own, so that a file system can be full."""

    def in_small_room(self, command: str, size="3m"):
        """Runs the shell words with ROOM on a small file system; skips without the right to mount."""
        room = pathlib.Path(self.enterContext(fixture.tempfile.TemporaryDirectory(dir=TEMP)))
        done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size={size},mode=700 tmpfs {room} || exit 99\n"
                               f"export ROOM={room}\n{command}"], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        if done.returncode == 99 or "unshare" in done.stderr:
            self.skipTest("no mounts here: " + done.stderr)
        return done

    def test_full_run_directory(self):
        done = self.in_small_room(
            f"{SUPERVISE} run --limit 48MiB --run-dir $ROOM/run -- sh -c 'dd if=/dev/zero of=$ROOM/fill bs=64k 2>/dev/null; "
            f"exec {load_program()} grow anon {128 * MIB} {512 * MIB} plain'; code=$?; rm -f $ROOM/fill; exit $code")
        self.assertEqual(done.returncode, 74, done.stderr)
        self.assertIn("limit", done.stderr)

    def test_full_runtime_folder(self):
        """The queue's pages are there before the job is: a full tmpfs cannot take the decider down."""
        done = self.in_small_room(
            # above what fills the room: in a control group of the job's own that is charged to it
            f"XDG_RUNTIME_DIR=$ROOM {SUPERVISE} run --limit 128MiB -- sh -c "
            f"'dd if=/dev/zero of=$ROOM/fill bs=4k >/dev/null 2>&1; exec {load_program()} grow anon {128 * MIB} {512 * MIB} plain'", size="64m")
        self.assertEqual(done.returncode, 74, done.stderr)  # the temporary run directory lies there as well
        self.assertIn("policy_intervention", done.stderr)

    def test_runtime_folder_too_small_to_begin_with(self):
        done = self.in_small_room(f"XDG_RUNTIME_DIR=$ROOM {SUPERVISE} run --limit 48MiB -- sh -c 'exit 3'", size="64k")
        self.assertIn(done.returncode, (3, 70, 74), done.stderr)

    def test_run_directory_deleted_under_us(self):
        job = self.job("sh", "-c", f"rm -rf $0; exec {load_program()} grow anon {128 * MIB} {512 * MIB} plain",
                       pathlib.Path(TEMP, f"run-{type(self).count() + 1}", "run"), limit=48 * MIB)
        self.assertIn(job.wait(), (74, 75))
        self.assertIn(b"limit", job.errors)

    @staticmethod
    def count():
        from supervised import Job
        return Job.count


class RuntimeFolder(HostileTest):
    """Its name is known to everybody, and somebody may have been there first."""

    def setUp(self):
        if not os.path.isdir("/dev/shm"):
            self.skipTest("no tmpfs")
        self.runtime = pathlib.Path(self.enterContext(fixture.tempfile.TemporaryDirectory(dir="/dev/shm")))

    def on_disk(self, **named):
        """It is in the run directory instead, and the report says so."""
        job = run("sh", "-c", "exit 6", limit=GIB, env={**os.environ, "XDG_RUNTIME_DIR": str(self.runtime)}, **named)
        self.assertEqual(job.process.returncode, 6, job.errors)
        self.assertTrue(job.report["host"]["runtime_on_disk"])

    def test_somebodys_link(self):
        elsewhere = self.runtime / "elsewhere"
        elsewhere.mkdir()
        (self.runtime / "bulkhead").symlink_to(elsewhere)
        self.on_disk()
        self.assertEqual(list(elsewhere.iterdir()), [])

    def test_a_folder_in_which_others_may_write(self):
        (self.runtime / "bulkhead").mkdir()
        (self.runtime / "bulkhead").chmod(0o777)
        self.on_disk()
        self.assertEqual(list((self.runtime / "bulkhead").iterdir()), [])

    def test_a_folder_of_somebody_else(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give it away")
        (self.runtime / "bulkhead").mkdir(mode=0o700)
        os.chown(self.runtime / "bulkhead", 65534, 65534)
        self.on_disk()
        self.assertEqual(list((self.runtime / "bulkhead").iterdir()), [])

    def test_no_safe_place_for_a_run_directory(self):
        """Without --run-dir and with both places taken: refused, nothing is launched."""
        (self.runtime / "bulkhead").symlink_to(self.runtime)
        taken = f"/tmp/bulkhead-{os.geteuid()}"
        pathlib.Path(taken).mkdir(mode=0o700, exist_ok=True)
        done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o mode=777 tmpfs {taken} && "
                               f"exec {SUPERVISE} run --limit 1GiB -- echo launched"], capture_output=True, text=True,
                              env={**os.environ, "XDG_RUNTIME_DIR": str(self.runtime)}, stdin=subprocess.DEVNULL)
        if "unshare: " in done.stderr or "mount: " in done.stderr or "not found" in done.stderr:
            self.skipTest("no mounts here: " + done.stderr)
        self.assertEqual((done.returncode, done.stdout), (70, ""), done.stderr)
        self.assertIn("--run-dir", done.stderr)


class Helpers(HostileTest):
    def test_killed_scribe_is_replaced(self):
        job = self.job(*GROW[:3], 24 * MIB, *GROW[4:], limit=96 * MIB)
        fixture.wait_until(lambda: len(helpers(job)) >= 2, "the scribe and its standby are there")
        for pid in helpers(job)[:1]:
            os.kill(pid, signal.SIGKILL)
        code = job.wait()
        self.assertEqual(code, 75, job.errors)
        self.assertEqual(job.outcome["cause"], "limit_exceeded")
        self.assertEqual(job.outcome["emptiness"], "proven")

    def test_each_helper_killed_at_its_turn(self):
        first = self.job("load", "hold", "anon", 0, limit=GIB).wait_ready()
        count = 4  # scribe, the one that gives back memory, and a standby for each
        fixture.wait_until(lambda: len(helpers(first)) == count, "all of them are there")
        first.finish()
        for victim in range(count):
            job = self.job("load", "hold", "anon", 0, limit=GIB).wait_ready()
            there = fixture.wait_until(lambda: len(found := helpers(job)) == count and found, "all of them are there")
            os.kill(sorted(there)[victim], signal.SIGKILL)
            fixture.wait_until(lambda: len(helpers(job)) == count, "a new one took its place")
            time.sleep(0.2)
            self.assertEqual(job.finish(), 0, job.errors)
            self.assertEqual(job.outcome["kind"], "child_exited")

    def test_all_helpers_killed(self):
        """Nobody writes any more: the limit holds all the same, and the exit says that the report is lost."""
        job = self.job("load", "grow", "anon", 32 * MIB, 512 * MIB, "plain", limit=96 * MIB)
        fixture.wait_until(lambda: len(helpers(job)) >= 2, "helpers")
        while left := helpers(job):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.assertIn(job.wait(), (74, 75), job.errors)
        self.assertEqual(job.leftovers(), [])

    def test_stopped_helpers_hold_nothing_up(self):
        """Whoever may touch a disk stands still, as if all disks did; the limit is crossed meanwhile."""
        job = self.job("load", "grow", "anon", 64 * MIB, 512 * MIB, "plain", limit=96 * MIB)
        stopped = fixture.wait_until(lambda: len(found := helpers(job)) >= 4 and found, "all helpers are there", pause_s=0.005)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            fixture.wait_until(lambda: not job.leftovers(), "the job is stopped all the same", 20)
            self.assertIsNone(job.process.poll(), "the report is waited for")
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        self.assertEqual(job.wait(), 75, job.errors)
        self.assertLess(job.peak, 512 * MIB)
        self.assertEqual(job.report["signals"][0]["reason"], "not_negotiated")
        self.assertEqual(job.report["supervisor"]["lost_records"], 0)

    def test_checkpoint_on_a_disk_that_does_not_answer(self):
        """The file is looked at by a helper: the decider's deadline passes, and the job is not even told."""
        program = ("trap 'echo told' USR1; echo ready; read go; x=$(head -c 30000000 /dev/zero | tr '\\0' x); "
                   "while :; do sleep 0.05; done")
        job = self.job("sh", "-c", program, limit=24 * MIB, options=(
            "--checkpoint-signal", "SIGUSR1", "--checkpoint-path", "model.npz", "--checkpoint-timeout", "300ms",
            "--emergency", "2GiB")).wait_ready()
        stopped = fixture.wait_until(lambda: len(found := helpers(job)) >= 6 and found, "the helper that looks is there")
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        job.process.stdin.write(b"go\n")
        job.process.stdin.flush()
        root = job.root_pid()
        fixture.wait_until(lambda: not os.path.exists(f"/proc/{root}"), "it was stopped", 20)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(job.wait(), 75, job.errors)
        self.assertEqual(job.report["signals"][0]["reason"], "checkpoint_timed_out", job.report["signals"])
        self.assertEqual(job.report["checkpoint"]["status"], "timed_out")
        self.assertNotIn(b"told", job.output)

    def test_helpers_hold_nothing_of_the_caller(self):
        """The scribe lives on for ten seconds after the end: a pipe that it held would look open that long."""
        read, write = os.pipe()
        os.set_inheritable(write, True)
        pipe = os.readlink(f"/proc/self/fd/{write}")
        job = self.job("load", "hold", "anon", 0, limit=GIB, close_fds=False).wait_ready()
        os.close(write)
        for pid in fixture.wait_until(lambda: len(found := helpers(job)) >= 4 and found, "helpers"):
            held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            self.assertNotIn(pipe, held)
        self.assertEqual(job.finish(), 0)
        self.assertEqual(os.read(read, 1), b"", "the end of the pipe is seen when the supervisor is gone")
        os.close(read)

    def test_paused_supervisor(self):
        """A closed lid: two seconds without a reading are no reason to stop anything."""
        job = self.job("load", "hold", "anon", 8 * MIB, limit=GIB, options=("--wall-time", "20s")).wait_ready()
        time.sleep(0.2)
        job.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        job.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        self.assert_untouched(job, job.finish())
        self.assertGreater(job.report["supervisor"]["clock_gap_ms"], 500)


def groups_of(run_id: str) -> list:
    """Control groups that a run made, anywhere."""
    found = subprocess.run(["find", "/sys/fs/cgroup", "-type", "d", "-name", f"*{run_id}*"], capture_output=True, text=True)
    return found.stdout.split()


class Residue(HostileTest):
    """What a run leaves outside of its run directory once its last reading was taken: nothing."""

    def setUp(self):
        if not os.path.isdir("/dev/shm"):
            self.skipTest("no tmpfs")
        self.runtime = self.enterContext(fixture.tempfile.TemporaryDirectory(dir="/dev/shm"))
        self.env = {**os.environ, "XDG_RUNTIME_DIR": self.runtime}

    def left(self) -> list:
        base = pathlib.Path(self.runtime, "bulkhead")
        return list(base.iterdir()) if base.exists() else []

    def test_normal_run(self):
        job = self.job("load", "grow", "anon", 0, 128 * MIB, "plain", limit=32 * MIB, env=self.env)
        self.assert_stopped(job, job.wait())
        fixture.wait_until(lambda: not self.left(), "the runtime folder is given back", 30)
        self.assertEqual(groups_of(job.report["run"]["run_id"]), [])

    def test_run_without_a_directory(self):
        done = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--quiet", "--", "true"], env=self.env,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0)
        fixture.wait_until(lambda: not self.left(), "nothing temporary is left", 30)

    def test_failed_launch(self):
        done = subprocess.run([SUPERVISE, "run", "--limit", "1GiB", "--", "/no/such/program"], env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(done.returncode, 127)
        fixture.wait_until(lambda: not self.left(), "nothing temporary is left", 30)

    def test_lost_supervisor(self):
        job = self.job("load", "hold", "anon", MIB, limit=GIB, env=self.env).wait_ready()
        job.process.kill()
        job.process.wait()
        path = job.run_dir / "report.json"
        fixture.wait_until(path.exists, "the report is written")
        fixture.wait_until(lambda: not groups_of(fixture.load_json(path)["run"]["run_id"]), "its group is gone", 30)
        fixture.wait_until(lambda: not self.left(), "the runtime folder is given back", 30)


THREADS = """
import threading, time
threading.stack_size(65536)
stop = threading.Event()
threads = [threading.Thread(target=stop.wait, daemon=True) for _ in range({count})]
[t.start() for t in threads]
time.sleep({seconds})
stop.set()
print(len(threads))
"""


class Odd(HostileTest):
    def test_more_threads_than_fit_one_listing(self):
        job = run(fixture.PYTHON, "-S", "-c", THREADS.format(count=1500, seconds=2), limit=GIB)
        self.assert_untouched(job, job.process.returncode)
        self.assertEqual(job.output, b"1500\n")

    def test_more_children_than_fit_one_page(self):
        """The kernel gives the list of 900 children in two pieces."""
        job = self.job("load", "workers", MIB, 900, "idle", limit=GIB)
        job.wait_ready()
        fixture.wait_until(lambda: job.members() >= 901, "all of them are watched")
        self.assert_untouched(job, job.finish())
        self.assertGreaterEqual(job.report["escape"]["members_seen"], 901)

    def test_a_pool_of_two_thousand(self):
        job = self.job("load", "workers", MIB, 2000, "idle", limit=8 * GIB)
        job.wait_ready()
        fixture.wait_until(lambda: job.members() >= 2001, "all of them are watched")
        self.assert_untouched(job, job.finish())
        self.assertGreaterEqual(job.report["escape"]["members_seen"], 2001)

    def test_more_processes_than_the_table_holds(self):
        """Not everybody can be watched: that is said and acted on, never taken for a small job. A group's own sum has all."""
        job = self.job("load", "workers", MIB, 6000, "idle", limit=8 * GIB)
        if kernel_ring():
            job.wait_ready()
            time.sleep(1.5)
            self.assert_untouched(job, job.finish())
            self.assertLessEqual(max(s["members"] for s in job.report["samples"]), 4096)
            self.assertEqual(job.report["supervisor"]["incomplete_samples"], 0)
            return
        job.wait()
        self.assertEqual(job.process.returncode, 70)
        self.assertEqual(job.outcome["cause"], "observation_failed")
        # what runs out first: descriptors (a member needs up to 8), or the table
        table = resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 8 * 4200
        self.assertEqual(job.outcome["error"], "too_many_processes" if table else "no_space")
        self.assertIn("more than 4096 processes" if table else "not enough descriptors", job.outcome["sentence"])
        self.assertEqual(job.leftovers(), [])

    def test_process_namespace(self):
        """Its first process adopts the orphans inside: all of them are ours all the same."""
        done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True)
        if done.returncode:
            self.skipTest("no process namespace here")
        job = self.job("unshare", "--pid", "--fork", "--mount-proc", load_program(), "grow", "anon", 128 * MIB, 512 * MIB,
                       "double", limit=48 * MIB)
        self.assert_stopped(job, job.wait())

    def test_sudden_page_tables(self):
        """What the quick reading does not hold is read once a second at least."""
        job = run("load", "grow", "tables", 0, 512 * MIB, "plain", limit=48 * MIB)
        self.assert_stopped(job, job.process.returncode)

    def test_hidden_copies_in_forked_workers(self):
        """Copy on write is invisible to the quick reading: minor faults bound it."""
        job = run("load", "workers", 128 * MIB, 6, "write", limit=256 * MIB, options=("--emergency", "4GiB"))
        self.assert_stopped(job, job.process.returncode, ("limit_exceeded",))
        # how far over depends on how busy the machine is; missed, it would be 640 MiB
        self.assertLess(job.report["peaks"]["decision_overshoot_bytes"]["value"], 512 * MIB)

    def test_smallest_limit(self):
        job = run("load", "hold", "anon", MIB, limit=2)
        self.assertEqual(job.process.returncode, 75, job.errors)

    def test_supervisor_inside_a_supervisor(self):
        """The inner limit stops the inner job and the outer one is untouched; the outer limit stops both."""
        grow = [load_program(), "grow", "anon", 256 * MIB, 512 * MIB, "double"]
        job = run(SUPERVISE, "run", "--limit", "48MiB", "--", *grow, limit=GIB)
        self.assert_untouched(job, job.process.returncode, 75)
        job = run(SUPERVISE, "run", "--limit", "2GiB", "--", *grow, limit=64 * MIB)
        self.assert_stopped(job, job.process.returncode)
        self.assertEqual(processes_of(load_program()), [])

    def test_own_reaper_inside(self):
        program = ("import ctypes, os, time\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
                   "if os.fork() == 0:\n"
                   "    if os.fork() == 0:\n"
                   "        os.setsid(); x = bytearray(b'x') * (128 << 20); time.sleep(30)\n"
                   "    os._exit(0)\n"
                   "time.sleep(30)\n")
        job = run(fixture.PYTHON, "-S", "-c", program, limit=64 * MIB)
        self.assert_stopped(job, job.process.returncode)
        self.assertTrue(job.report["escape"]["detected"])


if __name__ == "__main__":
    unittest.main()
