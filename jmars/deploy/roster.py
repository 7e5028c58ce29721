"""Roster: the hosts of a cluster as its head knows them: their links, what they report, what they read by the head.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from jmars.actors import Mailbox, remote_method
from jmars.actors.lasting import LastingChannel
from jmars.actors.tls import HEAD, Identity
from jmars.errors import ChunkLostError, ClusterLostError, HostRefusedError
from jmars.model.orders import Order
from jmars.model.reports import Report
from jmars.scheduler.host_rows import HostRow
from jmars.scheduler.hosts import Hosts

__all__ = ["MemberLink", "Roster", "Seat"]

log = logging.getLogger("jmars.host")

LOOK_SECONDS = 0.5
GONE_SECONDS = 8.0  # of silence after which a host counts as lost


class MemberLink:
    """Sends orders to a host, those of a turn of the loop in one message; a `HostLink`."""

    def __init__(self, channel: LastingChannel) -> None:
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
        self.channels: dict[int, LastingChannel] = {}
        self._ready: dict[int, asyncio.Future[None]] = {}

    def expect(self, number: int, name: str) -> asyncio.Future[None]:
        """A host of this number may join; the future is set when its workers can compute."""
        self.names[number] = name
        ready = self._ready[number] = asyncio.get_running_loop().create_future()
        return ready

    def accept(self, identity: Identity) -> LastingChannel:
        """The channel of a host whose certificate was checked; raises HostRefusedError for unexpected hosts."""
        number = identity.host
        channel = self.channels.get(number)
        if channel is None:
            if number not in self.names:
                raise HostRefusedError(f"nobody expects host {number} in this cluster; start it with a new ticket")
            seat = Seat(self, number)
            channel = LastingChannel(seat.mailbox, Identity(HEAD, 1), identity, on_end=seat.ended)
            self.channels[number] = channel
        return channel

    async def watch(self) -> None:
        """Give up hosts that are silent, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for number, channel in list(self.channels.items()):
                silent = loop.time() - channel.last_heard
                if silent > GONE_SECONDS:
                    self.give_up(number, f"it has not been heard for {silent:.0f} s")

    def give_up(self, number: int, why: str) -> None:
        """A host is gone; this incarnation of it cannot come back."""
        channel = self.channels.get(number)
        if channel is not None:
            channel.give_up(why)

    def close(self) -> None:
        """End all links."""
        for channel in self.channels.values():
            channel.close()

    def join(self, number: int, facts: dict[str, Any]) -> HostRow:
        """A host joined."""
        link = self.links[number] = MemberLink(self.channels[number])
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

    def __init__(self, roster: Roster, number: int) -> None:
        self._roster, self.number = roster, number
        self.mailbox = Mailbox()
        for name in ("roster", "reports", "relay"):
            self.mailbox.add(name, self)

    @remote_method
    def join(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The host joins; returns what it must know of the cluster."""
        if self.number in self._roster.links:
            raise HostRefusedError(f"host {self.number} has joined already")
        return {"first": self._roster.join(self.number, facts).first}

    @remote_method
    def ready(self) -> None:
        """The workers of the host can compute."""
        self._roster.ready(self.number)

    @remote_method
    def take(self, reports: Sequence[Report]) -> None:
        """Reports of the host's workers."""
        if self.number in self._roster.links:
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

    def ended(self, channel: LastingChannel, why: str) -> None:
        """The link has ended for good."""
        self._roster.lost(self.number, why)
