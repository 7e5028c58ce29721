"""Puller: brings ranges of chunks from other hosts into the arena. Dials lanes, and acts for `Pulls`.

Lanes to a host are dialled when a job begins or a range is due, and again after they broke, less and less often while
the host does not answer. Reports are messages to the control process (processes/carrier.py).

A `PullLane` asks for ranges, and receives them in the arena. After a range is let go, further bytes are received
elsewhere and dropped, so that the lane writes into a slot only while the lane holds the range.
Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic, monotonic_ns
from typing import Any

import numpy as np

from jmars.errors import ProtocolError
from jmars.storage.spill import block_sums
from jmars.transport import wire
from jmars.transport.lanes import BulkLane, FrameReader
from jmars.transport.pulls import Holder, PullOrder, PullRange, Pulls
from jmars.transport.tls_sockets import HostIdentity, dial
from jmars.transport.ucx import TLS, UCX, Buffer, TransportChoice, UcxReader, UcxWish
from jmars.transport.wire import MOST_PIECES, PART_BYTES

log = logging.getLogger("jmars.transport")

LOOK_SECONDS = 0.5  # between looks for silent hosts, while pulls are under way
NEWS_SECONDS = 0.2  # between reports of a link
DIAL_SECONDS, LONGEST_DIAL = 0.05, 1.0  # before the first and the longest retry of a connection; doubled each time
SHARE = 4  # at most a fourth of the arena is under way
FEW = 8  # hosts to which lanes are dialled in advance, before a range is pulled


class _Route:
    """Connections to a host."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.lanes: list[PullLane] = []  # open, or being dialled
        self.wait = DIAL_SECONDS  # before the next retry
        self.not_before = 0.0  # time of the next retry
        self.transport = ""  # transport of its lanes; "" until chosen


class Puller:
    """The pulls of this host, and the lanes of the pulls.

    Parameters
    ----------
    report
        Sends a message to the control process.
    events
        Takes events of lanes, in any thread; they come back by `event`.
    lanes
        Connections to one host, at most.
    wish
        UCX, for hosts that have it, too; None for TLS only.
    """

    def __init__(
        self,
        identity: HostIdentity,
        memory: memoryview,
        report: Callable[..., None],
        events: Callable[..., None],
        lanes: int | None = None,
        wish: UcxWish | None = None,
    ) -> None:
        self._wish = wish
        self._identity, self._memory, self._report, self._events = identity, memory, report, events
        self._context: ssl.SSLContext = identity.context(is_server=False)
        self._most_lanes = lanes or min(4, max(1, (os.cpu_count() or 1) // 4))
        self._pulls = Pulls(len(memory) // SHARE)
        self._routes: dict[Holder, _Route] = {}
        self._ranges: dict[PullLane, set[PullRange]] = {}  # under way, by lane
        self._began: dict[int, float] = {}  # time of each pull, by ticket
        self._newest = 0  # ticket
        self._looked = self._told = 0.0  # last look for silent hosts; last report of links

    # -- orders
    def add_peer(self, holder: Holder, address: str) -> None:
        """A host may be asked from here on."""
        if holder not in self._pulls.gone:
            self._routes.setdefault(holder, _Route(address)).address = address

    def drop_peer(self, holder: Holder, now: float) -> None:
        """A host is gone: cut the lanes, and pull from other holders."""
        self._pulls.drop_holder(holder, f"host {holder[0]} is gone", now)
        route = self._routes.pop(holder, None)
        for lane in route.lanes if route is not None else ():
            lane.inbox.put(("close", "the host is gone"))

    def open_lanes(self, now: float) -> None:
        """Dial each host that has no lane, if the hosts are few: a job begins, and its first range need not wait."""
        if len(self._routes) <= FEW:
            for holder, route in self._routes.items():
                if not route.lanes and now >= route.not_before:
                    self._dial(holder, route, now)

    def pull(self, pull: PullOrder, now: float) -> None:
        """Bring bytes of a chunk from the first holder that has them; "pulled" follows.

        Tickets ascend: an order that came before has no effect, since its slot may have another chunk by now.
        """
        if pull.ticket <= self._newest:
            log.info("pull %d was ordered before", pull.ticket)
            return
        self._newest = pull.ticket
        known = [holder for holder in dict.fromkeys(pull.holders) if holder in self._routes]
        if not known:
            pull.why = f"none of its holders is known here: {list(pull.holders)}"
        pull.holders = known or pull.holders[:0]
        self._began[pull.ticket] = now
        self._pulls.add(pull, now)

    def withdraw(self, ticket: int) -> None:
        """A pull is not wanted any more; "withdrawn" follows, or "pulled" where the pull has just ended."""
        if not self._pulls.withdraw(ticket) and ticket not in self._began:
            self._report("withdrawn", ticket)

    # -- events of lanes
    def event(self, kind: str, lane: PullLane, args: Sequence[Any], now: float) -> None:
        """Act on an event of a lane; no effect after the lane has closed."""
        if lane not in self._ranges:
            log.info("%s told %r after its end", lane.name, kind)
            return
        pulls, ranges = self._pulls, self._ranges[lane]
        if kind == "arrived":
            (one,) = args
            ranges.discard(one)
            pulls.arrived(one, now)
            if lane.holder in self._routes:
                self._routes[lane.holder].wait = DIAL_SECONDS
        elif kind == "trip" and lane.holder in self._routes:
            pulls.rate(lane.holder).trips.append(args[0])
        elif kind == "transport" and lane.holder in self._routes:
            route, (choice,) = self._routes[lane.holder], args
            if route.transport != choice.transport:
                route.transport = choice.transport
                self._report("transport", lane.holder[0], *choice)
        elif kind == "let go":
            ranges.discard(args[0])
            pulls.let_go(args[0], now)
        elif kind == "failed":
            one, why = args
            ranges.discard(one)
            pulls.failed(one, f"host {lane.holder[0]}: {why}", now)
        elif kind == "closed":
            self._closed(lane, args[0], now)

    def _closed(self, lane: PullLane, why: str, now: float) -> None:
        lane.join()
        text = f"host {lane.holder[0]}: {why or 'the lane was idle'}"
        for one in self._ranges.pop(lane):
            self._pulls.broken(one, text, now)
        route = self._routes.get(lane.holder)
        if route is None or lane not in route.lanes:
            return
        route.lanes.remove(lane)
        if why:
            self._pulls.trouble(lane.holder, text)
            route.not_before = now + route.wait
            route.wait = min(2 * route.wait, LONGEST_DIAL)

    # -- acting
    def advance(self, now: float) -> float | None:
        """Ask for ranges that are due, and report; returns seconds until the next call is needed, None without need."""
        pulls = self._pulls
        self._act()
        if len(pulls) and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            pulls.stalled(now, self._carried)
            self._act()
        wait = LOOK_SECONDS if len(pulls) else None
        for holder in pulls.waiting():
            left = self._ask(holder, self._routes[holder], now)
            wait = min(wait or LOOK_SECONDS, left)
        return self._tell_links(now, wait)

    def _tell_links(self, now: float, wait: float | None) -> float | None:
        """Report links that have changed, once in a while; returns seconds until the next call is needed."""
        changed = [holder for holder in self._routes if self._pulls.rate(holder).has_news]
        left = self._told + NEWS_SECONDS - now
        if not changed or left > 0:
            return min(wait or left, left) if changed else wait
        self._told = now
        for holder in changed:
            news = self._pulls.rate(holder).news()
            assert news is not None
            self._report("link", holder[0], *news)
        return wait

    def _act(self) -> None:
        """Carry out the actions of `Pulls`."""
        while self._pulls.actions:
            actions, self._pulls.actions = self._pulls.actions, []
            for kind, *args in actions:
                if kind == "let go":
                    args[0].lane.inbox.put(("let go", args[0]))
                    continue
                pull = args[0]
                began = self._began.pop(pull.ticket)
                if kind == "withdrawn":
                    self._report("withdrawn", pull.ticket)
                    continue
                error = args[1]
                host = pull.holder[0] if pull.holders else -1
                if error:
                    error = f"chunk {pull.wanted.chunk} cannot be read from other hosts: {error}"
                nbytes = 0 if error else pull.wanted.stop - pull.wanted.start
                times = (pull.begun, pull.loaded, pull.received, monotonic())
                marks = [max(0, round(1e6 * (one - began))) for one in times]
                self._report("pulled", pull.ticket, error, host, nbytes, marks)

    def _ask(self, holder: Holder, route: _Route, now: float) -> float:
        """Ask a host for further ranges; returns seconds until the next try."""
        lanes = [lane for lane in route.lanes if lane.is_open]
        if lanes:
            gathered: list[PullRange] = []
            size = 0
            for one in self._pulls.ranges(holder, now):
                size += one.stop - one.start
                gathered.append(one)
                if len(gathered) == MOST_PIECES or size >= PART_BYTES:
                    self._send(lanes, gathered)
                    gathered, size = [], 0
            if gathered:
                self._send(lanes, gathered)
        busy = self._pulls.nbytes(holder) >= PART_BYTES
        if len(route.lanes) < (self._most_lanes if lanes and busy else 1) and now >= route.not_before:
            self._dial(holder, route, now)
        return LOOK_SECONDS if route.lanes else max(route.not_before - now, 0.001)

    def _send(self, lanes: list[PullLane], ranges: list[PullRange]) -> None:
        """Ask on the lane with the least under way."""
        lane = lanes[0] if len(lanes) == 1 else min(lanes, key=self._nbytes)
        for one in ranges:
            one.lane = lane
        self._ranges[lane].update(ranges)
        lane.inbox.put(("ask", ranges))

    def _nbytes(self, lane: PullLane) -> int:
        return sum(one.stop - one.start for one in self._ranges[lane])

    def _dial(self, holder: Holder, route: _Route, now: float) -> None:
        wish = self._wish
        if wish is not None:
            wish = None if route.transport == TLS else replace(wish, is_known=route.transport == UCX)
        lane = PullLane(holder, route.address, self._context, self._identity, self._memory, self._events, wish)
        try:
            lane.start()
        except RuntimeError as error:  # the system has no thread left
            lane.inbox.close()
            route.not_before = now + LONGEST_DIAL
            self._pulls.trouble(holder, f"no connection to host {holder[0]}: {error}")
            return
        self._ranges[lane] = set()
        route.lanes.append(lane)

    def _carried(self, holder: Holder) -> float:
        """Time of the last byte of a chunk from a host; the time of this look while the two hosts agree on UCX."""
        route = self._routes.get(holder)
        lanes = route.lanes if route is not None else ()
        return max((self._looked if lane.is_agreeing else lane.carried for lane in lanes), default=0.0)


BEAT_SECONDS = 1.0  # between BEATs while ranges are under way
SILENT_SECONDS = 5.0  # without a byte, not even a BEAT, until the lane is given up
IDLE_SECONDS = 60.0  # without a range, until the lane is closed


class _Expected:
    """A range between request and end; `range` is None after letting go."""

    __slots__ = ("arrived", "away", "is_last", "range", "room", "size")

    def __init__(self, one: PullRange, by_ucx: bool) -> None:
        self.range: PullRange | None = one
        self.size = one.stop - one.start
        self.arrived = 0  # bytes, of parts by UCX too that are announced
        self.away = 0  # parts that are announced and have not come
        self.is_last = False  # no further part is announced
        self.room = self.size if by_ucx else 0  # bytes that may come by UCX


class PullLane(BulkLane):
    """Dials a host, and pulls.

    Orders: `("ask", ranges)`, at most `wire.MOST_PIECES`; `("let go", range)`. Further events:
    `("arrived", lane, range)`, `("failed", lane, range, why)`, `("let go", lane, range)`, which end the range here;
    `("trip", lane, seconds)`; `("transport", lane, choice)` when a TransportChoice was made or UCX has failed.

    Attributes
    ----------
    is_agreeing
        Whether the host has proved itself and both hosts agree on UCX, which takes longer where UCX has to start.
    """

    def __init__(
        self,
        holder: Holder,
        address: str,
        context: ssl.SSLContext,
        identity: HostIdentity,
        memory: memoryview,
        events: Callable[..., None],
        wish: UcxWish | None = None,
    ) -> None:
        kinds = {wire.PART, wire.END, wire.LOST, wire.BEAT, wire.AWAY, wire.ANSWER}
        reader = FrameReader(kinds, self._place)
        super().__init__(f"lane to host {holder[0]}", events, reader)
        self.holder = holder
        self._address, self._context, self._identity, self._memory = address, context, identity, memory
        self._ucx = UcxReader(wish, self.inbox.put)
        self.is_agreeing = False
        self._expected: dict[tuple[int, int], _Expected] = {}  # by ticket and piece
        self._ticket = 0
        self._used = self._beat = monotonic()  # times of the last range, and of the last BEAT

    def connect(self) -> ssl.SSLSocket:
        """Dial the host, and choose how parts come."""
        link = dial(self._context, self._identity, *self.holder, self._address)
        self.is_agreeing = True
        try:
            choice = self._ucx.agree(link)
        except BaseException:
            link.close()
            raise
        finally:
            self.carried, self.is_agreeing = monotonic(), False
        if choice is not None:
            self.events(("transport", self, choice))
        self._send_beat()
        return link

    def take(self, message: Any) -> None:
        """Handle an order, or a part that came by UCX."""
        if message[0] == "ask":
            self._ask(message[1])
        elif message[0] == "came":
            self._came(*message[1:])
        else:
            self._let_go(message[1])

    def _ask(self, ranges: Sequence[PullRange]) -> None:
        if not self._expected:
            self.heard = self.carried = monotonic()
        self._ticket = self._ticket % (2**32 - 1) + 1
        by_ucx = self._ucx.ask(sum(one.stop - one.start for one in ranges))
        for piece, one in enumerate(ranges):
            one.key = (self._ticket, piece)
            self._expected[one.key] = _Expected(one, by_ucx)
        pieces = [(one.pull.wanted.chunk, one.start, one.stop) for one in ranges]
        self.send(wire.ask(self._ticket, ranges[0].pull.urgency, pieces, wire.BY_UCX if by_ucx else 0))

    def _let_go(self, one: PullRange) -> None:
        expected = self._expected.get(one.key)
        if expected is not None and expected.range is one:
            self._give_up(expected)
            self.events(("let go", self, one))

    def _give_up(self, expected: _Expected) -> None:
        """Write no more of a range; parts may come until the source has heard."""
        assert expected.range is not None
        ticket, piece = expected.range.key
        if self._reader.current == (ticket, piece):
            self._reader.redirect()
        expected.range = None
        self.send(wire.drop(ticket, piece))

    # -- frames
    def _place(self, ticket: int, piece: int, offset: int, size: int) -> memoryview | None:
        expected = self._expected.get((ticket, piece))
        if expected is None:
            raise ProtocolError(f"{self.name}: a part came that nobody has asked for")
        if offset != expected.arrived or size > expected.size - offset:
            raise ProtocolError(
                f"{self.name}: {size} bytes came for byte {offset}, where {expected.arrived} to {expected.size} are due"
            )
        expected.arrived += size
        if expected.range is None:
            return None
        first = expected.range.offset + offset
        return self._memory[first : first + size]

    def receive(self, kind: int, flags: int, piece: int, ticket: int, body: Any) -> None:
        """Handle a frame."""
        if kind == wire.BEAT:
            self.events(("trip", self, (monotonic_ns() - wire.parse_number(body)) / 1e9))
            return
        if kind == wire.ANSWER:
            self._leave_ucx(wire.parse_answer(body)[2].decode("utf-8", "replace"))
            return
        expected = self._expected.get((ticket, piece))
        if kind == wire.AWAY:
            self._announced(ticket, piece, body)
            if not flags & wire.LAST:
                return
        elif kind == wire.PART:
            assert expected is not None
            self._check(expected, *body)
            if not flags & wire.LAST:
                return
        elif kind == wire.LOST:
            reason, text = wire.parse_lost(body)
            if reason == wire.REFUSED:
                self.close(text)
            elif expected is not None:
                self._end(ticket, piece, expected, text or "the host does not have it")
            return
        if expected is None or expected.arrived != expected.size:
            raise ProtocolError(f"{self.name}: a range ended before its last byte")
        expected.is_last = True
        if not expected.away:
            self._end(ticket, piece, expected, "")

    def _check(self, expected: _Expected, view: memoryview | None, sums: bytes) -> bool:
        """Compare a part with its checksums; returns whether it is wanted and right."""
        self.carried = self.heard
        if expected.range is None:
            return False
        expected.range.first = expected.range.first or self.heard
        if view is None or block_sums(view) == sums:
            return True
        damaged = expected.range
        self._give_up(expected)
        self.events(("failed", self, damaged, f"bytes of chunk {damaged.pull.wanted.chunk} changed on their way"))
        return False

    def _end(self, ticket: int, piece: int, expected: _Expected, error: str) -> None:
        del self._expected[ticket, piece]
        self._ucx.arrived(expected.room)
        self._used = self.heard
        if expected.range is not None and error:
            self.events(("failed", self, expected.range, error))
        elif expected.range is not None:
            expected.range.last = self.heard
            self.events(("arrived", self, expected.range))

    # -- parts by UCX
    def _announced(self, ticket: int, piece: int, body: bytes) -> None:
        """The bytes of a part come by UCX."""
        offset, size, _, _ = wire.parse_away(body)
        self._place(ticket, piece, offset, size)
        expected = self._expected[ticket, piece]
        if not expected.room:
            raise ProtocolError(f"{self.name}: a part was sent by UCX that was not asked for so")
        expected.away += 1
        self._ucx.expect(ticket, piece, body)

    def _came(self, number: int, error: str, data: Buffer) -> None:
        """A part came by UCX, or does not come."""
        part = self._ucx.take(number)
        if error:
            self._leave_ucx(error)
            return
        self.heard = monotonic()
        expected = self._expected.get((part.ticket, part.piece)) if part is not None else None
        if part is not None and expected is not None:  # else the source has withdrawn the range
            if self._check(expected, data.data, part.sums) and expected.range is not None:
                first = expected.range.offset + part.offset
                np.copyto(np.frombuffer(self._memory[first : first + len(data)], np.uint8), data)
            expected.away -= 1
            if expected.is_last and not expected.away:
                self._end(part.ticket, part.piece, expected, "")
        self._ucx.give_back(data)

    def _leave_ucx(self, why: str) -> None:
        """UCX has failed: ranges under way are asked for again, by TLS."""
        if self._ucx.is_on:
            self.events(("transport", self, TransportChoice(TLS, f"UCX has failed: {why}")))
            self.close(f"UCX has failed: {why}")

    def ended(self) -> None:
        """End the connection by UCX."""
        self._ucx.close()

    # -- time
    def fill(self) -> None:
        """All requests are sent."""

    def tick(self, now: float) -> float:
        """Beat while ranges are under way; close a lane that is silent or idle."""
        if not self._expected:
            if now - self._used >= IDLE_SECONDS:
                self.close("")
                return 0.0
            return max(self._used + IDLE_SECONDS - now, 0.001)
        if now - self.heard >= SILENT_SECONDS:
            self.close(f"the host sent nothing for {now - self.heard:.0f} s")
        elif self._ucx.waited(now) >= SILENT_SECONDS:
            self._leave_ucx(f"a part has not come for {self._ucx.waited(now):.0f} s")
        elif now - self._beat >= BEAT_SECONDS:
            self._send_beat()
        return max(self._beat + BEAT_SECONDS - now, 0.001)

    def _send_beat(self) -> None:
        self._beat = monotonic()
        self.send(wire.beat(monotonic_ns()))
