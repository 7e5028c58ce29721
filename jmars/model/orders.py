"""Orders of a scheduler in a separate process to a host's workers: a frozen record per method of WorkerPort;
and where chunks lie, for a host among several.

Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from jmars.model.record import record

__all__ = [
    "ORDERS",
    "CloseJob",
    "EnqueueGraph",
    "FreeChunks",
    "KeepChunks",
    "LocateChunks",
    "OpenJob",
    "Order",
    "Replan",
    "Rerank",
    "StopExecution",
    "TakeBack",
]


@record
class OpenJob:
    """Take the operands of a job, and run none yet."""

    job: str
    table: bytes  # a pickled JobTable
    size: int = 0  # bytes of the pickle where it is compressed, else 0


@record
class EnqueueGraph:
    """Run ready operands on the workers chosen for them."""

    job: str
    operands: Sequence[int]
    workers: Sequence[int]


@record
class StopExecution:
    """Drop queued operands of a job and stop running operands."""

    job: str


@record
class Replan:
    """Give operands new ranks and workers."""

    job: str
    rank: Sequence[int]
    workers: Sequence[int]  # -1: as before
    slow: Sequence[int]  # workers that run only what is planned for them


@record
class Rerank:
    """Give all operands of a job new ranks; their workers stay."""

    job: str
    rank: bytes  # by operand, as `int_planes` packs them
    size: int = 0  # bytes of these where they are compressed, else 0


@record
class CloseJob:
    """Forget a job after its last running operand."""

    job: str


@record
class FreeChunks:
    """Give the memory or file of chunks back; operands may still read those that count as lost."""

    chunks: Sequence[int]
    lost: bool = False


@record
class LocateChunks:
    """Other hosts have chunks that operands of the next orders read."""

    chunks: Sequence[int]
    nbytes: Sequence[int]  # of each chunk
    hosts: Sequence[Sequence[int]]  # that have each chunk, the preferred host first
    shapes: Mapping[int, Sequence[int]] | None = None  # by chunk, where only the run told the shape


@record
class KeepChunks:
    """The originals of these chunks are lost: keep the copies; ChunksLost names those that are not here any more."""

    chunks: Sequence[int]


@record
class TakeBack:
    """Give up those of some operands that wait for a worker; OperandsReturned names them."""

    job: str
    operands: Sequence[int]


_AboutJobs = OpenJob | EnqueueGraph | StopExecution | Replan | Rerank | CloseJob | TakeBack
Order = _AboutJobs | FreeChunks | KeepChunks | LocateChunks
ORDERS: tuple[type, ...] = get_args(Order)
