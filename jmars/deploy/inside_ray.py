"""The head of a cluster on the nodes of a Ray cluster: `python -m jmars head ray`.

An actor per node has the CPUs of the node and is the parent of a host. Ray restarts an actor that has ended, and the
new actor gets a new host. Calls of Ray that block run in threads.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jmars.deploy import hosts_head
from jmars.deploy.inside_head import Berth, Hosting, InsideHead
from jmars.engines.engine import EngineWorker
from jmars.engines.ray_cluster import RayConnection, nodes_of, security, settled
from jmars.errors import ClusterLostError, text_of

log = logging.getLogger("jmars.host")

FIRST_SECONDS = 40.0  # for the first node whose CPUs are free
CALLS = 16  # of an actor at the same time


def main() -> None:
    """Be such a head until the cluster ends."""
    hosts_head.main(partial(InsideHead, connect=RayHosting))


class GuestActor:
    """The actor of a node; a host is its child process."""

    def ready(self) -> None:
        """The actor runs."""

    def call(self, module: str, name: str, args: tuple[Any, ...]) -> Any:
        """Call a function of a module, in a thread of the actor."""
        return getattr(importlib.import_module(module), name)(*args)


@dataclass(eq=False)
class RayBerth(Berth):
    """A node of Ray, where a host can live."""

    actor: Any

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a thread of the actor; raises ClusterLostError where actor or node are gone."""
        try:
            return await settled(self.actor.call.remote(function.__module__, function.__name__, args))
        except RayError as error:
            cause = getattr(error, "cause", None)
            raise ClusterLostError(f"{self.place}: {text_of(cause or error)}") from error


class RayHosting(Hosting):
    """A Ray cluster with nodes where hosts can live.

    Parameters
    ----------
    orders
        address: as `ray.init` takes it.
    """

    kind = "Ray"

    def __init__(self, orders: dict[str, Any]) -> None:
        self.address: str = orders["address"]
        self._berths: dict[str, RayBerth] = {}
        self._ready: dict[str, asyncio.Future[Any]] = {}  # an actor runs, by node
        self._is_connected = False

    async def start(self) -> None:
        """Connect; raises ClusterStartError."""
        found = await asyncio.to_thread(RayConnection.open, self.address, {})
        self._is_connected = True
        self.address = self.address if RayConnection.is_client() else found

    async def look(self, patience: float = 0.0) -> dict[str, RayBerth]:
        """Nodes whose CPUs an actor of ours has, by id; nodes where other tasks have CPUs come when these are free."""
        there = nodes_of(await asyncio.to_thread(ray.nodes))
        for key, node in there.items():
            if key not in self._berths:
                actor = await asyncio.to_thread(_start_actor, node)
                place = f"Ray node {node.name.removeprefix('node-')}"
                self._berths[key] = RayBerth(key, place, node.host, node.cores, node.memory, None, actor)
                self._ready[key] = settled(await asyncio.to_thread(actor.ready.remote))
                self._ready[key].add_done_callback(partial(_tell, place))
        for key in [key for key in self._berths if key not in there]:
            self._ready.pop(key)
            await asyncio.to_thread(_end_actor, self._berths.pop(key).actor)
        if self._ready and patience:
            done, _ = await asyncio.wait(self._ready.values(), timeout=patience)
            if not done:
                await asyncio.wait(self._ready.values(), timeout=FIRST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        is_up = [key for key, ready in self._ready.items() if ready.done() and ready.exception() is None]
        return {key: self._berths[key] for key in is_up}

    def security(self) -> str:
        """How Ray's connections are protected, in a sentence."""
        return security()

    async def close(self) -> None:
        """End all actors, and hang up."""
        if self._is_connected:
            for berth in self._berths.values():
                await asyncio.to_thread(_end_actor, berth.actor)
            await asyncio.to_thread(RayConnection.close)


def _tell(place: str, ready: asyncio.Future[Any]) -> None:
    if not ready.cancelled() and (error := ready.exception()) is not None:
        log.info("no host on %s: %s", place, text_of(error))


def _start_actor(node: EngineWorker) -> Any:
    where = NodeAffinitySchedulingStrategy(node.key, soft=False)
    made: Any = ray.remote(GuestActor)
    return made.options(
        num_cpus=node.cores,
        memory=node.memory,
        max_restarts=-1,
        max_concurrency=CALLS,
        scheduling_strategy=where,
    ).remote()


def _end_actor(actor: Any) -> None:
    try:
        ray.kill(actor, no_restart=True)
    except RayError:
        pass  # it has ended
