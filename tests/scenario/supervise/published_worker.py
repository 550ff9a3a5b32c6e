"""A worker as it would be written from the published protocol text alone (version 1): reads hello,
installs its handler, says ready, answers one request. argv: what to answer, and how."""
import contextlib
import os
import signal
import socket
import struct
import sys
import time

MAGIC = b"MGCP"


def read_frame(channel):
    def exactly(count):
        data = b""
        while len(data) < count:
            part = channel.recv(count - len(data))
            if not part:
                raise SystemExit(9)
            data += part
        return data
    (length,) = struct.unpack(">I", exactly(4))
    return exactly(length)


def send(channel, kind, rest):
    body = MAGIC + bytes([1, kind]) + rest
    channel.sendall(struct.pack(">I", len(body)) + body)


def main():
    answer, hold = sys.argv[1], int(sys.argv[2])
    number = int(os.environ["MLX_GUARD_CHECKPOINT_FD"])
    assert number == 198 and os.environ["BULKHEAD_CHECKPOINT_FD"] == "198"
    channel = socket.socket(fileno=number)
    hello = read_frame(channel)
    assert hello[:6] == MAGIC + bytes([1, 3]) and len(hello) == 38
    nonce = hello[6:]
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    if answer == "never-ready":
        time.sleep(1000)
    send(channel, 4, bytes(32) if answer == "wrong-nonce-ready" else nonce)
    if answer == "unasked":  # an acknowledgement of nothing
        send(channel, 2, nonce + struct.pack(">QBBBQ", 1, 1, 0, 0, 0))
    if answer == "babbles":
        with contextlib.suppress(OSError):
            channel.sendall(b"\xff" * 100_000)
    if answer == "closes":
        channel.close()
    print("ready", flush=True)
    blocks = []
    requests = 0
    while True:
        if len(blocks) < hold:
            blocks.append(bytearray(1 << 20))
        time.sleep(0.002)
        if not seen:
            continue
        seen.clear()
        request = read_frame(channel)
        assert request[:6] == MAGIC + bytes([1, 1]) and len(request) == 54 and request[6:38] == nonce
        request_id, deadline = struct.unpack(">QQ", request[38:])
        assert request_id and deadline
        requests += 1
        print("request", requests, flush=True)
        status = {"failed": 2, "cancelled": 3}.get(answer, 1)
        if answer == "silent":
            continue
        if answer == "late":  # it has been told to end meanwhile, and says that it saved
            signal.signal(signal.SIGTERM, lambda *_: seen.append(15))
            while not seen:
                time.sleep(0.002)
            send(channel, 2, nonce + struct.pack(">QBBBQ", request_id, 1, 1, 1, 4096))
            time.sleep(0.1)
            sys.exit(5)
        if answer == "other":  # of a request that nobody made
            send(channel, 2, nonce + struct.pack(">QBBBQ", request_id ^ 1, 1, 1, 1, 4096))
            continue
        if answer == "confused":  # wrong id, wrong nonce, then the right one, twice
            send(channel, 2, nonce + struct.pack(">QBBBQ", request_id + 1, 1, 0, 0, 0))
            send(channel, 2, bytes(32) + struct.pack(">QBBBQ", request_id, 1, 0, 0, 0))
        send(channel, 2, nonce + struct.pack(">QBBBQ", request_id, status, 1, 1, 4096))
        if answer == "confused":
            send(channel, 2, nonce + struct.pack(">QBBBQ", request_id, 1, 1, 1, 4096))


main()
