"""Decides how much memory a user's function is promised.

A function's need is unknown before the first run. The promise is the operand's own figure, and more while memory is
ample; the executor may exceed the promise a little. A function that needs more runs again alone, with all memory that
the host can give beside inputs and result. The peak of that run is promised to later operands of the same program,
until RECENT of them in a row took less: the first call in a process imports libraries and so takes more than later
calls. An operand for which all memory is too little fails. Only counts; `admission` promises, and an executor's
`RlimitGuard` enforces the cap. Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

from jmars.errors import MemoryLimitError
from jmars.storage.arena import PAGE, SLAB
from jmars.units import format_bytes

__all__ = ["UdfMemoryPolicy"]

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
