"""GreetedConnection: a stream connection that begins with a greeting and goes on with frames.

Nothing is decoded before the greeting is over. `ActorChannel` and `TlsLink` are its two kinds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from jmars.actors.frames import MAX_FRAME, Decoder
from jmars.actors.greeting import Greeting
from jmars.errors import AuthenticationError, ClusterLostError, ProtocolError

__all__ = ["GreetedConnection"]

log = logging.getLogger("jmars.actors")


class GreetedConnection(asyncio.Protocol):
    """An end of a connection; subclasses act on messages in `_receive`.

    Parameters
    ----------
    largest
        Bytes of the largest frame that the peer may send.

    Attributes
    ----------
    ready
        Resolves when the greeting is over; fails with AuthenticationError or ClusterLostError.
    """

    def __init__(self, greeting: Greeting, largest: int = MAX_FRAME) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._greeting = greeting
        self._transport: asyncio.Transport | None = None
        self._decoder = Decoder(largest)
        self._deadline: asyncio.TimerHandle | None = None
        self._refused = ""  # why the peer was refused

    # -- asyncio's callbacks
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the greeting."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        greeting = self._greeting
        self._deadline = asyncio.get_running_loop().call_later(
            greeting.patience, self._refuse, f"no {greeting.proof} within {greeting.patience} s"
        )
        try:
            first = greeting.begin(transport)
        except AuthenticationError as error:
            self._refuse(str(error))
            return
        if first:
            transport.write(first)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived: the greeting's, then messages."""
        if self._refused:
            return  # a layer below may still hold bytes of the peer
        try:
            if not self.ready.done():
                data = self._greet(data)
            if data:
                for message in self._decoder.feed(data):
                    self._receive(message)
        except ProtocolError as error:
            self._refuse(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        if self._deadline:
            self._deadline.cancel()
        gone = ClusterLostError("the other end of the connection went away; start a new cluster and run again")
        gone.__cause__ = exc
        if not self.ready.done():
            self.ready.set_exception(gone)
            self.ready.exception()  # retrieved: the server side has nobody waiting
        self._lost(gone)

    # -- for subclasses
    def _receive(self, message: Any) -> None:
        """Act on a message; raises ProtocolError for a message of unknown form."""
        raise NotImplementedError

    def _lost(self, gone: ClusterLostError) -> None:
        """The connection has ended; called once."""

    def _greeted(self) -> None:
        """The greeting is over, and no message is decoded yet."""

    def _refuse(self, why: str) -> None:
        """Cut the connection; `why` goes to the log, and to who waits for the greeting."""
        self._refused = why
        log.warning("connection refused: %s", why)
        if not self.ready.done():
            self.ready.set_exception(AuthenticationError(f"{why}; {self._greeting.advice}"))
            self.ready.exception()
        if self._transport is not None:
            self._transport.abort()

    # -- own
    def _greet(self, data: bytes) -> bytes:
        """Pass bytes to the greeting; returns the bytes behind it."""
        assert self._transport is not None
        sent, rest = self._greeting.take(data)
        if sent:
            self._transport.write(sent)
        if rest is None:
            return b""
        if self._deadline:
            self._deadline.cancel()
        self.ready.set_result(None)
        self._greeted()
        return rest
