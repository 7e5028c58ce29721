"""Guests: hosts of jmars that a worker of an engine has started as child processes; runs in that worker.

A guest ends with the worker, since the pipe between both closes then. All functions block and belong in a thread.

    ticket  ─▶  stdin of  PYTHON -P -m jmars host --join -
    request for a certificate  ◀─  stdout
    certificate  ─▶  stdin
    answer  ◀─  stdout

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

THIS_PYTHON = "python"  # as the first word of a command: the interpreter of the worker
REQUEST = b'{"request"'  # begins the line with a guest's request
_PIECE = 2**14  # bytes that are read at once
REMEMBERED = 256  # names of guests that were ended before they began
KEPT_SECONDS = 60.0  # for the output of a guest that has ended
_MOST = 2**18  # bytes of output before the answer


class _Guest:
    """A child process; the pipes close when the process has ended and no thread reads the output."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name, self.process = name, process
        self.reading = threading.Lock()
        self.answered = threading.Event()  # set also if the answer is not needed

    def reap(self) -> None:
        self.process.wait()
        self.answered.wait(KEPT_SECONDS)  # the output says why the guest has ended
        with _lock:
            del _guests[self.name]
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.reading:
            self.process.stdin.close()
            self.process.stdout.close()

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line)  # fits in the pipe
        except (BrokenPipeError, ValueError):
            pass  # the guest has ended, and its output says why

    def read(self, until: bytes, seconds: float) -> bytes:
        """Output up to a line that begins with `until`, or to the end where `until` is empty."""
        with self.reading:
            out = self.process.stdout
            assert out is not None
            deadline, found = time.monotonic() + seconds, b""
            poll = select.poll()
            if not out.closed:
                poll.register(out, select.POLLIN)
            while len(found) < _MOST and not out.closed:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    words = found[-2000:].decode(errors="replace")
                    raise TimeoutError(f"its process did not answer within {seconds:g} s; last words: {words}")
                data = os.read(out.fileno(), _PIECE)
                if not data:
                    break
                found += data
                lines = found.splitlines(keepends=True)
                if until and any(line.startswith(until) and line.endswith(b"\n") for line in lines):
                    break
            return found


_lock = threading.Lock()
_guests: dict[str, _Guest] = {}  # by name
_unwanted: dict[str, None] = {}  # names of guests that were ended before they began


def begin(name: str, ticket: bytes, environment: Mapping[str, str], seconds: float) -> bytes:
    """Start a guest; returns the output up to the request for a certificate.

    Parameters
    ----------
    name
        Name of the guest, used once.
    ticket
        One line of JSON without a secret.
    environment
        Variables beside those of the worker.
    seconds
        How long to wait for the request.

    Raises
    ------
    OSError
        If no process can be started; TimeoutError if it does not ask in time.
    """
    with _lock:
        if name in _unwanted:
            return b""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jmars", "host", "--join", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        guest = _guests[name] = _Guest(name, process)
    threading.Thread(target=guest.reap, name="jmars-guest", daemon=True).start()
    try:
        guest.write(ticket)
        said = guest.read(REQUEST, seconds)
        if REQUEST not in said:
            guest.answered.set()  # the guest ends, or has ended
        return said
    except BaseException:
        end(name)
        raise


def certify(name: str, certificate: bytes, seconds: float) -> bytes:
    """Give a guest a certificate, a line of JSON; returns all output that follows, with the answer.

    Raises
    ------
    TimeoutError
        If the guest does not answer in time.
    """
    guest = _guests.get(name)
    if guest is None:
        return b""  # the guest has ended
    try:
        guest.write(certificate)
        return guest.read(b"", seconds)
    finally:
        guest.answered.set()


def command(words: Sequence[str], stdin: bytes, seconds: float) -> bytes | None:
    """Standard output of a command on the machine of the worker; None for no answer in time."""
    first = sys.executable if words[0] == THIS_PYTHON else words[0]
    try:
        return subprocess.run(
            [first, *words[1:]], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds
        ).stdout
    except (subprocess.TimeoutExpired, OSError):
        return None


def wait_end(name: str) -> int | None:
    """Wait for the end of a guest; returns the exit status, negative for a signal, None for unknown guests.

    A task of the engine that calls this holds a slot for as long as the guest lives.
    """
    guest = _guests.get(name)
    return None if guest is None else guest.process.wait()


def end(name: str) -> None:
    """End a guest with all of its processes by SIGKILL, also one that has not begun."""
    with _lock:
        guest = _guests.get(name)
        if guest is None:
            _unwanted[name] = None
            while len(_unwanted) > REMEMBERED:
                del _unwanted[next(iter(_unwanted))]
            return
    guest.answered.set()
    if guest.process.poll() is None:
        os.killpg(guest.process.pid, signal.SIGKILL)
        guest.process.wait()
