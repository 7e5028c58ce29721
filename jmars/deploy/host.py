"""The control process: scheduler, workers and their store in a single event loop.

`main` is run by `python -m jmars host`. Orders come as one JSON line from standard input; the end of standard input is
the kernel's end. The process forks the janitor and the zygote first, while there is no thread; then it listens.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import sys
from collections.abc import Awaitable
from typing import Any

from jmars.actors import ActorChannel, Mailbox, serve
from jmars.deploy import memory
from jmars.deploy.clients import Client, Clients
from jmars.deploy.folders import Folders
from jmars.deploy.in_process_scheduler import InProcessScheduler
from jmars.deploy.janitor import start_janitor
from jmars.deploy.lease import Lease
from jmars.deploy.scheduler_port import SchedulerPort
from jmars.deploy.scheduler_subprocess import SchedulerSubprocess
from jmars.deploy.served import ClientHost, ClusterActor, EventsActor
from jmars.deploy.why_service import WhyService
from jmars.errors import JmarsError, MemoryLimitError, fault_of
from jmars.model import events
from jmars.model.reports import WorkerMoved
from jmars.processes.links import Children
from jmars.scheduler import Machine
from jmars.storage import Arena
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.worker import ExecutionActor, Zygote, start_zygote
from jmars.worker.chunk_transfer import ChunkTransferActor
from jmars.worker.store import StoreActor

__all__ = ["Host", "main"]

log = logging.getLogger("jmars.host")

WATCH_SECONDS = 0.2  # between two readings of the memory while a job runs


class Host:
    """The objects of the control process. `orders` are LocalHost's."""

    def __init__(self, orders: dict[str, Any], folders: Folders, zygote: Zygote, janitor: int, arena: Arena):
        self.orders, self.folders, self.arena = orders, folders, arena
        self.peak = 0
        self.ended = asyncio.Event()
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
        self.scheduler = self._make_scheduler(names, passing)
        self.watch = WhyService(self.execution, self.scheduler.reasons, self._stalled)
        self.clients = Clients(self.scheduler.session, store, orders["detach"])
        self._actors = {
            "events": EventsActor(self.scheduler.session),
            "tasks": self.scheduler.tasks,
            "cluster": ClusterActor(self),
            "why": self.watch,
            "passing": passing,
        }
        self._channels: dict[ActorChannel, Client] = {}
        self._knocking: dict[ActorChannel, Client] = {}  # connections that have proven nothing yet
        self._owner: ActorChannel | None = None  # the kernel with which a cluster that is not detached ends
        self._lease: Lease | None = None
        self._lease_timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None
        self._memory, self._private = memory.PrivateMemory(), dict[str, int]()
        self._known: dict[str, int] = {}  # processes, as they were told of last

    def _make_scheduler(self, workers: list[str], passing: ChunkTransferActor) -> SchedulerPort:
        """A scheduler in this process; for a detached cluster in a separate process, where it may die without harm."""
        plans = memory.plan_bytes(self.orders["limit"])

        def read_chunk(chunk: int, size: int) -> Awaitable[bytes]:
            return passing.read(chunk, 0, size)

        if not self.orders["detach"]:
            return InProcessScheduler(self.execution, workers, plans, self._job_ended, self._machine, read_chunk)
        return SchedulerSubprocess(
            self.orders,
            str(self.folders.journal),
            self.execution,
            workers,
            plans,
            self._job_ended,
            self._machine,
            read_chunk,
            self._uploads,
            self._give_up,
        )

    # -- for clients
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
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._broken)
        if self.orders["detach"]:
            self._lease = Lease(self.orders["lease"], loop.time())
        else:
            loop.add_reader(kernel_end, self._kernel_spoke, kernel_end)
        server = await serve(self.folders.socket, self._mailbox, self.orders["token"], self._came, self._left)
        self.scheduler.start()
        self.execution.start()
        self.execution.ledger.load()
        for worker in self.execution.workers:
            self.execution.report(WorkerMoved(worker.index, worker.name, 0, "starting"))
        self.folders.register(
            {
                "id": self.orders["id"],
                "name": self.orders["name"],
                "socket": str(self.folders.socket),
                "token": self.orders["token"],
                "pid": os.getpid(),
                "kernel_pid": self.orders["kernel"],
                "detached": self.orders["detach"],
            }
        )
        self._watching = asyncio.ensure_future(self._watch_memory())
        await self.ended.wait()
        self._watching.cancel()
        await asyncio.to_thread(self.execution.ledger.save)
        server.close()
        self.scheduler.close()
        self.execution.close()
        self.children.close()
        for channel in list(self._channels):
            channel.close()
        self.folders.remove()

    def _mailbox(self, channel: ActorChannel) -> Mailbox:
        """Actors for a connection; the connection's own actors release their holds at the end."""
        client = self.clients.come()
        mailbox = Mailbox()
        for name, actor in self._actors.items():
            mailbox.add(name, actor)
        mailbox.add("host", ClientHost(self, client))
        mailbox.add("session", client.session)
        mailbox.add("store", client.store)
        self._knocking[channel] = client
        return mailbox

    def _came(self, channel: ActorChannel) -> None:
        client = self._knocking.pop(channel, None)  # None: it has hung up already
        if client is not None:
            self._channels[channel] = client
            if self._owner is None and not self.orders["detach"]:
                self._owner = channel

    def _left(self, channel: ActorChannel) -> None:
        self._knocking.pop(channel, None)
        client = self._channels.pop(channel, None)
        if client is not None and not self.ended.is_set():
            client.left()
            self.look_at_lease()

    @property
    def kernels(self) -> int:
        """Number of clients that keep a detached cluster alive."""
        return sum(client.is_kernel for client in self._channels.values())

    def look_at_lease(self) -> None:
        """Start or stop the lease after a client came or went, or a job ended; an unused detached cluster ends with
        the lease.
        """
        if self._lease is None:
            return
        loop = asyncio.get_running_loop()
        ends = self._lease.update(self.kernels, self.scheduler.active, loop.time())
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        if self._lease.is_over(loop.time()):
            log.info("the lease is over: no client and no job for %g s", self._lease.seconds)
            self.ended.set()
        elif ends < math.inf:
            self._lease_timer = loop.call_at(ends, self.look_at_lease)

    def _kernel_spoke(self, kernel_end: int) -> None:
        if not os.read(kernel_end, 1024):
            asyncio.get_running_loop().remove_reader(kernel_end)
            self.ended.set()

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised: the state is unknown, so the cluster ends with the reason instead of hanging.

        An error in a call of a client that does not own the cluster ends that client's connection alone.
        """
        error = context.get("exception")
        log.error("%s", context["message"], exc_info=error)
        if error is None or context["message"].startswith("socket.accept"):
            return  # out of files: the loop accepts again in a second
        channel = context.get("channel")
        if channel in self._channels and channel is not self._owner:
            channel.tell("jobs", "broken", f"it failed with {fault_of(error)} and sent this client away; others go on")
            self._channels[channel].sent_away = True
            channel.close()
            return
        self._give_up(f"its control process failed with {fault_of(error)}; please report that")

    def _give_up(self, why: str) -> None:
        """The cluster cannot go on."""
        for channel in self._channels:
            channel.tell("jobs", "broken", why)
        self.ended.set()

    def _uploads(self) -> list[tuple[int, int]]:
        """(First, count) of the chunks that clients are bringing."""
        return [chunks for client in self._channels.values() for chunks in client.chunks.items()]

    def _machine(self) -> Machine:
        arena = self.arena
        return Machine(self.execution.ledger.profile, arena.capacity, max(0, arena.capacity - arena.resident))

    def _job_ended(self, report: dict[str, Any]) -> None:
        self._log_memory()
        if not self.scheduler.active:
            self.execution.memory.graph_room.update(0)
        if self.clients.job_ended(report):
            for channel in self._channels:
                channel.tell("jobs", "ended", report)
        self.look_at_lease()

    def _stalled(self, told: dict[str, Any]) -> None:
        for channel in self._channels:
            channel.tell("jobs", "stalled", told)

    # -- memory
    async def _watch_memory(self) -> None:
        while True:
            try:
                await self._look()
            except OSError as error:  # no descriptor is left
                log.warning("the memory of processes cannot be read: %s", error)
            except JmarsError as error:  # a job that is forgotten by now
                log.warning("%s", error)
            except Exception:  # a fault of ours: it only tells, and no job depends on what it tells
                log.exception("memory and jobs were not looked at")
            if self.scheduler.active:
                await asyncio.sleep(WATCH_SECONDS)
            else:
                self.scheduler.submitted.clear()
                await self.scheduler.submitted.wait()

    async def _look(self) -> None:
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
