"""Detects allocation livelock: a process that retries a failing malloc for ever.

Some libraries (OpenBLAS while it is loaded) retry a refused allocation without end and hold the interpreter's lock
meanwhile, so no MemoryError is raised. Such a process never waits and spends nearly all time in the system, while
memory, page faults, reads and writes stand still. A process that lists folders or serves sockets looks the same, so
only a process that could not get what such libraries ask for at once is suspected; after a wrong suspicion the operand
runs again, with more memory. Pure: samples in, process ids out.
Source: Linux proc_pid_stat(5), proc_pid_io(5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["LIVELOCK_SECONDS", "MOST_ASKED", "AllocationLivelockDetector", "ProcessUsage"]

LIVELOCK_SECONDS = 4.0
SYSTEM_SHARE = 2 / 3  # least share of system time
MOST_ASKED = 2**27  # bytes of the largest allocation that a library retries: OpenBLAS's buffers
BUSY = 0.1  # least share of a core, as many processes may wait for it


class ProcessUsage(NamedTuple):
    """Resources that a process has used, sampled from /proc."""

    waits: bool  # in the system, for a lock or a device
    user: float  # seconds
    system: float  # seconds
    still: tuple[int, ...]  # private pages, page faults, reads and writes
    left: int = 0  # bytes that it may still allocate


class AllocationLivelockDetector:
    """Processes without progress.

    Examples
    --------
    >>> detector = AllocationLivelockDetector()
    >>> [detector.look(t, {7: ProcessUsage(False, 0.1 * t, 0.8 * t, (20, 5, 0))}) for t in (0.0, 2.0, 4.0)]
    [[], [], [7]]
    """

    def __init__(self) -> None:
        self._since: dict[int, tuple[float, ProcessUsage]] = {}  # by pid: when progress stopped, and the usage then

    def look(self, now: float, uses: Mapping[int, ProcessUsage]) -> list[int]:
        """Add samples by pid, taken at `now` monotonic seconds; returns livelocked pids, once each."""
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
