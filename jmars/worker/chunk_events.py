"""Reports events of jmars/memory to the scheduler: spilled, lost, refused, inputs missing.

jmars/memory knows chunks by number; the tables of open jobs tell their operands.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jmars.errors import ChunkLostError
from jmars.model.failure import Failure
from jmars.model.messages import JobTable
from jmars.model.reports import ChunksLost, InputsMissing, Refused, Report, Spilled

__all__ = ["ChunkEventReporter"]


class ChunkEventReporter:
    """Turns events of chunks into reports about operands.

    Parameters
    ----------
    is_here
        Tells whether a chunk is on this host.
    jobs
        Gives the tables of the open jobs, by name.
    report
        Sends a report to the scheduler.
    """

    def __init__(
        self,
        is_here: Callable[[int], bool],
        jobs: Callable[[], Mapping[str, JobTable]],
        report: Callable[[Report], None],
    ) -> None:
        self._is_here, self._jobs, self._report = is_here, jobs, report

    def moved(self, chunk: int, on_disk: bool) -> None:
        """A chunk was spilled or reloaded: report the operand."""
        for table in list(self._jobs().values()):
            operand = chunk - table.base
            if 0 <= operand < len(table.chunk) and table.program[operand] >= 0:
                self._report(Spilled(table.job, [operand], on_disk))

    def lost(self, chunk: int, why: str) -> None:
        """A chunk that was stored here cannot be read back."""
        self._report(ChunksLost([chunk], why))

    def refused(self, job: str, operand: int, error: Exception) -> None:
        """An operand can never get memory here or, after a ChunkLostError, not before all inputs are here again."""
        if not isinstance(error, ChunkLostError):
            self._report(Refused(job, operand, Failure.of(error)))
            return
        table = self._jobs()[job]
        inputs = [table.chunk[i] for i in table.inputs[operand]]
        missing = [chunk for chunk in inputs if not self._is_here(chunk)]
        self._report(InputsMissing(job, [operand], missing, str(error)))
