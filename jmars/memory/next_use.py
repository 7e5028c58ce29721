"""Next use of each chunk, for Belady eviction: the chunk with the furthest next use is evicted first.

The next use of a chunk is the lowest rank among readers that have not finished. That is Belady's rule as far as a run
follows the plan. `storage.chunks` asks when choosing victims.
Source: Belady, "A study of replacement algorithms" (1966).
"""

from __future__ import annotations

from collections.abc import Iterable

from jmars.model.messages import JobTable

__all__ = ["NEVER", "NextUse"]

NEVER = 1 << 62  # next use of a chunk without readers: a result, or a chunk that is about to be freed


class _JobReaders:
    """Finished operands of a job, and operands that stand for chunks stored before the job."""

    __slots__ = ("finished", "given", "table")

    def __init__(self, table: JobTable) -> None:
        self.table = table
        self.finished = bytearray(len(table.program))
        rows = {row for row, program in enumerate(table.programs) if program.gathers}
        if rows:  # such operands read parts of chunks from memory or disk: no chunk stays in memory for them
            for operand, row in enumerate(table.program):
                if row in rows:
                    self.finished[operand] = 1
        self.given = {table.chunk[operand]: operand for operand in table.stored}


class NextUse:
    """The readers of the chunks of all open jobs."""

    def __init__(self) -> None:
        self._jobs: dict[int, _JobReaders] = {}  # by number

    def open_job(self, table: JobTable) -> None:
        """Add the readers of a job."""
        self._jobs[table.number] = _JobReaders(table)

    def close_job(self, number: int) -> None:
        """Remove the readers of a job."""
        del self._jobs[number]

    def finished(self, number: int, operands: Iterable[int]) -> None:
        """Operands have read their inputs for the last time."""
        flags = self._jobs[number].finished
        for operand in operands:
            flags[operand] = 1

    def next_use(self, chunk: int) -> int:
        """Rank of the next operand that reads a chunk; `NEVER` if no operand will."""
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
        """Whether exactly one operand will still read a chunk as a whole."""
        left = 0
        for job in self._jobs.values():
            table, finished = job.table, job.finished
            operand = chunk - table.base
            if not (0 <= operand < len(finished) and table.program[operand] >= 0):
                operand = job.given.get(chunk, -1)
            if operand >= 0:
                left += sum(not finished[reader] for reader in table.readers[operand])
        return left == 1
