"""On a terminal: the job is in front, Ctrl-C reaches it, Ctrl-Z stops both, fg goes on."""
import os
import pathlib
import pty
import re
import select
import signal
import time
import unittest

from supervise_support import DEADLINE_S, PYTHON, SUPERVISE, wait_until


class Terminal:
    def __init__(self, argv):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = "prompt> "
            os.execv(argv[0], argv)

    def expect(self, pattern):
        """Reads until the pattern appears behind what was matched before."""
        end = time.monotonic() + DEADLINE_S
        while not (match := re.search(pattern, self.text)):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} did not come: {self.text!r}")
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    data = os.read(self.fd, 4096)
                except OSError:
                    data = b""
                if not data:
                    raise AssertionError(f"{pattern!r} did not come before the end: {self.text!r}")
                self.text += data.decode(errors="replace")
        self.text = self.text[match.end():]
        return match

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.fd, 4096).decode(errors="replace")
                except OSError:
                    pass
        raise AssertionError("it did not end")

    def close(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.fd)


JOB = "import os,time; print('front' if os.tcgetpgrp(0)==os.getpgrp() else 'back', flush=True); time.sleep(1000)"


class OnATerminal(unittest.TestCase):
    def test_job_is_in_front_and_hears_ctrl_c(self):
        terminal = Terminal([SUPERVISE, "run", "--limit", "1GiB", "--", PYTHON, "-c", JOB])
        self.addCleanup(terminal.close)
        terminal.expect("front")
        terminal.type("\x03")
        status = terminal.wait()
        self.assertTrue(os.WIFEXITED(status))
        self.assertEqual(os.WEXITSTATUS(status), 128 + signal.SIGINT, terminal.text)

    def test_job_reads_the_terminal(self):
        terminal = Terminal([SUPERVISE, "run", "--limit", "1GiB", "--quiet", "--", PYTHON, "-c",
                             "print('said', input(), flush=True)"])
        self.addCleanup(terminal.close)
        terminal.type("something\n")
        terminal.expect("said something")
        self.assertEqual(os.WEXITSTATUS(terminal.wait()), 0)

    def test_stop_and_continue_in_a_shell(self):
        terminal = Terminal(["/bin/bash", "--norc", "--noprofile", "-i"])
        self.addCleanup(terminal.close)
        terminal.expect("prompt> ")
        terminal.type(f"{SUPERVISE} run --limit 1GiB -- {PYTHON} -c \"{JOB}\"\n")
        terminal.expect("\rfront\r")
        job = os.tcgetpgrp(terminal.fd)
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.expect("prompt> ")
        stat = pathlib.Path(f"/proc/{job}/stat").read_text()
        self.assertEqual(stat.rsplit(")", 1)[1].split()[0], "T", "the job runs on unwatched")
        terminal.type("fg\n")
        terminal.expect("supervise run")
        # a key typed before the terminal was handed over would be the shell's
        wait_until(lambda: os.tcgetpgrp(terminal.fd) == job, "the job is in front again")
        terminal.type("\x03")
        terminal.expect("prompt> ")
        terminal.type("echo status=$?\n")
        self.assertEqual(terminal.expect(r"\rstatus=(\d+)\r").group(1), "130")


if __name__ == "__main__":
    unittest.main()
