"""Actors of the host: for clients, and for lists of clusters."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Protocol

from jmars.actors import remote_method
from jmars.actors.descriptors import Descriptor
from jmars.deploy.clients import Client
from jmars.deploy.scheduler_port import SchedulerPort, SessionPort
from jmars.errors import ClusterStartError
from jmars.model.events import Event
from jmars.processes.links import Children
from jmars.storage import Arena
from jmars.worker import ExecutionActor

__all__ = ["ClientHost", "ClusterActor", "EventsActor"]

START_SECONDS = 20.0  # for which executors may not come up: less than a client waits for its connection


class HostParts(Protocol):
    """The parts of a host that its actors below use."""

    orders: dict[str, Any]
    arena: Arena
    children: Children
    execution: ExecutionActor
    scheduler: SchedulerPort
    janitor: int
    peak: int
    ended: asyncio.Event

    @property
    def kernels(self) -> int:
        """Number of clients that keep a detached cluster alive."""

    def look_at_lease(self) -> None:
        """Start or stop the lease after a client came or went."""

    async def info(self) -> dict[str, Any]:
        """Processes, memory and limits."""


class ClientHost:
    """The actor "host" of a client."""

    def __init__(self, host: HostParts, client: Client) -> None:
        self._host, self._client = host, client

    @remote_method
    async def ready(self) -> dict[str, Any]:
        """Wait until the executors are forked; returns the facts for mapping the arena. The client keeps a detached
        cluster alive.

        Raises
        ------
        ClusterStartError
            If they cannot be forked.
        """
        host = self._host
        self._client.is_kernel = True
        host.look_at_lease()
        end = asyncio.get_running_loop().time() + START_SECONDS
        while len(host.children.pids()) < len(host.execution.workers):
            if asyncio.get_running_loop().time() > end:
                why = host.children.trouble or "nobody says why"
                raise ClusterStartError(
                    f"no worker processes after {START_SECONDS:g} s: {why}; close other programs, or take fewer workers"
                )
            await asyncio.sleep(0.001)
        return {
            "arena": host.arena.size,
            "capacity": host.arena.capacity,
            "janitor": host.janitor,
            "pid": os.getpid(),
            "workers": host.orders["workers"],
            "limit": host.orders["limit"],
            "detached": host.orders["detach"],
        }

    @remote_method
    def descriptor(self) -> Descriptor:
        """Descriptor of the shared memory, for a client that did not make it."""
        return Descriptor(self._host.arena.fd)

    @remote_method
    def ping(self) -> None:
        """Answered while this process runs."""

    @remote_method
    async def info(self) -> dict[str, Any]:
        """Processes, memory and limits; see Cluster.info."""
        return await self._host.info()

    @remote_method
    def profile(self) -> dict[str, Any]:
        """Measured costs of operands on this host, for plans that the client makes."""
        return self._host.execution.ledger.profile.as_data()

    @remote_method
    def close(self) -> None:
        """End the cluster."""
        self._host.ended.set()


class ClusterActor:
    """The actor "cluster", for lists of clusters: a summary, the jobs, cancel."""

    def __init__(self, host: HostParts) -> None:
        self._host = host

    @remote_method
    async def summary(self) -> dict[str, Any]:
        """Name, workers, jobs and memory in a few numbers."""
        jobs = await self._host.scheduler.session.jobs()
        return {
            "id": self._host.orders["id"],
            "name": self._host.orders["name"],
            "workers": len(self._host.execution.workers),
            "jobs": len(jobs),
            "active": sum(job["state"] in ("preparing", "running", "cancelling") for job in jobs),
            "limit": self._host.orders["limit"],
            "peak": self._host.peak,
            "pid": os.getpid(),
            "detached": self._host.orders["detach"],
            "clients": self._host.kernels,
        }

    @remote_method
    def processes(self) -> dict[str, int]:
        """The two processes that end last."""
        return {"pid": os.getpid(), "janitor": self._host.janitor}

    @remote_method
    async def jobs(self) -> list[dict[str, Any]]:
        """All remembered jobs."""
        return await self._host.scheduler.session.jobs()

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
