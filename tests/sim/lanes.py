"""The carrier of a simulated host: the real `Puller`, `ChunkServer` and lanes, over connections that are none.

What differs from jmars/processes/carrier.py is who runs a lane: no thread, but callbacks of the loop. Bytes may change
on their way; which is found by the checksums of parts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from jmars.actors.tls import Identity
from jmars.errors import ProtocolError
from jmars.storage.chunks import ChunkRange
from jmars.transport import wire
from jmars.transport.lanes import BulkLane
from jmars.transport.pulling import Puller, PullLane
from jmars.transport.pulls import PullOrder
from jmars.transport.serving import ChunkServer, ServeLane
from jmars.transport.tls_sockets import HostIdentity
from tests.sim.client import Wrong
from tests.sim.network import End
from tests.sim.processes import Child

if TYPE_CHECKING:
    from tests.sim.members import SimHost

__all__ = ["Carrier"]

SECONDS = 0.0005  # between two buffers of a lane, on average
GATHERS, READ_SECONDS = 0.5, 0.001  # share of orders that wait for others to come, and how long
DIAL = 5.0  # seconds that a connection may take


class Messages:
    """What `transport.inbox.Inbox` is, without a descriptor: `rings` is called soon."""

    def __init__(self, loop: Any, rings: Callable[[], None]) -> None:
        self._loop, self._rings = loop, rings
        self._messages: deque[Any] = deque()
        self._closed = False

    def put(self, *messages: Any) -> None:
        if not self._closed:
            self._messages.extend(messages)
            self._loop.call_soon(self._rings)

    def take(self) -> Iterator[Any]:
        while self._messages:
            yield self._messages.popleft()

    def close(self) -> None:
        self._closed = True


class Driven(BulkLane):
    """A lane that callbacks drive."""

    carrier: Carrier

    def drive(self, carrier: Carrier) -> None:
        """Take the place of the thread."""
        self.carrier = carrier
        self.loop = carrier.host.world.loop
        self.inbox.close()
        self.inbox = Messages(self.loop, self._rung)  # type: ignore[assignment]
        self.end: End | None = None
        self.over = self._pumps = False
        self._timer: asyncio.TimerHandle | None = None

    def join(self) -> None:
        """There is no thread."""

    def opened(self) -> None:
        """Both ends have greeted each other."""
        self.is_open = True
        self.events(("open", self))
        self._rung()

    def arrived(self, data: bytes) -> None:
        """Bytes came."""
        if self.over:
            return
        self.heard = self.loop.now
        reader, rest = self._reader, memoryview(data)
        try:
            while len(rest):
                space = reader.space()
                size = min(len(space), len(rest))
                space[:size] = rest[:size]
                rest = rest[size:]
                for frame in reader.received(size):
                    if frame[0] == wire.PART:
                        self.carrier.check_source(self)
                    self.receive(*frame)
        except ProtocolError as error:
            self.finish(str(error))
            return
        if reader.current is not None:
            self.carried = self.heard
        self._rung()

    def finish(self, why: str) -> None:
        """The lane is closed: it writes nothing any more."""
        if self.over:
            return
        self.over, self.is_open = True, False
        if self._timer is not None:
            self._timer.cancel()
        if self.end is not None:
            self.end.abort() if why else self.end.close()
        self._out.clear()
        self.inbox.close()
        self.events(("closed", self, self._why or why))

    def _rung(self) -> None:
        if self.over or not self.is_open:
            return
        for message in self.inbox.take():
            if message[0] == "close":
                self.close(message[1])
            else:
                self.take(message)
        if not self._pumps:
            self._pump()
        if self.over:
            return
        wait = self.tick(self.loop.now)
        if self._closes:
            self.finish(self._why)
            return
        if self._timer is not None:
            self._timer.cancel()
        if wait is not None:
            self._timer = self.loop.call_later(wait, self._rung)

    def _pump(self) -> None:
        """Send a buffer, and the next one a little later: places must stay as they are until all is sent."""
        self._pumps = False
        if self.over:
            return
        if not self.is_sending:
            self.fill()
        self._flush_small()
        if self._out:
            assert self.end is not None
            data = bytes(self._out.popleft())
            faults = self.carrier.host.faults
            if len(data) > 1000 and faults.bytes_change and self.loop.random.random() < faults.bytes_change:
                self.carrier.host.world.trace(f"bytes of host {self.carrier.host.number} change on their way")
                data = data[:-1] + bytes([data[-1] ^ 1])
            self.end.send(data)
            self._pumps = True
            self.loop.call_later(self.loop.random.expovariate(1 / SECONDS), self._pump)


class SimPullLane(Driven, PullLane):
    """The lane of a host that reads."""

    def start(self) -> None:
        """Dial."""
        self.task = self.loop.create_task(self._dial())

    async def _dial(self) -> None:
        own, network = self.carrier.own, self.carrier.host.world.network
        address, _, port = self._address.rpartition(":")
        try:
            async with asyncio.timeout(DIAL):
                self.end, identity, enter = await network.dial(own, int(address.rpartition(".")[2]), int(port))
        except OSError as error:
            self.finish(f"{type(error).__name__}: {error}")
            return
        if identity != self.holder:
            self.finish(f"at {self._address} is {identity}")
            return
        self.end.received, self.end.lost = self._greeted, self.finish
        enter()
        self.end.send(own)

    def _greeted(self, told: Any) -> None:
        if isinstance(told, str):
            self.finish(told)
        elif not self.over:
            assert self.end is not None
            self.end.received = self.arrived
            self._send_beat()
            self.opened()

    def _send_beat(self) -> None:
        self._beat = self.loop.now
        self.send(wire.beat(int(self.loop.now * 1e9)))

    def receive(self, kind: int, flags: int, piece: int, ticket: int, body: Any) -> None:
        """A frame; beats by the loop's clock."""
        if kind == wire.BEAT:
            self.events(("trip", self, max(1e-9, self.loop.now - wire.parse_number(body) / 1e9)))
        else:
            super().receive(kind, flags, piece, ticket, body)


class SimServeLane(Driven, ServeLane):
    """The lane of a host that is read."""

    def start(self) -> None:
        """Wait for the greeting."""
        assert self.end is not None
        self.end.received, self.end.lost = self._greet, self.finish

    def _greet(self, who: Identity) -> None:
        assert self.end is not None
        why = self._refusal(*who)
        if why:
            self.end.send(why)
            self.finish("")
            return
        self.host, self.incarnation = who
        self.end.received = self.arrived
        self.end.send(b"welcome")
        self.opened()


class NoTls(HostIdentity):
    """An identity without keys."""

    def context(self, is_server: bool) -> Any:
        """There is none."""


class SimPuller(Puller):
    """Dials simulated lanes."""

    carrier: Carrier

    def _dial(self, holder: Any, route: Any, now: float) -> None:
        lane = SimPullLane(holder, route.address, None, self._identity, self._memory, self._events)  # type: ignore[arg-type]
        lane.drive(self.carrier)
        lane.start()
        self._ranges[lane] = set()
        route.lanes.append(lane)
        self.carrier.lanes.append(lane)


class SimServer(ChunkServer):
    """Accepts simulated lanes."""

    carrier: Carrier

    def enter(self, end: End, _: Identity) -> None:
        """A host has connected."""
        lane = SimServeLane(
            None,  # type: ignore[arg-type]
            self._context,
            self._identity,
            self._refusal,
            self._memory,
            self.carrier,  # type: ignore[arg-type]
            self._events,
        )
        lane.drive(self.carrier)
        lane.end = end
        lane.start()
        self._lanes[lane] = set()
        self.carrier.lanes.append(lane)


class Carrier:
    """The process; see jmars/processes/carrier.py for its messages."""

    def __init__(self, host: SimHost, child: Child) -> None:
        self.host, self.child = host, child
        self.lanes: list[Driven] = []
        self.own = host.identity
        self.gone: set[tuple[int, int]] = set()
        self._events = Messages(host.world.loop, self._turn)
        self._port = 0
        self._timer: asyncio.TimerHandle | None = None
        self.puller: SimPuller
        self.server: SimServer
        host.world.echoes.of_carrier(self)

    async def main(self) -> None:
        """Serve orders."""
        child, faults = self.child, self.host.faults
        try:
            while True:
                gathered = [await child.read()]
                if child.random.random() < GATHERS:
                    await child.take(READ_SECONDS)
                while not child.is_idle:  # one read of the socket brings all that has come
                    gathered.append(await child.read())
                for kind, *args in gathered:
                    getattr(self, f"_{kind}")(*args)
                if faults.carrier_deaths and child.random.random() < faults.carrier_dies:
                    faults.carrier_deaths -= 1
                    child.die("killed by SIGKILL")
                    await child.take(1.0)
                self._turn()
        finally:
            self._close()

    def submit(self, work: Callable[..., None], *args: Any) -> None:
        """Read a file in a while, as a thread does."""
        loop = self.host.world.loop
        loop.call_later(loop.random.expovariate(1 / 0.002), work, *args)

    def check_source(self, lane: Driven) -> None:
        """No bytes of a host that is gone are taken."""
        if isinstance(lane, SimPullLane) and lane.holder in self.gone and not lane._closes:
            told = [one for one in lane._expected.values() if one.range is not None]
            if told:
                raise Wrong(f"host {self.own.host} takes bytes of {lane.holder}, which is gone")

    # -- orders
    def _begin(self, given: dict[str, Any]) -> None:
        for name in ("bind", "ucx"):
            given.pop(name, None)
        identity = NoTls(**given)
        memory = memoryview(self.host.arena.memory)
        self.puller = SimPuller(identity, memory, self._report, self._events.put)
        self.server = SimServer(identity, memory, self._report, self._events.put)
        self.puller.carrier = self.server.carrier = self
        self._port = self.host.world.network.listen(self.own, self.server.enter)
        self._report("listening", self._port)

    def _peer(self, host: int, incarnation: int, address: str) -> None:
        self.puller.add_peer((host, incarnation), address)
        self.server.peers.add((host, incarnation))

    def _gone(self, host: int, incarnation: int) -> None:
        self.gone.add((host, incarnation))
        self.server.drop_peer((host, incarnation))
        self.puller.drop_peer((host, incarnation), self.host.world.loop.now)

    def _open(self) -> None:
        self.puller.open_lanes(self.host.world.loop.now)

    def _pull(self, ticket: int, wanted: Any, holders: Any) -> None:
        self.puller.pull(PullOrder(ticket, ChunkRange(*wanted), holders), self.host.world.loop.now)

    def _withdraw(self, ticket: int) -> None:
        self.puller.withdraw(ticket)

    def _give(self, request: int, place: tuple[Any, ...]) -> None:
        self.server.give(request, place)

    # -- own
    def _report(self, *message: Any) -> None:
        if self.child.alive:
            self.child.say(message)

    def _turn(self) -> None:
        if not self.child.alive or not self._port:
            return
        now = self.host.world.loop.now
        for kind, lane, *args in self._events.take():
            if isinstance(lane, PullLane):
                self.puller.event(kind, lane, args, now)
            else:
                self.server.event(kind, lane, args)
        wait = self.puller.advance(now)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wait is not None:
            self._timer = self.host.world.loop.call_later(wait, self._turn)

    def _close(self) -> None:
        self.host.world.network.unlisten(self.own.host, self._port)
        if self._timer is not None:
            self._timer.cancel()
        for lane in self.lanes:
            lane.finish("the carrier has ended")
