"""Ready operands that wait for a worker, by job and rank.

Only decides the order. `fair_share` chooses the job; without a choice the earliest job goes first. Of a job a worker
takes an operand planned for itself, else from the longest queue: chunks of a host lie in memory that all workers
share, so stealing moves no data. While memory is short, rank goes before place: a worker takes the lowest rank of all.
Source: docs/explanation/seeds.md, "Ordering operands".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heappop, heappush

__all__ = ["TaskQueue"]

_BITS = 31  # of an operand and of a rank
_MASK = (1 << _BITS) - 1


class TaskQueue:
    """Heaps by job and worker; a key is (rank, operand) in an integer."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._jobs: dict[int, list[list[int]]] = {}  # by job number; only jobs with waiting operands

    @property
    def jobs(self) -> Collection[int]:
        """Numbers of the jobs with waiting operands."""
        return self._jobs.keys()

    def push(self, worker: int, number: int, rank: int, operand: int) -> None:
        """Add an operand that is planned for `worker`."""
        heaps = self._jobs.get(number)
        if heaps is None:
            heaps = self._jobs[number] = [[] for _ in range(self._workers)]
        heappush(heaps[worker], (rank << _BITS) | operand)

    def pop(
        self,
        worker: int,
        strict: bool = False,
        before: tuple[int, int] | None = None,
        own: bool = False,
        number: int | None = None,
    ) -> tuple[int, int] | None:
        """(Job number, operand) that `worker` should run next; None if there is none.

        Parameters
        ----------
        strict
            Whether rank goes before place, as while memory is short.
        before
            Bound: only operands before this (job number, rank).
        own
            Only operands planned for this worker.
        number
            The job to take from; if none of its operands waits, the earliest job.
        """
        jobs = self._jobs if not own else {one: heaps for one, heaps in self._jobs.items() if heaps[worker]}
        if not jobs:
            return None
        if number is None or number not in jobs:
            number = min(jobs)
        heaps = jobs[number]
        if own:
            heap = heaps[worker]
        elif strict:
            heap = min([heap for heap in heaps if heap])
        else:
            heap = heaps[worker] or max(heaps, key=len)
        if before is not None and (number, heap[0] >> _BITS) >= before:
            return None
        key = heappop(heap)
        if not heap and not any(heaps):
            del self._jobs[number]
        return number, key & _MASK

    def replan(self, number: int, rank: Sequence[int], workers: Sequence[int]) -> None:
        """Give operands of a job new ranks, and new workers where not negative."""
        for worker, heap in enumerate(self._jobs.pop(number, ())):
            for operand in (key & _MASK for key in heap):
                self.push(worker if workers[operand] < 0 else workers[operand], number, rank[operand], operand)

    def drop(self, number: int) -> list[int]:
        """Remove all operands of a job; returns them."""
        return [key & _MASK for heap in self._jobs.pop(number, ()) for key in heap]

    def waiting(self, number: int) -> list[int]:
        """Waiting operands of a job, in no order."""
        return [key & _MASK for heap in self._jobs.get(number, ()) for key in heap]

    def size(self, number: int) -> int:
        """Number of waiting operands of a job."""
        return sum(map(len, self._jobs.get(number, ())))

    def count(self) -> dict[int, int]:
        """Number of waiting operands, by job number."""
        return {number: self.size(number) for number in self._jobs}

    def __len__(self) -> int:
        return sum(map(self.size, self._jobs))

    def __bool__(self) -> bool:
        return bool(self._jobs)
