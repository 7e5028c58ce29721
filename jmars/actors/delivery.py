"""Delivery: acts on messages exactly once and in order over a transport that loses, doubles and reorders frames.

`Delivery` is an end of a conversation, and pure: it takes messages, frames and the time, and returns frames to send and
messages to act on. The thin shell around `Delivery` (the link between hosts, the simulation of tests/sim) calls
`resume` after connecting, then `send`, `receive` and afterwards `due`, and wakes at `next_due`.

A frame is `(sender, to, number, acknowledged, message)`, plain values for msgpack. Messages are numbered from 1 for
a pair of incarnations; number 0 carries no message, only the sender and an acknowledgement. Unacknowledged messages
are sent again. A new end has a higher incarnation, ignores messages for the incarnation before, and the peer learns
of the lost messages. Source: RFC 9293, section 3.8 (sliding window).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from jmars.errors import ProtocolError

__all__ = ["Delivery", "Frame", "Received"]

Frame = tuple[int, int, int, int, Any]

WINDOW = 256  # messages on their way at most; the other end keeps as many that came too early
LIMIT = 100_000  # messages that may wait to be acknowledged before the other end counts as gone
TIMEOUT, LONGEST = 0.2, 5.0  # seconds until what is not acknowledged is sent again, doubled each time up to the longest
ACK_SECONDS = 0.02  # patience of an acknowledgement, a small part of TIMEOUT
BURST = 16  # messages sent again at a time, the oldest first


@dataclass(slots=True)
class Received:
    """Result of a frame."""

    messages: list[Any] = field(default_factory=list)  # to act on now, in the order in which they were sent
    is_new: bool = False  # the other end is heard for the first time, or is not the one it was
    undelivered: list[Any] = field(default_factory=list)  # not acknowledged by the one that it was: perhaps acted on


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
        patience: float = ACK_SECONDS,
    ) -> None:
        self.incarnation = incarnation
        self.peer = 0  # incarnation of the other end, 0 until it is heard
        self._window, self._limit, self._first_timeout, self._patience = window, limit, timeout, patience
        self._next = 1  # number of the next message
        self._sent: deque[tuple[int, Any]] = deque()  # on their way, by number
        self._waiting: deque[Any] = deque()  # beyond the window, or before the other end is heard
        self._timeout = timeout
        self._again = math.inf  # when what is on its way is sent again
        self._heard = 0  # number up to which everything was acted on
        self._told = 0  # number that the other end was last told of
        self._early: dict[int, Any] = {}  # by number: came before one that is missing
        self._acknowledge = math.inf  # when the other end must be told what was heard

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
            return found  # of one that is no more
        if sender > self.peer:
            found.is_new = True
            self._begin(sender, found)
        if to != self.incarnation:  # for nobody yet, or for the one that stood here before: it must hear who we are
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
            self._acknowledge = now  # the other end sends in vain, or something is missing: it should hear of it
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
