"""The ports between the scheduler and a host's workers, and the table of a job.

Scheduler and workers import neither side; both hold a port. Calls are orders or reports, may come in batches, name job
and operands by dense numbers, and answer nothing. So the two may live in a single process, where a report may come
before the order has returned, or in two. Reports keep their order.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jmars.model.orders import LocateChunks
from jmars.model.reports import Report

__all__ = ["HostPort", "JobTable", "ReportPort", "WorkerPort"]


@dataclass(frozen=True, slots=True)
class JobTable:
    """The operands of a job as lists by operand, for the workers.

    Chunks are numbered over the whole cluster: operand `i` gives chunk `chunk[i]`, equal to `base + i` except for
    chunks stored before the job.
    """

    job: str
    number: int  # grows by one per job
    programs: list[Any]  # kernels.Program
    program: list[int]  # row in `programs`, -1 for a stored chunk
    inputs: Sequence[Sequence[int]]  # operands, in the order of the program's inputs
    args: list[tuple[Any, ...]] | None
    base: int
    chunk: list[int]
    nbytes: list[int]
    work: list[int]  # bytes of scratch
    rank: list[int]  # lower first
    kept: int  # bytes of chunks that outlive the job
    stored: Sequence[int]  # operands whose chunk was there before the job
    readers: Sequence[Sequence[int]]  # operands that read each chunk
    results: Sequence[int] = ()  # operands whose chunks outlive the job
    planned: Sequence[int] = ()  # worker planned for each operand, -1 for none; empty where all share a memory
    tight: bool = False  # whether its chunks may not fit in memory together, so that order goes before place
    late: bool = False  # whether each operand is offered to all workers, and the first that is free takes it
    pinned: dict[int, int] = field(default_factory=dict)  # the only worker that may run an operand
    ephemeral: bool = False  # whether a process computes one operand of it, and ends
    device: bytes = b""  # by operand, `plan_graph.GPU` or `GPU_ONLY` for a GPU, else a core; empty for cores only

    def bytes_of(self, operand: int, shape: Sequence[int]) -> int:
        """Bytes of an operand's chunk with this shape."""
        return math.prod(shape) * int(self.programs[self.program[operand]].output.dtype.itemsize)


class WorkerPort(Protocol):
    """The workers of a host, as the scheduler sees them."""

    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job, and run none yet.

        An exception leaves no change; workers in a separate process report Refused with operand -1 instead.
        """

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run ready operands on the workers chosen for them."""

    def stop_execution(self, job: str) -> None:
        """Drop queued operands of a job and stop running operands; running operands are reported as interrupted or
        finished.
        """

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands of a job new ranks, and waiting operands new workers (-1: as before).

        The slow workers take only operands that are planned for them.
        """

    def close_job(self, job: str) -> None:
        """Forget a job after its last running operand; then report JobClosed, the job's last report."""

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of chunks back."""


class HostPort(WorkerPort, Protocol):
    """The workers of a host that may be one of several."""

    def take_back(self, job: str, operands: Sequence[int]) -> None:
        """Give up those of some operands that wait for a worker, and report them as OperandsReturned."""

    def locate_chunks(self, order: LocateChunks) -> None:
        """Other hosts have chunks that operands of the next orders read."""

    def keep_chunks(self, chunks: Sequence[int]) -> None:
        """Keep copies of chunks whose originals are lost, and report chunks that are not here as ChunksLost."""

    def drop_chunks(self, chunks: Sequence[int]) -> None:
        """Free chunks that count as lost, as soon as no operand under way reads them."""


class ReportPort(Protocol):
    """The workers' view of the scheduler."""

    def report(self, report: Report) -> None:
        """Hand a record to the scheduler; the record's class chooses the handler."""
