"""Scratch memory promised to running operands on a host.

Chunks and scratch share a budget, the arena's: a promise is slots that are never written, so an operand that needs
scratch stands in the same queue as an operand that needs room for an output, and chunks are spilled for both.
Source: docs/explanation/seeds.md, "Memory management".

Accounts for memory retained by user functions between calls, and tells when to recycle a worker.

A function may leave memory allocated in the executor: an imported library, a cache, a leak. Retained memory beyond a
slack is promised to the executor like scratch, so chunks make room. Memory retained after the first functions, and
after imports, counts as their need; an executor that goes on growing is recycled between two batches. Executors measure
retained memory (`RlimitGuard`). Source: docs/explanation/memory.md.

Decides how much memory a user's function is promised.

A function's need is unknown before the first run. The promise is the operand's own figure, and more while memory is
ample; the executor may exceed the promise a little. A function that needs more runs again alone, with all memory that
the host can give beside inputs and result. The peak of that run is promised to later operands of the same program,
until RECENT of them in a row took less: the first call in a process imports libraries and so takes more than later
calls. An operand for which all memory is too little fails. Only counts; `admission` promises, and an executor's
`RlimitGuard` enforces the cap. Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

import logging

from jmars.errors import MemoryLimitError
from jmars.model.limits import PAGE
from jmars.model.status import GRAPHS
from jmars.storage.arena import SLAB, Allocator
from jmars.units import format_bytes


class Quota:
    """Promises by operand: bytes of process memory that chunks leave free."""

    def __init__(self, arena: Allocator) -> None:
        self._arena = arena
        self._slots: dict[tuple[str, int], list[int]] = {}  # (job, operand): slots that represent its scratch
        self.private: dict[tuple[str, int], dict[int, int]] = {}  # (job, operand): private slot by chunk

    @property
    def granted(self) -> int:
        """Bytes promised now, and bytes of private chunks."""
        own = [slot for slots in self.private.values() for slot in slots.values()]
        return self.unwritten + sum(map(self._arena.size_of, own))

    @property
    def unwritten(self) -> int:
        """Bytes promised now."""
        return sum(self._arena.size_of(slot) for promise in self._slots.values() for slot in promise)

    @property
    def of_processes(self) -> list[tuple[int, int]]:
        """(Offset, bytes) of slots promised to processes; slots of operands may have content."""
        slots = [slot for (job, _), promise in self._slots.items() if job in (GRAPHS, NAME) for slot in promise]
        return [(slot, self._arena.size_of(slot)) for slot in slots]

    def request(self, job: str, operand: int, size: int) -> bool:
        """Promise `size` bytes if they are free now; returns whether they were."""
        slots = self._arena.reserve(size)
        if slots is None:
            return False
        self._slots[job, operand] = slots
        return True

    def add(self, job: str, operand: int, slots: list[int]) -> None:
        """Add slots that an operand got from the allocation queue."""
        self._slots.setdefault((job, operand), []).extend(slots)

    def promised(self, job: str, operand: int) -> int:
        """Bytes promised to an operand."""
        return sum(map(self._arena.size_of, self.slots(job, operand)))

    def slots(self, job: str, operand: int) -> list[int]:
        """Offsets of the slots that represent the memory promised to an operand."""
        return self._slots.get((job, operand), [])

    def adjust(self, job: str, operand: int, size: int) -> int:
        """Change a promise to `size` bytes, or to all that is free; returns the bytes promised now."""
        self.release(job, operand)
        size = min(size, self._arena.free_pages)
        if size:
            self.request(job, operand, size)
        return size

    def release(self, job: str, operand: int) -> None:
        """Free the slots promised to an operand, if any."""
        for slot in self._slots.pop((job, operand), ()):
            self._arena.free(slot)
        if self.private and (own := self.private.pop((job, operand), None)):
            for slot in own.values():
                self._arena.free(slot)

    def hand_over(self, job: str, operand: int, to: str) -> None:
        """Move a promise from a job's name to a second name."""
        slots = self._slots.pop((job, operand), None)
        if slots is not None:
            self._slots[to, operand] = slots


log = logging.getLogger("jmars.worker")

MOST_PART = 4  # of the memory, shared by all workers: retained memory may grow by that part at most
MOST_IMPORTS = 8  # after which a process is held to the bound as if nothing was imported
NAME = "retained memory"  # name of its promises in the quota, by worker


def bound(first: int, slack: int, most: int, recycled: int) -> int:
    """Bytes that a process may retain.

    Parameters
    ----------
    first
        Bytes retained after its first functions, or after the last imports.
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
        self._first: dict[int, int] = {}  # by worker: bytes after the first functions, or the last imports
        self._imports: dict[int, int] = {}  # by worker: imports of its process that moved `_first`
        self._recycled: dict[int, int] = {}  # by worker: number of recyclings

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

    def update(self, worker: int, nbytes: int, imported: bool = False) -> bool:
        """Account for a measurement; returns whether the worker exceeds the bound and must be recycled.

        `imported`: functions imported modules, as the next process would again, so the bound begins anew, a few times.
        """
        self._nbytes[worker] = nbytes
        if imported and self._imports.setdefault(worker, 0) < MOST_IMPORTS:
            self._imports[worker] += 1
            self._first.pop(worker, None)
        first = self._first.setdefault(worker, nbytes)
        self.settle()
        most = self._capacity // MOST_PART // self._workers
        if nbytes <= bound(first, self._slack, most, self._recycled.get(worker, 0)):
            return False
        self._recycled[worker] = self._recycled.get(worker, 0) + 1
        log.warning("functions left %s behind in worker-%d; its process is replaced", format_bytes(nbytes), worker)
        return True

    def settle(self) -> None:
        """Promise retained memory; a promise without room, as beside a function with all memory, is made later."""
        for worker, nbytes in self._nbytes.items():
            size = max(0, nbytes - self._slack) // PAGE * PAGE
            if self._quota.promised(NAME, worker) != size:
                self._quota.adjust(NAME, worker, size)

    def count_workers(self, workers: int, slack: int) -> None:
        """There are so many workers now, each with this slack."""
        self._workers, self._slack = workers, slack
        self.settle()

    def reset(self, worker: int) -> None:
        """A worker has a new process without retained memory."""
        for record in (self._nbytes, self._first, self._imports):
            record.pop(worker, None)
        self._quota.release(NAME, worker)


LEAST_SLACK = 2**24  # bytes by which a function may exceed its promise, at least
SLACK_PART = 16  # of the memory, shared by all workers: less than the tenth by which a limit may be missed
SPARE_PART = 32  # of the memory stays free beside a function that gets all: free memory is fragmented
MARGIN = 1.25  # promise to later operands, as a multiple of a measured peak
RECENT = 8  # calls after which their peak replaces a higher promise; doubled each time that this was too little


class UdfMemoryPolicy:
    """Promises to functions on a host.

    Parameters
    ----------
    capacity
        Bytes for chunks and scratch.
    workers
        Executors that may run functions at once.

    limit
        The user's memory_limit, for errors; 0 if there is none.

    Examples
    --------
    >>> grants = UdfMemoryPolicy(capacity=2**30, workers=2)
    >>> grants.demand(1, 7, program=0, work=100, others=0, resident=2**29)
    (100, 100)
    >>> grants.wants_all(1, 7, program=0), grants.wants_all(1, 7, program=0)
    (True, False)
    """

    def __init__(self, capacity: int, workers: int, limit: int = 0) -> None:
        self.capacity, self.workers, self.limit = capacity, workers, limit
        self._peaks: dict[int, int] = {}  # bytes promised by program, after an operand of it got all memory
        self._recent: dict[int, list[int]] = {}  # by program: lower peaks in a row
        self._enough: dict[int, int] = {}  # by program: how many are enough, if not RECENT
        self._all: dict[tuple[int, int], int] = {}  # (job number, operand) that get all memory: its program

    @property
    def slack(self) -> int:
        """Bytes by which a function may exceed its promise."""
        return max(LEAST_SLACK, self.capacity // SLACK_PART // self.workers)

    def demand(self, number: int, operand: int, program: int, work: int, others: int, resident: int) -> tuple[int, int]:
        """Bytes to promise if they are free, and bytes to wait for.

        Parameters
        ----------
        number
            The job's.
        work
            Bytes of scratch by the operand's own figure.
        others
            Bytes that are unavailable: inputs, result, pinned chunks.
        resident
            Bytes of the arena that were touched; memory is ample below half of the capacity.
        """
        need = max(work, self._peaks.get(program, 0))
        most = (self.capacity - others - self.capacity // SPARE_PART - SLAB) // PAGE * PAGE
        if (number, operand) in self._all or (program in self._all.values() and program not in self._peaks):
            need = max(work, most)  # operands of a program wait until one of them was measured
            return need, need
        need = max(work, min(need, most))
        return need + max(0, self.capacity // 2 - resident) // (2 * self.workers), need

    def is_plain(self, program: int) -> bool:
        """Whether no function of a program is known to exceed a promise by more than the slack."""
        return self._peaks.get(program, 0) <= self.slack and program not in self._all.values()

    def gets_all(self, number: int, operand: int) -> bool:
        """Whether an operand gets all memory."""
        return (number, operand) in self._all

    def is_measured(self, number: int, operand: int, program: int) -> bool:
        """Whether the peak of an operand is to be measured."""
        return self._peaks.get(program, 0) > self.slack or self.gets_all(number, operand)

    def wants_all(self, number: int, operand: int, program: int) -> bool:
        """An operand exceeded the cap; returns whether to run again with all memory, False after a run with all."""
        if (number, operand) in self._all:
            return False
        self._all[number, operand] = program
        if program in self._peaks:
            self._enough[program] = 2 * self._enough.get(program, RECENT)
        return True

    def took(self, number: int, operand: int, program: int, peak: int) -> bool:
        """Learn a measured peak; returns whether the promise to later operands of the program changed."""
        had_all = self._all.pop((number, operand), None) is not None
        before, taken = self._peaks.get(program, 0), int(MARGIN * peak)
        if had_all or taken > before:
            self._peaks[program] = max(before, taken)
            self._recent.pop(program, None)
            return True
        recent = self._recent.setdefault(program, [])
        recent.append(taken)
        if len(recent) < self._enough.get(program, RECENT):
            return False
        self._peaks[program] = max(self._recent.pop(program))
        return True

    def too_much(self, what: str, peak: int, cap: int, text: str) -> MemoryLimitError:
        """The error of an operand that needs more than all memory.

        Parameters
        ----------
        what
            Its name.
        peak, cap
            Bytes that the function had taken, and its cap.
        text
            Text of the error that the function raised.
        """
        said = f" ({text})" if text else ""
        taken = format_bytes(peak) if peak < cap else "all"
        limit = f"memory_limit {format_bytes(self.limit)}" if self.limit else "the memory limit"
        return MemoryLimitError(
            f"{what} wants more memory than there is: it ran alone, had taken {taken} of the {format_bytes(cap)} that "
            f"it could take, and asked for more{said}; {limit} leaves {format_bytes(self.capacity)} for arrays and "
            f"functions together, and a function may take {format_bytes(self.slack)} beyond. Use a smaller "
            "chunk_size, do it in parts, or raise memory_limit"
        )

    def close_job(self, number: int) -> None:
        """Forget a job."""
        self._all = {one: program for one, program in self._all.items() if one[0] != number}

    def forget(self) -> None:
        """Programs get new numbers."""
        self._peaks.clear()
        self._recent.clear()
        self._enough.clear()
