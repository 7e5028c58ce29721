"""Open jobs of a host, by name and by number. Source: docs/explanation/seeds.md, "Execution in a worker"."""

from __future__ import annotations

from jmars.dispatch.programs import ProgramTable
from jmars.dispatch.stop_flags import StopFlags
from jmars.model.messages import JobTable

__all__ = ["OpenJobs"]


class OpenJobs:
    """Jobs that the scheduler opened and has not closed.

    Attributes
    ----------
    stopping
        Numbers of jobs whose operands were told to stop.
    ending
        Names of jobs to close as soon as none of their operands runs.
    tight
        Numbers of jobs whose chunks may not fit in memory together.
    slow
        By job number, workers that take only operands planned for them.
    suspects
        (Job number, operand) of operands that ran when a worker died; each runs alone.
    """

    def __init__(self, header: memoryview) -> None:
        self.by_number: dict[int, JobTable] = {}
        self.by_name: dict[str, JobTable] = {}
        self.stopping: set[int] = set()
        self.ending: set[str] = set()
        self.tight: set[int] = set()
        self.slow: dict[int, frozenset[int]] = {}
        self.suspects: set[tuple[int, int]] = set()
        self.flags = StopFlags(header)
        self.programs = ProgramTable()

    def open(self, table: JobTable) -> None:
        """Open a job; too many jobs raise ClusterError; a user's hash may raise; both change no state."""
        self.flags.check()
        self.programs.open_job(table)
        self.flags.open_job(table.number)
        self.by_number[table.number] = self.by_name[table.job] = table
        if table.tight:
            self.tight.add(table.number)

    def close(self, table: JobTable) -> bool:
        """Forget a job; returns whether executors must forget all programs."""
        number = table.number
        self.ending.discard(table.job)
        del self.by_name[table.job], self.by_number[number]
        self.tight.discard(number)
        self.slow.pop(number, None)
        self.stopping.discard(number)
        self.suspects = {suspect for suspect in self.suspects if suspect[0] != number}
        self.flags.close_job(number)
        return self.programs.close_job(table)

    def stop(self, table: JobTable) -> None:
        """Have executors stop a job."""
        self.flags.stop(table.number)
        self.stopping.add(table.number)

    def is_slow(self, worker: int) -> bool:
        """Whether a worker takes only operands planned for that worker."""
        return any(worker in slow for slow in self.slow.values())
