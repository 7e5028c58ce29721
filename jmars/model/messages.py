"""The ports between the scheduler and a host's workers, and the table of a job.

Scheduler and workers do not import each other: each holds a port to the other. Calls are orders or reports, may come in
batches, name job and operands by dense numbers, and answer nothing, so that the two may live in one process, where a
report may come before the order has returned, or in two. Reports come in the order in which they were made.
Source: docs/explanation/seeds.md, "Execution control".
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
    """The operands of a job as lists by operand, for the workers.

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
        """Bytes of an operand's chunk with this shape."""
        return math.prod(shape) * int(self.programs[self.program[operand]].output.dtype.itemsize)


class WorkerPort(Protocol):
    """The workers of a host, as the scheduler sees them."""

    def open_job(self, table: JobTable) -> None:
        """Take the operands of a job; nothing runs yet.

        Where that cannot be, it raises without effect; workers in another process report Refused with operand -1
        instead.
        """

    def enqueue_graph(self, job: str, operands: Sequence[int], workers: Sequence[int]) -> None:
        """Run ready operands, each on the worker chosen for it."""

    def stop_execution(self, job: str) -> None:
        """Drop queued operands of a job and stop running operands, which are then reported as interrupted or
        finished.
        """

    def replan(self, job: str, rank: Sequence[int], workers: Sequence[int], slow: Sequence[int]) -> None:
        """Give operands of a job new ranks, and waiting operands new workers (-1: as before).

        The slow workers take only operands that are planned for them.
        """

    def close_job(self, job: str) -> None:
        """Forget a job once none of its operands runs; then report JobClosed, and nothing more of this job."""

    def free_chunks(self, chunks: Sequence[int]) -> None:
        """Give the memory or file of chunks back."""


class ReportPort(Protocol):
    """The scheduler, as a host's workers see it."""

    def report(self, report: Report) -> None:
        """Hand a record to the scheduler; the record's class chooses the handler."""
