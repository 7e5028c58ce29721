"""ActorChannel: an authenticated connection that asks and tells actors of the peer, and serves own actors.

A message is `(number, actor, method, args)`; number 0 wants no answer. An answer is `(-number, ok, value)`. An actor is
any object whose class lists remote methods (mailbox.py). A message takes 4 µs, against 60 in xoscar.
Source: docs/explanation/seeds.md, "Architecture" (actors).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import pickle
import socket
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jmars import errors
from jmars.actors import auth
from jmars.actors.descriptors import Descriptor, hand_over
from jmars.actors.frames import Decoder, pack
from jmars.actors.mailbox import Mailbox
from jmars.errors import AuthenticationError, ClusterLostError, ProtocolError, text_of

__all__ = ["ActorChannel", "connect", "serve"]

log = logging.getLogger("jmars.actors")
PROOF_SECONDS = 0.9  # a client that proves nothing for so long is cut off
ANSWER_SECONDS = 30.0  # a cluster that is busy compiling may answer late


class ActorChannel(asyncio.Protocol):
    """An end of a connection. `server` ends check the peer's user; both ends prove the token."""

    def __init__(
        self, mailbox: Mailbox, token: str, server: bool, on_close: Callable[[ActorChannel], None] | None = None
    ) -> None:
        self.mailbox = mailbox
        self.closed = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._token, self._server, self._on_close = token, server, on_close
        self._transport: asyncio.Transport | None = None
        self._hello = bytearray()
        self._nonce = auth.nonce()
        self._decoder = Decoder()
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._starting = False  # whether a task has not taken its first step
        self._arrived: deque[tuple[int, str, str, Sequence[Any]]] = deque()  # messages to act on after that step
        self._deadline: asyncio.TimerHandle | None = None

    # -- what callers use
    @property
    def waiting(self) -> int:
        """Answers that are waited for."""
        return len(self._answers)

    async def ask(self, actor: str, method: str, *args: Any) -> Any:
        """The value that `actor.method(*args)` returns at the peer; raises its exception."""
        if self.closed:
            raise ClusterLostError("the connection to the cluster is closed; start a new cluster")
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        self._send((self._number, actor, method, args))
        return await answer

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call `actor.method(*args)` at the other end without waiting; lost when the connection is."""
        if not self.closed:
            self._send((0, actor, method, args))

    def tell_later(self, seconds: float, actor: str, method: str, *args: Any) -> asyncio.TimerHandle:
        """`tell` after a delay; cancel the returned handle to tell nothing. Source: Mars `actors/core.py`, `_delay`."""
        return asyncio.get_running_loop().call_later(seconds, self.tell, actor, method, *args)

    def close(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.close()

    # -- asyncio's callbacks
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the peer's user; a server sends the challenge."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        patience = PROOF_SECONDS if self._server else ANSWER_SECONDS
        self._deadline = asyncio.get_running_loop().call_later(
            patience, self._refuse, f"no proof of the token within {patience} s"
        )
        try:
            auth.check_peer(transport.get_extra_info("socket"))
        except AuthenticationError as error:
            self._refuse(str(error))
            return
        if self._server:
            transport.write(auth.MAGIC + self._nonce)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived: the handshake's, then messages."""
        try:
            if not self.ready.done():
                data = self._shake_hands(data)
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
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(gone)
                answer.exception()
        self._answers.clear()
        if self._on_close:
            self._on_close(self)

    # -- handshake
    def _shake_hands(self, data: bytes) -> bytes:
        """Take the peer's part of the handshake; returns the bytes behind the handshake."""
        hello = self._hello
        hello += data
        size = auth.PROOF + auth.NONCE if self._server else (auth.CHALLENGE if not self._challenged else auth.PROOF)
        if len(hello) < size:
            return b""
        part, rest = bytes(hello[:size]), bytes(hello[size:])
        hello.clear()
        assert self._transport is not None
        if self._server:
            proof, theirs = part[: auth.PROOF], part[auth.PROOF :]
            if not auth.verify(self._token, "client", self._nonce, proof):
                raise ProtocolError("a client did not prove the cluster's token")
            self._transport.write(auth.answer(self._token, "server", theirs))
        elif not self._challenged:
            if not part.startswith(auth.MAGIC):
                raise ProtocolError("what listens there is no jmars cluster")
            self._transport.write(auth.answer(self._token, "client", part[len(auth.MAGIC) :]) + self._nonce)
            self._challenged = True
            return self._shake_hands(rest) if rest else b""
        elif not auth.verify(self._token, "server", self._nonce, part):
            raise ProtocolError("the cluster did not prove its token")
        if self._deadline:
            self._deadline.cancel()
        self.ready.set_result(None)
        return rest

    _challenged = False

    def _refuse(self, why: str) -> None:
        log.warning("connection refused: %s", why)
        if not self.ready.done():
            self.ready.set_exception(AuthenticationError(f"{why}; the token in the cluster's registry file must match"))
            self.ready.exception()
        if self._transport is not None:
            self._transport.abort()

    # -- messages
    def _send(self, message: Any) -> None:
        assert self._transport is not None
        self._transport.write(pack(message))

    def _receive(self, message: Any) -> None:
        try:
            if len(message) == 3:
                number, ok, value = message
                answer = self._answers.pop(-number, None)
                if answer is not None and not answer.done():
                    answer.set_result(value) if ok else answer.set_exception(_revive(value))
                return
            number, actor, method, args = message
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"a message has another form than ours: {error}") from error
        self._arrived.append((number, actor, method, args))
        if not self._starting:
            self._act_on_arrived()

    def _act_on_arrived(self) -> None:
        """Call methods in the order of their messages: a coroutine takes its first step before later calls."""
        self._starting = False
        while self._arrived and not self._starting:
            self._act(*self._arrived.popleft())

    def _act(self, number: int, actor: str, method: str, args: Sequence[Any]) -> None:
        """Call the method that a message names; a coroutine runs as a task."""
        try:
            value = self.mailbox.find(actor, method)(*args)
        except Exception as error:  # every failure of an actor travels to who asked
            self._fail(number, actor, method, error)
            return
        if inspect.isawaitable(value):
            task = asyncio.ensure_future(self._finish(number, actor, method, value))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            self._starting = True
            asyncio.get_running_loop().call_soon(self._act_on_arrived)  # after the task's first step
        elif number:
            self._answer(number, actor, method, value)

    async def _finish(self, number: int, actor: str, method: str, value: Any) -> None:
        try:
            result = await value
        except Exception as error:  # every failure of an actor travels to who asked
            self._fail(number, actor, method, error)
            return
        if number and not self.closed:
            self._answer(number, actor, method, result)

    def _answer(self, number: int, actor: str, method: str, value: Any) -> None:
        try:
            if isinstance(value, Descriptor):
                self._hand_over(number, value)
            else:
                self._send((-number, True, value))
        except (ProtocolError, TypeError, ValueError, OverflowError) as error:  # it cannot be packed
            self._fail(number, actor, method, error)

    def _hand_over(self, number: int, value: Descriptor) -> None:
        assert self._transport is not None
        if self._transport.get_write_buffer_size():
            raise ProtocolError("a descriptor is handed over on a connection of its own; ask for it first there")
        hand_over(self._transport.get_extra_info("socket").fileno(), pack((-number, True, None)), value.fd)

    def _fail(self, number: int, actor: str, method: str, error: Exception) -> None:
        """Send an error to the caller; without a caller, an error that is not of jmars goes to the loop's exception
        handler.
        """
        if number:
            if not self.closed:
                self._send((-number, False, _describe(error)))
        elif isinstance(error, errors.JmarsError):
            log.warning("%s.%s failed: %s", actor, method, error)
        else:
            what = {"message": f"{actor}.{method} failed", "exception": error, "channel": self}
            asyncio.get_running_loop().call_exception_handler(what)


def _describe(error: Exception) -> tuple[str, str, bytes]:
    """An exception as (class name, text, pickle); the pickle is read only behind authentication."""
    try:
        blob = pickle.dumps(error)
        pickle.loads(blob)  # an exception that cannot come back travels as its name and text
    except Exception:  # whatever a foreign exception's pickling raises
        blob = b""
    return type(error).__name__, text_of(error), blob


def _revive(value: tuple[str, str, bytes]) -> Exception:
    name, text, blob = value
    if blob:
        try:
            error = pickle.loads(blob)
            if isinstance(error, Exception):
                return error
        except Exception:  # its class is unknown here: fall through to the name
            log.debug("exception %s cannot be unpickled here", name)
    known = getattr(errors, name, errors.ClusterError)
    return known(text) if known is not errors.ClusterError else errors.ClusterError(f"{name}: {text}")


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
        channel = ActorChannel(mailbox if isinstance(mailbox, Mailbox) else Mailbox(), token, True, on_close)
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
            lambda: ActorChannel(mailbox or Mailbox(), token, False, on_close), str(path)
        )
    except OSError as error:
        raise ClusterLostError(f"no cluster answers at {path} ({error}); start a new one") from error
    try:
        await channel.ready
    except BaseException:
        channel.close()
        raise
    return channel
