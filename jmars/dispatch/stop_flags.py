"""Stops running operands through shared memory: a word of the arena's header per open job, 1 to stop.

A job keeps the word until the job is closed, when no operand runs; no two open jobs share a word.
"""

from __future__ import annotations

from jmars.errors import ClusterError
from jmars.storage.arena import HEADER

__all__ = ["StopFlags"]


class StopFlags:
    """Words of the arena's header, by job."""

    def __init__(self, header: memoryview) -> None:
        self._words = header[:HEADER].cast("I")
        self._free = list(range(len(self._words)))
        self._word: dict[int, int] = {}  # by job number

    def check(self) -> None:
        """Raise ClusterError if no word is free."""
        if not self._free:
            raise ClusterError(f"{len(self._words)} jobs are open on this cluster; wait for some, or cancel them")

    def open_job(self, number: int) -> None:
        """Give a job a word; raises ClusterError if none is free."""
        self.check()
        word = self._word[number] = self._free.pop()
        self._words[word] = 0

    def close_job(self, number: int) -> None:
        """Take a job's word back."""
        self._free.append(self._word.pop(number))

    def stop(self, number: int) -> None:
        """Tell executors to stop a job."""
        self._words[self._word[number]] = 1

    def word(self, number: int) -> int:
        """Index of a job's word."""
        return self._word[number]

    def close(self) -> None:
        """Release the memory."""
        self._words.release()
