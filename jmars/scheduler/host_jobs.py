"""A job on several hosts: operands that hosts have, and the hosts that have not closed it yet.

Chooses hosts, and workers of a host, for operands of GPUs: pure functions of the hosts' rows.

Source: docs/explanation/devices.md, "On several hosts".

Acts on reports of hosts: numbers workers over all hosts, keeps places, and passes on what concerns the scheduler.

Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import structs

from jmars.errors import JmarsError, fault_of
from jmars.model.messages import (
    ChunksCopied,
    ChunksLost,
    CloseJob,
    Failed,
    Failure,
    Finished,
    GpuRefused,
    InputsMissing,
    Interrupted,
    JobBroken,
    JobClosed,
    JobTable,
    OperandsReturned,
    Order,
    Printed,
    Refused,
    Report,
    Started,
    Timed,
    WorkerLost,
    WorkerMoved,
)
from jmars.plan.plan_graph import GPU_ONLY, is_for_gpu

if TYPE_CHECKING:
    from jmars.scheduler.hosts import Hosts


SendOrders = Callable[[Sequence[Order]], None]  # behind all earlier orders


def gpu_bytes(table: JobTable, operand: int) -> int:
    """Bytes that inputs, output and scratch of an operand take on a GPU."""
    return table.nbytes[operand] + table.work[operand] + sum(table.nbytes[one] for one in table.inputs[operand])


@dataclass(eq=False)
class HostJob:
    """A job that hosts have opened.

    Attributes
    ----------
    opened
        Hosts that have the job open.
    at
        Host of each operand that was sent and has not ended.
    running
        Operands that a worker took.
    waits, runs
        By host: operands that wait there and may go elsewhere, and how many run. Operands for GPUs count in neither.
    for_gpus
        By host: operands for GPUs that were sent and have not ended.
    called_back
        Operands that a host shall give up, and the host that they go to then.
    missed
        By operand, how often a host lacked an input that another host had.
    leaving
        Leaving hosts that were told to close the job before the job's end.
    closing, measured
        Whether hosts were told to close the job, and what they measured.
    refused
        Why a host cannot open the job; the job is closed on the others.
    """

    table: JobTable
    opened: set[int] = field(default_factory=set)
    at: dict[int, int] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    waits: dict[int, set[int]] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)
    for_gpus: dict[int, int] = field(default_factory=dict)
    called_back: dict[int, int] = field(default_factory=dict)
    missed: dict[int, int] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    closing: bool = False
    measured: list[Mapping[str, Any]] = field(default_factory=list)
    refused: Failure | None = None
    planned: Sequence[int] = ()  # worker planned for each operand, -1 for none or an ended one

    def __post_init__(self) -> None:
        self.planned = self.table.planned

    @cached_property
    def neediest(self) -> int:
        """The operand that takes most memory of a GPU, of those that must run on one; -1 if there are none."""
        must = [one for one, device in enumerate(self.table.device) if device == GPU_ONLY]
        return max(must, key=lambda one: gpu_bytes(self.table, one), default=-1)

    def send(self, operands: Iterable[int], host: int) -> None:
        """A host is sent operands; those that another host gave up wait here now."""
        at, pinned, device = self.at, self.table.pinned, self.table.device
        waits = self.waits.setdefault(host, set())
        for operand in operands:
            if operand in at:
                self.leave([operand])
            at[operand] = host
            if device and is_for_gpu(device, operand):
                self.for_gpus[host] = self.for_gpus.get(host, 0) + 1
            elif operand not in pinned:
                waits.add(operand)

    def start(self, operands: Iterable[int], host: int) -> None:
        """Workers of a host took operands; no effect on operands that the host has not."""
        at, running, waits, device = self.at, self.running, self.waits.get(host, set()), self.table.device
        for operand in operands:
            if at.get(operand) == host and operand not in running:
                running.add(operand)
                waits.discard(operand)
                if not (device and is_for_gpu(device, operand)):
                    self.runs[host] = self.runs.get(host, 0) + 1

    def leave(self, operands: Iterable[int]) -> None:
        """Operands ended on their host, one way or another."""
        at, running, called_back, device = self.at, self.running, self.called_back, self.table.device
        for operand in operands:
            host = at.pop(operand, -1)
            if device and host >= 0 and is_for_gpu(device, operand):
                running.discard(operand)
                self.for_gpus[host] -= 1
            elif operand in running:
                running.discard(operand)
                self.runs[host] -= 1
            elif host >= 0:
                self.waits[host].discard(operand)
            if called_back:
                called_back.pop(operand, None)

    def call_back(self, targets: Mapping[int, int]) -> None:
        """A host shall give up operands that wait there, for other hosts."""
        for operand in targets:
            self.waits[self.at[operand]].discard(operand)
        self.called_back.update(targets)

    def waiting(self, host: int) -> list[int]:
        """Operands that wait on a host and may go to another one, the last by rank first."""
        return sorted(self.waits.get(host, ()), key=self.table.rank.__getitem__, reverse=True)

    def taken_from(self, host: int) -> list[int]:
        """Operands that a host has; they are taken from the host."""
        found = [operand for operand, at in self.at.items() if at == host]
        self.leave(found)
        return found

    def merged(self) -> dict[str, Any]:
        """Measurements of all hosts: the longest makespan, sums of bytes, everything else of the first host."""
        found: dict[str, Any] = {}
        for told in self.measured:
            for name, value in told.items():
                if name not in found:
                    found[name] = value
                elif name == "makespan":
                    found[name] = max(found[name], value)
                elif isinstance(value, int | float) and not isinstance(value, bool):
                    found[name] += value
        return found


@dataclass(eq=False)
class HostRow:
    """A host with its number, which no other host ever gets.

    Attributes
    ----------
    order
        Sends orders to the host.
    first, workers
        Number of the first worker in the cluster, and how many there are; GPUs are the last workers.
    gpus
        Bytes for chunks by GPU: -1 for a cold GPU, 0 for a GPU that cannot be used.
    memory
        Bytes for chunks and scratch.
    room
        Bytes for results: memory and disk.
    here
        Whether the cluster has it still.
    """

    number: int
    name: str
    order: SendOrders
    first: int
    workers: int
    memory: int
    room: int
    here: bool = True
    suspect: bool = False  # whether the host is silent; it gets no new operands while another host is heard
    leaving: bool = False  # whether the host is about to leave; it gets only operands that no other host can run
    names: list[str] = field(default_factory=list)
    turn: int = 0  # number of the worker that gets the next operand
    done: int = 0  # operands that ended on the host's cores
    gpus: list[int] = field(default_factory=list)
    gpu_turn: int = 0  # number of the GPU that gets the next operand planned for a GPU elsewhere

    @property
    def cores(self) -> int:
        """Number of workers that compute on cores."""
        return self.workers - len(self.gpus)

    def fits_gpu(self, nbytes: int) -> bool:
        """Whether a warm GPU here has so many bytes for chunks."""
        return max(self.gpus, default=0) >= max(1, nbytes)

    def may_fit_gpu(self, nbytes: int) -> bool:
        """Whether a GPU here has so many bytes for chunks, or is cold and may turn out to have them."""
        return -1 in self.gpus or self.fits_gpu(nbytes)

    def warm_gpus(self) -> list[tuple[int, int]]:
        """Numbers in the cluster of workers with a warm GPU, and the bytes of the GPU."""
        first = self.first + self.cores
        return [(worker, size) for worker, size in enumerate(self.gpus, first) if size > 0]

    @property
    def may_have_gpu(self) -> bool:
        """Whether a GPU here is warm, or may become so."""
        return any(self.gpus)

    @property
    def takes(self) -> bool:
        """Whether the host gets new operands."""
        return self.here and not self.suspect and not self.leaving


def suits(row: HostRow, table: JobTable, operand: int) -> bool:
    """Whether a host has a warm GPU with room for an operand; True for operands of cores."""
    return not is_for_gpu(table.device, operand) or row.fits_gpu(gpu_bytes(table, operand))


def able_hosts(
    table: JobTable, operand: int, here: list[HostRow], staying: list[HostRow], leaving: list[HostRow]
) -> list[HostRow]:
    """Hosts that may get an operand: a choice from `here`, for most operands.

    Hosts with room on a warm GPU get operands for GPUs. Where there is none, cores run the operand. An operand that
    no core may run waits on a host of `staying` for a GPU that is cold, else goes to a host of `leaving`, which have
    the job open; where none of them can run it, a host refuses it.
    """
    if not is_for_gpu(table.device, operand):
        return here
    needs = gpu_bytes(table, operand)
    found = [row for row in here if row.fits_gpu(needs)]
    if not found and table.device[operand] == GPU_ONLY:
        found = (
            [row for row in staying if row.may_fit_gpu(needs)]
            or [row for row in leaving if row.may_fit_gpu(needs)]
            or [row for row in staying if row.may_have_gpu]
        )
    return found or here


def workers_of(row: HostRow, table: JobTable, operands: Sequence[int], planned: Mapping[int, int]) -> list[int]:
    """Workers of a host for operands, by the host's own numbers: planned GPUs, else GPUs and cores in turn.

    Parameters
    ----------
    planned
        Number in the cluster of the worker that is planned for an operand.
    """
    chosen = []
    for operand in operands:
        worker = planned.get(operand, -1) - row.first
        if not (row.gpus and is_for_gpu(table.device, operand)):
            worker = row.turn % row.cores
            row.turn += 1
        elif not row.cores <= worker < row.workers:
            worker = row.cores + row.gpu_turn % len(row.gpus)
            row.gpu_turn += 1
        chosen.append(worker)
    return chosen


log = logging.getLogger("jmars.scheduler")

MOST_MISSED = 3  # reports of a missing input that another host has, after which the input counts as lost


class HostReports:
    """Handlers by class of report.

    Parameters
    ----------
    hosts
        The port that joins the hosts.
    report
        Sends a report to the scheduler.
    """

    def __init__(self, hosts: Hosts, report: Callable[[Report], None]) -> None:
        self._hosts, self._report = hosts, report

    def take(self, number: int, reports: Iterable[Report]) -> None:
        """Reports of a host, with its own numbers of workers; those of a host that is gone are dropped."""
        row = self._hosts.rows.get(number)
        if row is None:
            log.info("host %d reports, and is not known here", number)
            return
        for report in reports:
            if not row.here:
                return
            try:
                _HANDLERS.get(type(report), HostReports._pass_on)(self, row, report)
            except Exception as error:  # a fault of jmars ends the job that the report is about, else all
                job = getattr(report, "job", "")
                if isinstance(error, JmarsError) and not job:
                    log.warning("the report %s of host %d has no effect: %s", type(report).__name__, number, error)
                    continue
                log.exception("the report %s of host %d could not be taken", type(report).__name__, number)
                self.break_jobs(fault_of(error), job)

    def break_jobs(self, why: str, job: str = "") -> None:
        """Report that a job, or each open job, fails by a fault of jmars."""
        for one in [job] if job else list(self._hosts.jobs):
            self._report(JobBroken(one, why))

    def _pass_on(self, row: HostRow, report: Report) -> None:
        self._report(report)

    def _started(self, row: HostRow, report: Started) -> None:
        job = self._hosts.jobs.get(report.job)
        if job is not None:
            job.start(report.operands, row.number)
        self._report(Started(report.job, report.operands, report.worker + row.first))

    def _numbered(self, row: HostRow, report: Timed | Printed | GpuRefused | Failed | Interrupted | WorkerLost) -> None:
        """Pass on a report with the worker's number in the cluster."""
        self._report(structs.replace(report, worker=report.worker + row.first))

    def _ended(self, row: HostRow, report: Failed | Interrupted | WorkerLost) -> None:
        """Operands left the host without a result."""
        job = self._hosts.jobs.get(report.job)
        if job is not None:
            job.leave([report.operand] if isinstance(report, Failed) else report.operands)
        self._numbered(row, report)

    def _finished(self, row: HostRow, report: Finished) -> None:
        job, shapes = self._hosts.jobs.get(report.job), report.shapes
        if job is not None:
            table, stored, number = job.table, self._hosts.places.stored, row.number
            chunk, nbytes = table.chunk, table.nbytes
            job.leave(report.operands)
            row.done += len(report.operands) if report.worker < row.cores else 0
            for operand in report.operands:
                stored(chunk[operand], number, nbytes[operand])
            for operand, shape in (shapes or {}).items():
                stored(chunk[operand], number, table.bytes_of(operand, shape))
                self._hosts.places.shape[chunk[operand]] = tuple(shape)
            if table.push and job.planned and not job.closing:
                self._hosts.push(job, report.operands, number)
        self._report(Finished(report.job, report.operands, report.worker + row.first, shapes, report.microseconds))

    def _worker_moved(self, row: HostRow, report: WorkerMoved) -> None:
        if report.gpu_bytes:
            row.gpus[report.worker - row.cores] = max(0, report.gpu_bytes)
        self._report(structs.replace(report, worker=report.worker + row.first, name=row.names[report.worker]))

    def _refused(self, row: HostRow, report: Refused) -> None:
        job = self._hosts.jobs.get(report.job)
        if job is None:
            return
        if report.operand >= 0:
            job.leave([report.operand])
            self._report(report)
            return
        if job.refused is None:
            job.refused = report.failure
            self._hosts.order_all(job, CloseJob(report.job), besides=row.number)
        self._hosts.closed_by(job, row.number, None)

    def _job_closed(self, row: HostRow, report: JobClosed) -> None:
        job = self._hosts.jobs.get(report.job)
        if job is not None:
            self._hosts.closed_by(job, row.number, report.measured)

    def _returned(self, row: HostRow, report: OperandsReturned) -> None:
        """A host gave up operands: send them where they were to go."""
        job = self._hosts.jobs.get(report.job)
        if job is not None:
            targets = {one: job.called_back.pop(one) for one in report.operands if one in job.called_back}
            firsts = [self._hosts.rows[to].first for to in targets.values()]
            self._hosts.enqueue_graph(report.job, list(targets), firsts)

    def _chunks_copied(self, row: HostRow, report: ChunksCopied) -> None:
        for chunk in report.chunks:
            self._hosts.places.copied(chunk, row.number)

    def _chunks_lost(self, row: HostRow, report: ChunksLost) -> None:
        places = self._hosts.places
        lost = [chunk for chunk in report.chunks if not places.gone(chunk, row.number)]
        for chunk in set(report.chunks).difference(lost):
            self._hosts.keep_at({places.holders(chunk)[0]: [chunk]})
        self._forget(row, lost)
        if lost:
            self._report(ChunksLost(lost, report.why))

    def _inputs_missing(self, row: HostRow, report: InputsMissing) -> None:
        """Send operands again whose inputs other hosts have; report the others."""
        job = self._hosts.jobs.get(report.job)
        if job is None:
            return
        lost = [chunk for chunk in report.chunks if not self._hosts.places.gone(chunk, row.number)]
        if not lost and report.chunks and not job.closing:
            again = [operand for operand in report.operands if job.missed.get(operand, 0) < MOST_MISSED]
            for operand in again:
                job.missed[operand] = job.missed.get(operand, 0) + 1
            if len(again) == len(report.operands):
                self._hosts.enqueue_graph(report.job, again, [row.first] * len(again))
                return
            lost = list(report.chunks)
        job.leave(report.operands)
        self._forget(row, lost)
        self._report(InputsMissing(report.job, report.operands, lost, report.why))

    def _forget(self, row: HostRow, lost: Sequence[int]) -> None:
        """Free lost chunks, also where a host has told that it lacks them: it has notes of where they lay."""
        by_host = self._hosts.places.free(lost)
        if lost:
            by_host[row.number] = sorted({*by_host.get(row.number, ()), *lost})
        self._hosts.free_at(by_host, lost=True)


_HANDLERS: dict[type, Callable[[HostReports, HostRow, Any], None]] = {
    Started: HostReports._started,
    Finished: HostReports._finished,
    Timed: HostReports._numbered,
    Printed: HostReports._numbered,
    Failed: HostReports._ended,
    Interrupted: HostReports._ended,
    WorkerLost: HostReports._ended,
    GpuRefused: HostReports._numbered,
    WorkerMoved: HostReports._worker_moved,
    Refused: HostReports._refused,
    JobClosed: HostReports._job_closed,
    ChunksCopied: HostReports._chunks_copied,
    ChunksLost: HostReports._chunks_lost,
    InputsMissing: HostReports._inputs_missing,
    OperandsReturned: HostReports._returned,
}
