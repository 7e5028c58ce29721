"""SchedulerContext: what all jobs of a cluster share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jmars.model.messages import WorkerPort
from jmars.scheduler.chunk_meta import ChunkMetaActor
from jmars.scheduler.ended_stage import EndedStage
from jmars.scheduler.event_log import EventLog
from jmars.scheduler.fitting import raise_limit
from jmars.scheduler.plans import Plans
from jmars.scheduler.prepare import Prepared
from jmars.scheduler.ranking import Machine
from jmars.scheduler.shards import ShardPlace

__all__ = ["ReadChunk", "SchedulerContext"]

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
    take_chunks: Callable[[int], int]  # gives the first of so many fresh chunk numbers
    ended: Callable[[Any], None]  # called once with each GraphActor, when its job has ended
    machine: Callable[[], Machine] | None = None  # gives what the host can do, for who plans
    read_chunk: ReadChunk | None = None  # gives the bytes of a small chunk, for what is decided by a value
    places: Mapping[str, ShardPlace] | None = None  # other scheduler processes, by name
    stage_ended: Callable[[str, int, EndedStage], None] | None = None  # hears of each, where another may go on
    stage_values: Callable[[str, int, Mapping[int, Any]], None] | None = None  # and of what decides the next stage

    absent: set[int] = field(default_factory=set)  # workers that are lost, leave or have left
    _refining: set[asyncio.Task[None]] = field(default_factory=set)

    def set_workers(self, names: Sequence[str], staying: int) -> None:
        """The workers of one host: names of all workers that ever were, of which the first `staying` are here."""
        self.workers[:] = names
        self.absent.clear()
        self.absent.update(range(staying, len(names)))

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

        After a large difference, or where a link is faster since, a thread plans the structure again with present
        costs, for the next runs.
        """
        if self.machine is None:
            return
        machine = self.machine()
        machine.profile.accuracy.observe(prepared.picture.get("predicted"), measured)
        if prepared.is_off(measured["makespan"], self.plans.is_slow(prepared)):
            task = asyncio.ensure_future(self._refine(prepared, machine))
            self._refining.add(task)
            task.add_done_callback(self._refining.discard)

    async def _refine(self, prepared: Prepared, machine: Machine) -> None:
        try:
            again = await asyncio.to_thread(prepared.planned_again, len(self.here()), machine)
        except Exception:  # the plan that is there serves still
            log.exception("a structure could not be planned again")
            return
        self.plans.replace(prepared, again)
