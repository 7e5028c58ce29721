"""TlsLink: a TLS connection that carries the frames of a LastingChannel.

After the handshake of TLS the listening end says by one code whether the peer is welcome, as a link or as a visitor
that may only enrol or beat, or why it is refused: in TLS 1.3 the dialling end learns of a refusal only at its first
read. Nothing of the peer is decoded before.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from jmars.actors.connection import GreetedConnection, log
from jmars.actors.frames import pack
from jmars.actors.greeting import Greeting
from jmars.actors.lasting import END, HELLO, LastingChannel, Link, called
from jmars.actors.tls import identity_of
from jmars.errors import AuthenticationError, ClusterLostError, ProtocolError

__all__ = ["LINK", "VISITOR", "TlsClientGreeting", "TlsLink", "TlsServerGreeting", "refusal", "tune"]

MAGIC = b"jmars-l1"
LINK, VISITOR, REFUSED = b"l", b"v", b"r"  # codes after the magic; a visitor reaches few actors, over no link
HEADER = len(MAGIC) + 1
PATIENCE = 10.0  # seconds that a welcomed peer may be silent
LOST_SECONDS = 8.0  # a connection whose bytes are not acknowledged for so long is cut


def tune(connection: socket.socket) -> None:
    """Set a TCP socket so that a dead peer is noticed: busy within 8 s, idle within 6 s. Source: tcp(7)."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(LOST_SECONDS * 1000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5)


def refusal(why: str) -> bytes:
    """Bytes that tell a peer that it is refused."""
    text = why.encode()[:1000]
    return MAGIC + REFUSED + len(text).to_bytes(2, "little") + text


class TlsServerGreeting(Greeting):
    """The listening end, for a peer that was checked already: it is welcome as `code` says."""

    patience, proof, advice = PATIENCE, "message", "start the host again"

    def __init__(self, code: bytes) -> None:
        self._code = code

    def begin(self, transport: asyncio.Transport) -> bytes:
        """Welcome the peer."""
        return MAGIC + self._code

    def take(self, data: bytes) -> tuple[bytes, bytes | None]:
        """All that a welcomed peer sends is frames."""
        return b"", data


class TlsClientGreeting(Greeting):
    """The dialling end, which wants to be welcome as `code` says.

    Examples
    --------
    >>> greeting = TlsClientGreeting(LINK)
    >>> greeting.take(MAGIC), greeting.take(LINK + b"frames")
    ((b'', None), (b'', b'frames'))
    >>> TlsClientGreeting(LINK).take(refusal("this host was given up"))
    Traceback (most recent call last):
    jmars.errors.ProtocolError: the other end refuses this host: this host was given up
    """

    patience, proof, advice = PATIENCE, "welcome of the other end", "let the host join again with a new ticket"

    def __init__(self, code: bytes) -> None:
        self.refused = ""  # why the other end will not have this host, however often it dials
        self._code = code
        self._data = b""

    def begin(self, transport: asyncio.Transport) -> bytes:
        """The other end speaks first."""
        return b""

    def take(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Take the code, and the reason of a refusal."""
        self._data += data
        if not self._data.startswith(MAGIC[: len(self._data)]):
            raise ProtocolError("what listens there is no jmars of this version")
        code, rest = self._data[len(MAGIC) : HEADER], self._data[HEADER:]
        if not code:
            return b"", None
        if code == self._code:
            return b"", rest
        if code == REFUSED:
            size = int.from_bytes(rest[:2], "little")
            if len(rest) < 2 + size or len(rest) < 2:
                return b"", None
            self.refused = f"the other end refuses this host: {rest[2 : 2 + size].decode(errors='replace')}"
            raise ProtocolError(self.refused)
        raise ProtocolError("the other end takes this host for another kind of peer; give it the certificate it needs")


class TlsLink(GreetedConnection, Link):
    """A connection of a channel.

    Attributes
    ----------
    joined
        Resolves when the channel uses the connection; fails with ClusterLostError.
    gone
        Set when the connection has ended.
    """

    def __init__(self, channel: LastingChannel, greeting: Greeting, dials: bool) -> None:
        super().__init__(greeting)
        self.joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self._channel, self._dials = channel, dials
        self._outgoing: list[bytes] = []

    def send(self, frames: Sequence[Any]) -> None:
        """Send frames at the end of this turn of the loop, since each write is a record of TLS and a system call."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._write)
        self._outgoing += map(pack, frames)

    def cut(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def hang_up(self) -> None:
        """End the connection after all frames are sent."""
        self._write()
        if self._transport is not None:
            self._transport.close()

    # -- asyncio's callbacks
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake of TLS is over."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        try:
            identity = identity_of(transport.get_extra_info("peercert"))
        except AuthenticationError as error:
            self._refuse(str(error))
            return
        assert identity is not None  # a client's context requires a certificate, and the server has looked
        self.identity = identity
        tune(transport.get_extra_info("socket"))
        super().connection_made(transport)
        if self._dials:
            self.send([self._channel.hello])

    def data_received(self, data: bytes) -> None:
        """Bytes arrived: the peer lives, though a long frame may not be complete."""
        self._channel.last_heard = asyncio.get_running_loop().time()
        super().data_received(data)

    # -- own
    def _write(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if outgoing and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(outgoing))

    def _receive(self, message: Any) -> None:
        if self.joined.done():
            self._channel.heard(self, message)
            return
        if type(message) is not tuple or len(message) != 2 or type(message[1]) not in (bytes, str):
            raise ProtocolError(f"{str(message)[:80]!r} does not begin a link of this version of jmars")
        kind, value = message
        if kind == END:
            self._channel.ended_by_peer(str(value))
        elif kind != HELLO or type(value) is not bytes:
            raise ProtocolError(f"{str(message)[:80]!r} does not begin a link of this version of jmars")
        elif why := self._channel.refuses(self, value):
            log.warning("a connection of %s is refused: %s", called(self.identity), why)
            self.send([(END, why)])
            self.hang_up()
        else:
            if not self._dials:
                self.send([self._channel.hello])
            self._channel.attach(self, value)
            self.joined.set_result(None)

    def _lost(self, gone: ClusterLostError) -> None:
        self.gone.set()
        if not self.joined.done():
            self.joined.set_exception(gone)
            self.joined.exception()  # retrieved: the listening end has nobody waiting
        why = self._refused or str(gone.__cause__ or "it hung up")
        self._channel.detach(self, why)
