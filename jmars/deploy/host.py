"""The control process: scheduler, workers and their store in a single event loop.

`main` is run by `python -m jmars host`. Orders come as one JSON line from standard input; the end of standard input is
the kernel's end. The process forks the janitor and the zygote first, while there is no thread; then it listens.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jmars.actors.channel import Descriptor
from jmars.deploy import memory
from jmars.deploy.control_process import take_orders
from jmars.deploy.folders import Folders
from jmars.deploy.head import FIXED, ClusterHead, InProcessScheduler, WhyService
from jmars.deploy.host_machine import HostMachine
from jmars.deploy.janitor import start_janitor
from jmars.errors import ClusterError, MemoryLimitError
from jmars.model import events
from jmars.model.limits import REPORTED_BYTES, SMALL_RESULT
from jmars.scheduler import Machine
from jmars.storage import Arena
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.worker import Zygote, start_zygote
from jmars.worker.host_status import host_status
from jmars.worker.store import ChunkTransferActor

log = logging.getLogger("jmars.host")


class Host(ClusterHead):
    """The objects of the control process. `orders` are those of `control_process.local`."""

    def __init__(self, orders: dict[str, Any], folders: Folders, zygote: Zygote, janitor: int, arena: Arena):
        super().__init__(orders, folders)
        self.arena, self.janitor = arena, janitor
        self.machine = HostMachine(orders, folders, zygote, janitor, arena, self.ended.set)
        self.execution = self.machine.execution
        plans, names = memory.plan_bytes(orders["limit"]), self.machine.names
        scheduler = self.make_scheduler(self.execution, names, plans)
        status = partial(host_status, self.execution)
        watch = WhyService(status, self.machine.moved, scheduler.reasons, self.stalled)
        passing = ChunkTransferActor(self.machine.store, arena.memory)
        self.serve_with(scheduler, self.machine.store, watch, passing)

    # -- for clients
    @property
    def n_workers(self) -> int:
        """Number of executors that do not leave."""
        return self.machine.n_workers

    @property
    def limit(self) -> int:
        """Bytes of memory for all processes together."""
        return int(self.orders["limit"])

    @property
    def capacity(self) -> int:
        """Bytes of the shared memory."""
        return self.arena.capacity

    async def ready(self) -> dict[str, Any]:
        """Wait until the executors are forked; returns the facts for mapping the arena."""
        await self.machine.ready()
        return self.facts()

    def facts(self) -> dict[str, Any]:
        """Facts that a client needs to map the arena, too."""
        return super().facts() | {
            "arena": self.arena.size,
            "workers": self.n_workers - self.machine.n_gpus,
            "threads": self.orders["threads"],
            "machines": None,  # one, with common memory
        }

    async def scale(self, n: int | Sequence[str]) -> None:
        """Have so many workers, and tell the clients; raises ClusterError where that cannot be."""
        if not isinstance(n, int):
            raise ClusterError(
                "the workers of this cluster run on this machine; jmars.Cluster.hosts has further places"
            )
        if n < 1:
            raise ClusterError(f"a cluster has 1 worker or more, not {n}; to end the cluster, stop it")
        if self.orders.get("gpus"):
            raise ClusterError(f"this cluster has workers with a GPU, and {FIXED}")
        try:
            await self.machine.scale(n)
        finally:
            self.tell_clients("scaled", self.facts())

    def descriptor(self) -> Descriptor:
        """Descriptor of the shared memory."""
        return Descriptor(self.arena.fd)

    async def info(self) -> dict[str, Any]:
        """Processes, memory and limits; see Cluster.info."""
        plans = await self.scheduler.plans()  # first: what was dropped before is freed by then
        private = await self.machine.private(self.scheduler.pids)
        return {
            "id": self.orders["id"],
            "name": self.orders["name"],
            "host": {"pid": os.getpid(), "memory": private["control"]},
            "scheduler": self.scheduler_info(private.get("scheduler", private["control"])),
            "workers": self.machine.workers_info(private),
            "janitor": {"pid": self.janitor},
            "memory": self.machine.memory_info(private),
            "plans": plans,
        }

    # -- the life of the process
    async def run(self, kernel_end: int) -> None:
        """Serve until told to end, the kernel is gone (`kernel_end` closes), or the zygote is."""
        self.end_with(kernel_end)
        await self.serve_clients(self.machine.start, lambda: None)
        await self.machine.close()
        self.folders.remove()

    def _machine(self) -> Machine:
        capacity = self.machine.capacity
        fresh = max(0, capacity - self.arena.resident)
        return Machine(self.execution.ledger.profile, capacity, fresh, gpus=self.machine.gpus)

    def job_ended(self, report: Mapping[str, Any]) -> None:
        """A job has ended: log the memory, and tell the clients."""
        self._log_memory()
        super().job_ended(report)

    def small_values(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Results with small chunks in memory, as many as fit into a message: {"values": chunks by key}."""
        scheduler, arena, chunks = self.scheduler, self.arena, self.execution.chunks
        if not isinstance(scheduler, InProcessScheduler):  # only the scheduler knows the chunks of a key
            return {}
        tensors, memory, moving = scheduler.session.meta.tensors, chunks.memory, chunks.moving
        found, left = dict[str, list[bytes]](), REPORTED_BYTES
        for key in report["results"]:
            places = [(memory[one], arena.size_of(memory[one])) for one in tensors.get(key, ()) if one in memory]
            sizes = [size for _, size in places]
            if not sizes or max(sizes) > SMALL_RESULT or len(sizes) < len(tensors[key]):
                continue
            if moving and not moving.isdisjoint(tensors[key]):
                continue
            left -= sum(sizes)
            if left < 0:
                break
            found[key] = [arena.memory[at : at + size] for at, size in places]
        return {"values": found}

    # -- memory
    async def look(self) -> None:
        """Log memory, worker processes, and jobs that do not move."""
        try:
            await self.machine.look(self.scheduler.pids)
        finally:
            self._log_memory()
            await self.watch.look()

    def _log_memory(self) -> None:
        told = self.machine.standing()
        self.peak = self.machine.peak
        self.scheduler.note(events.MEMORY_CHANGED, "", told)


def main() -> None:
    """Be a control process until the cluster ends."""
    orders, kernel_end, answer = take_orders()
    set_engine(NoComputeEngine(orders["limit"], orders["workers"]))  # tensors are built here where a graph unfolds
    folders = Folders(**orders["folders"])
    arena_fd = orders["arena"]
    try:
        control = memory.private_bytes(os.getpid()) + memory.SCHEDULER_BYTES * orders["schedulers"]
        processes = orders["workers"] + len(orders.get("gpus", ()))
        capacity = memory.room_for_chunks(orders["limit"], processes, control)
    except MemoryLimitError as error:
        os.write(answer, json.dumps({"error": str(error)}).encode() + b"\n")
        return
    lock = folders.lock()  # held until both the janitor and this process have ended
    janitor, alive = start_janitor(folders, orders["kernel"], [kernel_end, answer, arena_fd])
    arena = Arena(arena_fd, capacity)
    zygote = start_zygote(arena_fd, arena.size, [kernel_end, answer, alive, lock])
    os.write(answer, json.dumps({"pid": os.getpid(), "janitor": janitor}).encode() + b"\n")
    os.close(answer)

    async def serve_until_the_end() -> None:
        await Host(orders, folders, zygote, janitor, arena).run(kernel_end)
        os._exit(0)  # what a thread still compiles is of no use

    asyncio.run(serve_until_the_end())
