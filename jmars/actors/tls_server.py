"""Listens for other hosts of the cluster, and gives connections to the LastingChannels of the hosts.

A peer's certificate is checked before a byte of it is decoded. Hosts without a certificate are strangers; they reach
one small mailbox, in which they can only ask for a certificate.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from jmars.actors.channel import ActorChannel
from jmars.actors.crowd import gives_way
from jmars.actors.lasting import LastingChannel
from jmars.actors.mailbox import Mailbox
from jmars.actors.tls import Identity, identity_of
from jmars.actors.tls_link import LINK, VISITOR, TlsLink, TlsServerGreeting, refusal
from jmars.errors import AuthenticationError, ProtocolError

__all__ = ["TlsServer", "serve_tls"]

log = logging.getLogger("jmars.actors")

HANDSHAKE_SECONDS, CLOSE_SECONDS = 5.0, 1.0
STRANGER_SECONDS = 10.0  # a stranger is cut off then
LARGEST = 64 * 1024  # bytes of a stranger's frame
MOST = 200  # connections that have shown no certificate, or are still in the handshake
ACCEPT_PAUSE = 0.5  # seconds after the system had no descriptor for a connection


class TlsServer:
    """Accepts connections until it is closed.

    Attributes
    ----------
    port
        Number of the port.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        accept: Callable[[Identity], LastingChannel],
        strangers: Mailbox | None,
        beats: Callable[[Identity], Mailbox] | None,
    ) -> None:
        self.port: int = listener.getsockname()[1]
        self._strangers, self._beats = strangers, beats
        self._listener, self._context, self._accept = listener, context, accept
        self._doors: set[asyncio.Task[None]] = set()
        self._unknown: set[asyncio.Transport] = set()  # of strangers
        self._unproved: dict[socket.socket, str] = {}  # addresses of strangers, and of peers in the handshake
        self._beating: set[asyncio.Transport] = set()  # of hosts that tell that they live
        self._task = asyncio.ensure_future(self._serve())

    def close(self) -> None:
        """Accept no more connections, and cut those that are no links; channels go on."""
        for task in (self._task, *self._doors):
            task.cancel()
        for transport in [*self._unknown, *self._beating]:
            transport.abort()
        self._listener.close()

    # -- own
    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError as error:
                log.error("no connection can be accepted: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE)  # a descriptor may be free then
                continue
            if len(self._unproved) >= MOST:
                self._send_away()
            self._unproved[connection] = address[0]
            task = asyncio.ensure_future(self._meet(connection, address[0]))
            self._doors.add(task)
            task.add_done_callback(self._doors.discard)

    async def _meet(self, connection: socket.socket, address: str) -> None:
        """Shake hands; then the connection goes on by itself."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Door(self, connection, address),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=CLOSE_SECONDS,
            )
        except OSError as error:  # errors of TLS are among these
            log.warning("a connection of %s is refused: %s", address, error)
            self._unproved.pop(connection, None)

    def _send_away(self) -> None:
        """Cut a connection, since there are too many."""
        connection = gives_way(self._unproved)
        address = self._unproved.pop(connection)
        log.warning("a connection of %s is cut: %d have shown no certificate yet", address, MOST)
        try:
            connection.shutdown(socket.SHUT_RDWR)  # the transport sees its end, and closes it
        except OSError as error:
            log.debug("it has ended already: %s", error)

    def welcome(self, transport: asyncio.Transport, connection: socket.socket) -> asyncio.Protocol:
        """The protocol of a connection whose handshake is over.

        Raises
        ------
        AuthenticationError
            If the peer is refused.
        """
        address = self._unproved.pop(connection, None)
        identity = identity_of(transport.get_extra_info("peercert"))
        purpose = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        if identity is None:
            return self._stranger(transport, connection, address)
        if purpose is None:
            return TlsLink(self._accept(identity), TlsServerGreeting(LINK), dials=False)
        if self._beats is None:
            raise AuthenticationError("nobody listens for beats here")
        mailbox = self._beats(identity)
        self._beating.add(transport)
        return _Visitor(mailbox, lambda _: self._beating.discard(transport))

    def _stranger(self, transport: asyncio.Transport, connection: socket.socket, address: str | None) -> ActorChannel:
        if self._strangers is None or address is None:  # None: it was sent away
            raise AuthenticationError("it has shown no certificate")
        late = asyncio.get_running_loop().call_later(STRANGER_SECONDS, transport.abort)

        def left(channel: ActorChannel) -> None:
            late.cancel()
            self._unknown.discard(transport)
            self._unproved.pop(connection, None)

        self._unknown.add(transport)
        self._unproved[connection] = address
        return _Visitor(self._strangers, left)


class _Visitor(ActorChannel):
    """A connection of a stranger, or of a janitor that beats: a wrong message ends this connection alone.

    Visitors may only ask, so that each error of a call travels to the peer: an error without a caller counts as an
    error of this process.
    """

    def __init__(self, mailbox: Mailbox, left: Callable[[ActorChannel], None]) -> None:
        super().__init__(mailbox, TlsServerGreeting(VISITOR), left, LARGEST)

    def _receive(self, message: Any) -> None:
        form = [type(one) for one in message] if type(message) is tuple else []
        if form != [int, str, str, tuple] or message[0] < 1:
            raise ProtocolError(f"{str(message)[:80]!r} is no question of a visitor")
        super()._receive(message)


class _Door(asyncio.Protocol):
    """Stands at a connection during the handshake, and gives it to the protocol of its peer."""

    def __init__(self, server: TlsServer, connection: socket.socket, address: str) -> None:
        self._server, self._connection, self._address = server, connection, address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over."""
        assert isinstance(transport, asyncio.Transport)
        try:
            protocol = self._server.welcome(transport, self._connection)
        except AuthenticationError as error:
            log.warning("a connection of %s is refused: %s", self._address, error)
            transport.write(refusal(str(error)))
            transport.close()
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


async def serve_tls(
    address: str,
    port: int,
    context: ssl.SSLContext,
    accept: Callable[[Identity], LastingChannel],
    strangers: Mailbox | None = None,
    beats: Callable[[Identity], Mailbox] | None = None,
) -> TlsServer:
    """Listen for hosts of the cluster.

    Parameters
    ----------
    address
        Of this machine; "" for all addresses.
    port
        0 for a free one; see `TlsServer.port`.
    context
        Of `server_context`; with `strangers=True` where strangers may enrol.
    accept
        Gives the channel of a host, the same for each connection of that host; raises AuthenticationError, whose text
        the peer is told, for hosts that are unknown or were given up.
    strangers
        Actors that peers without a certificate reach; None refuses such peers.
    beats
        Gives the actors of a connection by which a process beside a host tells that the host lives; raises as
        `accept`.

    Raises
    ------
    OSError
        If the port cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in address or (not address and socket.has_dualstack_ipv6()) else socket.AF_INET
    listener = socket.create_server(
        (address, port), family=family, backlog=1024, dualstack_ipv6=not address and family == socket.AF_INET6
    )
    listener.setblocking(False)
    return TlsServer(listener, context, accept, strangers, beats)
