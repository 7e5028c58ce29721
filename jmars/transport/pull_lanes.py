"""PullLane: the lane of a host that reads chunks: asks for ranges, and receives them in the arena.

After a range is let go, further bytes are received elsewhere and dropped, so that the lane writes into a slot only
while the lane holds the range. Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from time import monotonic, monotonic_ns
from typing import Any

import numpy as np

from jmars.errors import ProtocolError
from jmars.storage.spill import block_sums
from jmars.transport import wire
from jmars.transport.frame_reader import FrameReader
from jmars.transport.lanes import BulkLane
from jmars.transport.pulls import Holder, PullRange
from jmars.transport.tls_sockets import HostIdentity, dial
from jmars.transport.ucx import Buffer
from jmars.transport.ucx_choice import TLS, TransportChoice
from jmars.transport.ucx_reader import UcxReader, UcxWish

__all__ = ["PullLane"]

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
        pieces = [(one.pull.chunk, one.start, one.stop) for one in ranges]
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
        self.events(("failed", self, damaged, f"bytes of chunk {damaged.pull.chunk} changed on their way"))
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
