"""Reports of a host's workers to the scheduler: a frozen record per kind of message.

The receiver chooses the handler by the record's class. Lists are by batch, so a record is made per batch, not per
operand. Operands are numbered within their job; worker -1 means none. Reports keep their order; a report that comes
twice or too late has no effect.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from jmars.model.failure import Failure
from jmars.model.record import record

__all__ = [
    "REPORTS",
    "ChunksCopied",
    "ChunksKept",
    "ChunksLost",
    "Failed",
    "Finished",
    "GpuRefused",
    "InputsMissing",
    "Interrupted",
    "JobBroken",
    "JobClosed",
    "JobReport",
    "OperandsReturned",
    "Refused",
    "Report",
    "Spilled",
    "Started",
    "Timed",
    "Warned",
    "WorkerLost",
    "WorkerMoved",
]


@record
class Started:
    """A worker took operands."""

    job: str
    operands: Sequence[int]
    worker: int


@record
class Finished:
    """Chunks of operands are stored."""

    job: str
    operands: Sequence[int]
    worker: int
    shapes: Mapping[int, tuple[int, ...]] | None = None  # by operand, of chunks whose shape only the run could tell
    microseconds: Sequence[int] = ()  # of each operand


@record
class Timed:
    """Time of operands in the four states of a worker; comes right before Finished."""

    job: str
    operands: Sequence[int]
    worker: int
    microseconds: Sequence[bytes]  # of ALLOCATING, PREPARING_INPUTS, CALCULATING, STORING: uint32 LE; b"" where all 0
    backends: Sequence[tuple[int, str]] = ()  # (row of a program, its back end), each row once in a job


@record
class Warned:
    """Floating point errors of operands, that NumPy would warn of; comes before Finished or Failed."""

    job: str
    operands: Sequence[int]
    errors: Sequence[tuple[int, int, int]]  # `kernels.FloatError` of each of them: step, node, bit


@record
class Failed:
    """An operand raised."""

    job: str
    operand: int
    worker: int
    failure: Failure


@record
class Interrupted:
    """Operands were stopped before their end, as ordered or because an operand before them in the batch failed."""

    job: str
    operands: Sequence[int]
    worker: int


@record
class WorkerLost:
    """A worker died while operands ran; none of them is done. An operand that ran alone is to blame.

    `how` is "signal", "exit", "memory" (ended by the kernel or the host for memory) or "stopped" (ended for not
    answering). `deaths` counts the workers: an engine may try an operand several times before it gives up.
    """

    job: str
    operands: Sequence[int]
    worker: int
    why: str
    how: str = "signal"
    deaths: int = 1


@record
class Spilled:
    """Chunks of operands went to disk, or came back."""

    job: str
    operands: Sequence[int]
    on_disk: bool


@record
class Refused:
    """An operand can never run on this host; with operand -1 the job could not be opened, and is not open."""

    job: str
    operand: int
    failure: Failure


@record
class GpuRefused:
    """A GPU cannot run the first of these operands, which have the same program: cores run all that are left."""

    job: str
    operands: Sequence[int]
    worker: int
    why: str


@record
class ChunksLost:
    """Stored chunks are gone: a file is damaged or missing. Operands that waited for them follow as InputsMissing."""

    chunks: Sequence[int]
    why: str


@record
class OperandsReturned:
    """A host gave up operands that waited, as ordered; for the port that joins hosts, which sends them elsewhere."""

    job: str
    operands: Sequence[int]


@record
class ChunksCopied:
    """Copies of chunks of other hosts are in memory; for the port that joins hosts, which does not pass it on."""

    chunks: Sequence[int]


@record
class ChunksKept:
    """Chunks of a leaving host are kept by the host of `worker` now."""

    chunks: Sequence[int]
    worker: int


@record
class InputsMissing:
    """Operands cannot run because input chunks are not here; the operands hold no memory now."""

    job: str
    operands: Sequence[int]
    chunks: Sequence[int]
    why: str


@record
class JobClosed:
    """The host has forgotten a job, as ordered; comes exactly once, and as the job's last report."""

    job: str
    measured: dict[str, Any]  # makespan, peak, spilled, moved: for the last JobMoved


@record
class JobBroken:
    """The host failed for a job by a fault of jmars (`errors.fault_of`); the job is to be closed."""

    job: str
    why: str


@record
class WorkerMoved:
    """A worker process came, went or was replaced."""

    worker: int
    name: str
    pid: int
    state: str
    gpu_bytes: int = 0  # of a GPU that has become warm, for chunks; -1 if it cannot be used; 0: other news


JobReport = (
    Started | Finished | Warned | Failed | Interrupted | WorkerLost | Spilled | Refused | InputsMissing | JobClosed
)
HostReport = Timed | GpuRefused | ChunksLost | ChunksCopied | ChunksKept | OperandsReturned | JobBroken | WorkerMoved
Report = JobReport | HostReport
REPORTS: tuple[type, ...] = get_args(Report)
