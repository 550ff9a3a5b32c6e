"""Where a running process's calls through global offset tables go, read from outside: the ELF files say where the
slots are, /proc/PID/mem what is in them. x86-64 and aarch64, little-endian."""
import pathlib
import struct

PT_LOAD, PT_DYNAMIC = 1, 2
DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_JMPREL = 2, 5, 6, 23


def jump_slots(path):
    """[(symbol, address relative to the object's base)] of an ELF64 file."""
    data = pathlib.Path(path).read_bytes()
    table, entry, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    parts = [struct.unpack_from("<IIQQQQ", data, table + entry * at) for at in range(count)]

    def place(address):
        return next(offset + address - low for kind, _, offset, low, _, size in parts
                    if kind == PT_LOAD and low <= address < low + size)

    dynamic, = (offset for kind, _, offset, *_ in parts if kind == PT_DYNAMIC)
    facts = {}
    while (pair := struct.unpack_from("<QQ", data, dynamic))[0]:
        facts[pair[0]] = pair[1]
        dynamic += 16
    strings, symbols, first = (place(facts[tag]) for tag in (DT_STRTAB, DT_SYMTAB, DT_JMPREL))
    slots = []
    for at in range(first, first + facts[DT_PLTRELSZ], 24):
        address, info = struct.unpack_from("<QQ", data, at)
        name = strings + struct.unpack_from("<I", data, symbols + 24 * (info >> 32))[0]
        slots.append((data[name:data.index(b"\0", name)].decode(), address))
    return slots


def into(pid, library, user):
    """Symbols whose slot, in the objects of process `pid` whose file name begins with `user`, holds an address in
    the object whose file name begins with `library`."""
    ranges = {}
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, _, _, _, _, *path = line.split(None, 5)
        if path and path[0].startswith("/"):
            low, high = (int(end, 16) for end in span.split("-"))
            known = ranges.setdefault(path[0].strip(), (low, high))
            ranges[path[0].strip()] = (min(known[0], low), max(known[1], high))
    targets = [span for path, span in ranges.items() if pathlib.Path(path).name.startswith(library)]
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for path, (base, _) in ranges.items():
            if not pathlib.Path(path).name.startswith(user):
                continue
            for symbol, address in jump_slots(path):
                memory.seek(base + address)
                value, = struct.unpack("<Q", memory.read(8))
                if any(low <= value < high for low, high in targets):
                    found.append(symbol)
    return sorted(found)
