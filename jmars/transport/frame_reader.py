"""FrameReader: frames out of a stream that arrives in pieces; bytes of parts go straight to their place.

The reader has no socket: `space` tells where the next bytes belong, `received` takes their number. Small frames are
collected in a buffer; the bytes of a large part are received where they stay, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from jmars.errors import ProtocolError
from jmars.transport import wire

__all__ = ["FrameReader", "PartPlace"]

BUFFER = 2**16  # bytes that are collected at most; any frame but a PART is shorter

# Where a part belongs: (ticket, piece, offset, size) to a view of `size` bytes, or None if nobody wants them any more.
PartPlace = Callable[[int, int, int, int], memoryview | None]


class FrameReader:
    """Cuts a stream into frames.

    Parameters
    ----------
    kinds
        Frames that the other end may send.
    place
        Gives the place of a part; None where no parts may come.
    """

    def __init__(self, kinds: Collection[int], place: PartPlace | None = None) -> None:
        self._kinds, self._place = frozenset(kinds), place
        self._buffer = memoryview(bytearray(BUFFER))
        self._low = self._high = 0  # bytes of the buffer that are not parsed
        self._rest: memoryview | None = None  # of the current part, which has not arrived
        self._part: tuple[Any, ...] = ()  # the current part's frame
        self._junk: memoryview | None = None  # takes parts that nobody wants

    @property
    def current(self) -> tuple[int, int] | None:
        """Ticket and piece of the part that is being received."""
        return None if self._rest is None else (self._part[3], self._part[2])

    def space(self) -> memoryview:
        """Memory for the next bytes; never empty."""
        if self._rest is not None:
            return self._rest
        if self._low and self._high > BUFFER // 2:
            left = bytes(self._buffer[self._low : self._high])
            self._low, self._high = 0, len(left)
            self._buffer[: len(left)] = left
        return self._buffer[self._high :]

    def received(self, count: int) -> list[tuple[Any, ...]]:
        """Frames that `count` received bytes complete: `(kind, flags, piece, ticket, body)`, in order.

        The body of a PART is `(view, checksums)`; the view is None if the part was not wanted.

        Raises
        ------
        ProtocolError
            If the bytes are no frames; do not go on with this stream.
        """
        if self._rest is not None:
            self._rest = self._rest[count:]
            if len(self._rest):
                return []
            self._rest = None
            return [self._part]
        self._high += count
        frames: list[tuple[Any, ...]] = []
        buffer = self._buffer
        while self._high - self._low >= wire.HEAD:
            kind, flags, piece, ticket, length = wire.parse_head(buffer, self._low)
            if kind not in self._kinds:
                raise ProtocolError(f"a frame of kind {kind} does not belong here; the other end is no jmars")
            body = self._low + wire.HEAD
            if kind == wire.PART:
                if self._high - body < wire.PART_FIXED or not self._begin_part(flags, piece, ticket, length):
                    break
                frames.append(self._part)
                continue
            if self._high - body < length:
                break
            frames.append((kind, flags, piece, ticket, bytes(buffer[body : body + length])))
            self._low = body + length
        if self._low == self._high:
            self._low = self._high = 0
        return frames

    def redirect(self) -> None:
        """Receive the rest of the current part elsewhere, and drop the part."""
        assert self._rest is not None
        kind, flags, piece, ticket, (_, sums) = self._part
        self._rest = self._waste(len(self._rest))
        self._part = (kind, flags, piece, ticket, (None, sums))

    def _begin_part(self, flags: int, piece: int, ticket: int, length: int) -> bool:
        """Take a part's head and the bytes behind the head; returns whether the part is whole."""
        assert self._place is not None
        body = self._low + wire.HEAD
        offset, size, nsums = wire.parse_part(self._buffer, body, length)
        start = body + wire.PART_FIXED + nsums
        if self._high < start:
            return False
        sums = bytes(self._buffer[start - nsums : start])
        view = self._place(ticket, piece, offset, size)
        into = self._waste(size) if view is None else view
        here = min(size, self._high - start)
        into[:here] = self._buffer[start : start + here]
        self._part = (wire.PART, flags, piece, ticket, (view, sums))
        self._low = start + here
        if here < size:
            self._low = self._high = 0
            self._rest = into[here:]
        return here == size

    def _waste(self, size: int) -> memoryview:
        """Memory for bytes that are dropped."""
        if self._junk is None:
            self._junk = memoryview(bytearray(wire.PART_BYTES))
        return self._junk[:size]
