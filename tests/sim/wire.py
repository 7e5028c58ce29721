"""Two ends that ask and tell over a wire that loses, doubles and reorders frames.

`Peer` stands for `actors.ActorChannel`; between two of them `Delivery` makes each message arrive once and in
order. Frames of a dead end may still arrive at the one that stands in its place.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from typing import Any

from jmars.actors import Mailbox
from jmars.actors.dialogue import describe, revive
from jmars.actors.frames import pack, unpack
from jmars.actors.lasting import Delivery, Received
from jmars.errors import ClusterLostError
from tests.sim.faults import Faults
from tests.sim.loop import VirtualLoop

__all__ = ["Peer", "Wire"]

LATENCY, LATE = 0.001, 0.3  # seconds that a frame takes, on average, and now and then


class Wire:
    """The network: an address for each of two ends."""

    def __init__(self, loop: VirtualLoop, faults: Faults) -> None:
        self.loop, self.faults = loop, faults
        self.ends: dict[str, Peer] = {}
        self.lost = 0

    def post(self, to: str, frames: list[Any]) -> None:
        """Frames leave for an address."""
        random = self.loop.random
        for frame in frames:
            copies = 1
            if random.random() < self.faults.wire_errs:
                copies = random.choice((0, 2))
                self.lost += not copies
            for _ in range(copies):
                late = LATE if random.random() < self.faults.wire_errs else LATENCY
                self.loop.call_later(random.expovariate(1 / late), self._arrives, to, pack(frame)[4:])

    def _arrives(self, to: str, frame: bytes) -> None:
        if to in self.ends:
            self.ends[to].heard(unpack(frame))


class Peer:
    """One end; `met` hears when the other end is a new one."""

    def __init__(
        self, wire: Wire, name: str, other: str, mailbox: Mailbox, incarnation: int, met: Callable[[Received], None]
    ) -> None:
        self.closed = False
        self._wire, self._other, self._mailbox, self._met = wire, other, mailbox, met
        self._delivery = Delivery(incarnation)
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        wire.ends[name] = self
        self._post(self._delivery.resume(wire.loop.now))

    async def ask(self, actor: str, method: str, *args: Any) -> Any:
        """What `actor.method(*args)` returns at the other end."""
        self._number += 1
        number = self._number
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._send((number, actor, method, args))
        return await answer

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call `actor.method(*args)` at the other end."""
        self._send((0, actor, method, args))

    def forget(self) -> None:
        """The other end is gone: nobody will answer."""
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(ClusterLostError("the other end went away"))

    def die(self) -> None:
        """This end is gone."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()

    def heard(self, frame: Any) -> None:
        """A frame arrives."""
        if self.closed:
            return
        received = self._delivery.receive(frame, self._wire.loop.now)
        if received.is_new:
            self._met(received)
        for message in received.messages:
            self._act(message)
        self._due()

    def _send(self, message: Any) -> None:
        if not self.closed:
            self._post(self._delivery.send(unpack(pack(message)[4:]), self._wire.loop.now))

    def _post(self, frames: list[Any]) -> None:
        self._wire.post(self._other, frames)
        if self._timer is not None:
            self._timer.cancel()
        if self._delivery.next_due < math.inf:
            self._timer = self._wire.loop.call_at(self._delivery.next_due, self._due)

    def _due(self) -> None:
        if not self.closed:
            self._post(self._delivery.due(self._wire.loop.now))

    def _act(self, message: Any) -> None:
        if len(message) == 3:
            number, ok, value = message
            answer = self._answers.pop(-number, None)
            if answer is not None and not answer.done():
                answer.set_result(value) if ok else answer.set_exception(revive(value))
            return
        number, actor, method, args = message
        try:
            value = self._mailbox.find(actor, method)(*args)
        except Exception as error:
            self._fail(number, error)
            return
        if inspect.isawaitable(value):
            task = asyncio.ensure_future(self._finish(number, value))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        elif number:
            self._send((-number, True, value))

    async def _finish(self, number: int, value: Any) -> None:
        try:
            found = await value
        except Exception as error:
            self._fail(number, error)
        else:
            self._send((-number, True, found))

    def _fail(self, number: int, error: Exception) -> None:
        if number:
            self._send((-number, False, describe(error)))
        else:  # nobody asked: it would break the process's promises
            what = {"message": "what the other end said could not be acted on", "exception": error}
            asyncio.get_running_loop().call_exception_handler(what)
