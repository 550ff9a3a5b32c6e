"""events.bhe written and read from its description alone (core/wire/evlog.h, evlog_record.c): a second
implementation, so that a mistake of the C code cannot hide in its own tests.

Events are dicts: kind (a name of KINDS), and the members of the kind. write() answers the file's bytes,
read() a list of the same dicts.
"""

import struct

KINDS = {
    "AllocNew": 1, "AllocReuse": 2, "AllocMakeBuffer": 3, "FreeActiveToCache": 4, "FreeActiveToOS": 5,
    "Release": 6, "FreeCacheToOS": 7, "Lost": 16, "Baseline": 17, "Mark": 18, "Link": 32, "Image": 33,
    "ImageEnd": 34, "String": 35, "Frame": 36, "Stack": 37, "BaselineBegin": 38, "Off": 39, "Hole": 40,
    "Full": 41, "Taken": 42,
}
NAMES = {number: name for name, number in KINDS.items()}
BUFFERS = {1, 2, 3, 4, 5, 6, 7, 17}
EVENTS = BUFFERS | {16, 18}
TIMED = EVENTS | {33, 34, 38, 39, 41}
ADDRESSED = BUFFERS | {16, 38, 39}
COUNTED = {16, 38, 40, 41, 42}
DEFINING = {33, 35, 36, 37}
M64 = 2**64 - 1

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(difference):
    difference &= M64
    return varint((difference << 1 & M64) ^ (M64 if difference >> 63 else 0))


def header(run_id, boot_ns, epoch_us):
    body = struct.pack("<IHHII20sIQqI", 0x56454842, 1, 64, 0, 0, run_id.encode(), 0, boot_ns, epoch_us, 0)
    return body + struct.pack("<I", crc32c(body))


class Running:
    def __init__(self, latest):
        self.sequence = self.address = self.image = self.thread = 0
        self.time = latest


def encode(event, run):
    kind = KINDS[event["kind"]]
    head = kind | (0x40 if event.get("cached") else 0) | (0x80 if event.get("doubtful") else 0)
    if kind == 35:
        text = event["text"].encode() if isinstance(event["text"], str) else event["text"]
        return bytes([head]) + varint(event["id"]) + varint(len(text)) + text
    if kind == 36:
        return bytes([head]) + b"".join(map(varint, (event["id"], event["file"], event["function"], event["line"])))
    if kind == 37:
        out, last = bytes([head]) + varint(event["id"]) + varint(len(event["frames"])), 0
        for frame in event["frames"]:
            out += signed(frame - last)
            last = frame
        return out
    shape, out = 0, b""
    if kind in EVENTS:
        if event["seq"] != run.sequence + 1:
            shape |= 1
            out += signed(event["seq"] - run.sequence - 1)
        run.sequence = event["seq"]
    if kind == 32:
        out += signed(run.sequence - event["seq"])
    if event.get("image", 0) != run.image:
        shape |= 2
        run.image = event.get("image", 0)
        out += varint(run.image)
    if kind in TIMED:
        out += signed(event["ns"] - run.time)
        run.time = event["ns"]
    if kind in BUFFERS and event.get("thread", 0) != run.thread:
        shape |= 4
        run.thread = event.get("thread", 0)
        out += varint(run.thread)
    if kind in ADDRESSED:
        out += signed(event.get("addr", 0) - run.address) + varint(event.get("size", 0))
        run.address = event.get("addr", 0)
    if kind in BUFFERS and event.get("requested", event.get("size", 0)) != event.get("size", 0):
        shape |= 8
        out += signed(event["size"] - event["requested"])
    if kind in BUFFERS or kind == 32:
        for bit, key in ((16, "stack"), (32, "primitive")):
            if event.get(key, 0):
                shape |= bit
                out += varint(event[key])
        if event.get("stream", -1) != -1:
            shape |= 64
            out += signed(event["stream"])
    if kind in COUNTED:
        out += varint(event["count"])
    if kind in (18, 33):
        out += varint(event.get("label", 0))
    if kind == 33:
        out += signed(event["pid"]) + varint(event["token"]) + varint(event["number"])
    return bytes([head, shape]) + out


def segment(number, events, latest, lost):
    """One segment; latest: greatest time before it. Answers the bytes and the greatest time after."""
    first_time = latest
    for event in events:
        if KINDS[event["kind"]] in TIMED:
            first_time = max(latest, event["ns"])
            break
    run = Running(first_time)
    body = b"".join(encode(event, run) for event in events)
    sequences = [event["seq"] for event in events if KINDS[event["kind"]] in EVENTS]
    first, last = (sequences[0], sequences[-1]) if sequences else (1, 0)
    defining = sum(KINDS[event["kind"]] in DEFINING for event in events)
    head = struct.pack("<IHHIIIIQQQQI", 0x53454842, 1, 64, number, defining, len(events), len(body), first, last,
                       lost, first_time, crc32c(body))
    times = [event["ns"] for event in events if KINDS[event["kind"]] in TIMED]
    return head + struct.pack("<I", crc32c(head)) + body, max([latest] + times)


def write(run_id, boot_ns, epoch_us, segments):
    """segments: lists of events."""
    out, latest, lost = header(run_id, boot_ns, epoch_us), 0, 0
    for number, events in enumerate(segments):
        data, latest = segment(number, events, latest, lost)
        out += data
        lost += sum(event["count"] for event in events if event["kind"] == "Lost")
    return out


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def signed(self):
        value = self.varint()
        return value >> 1 ^ (M64 if value & 1 else 0)


def to_signed(value):
    return value - 2**64 if value >> 63 else value


def decode(reader, run):
    head = reader.byte()
    kind = head & 0x3F
    event = {"kind": NAMES[kind]}
    if kind == 35:
        event["id"] = reader.varint()
        length = reader.varint()
        event["text"] = reader.data[reader.at:reader.at + length].decode()
        reader.at += length
        return event
    if kind == 36:
        for key in ("id", "file", "function", "line"):
            event[key] = reader.varint()
        return event
    if kind == 37:
        event["id"] = reader.varint()
        event["frames"], last = [], 0
        for _ in range(reader.varint()):
            last = last + reader.signed() & M64
            event["frames"].append(last)
        return event
    shape = reader.byte()
    if kind in EVENTS:
        run.sequence = run.sequence + 1 + (reader.signed() if shape & 1 else 0) & M64
        event["seq"] = run.sequence
    if kind == 32:
        event["seq"] = run.sequence - reader.signed() & M64
    if shape & 2:
        run.image = reader.varint()
    event["image"] = run.image
    if kind in TIMED:
        run.time = run.time + reader.signed() & M64
        event["ns"] = run.time
    if kind in BUFFERS:
        if shape & 4:
            run.thread = reader.varint()
        event["thread"] = run.thread
    if kind in ADDRESSED:
        run.address = run.address + reader.signed() & M64
        event["addr"], event["size"] = run.address, reader.varint()
    if kind in BUFFERS:
        event["requested"] = event["size"] - (reader.signed() if shape & 8 else 0) & M64
        event["cached"], event["doubtful"] = bool(head & 0x40), bool(head & 0x80)
    if kind in BUFFERS or kind == 32:
        event["stack"] = reader.varint() if shape & 16 else 0
        event["primitive"] = reader.varint() if shape & 32 else 0
        event["stream"] = to_signed(reader.signed()) if shape & 64 else -1
    if kind in COUNTED:
        event["count"] = reader.varint()
    if kind in (18, 33):
        event["label"] = reader.varint()
    if kind == 33:
        event["pid"], event["token"], event["number"] = to_signed(reader.signed()), reader.varint(), reader.varint()
    return event


def read(data):
    """Run id, anchor (boot_ns, epoch_us) and all records of whole segments; checks every checksum."""
    magic, version, size, flags, _, run_id, _, boot_ns, epoch_us, _, crc = struct.unpack("<IHHII20sIQqII", data[:64])
    assert (magic, version, size, flags) == (0x56454842, 1, 64, 0) and crc == crc32c(data[:60])
    at, records, number = 64, [], 0
    while at + 64 <= len(data):
        (magic, version, size, this, defining, count, length, first, last, _, first_time, body_crc,
         head_crc) = struct.unpack("<IHHIIIIQQQQII", data[at:at + 64])
        if at + 64 + length > len(data):
            break
        body = data[at + 64:at + 64 + length]
        assert (magic, version, size, this) == (0x53454842, 1, 64, number)
        assert head_crc == crc32c(data[at:at + 60]) and body_crc == crc32c(body) and 64 + length <= 65536
        reader, run = Reader(body), Running(first_time)
        inside = [decode(reader, run) for _ in range(count)]
        assert reader.at == length
        assert defining == sum(KINDS[event["kind"]] in DEFINING for event in inside)
        sequences = [event["seq"] for event in inside if KINDS[event["kind"]] in EVENTS]
        assert (first, last) == ((sequences[0], sequences[-1]) if sequences else (1, 0))
        records += inside
        at += 64 + length
        number += 1
    return run_id.decode(), (boot_ns, epoch_us), records
