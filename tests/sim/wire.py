"""Two ends that ask and tell over a wire that is late now and then, as a local socket between busy processes.

`Peer` stands for `actors.ActorChannel`. What a dead end sent may still arrive; what was sent to it does not
reach the one that stands in its place.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

from jmars.actors import Mailbox
from jmars.actors.dialogue import describe, revive
from jmars.actors.frames import pack, unpack
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
        self._flying: dict[str, deque[bytes]] = {}

    def post(self, to: str, frame: tuple[int, int, Any]) -> None:
        """A frame leaves for an address, where frames arrive in order."""
        random = self.loop.random
        late = LATE if random.random() < self.faults.wire_late else LATENCY
        self._flying.setdefault(to, deque()).append(pack(frame)[4:])
        self.loop.call_later(random.expovariate(1 / late), self._arrives, to)

    def _arrives(self, to: str) -> None:
        frame = self._flying[to].popleft()
        if to in self.ends:
            self.ends[to].heard(unpack(frame))


class Peer:
    """One end; `met` is called when the other end is a new one."""

    def __init__(
        self, wire: Wire, name: str, other: str, mailbox: Mailbox, incarnation: int, met: Callable[[], None]
    ) -> None:
        self.closed = False
        self._wire, self._other, self._mailbox, self._met = wire, other, mailbox, met
        self._incarnation, self._theirs = incarnation, 0  # 0 until the first frame
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        wire.ends[name] = self
        self._send(None)

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

    def heard(self, frame: Any) -> None:
        """A frame arrives."""
        sender, to, message = frame
        if self.closed or sender < self._theirs:
            return
        if sender > self._theirs:
            self._theirs = sender
            self._met()
        if message is not None and to in (0, self._incarnation):
            self._act(message)

    def _send(self, message: Any) -> None:
        if not self.closed:
            self._wire.post(self._other, (self._incarnation, self._theirs, message))

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
