"""Which processes ask the system for memory in vain, again and again, and never give up: pure, told what is seen.

Some libraries (OpenBLAS while it is loaded) ask once more when the system refuses them memory, for ever, and hold the
interpreter's lock meanwhile, so no MemoryError is raised and nobody is told. Such a process never waits, nearly all its
time is the system's, and nothing else about it moves: its memory, its page faults, what it reads and writes. All that
is so, too, while folders are listed or sockets served, so nobody begs who may still take what such libraries ask for at
once; who is suspected wrongly runs again, with more. Used by `care` for functions under a cap.
Source: RELIABILITY 4.2, row 9; Linux's proc_pid_stat(5), proc_pid_io(5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["LIVELOCK_SECONDS", "MOST_ASKED", "AllocationLivelockDetector", "ProcessUsage"]

LIVELOCK_SECONDS = 4.0
SYSTEM_SHARE = 2 / 3  # of its time that such a process spends in the system, at least
MOST_ASKED = 2**27  # bytes that such a library asks for at once, at most: OpenBLAS's buffers
BUSY = 0.1  # of a core that it takes, at least: where many wait for one


class ProcessUsage(NamedTuple):
    """What a process had used when it was looked at."""

    waits: bool  # whether it waits for something
    user: float  # seconds
    system: float  # seconds
    still: tuple[int, ...]  # pages that it has for itself, its page faults, its reads and writes
    left: int = 0  # bytes that it may take yet


class AllocationLivelockDetector:
    """Processes that may be asking in vain.

    Examples
    --------
    >>> begging = AllocationLivelockDetector()
    >>> [begging.look(t, {7: ProcessUsage(False, 0.1 * t, 0.8 * t, (20, 5, 0))}) for t in (0.0, 2.0, 4.0)]
    [[], [], [7]]
    """

    def __init__(self) -> None:
        self._since: dict[int, tuple[float, ProcessUsage]] = {}  # by pid: when progress stopped, and the usage then

    def look(self, now: float, uses: Mapping[int, ProcessUsage]) -> list[int]:
        """Take in what is seen at `now`, in seconds of a clock that never goes back; returns who begs, each once."""
        self._since = {pid: seen for pid, seen in self._since.items() if pid in uses}
        found = []
        for pid, use in uses.items():
            start, first = self._since.setdefault(pid, (now, use))
            if use.waits or use.still != first.still or use.left > MOST_ASKED:
                self._since[pid] = (now, use)
            elif now - start >= LIVELOCK_SECONDS:
                del self._since[pid]
                system, busy = use.system - first.system, use.user + use.system - first.user - first.system
                if busy >= BUSY * (now - start) and system >= SYSTEM_SHARE * busy:
                    found.append(pid)
        return found
