"""TaskEngine: a Dask or Ray cluster as jmars sees it, and the records between an engine and `EngineWorkers`.

An engine runs group tasks, keeps their results by reference, and moves data between its workers by itself. All methods
are called in the loop of the head; an engine calls methods of `EngineWorkers` in the same loop. A result is named by
its task and a number: `(task, 0)` is the first output. A name is used once: a task that runs again gets a new name.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from jmars.storage.chunks import ChunkElements

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers

START_SECONDS = 60.0  # for each step of an engine's start: its connection, the preparation of its workers


class Result(NamedTuple):
    """A chunk that an engine keeps: an output of a task, or an array that was put there (number 0)."""

    task: str
    number: int


@dataclass(frozen=True)
class EngineWorker:
    """A worker process of an engine.

    Attributes
    ----------
    key
        The engine's own name of the worker, an address or an id; a worker that comes again has a new key.
    name
        Name in the view.
    host
        Machine that the worker is on.
    cores
        Tasks that it runs at once.
    memory
        Bytes that our tasks may take there.
    """

    key: str
    name: str
    host: str
    cores: int
    memory: int


@dataclass(frozen=True)
class GroupTask:
    """A task of an engine: operands that run in a process one after the other.

    Attributes
    ----------
    name
        Unique in the engine's lifetime.
    job
        Number of the job, whose stop flag the task reads.
    spec
        A pickled `GroupSpec`.
    inputs
        Results that the task reads, in the order of the spec's inputs.
    outputs
        Number of results.
    worker
        Key of the planned worker, "" for any; the engine may choose another worker.
    memory
        Bytes that inputs, outputs and scratch take at most together.
    priority
        Lower runs first.
    bundles
        Numbers of results that the same tasks read (`groups.Group.bundles`).
    """

    name: str
    job: int
    spec: bytes
    inputs: Sequence[Result]
    outputs: int
    worker: str
    memory: int
    priority: int
    bundles: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Promises:
    """What an engine does not do as jmars's own workers do, for `Cluster.info()` and the how-to.

    Attributes
    ----------
    security
        How the engine's wire is protected, in a sentence.
    missing
        Sentences: promises of jmars's own workers that the engine does not keep.
    """

    security: str
    missing: Sequence[str] = ()


class TaskEngine(Protocol):
    """A Dask or Ray cluster."""

    kind: str  # "dask" or "ray"
    address: str  # as a user would enter it
    task_seconds: tuple[float, float]  # CPU of an empty task: on a worker, and where submission is serial
    bundle: int  # bytes of several chunks that are a result at most; 0 where each chunk is a result

    async def start(self, events: EngineWorkers) -> Sequence[EngineWorker]:
        """Connect, prepare the workers, and return the workers that are there.

        Raises
        ------
        ClusterStartError
            If the engine does not answer or has other versions of jmars, NumPy or Python.
        """

    def submit(self, task: GroupTask) -> None:
        """Queue a task; its inputs may be results of tasks that have not ended."""

    def release(self, results: Sequence[Result]) -> None:
        """Free results; those of tasks that have not ended are freed when they come."""

    def stop(self, job: int, tasks: Sequence[str]) -> None:
        """Drop queued tasks of a job, and raise the job's stop flag on all workers: running tasks report `stopped`.

        A task that was dropped before it ran is told by `ended` with `stopped` and no microseconds.
        """

    def kill(self, tasks: Sequence[str]) -> bool:
        """End tasks that ignored the stop flag by force; returns whether the engine can do that."""

    async def put(self, name: str, data: bytes, worker: str) -> None:
        """Store bytes as the result `(name, 0)`, an array of uint8, on a worker ("": any)."""

    async def read(self, result: Result, wanted: ChunkElements) -> bytes:
        """Elements of a chunk.

        A worker takes the part out of the chunk, so that the whole chunk never travels. Raises ChunkLostError.
        """

    async def memory(self) -> dict[str, dict[str, Any]]:
        """By worker key: `pid`, `resident` (bytes of the process), `spilled` (bytes on disk).

        A figure that the engine does not know is absent.
        """

    def bandwidth(self) -> float | None:
        """Bytes a second between two workers, as measured; None where the engine does not know."""

    async def scale(self, n: int) -> None:
        """Ask for so many workers; raises ClusterError where the engine cannot."""

    async def adapt(self, least: int, most: int) -> None:
        """Let the engine choose between so many workers; raises ClusterError where the engine cannot."""

    def promises(self) -> Promises:
        """What the engine promises."""

    async def close(self) -> None:
        """Free all that is ours on the engine; an engine that we did not start goes on."""
