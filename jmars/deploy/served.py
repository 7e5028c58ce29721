"""Actors of the host that hand on to what the host has: for one client, and for lists of clusters."""

from __future__ import annotations

import asyncio
import inspect
import os
from typing import TYPE_CHECKING, Any

from jmars.actors.descriptors import Descriptor
from jmars.deploy.clients import Client
from jmars.errors import ClusterStartError

if TYPE_CHECKING:
    from jmars.deploy.host import Host

__all__ = ["ClientHost", "ClusterActor", "answered"]

START_SECONDS = 20.0  # for which executors may not come up: less than a client waits for its connection


async def answered(value: Any) -> Any:
    """What was answered, or will be."""
    return await value if inspect.isawaitable(value) else value


class ClientHost:
    """The host, as one client reaches it."""

    def __init__(self, host: Host, client: Client) -> None:
        self._host, self._client = host, client

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_") or method == "run":
            raise AttributeError(method)
        return getattr(self._host, method)

    async def ready(self) -> dict[str, Any]:
        """What a client needs to map the arena, when the executors are forked; it is one for whom the cluster lives on.

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

    def descriptor(self) -> Descriptor:
        """The shared memory, for a client that did not make it."""
        return Descriptor(self._host.arena.fd)

    def ping(self) -> None:
        """Answered while this process runs."""


class ClusterActor:
    """What lists of clusters ask: a summary, the jobs, cancel."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def summary(self) -> dict[str, Any]:
        """Name, workers, jobs and memory in a few numbers."""
        jobs = await answered(self._host.scheduler.session.jobs())
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

    def processes(self) -> dict[str, int]:
        """The two processes that end last."""
        return {"pid": os.getpid(), "janitor": self._host.janitor}

    def jobs(self) -> Any:
        """All remembered jobs."""
        return self._host.scheduler.session.jobs()

    def cancel(self, job: str) -> Any:
        """Stop a job."""
        return self._host.scheduler.session.cancel(job)
