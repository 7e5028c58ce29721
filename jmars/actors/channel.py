"""ActorChannel: an authenticated connection between actors of two processes; see `Dialogue` for its messages.

The greeting proves the ends to each other before any message is decoded. A message takes 4 µs, against 60 in xoscar.

`GreetedConnection` is a stream connection that begins with a greeting and goes on with frames. Nothing is decoded
before the greeting is over. `ActorChannel` and `TlsLink` are its two kinds.

A client that did not make a cluster's shared memory gets its file descriptor. An actor returns a `Descriptor`;
`received` gets the descriptor as ancillary data of the answer, behind the same proof of the token as all messages.
`received` blocks on a separate connection, since event loops read no ancillary data.
Source: docs/explanation/seeds.md, "Architecture" (actors); unix(7), SCM_RIGHTS.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from jmars.actors import greeting
from jmars.actors.dialogue import Dialogue, Mailbox
from jmars.actors.frames import MAX_FRAME, Decoder, pack
from jmars.actors.greeting import Greeting, UnixGreeting, peer_process
from jmars.errors import AuthenticationError, ClusterError, ClusterLostError, ProtocolError

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
            self.ready.exception()  # retrieved: no caller waits on the server side
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
        """Cut the connection; `why` goes to the log, and to the caller that waits for the greeting."""
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


class Descriptor(Struct, frozen=True):
    """A descriptor as an actor's answer; it stays open here."""

    fd: int


def hand_over(connection: int, frame: bytes, fd: int) -> None:
    """Write `frame` to the socket `connection` with `fd` beside it; the socket's write buffer must be empty."""
    with socket.socket(fileno=os.dup(connection)) as copy:
        sent = socket.send_fds(copy, [frame], [fd])
    if sent != len(frame):
        raise ProtocolError("a descriptor's frame did not fit into the socket; ask for it first on a new connection")


def received(path: str | Path, token: str, actor: str, method: str, timeout: float = 5.0) -> int:
    """The descriptor that `actor.method()` of the cluster at `path` hands over; it is the caller's to close.

    Raises
    ------
    AuthenticationError
        If the token is not that of the cluster, or the cluster is another user's.
    ClusterLostError
        If nobody listens there, or there is no answer within `timeout` seconds.
    """
    fds: list[int] = []
    try:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(timeout)
            raw.connect(str(path))
            greeting.check_peer(raw)
            _prove(raw, token)
            raw.sendall(pack((1, actor, method, ())))
            _read_answer(raw, fds)
    except TimeoutError as error:
        raise ClusterLostError(
            f"the cluster at {path} has not answered for {timeout:g} s; it may be stopped: try again, or stop it"
        ) from error
    except (OSError, EOFError) as error:
        if isinstance(error, ClusterError):
            raise
        raise ClusterLostError(f"no cluster answers at {path} ({error}); start a new one") from error
    if len(fds) != 1:
        for fd in fds:
            os.close(fd)
        raise ProtocolError(f"{actor}.{method} handed over {len(fds)} descriptors instead of one")
    os.set_inheritable(fds[0], False)
    return fds[0]


def _prove(raw: socket.socket, token: str) -> None:
    """Both ends prove the token, as in `channel`."""
    challenge = _exactly(raw, greeting.CHALLENGE)
    if not challenge.startswith(greeting.MAGIC):
        raise ProtocolError("what listens there is no jmars cluster")
    ours = greeting.nonce()
    raw.sendall(greeting.answer(token, "client", challenge[len(greeting.MAGIC) :]) + ours)
    if not greeting.verify(token, "server", ours, _exactly(raw, greeting.PROOF)):
        raise AuthenticationError("the cluster did not prove its token; connect by its registry file")


def _exactly(raw: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = raw.recv(size - len(found))
        if not part:
            raise EOFError("it hung up: the token does not match, or it is ending")
        found += part
    return found


def _read_answer(raw: socket.socket, fds: list[int]) -> None:
    """Read until the answer is there; broadcasts of the cluster are skipped."""
    decoder = Decoder()
    while True:
        data, found, _, _ = socket.recv_fds(raw, 65536, 4)
        fds += found
        if not data:
            raise EOFError("it hung up")
        for message in decoder.feed(data):
            if len(message) == 3 and message[0] == -1:
                _, ok, value = message
                if not ok:
                    raise ProtocolError(f"the cluster hands no descriptor over: {_said(value)}")
                return


def _said(value: Any) -> str:
    return f"{value[0]}: {value[1]}"
