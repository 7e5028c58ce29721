"""Caps the memory of a user's function in an executor, with RLIMIT_DATA.

While the function runs, the kernel refuses private memory beyond the cap, so the function gets a MemoryError at the
line that allocates too much, and no other process loses memory to it. Shared memory with chunks does not count, nor
memory that the process had before. Free heap counts by half of the cap at most, so a function may take 1.5 caps.
Source: Linux setrlimit(2), RLIMIT_DATA: since Linux 4.7 all private writable memory counts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit, setrlimit
from time import monotonic
from traceback import walk_tb
from typing import Any

import numpy as np

from jmars.errors import JmarsError, StorageError
from jmars.model.limits import PAGE
from jmars.native import library
from jmars.processes.vitals import descendants, private_now

STACKS = 2**24  # bytes of thread stacks: the kernel counts their reserved size, of which little is used
STACK = 2**19  # bytes of the stack of a thread that Python starts
STEP = 2**22  # bytes; a smaller change of retained memory is not reported
LOOK_SECONDS = 0.25  # between two samples of children and shared memory
RETAINED = 2**25  # bytes of heap growth before its free parts are counted
_WORDS = (  # the first four: of ld.so too; the last two: C code that got no memory and set no exception
    "cannot allocate ",
    "failed to map segment",
    "cannot map zero-fill pages",
    "cannot change memory protections",
    "can't start new thread",
    "failed to launch worker thread",
    "error return without exception set",
    "returned null without setting an exception",
)


class RlimitGuard:
    """The cap of this process."""

    def __init__(self, arena_size: int = 0) -> None:
        threading.stack_size(STACK)
        self._arena_size = arena_size
        self._bare = 0  # private bytes before functions ran
        self._beside = self._told = 0  # bytes of children and shared memory, and at the last report
        self._look_again = self._count_again = 0.0
        self._free_bytes = self._data = self._private = 0  # free heap, and sizes of the process at that count
        self._is_warm = False  # whether libraries have allocated their buffers
        self.cap = -1  # bytes; -1 for no cap
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._soft, self._hard = getrlimit(RLIMIT_DATA)
        self._start = self._pages()[5] * PAGE
        self._before = 0  # private bytes when the cap began
        self.trimmed()
        self._resident = 0  # resident bytes when the cap began, if the peak is measured

    def begin(self, cap: int, measured: bool = False) -> None:
        """Cap the process at `cap` bytes beyond the present size; `measured` if `peak` will be asked."""
        if not self._is_warm:
            _warm()
            self._is_warm = True
            pages = self._pages()
            self._bare = (pages[1] - pages[2]) * PAGE
        pages = self._pages()
        data = pages[5] * PAGE
        if data > self._start + RETAINED:  # the function may use the free heap first, not for stacks and large arrays
            data -= min(self._free(data, (pages[1] - pages[2]) * PAGE), cap // 2)
        self.cap, self._before, self._resident = cap, (pages[1] - pages[2]) * PAGE, 0
        if measured:
            self._resident = pages[1] * PAGE
            with suppress(OSError), open("/proc/self/clear_refs", "w") as file:  # missing in some containers
                file.write("5")  # resets the peak of resident memory
        limit = data + cap + STACKS
        setrlimit(RLIMIT_DATA, (limit if self._soft == RLIM_INFINITY else min(limit, self._soft), self._hard))

    def taken(self) -> int:
        """Bytes that the process has gained since the cap began; called after a failure.

        The next cap counts the free heap again, since the function runs a second time.
        """
        self._count_again = 0.0
        pages = self._pages()
        return max(0, (pages[1] - pages[2]) * PAGE - self._before)

    def _free(self, data: int, private: int) -> int:
        """Free bytes of the heap; counted again now and then, and when the process has grown or shrunk."""
        now = monotonic()
        if data != self._data or abs(private - self._private) >= STEP or now >= self._count_again:
            self._free_bytes, self._data, self._private = _free_heap(), data, private
            self._count_again = now + LOOK_SECONDS
        return self._free_bytes

    def trimmed(self) -> None:
        """The heap was trimmed."""
        self._count_again = 0.0
        pages = self._pages()
        self._least = (pages[1] - pages[2]) * PAGE

    def left_behind(self) -> int | None:
        """Bytes that functions left in this process and children; None if hardly changed since the last report.

        Counted from the first cap on. Children, and memory shared with them, are sampled now and then.
        """
        if not self._is_warm:
            return None
        pages, now = self._pages(), monotonic()
        if now >= self._look_again:
            children = sum(map(private_now, descendants(os.getpid())))
            self._beside, self._look_again = children + _shared(self._arena_size), now + LOOK_SECONDS
        kept = max(0, (pages[1] - pages[2]) * PAGE - self._bare) + self._beside
        if abs(kept - self._told) < STEP:
            return None
        self._told = kept
        return kept

    def kept(self) -> int:
        """Bytes that the process has gained since the heap was last trimmed; functions freed some of them."""
        pages = self._pages()
        return max(0, (pages[1] - pages[2]) * PAGE - self._least)

    def end(self) -> None:
        """Remove the cap, if any."""
        if self.cap >= 0:
            setrlimit(RLIMIT_DATA, (self._soft, self._hard))
            self.cap = -1

    def peak(self) -> int:
        """Peak of resident bytes beyond the bytes when the cap began; only after `begin(measured=True)`."""
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return max(0, int(line.split()[1]) * 1024 - self._resident)
        return 0

    def _pages(self) -> list[int]:
        return list(map(int, os.pread(self._statm, 128, 0).split()))


def _warm() -> None:
    """Have libraries allocate all buffers now: later a failure would end the process, or leave it without C kernels."""
    library()
    square = np.ones((128, 128))  # smaller matrices need no buffer
    np.linalg.solve(square + np.eye(128), square @ square)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception tells of refused memory, directly or as libraries rephrase it."""
    if isinstance(error, JmarsError):
        return isinstance(error, StorageError) and error.__cause__ is not None and is_out_of_memory(error.__cause__)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    rephrases = isinstance(error, ImportError | RuntimeError | OSError | SystemError)
    rephrases |= type(error).__module__.startswith("pyarrow")
    return rephrases and any(word in str(error).lower() for word in _WORDS)


def may_be_out_of_memory(error: BaseException) -> bool:
    """Whether an exception may stand for refused memory: an import failed, in a library that may be there.

    Without memory Python's parser raises a SyntaxError, and libraries say that a part of them is not installed.
    """
    if isinstance(error, JmarsError):
        return False
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package and package not in sys.modules and find_spec(package) is None:
        return False
    if isinstance(error, ImportError | SyntaxError):
        return True
    return any(frame.f_code.co_name == "<module>" for frame, _ in walk_tb(error.__traceback__))


def _shared(arena_size: int) -> int:
    """Bytes of shared mappings of this process, without the arena."""
    total = 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, mode, _, _, inode, *path = line.split(maxsplit=5)
            if mode[3] == "s" and inode != "0" and path and path[0].startswith(("/dev/zero", "/memfd:", "/dev/shm/")):
                begin, end = (int(one, 16) for one in span.split("-"))
                total += (end - begin) * (end - begin != arena_size)
    return total


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks")
    ] + [("keepcost", ctypes.c_size_t)]


def _free_heap() -> int:
    """Free bytes of the heap, still counted as the process's; takes 100 µs where the heap has many gaps."""
    ask = _mallinfo()
    return 0 if ask is None else int(ask().fordblks)


@cache
def _mallinfo() -> Callable[[], Any] | None:
    """`mallinfo2` of the C library, None where it has none."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    ask.restype = _Mallinfo
    return ask
