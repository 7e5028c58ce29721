"""Accounts for memory retained by user functions between calls, and tells when to recycle a worker.

A function may leave memory allocated in the executor: an imported library, a cache, a leak. Retained memory beyond a
slack is promised to the executor like scratch, so chunks make room. Memory retained after the first functions
counts as their need; an executor that goes on growing is recycled between two batches. Executors measure retained
memory (`RlimitGuard`). Source: docs/explanation/memory.md.
"""

from __future__ import annotations

import logging

from jmars.memory.quota import Quota
from jmars.storage.arena import PAGE
from jmars.units import format_bytes

__all__ = ["RetainedMemory", "bound"]

log = logging.getLogger("jmars.worker")

MOST_PART = 4  # of the memory, shared by all workers: retained memory may grow by that part at most
NAME = "retained memory"  # name of its promises in the quota, by worker


def bound(first: int, slack: int, most: int, recycled: int) -> int:
    """Bytes that a process may retain.

    Parameters
    ----------
    first
        Bytes retained after its first functions.
    slack, most
        Bytes by which that may grow at first, and ever.
    recycled
        How often this worker was recycled already: libraries are imported again, so the bound grows each time.

    Examples
    --------
    >>> [bound(100, 10, 50, recycled) for recycled in range(4)]
    [110, 120, 140, 150]
    """
    return first + min(most, slack << min(recycled, 40))


class RetainedMemory:
    """Retained bytes by worker.

    Parameters
    ----------
    capacity
        Bytes for chunks and scratch.
    slack
        Bytes that an executor may retain without a promise.
    """

    def __init__(self, quota: Quota, capacity: int, slack: int, workers: int) -> None:
        self._quota, self._slack, self._capacity, self._workers = quota, slack, capacity, workers
        self._nbytes: dict[int, int] = {}  # by worker
        self._first: dict[int, int] = {}  # by worker: bytes after the first functions of its process
        self._recycled: dict[int, int] = {}  # by worker: how often it was recycled

    @property
    def excess(self) -> int:
        """Bytes retained beyond the slack, by all workers together."""
        return sum(max(0, nbytes - self._slack) for nbytes in self._nbytes.values())

    def nbytes(self, worker: int) -> int:
        """Bytes that the process of a worker retains."""
        return self._nbytes.get(worker, 0)

    def retains(self, worker: int) -> bool:
        """Whether the process of a worker retains more than the slack."""
        return self._nbytes.get(worker, 0) > self._slack

    def update(self, worker: int, nbytes: int) -> bool:
        """Account for a measurement; returns whether the worker exceeds the bound and must be recycled."""
        self._nbytes[worker] = nbytes
        first = self._first.setdefault(worker, nbytes)
        self._promise(worker, nbytes)
        most = self._capacity // MOST_PART // self._workers
        if nbytes <= bound(first, self._slack, most, self._recycled.get(worker, 0)):
            return False
        self._recycled[worker] = self._recycled.get(worker, 0) + 1
        log.warning("functions left %s behind in worker-%d; its process is replaced", format_bytes(nbytes), worker)
        return True

    def _promise(self, worker: int, nbytes: int) -> None:
        self._quota.adjust(NAME, worker, max(0, nbytes - self._slack) // PAGE * PAGE)

    def count_workers(self, workers: int, slack: int) -> None:
        """There are so many workers now, each with this slack."""
        self._workers, self._slack = workers, slack
        for worker, nbytes in self._nbytes.items():
            self._promise(worker, nbytes)

    def reset(self, worker: int) -> None:
        """A worker has a new process without retained memory."""
        self._nbytes.pop(worker, None)
        self._first.pop(worker, None)
        self._quota.release(NAME, worker)
