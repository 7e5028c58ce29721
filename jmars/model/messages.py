"""What the scheduler and a host's workers say to each other.

Neither imports the other: each holds the other's port, a protocol below. Every call is an order or a report, may come
in batches, names job and operands by dense numbers, and answers nothing, so that the two may live in one process, where
a report may come before the order has returned, or apart. Reports come in the order in which they were made.
Source: seed 003, "执行控制" (submit to a worker, report back, stop).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jmars.model.reports import Report

__all__ = ["JobTable", "ReportPort", "WorkerPort"]


@dataclass(frozen=True, slots=True)
class JobTable:
    """What a worker must know to run the operands of one job; lists are indexed by operand.

    Chunks are numbered over the whole cluster: operand `i` gives chunk `chunk[i]`, which is `base + i` unless it was
    stored before the job.
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
    tight: bool = False  # whether its chunks may not fit in memory together, so that order goes before place

    def bytes_of(self, operand: int, shape: Sequence[int]) -> int:
        """Bytes of an operand's chunk if it has this shape."""
        return math.prod(shape) * int(self.programs[self.program[operand]].output.dtype.itemsize)


class WorkerPort(Protocol):
    """The workers of a host, as the scheduler sees them."""

    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; nothing runs yet.

        Where that cannot be, it raises and nothing has happened; apart, `refused` with operand -1 is reported instead.
        """

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run these ready operands, each on the worker chosen for it. Source: seed 003, `enqueue_graph`."""

    def stop_execution(self, job: str) -> None:
        """Drop what is queued of a job and stop what runs; every running operand is reported as interrupted or done."""

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """From now on a job's operands have these ranks, and those that wait these workers (-1: as it was).

        The slow workers take only what is planned for them.
        """

    def close_job(self, job: str) -> None:
        """Forget a job once none of its operands runs; then `closed` is reported, and nothing more of this job."""

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of these chunks back."""


class ReportPort(Protocol):
    """The scheduler, as a host's workers see it."""

    def report(self, report: Report) -> None:
        """Hand a record to the scheduler; the record's class chooses the handler."""
