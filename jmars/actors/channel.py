"""ActorChannel: an authenticated connection between actors of two processes; see `Dialogue` for its messages.

The greeting proves the ends to each other before any message is decoded. A message takes 4 µs, against 60 in xoscar.
Source: docs/explanation/seeds.md, "Architecture" (actors).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jmars.actors.descriptors import Descriptor, hand_over
from jmars.actors.dialogue import Dialogue, log
from jmars.actors.frames import Decoder, pack
from jmars.actors.greeting import Greeting, UnixGreeting
from jmars.actors.mailbox import Mailbox
from jmars.errors import AuthenticationError, ClusterLostError, ProtocolError

__all__ = ["ActorChannel", "connect", "serve"]


class ActorChannel(Dialogue, asyncio.Protocol):
    """An end of a connection; `ready` resolves when the greeting is over."""

    def __init__(
        self, mailbox: Mailbox, greeting: Greeting, on_close: Callable[[ActorChannel], None] | None = None
    ) -> None:
        super().__init__(mailbox)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._greeting, self._on_close = greeting, on_close
        self._transport: asyncio.Transport | None = None
        self._decoder = Decoder()
        self._deadline: asyncio.TimerHandle | None = None
        self._refused = False

    def close(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.close()

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
        """Fail all calls that wait for an answer."""
        self.closed = True
        if self._deadline:
            self._deadline.cancel()
        gone = ClusterLostError("the other end of the connection went away; start a new cluster and run again")
        if not self.ready.done():
            self.ready.set_exception(gone)
            self.ready.exception()  # retrieved: the server side has nobody waiting
        self._fail_answers(gone)
        if self._on_close:
            self._on_close(self)

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
        return rest

    def _refuse(self, why: str) -> None:
        self._refused = True
        log.warning("connection refused: %s", why)
        if not self.ready.done():
            self.ready.set_exception(AuthenticationError(f"{why}; {self._greeting.advice}"))
            self.ready.exception()
        if self._transport is not None:
            self._transport.abort()

    def _send(self, message: Any) -> None:
        assert self._transport is not None
        self._transport.write(pack(message))

    def _answer(self, number: int, actor: str, method: str, value: Any) -> None:
        if not isinstance(value, Descriptor):
            super()._answer(number, actor, method, value)
            return
        try:
            self._hand_over(number, value)
        except ProtocolError as error:
            self._fail(number, actor, method, error)

    def _hand_over(self, number: int, value: Descriptor) -> None:
        assert self._transport is not None
        if self._transport.get_write_buffer_size():
            raise ProtocolError("a descriptor is handed over on a connection of its own; ask for it first there")
        hand_over(self._transport.get_extra_info("socket").fileno(), pack((-number, True, None)), value.fd)


async def serve(
    path: Path,
    mailbox: Mailbox | Callable[[ActorChannel], Mailbox],
    token: str,
    on_open: Callable[[ActorChannel], None] | None = None,
    on_close: Callable[[ActorChannel], None] | None = None,
) -> asyncio.AbstractServer:
    """Listen on the Unix socket `path`, whose folder must be private (0700); the socket itself is 0600.

    `mailbox` serves all connections, or makes a mailbox for each; `on_close` is called for unauthenticated connections
    too.
    """

    def accept() -> ActorChannel:
        channel = ActorChannel(
            mailbox if isinstance(mailbox, Mailbox) else Mailbox(), UnixGreeting(token, server=True), on_close
        )
        if not isinstance(mailbox, Mailbox):
            channel.mailbox = mailbox(channel)
        if on_open:
            channel.ready.add_done_callback(lambda f: on_open(channel) if not f.exception() else None)
        return channel

    listener = socket.socket(socket.AF_UNIX)
    listener.setblocking(False)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    return await asyncio.get_running_loop().create_unix_server(accept, sock=listener)


async def connect(
    path: str | Path, token: str, mailbox: Mailbox | None = None, on_close: Callable[[ActorChannel], None] | None = None
) -> ActorChannel:
    """A channel to the cluster that listens on `path`.

    Raises
    ------
    AuthenticationError
        If the token is not that of the cluster.
    ClusterLostError
        If nobody listens there.
    """
    try:
        _, channel = await asyncio.get_running_loop().create_unix_connection(
            lambda: ActorChannel(mailbox or Mailbox(), UnixGreeting(token, server=False), on_close), str(path)
        )
    except OSError as error:
        raise ClusterLostError(f"no cluster answers at {path} ({error}); start a new one") from error
    try:
        await channel.ready
    except BaseException:
        channel.close()
        raise
    return channel
