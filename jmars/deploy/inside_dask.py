"""The head of a cluster in the workers of a Dask cluster: `python -m jmars head dask`.

Tickets go by `Client.run`, whose functions run in threads here, never in the worker's loop. Plain tasks hold the
threads of a worker, from the start of the host to the end, so that Dask gives the cores to no other task.
Source: docs/explanation/seeds.md, "Architecture"; distributed's `Client.run`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jmars.deploy import hosts_head
from jmars.deploy.inside_head import Berth, Hosting, InsideHead
from jmars.engines import guests
from jmars.engines.dask import identities
from jmars.engines.dask_connection import connect, security_at
from jmars.errors import ClusterLostError, text_of

SHARE = 0.8  # of a worker's memory limit: the rest is for the worker itself
FIRST = 1000  # priority of tasks that hold threads


def main() -> None:
    """Be such a head until the cluster ends."""
    hosts_head.main(partial(InsideHead, connect=DaskHosting))


@dataclass(eq=False)
class DaskBerth(Berth):
    """A Dask worker, where a host can live."""

    client: Any
    slots: list[Any] = field(default_factory=list)  # futures of tasks that hold threads

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a thread of the worker; raises ClusterLostError where the worker is gone."""
        run = in_thread(function.__module__, function.__name__, args)
        told = await self.client.run(run, workers=[self.key], on_error="return")
        answer = told.get(self.key, OSError("it left the Dask cluster"))
        if isinstance(answer, OSError):  # TimeoutError, too
            raise ClusterLostError(f"{self.place} does not answer: {text_of(answer)}") from answer
        if isinstance(answer, BaseException):
            raise answer
        return answer


class DaskHosting(Hosting):
    """A Dask cluster with workers where hosts can live.

    Parameters
    ----------
    orders
        address: of a scheduler, or the path of a scheduler file; security: arguments of `distributed.Security`.
    """

    kind = "Dask"

    def __init__(self, orders: dict[str, Any]) -> None:
        self.address: str = orders["address"]
        self._security = orders["security"]
        self._client: Any = None
        self._berths: dict[str, DaskBerth] = {}

    async def start(self) -> None:
        """Connect; raises ClusterStartError."""
        self._client = await connect(self.address, self._security)
        self.address = str(self._client.scheduler.address)

    async def look(self, patience: float = 0.0) -> dict[str, DaskBerth]:
        """Workers that are there now, by address; threads of other tasks are taken when these have ended."""
        there = await identities(self._client)
        for key, told in there.items():
            if key not in self._berths and told.get("status", "running") == "running":
                limit = int(told["memory_limit"] or 0)
                self._berths[key] = DaskBerth(
                    key,
                    f"Dask worker {key}",
                    str(told["host"]),
                    int(told["nthreads"]),
                    int(limit * SHARE) or None,
                    told.get("local_directory"),
                    self._client,
                )
        for key in [key for key in self._berths if key not in there]:
            _free(self._berths.pop(key).slots)
        return dict(self._berths)

    async def hold(self, key: str, guest: str) -> None:
        """Take all threads of a worker until a guest there has ended."""
        berth = self._berths.get(key)
        if berth is None:
            return  # it has left
        _free(berth.slots)
        berth.slots = [
            self._client.submit(
                guests.wait_end,
                guest,
                key=f"jmars-slot-{os.urandom(8).hex()}",
                workers=[berth.key],
                pure=False,
                retries=0,
                priority=FIRST,
            )
            for _ in range(berth.cores)
        ]

    def security(self) -> str:
        """How Dask's connections are protected, in a sentence."""
        return security_at(self.address)

    async def close(self) -> None:
        """Free all threads, and hang up."""
        if self._client is not None:
            for berth in self._berths.values():
                _free(berth.slots)
            await self._client.close()


def _free(slots: list[Any]) -> None:
    for one in slots:
        one.release()
    slots.clear()


def in_thread(module: str, name: str, args: tuple[Any, ...]) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Function for `Client.run` that calls a function of a module in a thread, where the module is imported too."""

    def call() -> Any:
        return getattr(importlib.import_module(module), name)(*args)

    async def run() -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, call)

    return run
