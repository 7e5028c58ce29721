"""InsideHead: the head of a cluster with hosts in the workers of an engine.

The head is a process beside the kernel and ends with the kernel; workers dial the head.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from jmars.deploy.enrolment import Enrolment
from jmars.deploy.folders import Folders
from jmars.deploy.hosts_head import HostsHead
from jmars.deploy.inside_launches import START_SECONDS, Hosting, InsideLaunches, is_loopback
from jmars.deploy.join_tickets import LOOPBACK
from jmars.errors import ClusterStartError

__all__ = ["InsideHead"]

PROBE_SECONDS = 10.0  # for two hosts to come up and to reach each other


class InsideHead(HostsHead):
    """Scheduler, clients and roster; `orders` are InsideHost's.

    Parameters
    ----------
    connect
        Makes the engine's `Hosting` from its orders.
    """

    hosts_start_again = False  # they are child processes of workers

    def __init__(
        self, orders: dict[str, Any], folders: Folders, janitor: int, connect: Callable[[dict[str, Any]], Hosting]
    ) -> None:
        super().__init__(orders, folders, janitor)
        self._hosting = connect(orders["engine"])
        self._launches: InsideLaunches | None = None

    async def prepare(self) -> str:
        """Connect to the engine; returns the address to listen at, "" for all of this machine."""
        await self._hosting.start()
        return LOOPBACK if all(is_loopback(one) for one in self._hosting.heads()) else ""

    def launches(self, enrolment: Enrolment, port: int) -> InsideLaunches:
        """Starts and ends the hosts."""
        self._launches = InsideLaunches(self.orders["id"], self._hosting, self.roster, enrolment, port)
        return self._launches

    async def start_hosts(self, launches: Any) -> None:
        """Start the hosts; for a probe within PROBE_SECONDS, with a way between two of them."""
        if not self.orders["probe"]:
            await launches.start(START_SECONDS)
            return
        begun = time.monotonic()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await launches.start(PROBE_SECONDS, least=2)
                await self._check_way()
        except TimeoutError:
            raise ClusterStartError(
                f"two hosts did not come up and reach each other within {PROBE_SECONDS:g} s"
            ) from None
        took = time.monotonic() - begun
        two = "two hosts came up and reached each other" if len(self.roster.links) > 1 else "the only host came up"
        self.orders["why"] = f"{two} within {took:.1f} s"

    async def _check_way(self) -> None:
        """Raise ClusterStartError where two hosts cannot reach each other."""
        if len(self.roster.links) < 2:
            return
        await self.roster.two_listen.wait()
        one, other = list(self.roster.addresses)[:2]
        for here, there in ((one, other), (other, one)):
            address = self.roster.addresses[there]
            why = await self.roster.links[here].channel.ask("peers", "dial", address)
            if why:
                names = self.roster.names
                raise ClusterStartError(f"{names[here]} cannot reach {names[there]} at {address}: {why}")

    def _changed(self, number: int, state: str, why: str) -> None:
        if state in ("lost", "left") and self._launches is not None:
            self._launches.lost(number)
        super()._changed(number, state, why)

    def hosts_may_come(self) -> bool:
        """Whether a worker of the engine is to get a further host."""
        return super().hosts_may_come() or (self._launches is not None and self._launches.keeps)

    async def scale(self, n: int | Sequence[str]) -> None:
        """Raise ClusterError."""
        assert self._launches is not None
        await self._launches.add({}, 0)

    async def adapt(self, least: int, most: int) -> None:
        """Raise ClusterError."""
        await self.scale(least)

    async def evacuate(self, names: Sequence[str]) -> None:
        """Raise ClusterError."""
        await self.scale(0)

    async def info(self) -> dict[str, Any]:
        """Engine, hosts, workers, memory; see Cluster.info."""
        kind, orders = self._hosting.kind, self.orders
        security = (
            f"hosts prove themselves by certificates, and everything between them is encrypted; {kind}'s connection "
            f"carries requests for certificates and no keys. {self._hosting.security()}"
        )
        engine = {"kind": kind.lower(), "address": self._hosting.address, "mode": "inside"}
        return await super().info() | {
            "engine": engine,
            "mode": "inside",
            "why": orders["why"],
            "security": security,
            "promises": [],
        }
