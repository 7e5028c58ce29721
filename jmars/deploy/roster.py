"""Roster: the hosts of a cluster as its head knows them: their links, what they report, what they read by the head.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jmars.actors import Mailbox, remote_method
from jmars.errors import ChunkLostError, ClusterLostError
from jmars.model.orders import Order
from jmars.model.reports import Report
from jmars.scheduler.host_rows import HostRow
from jmars.scheduler.hosts import Hosts

__all__ = ["MemberLink", "Roster", "Seat"]

log = logging.getLogger("jmars.host")


class MemberChannel(Protocol):
    """Connection to a host."""

    async def ask(self, actor: str, method: str, *args: Any) -> Any:
        """The value that a method of the host returns."""

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call a method of the host without waiting."""

    def close(self) -> None:
        """Cut the connection."""


class MemberLink:
    """Sends orders to a host, those of a turn of the loop in one message; a `HostLink`."""

    def __init__(self, channel: MemberChannel) -> None:
        self.channel = channel
        self._gathered: list[Order] = []

    def order(self, orders: Sequence[Order]) -> None:
        """Send orders."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._send)
        self._gathered += orders

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, []
        self.channel.tell("workers", "take", gathered)


class Roster:
    """Hosts that joined, by number.

    Parameters
    ----------
    hosts
        The port of the scheduler.
    costs
        Called with the measured costs of operands on a host.
    changed
        Called with the number of a host that joined or is lost, its state and the reason.
    transferred
        Called after a transfer: numbers of both hosts, chunks, bytes, seconds.
    """

    def __init__(
        self,
        hosts: Hosts,
        costs: Callable[[dict[str, Any]], None],
        changed: Callable[[int, str, str], None],
        transferred: Callable[[int, int, int, int, float], None],
    ) -> None:
        self.hosts, self.costs, self.changed, self.transferred = hosts, costs, changed, transferred
        self.links: dict[int, MemberLink] = {}
        self.names: dict[int, str] = {}  # of hosts that may join
        self.facts: dict[int, dict[str, Any]] = {}
        self._ready: dict[int, asyncio.Future[None]] = {}

    def expect(self, number: int, name: str) -> asyncio.Future[None]:
        """A host of this number may join; the future is set when its workers can compute."""
        self.names[number] = name
        ready = self._ready[number] = asyncio.get_running_loop().create_future()
        return ready

    def seat(self, channel: MemberChannel) -> Seat:
        """Where the host at the other end of a connection sits."""
        return Seat(self, channel)

    def join(self, number: int, channel: MemberChannel, facts: dict[str, Any]) -> HostRow:
        """A host joined."""
        link = self.links[number] = MemberLink(channel)
        self.facts[number] = facts
        row = self.hosts.add(number, self.names[number], link, facts["workers"], facts["memory"], facts["room"])
        log.info("host %d (%s) joined: %s", number, row.name, facts)
        self.changed(number, "joined", "")
        return row

    def ready(self, number: int) -> None:
        """The workers of a host can compute."""
        ready = self._ready.get(number)
        if ready is not None and not ready.done():
            ready.set_result(None)

    def lost(self, number: int, why: str) -> None:
        """A host is gone for good."""
        link = self.links.pop(number, None)
        if link is not None:
            log.warning("host %d (%s) is gone: %s", number, self.names[number], why)
            self.hosts.lost(number, why)
            self.changed(number, "lost", why)

    def tell_all(self, actor: str, method: str, *args: Any) -> None:
        """Call a method of all hosts without waiting."""
        for link in self.links.values():
            link.channel.tell(actor, method, *args)

    async def ask_all(self, actor: str, method: str, *args: Any, patience: float) -> dict[int, Any]:
        """Answers of all hosts by number; a host that does not answer within `patience` seconds is left out."""

        async def ask(number: int, link: MemberLink) -> tuple[int, Any]:
            try:
                async with asyncio.timeout(patience):
                    return number, await link.channel.ask(actor, method, *args)
            except (TimeoutError, ClusterLostError) as error:
                log.debug("host %d does not answer %s.%s: %s", number, actor, method, error)
                return number, None

        answers = await asyncio.gather(*[ask(number, link) for number, link in list(self.links.items())])
        return {number: told for number, told in answers if told is not None}

    def holders(self, chunk: int) -> list[int]:
        """Hosts that have a chunk; raises ChunkLostError where none has."""
        found = [number for number in self.hosts.places.holders(chunk) if number in self.links]
        if not found:
            raise ChunkLostError(f"chunk {chunk} is no longer on the cluster; compute it again")
        return found


class Seat:
    """The actors of the head for one host: "roster", "reports" and "relay"."""

    def __init__(self, roster: Roster, channel: MemberChannel) -> None:
        self._roster, self._channel = roster, channel
        self.number = -1
        self.mailbox = Mailbox()
        for name in ("roster", "reports", "relay"):
            self.mailbox.add(name, self)

    @remote_method
    def join(self, number: int, facts: dict[str, Any]) -> dict[str, Any]:
        """The host joins; returns what it must know of the cluster."""
        self.number = number
        row = self._roster.join(number, self._channel, facts)
        return {"first": row.first}

    @remote_method
    def ready(self, number: int) -> None:
        """The workers of the host can compute."""
        self._roster.ready(number)

    @remote_method
    def take(self, reports: Sequence[Report]) -> None:
        """Reports of the host's workers."""
        if self.number >= 0:
            self._roster.hosts.take(self.number, reports)

    @remote_method
    def costs(self, profile: dict[str, Any]) -> None:
        """Measured costs of operands on the host."""
        self._roster.costs(profile)

    @remote_method
    async def read(self, host: int, chunk: int, start: int, stop: int) -> tuple[bytes, bytes]:
        """Bytes of a chunk of another host, and their checksum."""
        link = self._roster.links.get(host)
        if link is None:
            raise ClusterLostError(f"host {host} is gone")
        begun = time.monotonic()
        data, sent = await link.channel.ask("serving", "read", chunk, start, stop)
        chunks = 1 if start == 0 else 0  # else a further piece of one
        self._roster.transferred(host, self.number, chunks, len(data), time.monotonic() - begun)
        return data, sent

    def left(self, why: str) -> None:
        """The connection is cut."""
        if self.number >= 0:
            self._roster.lost(self.number, why)
