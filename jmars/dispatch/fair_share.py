"""Shares the workers among running jobs: the earliest job gets half of the time, the shortest other job the rest.

So a short job does not wait for a long job, the earliest job is at most twice as late as alone, and all jobs become
the earliest in the end, so that no job starves. Chunks of two jobs are in memory at a time, not of all waiting jobs;
while memory is short dispatch runs the earliest job first instead.
Source: Kleinrock, "Queueing Systems II" (1976), processor sharing; Schrage 1968, shortest remaining time first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

__all__ = ["FairShare"]


class FairShare:
    """Seconds given to jobs while the earliest job and a later job both waited.

    Examples
    --------
    >>> share, operands = FairShare(), {1: 5000, 2: 900, 3: 10}
    >>> share.next({1, 2, 3}, 1, operands.__getitem__)
    1
    >>> share.charge(1, 0.002)
    >>> share.next({1, 2, 3}, 1, operands.__getitem__)
    3
    """

    def __init__(self) -> None:
        self._ahead = 0.0  # seconds that later jobs got beyond the earliest
        self._earliest = 0
        self._both = False  # whether the earliest job and a later one waited at the last `next`

    def next(self, waiting: Collection[int], earliest: int, size_of: Callable[[int], int]) -> int:
        """The job that gets a worker next.

        Parameters
        ----------
        waiting
            Numbers of the jobs with waiting operands, at least one.
        earliest
            Number of the earliest open job, with or without waiting operands.
        size_of
            Gives the number of operands of a job.
        """
        if earliest != self._earliest:
            self._earliest, self._ahead = earliest, 0.0
        self._both = len(waiting) > 1 and earliest in waiting
        if self._both and self._ahead >= 0:
            return earliest
        return min((one for one in waiting if one != earliest), key=lambda one: (size_of(one), one), default=earliest)

    def rest(self) -> None:
        """There is no choice of jobs: seconds until the next `next` are charged to no job."""
        self._both = False

    def charge(self, number: int, seconds: float) -> None:
        """A worker got operands of a job that are predicted to take `seconds`."""
        if self._both:
            self._ahead += -seconds if number == self._earliest else seconds
