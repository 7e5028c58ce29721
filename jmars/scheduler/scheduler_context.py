"""SchedulerContext: what all jobs of a cluster share.

The chunks of kept tensors, and reference counts of chunks.

A chunk may belong to several tensors (a reshape without a copy) and to reading jobs, so holders are counted;
the last release frees the chunk. Source: docs/explanation/seeds.md, "Operand states".

EndedStage: the chunks and lengths of an ended stage of a job, for the journal and the next scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jmars.errors import ChunkLostError
from jmars.model.messages import WorkerPort
from jmars.scheduler.event_log import EventLog
from jmars.scheduler.plans import Plans
from jmars.scheduler.prepare import Prepared
from jmars.scheduler.ranking import Machine, raise_limit
from jmars.scheduler.shards import RemotePlace
from jmars.tensor.operand import Splits

if TYPE_CHECKING:
    from jmars.scheduler.graph_actor import GraphActor

log = logging.getLogger("jmars.scheduler")

ReadChunk = Callable[[int, int], Awaitable[bytes]]  # (chunk, bytes of it) -> the bytes


@dataclass
class SchedulerContext:
    """Workers, logs and caches of a cluster, for its jobs."""

    workers: list[str]  # names, by index
    port: WorkerPort
    meta: ChunkMetaActor
    log: EventLog
    plans: Plans
    take_chunks: Callable[[int], int]  # (count) -> the first of `count` fresh chunk numbers
    ended: Callable[[GraphActor], None]  # called once with the GraphActor of each ended job
    machine: Callable[[], Machine] | None = None  # the machine to plan for; None: plans predict nothing
    read_chunk: ReadChunk | None = None  # bytes of small chunks, for stages that a value decides
    places: Mapping[str, RemotePlace] | None = None  # other scheduler processes, by name
    stage_ended: Callable[[str, int, EndedStage], None] | None = None  # notes the end of a stage for the next scheduler
    stage_values: Callable[[str, int, Mapping[int, Any]], None] | None = None  # notes the values that decide a stage

    absent: set[int] = field(default_factory=set)  # workers that are lost, leave or have left
    _refining: set[asyncio.Task[None]] = field(default_factory=set)

    def here(self) -> Sequence[str]:
        """Names of the workers to plan for; on several machines of all workers, present or not, since `Machine.rows`
        has the present workers.
        """
        if not self.absent or (self.machine is not None and self.machine().rows is not None):
            return self.workers
        return self.workers[: min(self.absent)]

    def memory_advice(self) -> str:
        """How to get more memory, for errors."""
        return raise_limit() if self.machine is None else self.machine().advice()

    def ran(self, prepared: Prepared, measured: dict[str, Any]) -> None:
        """A job, or a stage, has succeeded: compare measurements with the prediction, for later predictions.

        After a large difference a thread plans the structure again with present costs, for the next runs.
        """
        if self.machine is None:
            return
        machine = self.machine()
        machine.profile.accuracy.observe(prepared.picture.get("predicted"), measured)
        if prepared.is_off(measured["makespan"]):
            task = asyncio.ensure_future(self._refine(prepared, machine))
            self._refining.add(task)
            task.add_done_callback(self._refining.discard)

    async def _refine(self, prepared: Prepared, machine: Machine) -> None:
        try:
            again = await asyncio.to_thread(prepared.planned_again, len(self.here()), machine)
        except Exception:  # the present plan stays
            log.exception("a structure could not be planned again")
            return
        self.plans.replace(prepared, again)


class ChunkMetaActor:
    """Kept tensors by key, and the number of holders of each chunk."""

    def __init__(self) -> None:
        self.tensors: dict[str, list[int]] = {}  # key: chunks in C order of the grid
        self.shapes: dict[int, tuple[int, ...]] = {}  # shapes of held chunks whose size the run told
        self._holders: dict[int, int] = {}
        self._lost: set[int] = set()  # held chunks that are gone

    def keep(self, key: str, chunks: Sequence[int]) -> list[int]:
        """Make `chunks` the tensor `key`; returns chunks to free because the tensor was here already.

        The first tensor stays, unless some of its chunks are lost: a job may be reading the tensor, and a key's value
        never changes.
        """
        self.hold(chunks)
        before = self.tensors.get(key)
        if before is not None and self._lost.isdisjoint(before):
            return self.release(chunks)
        self.tensors[key] = list(chunks)
        return self.release(before or ())

    def chunks(self, key: str) -> list[int]:
        """Chunks of a kept tensor; raises ChunkLostError when the tensor is not here, or some chunks are gone."""
        known = self.tensors.get(key)
        if known is None:
            raise ChunkLostError(f"tensor {key} is no longer on the cluster; compute it again", [key])
        if self._lost and not self._lost.isdisjoint(known):
            raise ChunkLostError(f"a chunk of tensor {key} was lost; compute it again", [key])
        return known

    def is_readable(self, key: str) -> bool:
        """Whether a tensor is kept and all of its chunks are here."""
        known = self.tensors.get(key)
        return known is not None and (not self._lost or self._lost.isdisjoint(known))

    def held(self) -> list[int]:
        """Chunks with at least one holder."""
        return list(self._holders)

    def is_held(self, chunk: int) -> bool:
        """Whether a chunk is here and has a holder."""
        return chunk in self._holders and chunk not in self._lost

    def lost(self, chunks: Iterable[int]) -> list[str]:
        """Chunks are gone; returns the tensors that cannot be read any more."""
        gone = {chunk for chunk in chunks if chunk in self._holders}
        self._lost |= gone
        return [key for key, held in self.tensors.items() if not gone.isdisjoint(held)] if gone else []

    def drop(self, key: str) -> list[int]:
        """Forget a tensor; returns chunks without a holder now."""
        return self.release(self.tensors.pop(key, ()))

    def hold(self, chunks: Iterable[int]) -> None:
        """Add a holder to each chunk."""
        for chunk in chunks:
            self._holders[chunk] = self._holders.get(chunk, 0) + 1

    def note_shape(self, chunk: int, shape: tuple[int, ...]) -> None:
        """Note the shape of a chunk that was not known before, while the chunk has a holder."""
        if chunk in self._holders:
            self.shapes[chunk] = shape

    def release(self, chunks: Iterable[int]) -> list[int]:
        """Remove a holder from each chunk; returns chunks without a holder now."""
        holders, free = self._holders, []
        for chunk in chunks:
            left = holders[chunk] - 1
            if left:
                holders[chunk] = left
            else:
                del holders[chunk]
                free.append(chunk)
        if self._lost:
            self._lost.difference_update(free)
        if self.shapes:
            for chunk in free:
                self.shapes.pop(chunk, None)
        return free


@dataclass(frozen=True)
class EndedStage:
    """Chunks and lengths of an ended stage, for a scheduler that goes on behind the stage.

    Attributes
    ----------
    chunks
        Of each kept node, in C order.
    lengths
        Chunk lengths of kept nodes whose lengths were not known before.
    shapes
        Shapes of chunks with a size that only the run told.
    """

    chunks: Mapping[int, Sequence[int]]
    lengths: Mapping[int, Splits]
    shapes: Mapping[int, Sequence[int]]
