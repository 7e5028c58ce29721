"""The network between simulated hosts: TCP connections that are late, silent one way, cut, reset, and made again.

A connection keeps its order and passes bytes once, or breaks. Bytes into a silence wait, as TCP sends them again; an
end that hears nothing for some seconds breaks its connection, and the other end may never be told. Addresses are
"10.0.0.HOST:PORT". Source: tcp(7); `jmars.actors.tls_link.tune`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from jmars.actors.tls import Identity, names_of
from tests.sim.loop import VirtualLoop

__all__ = ["CLUSTER", "Context", "End", "Network", "address_of"]

CLUSTER = "sim"
LATENCY = 0.0005  # seconds that bytes take, on average
LATE = 1.0  # seconds that late bytes take, and all behind them
TRIES = 0.3  # seconds between two tries to send into a silence
PATIENCE = (5.5, 9.0)  # seconds of silence after which an end breaks its connection
NOWHERE = 1000.0  # seconds after which nobody waits for an answer any more


def address_of(host: int, port: int) -> str:
    """Where a host listens."""
    return f"10.0.0.{host}:{port}"


class Context:
    """Stands for an `ssl.SSLContext`: who dials."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity


class End:
    """One end of a connection; what is sent are bytes, or any value.

    Attributes
    ----------
    received, lost
        Called with what arrived, and once with the reason when the connection has ended.
    """

    def __init__(self, network: Network, host: int) -> None:
        self.network, self.host, self.number = network, host, network.count
        network.count += 1
        self.other: End
        self.received: Callable[[Any], None] = lambda _: None
        self.lost: Callable[[str], None] = lambda _: None
        self.closed = False
        self._flying: deque[tuple[float, Any]] = deque()
        self._arrives = 0.0
        self._pumps = False

    def send(self, data: Any) -> None:
        """Send behind all that was sent before."""
        if not self.closed:
            self._fly(data)

    def close(self) -> None:
        """Hang up behind all that was sent."""
        if not self.closed:
            self._fly(None)
            self.end("")

    def abort(self) -> None:
        """End the connection at once; what is under way is lost, and the other end hears it if it can."""
        if not self.closed:
            self._flying.clear()
            self._fly(None)
            self.end("aborted")

    def end(self, why: str) -> None:
        """The connection is over here."""
        if not self.closed:
            self.closed = True
            self.network.ends.discard(self)
            self.network.loop.call_soon(self.lost, why)

    # -- own
    def _fly(self, data: Any) -> None:
        loop = self.network.loop
        late = self.network.late
        mean = LATE if late and loop.random.random() < late else self.network.latency
        self._arrives = max(self._arrives, loop.now + loop.random.expovariate(1 / mean))
        self._flying.append((self._arrives, data))
        if not self._pumps:
            self._pumps = True
            loop.call_at(self._arrives, self._pump)

    def _pump(self) -> None:
        loop, other = self.network.loop, self.other
        while self._flying and self._flying[0][0] <= loop.now:
            if not self.network.passes(self.host, other.host):
                if self.closed and self.network.is_off(self.host):
                    return
                loop.call_later(TRIES, self._pump)
                return
            _, data = self._flying.popleft()
            if data is None:
                other.end("the other end hung up")
            elif not other.closed:
                other.received(data)
        self._pumps = bool(self._flying)
        if self._flying:
            loop.call_at(self._flying[0][0], self._pump)


class Wire(asyncio.Transport):
    """An end as asyncio's protocols want it."""

    def __init__(self, end: End, peer: Identity) -> None:
        names = tuple(("DNS", name) for name in names_of(CLUSTER, peer))
        told = SimpleNamespace(selected_alpn_protocol=lambda: None)
        plain = SimpleNamespace(setsockopt=lambda *_: None)
        super().__init__({"peercert": {"subjectAltName": names}, "ssl_object": told, "socket": plain})
        self._end = end

    def attach(self, protocol: Any) -> None:
        """Serve a protocol from now on."""
        self.set_protocol(protocol)
        self._end.received = lambda data: self._protocol.data_received(data)
        self._end.lost = lambda why: self._protocol.connection_lost(ConnectionResetError(why) if why else None)
        protocol.connection_made(self)

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def write(self, data: Any) -> None:
        self._end.send(bytes(data))

    def close(self) -> None:
        self._end.close()

    def abort(self) -> None:
        self._end.abort()

    def is_closing(self) -> bool:
        return self._end.closed


class Network:
    """All hosts' ways to each other.

    Attributes
    ----------
    ends
        Of all connections.
    identities
        By host that listens.
    """

    def __init__(self, loop: VirtualLoop, random: Random, trace: Callable[[str], None], late: float = 0.0) -> None:
        self.loop, self.random, self.trace = loop, random, trace
        self.latency = LATENCY
        self.late = late
        self.ends: set[End] = set()
        self.doors: dict[tuple[int, int], tuple[Identity, Callable[[End, Identity], None]]] = {}
        self._silent: Counter[tuple[int, int]] = Counter()
        self._off: set[int] = set()
        self._port = 1000
        self.count = 0  # of ends until now

    # -- what happens to it
    def passes(self, a: int, b: int) -> bool:
        """Whether bytes come from one host to another now."""
        return not (self._silent[a, b] or a in self._off or b in self._off)

    def is_off(self, host: int) -> bool:
        """Whether a host is switched off."""
        return host in self._off

    def silence(self, ways: list[tuple[int, int]], seconds: float) -> None:
        """Nothing passes on these ways for so long."""
        self.trace(f"nothing passes on {ways} for {seconds:.1f} s")
        for way in ways:
            self._silent[way] += 1
        self._break(ways)

        def over() -> None:
            self.trace(f"something passes on {ways} again")
            for way in ways:
                self._silent[way] -= 1

        self.loop.call_later(seconds, over)

    def switch_off(self, host: int) -> None:
        """Nothing comes from a host any more, and nothing gets there."""
        self._off.add(host)
        others = {end.other.host for end in self._sorted() if end.host == host}
        self._break([(host, other) for other in others])

    def switch_on(self, host: int) -> None:
        """A host that was switched off starts again; its old connections are gone."""
        for end in self._sorted():
            if host in (end.host, end.other.host):
                end.end("the machine was switched off")
        self._off.discard(host)

    def reset(self, host: int) -> None:
        """Connections of a host break."""
        for end in self._sorted():
            if end.host == host and not end.closed:
                end.abort()

    def _sorted(self) -> list[End]:
        return sorted(self.ends, key=lambda end: end.number)

    def _break(self, ways: list[tuple[int, int]]) -> None:
        """Ends on these ways break their connections, unless bytes pass again before they are out of patience."""
        touched = set(ways) | {(b, a) for a, b in ways}
        for end in self._sorted():
            way = (end.host, end.other.host)
            if way in touched and not end.closed:
                self.loop.call_later(self.random.uniform(*PATIENCE), self._out_of_patience, end, self.loop.now)

    def _out_of_patience(self, end: End, since: float) -> None:
        a, b = end.host, end.other.host
        if not end.closed and not (self.passes(a, b) and self.passes(b, a)):
            end.abort()

    # -- connections
    def listen(self, identity: Identity, door: Callable[[End, Identity], None]) -> int:
        """Have `door` called with each connection, and who dialled; returns the port."""
        self._port += 1
        self.doors[identity.host, self._port] = identity, door
        return self._port

    def unlisten(self, host: int, port: int) -> None:
        """Listen no more."""
        self.doors.pop((host, port), None)

    async def dial(self, dialler: Identity, host: int, port: int) -> tuple[End, Identity, Callable[[], None]]:
        """Connect; returns our end, who listens, and what opens the door there when the end is ready.

        Raises
        ------
        OSError
            If nobody answers.
        """
        await asyncio.sleep(3 * self.random.expovariate(1 / self.latency))
        a = dialler.host
        if not (self.passes(a, host) and self.passes(host, a)):
            await asyncio.sleep(NOWHERE)
            raise TimeoutError("nobody answers")
        if (host, port) not in self.doors:
            raise ConnectionRefusedError("nobody listens there")
        identity, door = self.doors[host, port]
        near, far = End(self, a), End(self, host)
        near.other, far.other = far, near
        self.ends |= {near, far}
        return near, identity, lambda: door(far, dialler)

    async def connect(self, make: Callable[[], Any], address: str, port: int, context: Context) -> tuple[Any, Any]:
        """What `loop.create_connection` gives."""
        end, identity, enter = await self.dial(context.identity, int(address.rpartition(".")[2]), port)
        wire, protocol = Wire(end, identity), make()
        wire.attach(protocol)
        enter()
        return wire, protocol
