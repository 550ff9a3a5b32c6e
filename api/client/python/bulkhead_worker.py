"""Checkpoints on request, for a program that runs under Bulkhead. Standard library only, Python 3.9 and later.

Before a job is stopped at its limit or its wall time it can be asked to save. Where the program has a good place for
that, between two steps:

    import bulkhead_worker

    for step in range(steps):
        train(step)
        request = bulkhead_worker.poll()
        if request:
            mx.save_safetensors("model.safetensors", weights)
            request.done("model.safetensors")

Or, for a program whose state is whole at any time, a function that is called as soon as Python runs again, in the main
thread and between any two of its lines:

    @bulkhead_worker.on_checkpoint
    def save(request):
        model.save("model.npz")
        return "model.npz"

Both do nothing where nobody asks: without Bulkhead, without `checkpoint` in the job's spec, and in child processes. Call
`poll` once, `start`, or the decorator early and in the main thread: only then is it known that this program can be
asked. SIGUSR1 is used for it. Any number of requests is answered; with `"repeat": true` in the spec a job can be asked
while it goes on. What is said here is a claim that Bulkhead passes on; it looks at no file.
"""
import contextlib
import os
import signal
import socket
import stat
import struct
import threading

__all__ = ["Request", "on_checkpoint", "poll", "start"]

# the frames of core/wire/ckpt.h
_MAGIC, _VERSION = b"MGCP", 1
_REQUEST, _ACKNOWLEDGEMENT, _HELLO, _READY = 1, 2, 3, 4
_COMPLETED, _FAILED, _CANCELLED = 1, 2, 3
_NOTHING, _FILE, _DIRECTORY, _OPAQUE = 0, 1, 2, 3
_NONCE_BYTES = 32
_HELLO_BYTES = 4 + 6 + _NONCE_BYTES


def _frame(kind, rest):
    body = _MAGIC + bytes((_VERSION, kind)) + rest
    return struct.pack(">I", len(body)) + body


def _artifact(path, size):
    """Kind, whether the size is known, size."""
    if path is None:
        return (_NOTHING, 0, 0) if size is None else (_OPAQUE, 1, size)
    info = os.stat(path)
    if not stat.S_ISDIR(info.st_mode):
        return _FILE, 1, info.st_size if size is None else size
    if size is None:
        files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        size = sum(os.lstat(file).st_size for file in files)
    return _DIRECTORY, 1, size


class Request:
    """One request to save. Answer it once; later answers are dropped."""

    def __init__(self, channel, number, deadline_ns):
        self._channel, self._answered = channel, False
        self.id = number
        self.deadline_ns = deadline_ns  # on the supervisor's clock, which starts with the run

    def done(self, path=None, size=None):
        """It is saved: in this file or directory, whose size is looked up, or elsewhere with a size of your own."""
        self._answer(_COMPLETED, *_artifact(path, size))

    def failed(self):
        self._answer(_FAILED, _NOTHING, 0, 0)

    def cancelled(self):
        self._answer(_CANCELLED, _NOTHING, 0, 0)

    def _answer(self, status, kind, has_size, size):
        if not self._answered:
            self._answered = True
            self._channel.send(_frame(_ACKNOWLEDGEMENT, self._channel.nonce + struct.pack(
                ">QBBBQ", self.id, status, kind, has_size, size)))


class _Channel:
    def __init__(self, connection, nonce):
        self.connection, self.nonce, self.pid = connection, nonce, os.getpid()
        self.input, self.requests = b"", []
        self.wanted = self.serving = False
        self.function = None

    def send(self, data):
        # the supervisor may be gone: the program goes on
        with contextlib.suppress(OSError):
            self.connection.sendall(data)

    def on_signal(self, _number, _frame):
        if os.getpid() != self.pid:
            return  # a child that was forked: nobody asked it
        self.wanted = True
        if self.function and not self.serving:
            self.serving = True
            try:
                while (request := self.next()) is not None:
                    _call(self.function, request)
            finally:
                self.serving = False

    def next(self):
        if os.getpid() != self.pid:
            return None
        if self.wanted and not self.requests:
            self.wanted = False
            self.read()
        return self.requests.pop(0) if self.requests else None

    def read(self):
        with contextlib.suppress(OSError):
            while data := self.connection.recv(4096, socket.MSG_DONTWAIT):
                self.input += data
        while len(self.input) >= 4:
            end = 4 + struct.unpack_from(">I", self.input)[0]
            if len(self.input) < end:
                break
            body, self.input = self.input[4:end], self.input[end:]
            if body[:6] == _MAGIC + bytes((_VERSION, _REQUEST)) and len(body) == 54 and body[6:38] == self.nonce:
                self.requests.append(Request(self, *struct.unpack(">QQ", body[38:])))


def _call(function, request):
    try:
        path = function(request)
        request.done(path)
    except BaseException:
        request.failed()
        raise


def _open():
    """The channel, or False where there is none for this process."""
    number = os.environ.get("BULKHEAD_CHECKPOINT_FD") or os.environ.get("MLX_GUARD_CHECKPOINT_FD") or ""
    if not number.isdecimal():
        return False
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("bulkhead_worker begins in the main thread: Python hears signals there alone")
    try:
        if not stat.S_ISSOCK(os.fstat(int(number)).st_mode):
            return False
        connection = socket.socket(fileno=int(number))
    except (OSError, OverflowError):
        return False
    try:
        # it waits there from the beginning, unless another process of the job took it
        hello = connection.recv(_HELLO_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        hello = b""
    if len(hello) != _HELLO_BYTES or hello[:10] != _frame(_HELLO, bytes(_NONCE_BYTES))[:10]:
        connection.detach()  # not ours to close
        return False
    connection.recv(_HELLO_BYTES)
    connection.setblocking(True)
    os.set_inheritable(connection.fileno(), False)
    channel = _Channel(connection, hello[10:])
    signal.signal(signal.SIGUSR1, channel.on_signal)
    channel.send(_frame(_READY, channel.nonce))
    return channel


_channel = None


def start():
    """Says that this program can be asked; whether anybody may ask. `poll` and `on_checkpoint` do it, too."""
    global _channel
    if _channel is None:
        _channel = _open()
    return bool(_channel) and _channel.pid == os.getpid()


def poll():
    """The next request, or None; costs nothing while there is none."""
    if _channel is None:
        start()
    return _channel.next() if _channel and not _channel.function else None


def on_checkpoint(function):
    """Has the function called for each request, with it. It returns the path of what it saved, or None; an exception is
    a failed checkpoint, and goes on to whatever line was interrupted."""
    if start():
        _channel.function = function
    return function
