"""LastingChannel: a dialogue of actors of two hosts that outlives connections.

`Delivery` numbers the messages, so that every message takes effect exactly once and in order although connections break
and are made again (tls_link.py). The conversation ends when it is given up: by this host, by the peer, or because the
peer is another incarnation. Until then messages to a peer that is away are kept, up to a limit.

`Delivery` works over a transport that loses, doubles and reorders frames. `Delivery` is an end of a conversation, and
pure: it takes messages, frames and the time, and returns frames to send and messages to act on. The thin shell around
`Delivery` (the link between hosts, the simulation of tests/sim) calls `resume` after connecting, then `send`, `receive`
and afterwards `due`, and wakes at `next_due`.

A frame is `(sender, to, number, acknowledged, message)`, plain values for msgpack. Messages are numbered from 1 for a
pair of incarnations; number 0 carries no message, only the sender and an acknowledgement. Unacknowledged messages are
sent again. A new end has a higher incarnation, ignores messages for the incarnation before, and the peer learns of the
lost messages.
Source: RFC 9293, section 3.8 (sliding window).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jmars.actors.dialogue import Dialogue, Mailbox
from jmars.actors.frames import pack_body, unpack
from jmars.actors.tls import HEAD, Identity
from jmars.errors import ClusterLostError, ProtocolError

Frame = tuple[int, int, int, int, Any]

WINDOW = 256  # messages on their way at most; the other end keeps as many that came too early
LIMIT = 100_000  # messages that may wait to be acknowledged before the other end counts as gone
TIMEOUT, LONGEST = 0.2, 5.0  # seconds until an unacknowledged message is sent again, doubled up to the longest
ACK_PATIENCE = 0.02  # patience of an acknowledgement, a small part of TIMEOUT
BURST = 16  # messages sent again at a time, the oldest first


@dataclass(slots=True)
class Received:
    """Result of a frame."""

    messages: list[Any] = field(default_factory=list)  # messages to act on now, in sending order
    is_new: bool = False  # first frame of the other end, or of its new incarnation
    undelivered: list[Any] = field(default_factory=list)  # not acknowledged by the earlier incarnation; may be acted on


class Delivery:
    """An end of a conversation.

    Parameters
    ----------
    incarnation
        1 or more, higher than that of every end that stood here before.
    window, limit
        How many messages may be on their way, and how many may wait in all.
    timeout
        Seconds after which what is not acknowledged is sent again at first; infinity where frames are lost only with
        their connection, so that `resume` sends them again.
    patience
        Seconds for which an acknowledgement waits for a message to travel with.

    Examples
    --------
    >>> host, scheduler = Delivery(1), Delivery(1)
    >>> host.send("finished", now=0.0)  # nobody is there yet: it waits
    []
    >>> [hello] = host.resume(now=0.0)
    >>> scheduler.receive(hello, now=0.0).is_new
    True
    >>> host.receive(scheduler.hello(), now=0.0).messages
    []
    >>> lost = host.due(now=0.0)
    >>> [again] = host.due(now=1.0)
    >>> scheduler.receive(again, now=1.0).messages
    ['finished']
    >>> scheduler.receive(again, now=1.0).messages  # twice on the wire, once acted on
    []
    """

    def __init__(
        self,
        incarnation: int,
        window: int = WINDOW,
        limit: int = LIMIT,
        timeout: float = TIMEOUT,
        patience: float = ACK_PATIENCE,
    ) -> None:
        self.incarnation = incarnation
        self.peer = 0  # incarnation of the other end, 0 until its first frame
        self._window, self._limit, self._first_timeout, self._patience = window, limit, timeout, patience
        self._next = 1  # number of the next message
        self._sent: deque[tuple[int, Any]] = deque()  # on their way, by number
        self._waiting: deque[Any] = deque()  # beyond the window, or before the other end is heard
        self._timeout = timeout
        self._again = math.inf  # time of the next retransmission
        self._heard = 0  # number up to which all messages were acted on
        self._told = 0  # number that the other end was last told of
        self._early: dict[int, Any] = {}  # number: message that came before a missing message
        self._acknowledge = math.inf  # deadline of the next acknowledgement

    @property
    def unacknowledged(self) -> int:
        """Messages without an acknowledgement."""
        return len(self._sent) + len(self._waiting)

    @property
    def next_due(self) -> float:
        """Next time when `due` has a frame to send; infinity when never."""
        return min(self._again, self._acknowledge)

    def hello(self) -> Frame:
        """A frame without a message: incarnation and acknowledgement."""
        return self._frame(0, None)

    def send(self, message: Any, now: float) -> list[Frame]:
        """Take a message; returns frames to send now, none while the window is full.

        Raises
        ------
        ProtocolError
            If too many messages wait: the other end hears nothing, or acts on nothing.
        """
        if self.unacknowledged >= self._limit:
            raise ProtocolError(
                f"the other end has not acknowledged {self._limit} messages; it is gone or stopped: end it and go on"
            )
        self._waiting.append(message)
        return self._flush(now)

    def receive(self, frame: Frame, now: float) -> Received:
        """Messages to act on after a frame; then ask `due` for frames to send.

        Raises
        ------
        ProtocolError
            If it is no frame of this protocol.
        """
        sender, to, number, acknowledged, message = _checked(frame)
        found = Received()
        if sender < self.peer:
            return found  # frame of an earlier incarnation of the other end
        if sender > self.peer:
            found.is_new = True
            self._begin(sender, found)
        if to != self.incarnation:  # frame for an earlier incarnation, or for none yet: acknowledge with ours
            self._acknowledge = now
            return found
        self._acknowledged(acknowledged, now)
        if number:
            self._take(number, message, found.messages, now)
        return found

    def due(self, now: float) -> list[Frame]:
        """Frames to send at this time: messages that the window has room for, repetitions, acknowledgements."""
        frames = self._flush(now)
        if now >= self._again:
            self._timeout = min(2 * self._timeout, LONGEST)
            self._again = now + self._timeout
            frames = self._frames(BURST) or [self.hello()]
            self._acknowledge = math.inf
        if now >= self._acknowledge:
            frames.append(self.hello())
            self._acknowledge = math.inf
        return frames

    def resume(self, now: float) -> list[Frame]:
        """First frames of a connection: incarnation, and all unacknowledged messages."""
        self._timeout = self._first_timeout
        self._again = now + self._timeout if self._sent or not self.peer else math.inf
        return [self.hello(), *self._frames(len(self._sent)), *self._flush(now)]

    # -- own
    def _begin(self, peer: int, found: Received) -> None:
        """Start with a new incarnation of the peer."""
        if self.peer:
            found.undelivered = [message for _, message in self._sent] + list(self._waiting)
            self._waiting.clear()
        self.peer = peer
        self._sent.clear()
        self._early.clear()
        self._next, self._heard, self._told = 1, 0, 0
        self._timeout, self._again = self._first_timeout, math.inf

    def _acknowledged(self, number: int, now: float) -> None:
        sent = self._sent
        if not sent or number < sent[0][0]:
            return
        while sent and sent[0][0] <= number:
            sent.popleft()
        self._timeout = self._first_timeout
        self._again = now + self._timeout if sent else math.inf

    def _take(self, number: int, message: Any, messages: list[Any], now: float) -> None:
        if number != self._heard + 1:
            if self._heard < number <= self._heard + self._window:
                self._early[number] = message
            self._acknowledge = now  # duplicate or gap: acknowledge at once
            return
        messages.append(message)
        self._heard = number
        while self._heard + 1 in self._early:
            self._heard += 1
            messages.append(self._early.pop(self._heard))
        soon = self._heard - self._told > self._window // 4  # the other end must not wait for room
        self._acknowledge = min(self._acknowledge, now if soon else now + self._patience)

    def _flush(self, now: float) -> list[Frame]:
        """Send waiting messages, as far as the window reaches."""
        if not self._waiting or not self.peer:
            return []
        frames = []
        while self._waiting and len(self._sent) < self._window:
            message = self._waiting.popleft()
            self._sent.append((self._next, message))
            frames.append(self._frame(self._next, message))
            self._next += 1
        if frames:
            self._acknowledge = math.inf
            if self._again == math.inf:
                self._again = now + self._timeout
        return frames

    def _frames(self, most: int) -> list[Frame]:
        return [self._frame(number, message) for (number, message), _ in zip(self._sent, range(most))]

    def _frame(self, number: int, message: Any) -> Frame:
        self._told = self._heard
        return (self.incarnation, self.peer, number, self._heard, message)


def _checked(frame: Any) -> Frame:
    """The frame, if it is valid."""
    if isinstance(frame, (tuple, list)) and len(frame) == 5:
        sender, to, number, acknowledged, message = frame
        if all(type(one) is int and one >= 0 for one in (sender, to, number, acknowledged)) and sender > 0:
            return sender, to, number, acknowledged, message
    raise ProtocolError(f"{str(frame)[:80]!r} is no frame of a delivery; the other end is no jmars of this version")


log = logging.getLogger("jmars.actors")

BEAT_SECONDS = 0.5  # a connection carries a beat after so many seconds without a message
ACK_SECONDS = 0.2  # for an acknowledgement to wait for a message; messages are sent again only on a new connection
ROOM = 2**30  # bytes of messages that may wait to be acknowledged
# Frames beside those of Delivery: (PING, stamp), (PONG, stamp of the ping), (END, reason), and the first frame of a
# connection: (HELLO, session), which tells two processes with the same certificate apart.
PING, PONG, END, HELLO = 1, 2, 3, 4
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
    on_up, on_down, on_end
        Called with this channel when a connection is there (again, where a new one takes the place of another), with
        channel and reason when none is there any more, and with channel and reason when the conversation has ended.
    limit, room
        Messages, and bytes of messages, that may wait to be acknowledged; beyond, the conversation is given up.
    beat
        Seconds between beats on a connection that carries nothing else.

    Attributes
    ----------
    last_heard
        When bytes of the peer last arrived, in seconds of the loop's clock (`time.monotonic`); at first, when this
        channel was made.
    round_trip
        Seconds of the last beat to the peer and back; None before the first.
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
        on_up: Callable[[LastingChannel], None] | None = None,
        on_down: Callable[[LastingChannel, str], None] | None = None,
        on_end: Callable[[LastingChannel, str], None] | None = None,
        *,
        limit: int = LIMIT,
        room: int = ROOM,
        beat: float = BEAT_SECONDS,
    ) -> None:
        super().__init__(mailbox)
        self.own, self.peer = own, peer
        self.on_up, self.on_down, self.on_end = on_up, on_down, on_end
        self.beat = beat
        self.round_trip: float | None = None
        self.why = ""
        self.ended = asyncio.Event()
        self.keeper: asyncio.Task[None] | None = None  # dials again
        self._loop = asyncio.get_running_loop()
        self.last_heard = self._loop.time()
        self.hello = (HELLO, os.urandom(SESSION))
        self._theirs = b""  # the peer's session
        self._delivery = Delivery(own.incarnation, limit=limit, timeout=math.inf, patience=ACK_SECONDS)
        self._sizes: deque[int] = deque()  # bytes of messages without an acknowledgement
        self._size, self._room = 0, room
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

    @property
    def unacknowledged(self) -> int:
        """Messages that the peer may not have acted on."""
        return self._delivery.unacknowledged

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
        if link.identity.incarnation == self._delivery.peer and session != self._theirs:
            return f"another process is {called(self.peer)}; two cannot have one certificate"
        return ""

    def attach(self, link: Link, session: bytes) -> None:
        """Use a new connection; an older connection is cut, and messages without receipt are sent again."""
        self.last_heard = now = self._loop.time()
        if link.identity.incarnation != self._delivery.peer:
            self._meet(link.identity, now)
        self._theirs = session
        before, self._link = self._link, link
        if before is not None:
            before.cut()
        self._post(self._delivery.resume(now))
        if self._beat is None:
            self._beat = self._loop.call_later(self.beat, self._on_beat)
        if self.on_up is not None:
            self.on_up(self)

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
        if type(frame) is not tuple or not frame or frame[0] != self.peer.incarnation:
            raise ProtocolError(f"{str(frame)[:80]!r} is no frame of {called(self.peer)}")
        now = self._loop.time()
        received = self._delivery.receive(frame, now)
        self._forget_acknowledged()
        self._post(self._delivery.due(now))
        for body in received.messages:
            if type(body) is not bytes:
                raise ProtocolError(f"a message of {called(self.peer)} is not bytes")
            self._receive(unpack(body))

    def _send(self, message: Any) -> None:
        if self.closed:
            return
        body = pack_body(message)
        if self._size + len(body) > self._room and self._sizes:
            self.give_up(
                f"{self._size} bytes of messages to {called(self.peer)} are not acknowledged; it is gone or stopped"
            )
            return
        try:
            frames = self._delivery.send(body, self._loop.time())
        except ProtocolError as error:
            self.give_up(str(error))
            return
        self._sizes.append(len(body))
        self._size += len(body)
        self._post(frames)

    def _post(self, frames: list[Frame]) -> None:
        if self._link is None:
            return
        if frames:
            self._last_sent = self._loop.time()
            self._link.send(frames)
        if self._wake is None and self._delivery.next_due < math.inf:
            self._wake = self._loop.call_at(self._delivery.next_due, self._on_due)

    def _on_due(self) -> None:
        self._wake = None
        self._post(self._delivery.due(self._loop.time()))

    def _on_beat(self) -> None:
        """Send a beat after a long silence, and plan the next."""
        now = self._loop.time()
        due = self._last_sent + self.beat
        is_due = due <= now and self._link is not None
        if is_due:
            self._last_sent, due = now, now + self.beat
        self._beat = self._loop.call_at(due, self._on_beat)
        if is_due and self._link is not None:
            self._link.send([(PING, now)])

    def _take_beat(self, kind: Any, value: Any) -> None:
        assert self._link is not None
        if kind == PING:
            self._link.send([(PONG, value)])
        elif kind == PONG and type(value) is float:
            self.round_trip = max(0.0, self._loop.time() - value)
        elif kind == END:
            self.ended_by_peer(str(value))
        else:
            raise ProtocolError(f"{str((kind, value))[:80]!r} is no frame of {called(self.peer)}")

    def _meet(self, peer: Identity, now: float) -> None:
        """The peer is there for the first time, or started again: calls to the one before are never answered."""
        before, self.peer = self.peer, peer
        self._delivery.receive((peer.incarnation, 0, 0, 0, None), now)  # its hello, told by its certificate
        self._forget_acknowledged()
        if before.incarnation not in (0, peer.incarnation):
            log.warning("%s is %s now", called(before), called(peer))
            self._fail_answers(
                ClusterLostError(f"{called(before)} started again and has forgotten this call; make it again")
            )

    def _forget_acknowledged(self) -> None:
        while len(self._sizes) > self._delivery.unacknowledged:
            self._size -= self._sizes.popleft()

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
        self._sizes.clear()
        if self.on_end is not None:
            self.on_end(self, why)

    def _why_closed(self) -> str:
        return f"the link to {called(self.peer)} has ended: {self.why}; run again without it"
