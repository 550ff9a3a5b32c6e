"""Reads a recorder ring in plain Python, as core/wire/ring.h describes it, and replays it: written apart
from the product's own reader, so that each checks the other."""
import os
import pathlib
import struct
import time

HEADER_BYTES = 4096
SLOT_BYTES = 64
(ALLOC_NEW, ALLOC_REUSE, ALLOC_MAKE_BUFFER, FREE_TO_CACHE, FREE_TO_OS, RELEASE, CACHE_TO_OS) = range(1, 8)
LOST, BASELINE_BEGIN, BASELINE, OFF, LINK, MARK = range(16, 22)
STATE_ATTACHED, STATE_REFUSED, STATE_FAILED = 1, 2, 3
FLAG_LOSSY, FLAG_LINKS, FLAG_STREAMS, FLAG_DESC_WORD, FLAG_CHILD = 1, 2, 4, 8, 16
WALK_NONE, WALK_RAW, WALK_UNSTABLE, WALK_PUBLIC = range(4)
CONTROL_OFFSET, TAIL_OFFSET, HEAD_OFFSET = 128, 136, 192

_FIXED = struct.Struct("<IHHIIQQQIIQQQQQIIII")
_FIXED_NAMES = ("magic version header_bytes required_flags slot_count arena_offset arena_bytes file_bytes pid image "
                "start_token created_ns attach_active_bytes attach_cache_bytes min_size_bytes stacks depth walk "
                "parent_pid").split()
_LIVE = struct.Struct("<QQIIQQQQQQQQQQ")
_LIVE_NAMES = ("head arena_used state flags lost active_bytes cache_bytes stacks_lost small_count small_bytes "
               "small_live_bytes links_lost checks mismatches").split()
_SLOT = struct.Struct("<QQQQQIIIiBBHI")
_SLOT_NAMES = ("sequence time_ns address size_bytes requested_bytes stack primitive thread stream kind device flags "
               "reserved").split()


class Ring:
    """One ring file as it is now. strings, frames and stacks by id; slots in order, the unread ones only."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        data = self.path.read_bytes()
        self.__dict__.update(zip(_FIXED_NAMES, _FIXED.unpack_from(data, 0)))
        self.control, _, self.tail, self.tail_check = struct.unpack_from("<IIQQ", data, CONTROL_OFFSET)
        self.__dict__.update(zip(_LIVE_NAMES, _LIVE.unpack_from(data, 192)))
        self.reason, self.mlx_version, self.python_version = (
            data[at:at + size].split(b"\0")[0].decode() for at, size in ((320, 256), (576, 48), (624, 48)))
        assert self.magic == 0x474E5242 and self.version == 1 and self.header_bytes == HEADER_BYTES
        self.strings, self.frames, self.stacks = {0: None}, {}, {0: None}
        self._read_arena(data)
        self.slots = [self._slot(data, ticket) for ticket in range(self.tail, self.head)]

    def _read_arena(self, data):
        at, end = self.arena_offset, self.arena_offset + self.arena_used
        while at < end:
            kind, _, whole, ident, count = struct.unpack_from("<HHIII", data, at)
            if kind == 1:
                assert ident == len(self.strings)
                self.strings[ident] = data[at + 16:at + 16 + count].decode()
            elif kind == 2:
                function, line = struct.unpack_from("<II", data, at + 16)
                assert ident == len(self.frames) + 1
                self.frames[ident] = (self.strings[count], self.strings[function], line)
            elif kind == 3:
                assert ident == len(self.stacks)
                self.stacks[ident] = [self.frames[one] for one in struct.unpack_from(f"<{count}I", data, at + 16)]
            at += whole
        assert at == end

    def _slot(self, data, ticket):
        offset = HEADER_BYTES + SLOT_BYTES * (ticket & (self.slot_count - 1))
        slot = dict(zip(_SLOT_NAMES, _SLOT.unpack_from(data, offset)))
        assert slot["sequence"] == ticket + 1, f"slot {ticket} is not ready"
        slot["ticket"] = ticket
        return slot

    def of_kind(self, *kinds):
        return [slot for slot in self.slots if slot["kind"] in kinds]

    def allocations(self):
        """Allocations in order, each with what its link added."""
        found = {slot["ticket"]: slot for slot in self.of_kind(ALLOC_NEW, ALLOC_REUSE, ALLOC_MAKE_BUFFER)}
        for link in self.of_kind(LINK):
            found.get(link["requested_bytes"], {}).update(
                {name: link[name] for name in ("stack", "primitive", "stream")}, linked=True)
        return list(found.values())

    def release(self, tail=None):
        """Acts as the reader: frees every slot before tail."""
        tail = self.head if tail is None else tail
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(TAIL_OFFSET)
            file.write(struct.pack("<QQ", tail, tail ^ 0xFFFFFFFFFFFFFFFF))

    def switch(self, on):
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(CONTROL_OFFSET)
            file.write(struct.pack("<I", 1 if on else 0))


class Hand:
    """Plays the reader of a ring at speed: nothing but its head, tail and control word."""

    def __init__(self, path):
        self.file = open(path, "r+b", buffering=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def head(self):
        return int.from_bytes(os.pread(self.file.fileno(), 8, HEAD_OFFSET), "little")

    def release(self):
        tail = self.head()
        os.pwrite(self.file.fileno(), struct.pack("<QQ", tail, tail ^ 0xFFFFFFFFFFFFFFFF), TAIL_OFFSET)

    def switch(self, on):
        os.pwrite(self.file.fileno(), struct.pack("<I", 1 if on else 0), CONTROL_OFFSET)

    def wait_for(self, wanted, seconds):
        """Until the head is there."""
        end = time.monotonic() + seconds
        while self.head() < wanted:
            assert time.monotonic() < end, "nothing is written any more"


class Replay:
    """The buffers that the slots leave behind. Raises on a history that cannot be."""

    def __init__(self):
        self.active, self.cached, self.alloc = {}, {}, {}
        self.marks = []

    @property
    def active_bytes(self):
        return sum(self.active.values())

    @property
    def cache_bytes(self):
        return sum(self.cached.values())

    def apply(self, slot, strings=None):
        kind, address, size = slot["kind"], slot["address"], slot["size_bytes"]
        if kind in (ALLOC_NEW, ALLOC_MAKE_BUFFER):
            assert address not in self.active and address not in self.cached, "new where something lives"
            self.active[address] = size
            self.alloc[address] = slot
        elif kind == ALLOC_REUSE:
            assert self.cached.pop(address) == size, "reuse of another size"
            self.active[address] = size
            self.alloc[address] = slot
        elif kind == FREE_TO_CACHE:
            assert self.active.pop(address) == size
            self.cached[address] = size
        elif kind in (FREE_TO_OS, RELEASE):
            assert self.active.pop(address) == size
        elif kind == CACHE_TO_OS:
            assert self.cached.pop(address) == size
        elif kind == BASELINE_BEGIN:
            self.active, self.cached = {}, {}
        elif kind == BASELINE:
            (self.cached if slot["flags"] & 1 else self.active)[address] = size
        elif kind == LINK:
            self.alloc[address].update({name: slot[name] for name in ("stack", "primitive", "stream")})
        elif kind == MARK and strings is not None:
            self.marks.append((strings[slot["primitive"]], self.active_bytes, self.cache_bytes))
        if kind in (FREE_TO_CACHE, FREE_TO_OS) and address in self.alloc:
            for name in ("stack", "primitive", "stream", "requested_bytes"):
                assert slot[name] == self.alloc[address][name], f"a free lost its allocation's {name}"


def replay(ring):
    result = Replay()
    for slot in ring.slots:
        result.apply(slot, ring.strings)
    return result


def rings(folder):
    """All rings of a folder, in order of creation."""
    return sorted((Ring(path) for path in pathlib.Path(folder).glob("*.ring")), key=lambda ring: ring.created_ns)
