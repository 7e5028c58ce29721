"""What storage and admission find out, told to the scheduler as facts of operands: moved, lost, missing, refused.

Storage knows chunks by their numbers; the tables of open jobs say whose they are. Used by `execution`.
Source: seed 003, "执行控制" (an error of any step reaches the scheduler).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jmars.errors import ChunkLostError
from jmars.model.failure import Failure
from jmars.model.messages import JobTable, ReportPort
from jmars.model.reports import ChunksLost, InputsMissing, Refused, Spilled
from jmars.storage.chunks import Chunks

__all__ = ["ChunkEventReporter"]


class ChunkEventReporter:
    """The way from chunks to the scheduler.

    Parameters
    ----------
    chunks
        What lies on this host.
    jobs
        Tables of the open jobs, by name.
    scheduler
        Gives the scheduler's port.
    """

    def __init__(self, chunks: Chunks, jobs: Mapping[str, JobTable], scheduler: Callable[[], ReportPort]) -> None:
        self._chunks, self._jobs, self._scheduler = chunks, jobs, scheduler

    def moved(self, chunk: int, on_disk: bool) -> None:
        """A chunk went to disk or came back: tell the job that it belongs to."""
        for table in list(self._jobs.values()):
            operand = chunk - table.base
            if 0 <= operand < len(table.chunk) and table.program[operand] >= 0:
                self._scheduler().report(Spilled(table.job, [operand], on_disk))

    def lost(self, chunk: int, why: str) -> None:
        """A chunk that was stored here cannot be read back."""
        self._scheduler().report(ChunksLost([chunk], why))

    def refused(self, job: str, operand: int, error: Exception) -> None:
        """An operand can never get its memory here, or (ChunkLostError) not before its inputs are here again."""
        if not isinstance(error, ChunkLostError):
            self._scheduler().report(Refused(job, operand, Failure.of(error)))
            return
        table, known = self._jobs[job], self._chunks
        inputs = [table.chunk[i] for i in table.inputs[operand]]
        gone = [chunk for chunk in inputs if chunk not in known.memory and chunk not in known.disk]
        self._scheduler().report(InputsMissing(job, [operand], gone, str(error)))
