"""Acts on reports of hosts: numbers workers over all hosts, keeps places, and passes on what concerns the scheduler.

Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from jmars.errors import JmarsError, fault_of
from jmars.model.orders import CloseJob, Order
from jmars.model.reports import (
    ChunksCopied,
    ChunksLost,
    Failed,
    Finished,
    GpuRefused,
    InputsMissing,
    Interrupted,
    JobBroken,
    JobClosed,
    OperandsReturned,
    Refused,
    Report,
    Started,
    Timed,
    WorkerLost,
    WorkerMoved,
)
from jmars.scheduler.host_jobs import HostJob
from jmars.scheduler.host_rows import HostRow, HostRows

__all__ = ["HostReports"]

log = logging.getLogger("jmars.scheduler")

MOST_MISSED = 3  # times that an operand may lack an input that another host has, before the input counts as lost


class HostOrders(Protocol):
    """Orders that follow from reports."""

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Send operands to the hosts of workers."""

    def order_all(self, job: HostJob, order: Order, besides: int = -1) -> None:
        """Send an order to all hosts that have a job open, but one."""

    def keep_at(self, by_host: dict[int, list[int]]) -> None:
        """Have hosts keep copies of chunks, which may be all that is left."""

    def free_at(self, by_host: dict[int, list[int]], lost: bool = False) -> None:
        """Free chunks on hosts; operands may still read lost ones."""

    def closed_by(self, job: HostJob, number: int, measured: dict[str, Any] | None) -> None:
        """A host has forgotten a job."""


class HostReports:
    """Handlers by class of report.

    Parameters
    ----------
    rows
        Hosts and their jobs.
    orders
        The port that joins the hosts.
    report
        Sends a report to the scheduler.
    """

    def __init__(self, rows: HostRows, orders: HostOrders, report: Callable[[Report], None]) -> None:
        self._rows, self._orders, self._report = rows, orders, report

    def take(self, number: int, reports: Iterable[Report]) -> None:
        """Reports of a host, with its own numbers of workers; those of a host that is gone are dropped."""
        row = self._rows.hosts.get(number)
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
        for one in [job] if job else list(self._rows.jobs):
            self._report(JobBroken(one, why))

    def _pass_on(self, row: HostRow, report: Report) -> None:
        self._report(report)

    def _started(self, row: HostRow, report: Started) -> None:
        job = self._rows.jobs.get(report.job)
        if job is not None:
            job.start(report.operands, row.number)
        self._report(Started(report.job, report.operands, report.worker + row.first))

    def _timed(self, row: HostRow, report: Timed) -> None:
        worker = report.worker + row.first
        self._report(Timed(report.job, report.operands, worker, report.microseconds, report.backends))

    def _finished(self, row: HostRow, report: Finished) -> None:
        job, shapes = self._rows.jobs.get(report.job), report.shapes
        if job is not None:
            table, stored, number = job.table, self._rows.places.stored, row.number
            chunk, nbytes = table.chunk, table.nbytes
            job.leave(report.operands)
            row.done += len(report.operands) if report.worker < row.cores else 0
            for operand in report.operands:
                stored(chunk[operand], number, nbytes[operand])
            for operand, shape in (shapes or {}).items():
                stored(chunk[operand], number, table.bytes_of(operand, shape))
                self._rows.places.shape[chunk[operand]] = tuple(shape)
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

    def _gpu_refused(self, row: HostRow, report: GpuRefused) -> None:
        self._report(replace(report, worker=report.worker + row.first))

    def _worker_moved(self, row: HostRow, report: WorkerMoved) -> None:
        if report.gpu_bytes:
            row.gpus[report.worker - row.cores] = max(0, report.gpu_bytes)
        self._report(replace(report, worker=report.worker + row.first, name=row.names[report.worker]))

    def _refused(self, row: HostRow, report: Refused) -> None:
        job = self._rows.jobs.get(report.job)
        if job is None:
            return
        if report.operand >= 0:
            job.leave([report.operand])
            self._report(report)
            return
        if job.refused is None:
            job.refused = report.failure
            self._orders.order_all(job, CloseJob(report.job), besides=row.number)
        self._orders.closed_by(job, row.number, None)

    def _job_closed(self, row: HostRow, report: JobClosed) -> None:
        job = self._rows.jobs.get(report.job)
        if job is not None:
            self._orders.closed_by(job, row.number, report.measured)

    def _returned(self, row: HostRow, report: OperandsReturned) -> None:
        """A host gave up operands: send them where they were to go."""
        job = self._rows.jobs.get(report.job)
        if job is not None:
            targets = {one: job.called_back.pop(one) for one in report.operands if one in job.called_back}
            firsts = [self._rows.hosts[to].first for to in targets.values()]
            self._orders.enqueue_graph(report.job, list(targets), firsts)

    def _chunks_copied(self, row: HostRow, report: ChunksCopied) -> None:
        for chunk in report.chunks:
            self._rows.places.copied(chunk, row.number)

    def _chunks_lost(self, row: HostRow, report: ChunksLost) -> None:
        places = self._rows.places
        lost = [chunk for chunk in report.chunks if not places.gone(chunk, row.number)]
        for chunk in set(report.chunks).difference(lost):
            self._orders.keep_at({places.holders(chunk)[0]: [chunk]})
        self._forget(row, lost)
        if lost:
            self._report(ChunksLost(lost, report.why))

    def _inputs_missing(self, row: HostRow, report: InputsMissing) -> None:
        """Send operands again whose inputs other hosts have; report the others."""
        job = self._rows.jobs.get(report.job)
        if job is None:
            return
        lost = [chunk for chunk in report.chunks if not self._rows.places.gone(chunk, row.number)]
        if not lost and report.chunks and not job.closing:
            again = [operand for operand in report.operands if job.missed.get(operand, 0) < MOST_MISSED]
            for operand in again:
                job.missed[operand] = job.missed.get(operand, 0) + 1
            if len(again) == len(report.operands):
                self._orders.enqueue_graph(report.job, again, [row.first] * len(again))
                return
            lost = list(report.chunks)
        job.leave(report.operands)
        self._forget(row, lost)
        self._report(InputsMissing(report.job, report.operands, lost, report.why))

    def _forget(self, row: HostRow, lost: Sequence[int]) -> None:
        """Free lost chunks, also where a host has told that it lacks them: it has notes of where they lay."""
        by_host = self._rows.places.free(lost)
        if lost:
            by_host[row.number] = sorted({*by_host.get(row.number, ()), *lost})
        self._orders.free_at(by_host, lost=True)

    def _ended(self, job: str, operands: Sequence[int]) -> None:
        known = self._rows.jobs.get(job)
        if known is not None:
            known.leave(operands)


_HANDLERS: dict[type, Callable[[HostReports, HostRow, Any], None]] = {
    Started: HostReports._started,
    Finished: HostReports._finished,
    Timed: HostReports._timed,
    Failed: HostReports._failed,
    Interrupted: HostReports._interrupted,
    WorkerLost: HostReports._worker_lost,
    GpuRefused: HostReports._gpu_refused,
    WorkerMoved: HostReports._worker_moved,
    Refused: HostReports._refused,
    JobClosed: HostReports._job_closed,
    ChunksCopied: HostReports._chunks_copied,
    ChunksLost: HostReports._chunks_lost,
    InputsMissing: HostReports._inputs_missing,
    OperandsReturned: HostReports._returned,
}
