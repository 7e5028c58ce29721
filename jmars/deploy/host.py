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
import sys
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from jmars.actors.descriptors import Descriptor
from jmars.deploy import memory
from jmars.deploy.folders import Folders
from jmars.deploy.head import ClusterHead
from jmars.deploy.in_process_scheduler import InProcessScheduler
from jmars.deploy.janitor import start_janitor
from jmars.deploy.scheduler_port import SchedulerPort
from jmars.deploy.scheduler_subprocess import SchedulerSubprocess
from jmars.deploy.served import executors_ready
from jmars.deploy.why_service import WhyService
from jmars.errors import MemoryLimitError
from jmars.model import events
from jmars.model.reports import WorkerMoved
from jmars.processes.links import Children
from jmars.scheduler import Machine
from jmars.storage import Arena
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.worker import ExecutionActor, Zygote, start_zygote
from jmars.worker.chunk_transfer import ChunkTransferActor
from jmars.worker.host_status import host_status
from jmars.worker.store import StoreActor

__all__ = ["Host", "main"]

log = logging.getLogger("jmars.host")


class Host(ClusterHead):
    """The objects of the control process. `orders` are LocalHost's."""

    def __init__(self, orders: dict[str, Any], folders: Folders, zygote: Zygote, janitor: int, arena: Arena):
        super().__init__(orders, folders)
        self.arena = arena
        self.children = Children(zygote, self.ended.set)
        self._zygote, self.janitor = zygote, janitor
        workers = orders["workers"]
        self.execution = ExecutionActor(
            arena,
            self.children,
            workers,
            orders["threads"],
            folders.make_spill,
            folders.disk_room,
            orders["limit"],
            memory.set_aside(orders["limit"], workers, arena.capacity),
        )
        names = [worker.name for worker in self.execution.workers]
        store = StoreActor(self.execution)
        passing = ChunkTransferActor(store, arena.memory)
        scheduler = self._make_scheduler(names, passing)
        watch = WhyService(partial(host_status, self.execution), self._moved, scheduler.reasons, self.stalled)
        self.serve_with(scheduler, store, watch, passing)
        self._watching: asyncio.Task[None] | None = None
        self._memory, self._private = memory.PrivateMemory(), dict[str, int]()
        self._known: dict[str, int] = {}  # processes, as they were told of last

    def _make_scheduler(self, workers: list[str], passing: ChunkTransferActor) -> SchedulerPort:
        """A scheduler in this process; for a detached cluster in a separate process, where it may die without harm."""
        plans = memory.plan_bytes(self.orders["limit"])

        def read_chunk(chunk: int, size: int) -> Awaitable[bytes]:
            return passing.read(chunk, 0, size)

        if not self.orders["detach"]:
            return InProcessScheduler(self.execution, workers, plans, self.job_ended, self._machine, read_chunk)
        return SchedulerSubprocess(
            self.orders,
            str(self.folders.journal),
            self.execution,
            workers,
            plans,
            self.job_ended,
            self._machine,
            read_chunk,
            self.uploads,
            self.give_up,
        )

    # -- for clients
    @property
    def n_workers(self) -> int:
        """Number of executors."""
        return len(self.execution.workers)

    @property
    def limit(self) -> int:
        """Bytes of memory for all processes together."""
        return int(self.orders["limit"])

    async def ready(self) -> dict[str, Any]:
        """Wait until the executors are forked; returns the facts for mapping the arena."""
        await executors_ready(self.children, self.n_workers)
        return {
            "arena": self.arena.size,
            "capacity": self.arena.capacity,
            "janitor": self.janitor,
            "pid": os.getpid(),
            "workers": self.orders["workers"],
            "threads": self.orders["threads"],
            "limit": self.orders["limit"],
            "detached": self.orders["detach"],
            "machines": None,  # one, with common memory
        }

    def descriptor(self) -> Descriptor:
        """Descriptor of the shared memory."""
        return Descriptor(self.arena.fd)

    def profile(self) -> dict[str, Any]:
        """Measured costs of operands on this host."""
        return self.execution.ledger.profile.as_data()

    async def info(self) -> dict[str, Any]:
        """Processes, memory and limits; see Cluster.info."""
        plans = await self.scheduler.plans()  # first: what was dropped before is freed by then
        pids = self.children.pids()
        private = {name: memory.private_bytes(pid) for name, pid in self._all_pids().items()}
        workers = [
            {
                "name": worker.name,
                "pid": pids.get(worker.name, 0),
                "state": "running" if worker.batches else "idle" if worker.name in pids else "starting",
                "memory": private.get(worker.name, 0),
                "running": worker.running,
                "done": worker.done,
                "restarts": worker.restarts,
            }
            for worker in self.execution.workers
        ]
        resident = self.arena.resident
        return {
            "id": self.orders["id"],
            "name": self.orders["name"],
            "host": {"pid": os.getpid(), "memory": private["control"]},
            "scheduler": {
                "pid": self.scheduler.pid,
                "state": self.scheduler.state,
                "memory": private.get("scheduler", private["control"]),
            },
            "workers": workers,
            "janitor": {"pid": self.janitor},
            "memory": {
                "limit": self.orders["limit"],
                "resident": sum(private.values()) + resident,
                "peak": max(self.peak, sum(private.values()) + resident),
                "arena": {"capacity": self.arena.capacity, "used": self.arena.used, "resident": resident},
                "processes": private,
                "spilled": self.execution.chunks.on_disk,
                "spilled_total": self.execution.chunks.spilled,
                "reloaded_total": self.execution.chunks.reloaded,
                "chunks": len(self.execution.chunks.memory) + len(self.execution.chunks.disk),
                "levels": self.execution.memory.levels(),
            },
            "plans": plans,
        }

    # -- the life of the process
    async def run(self, kernel_end: int) -> None:
        """Serve until told to end, the kernel is gone (`kernel_end` closes), or the zygote is."""
        if not self.orders["detach"]:
            asyncio.get_running_loop().add_reader(kernel_end, self._kernel_spoke, kernel_end)
        server = await self.listen()
        self.scheduler.start()
        self.execution.start()
        self.execution.ledger.load()
        for worker in self.execution.workers:
            self.execution.report(WorkerMoved(worker.index, worker.name, 0, "starting"))
        self.register()
        self._watching = asyncio.ensure_future(self.watch_memory())
        await self.ended.wait()
        self._watching.cancel()
        await asyncio.to_thread(self.execution.ledger.save)
        server.close()
        self.scheduler.close()
        self.execution.close()
        self.children.close()
        self.hang_up()
        self.folders.remove()

    def _kernel_spoke(self, kernel_end: int) -> None:
        if not os.read(kernel_end, 1024):
            asyncio.get_running_loop().remove_reader(kernel_end)
            self.ended.set()

    def _machine(self) -> Machine:
        arena = self.arena
        return Machine(self.execution.ledger.profile, arena.capacity, max(0, arena.capacity - arena.resident))

    def _moved(self) -> int:
        """Bytes to and from disk so far, as a sign that jobs move."""
        return self.execution.chunks.spilled + self.execution.chunks.reloaded

    def job_ended(self, report: Mapping[str, Any]) -> None:
        """A job has ended: log the memory, and tell the clients."""
        self._log_memory()
        if not self.scheduler.active:
            self.execution.memory.graph_room.update(0)
        super().job_ended(report)

    # -- memory
    async def look(self) -> None:
        """Log memory, worker processes, and jobs that do not move."""
        pids = self._all_pids()
        for worker in self.execution.workers:
            if pids.get(worker.name) != self._known.get(worker.name):
                moved = WorkerMoved(worker.index, worker.name, pids.get(worker.name, 0), "idle")
                self.execution.report(moved)
        self._known = pids
        try:
            self._private = await asyncio.to_thread(self._memory.of, pids)
            self.execution.memory.graph_room.update(memory.of_control(self._private) if self.scheduler.active else 0)
        finally:
            self._log_memory()
            await self.watch.look()

    def _all_pids(self) -> dict[str, int]:
        return {
            "control": os.getpid(),
            "zygote": self._zygote.pid,
            "janitor": self.janitor,
            **self.scheduler.pids,
            **self.children.pids(),
        }

    def _log_memory(self) -> None:
        resident = sum(self._private.values()) + self.arena.resident
        self.peak = max(self.peak, resident)
        pids = self.children.pids()
        chunks = self.execution.chunks
        workers = [
            {
                "name": worker.name,
                "pid": pids.get(worker.name, 0),
                "pss": self._private.get(worker.name, 0),
                "running": worker.running,
                "done": worker.done,
            }
            for worker in self.execution.workers
        ]
        self.scheduler.note(
            events.MEMORY_CHANGED,
            "",
            {
                "used": self.arena.used,
                "resident": resident,
                "spilled": chunks.on_disk,
                "spilled_total": chunks.spilled,
                "reloaded_total": chunks.reloaded,
                "limit": self.orders["limit"],
                "peak": self.peak,
                "workers": workers,
            },
        )


def main() -> None:
    """Be a control process until the cluster ends."""
    orders = json.loads(sys.stdin.buffer.readline())
    kernel_end, answer = os.dup(0), os.dup(1)  # nobody else reads the first or writes the second
    if orders["detach"] and os.fork():
        os._exit(0)  # whoever started us waits for this process, and is no parent of the one that stays
    if orders["detach"]:
        os.setsid()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what users print goes to the log
    sys.path[:] = orders["path"]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    set_engine(NoComputeEngine(orders["limit"], orders["workers"]))  # tensors are built here where a graph unfolds
    folders = Folders(**orders["folders"])
    arena_fd = orders["arena"]
    try:
        control = memory.private_bytes(os.getpid()) + (memory.SCHEDULER_BYTES if orders["detach"] else 0)
        capacity = memory.room_for_chunks(orders["limit"], orders["workers"], control)
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
