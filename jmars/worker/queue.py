"""Operands that wait for a worker, by rank.

`TaskQueue` only decides the order; `execution` takes from it. A worker whose own queue is empty takes from the longest
one: chunks of a host lie in memory that all its workers share, so this moves no data. Where memory is short the order
of the plan goes before the place: a worker takes what comes first of all.
Source: seed 003, "Operand 的排序" (TaskQueueActor).
"""

from __future__ import annotations

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

    def pop(self, worker: int, strict: bool = False, before: tuple[int, int] | None = None) -> tuple[int, int] | None:
        """(job number, operand) that `worker` should run next, or None when there is none.

        Parameters
        ----------
        strict
            Whether rank goes before place: the first of all queues, as where memory is short.
        before
            Only what comes before this (job number, rank).
        """
        if strict:
            heap = min([heap for heap in self.heaps if heap], default=[])
        else:
            heap = self.heaps[worker] or max(self.heaps, key=len)
        if not heap or (before is not None and heap[0] >> _BITS >= (before[0] << _BITS) | before[1]):
            return None
        key = heappop(heap)
        return key >> (2 * _BITS), key & _MASK

    def drop(self, number: int) -> list[int]:
        """Take all operands of a job out; returns them."""
        dropped: list[int] = []
        for heap in self.heaps:
            kept = [key for key in heap if key >> (2 * _BITS) != number]
            dropped += [key & _MASK for key in heap if key >> (2 * _BITS) == number]
            heap[:] = kept
            heapify(heap)
        return dropped

    def __len__(self) -> int:
        return sum(map(len, self.heaps))
