"""TlsLink: a TLS connection that carries the frames of a LastingChannel.

After the handshake of TLS the listening end says by one code whether the peer is welcome, as a link or as a visitor
that may only enrol or beat, or why it is refused: in TLS 1.3 the dialling end learns of a refusal only at its first
read. Nothing of the peer is decoded before.

A host dials the first time, and whenever the connection breaks or falls silent. A listener gives connections to the
LastingChannels of the hosts. A peer's certificate is checked before a byte of it is decoded. Hosts without a
certificate are strangers; they reach one small mailbox, in which they can only ask for a certificate.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from jmars.actors.channel import ActorChannel, GreetedConnection, log
from jmars.actors.dialogue import Mailbox
from jmars.actors.frames import pack
from jmars.actors.greeting import Greeting
from jmars.actors.lasting import END, HELLO, LastingChannel, Link, called
from jmars.actors.tls import Identity, gives_way, host_name, identity_of
from jmars.errors import AuthenticationError, ClusterLostError, HostRefusedError, ProtocolError

MAGIC = b"jmars-l1"
LINK, VISITOR, REFUSED = b"l", b"v", b"r"  # codes after the magic; a visitor reaches few actors, over no link
HEADER = len(MAGIC) + 1
PATIENCE = 10.0  # seconds that a welcomed peer may be silent
LOST_SECONDS = 8.0  # a connection whose bytes are unacknowledged for so long is cut


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
        self.refused = ""  # reason why the other end refuses this host for good; "" if it does not
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
            self.joined.exception()  # retrieved: no caller waits at the listening end
        why = self._refused or str(gone.__cause__ or "it hung up")
        self._channel.detach(self, why)


DIAL_SECONDS = 5.0  # for an address
SILENT_BEATS = 5  # a connection without a byte for so many beats is replaced, though the system has not noticed
PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.0)  # seconds before each attempt; the last pause repeats

Made = TypeVar("Made", bound=GreetedConnection)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of an address.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> parse_address("10.0.0.7:4711"), parse_address("[::1]:4711")
    (('10.0.0.7', 4711), ('::1', 4711))
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is no address; write host:port, as 10.0.0.7:4711 or [::1]:4711")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """An address of host and port, as `parse_address` reads it.

    Examples
    --------
    >>> format_address("10.0.0.7", 4711), format_address("::1", 4711)
    ('10.0.0.7:4711', '[::1]:4711')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def connect_tls(channel: LastingChannel, addresses: Sequence[str], context: ssl.SSLContext, cluster: str) -> None:
    """Connect a channel to its peer, and dial again in the background until the channel has ended.

    Parameters
    ----------
    addresses
        Of the peer as "host:port", tried in this order.
    context
        Of `client_context`.
    cluster
        Id of the cluster, part of the name that the peer must prove.

    Raises
    ------
    AuthenticationError
        If the peer does not prove its name; HostRefusedError if it refuses this host. The channel is given up.
    ClusterLostError
        If no address answers. The channel is given up.
    """
    dialler = _Dialler(channel, addresses, context, cluster)
    try:
        link = await dialler.dial()
    except BaseException as error:
        channel.give_up(str(error) or type(error).__name__)
        raise
    channel.keeper = asyncio.ensure_future(dialler.keep(link))
    channel.keeper.add_done_callback(_report)


async def dial_tls(
    addresses: Sequence[str],
    context: ssl.SSLContext,
    name: str,
    code: bytes,
    make: Callable[[TlsClientGreeting], Made],
) -> Made:
    """A connection to the first of several addresses that answers, welcome there as `code` says.

    Parameters
    ----------
    name
        The `host_name` that the other end must prove.
    make
        Makes the protocol of a connection from its greeting.

    Raises
    ------
    AuthenticationError
        If the other end does not prove its name; HostRefusedError if it refuses this host.
    ClusterLostError
        If no address answers.
    """
    failed = {}
    untrusted = False
    for address in addresses:
        greeting = TlsClientGreeting(code)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                return await _dial(parse_address(address), context, name, partial(make, greeting))
        except OSError as error:  # TLS errors, timeouts and jmars's connection errors are OSErrors
            if greeting.refused:
                raise HostRefusedError(greeting.refused) from error
            untrusted = untrusted or isinstance(error, ssl.SSLCertVerificationError)
            failed[address] = _reason(error)
    what = "; ".join(f"{address}: {why}" for address, why in failed.items())
    if untrusted:
        raise AuthenticationError(f"what answers is not {name} of this cluster ({what}); check the address")
    raise ClusterLostError(f"{name} does not answer ({what}); check address and firewall")


async def _dial(address: tuple[str, int], context: ssl.SSLContext, name: str, make: Callable[[], Made]) -> Made:
    transport, connection = await asyncio.get_running_loop().create_connection(
        make,
        *address,
        ssl=context,
        server_hostname=name,
        ssl_handshake_timeout=HANDSHAKE_SECONDS,
        ssl_shutdown_timeout=CLOSE_SECONDS,
    )
    try:
        await connection.ready
    except BaseException:
        transport.abort()
        raise
    return connection


def _reason(error: OSError) -> str:
    if isinstance(error, ClusterLostError):
        return str(error.__cause__ or "it hung up; its log says why")
    return str(error) or f"no answer within {DIAL_SECONDS:g} s"


class _Dialler:
    def __init__(
        self, channel: LastingChannel, addresses: Sequence[str], context: ssl.SSLContext, cluster: str
    ) -> None:
        self._channel, self._addresses, self._context = channel, addresses, context
        self._name = host_name(cluster, channel.peer.host)

    async def dial(self) -> TlsLink:
        """The next connection of the channel."""

        def made(greeting: TlsClientGreeting) -> TlsLink:
            return TlsLink(self._channel, greeting, dials=True)

        link = await dial_tls(self._addresses, self._context, self._name, LINK, made)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await link.joined
        except TimeoutError as error:
            link.cut()
            raise ClusterLostError(f"{self._name} does not begin a link; look at its log") from error
        return link

    async def keep(self, link: TlsLink) -> None:
        """Replace each connection that breaks or falls silent, until the channel ends."""
        channel = self._channel
        while not channel.closed:
            await self._broken(link)
            found = await self._dial_again()
            if found is not None:
                link = found

    # -- own
    async def _broken(self, link: TlsLink) -> None:
        """Wait until a connection has ended; end a silent connection."""
        channel, silence = self._channel, SILENT_BEATS * self._channel.beat
        loop = asyncio.get_running_loop()
        while not link.gone.is_set():
            try:
                async with asyncio.timeout_at(channel.last_heard + silence):
                    await link.gone.wait()
            except TimeoutError:
                if loop.time() >= channel.last_heard + silence:
                    log.warning("%s was silent for %.3g s: dialled again", called(channel.peer), silence)
                    link.cut()
                    await link.gone.wait()

    async def _dial_again(self) -> TlsLink | None:
        """The next connection; None when the channel has ended."""
        channel, attempt, said = self._channel, 0, ""
        while not channel.closed:
            pause = PAUSES[min(attempt, len(PAUSES) - 1)] * random.uniform(0.5, 1.0)  # hosts come apart in time
            try:
                async with asyncio.timeout(pause):
                    await channel.ended.wait()
                    return None
            except TimeoutError:
                attempt += 1
            try:
                return await self.dial()
            except HostRefusedError as error:
                channel.give_up(str(error))
                return None
            except (AuthenticationError, ClusterLostError) as error:
                why = str(error)
            if why != said:
                log.warning("%s", why)
                said = why
        return None


def _report(task: asyncio.Task[None]) -> None:
    """A fault of ours ends the process as others do, by the loop's handler."""
    if not task.cancelled() and task.exception() is not None:
        what = {"message": "a link is not dialled any more", "exception": task.exception()}
        asyncio.get_running_loop().call_exception_handler(what)


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
        except OSError as error:  # TLS errors are OSErrors too
            log.warning("a connection of %s is refused: %s", address, error)
            self._unproved.pop(connection, None)

    def _send_away(self) -> None:
        """Cut a connection, since there are too many."""
        connection = gives_way(self._unproved)
        address = self._unproved.pop(connection)
        log.warning("a connection of %s is cut: %d have shown no certificate yet", address, MOST)
        try:
            connection.shutdown(socket.SHUT_RDWR)  # the transport sees the end of the stream and closes it
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
        if self._strangers is None or address is None:  # None: the connection was sent away
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
