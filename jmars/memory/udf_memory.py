"""How much memory a user's function is granted: nobody knows what it takes before it ran.

It is promised what its operand says, more where memory is ample, and may take a little beyond. One that wants more is
run again alone, with all that the host can give beside its inputs and its result; what it took then is promised to the
next ones of its program from the start, until RECENT of them in a row took less: the first call in a process, which
imports a library, takes more than those after it. One for which all is too little fails. Only counts; `admission`
promises, and `granted` holds the function to it. Source: seed 003, "内存管理"; RELIABILITY 4.2, row 9.
"""

from __future__ import annotations

from jmars.errors import MemoryLimitError
from jmars.storage.arena import PAGE, SLAB
from jmars.units import format_bytes

__all__ = ["UdfMemoryPolicy"]

LEAST_SLACK = 2**24  # bytes that a function may take beyond its promise, in any cluster
SLACK_PART = 16  # of the memory, shared by all workers: less than the tenth by which a limit may be missed
SPARE_PART = 32  # of the memory that is left free where one gets all: chunks lie in pieces
MARGIN = 1.25  # by which what one took is promised to the next
RECENT = 8  # calls after which only what these took is promised; twice as many each time that this was too little


class UdfMemoryPolicy:
    """What functions are granted on one host.

    Parameters
    ----------
    capacity
        Bytes for chunks and scratch.
    workers
        Executors that may run functions at once.

    Attributes
    ----------
    limit
        The user's memory_limit, for errors; 0 where there is none.

    Examples
    --------
    >>> grants = UdfMemoryPolicy(capacity=2**30, workers=2)
    >>> grants.demand(1, 7, program=0, work=100, others=0, resident=2**29)
    (100, 100)
    >>> grants.wants_all(1, 7, program=0), grants.wants_all(1, 7, program=0)
    (True, False)
    """

    def __init__(self, capacity: int, workers: int) -> None:
        self.capacity, self.workers, self.limit = capacity, workers, 0
        self.slack = max(LEAST_SLACK, capacity // SLACK_PART // workers)
        self._peaks: dict[int, int] = {}  # bytes promised by program, of those of which one got all
        self._recent: dict[int, list[int]] = {}  # by program: what those took that took less
        self._enough: dict[int, int] = {}  # by program: how many of them, where it is not RECENT
        self._all: dict[tuple[int, int], int] = {}  # (job number, operand) that get all there is: their programs

    def demand(self, number: int, operand: int, program: int, work: int, others: int, resident: int) -> tuple[int, int]:
        """(Bytes to promise if they are there, bytes to wait for).

        Parameters
        ----------
        number
            Of the job.
        work
            Bytes that the operand says it takes.
        others
            Bytes that cannot be had: its inputs, its result, what is pinned.
        resident
            Bytes of the arena that were touched: below half of it memory is ample.
        """
        need = max(work, self._peaks.get(program, 0))
        most = (self.capacity - others - self.capacity // SPARE_PART - SLAB) // PAGE * PAGE
        if (number, operand) in self._all or (program in self._all.values() and program not in self._peaks):
            need = max(work, most)  # those of one program wait until one has shown what they take
            return need, need
        need = max(work, min(need, most))
        return need + max(0, self.capacity // 2 - resident) // (2 * self.workers), need

    def is_plain(self, program: int) -> bool:
        """Whether no function of a program is known to take more than each may take beyond what its operand says."""
        return self._peaks.get(program, 0) <= self.slack and program not in self._all.values()

    def gets_all(self, number: int, operand: int) -> bool:
        """Whether an operand gets all there is."""
        return (number, operand) in self._all

    def is_measured(self, number: int, operand: int, program: int) -> bool:
        """Whether what an operand takes is to be measured."""
        return self._peaks.get(program, 0) > self.slack or self.gets_all(number, operand)

    def wants_all(self, number: int, operand: int, program: int) -> bool:
        """An operand wanted more than it was granted: whether it is run again with all; False where it had that."""
        if (number, operand) in self._all:
            return False
        self._all[number, operand] = program
        if program in self._peaks:
            self._enough[program] = 2 * self._enough.get(program, RECENT)
        return True

    def took(self, number: int, operand: int, program: int, peak: int) -> bool:
        """One that was measured has ended; whether the next ones of its program are promised something else now."""
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
        """The error of an operand for which all is too little.

        Parameters
        ----------
        what
            Its name.
        peak, cap
            Bytes that it had taken, and that it might take.
        text
            What its own error said.
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
