"""ExecutionActor: coordinates every operand on a host; it computes and moves nothing itself.

An operand waits in the queue by rank; when a worker has less than two batches it is taken, gets the slot of its
output, its inputs in memory and its scratch promised, joins a batch and is sent (`dispatching`). What an executor
reports goes to the scheduler (`reporting`), whose answer (more ready operands, chunks to free) arrives before the next
batch is made. Processes are started and replaced by `care`. Here are the scheduler's orders, and the wires between.
Source: seed 003, "执行控制" (ExecutionActor) and "Worker 中的执行细节"; the states ALLOCATING, PREPARING_INPUTS,
CALCULATING and STORING are the line of `storing`, its reads, a batch, and `chunks.memory`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from jmars.dispatch.estimate import Estimate
from jmars.dispatch.ledger import Ledger
from jmars.dispatch.worker_state import Death
from jmars.memory.buffer_manager import BufferManager
from jmars.model.messages import JobTable
from jmars.model.reports import Interrupted, JobClosed
from jmars.plan import signature
from jmars.processes.links import Children
from jmars.storage.arena import Arena
from jmars.worker.dispatcher import Dispatcher
from jmars.worker.graph_room import GraphRoom
from jmars.worker.open_jobs import WorkerContext
from jmars.worker.report_handler import ReportHandler
from jmars.worker.retained_memory import RetainedMemory
from jmars.worker.speculation import SpeculativeExecution
from jmars.worker.supervision import ProcessSupervisor

__all__ = ["ExecutionActor"]

GRACE_SECONDS = 0.5  # for which a running operand may ignore that it was told to stop


class ExecutionActor(WorkerContext):
    """The workers of this host: a `WorkerPort` for the scheduler.

    Parameters
    ----------
    arena
        Shared memory of the host.
    children
        Starts processes.
    workers
        Executor processes, each with `threads` threads.
    spill_folder
        Where chunks go when the arena is full; called when the first one must go.
    disk_room
        Bytes that the disk has left for them.
    """

    def __init__(
        self,
        arena: Arena,
        children: Children,
        workers: int,
        threads: int,
        spill_folder: Callable[[], str],
        disk_room: Callable[[], int],
    ) -> None:
        self._dispatching = Dispatcher()
        super().__init__(arena, workers, self._dispatching.dispatch)
        self._dispatching.place = self
        still = self._close_if_still
        self.rescue = SpeculativeExecution(self)
        keeping, self.graph_room = RetainedMemory(self, self.rescue), GraphRoom(self)
        reporting = ReportHandler(self, self._dispatching, self.rescue, keeping, still)
        self.care = ProcessSupervisor(
            self, children, threads, spill_folder, reporting, self._dispatching, self.rescue, keeping, still
        )
        ready = self.admission
        self.storing = BufferManager(
            arena, self.chunks, self.care.start_mover, ready.in_use, ready.idle, self.told.moved, disk_room
        )
        ready.storing = ready.sizing.storing = self.storing
        self.storing.lost, self.storing.shed = self.told.lost, partial(self.graph_room.shed, keeping.shed)
        self.storing.has_one_reader = self.jobs.uses.has_one_reader
        self.ledger = Ledger(arena, self.chunks, self.storing, workers)
        self.dispatch = self._dispatching.dispatch
        ready.seconds_of = lambda program: self.ledger.estimate.known(program)

    # -- orders of the scheduler
    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; nothing runs yet. Who raises has done nothing: ClusterError for too many jobs."""
        self.storing.refuse_results(table.kept)
        self.jobs.open(table)
        self.ledger.open_job(table)
        self.care.wake()

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run these ready operands, each on the worker chosen for it."""
        table = self.jobs.by_name[job]
        push, rank, number = self.queue.push, table.rank, table.number
        for operand, worker in zip(operands, workers, strict=True):
            push(worker, number, rank[operand], operand)
        if not self._dispatching.held:
            self.dispatch()

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """From now on operands have these ranks, and those that wait these workers; the slow take only their own."""
        table = self.jobs.by_name[job]
        table.rank[:] = rank
        self.queue.replan(table.number, rank, workers)
        self.jobs.slow[table.number] = frozenset(slow)
        self.dispatch()

    def stop_execution(self, job: str) -> None:
        """Drop what is queued of a job, tell what runs to stop, and replace an executor that does not."""
        table = self.jobs.by_name[job]
        self.jobs.stop(table)
        dropped = self.queue.drop(table.number)
        dropped += self.admission.drop(table)
        if dropped:
            self.scheduler.report(Interrupted(job, dropped, -1))
        for worker in self.workers:
            if worker.batches and worker.batches[0].table is table and worker.batches[0].asking is not None:
                self.admission.sizing.withdraw(worker.batches[0])
                self.admission.sizing.refuse(worker)
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self.care.replace_stuck, table)
        self.dispatch()

    def close_job(self, job: str) -> None:
        """Forget a job once none of its operands runs, and say what it took."""
        self.jobs.ending.add(job)
        self._close_if_still(self.jobs.by_name[job])

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of these chunks back."""
        free = self.chunks.free
        for chunk in chunks:
            place = free(chunk)
            if place is not None:
                self.storing.delete(place)
        if self.storing.blocked:
            self.storing.advance()

    # -- the life of the host
    @property
    def deaths(self) -> Sequence[Death]:
        """The last processes that ended, the newest last."""
        return self.care.deaths

    def start(self) -> None:
        """Fork the executors."""
        for worker in self.workers:
            self.care.start(worker)

    def close(self) -> None:
        """Nothing that ends from now on is replaced."""
        self._dispatching.closed = True
        self.care.close()
        self.jobs.flags.close()

    def _close_if_still(self, table: JobTable) -> None:
        """Close a job that is to be closed, unless an executor still runs operands of it."""
        job = table.job
        if job not in self.jobs.ending or any(b.table is table for worker in self.workers for b in worker.batches):
            return
        measured = self.ledger.close_job(table, self.programs.known)
        self.admission.sizing.close_job(table.number)
        self.admission.grants.close_job(table.number)
        self.admission.states.close_job(table.number)
        if self.jobs.close(table):
            self.ledger.estimate = Estimate()
            self.admission.sizing.forget()
            self.admission.grants.forget()
            self.rescue.stragglers.forget()
            signature.cache_clear()
            for worker in self.workers:
                worker.known.clear()
                worker.link.send(("forget",))
        self.scheduler.report(JobClosed(job, measured))
