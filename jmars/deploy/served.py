"""Actors of the head: for clients, and for lists of clusters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jmars.actors import remote_method
from jmars.deploy.clients import Client, Clients
from jmars.deploy.scheduler_port import SchedulerPort, SessionPort
from jmars.errors import ClusterStartError
from jmars.model.events import Event
from jmars.processes.links import Children

__all__ = ["ClientHost", "ClusterActor", "EventsActor", "HeadParts", "executors_ready"]

START_SECONDS = 20.0  # for which executors may not come up: less than a client waits for its connection


class HeadParts(Protocol):
    """The parts of a cluster's head that its actors below use."""

    orders: dict[str, Any]
    scheduler: SchedulerPort
    clients: Clients
    janitor: int
    peak: int
    ended: asyncio.Event

    @property
    def n_workers(self) -> int:
        """Number of workers."""

    @property
    def n_hosts(self) -> int:
        """Number of hosts; 0 for a cluster that is not one of several hosts."""

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The bounds of `adapt` while the number of workers or hosts follows the work."""

    @property
    def limit(self) -> int:
        """Bytes of memory that the cluster may take."""

    @property
    def kernels(self) -> int:
        """Number of clients that keep a detached cluster alive."""

    @property
    def client_processes(self) -> list[int]:
        """Ids of the processes of these clients."""

    def look_at_lease(self) -> None:
        """Start or stop the lease after a client came or went."""

    def stop(self, by: str, asker: Client | None = None) -> None:
        """End the cluster on request, and tell the other clients."""

    async def ready(self) -> dict[str, Any]:
        """Wait until workers can compute; returns the facts that a client needs."""

    def descriptor(self) -> Any:
        """Descriptor of the shared memory."""

    def profile(self) -> dict[str, Any]:
        """Measured costs of operands."""

    async def info(self) -> dict[str, Any]:
        """Processes, memory and limits."""

    async def scale(self, n: int | Sequence[str]) -> None:
        """Ask for so many workers."""

    async def adapt(self, least: int, most: int) -> None:
        """Have the number of workers follow the work."""

    async def evacuate(self, names: Sequence[str]) -> None:
        """Have hosts leave."""

    async def ticket(self, settings: dict[str, Any], hosts: int, seconds: float, addresses: list[str]) -> bytes:
        """A ticket for hosts that join."""


async def executors_ready(children: Children, are_ready: Callable[[], bool]) -> None:
    """Wait until the executors of a host are forked, and their GPUs are warm.

    Raises
    ------
    ClusterStartError
        If processes cannot be forked, or GPUs do not become warm.
    """
    end = asyncio.get_running_loop().time() + START_SECONDS
    while not are_ready():
        if asyncio.get_running_loop().time() > end:
            why = children.trouble or "a GPU does not answer, see the log"
            raise ClusterStartError(
                f"no worker processes after {START_SECONDS:g} s: {why}; close other programs, or take fewer workers"
            )
        await asyncio.sleep(0.001)


class ClientHost:
    """The actor "host" of a client."""

    def __init__(self, host: HeadParts, client: Client) -> None:
        self._host, self._client = host, client

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
        self._host.look_at_lease()
        return await self._host.ready()

    @remote_method
    def descriptor(self) -> Any:
        """Descriptor of the shared memory, for a client that did not make it."""
        return self._host.descriptor()

    @remote_method
    def ping(self) -> None:
        """Answered while this process runs."""

    @remote_method
    async def info(self) -> dict[str, Any]:
        """Processes, memory and limits; see Cluster.info."""
        return await self._host.info()

    @remote_method
    def profile(self) -> dict[str, Any]:
        """Measured costs of operands, for plans that the client makes."""
        return self._host.profile()

    @remote_method
    async def scale(self, n: int | Sequence[str]) -> None:
        """Ask for so many workers; raises ClusterError where their number is fixed."""
        await self._host.scale(n)

    @remote_method
    async def adapt(self, least: int, most: int) -> None:
        """Have the number of workers follow the work; raises ClusterError where their number is fixed."""
        await self._host.adapt(least, most)

    @remote_method
    async def evacuate(self, names: Sequence[str]) -> None:
        """Have hosts leave; raises ClusterError where they cannot."""
        await self._host.evacuate(names)

    @remote_method
    async def ticket(self, settings: dict[str, Any], hosts: int, seconds: float, addresses: list[str]) -> bytes:
        """A ticket for hosts that join; raises ClusterError where the cluster is not one of several hosts."""
        return await self._host.ticket(settings, hosts, seconds, addresses)

    @remote_method
    def close(self, by: str = "") -> None:
        """End the cluster; `by` tells the other clients where the request came from, as in "from a terminal"."""
        self._host.stop(str(by)[:100], self._client)


class ClusterActor:
    """The actor "cluster", for lists of clusters: a summary, the jobs, cancel."""

    def __init__(self, host: HeadParts) -> None:
        self._host = host

    @remote_method
    async def summary(self) -> dict[str, Any]:
        """Name, workers, jobs and memory in a few numbers."""
        jobs = await self._host.scheduler.session.jobs()
        return {
            "id": self._host.orders["id"],
            "name": self._host.orders["name"],
            "workers": self._host.n_workers,
            "hosts": self._host.n_hosts,
            "adapt": self._host.bounds,
            "jobs": len(jobs),
            "active": sum(job["state"] in ("preparing", "running", "cancelling") for job in jobs),
            "limit": self._host.limit,
            "peak": self._host.peak,
            "pid": os.getpid(),
            "detached": self._host.orders["detach"],
            "clients": self._host.kernels,
            "processes": self._host.client_processes,
        }

    @remote_method
    def processes(self) -> dict[str, int]:
        """The two processes that end last."""
        return {"pid": os.getpid(), "janitor": self._host.janitor}

    @remote_method
    async def jobs(self) -> list[dict[str, Any]]:
        """All remembered jobs; `process` is that of the client that submitted the job, 0 where it is not known."""
        submitters = self._host.clients.submitters
        rows = await self._host.scheduler.session.jobs()
        return [row | {"process": submitters.get(row["id"], 0)} for row in rows]

    @remote_method
    async def cancel(self, job: str) -> None:
        """Stop a job."""
        await self._host.scheduler.session.cancel(job)


class EventsActor:
    """The actor "events": the log of the cluster."""

    def __init__(self, session: SessionPort) -> None:
        self._session = session

    @remote_method
    async def read(self, since: int, job: str = "", limit: int = 5_000) -> tuple[list[Event], int]:
        """Events after number `since`, and the number to read on from."""
        return await self._session.read(since, job, limit)
