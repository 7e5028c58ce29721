"""Stop flags: a 32-bit word in the arena's header per open job; 1 tells executors to stop the job.

A job keeps the stop flag until the job is closed, when no operand runs; no two open jobs share a flag.
"""

from __future__ import annotations

from jmars.errors import ClusterError
from jmars.storage.arena import REMOVALS

__all__ = ["StopFlags"]


class StopFlags:
    """The stop flags of open jobs."""

    def __init__(self, header: memoryview) -> None:
        self._flags = header[:REMOVALS].cast("I")
        self._free = list(range(len(self._flags)))
        self._index: dict[int, int] = {}  # of the flag, by job number

    def check(self) -> None:
        """Raise ClusterError if no flag is free."""
        if not self._free:
            raise ClusterError(f"{len(self._flags)} jobs are open on this cluster; wait for some, or cancel them")

    def open_job(self, number: int) -> None:
        """Give a job a flag; raises ClusterError if none is free."""
        self.check()
        index = self._index[number] = self._free.pop()
        self._flags[index] = 0

    def close_job(self, number: int) -> None:
        """Take a job's flag back."""
        self._free.append(self._index.pop(number))

    def stop(self, number: int) -> None:
        """Set the flag of a job."""
        self._flags[self._index[number]] = 1

    def index(self, number: int) -> int:
        """Index of a job's flag, as executors get it."""
        return self._index[number]

    def close(self) -> None:
        """Release the memory."""
        self._flags.release()
