"""The jobs that are open on a host, and what is shared by all who run them.

`OpenJobs` knows the jobs by name and number and what holds for each; `WorkerContext` is the host as its parts see it:
memory, queue, workers, and the scheduler.
Source: seed 003, "Worker 中的执行细节".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jmars.dispatch.ledger import Ledger
from jmars.dispatch.task_queue import TaskQueue
from jmars.dispatch.worker_state import Programs, StopFlags, Worker
from jmars.memory.buffer_manager import BufferManager
from jmars.memory.next_use import NextUse
from jmars.model.messages import JobTable, ReportPort
from jmars.storage.arena import Arena
from jmars.storage.chunks import Chunks
from jmars.worker.admission import Admission
from jmars.worker.chunk_events import ChunkEventReporter

__all__ = ["OpenJobs", "WorkerContext"]


class OpenJobs:
    """Open jobs.

    Attributes
    ----------
    stopping
        Numbers of jobs whose operands are told to stop.
    ending
        Names of jobs to be closed as soon as none of their operands runs.
    tight
        Numbers of jobs whose chunks may not fit in memory together.
    slow
        By job number, workers that take only what is planned for them.
    suspects
        (Job number, operand): one of them ended a worker, so each runs alone.
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
        self.programs = Programs()
        self.uses = NextUse()

    def open(self, table: JobTable) -> None:
        """Take a job in. Who raises has done nothing: ClusterError for too many jobs, or what a user's hash raises."""
        self.flags.check()
        self.programs.open_job(table)
        self.flags.open_job(table.number)
        self.by_number[table.number] = self.by_name[table.job] = table
        self.uses.open_job(table)
        if table.tight:
            self.tight.add(table.number)

    def close(self, table: JobTable) -> bool:
        """Forget a job; returns whether executors must forget all programs."""
        number = table.number
        self.ending.discard(table.job)
        del self.by_name[table.job], self.by_number[number]
        self.uses.close_job(number)
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
        """Whether a worker takes only what is planned for it."""
        return any(worker in slow for slow in self.slow.values())


class WorkerContext:
    """A host as its parts see it.

    Parameters
    ----------
    arena
        Shared memory of the host.
    workers
        How many executors.
    dispatch
        Called when something may run that could not before.
    """

    scheduler: ReportPort
    storing: BufferManager

    def __init__(self, arena: Arena, workers: int, dispatch: Callable[[], None]) -> None:
        self.arena = arena
        self.jobs = OpenJobs(memoryview(arena.memory))
        self.chunks = Chunks(arena, self.jobs.uses.next_use)
        self.queue = TaskQueue(workers)
        self.workers = [Worker(index) for index in range(workers)]
        self.told = ChunkEventReporter(self.chunks, self.jobs.by_name, lambda: self.scheduler)
        self.admission = Admission(arena, self.chunks, self.workers, self.queue, dispatch, self.told.refused)
        self.ledger: Ledger

    @property
    def programs(self) -> Programs:
        """What each executor knows."""
        return self.jobs.programs

    @property
    def is_short(self) -> bool:
        """Whether memory is short, so that inputs are read from disk while others run."""
        return bool(self.jobs.tight or self.chunks.disk)

    def give_back(self, table: JobTable, operands: Sequence[int], slots: Sequence[int]) -> None:
        """Operands do not run after all, or did not end: what they held is free."""
        for operand, slot in zip(operands, slots, strict=True):
            self.admission.give_back(table, operand, slot)
