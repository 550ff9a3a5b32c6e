"""Decoder for Bulkhead's memory_viz pickles, written from the pickle format and from what the viewer relies
on, not from our writer: it knows only the opcodes that PyTorch's viewer knows and refuses everything else. On
top of it, what must hold for a snapshot (check) and the two replays (forwards, backwards).

    python3 memviz_decode.py FILE            decode, check, print a summary as JSON
    python3 memviz_decode.py --dump FILE     the decoded value as JSON
"""

import json
import struct
import sys

MAX_BATCH = 1000
MAX_SAFE = 2**53 - 1


class BadPickle(Exception):
    pass


class Decoder:
    def __init__(self, data):
        self.data, self.at = data, 0
        self.stack, self.marks, self.memo = [], [], []
        self.largest_batch = 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise BadPickle("ends too early")
        piece = self.data[self.at:self.at + count]
        self.at += count
        return piece

    def text(self, count):
        self.stack.append(self.take(count).decode("utf-8"))

    def batch(self):
        items = self.stack[self.marks.pop():]
        del self.stack[len(self.stack) - len(items):]
        return items

    def decode(self):
        if self.take(2) != b"\x80\x04":
            raise BadPickle("not protocol 4")
        while True:
            op = self.take(1)
            if op == b".":
                break
            handler = OPS.get(op)
            if handler is None:
                raise BadPickle("opcode %r at %d is none the viewer knows" % (op, self.at - 1))
            handler(self)
        if len(self.stack) != 1 or self.marks or self.at != len(self.data):
            raise BadPickle("something is left over")
        return self.stack[0]


def op_long1(d):
    raw = d.take(d.take(1)[0])
    value = int.from_bytes(raw, "little", signed=True)
    if len(raw) != max(1, (value.bit_length() + 8) // 8):
        raise BadPickle("LONG1 %d is not of minimal length" % value)
    if -2**31 <= value < 2**31:
        raise BadPickle("LONG1 %d fits BININT" % value)
    d.stack.append(value)


def op_appends(d):
    items = d.batch()
    d.largest_batch = max(d.largest_batch, len(items))
    if len(items) > MAX_BATCH:
        raise BadPickle("%d items in one batch" % len(items))
    d.stack[-1].extend(items)


def op_setitems(d):
    items = d.batch()
    d.largest_batch = max(d.largest_batch, len(items) // 2)
    if len(items) > 2 * MAX_BATCH or len(items) % 2:
        raise BadPickle("%d halves of entries in one batch" % len(items))
    for key, value in zip(items[::2], items[1::2]):
        if key in d.stack[-1]:
            raise BadPickle("key %r twice" % key)
        d.stack[-1][key] = value


def op_tuple2(d):
    d.stack[-2:] = [tuple(d.stack[-2:])]


OPS = {
    b"(": lambda d: d.marks.append(len(d.stack)),
    b"N": lambda d: d.stack.append(None),
    b"\x88": lambda d: d.stack.append(True),
    b"\x89": lambda d: d.stack.append(False),
    b"J": lambda d: d.stack.append(struct.unpack("<i", d.take(4))[0]),
    b"K": lambda d: d.stack.append(d.take(1)[0]),
    b"M": lambda d: d.stack.append(struct.unpack("<H", d.take(2))[0]),
    b"\x8a": op_long1,
    b"G": lambda d: d.stack.append(struct.unpack(">d", d.take(8))[0]),
    b"\x8c": lambda d: d.text(d.take(1)[0]),
    b"X": lambda d: d.text(struct.unpack("<I", d.take(4))[0]),
    b"]": lambda d: d.stack.append([]),
    b"e": op_appends,
    b"}": lambda d: d.stack.append({}),
    b"u": op_setitems,
    b"\x86": op_tuple2,
    b"\x94": lambda d: d.memo.append(d.stack[-1]),
    b"h": lambda d: d.stack.append(d.memo[d.take(1)[0]]),
    b"j": lambda d: d.stack.append(d.memo[struct.unpack("<I", d.take(4))[0]]),
}


def decode(data):
    return Decoder(data).decode()


# ---- what must hold -----------------------------------------------------------------------------

ACTIONS = {"segment_alloc", "segment_free", "alloc", "free_requested", "free_completed", "snapshot",
           "oom", "annotate"}
KEYS = {"action", "addr", "size", "stream", "time_us", "frames", "category", "user_metadata",
        "requested_size"}


def need(condition, text, *values):
    if not condition:
        raise AssertionError(text % values)


def check_entry(entry):
    action = entry["action"]
    need(action in ACTIONS, "action %r", action)
    keys = KEYS if action != "oom" else KEYS - {"addr"} | {"device_free"}
    need(set(entry) == keys, "keys of %s: %s", action, sorted(set(entry) ^ keys))
    need(isinstance(entry["category"], str) and entry["category"], "no category in %s", action)
    need(entry["requested_size"] <= entry["size"], "asked for more than the size: %s", entry)
    for frame in entry["frames"]:
        need(set(frame) == {"filename", "line", "name"}, "frame %s", frame)
    for key in ("addr", "size", "time_us", "requested_size"):
        need(entry.get(key, 0) <= MAX_SAFE, "%s is beyond 2^53", key)
    if action.startswith("free_"):
        need(isinstance(entry["user_metadata"], dict) and entry["user_metadata"].get("primitive"),
             "a free without metadata")


def check_order(trace):
    need(trace and trace[-1]["action"] == "snapshot" and trace[-1]["addr"] == 0
         and trace[-1]["category"] == "unknown", "no closing snapshot")
    last = None
    for i, entry in enumerate(trace):
        check_entry(entry)
        need(last is None or entry["time_us"] >= last, "time goes back at entry %d", i)
        last = entry["time_us"]
        if entry["action"] == "free_requested":
            follower = trace[i + 1]
            need(follower["action"] == "free_completed" and follower["addr"] == entry["addr"]
                 and follower["size"] == entry["size"], "free_requested %d stands alone", i)
        if entry["action"] == "free_completed":
            need(i and trace[i - 1]["action"] == "free_requested", "free_completed %d stands alone", i)


def check_segments(segments, device):
    state = {}
    last = -1
    for segment in (s for s in segments if s["device"] == device):
        need(segment["address"] > last, "segments are not in order")
        last = segment["address"]
        need(segment["segment_pool_id"] == (0, 0) and segment["is_expandable"] is False, "pool id")
        need(segment["segment_type"] in ("large", "small"), "segment type")
        at = segment["address"]
        active = 0
        for block in segment["blocks"]:
            need(block["address"] == at, "a gap between blocks")
            at += block["size"]
            need(block["state"] in ("active_allocated", "inactive"), "block state")
            active += block["size"] if block["state"] == "active_allocated" else 0
        need(at == segment["address"] + segment["total_size"], "blocks do not add up")
        need(segment["active_size"] == segment["allocated_size"] == active, "active_size")
        state[segment["address"]] = (segment["total_size"], active > 0)
    return state


def backwards(trace, final):
    """From the segments to the state before the first entry; every address must be known."""
    state = dict(final)
    for entry in reversed(trace):
        action, address = entry["action"], entry.get("addr")
        if action == "alloc":
            need(state.get(address) == (entry["size"], True), "alloc of unknown %#x", address)
            state[address] = (entry["size"], False)
        elif action == "segment_alloc":
            need(state.get(address) == (entry["size"], False), "segment_alloc of unknown %#x", address)
            del state[address]
        elif action == "segment_free":
            need(address not in state, "segment_free of %#x, which is there", address)
            state[address] = (entry["size"], False)
        elif action == "free_completed":
            need(state.get(address) == (entry["size"], False), "free of unknown %#x", address)
            state[address] = (entry["size"], True)
    return state


def forwards(trace, baseline):
    """Yields (entry, active, reserved) after each entry, from the state before the first one."""
    state = dict(baseline)
    active = sum(size for size, live in state.values() if live)
    reserved = sum(size for size, _ in state.values())
    for entry in trace:
        action, address = entry["action"], entry.get("addr")
        if action == "segment_alloc":
            need(address not in state, "segment_alloc of %#x, which is there", address)
            state[address] = (entry["size"], False)
            reserved += entry["size"]
        elif action == "segment_free":
            need(state.pop(address, None) == (entry["size"], False), "segment_free of %#x", address)
            reserved -= entry["size"]
        elif action == "alloc":
            need(state.get(address) == (entry["size"], False), "alloc of %#x", address)
            state[address] = (entry["size"], True)
            active += entry["size"]
        elif action == "free_completed":
            need(state.get(address) == (entry["size"], True), "free of %#x", address)
            state[address] = (entry["size"], False)
            active -= entry["size"]
        yield entry, active, reserved
    forwards.state = state


def check(value):
    """All that the viewer relies on and a file alone can show. Answers a summary."""
    need(set(value) == {"segments", "device_traces", "allocator_settings", "external_annotations",
                        "bulkhead"}, "top-level keys %s", sorted(value))
    traces = value["device_traces"]
    need(len(value["bulkhead"]["traces"]) in (len(traces), 0), "bulkhead.traces")
    categories = {e["category"] for trace in traces for e in trace}
    need("unknown" in categories, "no entry has the category unknown")
    summary = {"traces": [], "entries": sum(map(len, traces)), "segments": len(value["segments"])}
    for device, trace in enumerate(traces):
        check_order(trace)
        final = check_segments(value["segments"], device)
        baseline = backwards(trace, final)
        peak = end = (0, 0)
        for _, active, reserved in forwards(trace, baseline):
            peak = max(peak, (active, reserved))
            end = (active, reserved)
        need(forwards.state == final, "forward replay of trace %d does not end at its segments", device)
        summary["traces"].append({"active": end[0], "reserved": end[1], "peak_active": peak[0],
                                  "baseline": len(baseline)})
    need(all(0 <= s["device"] < len(traces) for s in value["segments"]), "a segment of no trace")
    for annotation in value["external_annotations"]:
        need(set(annotation) == {"name", "stage", "device", "time_us"}, "annotation keys")
        need(annotation["stage"] in ("START", "END"), "annotation stage")
    return summary


def main(arguments):
    dump = arguments[:1] == ["--dump"]
    with open(arguments[-1], "rb") as file:
        data = file.read()
    value = decode(data)
    import pickle
    need(pickle.loads(data) == value, "Python's own unpickler reads something else")
    print(json.dumps(value if dump else check(value)))


if __name__ == "__main__":
    main(sys.argv[1:])
