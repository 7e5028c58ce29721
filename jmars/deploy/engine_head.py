"""EngineHead: the head of a cluster that runs on the workers of a Dask or Ray cluster.

Runs in a thread of the kernel, since an engine's client and its references cannot move to another process. Clients, the
kernel too, reach it by a Unix socket as they reach every cluster.
Source: docs/explanation/seeds.md, "Architecture".

Chunks of an engine for clients: the actor "passing", where chunks lie in the engine's workers.

Clients send and read pieces; a piece of a chunk that is read leaves its worker alone, without the rest of the chunk.

EngineHost: starts the head of a cluster on an engine, in a thread of this process, and ends it.

The thread has an event loop of its own. There are no processes to end; closing frees our results on the engine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from jmars.actors import new_token, remote_method
from jmars.deploy import memory
from jmars.deploy.clients import UnsharedStore
from jmars.deploy.control_process import ClusterThread
from jmars.deploy.folders import Folders
from jmars.deploy.head import ClusterHead, InProcessScheduler, WhyService
from jmars.dispatch.ledger import SAVE_SECONDS, load_costs, save_costs
from jmars.engines.engine import BANDWIDTH, START_SECONDS, TaskEngine
from jmars.engines.port import EngineRow, EngineWorkers, engine_status
from jmars.errors import ClusterError
from jmars.model import events
from jmars.plan import Profile, Workers
from jmars.scheduler import Machine
from jmars.storage.chunks import ChunkElements, checksum, received

log = logging.getLogger("jmars.host")

INFO_SECONDS = 3.0  # for the engine to tell its memory
MEMORY_SECONDS = 1.0  # between two questions for the memory of the engine's workers
LATENCY = 2e-3


class EngineHead(ClusterHead):
    """Scheduler and clients of a cluster on an engine; `orders` are EngineHost's."""

    def __init__(self, orders: dict[str, Any], folders: Folders, engine: TaskEngine[Any]) -> None:
        super().__init__(orders, folders)
        profile = Profile()
        load_costs(profile)  # the engine's workers correct them
        self.workers = EngineWorkers(engine, f"jmars-{orders['id']}", self.give_up, profile)
        self._measured = 0.0  # when the engine was asked for memory
        self._saved = time.monotonic()  # when costs were written
        self._spilled = 0
        self._bounds: tuple[int, int] | None = None  # of `adapt`

    async def run(self, listening: Callable[[], None]) -> None:
        """Serve until told to end, or the engine is gone; calls `listening` once clients are accepted."""
        workers = self.workers
        await workers.start()
        try:
            passing = EngineChunks(workers)
            ours = memory.plan_bytes(memory.default_limit()), self.job_ended, self._machine, self.read_chunk
            scheduler = InProcessScheduler(workers, workers.names, *ours)
            watch = WhyService(partial(engine_status, workers), self._moved, scheduler.reasons, self.stalled)
            self.serve_with(scheduler, UnsharedStore(passing.abandon), watch, passing)
            await self.serve_clients(workers.announce, listening, engine=workers.engine.kind)
            await self._save()
        finally:
            await workers.close()

    # -- for clients
    @property
    def n_workers(self) -> int:
        """Workers that the engine has now."""
        return len(self.workers.here)

    @property
    def limit(self) -> int:
        """Bytes that our tasks may take on all workers together."""
        return sum(row.worker.memory for row in self.workers.here)

    @property
    def capacity(self) -> int:
        """The limit: a worker's process is the engine's."""
        return self.limit

    async def ready(self) -> dict[str, Any]:
        """The facts that a client needs; planners use "machines"."""
        return self.facts() | {"machines": self._rows()}

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The bounds of the newest `adapt`, unless `scale` came after."""
        return self._bounds

    async def scale(self, n: int | Sequence[str]) -> None:
        """Ask the engine for so many workers."""
        if not isinstance(n, int):
            raise ClusterError("an engine chooses the machines of its workers; give their number")
        await self.workers.engine.scale(n)
        self._bounds = None

    async def adapt(self, least: int, most: int) -> None:
        """Let the engine choose between so many workers."""
        await self.workers.engine.adapt(least, most)
        self._bounds = least, most

    async def info(self) -> dict[str, Any]:
        """Engine, workers, memory and promises; see Cluster.info."""
        await self._measure()
        engine, scheduler, running = self.workers.engine, self.scheduler, self.workers.running()
        promises = engine.promises()
        resident = self._resident()
        here = memory.private_bytes(os.getpid())
        return {
            "id": self.orders["id"],
            "name": self.orders["name"],
            "engine": {"kind": engine.kind, "address": engine.address, "mode": self.orders["mode"]},
            "mode": self.orders["mode"],
            "why": self.orders["why"],
            "security": promises.security,
            "promises": list(promises.missing),
            "host": {"pid": os.getpid(), "memory": here},
            "scheduler": {"pid": scheduler.pid, "state": scheduler.state, "memory": here},
            "workers": [self._row(row, len(running.get(row.number, []))) for row in self.workers.here],
            "memory": {
                "limit": self.limit,
                "resident": resident,
                "peak": max(self.peak, resident),
                "arena": {"capacity": self.limit, "used": self.workers.results.used, "resident": resident},
                "processes": {row.worker.name: row.resident for row in self.workers.here if row.resident is not None},
                "spilled": self._spilled,
                "spilled_total": self._spilled,
                "reloaded_total": 0,
                "chunks": len(self.workers.results),
            },
            "plans": await scheduler.plans(),
            "adapt": self._bounds and {"least": self._bounds[0], "most": self._bounds[1], "why": ""},
        }

    def _row(self, row: EngineRow, running: int) -> dict[str, Any]:
        return {
            "name": row.worker.name,
            "host": row.worker.host,
            "state": "running" if running else "idle",
            "running": running,
            "done": row.done,
            "restarts": 0,
            **({} if row.pid is None else {"pid": row.pid}),
            **({} if row.resident is None else {"memory": row.resident}),
        }

    def _resident(self) -> int:
        """Bytes of the workers that have told their memory."""
        return sum(row.resident or 0 for row in self.workers.here)

    async def _save(self) -> None:
        """Save the costs of operands that the engine's workers taught; none of them measures this machine itself."""
        self._saved = time.monotonic()
        await asyncio.to_thread(save_costs, self.workers.profile, host=False)

    # -- memory
    def job_ended(self, report: Mapping[str, Any]) -> None:
        """A job has ended: log the memory, and tell the clients."""
        self._log_memory()
        super().job_ended(report)

    async def look(self) -> None:
        """Log memory, and jobs that do not move."""
        if time.monotonic() - self._measured >= MEMORY_SECONDS:
            await self._measure()
            self._log_memory()
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            await self._save()
        await self.watch.look()

    async def _measure(self) -> None:
        self._measured = time.monotonic()
        try:
            async with asyncio.timeout(INFO_SECONDS):
                await self.workers.look()
        except Exception as error:  # an engine that is busy, or about to be lost, tells later
            log.debug("the engine's memory is not known: %s", error)
        self.peak = max(self.peak, self._resident())
        self._spilled = sum(row.spilled for row in self.workers.here)

    def _log_memory(self) -> None:
        running, rows = self.workers.running(), self.workers.rows
        told = [
            {
                "name": row.worker.name,
                "pid": row.pid or 0,
                "pss": (row.resident or 0) if row.here else 0,
                "running": len(running.get(row.number, [])),
                "done": row.done,
            }
            for row in rows
        ]
        self.scheduler.note(
            events.MEMORY_CHANGED,
            "",
            {
                "used": self.workers.results.used,
                "resident": self._resident(),
                "spilled": self._spilled,
                "spilled_total": self._spilled,
                "reloaded_total": 0,
                "limit": self.limit,
                "peak": self.peak,
                "engine": self.workers.engine.kind.title(),
                "workers": told,
            },
        )

    # -- for the scheduler
    def _moved(self) -> int:
        """Bytes on disk, as a sign that jobs move."""
        return self._spilled

    def _machine(self) -> Machine:
        """The engine's workers as machines without common memory."""
        numbers, rows = [row.number for row in self._ready_rows()], Workers.build(**self._rows())
        return Machine(self.workers.profile, int(rows.memory.sum()), rows=rows, numbers=numbers, balances=True)

    def _ready_rows(self) -> list[EngineRow]:
        """Workers of known cores and memory; where none is left, all workers that ever were."""
        known = [row for row in self.workers.rows if row.worker.cores]
        return [row for row in known if row.here] or known

    def _rows(self) -> dict[str, Any]:
        """Arguments of `Workers.build`."""
        rows = self._ready_rows()
        return {
            "n": len(rows),
            "cores": [row.worker.cores for row in rows],
            "memory": [row.worker.memory for row in rows],
            "bandwidth": self.workers.engine.bandwidth() or BANDWIDTH,
            "latency": LATENCY,
            "disk": self.workers.profile.disk,
        }


class EngineChunks:
    """The actor "passing"; has the methods of ChunkTransferActor."""

    def __init__(self, workers: EngineWorkers) -> None:
        self._workers = workers
        self._coming: dict[int, tuple[bytearray, int]] = {}  # chunk that comes in pieces: its bytes, and how many came

    @remote_method
    async def gather(self, asked: Sequence[Any]) -> tuple[bytes, bytes]:
        """`ChunkElements`, and their checksum."""
        data = await self._workers.read(ChunkElements(*asked))
        return data, checksum(data)

    @remote_method
    async def put(self, chunk: int, start: int, size: int, data: bytes, sent: bytes) -> None:
        """As ChunkTransferActor's."""
        received(data, sent, f"chunk {chunk}")
        whole, came = self._coming.get(chunk) or (bytearray(size), 0)
        if len(whole) != size or start < 0 or start + len(data) > size:
            raise ClusterError(f"bytes {start} to {start + len(data)} are no part of chunk {chunk}, which has {size}")
        whole[start : start + len(data)] = data
        self._coming[chunk] = whole, came + len(data)
        if came + len(data) >= size:
            del self._coming[chunk]
            await self._workers.put(chunk, bytes(whole))

    def abandon(self, first: int, count: int) -> None:
        """Free fresh chunks that come in pieces or were stored."""
        chunks = range(first, first + count)
        for chunk in chunks:
            self._coming.pop(chunk, None)
        self._workers.abandon(chunks)


THREADS = 4  # that prepare graphs
DEADLINE = 2.5 * START_SECONDS  # until the head listens: the steps of an engine's start have deadlines of their own


class EngineHost(ClusterThread):
    """A cluster on an engine.

    Parameters
    ----------
    engine
        Not started yet.
    name
        What lists of clusters show; "" for one of its id.
    mode, why
        How the engine is used, and why so, for `Cluster.info`.

    Raises
    ------
    ClusterStartError
        If the engine does not start, or the head does not listen within DEADLINE seconds.
    """

    def __init__(self, engine: TaskEngine[Any], name: str = "", mode: str = "tasks", why: str = "") -> None:
        super().__init__(engine.kind, name, new_token())
        self.detached, self.pid = False, os.getpid()
        self._engine, self._mode, self._why = engine, mode, why
        self._head: EngineHead | None = None
        late = (
            f"the {engine.kind.title()} cluster at {engine.address} did not start within {DEADLINE:.0f} s; "
            "look whether it and its workers answer (its dashboard and logs tell), and try again"
        )
        self._begin(DEADLINE, late)

    async def _serve(self) -> None:
        orders = {
            "id": self.id,
            "name": self.name,
            "token": self.token,
            "kernel": os.getpid(),
            "detach": False,
            "mode": self._mode,
            "why": self._why,
        }
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, f"jmars-{self._engine.kind}"))
        self._head = EngineHead(orders, self.folders, self._engine)
        await self._head.run(self._listening.set)

    def is_alive(self) -> bool:
        """Whether the head runs."""
        return self._thread.is_alive()

    def _stop(self) -> None:
        if self._head is not None and self._listening.is_set():
            self._head.stop(f"by the program that started it (process {os.getpid()})")
        else:  # it starts still
            super()._stop()
