"""Offers of a job's ready operands to several workers: the first worker that takes an operand has it.

An offer stands in the queues of several workers. The first take withdraws the offer: other workers skip a withdrawn
offer, so a late take gets the next operand, or none. A worker takes an operand just before the run (`dispatch: late`),
so an operand never waits for a blocked worker. An offer to a single worker is a pin.
Source: docs/explanation/seeds.md, "Operand states" (READY); docs/decisions/0046-offers-on-request.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

__all__ = ["Offers"]


class Offers:
    """Offers of a job; a key is an operand's place in the order of operands.

    Examples
    --------
    >>> offers = Offers(workers=3)
    >>> offers.make(key=5, to=(0, 2))
    >>> offers.best(1) is None, offers.best(2), offers.take(0), offers.best(2) is None
    (True, 5, 5, True)
    """

    def __init__(self, workers: int) -> None:
        self._heaps: list[list[int]] = [[] for _ in range(workers)]
        self._open: dict[int, Sequence[int]] = {}  # key: workers that have the offer

    def make(self, key: int, to: Sequence[int]) -> None:
        """Offer an operand to workers; a key with an offer gets more workers."""
        known = self._open.get(key, ())
        self._open[key] = (*known, *to)
        for worker in to:
            if worker not in known:
                heappush(self._heaps[worker], key)

    def best(self, worker: int) -> int | None:
        """The lowest key that a worker may take now."""
        heap, is_open = self._heaps[worker], self._open
        while heap and (heap[0] not in is_open or worker not in is_open[heap[0]]):
            heappop(heap)  # another worker was first
        return heap[0] if heap else None

    def take(self, worker: int) -> int:
        """Take the lowest key of a worker, and withdraw the offer from other workers; raises LookupError without
        an offer.
        """
        key = self.best(worker)
        if key is None:
            raise LookupError(f"nothing is offered to worker {worker}")
        del self._open[key]
        heappop(self._heaps[worker])
        return key

    def grow(self, workers: int) -> None:
        """There are so many workers now."""
        self._heaps += [[] for _ in range(workers - len(self._heaps))]

    def withdraw(self) -> list[tuple[int, Sequence[int]]]:
        """Withdraw all offers; returns their keys and workers."""
        found = list(self._open.items())
        self._open.clear()
        for heap in self._heaps:
            heap.clear()
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)
