"""When each chunk is read next, so that memory is taken from what is read last.

A chunk's next use is the lowest rank among its readers that have not finished: Belady's rule, as far as a run follows
its plan. Owned by `execution`, asked by `storage.chunks` for victims.
Source: Belady 1966; PLANNING 0.4 and 7 ("evicts the chunk whose next local use has the highest rank").
"""

from __future__ import annotations

from collections.abc import Iterable

from jmars.model.messages import JobTable

__all__ = ["NEVER", "NextUse"]

NEVER = 1 << 62  # what no running job reads any more: a result, or a chunk that is about to be freed


class _Opened:
    """A job, which of its operands have finished, and which of its operands stand for chunks that were there before."""

    __slots__ = ("finished", "given", "table")

    def __init__(self, table: JobTable) -> None:
        self.table = table
        self.finished = bytearray(len(table.program))
        rows = {row for row, program in enumerate(table.programs) if program.gathers}
        if rows:  # these read parts of chunks, from wherever they lie: for them none must stay in memory
            for operand, row in enumerate(table.program):
                if row in rows:
                    self.finished[operand] = 1
        self.given = {table.chunk[operand]: operand for operand in table.stored}


class NextUse:
    """The readers of the chunks of all open jobs."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Opened] = {}  # by number

    def open_job(self, table: JobTable) -> None:
        """A job may read chunks from now on."""
        self._jobs[table.number] = _Opened(table)

    def close_job(self, number: int) -> None:
        """It reads nothing any more."""
        del self._jobs[number]

    def finished(self, number: int, operands: Iterable[int]) -> None:
        """These have read their inputs for the last time."""
        flags = self._jobs[number].finished
        for operand in operands:
            flags[operand] = 1

    def next_use(self, chunk: int) -> int:
        """Rank of the next operand that reads a chunk; `NEVER` where none will."""
        soonest = NEVER
        for job in self._jobs.values():
            table, finished = job.table, job.finished
            operand = chunk - table.base
            if not (0 <= operand < len(finished) and table.program[operand] >= 0):
                operand = job.given.get(chunk, -1)
                if operand < 0:
                    continue
            rank = table.rank
            for reader in table.readers[operand]:
                if not finished[reader] and rank[reader] < soonest:
                    soonest = rank[reader]
        return soonest

    def has_one_reader(self, chunk: int) -> bool:
        """Whether one operand alone still reads a chunk, and is not just fetching a part of it."""
        left = 0
        for job in self._jobs.values():
            table, finished = job.table, job.finished
            operand = chunk - table.base
            if not (0 <= operand < len(finished) and table.program[operand] >= 0):
                operand = job.given.get(chunk, -1)
            if operand >= 0:
                left += sum(not finished[reader] for reader in table.readers[operand])
        return left == 1
