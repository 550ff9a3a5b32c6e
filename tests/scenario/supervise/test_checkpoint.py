"""Cooperative checkpoints: a worker written for the published protocol, and a signal with a file."""
import json
import os
import pathlib
import struct
import tempfile
import unittest

from supervise_support import (CHECKPOINT, ERROR, KILL, PYTHON, STOP, TAG_CHECKPOINT, TAG_ERROR, program, run, u64,
                               wait_until)
from test_start import Started, report

WORKER = str(pathlib.Path(__file__).with_name("published_worker.py"))


def worker(answer, hold=400):
    return [PYTHON, WORKER, answer, str(hold)]


class Protocol(unittest.TestCase):
    def run_worker(self, answer, *more):
        return run("--limit", "150MiB", "--emergency", "10GiB", "--checkpoint-timeout", "500ms", *more,
                   command=worker(answer))

    def test_acknowledged_then_term(self):
        done = self.run_worker("completed")
        self.assertEqual((done.code, done.outcome["cause"]), (75, "limit_exceeded"), done.err)
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_acknowledged")
        self.assertEqual(done.report["checkpoint"]["status"], "acknowledged_unverified_durability")
        self.assertEqual(done.report["checkpoint"]["reason"], "footprint")
        self.assertEqual(done.report["checkpoint"]["artifact_bytes"]["value"], 4096)
        self.assertTrue(done.report["capabilities"]["checkpoint_channel"])

    def test_under_a_shell_the_signal_goes_to_the_worker(self):
        line = " ".join(f"'{word}'" for word in worker("completed"))
        done = run("--limit", "150MiB", "--emergency", "10GiB", "--checkpoint-timeout", "500ms",
                   command=["sh", "-c", line + "; exit $?"])
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_acknowledged", done.err)

    def test_failed_and_cancelled(self):
        for answer in ("failed", "cancelled"):
            with self.subTest(answer=answer):
                done = self.run_worker(answer)
                self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_failed")
                self.assertEqual(done.report["checkpoint"]["status"], answer)

    def test_no_answer_in_time(self):
        done = self.run_worker("silent")
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_timed_out")
        self.assertEqual(done.report["checkpoint"]["status"], "timed_out")

    def test_wrong_answers_are_counted_and_change_nothing(self):
        done = self.run_worker("confused")
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_acknowledged")
        self.assertGreaterEqual(done.report["checkpoint"]["rejected"], 2)

    def test_acknowledged_too_late(self):
        """A claim after the deadline stops nothing and changes no word; it is counted."""
        done = self.run_worker("late", "--grace", "20s")
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_timed_out")
        self.assertEqual(done.report["checkpoint"]["status"], "timed_out")
        self.assertEqual(done.report["checkpoint"]["rejected"], 1)
        self.assertEqual(done.outcome["child_status"]["exit_code"], 5)

    def test_acknowledgement_of_another_request(self):
        done = self.run_worker("other")
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_timed_out")
        self.assertEqual(done.report["checkpoint"]["status"], "timed_out")
        self.assertEqual(done.report["checkpoint"]["rejected"], 1)

    def test_acknowledgement_before_any_request(self):
        done = self.run_worker("unasked")
        self.assertEqual(done.report["signals"][0]["reason"], "checkpoint_acknowledged")
        self.assertEqual(done.report["checkpoint"]["rejected"], 1)

    def test_worker_that_closed_its_end(self):
        """The signal would find the default action again, or nobody who reads: it is not sent."""
        for answer in ("closes", "babbles"):
            with self.subTest(answer=answer):
                done = self.run_worker(answer)
                self.assertEqual(done.report["signals"][0]["reason"], "not_negotiated", done.err)
                self.assertEqual(done.report["checkpoint"]["events"], [])
                self.assertNotIn("request", done.out)
                self.assertTrue(done.report["capabilities"]["checkpoint_channel"], "it was negotiated once")

    def test_not_negotiated(self):
        for answer in ("never-ready", "wrong-nonce-ready"):
            with self.subTest(answer=answer):
                limit = "100MiB"
                source = [PYTHON, "-c", "b=[]\nimport time\nfor i in range(300): b.append(bytearray(1<<20)); time.sleep(.002)"]
                command = source if answer == "never-ready" else worker(answer)
                done = run("--limit", limit, "--emergency", "10GiB", "--checkpoint-timeout", "30s", command=command)
                self.assertEqual(done.report["signals"][0]["reason"], "not_negotiated")
                self.assertFalse(done.report["capabilities"]["checkpoint_channel"])

    def test_on_demand_is_reserved_for_a_published_worker(self):
        with Started(self, "--limit", "1GiB", "--checkpoint-timeout", "30s", command=worker("completed", 1)) as job:
            wait_until(lambda: "ready" in pathlib.Path(job.directory, "out.log").read_text(), "the worker is ready")
            wait_until(lambda: job.control.ask(CHECKPOINT).get(TAG_ERROR) == -67, "the request is refused as reserved")
            job.control.ask(STOP, u64(TAG_CHECKPOINT, 1))
            done = report(job.directory)
            self.assertEqual(done["signals"][0]["reason"], "checkpoint_acknowledged")
            self.assertEqual(done["checkpoint"]["reason"], "requested")


SAVER = """
import os, signal, struct, sys, time
path, how = sys.argv[1], sys.argv[2]
def save(*_):
    header = b'{"t":{"dtype":"U8","shape":[64],"data_offsets":[0,64]}}'
    data = struct.pack('<Q', len(header)) + header + bytes(64)
    if how == 'short': data = data[:-10]
    with open(path, 'wb') as file:
        if how == 'slow':
            for byte in data:
                file.write(bytes([byte])); file.flush()
                time.sleep(0.004)
        else:
            file.write(data)
if how != 'deaf': signal.signal(signal.SIGUSR1, save)
print('ready', flush=True)
while True: time.sleep(1000)
"""


class BySignal(unittest.TestCase):
    def stop_after_saving(self, how, name="model.safetensors", timeout="3s"):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, name)
            pathlib.Path(path).write_bytes(b"what was there before")
            with Started(self, "--limit", "1GiB", "--checkpoint-signal", "SIGUSR1", "--checkpoint-path", path,
                         "--checkpoint-timeout", timeout, command=[PYTHON, "-c", SAVER, path, how]) as job:
                wait_until(lambda: "ready" in pathlib.Path(job.directory, "out.log").read_text(), "the handler is there")
                job.control.ask(STOP, u64(TAG_CHECKPOINT, 1))
                return report(job.directory)

    def test_verified_file(self):
        done = self.stop_after_saving("whole")
        self.assertEqual(done["checkpoint"]["status"], "verified_file")
        self.assertEqual(done["signals"][0]["reason"], "checkpoint_acknowledged")

    def test_slowly_written_file_is_waited_for(self):
        done = self.stop_after_saving("slow")
        self.assertEqual(done["checkpoint"]["status"], "verified_file")

    def test_short_file_is_not_verified(self):
        done = self.stop_after_saving("short", timeout="1s")
        self.assertEqual(done["checkpoint"]["status"], "timed_out")
        self.assertEqual(done["signals"][0]["reason"], "checkpoint_timed_out")

    def test_a_job_that_does_not_catch_the_signal_is_not_killed_by_it(self):
        done = self.stop_after_saving("deaf")
        self.assertEqual(done["signals"][0]["reason"], "checkpoint_failed")
        self.assertEqual(done["outcome"]["signal"], "SIGTERM")

    def test_on_demand_while_it_runs(self):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "model.safetensors")
            with Started(self, "--limit", "1GiB", "--checkpoint-signal", "SIGUSR1", "--checkpoint-path", path,
                         "--checkpoint-timeout", "5s", command=[PYTHON, "-c", SAVER, path, "whole"]) as job:
                wait_until(lambda: "ready" in pathlib.Path(job.directory, "out.log").read_text(), "the handler is there")
                for _ in range(2):
                    wait_until(lambda: job.control.ask(CHECKPOINT).kind == CHECKPOINT, "a checkpoint is asked for")
                job.control.ask(KILL)
                done = report(job.directory)
                self.assertEqual(done["checkpoint"]["status"] in ("verified_file", "cancelled",
                                                                "requested_unverified"), True, done["checkpoint"])
                self.assertTrue(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
