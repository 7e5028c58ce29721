"""Operands that wait for a worker, by job and rank.

`TaskQueue` only decides the order; `execution` takes from it. Whose turn it is among jobs, `turns` decides; where it
does not, the earliest job goes first. Of one job a worker takes what waits for itself, else from the longest queue:
chunks of a host lie in memory that all its workers share, so this moves no data. Where memory is short the order of the
plan goes before the place: a worker takes what comes first of all.
Source: seed 003, "Operand 的排序" (TaskQueueActor).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heappop, heappush

__all__ = ["TaskQueue"]

_BITS = 31  # of an operand and of a rank
_MASK = (1 << _BITS) - 1


class TaskQueue:
    """One heap per job and worker; a key holds (rank, operand), so comparing keys compares just that."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._jobs: dict[int, list[list[int]]] = {}  # by job number, of those of which something waits

    @property
    def jobs(self) -> Collection[int]:
        """Numbers of the jobs of which something waits."""
        return self._jobs.keys()

    def push(self, worker: int, number: int, rank: int, operand: int) -> None:
        """Let an operand wait for `worker`."""
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
        """(job number, operand) that `worker` should run next, or None when there is none.

        Parameters
        ----------
        strict
            Whether rank goes before place: the first of all queues, as where memory is short.
        before
            Only what comes before this (job number, rank).
        own
            Only what waits for this very worker.
        number
            The job whose turn it is; where nothing of it waits, the earliest one's.
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
        """Operands of a job have other ranks, and other workers where that is 0 or more."""
        for worker, heap in enumerate(self._jobs.pop(number, ())):
            for operand in (key & _MASK for key in heap):
                self.push(worker if workers[operand] < 0 else workers[operand], number, rank[operand], operand)

    def drop(self, number: int) -> list[int]:
        """Take all operands of a job out; returns them."""
        return [key & _MASK for heap in self._jobs.pop(number, ()) for key in heap]

    def waiting(self, number: int) -> list[int]:
        """Operands of a job that wait, in no order."""
        return [key & _MASK for heap in self._jobs.get(number, ()) for key in heap]

    def size(self, number: int) -> int:
        """How many operands of a job wait."""
        return sum(map(len, self._jobs.get(number, ())))

    def count(self) -> dict[int, int]:
        """Operands that wait, by job number."""
        return {number: self.size(number) for number in self._jobs}

    def __len__(self) -> int:
        return sum(map(self.size, self._jobs))

    def __bool__(self) -> bool:
        return bool(self._jobs)
