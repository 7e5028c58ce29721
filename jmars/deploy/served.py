"""Actors of the host that hand on to what the host has: for one client, and for lists of clusters."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from jmars.deploy.clients import Client

if TYPE_CHECKING:
    from jmars.deploy.host import Host

__all__ = ["ClientHost", "ClusterActor", "answered"]


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

    def ready(self) -> Any:
        """As the host's; who asks for this is a client for whom a detached cluster lives on."""
        self._client.is_kernel = True
        self._host.look_at_lease()
        return self._host.ready()


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
