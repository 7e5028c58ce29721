"""Whose turn it is where operands of several jobs wait: the earliest job has half of the time, the shortest other half.

So a short job does not stand behind a long one, the earliest job is at most twice as late as if it were alone, and each
becomes the earliest in the end: nobody waits for ever. Chunks of two jobs are held at a time, not of all that wait;
where memory is short nobody asks here, and the earliest job goes first. Used by `dispatching`.
Source: Kleinrock, "Queueing Systems II" (1976), processor sharing; Schrage 1968, the shortest first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

__all__ = ["FairShare"]


class FairShare:
    """Seconds that were given while the earliest job and a later one both waited.

    Examples
    --------
    >>> turns, operands = FairShare(), {1: 5000, 2: 900, 3: 10}
    >>> turns.next({1, 2, 3}, 1, operands.__getitem__)
    1
    >>> turns.gave(1, 0.002)
    >>> turns.next({1, 2, 3}, 1, operands.__getitem__)
    3
    """

    def __init__(self) -> None:
        self._ahead = 0.0  # seconds that later jobs were given more than the earliest
        self._earliest = 0
        self._both = False  # whether the earliest and a later one waited when this was last asked

    def next(self, waiting: Collection[int], earliest: int, size_of: Callable[[int], int]) -> int:
        """The job that should be given a worker.

        Parameters
        ----------
        waiting
            Numbers of the jobs of which something waits, one or more.
        earliest
            Number of the earliest job that runs, whether something of it waits or not.
        size_of
            How many operands a job has.
        """
        if earliest != self._earliest:
            self._earliest, self._ahead = earliest, 0.0
        self._both = len(waiting) > 1 and earliest in waiting
        if self._both and self._ahead >= 0:
            return earliest
        return min((one for one in waiting if one != earliest), key=lambda one: (size_of(one), one), default=earliest)

    def rest(self) -> None:
        """Nobody has a choice: what is given until `next` is asked again counts for no job."""
        self._both = False

    def gave(self, number: int, seconds: float) -> None:
        """A worker was given operands of this job that should take so long."""
        if self._both:
            self._ahead += -seconds if number == self._earliest else seconds
