"""ClusterHead: serves the clients of a cluster, whatever computes for it.

Holds connections and the lease, tells of jobs that end or stall, and has the memory watched while jobs run.
`Host` (workers on this machine) and `EngineHead` (workers of an engine) are its two kinds.

`WhyService` joins the status of the host with the scheduler's knowledge: it explains to clients why jobs do not move,
and reports such jobs unasked by a watchdog.

`InProcessScheduler` is the scheduler in the control process, for clusters that end with their kernel.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from jmars.actors import ActorChannel, Mailbox, remote_method, serve
from jmars.deploy.clients import ChunkStore, Client, Clients, Lease
from jmars.deploy.control_process import FaultIsolation
from jmars.deploy.folders import Folders
from jmars.deploy.scheduler_subprocess import SchedulerSubprocess
from jmars.errors import ClusterError, JmarsError, fault_of
from jmars.model.status import HostStatus, Verdict
from jmars.scheduler import EventLog, Machine, SessionActor, TaskManagerActor
from jmars.scheduler.why import CALM, Watchdog, WhyActor
from jmars.storage.chunks import ChunkElements, received

if TYPE_CHECKING:
    from jmars.engines.port import EngineWorkers
    from jmars.scheduler.hosts import Hosts
    from jmars.worker.execution import ExecutionActor

log = logging.getLogger("jmars.host")

FIXED = "the number of workers of this cluster is fixed; start a cluster with the number that you want"
WATCH_SECONDS = 0.2  # between two readings of the memory while a job runs


class ClusterHead(ABC):
    """The clients' end of a cluster.

    Parameters
    ----------
    orders
        Facts of the cluster: id, name, token, kernel, detach, lease.

    Attributes
    ----------
    ended
        Set when the cluster is to end.
    peak
        Most bytes of memory so far.
    janitor
        Process that removes leftovers; 0 for none.
    """

    scheduler: Scheduler
    clients: Clients
    watch: WhyService
    passing: Any  # the actor with the chunks: gather, put
    watch_seconds = WATCH_SECONDS
    janitor = 0

    def __init__(self, orders: dict[str, Any], folders: Folders) -> None:
        self.orders, self.folders = orders, folders
        self.peak = 0
        self.ended = asyncio.Event()
        self._actors: dict[str, Any] = {}
        self._channels: dict[ActorChannel, Client] = {}
        self._knocking: dict[ActorChannel, Client] = {}  # connections that have proven nothing yet
        self._owner: ActorChannel | None = None  # the kernel with which a cluster that is not detached ends
        self._lease: Lease | None = None
        self._lease_timer: asyncio.TimerHandle | None = None
        self._isolation = FaultIsolation(lambda why: self.scheduler.break_jobs(why), self.give_up)

    def make_scheduler(
        self,
        workers: ExecutionActor | Hosts,
        names: Sequence[str],
        plan_bytes: int,
        resumed: Callable[[], None] = lambda: None,
    ) -> Scheduler:
        """A scheduler in this process; where asked for in processes of its own, which may die without harm."""
        common = plan_bytes, self.job_ended, self._machine, self.read_chunk
        if not self.orders["schedulers"]:
            return InProcessScheduler(workers, names, *common)
        orders, journal = {"limit": self.limit, "workers": self.n_workers, **self.orders}, str(self.folders.journal)
        return SchedulerSubprocess(orders, journal, workers, *common, self.uploads, self.give_up, resumed)

    async def read_chunk(self, chunk: int, size: int) -> bytes:
        """The first `size` bytes of a chunk, for decisions by value."""
        if not size:
            return b""
        data, sent = await self.passing.gather(ChunkElements.first(chunk, size))
        return received(data, sent, f"chunk {chunk}")

    def serve_with(self, scheduler: Scheduler, store: ChunkStore, watch: WhyService, passing: Any) -> None:
        """Make the actors that clients reach."""
        self.scheduler, self.watch, self.passing = scheduler, watch, passing
        self.clients = Clients(scheduler.session, store, self.orders["detach"], lambda: self.capacity)
        scheduler.tell_printed(partial(self.tell_clients, "printed"))
        self._actors = {
            "tasks": scheduler.tasks,
            "cluster": ClusterActor(self),
            "why": watch,
            "passing": passing,
        }

    # -- for clients
    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Number of workers."""

    @property
    def n_hosts(self) -> int:
        """Number of hosts; 0 for a cluster that is not one of several hosts."""
        return 0

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The bounds of `adapt` while the number of workers or hosts follows the work."""
        return None

    @property
    @abstractmethod
    def limit(self) -> int:
        """Bytes of memory that the cluster may take."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Bytes of memory for chunks and scratch."""

    @abstractmethod
    async def ready(self) -> dict[str, Any]:
        """Wait until workers can compute; returns the facts that a client needs."""

    def facts(self) -> dict[str, Any]:
        """Facts that a client needs of any cluster; "arena" 0 tells that no memory is shared."""
        return {
            "arena": 0,
            "janitor": self.janitor,
            "pid": os.getpid(),
            "workers": self.n_workers,
            "threads": 1,
            "limit": self.limit,
            "capacity": self.capacity,
            "detached": self.orders["detach"],
        }

    @remote_method
    def descriptor(self) -> Any:
        """Descriptor of the shared memory; raises ClusterError where there is none."""
        raise ClusterError("this cluster shares no memory with clients; connect with jmars.connect()")

    @remote_method
    def profile(self) -> dict[str, Any]:
        """Measured costs of operands."""
        return self._machine().profile.as_data()

    @abstractmethod
    def _machine(self) -> Machine:
        """The machine to plan for, or the machines."""

    @remote_method
    @abstractmethod
    async def info(self) -> dict[str, Any]:
        """Processes, memory and limits; see Cluster.info."""

    def scheduler_info(self, memory: int) -> dict[str, Any]:
        """The scheduler's processes, and private bytes of the first, for `info`."""
        scheduler = self.scheduler
        return {"pid": scheduler.pid, "state": scheduler.state, "memory": memory, "processes": scheduler.pids}

    @remote_method
    async def scale(self, n: int | Sequence[str]) -> None:
        """Ask for so many workers; raises ClusterError where the number is fixed."""
        raise ClusterError(FIXED)

    @remote_method
    async def adapt(self, least: int, most: int) -> None:
        """Have the number of workers follow the work; raises ClusterError where the number does not."""
        raise ClusterError(
            "the number of hosts, or of workers of an engine, can follow the work; workers of one machine "
            "share its cores at any time: scale(n) changes their number"
        )

    @remote_method
    async def evacuate(self, names: Sequence[str]) -> None:
        """Have hosts leave; raises ClusterError for a cluster that is not one of several hosts."""
        raise ClusterError("this cluster is not one of several hosts; evacuate is for clusters of jmars.Cluster.hosts")

    @remote_method
    async def ticket(self, settings: dict[str, Any], hosts: int, seconds: float, addresses: list[str]) -> bytes:
        """A ticket for hosts that join; raises ClusterError where the cluster is not one of several hosts."""
        raise ClusterError("hosts join clusters of several hosts only; start one with jmars.Cluster.hosts(['local'])")

    # -- the life of the head
    async def listen(self) -> asyncio.AbstractServer:
        """Accept clients from now on."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._broken)
        if self.orders["detach"]:
            self._lease = Lease(self.orders["lease"], loop.time())
        return await serve(self.folders.socket, self._mailbox, self.orders["token"], self._came, self._left)

    async def serve_clients(self, begin: Callable[[], None], found: Callable[[], None], **registered: Any) -> None:
        """Serve clients until the cluster is to end.

        `begin` is called when clients can connect, `found` when the registry file is written.
        """
        server = await self.listen()
        self.scheduler.start()
        begin()
        self.register(**registered)
        watching = asyncio.ensure_future(self.watch_memory())
        found()
        await self.ended.wait()
        watching.cancel()
        server.close()
        self.hang_up()  # before jobs are cancelled: who waits for one hears why the cluster ends
        self.scheduler.close()

    def end_with(self, kernel_end: int) -> None:
        """Stop the cluster when the kernel has closed `kernel_end`; a detached cluster continues."""
        loop = asyncio.get_running_loop()

        def spoke() -> None:
            if not os.read(kernel_end, 1024):
                loop.remove_reader(kernel_end)
                self.stop("by the end of the program that started it")

        if not self.orders["detach"]:
            loop.add_reader(kernel_end, spoke)

    def register(self, **more: Any) -> None:
        """Write the registry file, by which other programs find the cluster."""
        self.folders.register(
            {
                "id": self.orders["id"],
                "name": self.orders["name"],
                "socket": str(self.folders.socket),
                "token": self.orders["token"],
                "pid": os.getpid(),
                "kernel_pid": self.orders["kernel"],
                "detached": self.orders["detach"],
                **more,
            }
        )

    def hang_up(self) -> None:
        """Close all connections."""
        for channel in list(self._channels):
            channel.close()

    def tell_clients(self, method: str, told: Any) -> None:
        """Call a method of the actor "jobs" of all clients."""
        for channel in self._channels:
            channel.tell("jobs", method, told)

    def _mailbox(self, channel: ActorChannel) -> Mailbox:
        """Actors for a connection; the connection's own actors release their holds at the end."""
        client = self.clients.come()
        mailbox = Mailbox()
        for name, actor in self._actors.items():
            mailbox.add(name, actor)
        mailbox.add("host", ClientHost(self, client), self)
        mailbox.add("session", client.session, self.scheduler.session)
        mailbox.add("store", client.store, self.clients.store)
        self._knocking[channel] = client
        return mailbox

    def _came(self, channel: ActorChannel) -> None:
        client = self._knocking.pop(channel, None)  # None: it has hung up already
        if client is not None:
            client.pid = channel.peer
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

    @property
    def client_processes(self) -> list[int]:
        """Ids of the processes of these clients, each once, as far as they are known."""
        return sorted({client.pid for client in self._channels.values() if client.is_kernel and client.pid})

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

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised: the jobs that run end with the reason; see FaultIsolation.

        An error in a call of a client that does not own the cluster ends that client's connection alone.
        """
        error, channel = context.get("exception"), context.get("channel")
        if error is None or channel not in self._channels or channel is self._owner:
            self._isolation.handle(context)
            return
        log.error("%s", context["message"], exc_info=error)
        channel.tell("jobs", "broken", f"it failed with {fault_of(error)} and sent this client away; others go on")
        self._channels[channel].sent_away = True
        channel.close()

    def stop(self, by: str, asker: Client | None = None) -> None:
        """End the cluster on request, and tell the other clients of the request."""
        if not self.ended.is_set():
            owner = self._channels.get(self._owner) if self._owner is not None else None
            if not by and asker is not None:
                who = "the program that started it" if asker is owner else "another program"
                by = f"by {who} (process {asker.pid})" if asker.pid else f"by {who}"
            for channel, client in self._channels.items():
                if client is not asker:
                    channel.tell("jobs", "stopped", by)
        self.ended.set()

    def give_up(self, why: str) -> None:
        """The cluster cannot go on."""
        self.tell_clients("broken", why)
        self.ended.set()

    def uploads(self) -> list[tuple[int, int]]:
        """(First, count) of the chunks that clients are bringing."""
        return [chunks for client in self._channels.values() for chunks in client.chunks.items()]

    def job_ended(self, report: Mapping[str, Any]) -> None:
        """A job has ended: tell the clients, and the submitting program the small results too."""
        report = dict(report)
        if self.clients.job_ended(report):
            submitter = self.clients.submitters.get(report["job"])
            values = self.small_values(report)
            for channel, client in self._channels.items():
                channel.tell("jobs", "ended", report | values if client.pid == submitter else report)
        self.look_at_lease()

    def small_values(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Results that travel with the report of a job's end; none where chunks are in other processes."""
        return {}

    def stalled(self, told: dict[str, Any]) -> None:
        """A job does not move, or moves again: tell the clients."""
        self.tell_clients("stalled", told)

    # -- memory
    async def watch_memory(self) -> None:
        """Log memory and stalled jobs while a job runs."""
        while True:
            try:
                await self.look()
            except OSError as error:  # no descriptor is left
                log.warning("the memory of processes cannot be read: %s", error)
            except JmarsError as error:  # a job that is forgotten by now
                log.warning("%s", error)
            except Exception:  # a fault of ours: it only tells, and no job depends on what it tells
                log.exception("memory and jobs were not looked at")
            if self.scheduler.active:
                await asyncio.sleep(self.watch_seconds)
            else:
                self.scheduler.submitted.clear()
                await self.scheduler.submitted.wait()

    @abstractmethod
    async def look(self) -> None:
        """Log memory, worker processes, and jobs that do not move."""


class ClientHost:
    """The calls of the actor "host" of a client that concern the client; ClusterHead answers the others."""

    def __init__(self, head: ClusterHead, client: Client) -> None:
        self._head, self._client = head, client

    @remote_method
    async def ready(self) -> dict[str, Any]:
        """Wait until workers can compute; returns the facts that a client needs. The client keeps a detached
        cluster alive.

        Raises
        ------
        ClusterStartError
            If workers cannot be started.
        """
        self._client.is_kernel = True
        self._head.look_at_lease()
        return await self._head.ready()

    @remote_method
    def ping(self) -> None:
        """Answered while this process runs."""

    @remote_method
    def close(self, by: str = "") -> None:
        """End the cluster; `by` tells the other clients where the request came from, as in "from a terminal"."""
        self._head.stop(str(by)[:100], self._client)


class ClusterActor:
    """The actor "cluster", for lists of clusters: a summary, the jobs, cancel."""

    def __init__(self, head: ClusterHead) -> None:
        self._head = head

    @remote_method
    async def summary(self) -> dict[str, Any]:
        """Name, workers, jobs and memory in a few numbers."""
        jobs = await self._head.scheduler.session.jobs()
        return {
            "id": self._head.orders["id"],
            "name": self._head.orders["name"],
            "workers": self._head.n_workers,
            "hosts": self._head.n_hosts,
            "adapt": self._head.bounds,
            "jobs": len(jobs),
            "active": sum(job["state"] in ("preparing", "running", "cancelling") for job in jobs),
            "limit": self._head.limit,
            "peak": self._head.peak,
            "pid": os.getpid(),
            "detached": self._head.orders["detach"],
            "clients": self._head.kernels,
            "processes": self._head.client_processes,
        }

    @remote_method
    def processes(self) -> dict[str, int]:
        """The two processes that end last."""
        return {"pid": os.getpid(), "janitor": self._head.janitor}

    @remote_method
    async def jobs(self) -> list[dict[str, Any]]:
        """All remembered jobs; `process` is that of the client that submitted the job, 0 where it is not known."""
        submitters = self._head.clients.submitters
        rows = await self._head.scheduler.session.jobs()
        return [row | {"process": submitters.get(row["id"], 0)} for row in rows]

    @remote_method
    async def cancel(self, job: str) -> None:
        """Stop a job."""
        await self._head.scheduler.session.cancel(job)


LOOK_SECONDS = 1.0  # between two looks of the watchdog


class WhyService:
    """The actor "why".

    Parameters
    ----------
    status
        Gives the status of the workers.
    moved
        Gives a number that grows while chunks move.
    reasons
        What the scheduler knows.
    tell
        Called with what clients should hear of a job that does not move: job, kind, text, calm.
    """

    def __init__(
        self,
        status: Callable[[], HostStatus],
        moved: Callable[[], int],
        reasons: WhyActor,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self._status, self._moved, self._reasons, self._tell = status, moved, reasons, tell
        self._dog = Watchdog()
        self._looked = 0.0

    @remote_method
    async def job(self, job: str) -> Verdict:
        """Why a job stands as it does."""
        return await self._reasons.job(job, self._status())

    @remote_method
    async def cluster(self) -> str:
        """The same of all jobs, line by line."""
        return await self._reasons.cluster(self._status())

    @remote_method
    async def operand(self, job: str, operand: int) -> Any:
        """The executable graph of an operand, as JSON."""
        return await self._reasons.operand(job, operand)

    async def look(self, now: float | None = None) -> None:
        """Log remaining seconds of jobs, and report jobs that do not move, if it is time to look."""
        now = time.monotonic() if now is None else now
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        await self._reasons.expect()
        pulses = await self._reasons.pulses()
        moved = self._moved()
        still, moving = self._dog.look(now, {job: [*pulse, moved] for job, pulse in pulses.items()})
        for job, seconds in still.items():
            verdict = await self.job(job)
            await self._say(job, verdict, seconds)
        for job in moving:
            await self._say(job, Verdict(kind="moves", text=""), 0.0)

    async def _say(self, job: str, verdict: Verdict, seconds: float) -> None:
        calm = verdict["kind"] in CALM
        if verdict["text"]:
            log.log(logging.INFO if calm else logging.WARNING, "nothing moved for %.0f s: %s", seconds, verdict["text"])
        await self._reasons.stalled(job, verdict, seconds)
        self._tell({"job": job, "calm": calm, "seconds": seconds, **verdict})


class InProcessScheduler:
    """The scheduler in this process.

    `SchedulerSubprocess` has the same attributes and methods, and proxies as `session`, `tasks` and `reasons`.

    Attributes
    ----------
    submitted
        Set with each job; cleared by the caller that waits for one.
    note, break_jobs, close
        The session's: an event of the host is logged, the running jobs fail for a fault of jmars, all jobs are
        cancelled (threads that prepare a graph see it at their next check).
    """

    state, pids = "running", dict[str, int]()  # without processes of its own

    def __init__(
        self,
        execution: ExecutionActor | Hosts | EngineWorkers,
        workers: Sequence[str],
        plan_bytes: int,
        job_ended: Callable[[dict[str, Any]], None],
        machine: Callable[[], Machine],
        read_chunk: Callable[[int, int], Awaitable[bytes]],
    ) -> None:
        session = self.session = SessionActor(execution, workers, EventLog(), job_ended, plan_bytes)
        session.plan_for(machine)
        session.context.read_chunk = read_chunk
        execution.connect(session)
        self.tasks = TaskManagerActor(session)
        self.reasons = WhyActor(session)
        self.submitted, self.pid = session.submitted, os.getpid()
        self.note, self.break_jobs, self.close = session.note, session.break_jobs, session.close

    def start(self) -> None:
        """No effect."""

    def tell_printed(self, tell: Callable[[dict[str, Any]], None]) -> None:
        """Call `tell` with lines that functions print."""
        self.session.tell_printed = tell

    @property
    def active(self) -> bool:
        """Whether a job has not ended."""
        return self.session.active

    async def plans(self) -> dict[str, int]:
        """Counts of kept structures, and how often they served; dropped tensors are freed by then."""
        self.session.free_dropped()
        return self.session.plans.counts()


Scheduler: TypeAlias = InProcessScheduler | SchedulerSubprocess
