"""Operands that wait for a worker, by rank.

`TaskQueue` only decides the order; `execution` takes from it. Earlier jobs go before later ones, wherever they wait.
Of one job a worker takes what waits for itself, else from the longest queue: chunks of a host lie in memory that all
its workers share, so this moves no data. Where memory is short the order of the plan goes before the place: a worker
takes what comes first of all.
Source: seed 003, "Operand 的排序" (TaskQueueActor).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

__all__ = ["TaskQueue"]

_BITS = 31  # of an operand and of a rank
_MASK = (1 << _BITS) - 1


class TaskQueue:
    """One heap per worker; a key holds (job number, rank, operand), so comparing keys compares just that."""

    def __init__(self, workers: int) -> None:
        self.heaps: list[list[int]] = [[] for _ in range(workers)]

    def push(self, worker: int, number: int, rank: int, operand: int) -> None:
        """Let an operand wait for `worker`."""
        heappush(self.heaps[worker], (number << (2 * _BITS)) | (rank << _BITS) | operand)

    def pop(
        self,
        worker: int,
        strict: bool = False,
        before: tuple[int, int] | None = None,
        own: bool = False,
        alone: bool = False,
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
        alone
            Whether all that waits is of one job, so that nobody need look which is the earliest.
        """
        if own:
            heap = self.heaps[worker]
        elif strict:
            heap = min([heap for heap in self.heaps if heap], default=[])
        else:
            heap = self.heaps[worker] or max(self.heaps, key=len)
            if heap and not alone:
                first = min([one[0] for one in self.heaps if one]) >> (2 * _BITS)
                if heap[0] >> (2 * _BITS) != first:
                    heap = max([one for one in self.heaps if one and one[0] >> (2 * _BITS) == first], key=len)
        if not heap or (before is not None and heap[0] >> _BITS >= (before[0] << _BITS) | before[1]):
            return None
        key = heappop(heap)
        return key >> (2 * _BITS), key & _MASK

    def replan(self, number: int, rank: Sequence[int], workers: Sequence[int]) -> None:
        """Operands of a job have other ranks, and other workers where that is 0 or more."""
        moving: list[tuple[int, int]] = []
        for worker, heap in enumerate(self.heaps):
            mine = [key & _MASK for key in heap if key >> (2 * _BITS) == number]
            if mine:
                heap[:] = [key for key in heap if key >> (2 * _BITS) != number]
                heapify(heap)
                moving += [(worker if workers[one] < 0 else workers[one], one) for one in mine]
        for worker, operand in moving:
            self.push(worker, number, rank[operand], operand)

    def drop(self, number: int) -> list[int]:
        """Take all operands of a job out; returns them."""
        dropped: list[int] = []
        for heap in self.heaps:
            kept = [key for key in heap if key >> (2 * _BITS) != number]
            dropped += [key & _MASK for key in heap if key >> (2 * _BITS) == number]
            heap[:] = kept
            heapify(heap)
        return dropped

    def count(self) -> dict[int, int]:
        """Operands that wait, by job number."""
        found: dict[int, int] = {}
        for heap in self.heaps:
            for key in heap:
                number = key >> (2 * _BITS)
                found[number] = found.get(number, 0) + 1
        return found

    def __len__(self) -> int:
        return sum(map(len, self.heaps))
