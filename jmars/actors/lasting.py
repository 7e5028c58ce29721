"""LastingChannel: a dialogue of actors of two hosts that outlives connections.

`Delivery` numbers the messages, so that every message takes effect exactly once and in order although connections break
and are made again (tls_link.py). The conversation ends when it is given up: by this host, by the peer, or because the
peer is another incarnation. Until then messages to a peer that is away are kept, up to a limit.

A connection keeps the order of frames and loses only those under way when it ends. So a message is sent again on the
next connection, unless the peer has acknowledged it, and the peer drops a number that it has acted on.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from jmars.actors.dialogue import Dialogue, Mailbox
from jmars.actors.frames import pack_body, unpack
from jmars.actors.tls import HEAD, Identity
from jmars.errors import ClusterLostError, ProtocolError

Frame = tuple[int, int, bytes]  # number, 0 for none; number up to which all messages were acted on; message

ACK_SECONDS = 0.2  # for which an acknowledgement waits for a message to travel with
ACK_MESSAGES = 64  # after so many messages it does not wait
OVERHEAD = 100  # bytes of memory of a message that waits, beside its own


class Delivery:
    """An end of a conversation: messages that wait to be acknowledged, and the number of those acted on.

    Attributes
    ----------
    nbytes
        Bytes of messages without an acknowledgement.
    next_due
        When an acknowledgement is due, a `hello`; infinity when none is.

    Examples
    --------
    >>> host, scheduler = Delivery(), Delivery()
    >>> lost = host.send(b"finished")  # with its connection
    >>> hello, again = host.resume()
    >>> scheduler.receive(again, now=1.0)
    b'finished'
    >>> scheduler.receive(again, now=1.0)  # twice on the wire, once acted on
    >>> host.receive(scheduler.hello(), now=1.0), host.nbytes
    (None, 0)
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start anew with another peer; messages without an acknowledgement are lost."""
        self.nbytes, self.next_due = 0, math.inf
        self._sent: deque[bytes] = deque()  # without an acknowledgement
        self._before = 0  # number of messages before these
        self._heard = self._told = 0  # number of messages acted on, and how many the peer was told of

    def hello(self) -> Frame:
        """A frame without a message: an acknowledgement."""
        return self._frame(0, b"")

    def send(self, message: bytes) -> Frame:
        """The frame of a message."""
        self._sent.append(message)
        self.nbytes += len(message) + OVERHEAD
        return self._frame(self._before + len(self._sent), message)

    def receive(self, frame: Any, now: float) -> bytes | None:
        """The message to act on after a frame, if there is one.

        Raises
        ------
        ProtocolError
            If it is no frame of this protocol, or one is missing before it.
        """
        if type(frame) is not tuple or len(frame) != 3 or tuple(map(type, frame)) != (int, int, bytes):
            raise ProtocolError(f"{str(frame)[:80]!r} is no frame; the other end is no jmars of this version")
        number, acknowledged, message = cast(Frame, frame)
        while self._before < acknowledged and self._sent:
            self.nbytes -= len(self._sent.popleft()) + OVERHEAD
            self._before += 1
        if number > self._heard + 1:
            raise ProtocolError(f"message {number} follows message {self._heard}; the other end is broken")
        if number <= self._heard:
            return None
        self._heard = number
        soon = self._heard - self._told >= ACK_MESSAGES
        self.next_due = min(self.next_due, now if soon else now + ACK_SECONDS)
        return message

    def resume(self) -> list[Frame]:
        """First frames of a connection: an acknowledgement, and all messages without one."""
        return [self.hello(), *(self._frame(self._before + n, one) for n, one in enumerate(self._sent, 1))]

    def _frame(self, number: int, message: bytes) -> Frame:
        self._told, self.next_due = self._heard, math.inf
        return number, self._heard, message


log = logging.getLogger("jmars.actors")

BEAT_SECONDS = 0.5  # a connection carries a beat after so many seconds without a message
ROOM = 2**30  # bytes of messages that may wait to be acknowledged
# Frames beside those of Delivery: (BEAT, ""), (END, reason), and the first frame of a connection: (HELLO, session),
# which tells two processes with the same certificate apart.
BEAT, END, HELLO = 1, 2, 3
SESSION = 16  # bytes


def called(peer: Identity) -> str:
    """A host in sentences.

    Examples
    --------
    >>> called(Identity(0, 1)), called(Identity(3, 2))
    ('the head', 'host 3 (incarnation 2)')
    """
    return "the head" if peer.host == HEAD else f"host {peer.host} (incarnation {peer.incarnation})"


class Link(ABC):
    """A connection that carries frames of a LastingChannel.

    Attributes
    ----------
    identity
        The peer, as the certificate says.
    """

    identity: Identity

    @abstractmethod
    def send(self, frames: Sequence[Any]) -> None:
        """Send frames soon."""

    @abstractmethod
    def cut(self) -> None:
        """End the connection at once; messages under way may be lost."""

    @abstractmethod
    def hang_up(self) -> None:
        """End the connection after all frames are sent."""


class LastingChannel(Dialogue):
    """One end of the conversation of two hosts.

    Parameters
    ----------
    mailbox
        Actors that the peer reaches here.
    own, peer
        Both hosts; the peer's incarnation is 0 until it is known.
    on_down, on_end
        Called with channel and reason when no connection is there any more, and when the conversation has ended.
    room
        Bytes of messages that may wait to be acknowledged; beyond, the conversation is given up.
    beat
        Seconds between beats on a connection that carries nothing else.

    Attributes
    ----------
    last_heard
        When bytes of the peer last arrived, in seconds of the loop's clock (`time.monotonic`); at first, when this
        channel was made.
    hello
        The first frame on a connection, of the dialling end and then of the listening end.
    why
        Why the conversation has ended; "" before.
    ended
        Set when it has.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        own: Identity,
        peer: Identity,
        on_down: Callable[[LastingChannel, str], None] | None = None,
        on_end: Callable[[LastingChannel, str], None] | None = None,
        *,
        room: int = ROOM,
        beat: float = BEAT_SECONDS,
    ) -> None:
        super().__init__(mailbox)
        self.own, self.peer = own, peer
        self.on_down, self.on_end = on_down, on_end
        self.beat = beat
        self.why = ""
        self.ended = asyncio.Event()
        self.keeper: asyncio.Task[None] | None = None  # dials again
        self._loop = asyncio.get_running_loop()
        self.last_heard = self._loop.time()
        self.hello = (HELLO, os.urandom(SESSION))
        self._theirs = b""  # the peer's session
        self._delivery, self._room = Delivery(), room
        self._link: Link | None = None
        self._wake: asyncio.TimerHandle | None = None  # for acknowledgements
        self._beat: asyncio.TimerHandle | None = None
        self._last_sent = -math.inf

    def __repr__(self) -> str:
        state = f"ended: {self.why}" if self.closed else "up" if self.up else "down"
        return f"<LastingChannel to {called(self.peer)}, {state}>"

    # -- for callers
    @property
    def up(self) -> bool:
        """Whether a connection is there."""
        return self._link is not None

    def give_up(self, why: str) -> None:
        """End the conversation for good: calls that wait fail with ClusterLostError, messages under way are lost.

        The peer is told, if it can be reached; this incarnation of it cannot connect again.
        """
        self._end(why, tell=True)

    def close(self) -> None:
        """End the conversation."""
        self.give_up(f"{called(self.own)} closed the link")

    # -- for connections
    def refuses(self, link: Link, session: bytes) -> str:
        """Why a new connection cannot be used; "" where it can."""
        if self.closed:
            return self.why
        if link.identity.incarnation < self.peer.incarnation:
            return f"{called(self.peer)} has taken the place of {called(link.identity)}"
        if link.identity.incarnation == self.peer.incarnation and self._theirs not in (b"", session):
            return f"another process is {called(self.peer)}; two cannot have one certificate"
        return ""

    def attach(self, link: Link, session: bytes) -> None:
        """Use a new connection; an older connection is cut, and messages without receipt are sent again."""
        self.last_heard = self._loop.time()
        if link.identity != self.peer:
            self._meet(link.identity)
        self._theirs = session
        before, self._link = self._link, link
        if before is not None:
            before.cut()
        self._post(self._delivery.resume())
        if self._beat is None:
            self._beat = self._loop.call_later(self.beat, self._on_beat)

    def ended_by_peer(self, why: str) -> None:
        """The peer has ended the conversation."""
        self._end(f"{called(self.peer)} ended the link: {why[:500]}", tell=False)

    def detach(self, link: Link, why: str) -> None:
        """A connection has ended."""
        if self._link is link:
            self._link = None
            self._cancel_timers()
            if self.on_down is not None:
                self.on_down(self, why)

    def heard(self, link: Link, frame: Any) -> None:
        """Act on a frame; a peer that sends an unknown frame is given up."""
        if link is not self._link:
            return  # of a connection that was replaced: its frames come again
        try:
            self._take(frame)
        except ProtocolError as error:
            log.warning("%s is refused: %s", called(self.peer), error)
            self.give_up(str(error))

    # -- own
    def _take(self, frame: Any) -> None:
        if type(frame) is tuple and len(frame) == 2:
            self._take_beat(*frame)
            return
        message = self._delivery.receive(frame, self._loop.time())
        self._post([])
        if message is not None:
            self._receive(unpack(message))

    def _send(self, message: Any) -> None:
        if self.closed:
            return
        body = pack_body(message)
        waiting = self._delivery.nbytes
        if waiting and waiting + len(body) > self._room:
            self.give_up(
                f"{waiting} bytes of messages to {called(self.peer)} are not acknowledged; it is gone or stopped"
            )
            return
        self._post([self._delivery.send(body)])

    def _post(self, frames: list[Any]) -> None:
        """Send frames, or an acknowledgement where one is due; plan the next."""
        if self._link is None:
            return
        if not frames and self._delivery.next_due <= self._loop.time():
            frames = [self._delivery.hello()]
        if frames:
            self._last_sent = self._loop.time()
            self._link.send(frames)
        if self._wake is None and self._delivery.next_due < math.inf:
            self._wake = self._loop.call_at(self._delivery.next_due, self._on_due)

    def _on_due(self) -> None:
        self._wake = None
        self._post([])

    def _on_beat(self) -> None:
        """Send a beat after a long silence, and plan the next."""
        now = self._loop.time()
        if self._last_sent + self.beat <= now:
            self._post([(BEAT, "")])
        self._beat = self._loop.call_at(self._last_sent + self.beat, self._on_beat)

    def _take_beat(self, kind: Any, value: Any) -> None:
        if kind == END:
            self.ended_by_peer(str(value))
        elif kind != BEAT:
            raise ProtocolError(f"{str((kind, value))[:80]!r} is no frame of {called(self.peer)}")

    def _meet(self, peer: Identity) -> None:
        """The peer is there for the first time, or started again: calls to the one before are never answered."""
        before, self.peer = self.peer, peer
        if before.incarnation:
            self._delivery.begin()
            log.warning("%s is %s now", called(before), called(peer))
            self._fail_answers(
                ClusterLostError(f"{called(before)} started again and has forgotten this call; make it again")
            )

    def _cancel_timers(self) -> None:
        for timer in (self._wake, self._beat):
            if timer is not None:
                timer.cancel()
        self._wake = self._beat = None

    def _end(self, why: str, tell: bool) -> None:
        if self.closed:
            return
        self.closed, self.why = True, why
        self.ended.set()
        log.info("the link to %s has ended: %s", called(self.peer), why)
        self._cancel_timers()
        link, self._link = self._link, None
        if link is not None and tell:
            link.send([(END, why)])
        if link is not None:
            link.hang_up()
        self._fail_answers(ClusterLostError(self._why_closed()))
        self._delivery.begin()
        if self.on_end is not None:
            self.on_end(self, why)

    def _why_closed(self) -> str:
        return f"the link to {called(self.peer)} has ended: {self.why}; run again without it"
