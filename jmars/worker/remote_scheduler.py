"""The port of a scheduler in a separate process: every report and every order is a message.

`RemoteScheduler` is the `ReportPort` of the host, `Orders` the actor that receives the scheduler's orders; both update
the `RecoverySnapshot` for the next scheduler, in case this scheduler dies. Without a scheduler reports are dropped: the
snapshot has their content.
Source: docs/decisions/0027-scheduler-apart.md; docs/explanation/seeds.md, "Architecture".

Recovery snapshot: tells a new scheduler the open jobs, the state of their operands, and the chunks of this host.

The scheduler may be a separate process and die; the host goes on with the orders and remembers all reports here,
a byte per operand. `RemoteScheduler` and `Orders` keep the snapshot up to date.
Source: docs/decisions/0027-scheduler-apart.md.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.actors import remote_method
from jmars.errors import JmarsError, fault_of
from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.messages import (
    ChunksKept,
    ChunksLost,
    CloseJob,
    EnqueueGraph,
    Failed,
    Failure,
    Finished,
    FreeChunks,
    InputsMissing,
    Interrupted,
    JobBroken,
    JobClosed,
    JobTable,
    KeepChunks,
    LocateChunks,
    OpenJob,
    OperandsReturned,
    Order,
    Refused,
    Replan,
    Report,
    Rerank,
    Started,
    StopExecution,
    TakeBack,
    WorkerLost,
    WorkerPort,
    decompressed,
    from_int_planes,
)

if TYPE_CHECKING:
    from jmars.worker.execution import ExecutionActor

log = logging.getLogger("jmars.worker")


class RemoteScheduler:
    """Sends reports as messages: a `ReportPort`.

    Parameters
    ----------
    send
        Sends a report; drops it while there is no scheduler.
    known
        Remembers what was reported.
    """

    def __init__(self, send: Callable[[Report], None], known: RecoverySnapshot) -> None:
        self._send, self._known = send, known
        self.when_closed: dict[str, asyncio.Future[None]] = {}  # by abandoned job: set when the job is closed

    def report(self, report: Report) -> None:
        """Remember and send a report; one that comes twice or too late changes nothing that is remembered."""
        known = self._known
        known.note(report)
        if isinstance(report, JobClosed | Refused) and report.job not in known.jobs and self._is_abandoned(report.job):
            return
        self._send(report)

    def _is_abandoned(self, job: str) -> bool:
        """Whether a closed job was abandoned, of which the scheduler is not told."""
        waiting = self.when_closed.pop(job, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        return waiting is not None


class Orders:
    """The actor "workers": acts on orders of a scheduler process. Orders about jobs that are not open are ignored.

    `opened` is called when a job has been opened.
    """

    def __init__(
        self,
        workers: WorkerPort,
        reports: RemoteScheduler,
        known: RecoverySnapshot,
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._workers, self._reports, self._known, self._opened = workers, reports, known, opened
        self._held: list[Order] | None = None

    def hold(self) -> None:
        """Keep orders until `release`: there are no executors yet."""
        self._held = []

    def release(self) -> None:
        """Act on the orders that were kept, and on further ones at once."""
        held, self._held = self._held, None
        self.take(held or ())

    @remote_method
    def take(self, orders: Sequence[Order]) -> None:
        """Act on orders."""
        if self._held is not None:
            self._held += orders
            return
        for order in orders:
            try:
                self._act_on(order)
            except Exception as error:  # a fault of jmars breaks the job, which the scheduler then closes
                job = getattr(order, "job", "")
                if isinstance(error, JmarsError) and not job:
                    log.warning("the order %s could not be carried out: %s", type(order).__name__, error)
                    continue
                log.exception("the order %s could not be acted on", type(order).__name__)
                self.break_jobs(fault_of(error), job)

    def break_jobs(self, why: str, job: str = "") -> None:
        """Report that a job, or each open job, fails by a fault of jmars."""
        for one in [job] if job else list(self._known.jobs):
            self._reports.report(JobBroken(one, why))

    def _act_on(self, order: Order) -> None:
        workers, known = self._workers, self._known
        match order:
            case OpenJob(job, blob, size):
                self._open_job(job, blob, size)
            case FreeChunks(chunks):
                workers.free_chunks(chunks)
            case _ if getattr(order, "job", "") not in known.jobs:
                pass  # the job was refused, or is closed
            case EnqueueGraph(job, operands, chosen):
                known.jobs[job].set(operands, QUEUED)
                if known.jobs[job].stopped:
                    self._reports.report(Interrupted(job, list(operands), -1))
                else:
                    workers.enqueue_graph(job, operands, chosen)
            case StopExecution(job):
                known.jobs[job].stopped = True
                workers.stop_execution(job)
            case Replan(job, rank, chosen, slow):
                workers.replan(job, rank, chosen, slow)
            case Rerank(job, packed, size):
                rank = from_int_planes(decompressed(packed, size) if size else packed)
                workers.replan(job, rank, [-1] * len(rank), [])
            case CloseJob(job):
                workers.close_job(job)

    def _open_job(self, job: str, blob: bytes, size: int) -> None:
        """Take the operands of a job, a pickled JobTable; compressed where `size` is not 0."""
        try:
            table: JobTable = pickle.loads(decompressed(blob, size) if size else blob)  # a module may be missing here
            self._workers.open_job(table)
        except Exception as error:  # any error: the scheduler tells the user
            self._reports.report(Refused(job, -1, Failure.of(error)))
        else:
            self._known.opened(table)
            self._opened()

    @remote_method
    async def give_up(self, job: str, free: bool = True) -> None:
        """Stop and forget a job, and free all chunks of the job unless a later stage reads them; returns when no
        operand runs.
        """
        known = self._known.jobs.get(job)
        if known is None:
            return
        closed = self._reports.when_closed[job] = asyncio.get_running_loop().create_future()
        known.stopped = True
        self._workers.stop_execution(job)
        self._workers.close_job(job)
        await closed
        if free:
            self._workers.free_chunks(range(known.base, known.base + len(known.state)))


class HostOrders(Orders):
    """The actor "workers" of a host beside other hosts; the orders of `Hosts` come here."""

    _workers: ExecutionActor

    def _act_on(self, order: Order) -> None:
        match order:
            case FreeChunks(chunks, True):
                self._workers.drop_chunks(chunks)
            case KeepChunks(chunks):
                self._workers.keep_chunks(chunks)
            case TakeBack(job, operands):
                self._workers.take_back(job, operands)
            case LocateChunks():
                self._workers.locate_chunks(order)
            case _:
                super()._act_on(order)


NOT_HERE, QUEUED, RUNNING, STORED = range(4)  # state of an operand, by the last report or order


class JobSnapshot:
    """An open job."""

    def __init__(self, table: JobTable) -> None:
        self.number, self.base = table.number, table.base
        self.state = bytearray(len(table.program))
        self.worker: dict[int, int] = {}  # of running and stored operands
        self.sizes: dict[int, tuple[int, ...]] = {}  # shapes of stored operands that were unknown before
        self.stopped = False  # no operand runs any more

    def set(self, operands: Iterable[int], state: int, worker: int | None = None) -> None:
        """Operands have this state now, on a worker where they run or are stored."""
        for operand in operands:
            self.state[operand] = state
            if worker is not None:
                self.worker[operand] = worker

    def as_data(self) -> dict[str, Any]:
        """Plain data for a message; operands as bytes of <u4, stored operands by worker."""
        states = np.frombuffer(bytes(self.state), np.uint8)
        stored: dict[int, list[int]] = {}
        for operand in np.flatnonzero(states == STORED).tolist():
            stored.setdefault(self.worker[operand], []).append(operand)
        return {
            "number": self.number,
            "base": self.base,
            "queued": _packed(np.flatnonzero(states == QUEUED).tolist()),
            "running": [(one, self.worker[one]) for one in np.flatnonzero(states == RUNNING).tolist()],
            "stored": [(worker, _packed(operands)) for worker, operands in stored.items()],
            "sizes": self.sizes,
            "stopped": self.stopped,
        }


class RecoverySnapshot:
    """Facts that a new scheduler needs about the workers of a host, or of all hosts.

    Parameters
    ----------
    held
        Gives the chunks that are here, by a worker of the host that has them.

    Attributes
    ----------
    jobs
        Open jobs by name.
    closed
        Measurements of recently closed jobs by name; the scheduler that closed them may have died before the report.
    """

    def __init__(self, held: Callable[[], Mapping[int, Iterable[int]]]) -> None:
        self.jobs: dict[str, JobSnapshot] = {}
        self.closed: dict[str, dict[str, Any]] = {}
        self._held = held

    def opened(self, table: JobTable) -> None:
        """A job was opened."""
        self.jobs[table.job] = JobSnapshot(table)
        self.closed.pop(table.job, None)

    def note(self, report: Report) -> None:
        """Take a report of the workers; of jobs that are not open only what it says of chunks."""
        match report:
            case ChunksLost(chunks) | InputsMissing(chunks=chunks):
                for one in self.jobs.values():
                    mine = [chunk - one.base for chunk in chunks if 0 <= chunk - one.base < len(one.state)]
                    one.set([operand for operand in mine if one.state[operand] == STORED], NOT_HERE)
            case ChunksKept(chunks, worker):
                for one in self.jobs.values():
                    one.worker.update((c - one.base, worker) for c in chunks if c - one.base in one.worker)
        known = self.jobs.get(getattr(report, "job", ""))
        if known is None:
            return
        match report:
            case Started(_, operands, worker):
                known.set(operands, RUNNING, worker)
            case Finished(_, operands, worker, shapes):
                known.set(operands, STORED, worker)
                known.sizes.update(shapes or {})
            case Refused(job, -1):
                del self.jobs[job]
            case Failed(_, operand) | Refused(_, operand):
                known.set([operand], NOT_HERE)
            case Interrupted(_, operands) | WorkerLost(_, operands) | InputsMissing(_, operands):
                known.set(operands, NOT_HERE)
            case OperandsReturned(_, operands):
                known.set(operands, NOT_HERE)
            case JobClosed(job, measured):
                del self.jobs[job]
                self.closed[job] = measured
                for old in list(self.closed)[:-REMEMBERED_JOBS]:
                    del self.closed[old]

    def as_data(self, besides: Iterable[tuple[int, int]]) -> dict[str, Any]:
        """Plain data for a message; `besides` are (first, count) of chunks that clients upload."""
        return {
            "jobs": {job: known.as_data() for job, known in self.jobs.items()},
            "closed": self.closed,
            "chunks": [(worker, np.array(sorted(some), "<i8").tobytes()) for worker, some in self._held().items()],
            "besides": [(first, count) for first, count in besides],
        }


def _packed(operands: Sequence[int]) -> bytes:
    return np.array(operands, "<u4").tobytes()
