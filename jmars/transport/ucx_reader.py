"""UcxReader: the parts that a lane receives by UCX, between their announcement over TLS and their bytes."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from jmars.transport import wire
from jmars.transport.ucx import Buffer, Ucx
from jmars.transport.ucx_choice import TransportChoice
from jmars.transport.ucx_greeting import agree

__all__ = ["AwayPart", "UcxReader", "UcxWish"]


@dataclass(frozen=True)
class UcxWish:
    """UCX, and the wish of the user."""

    ucx: Ucx
    always: bool  # on any device, without a probe
    is_known: bool = False  # another lane to the host has chosen UCX


class AwayPart(NamedTuple):
    """A part that was announced and comes by UCX."""

    ticket: int
    piece: int
    offset: int
    sums: bytes
    since: float


class UcxReader:
    """The end of a lane where parts come by UCX.

    Parameters
    ----------
    wish
        None for TLS only.
    put
        Takes `("came", number, error, bytes)` in any thread; `take` gives the part.
    """

    def __init__(self, wish: UcxWish | None, put: Callable[[Any], None]) -> None:
        self._wish, self._put = wish, put
        self._far = -1  # the connection; -1 for TLS
        self._parts: dict[int, AwayPart] = {}  # oldest first
        self._number = 0
        self._room = 0  # bytes that were taken of UCX' room

    def agree(self, link: ssl.SSLSocket) -> TransportChoice | None:
        """Agree with the source; None without a choice. Raises as `ucx_greeting.agree`."""
        if self._wish is None:
            return None
        choice, self._far = agree(link, self._wish.ucx, self._wish.always, self._wish.is_known)
        return choice

    @property
    def is_on(self) -> bool:
        """Whether parts come by UCX."""
        return self._far >= 0

    def ask(self, nbytes: int) -> bool:
        """Whether so many bytes are to be asked for by UCX; `arrived` when they have come."""
        if not self.is_on or self._wish is None or not self._wish.ucx.take_room(nbytes):
            return False
        self._room += nbytes
        return True

    def arrived(self, nbytes: int) -> None:
        """Bytes that were asked for by UCX have come, or do not come."""
        if self._wish is not None and nbytes:
            self._wish.ucx.give_room(nbytes)
            self._room -= nbytes

    def expect(self, ticket: int, piece: int, body: bytes) -> None:
        """A part was announced: receive the bytes."""
        offset, size, tag, sums = wire.parse_away(body)
        assert self._wish is not None
        self._number += 1
        self._parts[self._number] = AwayPart(ticket, piece, offset, sums, monotonic())
        self._wish.ucx.receive(self._far, tag, size, partial(_told, self._put, self._number))

    def take(self, number: int) -> AwayPart | None:
        """The part that has come."""
        return self._parts.pop(number, None)

    def give_back(self, data: Buffer) -> None:
        """The bytes of a part were read."""
        if self._wish is not None:
            self._wish.ucx.give_back(data)

    def waited(self, now: float) -> float:
        """Age of the oldest part that has not come, in seconds."""
        return now - next(iter(self._parts.values())).since if self._parts else 0.0

    def close(self) -> None:
        """End the connection."""
        if self._wish is not None and self.is_on:
            self._wish.ucx.hang_up(self._far)
            self.arrived(self._room)
        self._far = -1
        self._parts.clear()


def _told(put: Callable[[Any], None], number: int, error: str, data: Buffer) -> None:
    put(("came", number, error, data))
