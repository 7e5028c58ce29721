"""Hosts: the workers of several hosts as one `WorkerPort`.

Workers are numbered over all hosts. An operand goes to the host of its planned worker; the host chooses the process,
since its processes share memory. A host learns where an operand's inputs lie, and reads them from there. A host that is
gone costs what only it had: its chunks are reported as lost, its operands as operands that miss inputs.
Source: docs/explanation/seeds.md, "Execution control" and "Execution in a worker".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import cloudpickle

from jmars.errors import ClusterLostError, MemoryLimitError
from jmars.model.messages import JobTable, ReportPort
from jmars.model.orders import (
    CloseJob,
    EnqueueGraph,
    FreeChunks,
    LocateChunks,
    OpenJob,
    Order,
    Replan,
    StopExecution,
)
from jmars.model.reports import (
    ChunksCopied,
    ChunksLost,
    Failed,
    Finished,
    InputsMissing,
    Interrupted,
    JobClosed,
    Refused,
    Report,
    Started,
    Timed,
    WorkerLost,
    WorkerMoved,
)
from jmars.scheduler.host_jobs import HostJob
from jmars.scheduler.places import Places, bits
from jmars.units import format_bytes

__all__ = ["HostLink", "HostRow", "Hosts"]

MOST_MISSED = 3  # times that an operand may lack an input that another host has, before the input counts as lost
UNMEASURED = {"makespan": 0.0, "peak": 0, "spilled": 0, "moved": 0}


class HostLink(Protocol):
    """Sends orders to a host."""

    def order(self, orders: Sequence[Order]) -> None:
        """Send orders, in this order behind all earlier ones."""


@dataclass(eq=False)
class HostRow:
    """A host with its number, which no other host ever gets.

    Attributes
    ----------
    first, workers
        Number of the first worker in the cluster, and how many there are.
    memory
        Bytes for chunks and scratch.
    room
        Bytes for results: memory and disk.
    here
        Whether the cluster has it still.
    """

    number: int
    name: str
    link: HostLink
    first: int
    workers: int
    memory: int
    room: int
    here: bool = True
    names: list[str] = field(default_factory=list)
    turn: int = 0  # worker to send the next operand to


class Hosts:
    """All hosts of a cluster: a `WorkerPort`.

    Attributes
    ----------
    rows
        All hosts that ever were, by number.
    places
        Which hosts have each chunk.
    """

    def __init__(self) -> None:
        self.rows: dict[int, HostRow] = {}
        self.places = Places()
        self._row_of: list[int] = []  # host of each worker
        self._jobs: dict[str, HostJob] = {}
        self._scheduler: ReportPort | None = None

    # -- hosts come and go
    def connect(self, scheduler: ReportPort) -> None:
        """Send reports to this scheduler from now on."""
        self._scheduler = scheduler

    def add(self, number: int, name: str, link: HostLink, workers: int, memory: int, room: int) -> HostRow:
        """A host of a fresh number joined; it opens the jobs that run."""
        row = HostRow(number, name, link, len(self._row_of), workers, memory, room)
        row.names = [f"{name}/worker-{one}" for one in range(workers)]
        self.rows[number] = row
        self._row_of += [number] * workers
        for job in self._jobs.values():
            if not job.closing and job.refused is None:
                job.opened.add(row.number)
                link.order([OpenJob(job.table.job, job.blob)])
        return row

    def lost(self, number: int, why: str) -> None:
        """A host is gone for good: report lost chunks, then operands that run elsewhere now."""
        row = self.rows.get(number)
        if row is None or not row.here:
            return
        row.here = False
        orphans = self.places.lost(number)
        self._free_at(self.places.free(orphans))
        taken = [(job, job.taken_from(number)) for job in self._jobs.values()]
        if orphans:
            self._report(ChunksLost(orphans, why))
        for job, operands in taken:
            if operands:
                self._report(InputsMissing(job.table.job, operands, [], why))
        for worker, name in enumerate(row.names, row.first):
            self._report(WorkerMoved(worker, name, 0, "lost"))
        for job, _ in taken:
            self._closed_by(job, number, None)

    @property
    def here(self) -> list[HostRow]:
        """Hosts that the cluster has."""
        return [row for row in self.rows.values() if row.here]

    @property
    def names(self) -> list[str]:
        """Names of all workers, by number."""
        return [name for row in self.rows.values() for name in row.names]

    # -- orders of the scheduler
    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; refusals of hosts come as reports.

        Raises
        ------
        ClusterLostError
            If no host is left.
        MemoryLimitError
            If the results fit on no host.
        """
        here = self.here
        if not here:
            raise ClusterLostError("all hosts of the cluster are gone; start a new cluster, or wait for a host to come")
        room = sum(row.room for row in here)
        if table.kept > room:
            raise MemoryLimitError(
                f"the results take {format_bytes(table.kept)}, and memory and disk of all hosts together have "
                f"{format_bytes(room)}; keep less (a sum instead of the whole), or add hosts"
            )
        blob = cloudpickle.dumps(replace(table, kept=0))  # each host keeps a part of the results
        job = self._jobs[table.job] = HostJob(table, blob, {row.number for row in here})
        for row in here:
            row.link.order([OpenJob(table.job, job.blob)])

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Send ready operands to the hosts of their workers, with the places of inputs that lie elsewhere."""
        known = self._jobs[job]
        table, at, rows, row_of = known.table, known.at, self.rows, self._row_of
        by_host: dict[int, list[int]] = {}
        for operand, worker in zip(operands, workers, strict=True):
            number = row_of[worker]
            if not rows[number].here:
                number = self._other_host(table, operand)
            at[operand] = number
            by_host.setdefault(number, []).append(operand)
        for number, some in by_host.items():
            row = rows[number]
            if not row.here:
                continue  # no host is left: the cluster is about to end
            located = self._locate(table, number, some)
            chosen = [(row.turn + place) % row.workers for place in range(len(some))]
            row.turn += len(some)
            orders: list[Order] = [EnqueueGraph(job, some, chosen)]
            row.link.order([located, *orders] if located is not None else orders)

    def stop_execution(self, job: str) -> None:
        """Stop a job on all hosts."""
        self._order_all(self._jobs[job], StopExecution(job))

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands new ranks; hosts choose among their workers themselves."""
        known = self._jobs[job]
        known.table.rank[:] = rank
        self._order_all(known, Replan(job, list(rank), [-1] * len(rank), []))

    def close_job(self, job: str) -> None:
        """Close a job on all hosts; JobClosed is reported after the last of them."""
        known = self._jobs[job]
        known.closing = True
        self._order_all(known, CloseJob(job))
        self._end_if_closed(known)

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Free chunks on all hosts that have them."""
        self._free_at(self.places.free(chunks))

    # -- reports of a host
    def take(self, number: int, reports: Iterable[Report]) -> None:
        """Reports of a host, with its own numbers of workers; those of a host that is gone are dropped."""
        row = self.rows[number]
        for report in reports:
            if row.here:
                _HANDLERS.get(type(report), Hosts._pass_on)(self, row, report)

    def _pass_on(self, row: HostRow, report: Report) -> None:
        self._report(report)

    def _started(self, row: HostRow, report: Started) -> None:
        self._report(Started(report.job, report.operands, report.worker + row.first))

    def _timed(self, row: HostRow, report: Timed) -> None:
        worker = report.worker + row.first
        self._report(Timed(report.job, report.operands, worker, report.microseconds, report.backends))

    def _finished(self, row: HostRow, report: Finished) -> None:
        job, shapes = self._jobs.get(report.job), report.shapes
        if job is not None:
            table, stored, number = job.table, self.places.stored, row.number
            chunk, nbytes = table.chunk, table.nbytes
            job.leave(report.operands)
            for operand in report.operands:
                stored(chunk[operand], number, nbytes[operand])
            for operand, shape in (shapes or {}).items():
                stored(chunk[operand], number, table.bytes_of(operand, shape))
                self.places.shape[chunk[operand]] = tuple(shape)
        self._report(Finished(report.job, report.operands, report.worker + row.first, shapes, report.microseconds))

    def _failed(self, row: HostRow, report: Failed) -> None:
        self._ended(report.job, [report.operand])
        self._report(Failed(report.job, report.operand, report.worker + row.first, report.failure))

    def _interrupted(self, row: HostRow, report: Interrupted) -> None:
        self._ended(report.job, report.operands)
        self._report(Interrupted(report.job, report.operands, report.worker + row.first))

    def _worker_lost(self, row: HostRow, report: WorkerLost) -> None:
        self._ended(report.job, report.operands)
        self._report(replace(report, worker=report.worker + row.first))

    def _worker_moved(self, row: HostRow, report: WorkerMoved) -> None:
        self._report(WorkerMoved(report.worker + row.first, row.names[report.worker], report.pid, report.state))

    def _refused(self, row: HostRow, report: Refused) -> None:
        job = self._jobs.get(report.job)
        if job is None:
            return
        if report.operand >= 0:
            job.leave([report.operand])
            self._report(report)
            return
        if job.refused is None:
            job.refused = report.failure
            self._order_all(job, CloseJob(report.job), besides=row.number)
        self._closed_by(job, row.number, None)

    def _job_closed(self, row: HostRow, report: JobClosed) -> None:
        job = self._jobs.get(report.job)
        if job is not None:
            self._closed_by(job, row.number, report.measured)

    def _chunks_copied(self, row: HostRow, report: ChunksCopied) -> None:
        for chunk in report.chunks:
            self.places.copied(chunk, row.number)

    def _chunks_lost(self, row: HostRow, report: ChunksLost) -> None:
        lost = [chunk for chunk in report.chunks if not self.places.gone(chunk, row.number)]
        self._free_at(self.places.free(lost))
        if lost:
            self._report(ChunksLost(lost, report.why))

    def _inputs_missing(self, row: HostRow, report: InputsMissing) -> None:
        """Send operands again whose inputs other hosts have; report the others."""
        job = self._jobs.get(report.job)
        if job is None:
            return
        lost = [chunk for chunk in report.chunks if not self.places.gone(chunk, row.number)]
        if not lost and report.chunks and not job.closing:
            again = [operand for operand in report.operands if job.missed.get(operand, 0) < MOST_MISSED]
            for operand in again:
                job.missed[operand] = job.missed.get(operand, 0) + 1
            if len(again) == len(report.operands):
                self.enqueue_graph(report.job, again, [row.first] * len(again))
                return
            lost = list(report.chunks)
        job.leave(report.operands)
        self._free_at(self.places.free(lost))
        self._report(InputsMissing(report.job, report.operands, lost, report.why))

    # -- own
    def _report(self, report: Report) -> None:
        if self._scheduler is not None:
            self._scheduler.report(report)

    def _ended(self, job: str, operands: Sequence[int]) -> None:
        known = self._jobs.get(job)
        if known is not None:
            known.leave(operands)

    def _order_all(self, job: HostJob, order: Order, besides: int = -1) -> None:
        for number in sorted(job.opened - {besides}):
            self.rows[number].link.order([order])

    def _free_at(self, by_host: dict[int, list[int]]) -> None:
        for number, chunks in by_host.items():
            if self.rows[number].here:
                self.rows[number].link.order([FreeChunks(chunks)])

    def _locate(self, table: JobTable, number: int, operands: Sequence[int]) -> LocateChunks | None:
        """Places of inputs that a host lacks and was not told of; None if there are none."""
        places, inputs, chunk_of = self.places, table.inputs, table.chunk
        have, know = places.have, places.know
        chunks: list[int] = []
        for operand in operands:
            for one in inputs[operand]:
                chunk = chunk_of[one]
                mask = have.get(chunk, 0)
                if not (mask | know.get(chunk, 0)) >> number & 1 and mask:
                    places.told(chunk, number)
                    chunks.append(chunk)
        if not chunks:
            return None
        size, shape = places.size, places.shape
        shapes = {chunk: shape[chunk] for chunk in chunks if chunk in shape} if shape else {}
        return LocateChunks(chunks, [size[c] for c in chunks], [bits(have[c]) for c in chunks], shapes or None)

    def _other_host(self, table: JobTable, operand: int) -> int:
        """A host for an operand whose planned host is gone: the one that has most bytes of the inputs."""
        inputs = [table.chunk[one] for one in table.inputs[operand]]
        held, load = self.places.held(inputs), Counter[int]()
        for job in self._jobs.values():
            load.update(job.at.values())
        here = self.here or self.rows.values()
        return max(here, key=lambda row: (held.get(row.number, 0), -load[row.number] / row.workers)).number

    def _closed_by(self, job: HostJob, number: int, measured: dict[str, Any] | None) -> None:
        """A host has forgotten a job, or is gone."""
        if number in job.opened:
            job.opened.discard(number)
            if measured is not None:
                job.measured.append(measured)
            self._end_if_closed(job)

    def _end_if_closed(self, job: HostJob) -> None:
        if job.opened or self._jobs.get(job.table.job) is not job:
            return
        if job.refused is not None:
            del self._jobs[job.table.job]
            self._report(Refused(job.table.job, -1, job.refused))
        elif job.closing:
            del self._jobs[job.table.job]
            self._report(JobClosed(job.table.job, UNMEASURED | job.merged()))


_HANDLERS: dict[type, Callable[[Hosts, HostRow, Any], None]] = {
    Started: Hosts._started,
    Finished: Hosts._finished,
    Timed: Hosts._timed,
    Failed: Hosts._failed,
    Interrupted: Hosts._interrupted,
    WorkerLost: Hosts._worker_lost,
    WorkerMoved: Hosts._worker_moved,
    Refused: Hosts._refused,
    JobClosed: Hosts._job_closed,
    ChunksCopied: Hosts._chunks_copied,
    ChunksLost: Hosts._chunks_lost,
    InputsMissing: Hosts._inputs_missing,
}
