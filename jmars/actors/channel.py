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

from jmars.actors.auth import peer_process
from jmars.actors.connection import GreetedConnection
from jmars.actors.descriptors import Descriptor, hand_over
from jmars.actors.dialogue import Dialogue
from jmars.actors.frames import MAX_FRAME, pack
from jmars.actors.greeting import Greeting, UnixGreeting
from jmars.actors.mailbox import Mailbox
from jmars.errors import ClusterLostError, ProtocolError

__all__ = ["ActorChannel", "connect", "serve"]


class ActorChannel(Dialogue, GreetedConnection):
    """An end of a connection; `ready` resolves when the greeting is over."""

    def __init__(
        self,
        mailbox: Mailbox,
        greeting: Greeting,
        on_close: Callable[[ActorChannel], None] | None = None,
        largest: int = MAX_FRAME,
    ) -> None:
        GreetedConnection.__init__(self, greeting, largest)
        Dialogue.__init__(self, mailbox)
        self._on_close = on_close

    @property
    def peer(self) -> int:
        """Id of the process at the other end; 0 where it is not known."""
        return 0 if self._transport is None else peer_process(self._transport.get_extra_info("socket"))

    def close(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.close()

    # -- own
    def _lost(self, gone: ClusterLostError) -> None:
        self.closed = True
        self._fail_answers(gone)
        if self._on_close:
            self._on_close(self)

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
