"""HostMachine: workers, store and memory of one machine, within its control process.

The control process of a cluster on one machine has one; so has each host of a cluster of several machines.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

from jmars.deploy import memory
from jmars.deploy.folders import Folders
from jmars.dispatch.host_dispatch import LEAVING
from jmars.dispatch.workers import GIVEN_UP, WARMING, Worker
from jmars.errors import ClusterStartError
from jmars.model.limits import PAGE
from jmars.model.messages import WorkerMoved
from jmars.processes.links import Children
from jmars.storage import Arena
from jmars.worker import ExecutionActor, Zygote
from jmars.worker.store import StoreActor

HALF_SECONDS = 9.0  # in which memory that functions took without a promise is half forgotten
EXECUTORS_SECONDS = 20.0  # for which executors may not come up: less than a client waits for its connection


class HostMachine:
    """The objects of a control process that compute.

    Parameters
    ----------
    orders
        `workers`, `limit` (bytes), and `gpus`, names of GPUs, for a host that has some.
    ended
        Called when the zygote is gone, and the machine with it.

    Attributes
    ----------
    execution, store
        Workers, and chunks for clients that map the memory.
    peak
        Most bytes of memory so far, in all processes.
    """

    def __init__(
        self,
        orders: dict[str, Any],
        folders: Folders,
        zygote: Zygote,
        janitor: int,
        arena: Arena,
        ended: Callable[[], None],
    ) -> None:
        self.arena, self.janitor, self.limit = arena, janitor, int(orders["limit"])
        self.children = Children(zygote, ended)
        gpus = orders.get("gpus", [])
        workers = orders["workers"] + len(gpus)
        self._aside = memory.set_aside(self.limit, workers, arena.capacity)  # bytes for the control process
        self.execution = ExecutionActor(
            arena,
            self.children,
            workers,
            folders.make_spill,
            folders.disk_room,
            self.limit,
            self._aside,
            gpus,
        )
        self.store = StoreActor(self.execution)
        self._workers: int = workers  # at the start, for which `arena` leaves room
        self._control = memory.CONTROL_START + memory.SCHEDULER_BYTES * orders.get("schedulers", 0)
        self.peak = 0
        self._zygote = zygote
        self._memory, self._private = memory.PrivateMemory(), dict[str, int]()
        self._beyond = 0  # bytes that executors and helpers took without a promise, lately
        self._looked = perf_counter()
        self._known: dict[str, int] = {}  # processes, as they were told of last

    @property
    def names(self) -> list[str]:
        """Names of the workers."""
        return [worker.name for worker in self.execution.workers]

    @property
    def n_workers(self) -> int:
        """Number of workers that do not leave, those with a GPU counted."""
        return self.execution.dispatch.scaling.staying

    @property
    def n_gpus(self) -> int:
        """Number of workers with a GPU."""
        return sum(worker.has_gpu for worker in self.execution.workers)

    async def ready(self) -> None:
        """Wait until the executors are forked, and GPUs are warm; raises ClusterStartError."""
        await executors_ready(self.children, self._are_ready)

    def _are_ready(self) -> bool:
        staying = self.execution.workers[: self.n_workers]
        return all(one.state == GIVEN_UP or (one.state != WARMING and one.link.pid) for one in staying)

    async def scale(self, wanted: int) -> None:
        """Have so many workers: returns when new workers run; leaving workers finish the running operands.

        Raises
        ------
        MemoryLimitError
            If the memory limit leaves no room for so many processes.
        ClusterStartError
            If processes cannot be forked; the processes run as soon as the system has room.
        """
        memory.room_for_chunks(self.limit, wanted, self._control)
        for _ in range(self.n_workers, wanted):
            self.execution.add_worker()
        for _ in range(wanted, self.n_workers):
            self.execution.remove_worker()
        self.make_room()
        await executors_ready(self.children, self._are_ready)

    @property
    def capacity(self) -> int:
        """Bytes for chunks and scratch: those of the arena, less the memory of workers that came since the start."""
        return int(self.arena.capacity) - self._came

    @property
    def _came(self) -> int:
        return max(0, len(self.execution.workers) - self._workers) * memory.WORKER_BYTES

    def make_room(self) -> None:
        """Take room from chunks for processes, and for workers that came since the start."""
        taken = memory.of_control(self._private) + self._came
        self.execution.memory.graph_room.update(taken)
        self.execution.memory.worker_room.update(self._beyond - max(0, self._aside - taken))

    @property
    def gpus(self) -> tuple[int, ...]:
        """Bytes of each GPU for chunks; empty where no GPU can be used."""
        sizes = [worker.gpu_bytes for worker in self.execution.workers if worker.has_gpu]
        return tuple(max(PAGE, size) for size in sizes) if any(sizes) else ()

    def start(self) -> None:
        """Fork the executors, and report them to the scheduler."""
        self.execution.start()
        self.execution.ledger.load()
        for worker in self.execution.workers:
            self.execution.report(WorkerMoved(worker.index, worker.name, 0, "starting"))

    async def close(self) -> None:
        """Save what was learnt, and end all processes."""
        await asyncio.to_thread(self.execution.ledger.save)
        self.execution.close()
        self.children.close()

    # -- processes and memory
    def pids(self) -> dict[str, int]:
        """Processes by name."""
        return {
            "control": os.getpid(),
            "zygote": self._zygote.pid,
            "janitor": self.janitor,
            **self.children.pids(),
        }

    async def private(self, more: dict[str, int]) -> dict[str, int]:
        """Private bytes of all processes by name; `more` are processes that others started."""
        return await asyncio.to_thread(self._memory.of, self.pids() | more)

    def workers_info(self, private: dict[str, int]) -> list[dict[str, Any]]:
        """Workers for `Cluster.info`."""
        pids, scaling = self.children.pids(), self.execution.dispatch.scaling
        return [
            {
                "name": worker.name,
                "pid": pids.get(worker.name),  # not 0: os.kill(0, …) would end all processes of the caller's group
                "state": LEAVING if scaling.leaves(worker.index) else _state(worker, worker.name in pids),
                "memory": private.get(worker.name, 0),
                "running": worker.running,
                "done": worker.done,
                "restarts": worker.restarts,
                **_device(worker),
            }
            for worker in self.execution.workers
        ]

    def memory_info(self, private: dict[str, int]) -> dict[str, Any]:
        """Memory for `Cluster.info`."""
        arena, chunks = self.arena, self.execution.chunks
        resident = arena.resident
        used = sum(private.values()) + resident
        return {
            "limit": self.limit,
            "resident": used,
            "peak": max(self.peak, used),
            "arena": {"capacity": arena.capacity, "used": arena.used, "resident": resident},
            "processes": private,
            "spilled": chunks.on_disk,
            "spilled_total": chunks.spilled,
            "reloaded_total": chunks.reloaded,
            "chunks": len(chunks.memory) + len(chunks.disk),
            "levels": self.execution.memory.levels() | {"device": self.execution.memory.devices.used},
        }

    async def look(self, more: dict[str, int]) -> None:
        """Report processes that came or went, and measure the memory of all; `more` are processes of others."""
        pids = self.pids() | more
        for worker in self.execution.workers[: self.n_workers]:
            if pids.get(worker.name) != self._known.get(worker.name):
                state = worker.state if worker.state == GIVEN_UP else "idle"
                moved = WorkerMoved(worker.index, worker.name, pids.get(worker.name, 0), state)
                self.execution.report(moved)
        self._known = pids
        promised = self.execution.memory.promised
        self._private = await self.private(more)
        promised = max(promised, self.execution.memory.promised)  # operands began or ended while memory was measured
        beyond = memory.beyond(self._private, len(self.execution.workers), promised)
        looked, self._looked = self._looked, perf_counter()
        left = 0.5 ** ((self._looked - looked) / HALF_SECONDS)  # most functions take memory for moments
        self._beyond = max(beyond, int(self._beyond * left))
        self.make_room()
        resident = sum(self._private.values()) + self.arena.resident
        self.peak = max(self.peak, resident)
        if resident > self.limit:
            self.execution.memory.give_back_pages(resident - self.limit)

    def standing(self) -> dict[str, Any]:
        """Memory as it was measured last, for a MEMORY_CHANGED event."""
        chunks, pids = self.execution.chunks, self.children.pids()
        resident = sum(self._private.values()) + self.arena.resident
        self.peak = max(self.peak, resident)
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
        gpus = self.execution.dispatch.gpus
        return {
            "used": self.arena.used,
            "device": self.execution.memory.devices.used,
            "device_memory": gpus.memory,
            "resident": resident,
            "spilled": chunks.on_disk,
            "spilled_total": chunks.spilled,
            "reloaded_total": chunks.reloaded,
            "limit": self.limit,
            "peak": self.peak,
            "workers": workers,
        }

    def moved(self) -> int:
        """Bytes to and from disk and other hosts so far, as a sign that jobs move."""
        chunks = self.execution.chunks
        return chunks.spilled + chunks.reloaded + chunks.fetched


def _state(worker: Worker, has_process: bool) -> str:
    """State of a worker for people."""
    if worker.state in (GIVEN_UP, WARMING):
        return worker.state
    return "running" if worker.batches else "idle" if has_process else "starting"


def _device(worker: Worker) -> dict[str, Any]:
    """The GPU of a worker for people: its name, bytes for chunks, and bytes in slots; empty for a worker of cores."""
    if not worker.has_gpu:
        return {}
    used = worker.slots.used if worker.slots is not None else 0
    return {"device": {"name": worker.gpu_name, "memory": worker.gpu_bytes, "used": used}}


async def executors_ready(children: Children, are_ready: Callable[[], bool]) -> None:
    """Wait until the executors of a host are forked, and their GPUs are warm.

    Raises
    ------
    ClusterStartError
        If processes cannot be forked, or GPUs do not become warm.
    """
    end = asyncio.get_running_loop().time() + EXECUTORS_SECONDS
    while not are_ready():
        if asyncio.get_running_loop().time() > end:
            why = children.trouble or "a GPU does not answer, see the log"
            raise ClusterStartError(
                f"no worker processes after {EXECUTORS_SECONDS:g} s: {why}; close other programs, or take fewer workers"
            )
        await asyncio.sleep(0.001)
