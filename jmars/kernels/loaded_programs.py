"""Programs that travel as pickles: by digest, and loaded and compiled once by all threads of a process.

Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import cloudpickle

from jmars.kernels.compile import compile_program
from jmars.kernels.dtypes import refuse_pointers
from jmars.kernels.program import Program
from jmars.model.limits import REMEMBERED_PROGRAMS

__all__ = ["LoadedPrograms", "forget_pickles", "pickled"]

REMEMBERED_BYTES = 2**26  # of their pickles: functions of users may bring arrays along

Entry = TypeVar("Entry")


class _Remembered(Generic[Entry]):
    """A cache for several threads, bounded in entries and bytes: a full cache drops the half that was used longest ago.

    Parameters
    ----------
    dropped
        Called after entries were dropped.
    """

    def __init__(self, dropped: Callable[[], None] = lambda: None) -> None:
        self._lock, self._dropped = threading.Lock(), dropped
        self._found: dict[Hashable, tuple[Entry, int]] = {}
        self._nbytes = 0

    def find(self, key: Hashable) -> Entry | None:
        """The entry of a key."""
        with self._lock:
            pair = self._found.pop(key, None)
            if pair is None:
                return None
            self._found[key] = pair  # the last one to be dropped
            return pair[0]

    def add(self, key: Hashable, entry: Entry, nbytes: int) -> Entry:
        """Add an entry; returns the entry of the key, perhaps of a thread that was faster."""
        with self._lock:
            if key in self._found:
                return self._found[key][0]
            is_full = len(self._found) >= REMEMBERED_PROGRAMS or self._nbytes + nbytes > REMEMBERED_BYTES
            if is_full:
                for old in list(self._found)[: (len(self._found) + 1) // 2]:
                    self._nbytes -= self._found.pop(old)[1]
            self._found[key] = entry, nbytes
            self._nbytes += nbytes
        if is_full:
            self._dropped()
        return entry

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._found.clear()
            self._nbytes = 0
        self._dropped()


class _Loaded(NamedTuple):
    """A program with its kernel."""

    program: Program
    kernel: Any


class _Loading:
    """A program that the first thread in need loads and compiles; a failed load is tried again."""

    def __init__(self, blob: bytes) -> None:
        self._blob, self._lock = blob, threading.Lock()
        self._loaded: _Loaded | None = None

    def loaded(self) -> _Loaded:
        """The program; raises the exceptions of unpickling a user's object."""
        with self._lock:
            if self._loaded is None:
                program = cloudpickle.loads(self._blob)
                for one in (program.output, *program.inputs):
                    refuse_pointers(one.dtype)  # unpickling calls no constructor
                self._loaded = _Loaded(program, compile_program(program))
                self._blob = b""
            return self._loaded


class LoadedPrograms:
    """The programs of a process, with their kernels.

    Parameters
    ----------
    dropped
        Called after programs were dropped, when their kernels have been.
    """

    def __init__(self, dropped: Callable[[], None] = lambda: None) -> None:
        def clear() -> None:
            compile_program.cache_clear()
            dropped()

        self._loading: _Remembered[_Loading] = _Remembered(clear)  # by digest

    def get(self, digest: bytes, blob: bytes) -> _Loaded:
        """The program with this pickle; raises the exceptions of unpickling a user's object."""
        found = self._loading.find(digest)
        if found is None:
            found = self._loading.add(digest, _Loading(blob), len(blob))
        return found.loaded()

    def clear(self) -> None:
        """Drop all programs, and the functions of users that they hold."""
        self._loading.clear()


_pickles: _Remembered[tuple[bytes, bytes]] = _Remembered()  # by program


def pickled(program: Program) -> tuple[bytes, bytes]:
    """Digest and pickle of a program; raises whatever a user's object raises when it is hashed or pickled."""
    found = _pickles.find(program)
    if found is None:
        blob = cloudpickle.dumps(program)
        digest = hashlib.blake2b(blob, digest_size=16).digest()
        found = _pickles.add(program, (digest, blob), len(blob))
    return found


def forget_pickles() -> None:
    """Drop the pickles of this process, and the functions of users that they hold."""
    _pickles.clear()
