"""bulkhead-tool on run directories: on event logs written by a second implementation of the format
(tests/helpers/evlog_format.py), against plain models, and on real runs of bulkhead-supervise."""
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/helpers"))

import evlog_format  # noqa: E402
import memviz_decode  # noqa: E402

BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", ROOT / "build/release/bin"))
RUN_ID = "0mhq2v9k3dx7c1p5n8tb"
BOOT_NS, EPOCH_US = 5_000_000_000, 1796002200000000


def tool(*arguments, status=0):
    done = subprocess.run([str(BIN / "bulkhead-tool"), *map(str, arguments)], capture_output=True, timeout=60)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    if status:
        assert done.stderr.startswith(b"bulkhead-tool: ") and done.stderr.count(b"\n") == 1, done.stderr
        return done.stderr.decode()
    return done.stdout


def load(path):
    return memviz_decode.decode(pathlib.Path(path).read_bytes())


class History:
    """A random allocator whose records go into segments, and what must be true of it."""

    def __init__(self, seed, events):
        self.random = random.Random(seed)
        self.records = [{"kind": "String", "id": i + 1, "text": text} for i, text in enumerate(
            ["Full", "Matmul", "RandomBits", "/home/ada/größe.py", "keep", "<module>", "epoch 2"])]
        self.records += [{"kind": "Frame", "id": i + 1, "file": 4, "function": 5 + i % 2, "line": 10 + i}
                         for i in range(6)]
        self.records += [{"kind": "Stack", "id": i + 1, "frames": [i + 1, (i + 1) % 6 + 1]} for i in range(6)]
        self.ns, self.seq, self.links, self.moments = BOOT_NS, 0, [], []
        self.images, self.served, self.own = {}, [], {1: [], 2: []}
        for image in (1, 2):
            self.records.append({"kind": "Image", "image": image, "ns": self.ns, "pid": 4000 + image, "token": 9,
                                 "number": image - 1})
            self.images[image] = {}
        for _ in range(events):
            self.step()
        for link in self.links:
            self.link(link)

    def step(self):
        self.ns += self.random.choice((0, 400, 1500))
        self.seq += 1
        if self.random.random() < 0.002:
            self.records.append({"kind": "Mark", "seq": self.seq, "ns": self.ns, "label": 7})
            self.note({"action": "Mark", "label": "epoch 2", "pid": None, "image": None})
            return
        image = self.random.choice((1, 2))
        buffers = self.images[image]
        slot = self.random.randrange(40)
        state, size, stack, primitive = buffers.get(slot, (None, 0, 0, 0))
        event = {"seq": self.seq, "ns": self.ns, "image": image, "addr": 0x55AA00000000 + slot * 4096, "thread": 7}
        if state is None or (state == "cached" and self.random.random() < 0.7):
            kind = "AllocReuse" if state else self.random.choice(("AllocNew", "AllocNew", "AllocMakeBuffer"))
            size = size if state else self.random.randrange(1, 1 << 22)
            requested = self.random.randrange(1, size + 1)
            linked = self.random.random() < 0.9
            stack, primitive = (self.random.randrange(1, 7), self.random.randrange(1, 4)) if linked else (0, 0)
            if linked:
                self.links.append((self.seq, image, stack, primitive))
            buffers[slot] = ("active", size, stack, primitive)
            self.records.append({"kind": kind, **event, "size": size, "requested": requested})
            stream = 0 if linked else -1
        else:
            kind = "FreeCacheToOS" if state == "cached" else self.random.choice(
                ("FreeActiveToCache", "FreeActiveToCache", "FreeActiveToOS", "Release"))
            requested, stream = size, 0 if stack else -1
            buffers[slot] = ("cached", size, stack, primitive)
            if kind != "FreeActiveToCache":
                del buffers[slot]
            self.records.append({"kind": kind, **event, "size": size, "stack": stack, "primitive": primitive,
                                 "stream": stream})
        self.own[image].append((kind, sum(size for state, size, _, _ in buffers.values() if state == "active"),
                                sum(size for _, size, _, _ in buffers.values())))
        self.note({"action": kind, "addr": event["addr"], "size": size, "requested_size": requested, "stream": stream,
                   "stack": stack, "primitive": primitive, "pid": 4000 + image, "image": image - 1})
        while self.links and self.random.random() < 0.5:
            self.link(self.links.pop(self.random.randrange(len(self.links))))

    def link(self, link):
        self.records.append({"kind": "Link", "seq": link[0], "image": link[1], "stack": link[2], "primitive": link[3],
                             "stream": 0})

    def note(self, entry):
        at_us = EPOCH_US + (self.ns - BOOT_NS) // 1000
        self.served.append({"seq": self.seq, "at_us": at_us, **entry})
        held = [(state, size) for buffers in self.images.values() for state, size, _, _ in buffers.values()]
        self.moments.append((at_us, sum(size for state, size in held if state == "active"),
                             sum(size for _, size in held)))

    def write(self, directory):
        cuts, at = [], 0
        while at < len(self.records):
            step = self.random.randrange(1, 900)
            cuts.append(self.records[at:at + step])
            at += step
        data = evlog_format.write(RUN_ID, BOOT_NS, EPOCH_US, cuts)
        pathlib.Path(directory, "events.bhe").write_bytes(data)
        return data

    def traceback(self, stack):
        if not stack:
            return None
        frames = [stack, stack % 6 + 1]
        return [["/home/ada/größe.py", "keep" if (frame - 1) % 2 == 0 else "<module>", 9 + frame]
                for frame in reversed(frames)]

    def primitive(self, number):
        return [None, "Full", "Matmul", "RandomBits"][number]


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.run_dir = cls.place.name
        cls.history = History(5, 6000)
        cls.data = cls.history.write(cls.run_dir)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_events_are_what_was_written(self):
        lines = tool("events", "export", self.run_dir).splitlines()
        self.assertEqual(len(lines), len(self.history.served))
        for line, wanted in zip(lines, self.history.served):
            got = json.loads(line)
            self.assertEqual(got["seq"], wanted["seq"])
            self.assertEqual(got["timestamp_us"], wanted["at_us"])
            self.assertEqual(got["elapsed_us"], wanted["at_us"] - EPOCH_US)
            self.assertEqual(got["action"], wanted["action"])
            self.assertEqual((got["pid"], got["image"]), (wanted["pid"], wanted["image"]))
            if wanted["action"] == "Mark":
                self.assertEqual(got["label"], wanted["label"])
                continue
            self.assertEqual((got["addr"], got["size"], got["stream"]),
                             (wanted["addr"], wanted["size"], wanted["stream"]))
            self.assertEqual(got["primitive_name"], self.history.primitive(wanted["primitive"]))
            self.assertEqual(got["traceback"], self.history.traceback(wanted["stack"]))

    def test_pages_of_events_join_without_a_seam(self):
        whole = tool("events", "export", "--format=json", self.run_dir)
        events, start = [], 1
        while start:
            page = json.loads(tool("events", "export", "--format", "json", "--from", start, "--limit", 777,
                                   self.run_dir))
            events += page["events"]
            start = page["next_from"]
        self.assertEqual(json.loads(whole), {"events": events, "next_from": None})

    def test_pickle_replays_to_the_model(self):
        with tempfile.NamedTemporaryFile() as out:
            tool("pickle", "-o", out.name, self.run_dir)
            value = load(out.name)
            self.assertEqual(value, pickle.loads(pathlib.Path(out.name).read_bytes()))
        memviz_decode.check(value)
        for device, image in enumerate((1, 2)):
            final = {s["address"]: (s["total_size"], s["active_size"] > 0)
                     for s in value["segments"] if s["device"] == device}
            model = {0x55AA00000000 + slot * 4096: (size, state == "active")
                     for slot, (state, size, _, _) in self.history.images[image].items()}
            self.assertEqual(final, model)
        self.assertEqual([t["pid"] for t in value["bulkhead"]["traces"]], [4001, 4002])
        self.assertTrue(any(a["name"] == "epoch 2" for a in value["external_annotations"]))

    def test_pickle_equals_the_counters_at_every_moment(self):
        entries = {"AllocNew": 2, "AllocMakeBuffer": 2, "AllocReuse": 1, "FreeActiveToCache": 2, "FreeActiveToOS": 3,
                   "Release": 3, "FreeCacheToOS": 1}
        with tempfile.NamedTemporaryFile() as out:
            tool("pickle", "-o", out.name, self.run_dir)
            value = load(out.name)
        for device, image in enumerate((1, 2)):
            moments = memviz_decode.forwards(value["device_traces"][device], {})
            for kind, active, reserved in self.history.own[image]:
                for _ in range(entries[kind]):
                    _, now_active, now_reserved = next(moments)
                self.assertEqual((now_active, now_reserved), (active, reserved))
            self.assertEqual([entry["action"] for entry, _, _ in moments], ["snapshot"])

    def test_windows_of_a_pickle(self):
        for _ in range(6):
            start, end = sorted(self.history.random.choice(self.history.moments)[0] for _ in range(2))
            with tempfile.NamedTemporaryFile() as out:
                tool("pickle", "-o", out.name, "--from-us", start, "--to-us", end, self.run_dir)
                value = load(out.name)
            memviz_decode.check(value)
            inside = [m for m in self.history.moments if start <= m[0] < end]
            before = [m for m in self.history.moments if m[0] < end]
            self.assertEqual(value["bulkhead"]["events"], len(inside))
            active = sum(s["active_size"] for s in value["segments"])
            self.assertEqual(active, before[-1][1] if before else 0)
            for trace in value["device_traces"]:
                self.assertTrue(all(start <= e["time_us"] < end for e in trace[:-1]))

    def test_last_entries(self):
        with tempfile.NamedTemporaryFile() as out:
            tool("pickle", "-o", out.name, "--max-entries", 100, self.run_dir)
            value = load(out.name)
        memviz_decode.check(value)
        self.assertEqual(value["bulkhead"]["events"], 100)
        self.assertEqual(value["bulkhead"]["last_seq"], len(self.history.served))

    def test_live_sums_equal_active(self):
        for index in (0, 17, 2000, 5999):
            at_us = self.history.moments[index][0]
            model = [m for m in self.history.moments if m[0] <= at_us][-1]
            for group in ("stack", "primitive"):
                live = json.loads(tool("live", "--at", at_us, "--group", group, "--top", 3, "--format", "json",
                                       self.run_dir))
                self.assertEqual(live["total_bytes"], model[1])
                self.assertEqual(sum(g["bytes"] for g in live["groups"]) + live["other"]["bytes"], model[1])
        peak = max(m[1] for m in self.history.moments)
        self.assertEqual(json.loads(tool("live", "--at=peak", "--format=json", self.run_dir))["total_bytes"], peak)
        collapsed = tool("live", "--at", "peak", "--format", "collapsed", self.run_dir).decode().splitlines()
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in collapsed), peak)
        self.assertIn(b"At the peak", tool("live", "--at", "peak", self.run_dir))

    def test_timeline_is_exact(self):
        answer = json.loads(tool("timeline", "--points", 50, self.run_dir))
        times = answer["t_us"] + [answer["to_us"] + 1]
        for name, column in (("active", 1), ("reserved", 2)):
            for i in range(len(times) - 1):
                inside = [m[column] for m in self.history.moments if times[i] <= m[0] < times[i + 1]]
                carried = [m[column] for m in self.history.moments if m[0] < times[i]][-1:]
                values = inside + (carried if i or carried else [0])
                if i == 0:
                    values.append(0)  # the images are there before their first event
                self.assertEqual(answer[name + "_min"][i], min(values), (name, i))
                self.assertEqual(answer[name + "_max"][i], max(values), (name, i))

    def test_chrome_trace_is_plain_json(self):
        trace = json.loads(tool("trace", "--points", 20, self.run_dir))
        counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
        self.assertEqual({e["name"] for e in counters}, {"active", "reserved"})
        self.assertEqual(max(e["args"]["bytes"] for e in counters if e["name"] == "active"),
                         max(m[1] for m in self.history.moments))

    def test_torn_end_is_passed_over(self):
        with tempfile.TemporaryDirectory() as place:
            whole = len(tool("events", "export", self.run_dir).splitlines())
            pathlib.Path(place, "events.bhe").write_bytes(self.data[:-20])
            fewer = len(tool("events", "export", place).splitlines())
            self.assertLess(fewer, whole)
            self.assertGreater(fewer, 0)
            damaged = bytearray(self.data)
            damaged[200] ^= 1
            pathlib.Path(place, "events.bhe").write_bytes(damaged)
            tool("events", "export", place, status=65)
            tool("pickle", "-o", os.path.join(place, "x"), place, status=65)
            self.assertFalse(os.path.exists(os.path.join(place, "x")))

    def test_a_run_is_never_overwritten(self):
        with tempfile.TemporaryDirectory() as place:
            log = pathlib.Path(place, "events.bhe")
            log.write_bytes(self.data)
            tool("pickle", "-o", log, place, status=64)
            self.assertEqual(log.read_bytes(), self.data)

    def test_missing_things(self):
        with tempfile.TemporaryDirectory() as place:
            self.assertIn("Nothing was recorded", tool("live", place, status=64))
            tool("journal", "verify", place, status=64)
            tool("report", "rebuild", place, status=64)
            out = os.path.join(place, "empty.pickle")
            tool("pickle", "-o", out, place)
            memviz_decode.check(load(out))
            self.assertEqual(json.loads(tool("timeline", place))["t_us"], [])
            self.assertEqual(json.loads(tool("events", "export", "--format", "json", place)),
                             {"events": [], "next_from": None})


def contradictions(seed):
    """Records that fit each other only by chance, as after losses, with baselines and ends anywhere."""
    pick = random.Random(seed)
    records = [{"kind": "Image", "image": i, "ns": BOOT_NS, "pid": 100 + i, "token": 1, "number": 0} for i in (1, 2, 3)]
    ns, seq = BOOT_NS, 0
    for _ in range(300):
        ns += pick.choice((0, 0, 900, 5000, -400))
        kind = pick.choice(["AllocNew", "AllocReuse", "AllocMakeBuffer", "FreeActiveToCache", "FreeActiveToOS",
                            "Release", "FreeCacheToOS"] * 6 + ["Lost", "Baseline", "BaselineBegin", "Off", "ImageEnd",
                                                               "Hole", "Link"])
        event = {"kind": kind, "image": pick.choice((1, 1, 2, 3)), "ns": ns, "count": pick.randrange(4)}
        if kind in ("Baseline", "Lost") or evlog_format.KINDS[kind] < 16:
            seq += 1
            event["seq"] = seq
        if kind == "Link":
            event.update(seq=pick.randrange(1, seq + 2), stream=0)
        if kind == "Baseline" or evlog_format.KINDS[kind] < 16:
            event.update(addr=0x1000 * pick.randrange(1, 9), size=pick.choice((64, 128, 4096)),
                         requested=pick.choice((1, 64, 5000)), cached=kind == "Baseline" and pick.random() < 0.5)
        records.append(event)
    return [records[:100], records[100:103], records[103:]]


class Contradictions(unittest.TestCase):
    """Whatever the log claims, what is made of it adds up."""

    def test_pickles_and_live_sets(self):
        for seed in range(25):
            with self.subTest(seed), tempfile.TemporaryDirectory() as place:
                segments = contradictions(seed)
                pathlib.Path(place, "events.bhe").write_bytes(
                    evlog_format.write(RUN_ID, BOOT_NS, EPOCH_US, segments))
                out = os.path.join(place, "x.pickle")
                tool("pickle", "-o", out, place)
                value = load(out)
                memviz_decode.check(value)
                held = sum(segment["active_size"] for segment in value["segments"])
                live = json.loads(tool("live", "--format", "json", place))
                self.assertEqual(live["total_bytes"], held)
                timeline = json.loads(tool("timeline", place))
                peak = json.loads(tool("live", "--at", "peak", "--format", "json", place))
                self.assertEqual(peak["total_bytes"], timeline["peak"]["active"]["active_bytes"])
                tool("events", "export", "-o", os.devnull, place)
                tool("pickle", "-o", out, "--max-entries", 40, place)
                memviz_decode.check(load(out))

    def test_any_cut_of_a_growing_log(self):
        history = History(8, 1500)
        with tempfile.TemporaryDirectory() as place:
            data = history.write(place)
            pick = random.Random(3)
            for _ in range(12):
                pathlib.Path(place, "events.bhe").write_bytes(data[:pick.randrange(64, len(data))])
                out = os.path.join(place, "x.pickle")
                tool("pickle", "-o", out, place)
                memviz_decode.check(load(out))

    def test_the_golden_log_is_read_by_the_second_implementation(self):
        run_id, anchor, records = evlog_format.read((ROOT / "tests/golden/wire/evlog.bin").read_bytes())
        self.assertEqual((run_id, anchor), (RUN_ID, (BOOT_NS, EPOCH_US)))
        self.assertEqual({record["kind"] for record in records}, set(evlog_format.KINDS))


class CommandLine(unittest.TestCase):
    def test_bad_usage(self):
        for arguments in ([], ["nonsense"], ["live"], ["live", "--nonsense", "x"], ["live", "a", "b"],
                          ["live", "--top"], ["timeline", "--points", "0", "/"], ["timeline", "--points", "1.5", "/"],
                          ["live", "--at", "yesterday", "/"], ["events", "export", "--format", "xml", "/"],
                          ["pickle", "--from-us=-1", "/"], ["report", "/"], ["live", "--top", "1", "--top", "2", "/"],
                          ["pickle", "--max-entries", "2x", "/"], ["live", "/no/such/place"]):
            done = subprocess.run([str(BIN / "bulkhead-tool"), *arguments], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 64, (arguments, done.stderr))
            self.assertEqual(done.stdout, b"")

    def test_help_of_everything(self):
        text = tool("--help").decode()
        for line in text.splitlines()[3:]:
            words = line.split("  ")[1].split() if line.startswith("  ") else []
            if words:
                self.assertTrue(tool(*words, "--help").startswith(b"usage: bulkhead-tool " + words[0].encode()))
        self.assertRegex(tool("--version").decode(), r"^bulkhead-tool \d+\.\d+\.\d+\n$")


class RealRun(unittest.TestCase):
    """A run of the supervisor: journal and report."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.run_dir = os.path.join(cls.place.name, "run")
        done = subprocess.run([str(BIN / "bulkhead-supervise"), "run", "--limit", "512MiB", "--run-dir", cls.run_dir,
                               "--", sys.executable, "-c", "import time; x = bytearray(30 << 20); time.sleep(0.4)"],
                              capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_journal(self):
        self.assertIn(b"end      complete", tool("journal", "verify", self.run_dir))
        records = [json.loads(line) for line in tool("journal", "dump", self.run_dir).splitlines()]
        kinds = [record["record"] for record in records]
        self.assertEqual(kinds[0], "config")
        self.assertIn("outcome", kinds)
        self.assertEqual(records[0]["data"]["limit_bytes"], 512 << 20)
        outcome = records[kinds.index("outcome")]["data"]
        self.assertEqual((outcome["kind"], outcome["cause"], outcome["exit_code"]), ("child_exited", "completed", 0))

    def test_report_is_rebuilt_byte_for_byte(self):
        written = pathlib.Path(self.run_dir, "report.json").read_bytes()
        self.assertEqual(tool("report", "rebuild", self.run_dir), written)

    def test_report_in_plain_words(self):
        report = json.loads(pathlib.Path(self.run_dir, "report.json").read_text())
        words = tool("report", self.run_dir).decode()
        self.assertEqual(words.splitlines()[0], report["outcome"]["sentence"])
        member, = report["peaks"]["members"]
        peak = report["peaks"]["sampled"]["aggregate"]["value"]
        tenths = peak * 10 >> 20  # three figures, cut and not rounded
        for text in (report["run"]["run_id"], f"peak {tenths / 10:g} MiB at ", "limit 512 MiB",
                     f"{member['executable_basename']} ({member['pid']})", "1 seen, 0 left", "proven that none is left",
                     f"{report['supervisor']['complete_samples']} readings"):
            self.assertIn(text, words)
        self.assertNotIn("signals", words)

    def test_report_of_a_run_that_was_cut_off(self):
        data = pathlib.Path(self.run_dir, "journal.bhj").read_bytes()
        with tempfile.TemporaryDirectory() as place:
            pathlib.Path(place, "journal.bhj").write_bytes(data[:len(data) // 2])
            words = tool("report", place).decode()
        self.assertIn("has no outcome yet", words)
        self.assertIn("command", words)

    def test_corrupt_journal(self):
        data = bytearray(pathlib.Path(self.run_dir, "journal.bhj").read_bytes())
        data[len(data) // 2] ^= 1
        with tempfile.TemporaryDirectory() as place:
            pathlib.Path(place, "journal.bhj").write_bytes(data)
            done = subprocess.run([str(BIN / "bulkhead-tool"), "journal", "verify", place], capture_output=True)
            self.assertEqual(done.returncode, 65)
            self.assertIn(b"corrupt", done.stdout)
            tool("report", "rebuild", place, status=74)

    def test_timeline_of_the_charge(self):
        answer = json.loads(tool("timeline", "--points", 10, self.run_dir))
        self.assertGreater(max(value or 0 for value in answer["charge_max"]), 30 << 20)
        self.assertEqual(answer["limits"][0]["limit_bytes"], 512 << 20)
        self.assertIsNone(answer["peak"]["active"])


class Goldens(unittest.TestCase):
    """Every golden pickle holds what a snapshot must hold, by a decoder that knows only the format."""

    def test_all(self):
        files = sorted((ROOT / "tests/golden/pickle").glob("*.pickle"))
        self.assertGreaterEqual(len(files), 18)
        for file in files:
            with self.subTest(file.name):
                decoder = memviz_decode.Decoder(file.read_bytes())
                value = decoder.decode()
                self.assertEqual(value, pickle.loads(file.read_bytes()))
                self.assertEqual(decoder.largest_batch <= 1000, True)
                memviz_decode.check(value)


if __name__ == "__main__":
    unittest.main()
