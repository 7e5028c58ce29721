"""Child processes that are none: executors and a mover that live in the loop and speak the real ones' protocol.

`SimChildren` stands where `worker.links.Children` does. What a child is sent and says is framed by the real `ChildLink`
and comes late, in order on each link. An executor runs the real kernels on the real arena; how long that takes is
drawn. It reads its inputs once more at the end: they must be what they were.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any

from jmars.actors.frames import Decoder, pack
from jmars.processes.links import ChildLink
from jmars.processes.vitals import Vital
from tests.sim.faults import Faults
from tests.sim.loop import VirtualLoop

__all__ = ["Child", "SimChildren"]

LATENCY = 0.0005  # seconds that a message takes, on average
LATE = 1.0  # of a late message
FIRST_PID = 10_000_000  # above what any system gives


class _Transport(asyncio.Transport):
    """The control process's end of a child's socket."""

    def __init__(self, child: Child) -> None:
        super().__init__()
        self._child = child

    def write(self, data: Any) -> None:
        self._child.later(self._child.heard, bytes(data))

    def close(self) -> None:
        self._child.later(self._child.hung_up)

    abort = close

    def is_closing(self) -> bool:
        return not self._child.alive


class Tokens:
    """What `processes.batch_semaphore.BatchSemaphore` is, without a file."""

    def __init__(self) -> None:
        self._count = 0

    def post(self) -> None:
        """One batch more may be begun."""
        self._count += 1

    def acquire(self) -> bool:
        """Whether there was a token."""
        if not self._count:
            return False
        self._count -= 1
        return True

    def close(self) -> None:
        """There is nothing to let go of."""


class Child:
    """One child: a task that serves messages, and two streams that keep their order."""

    def __init__(self, children: SimChildren, link: ChildLink, pid: int, main: Callable[[Child], Awaitable[None]]):
        self.children, self.link, self.pid, self.main = children, link, pid, main
        self.alive = True
        self.loop = children.loop
        self.random: Random = children.loop.random
        self._decoder = Decoder()
        self._inbox: deque[Any] = deque()
        self._wakes: asyncio.Future[None] | None = None
        self._flying: dict[bool, deque[Any]] = {True: deque(), False: deque()}  # by direction, in order
        self._arrives = {True: 0.0, False: 0.0}  # when the last of them arrives
        self._task: asyncio.Task[None] | None = None
        self.vital = Vital.RUNS
        self._goes_on: asyncio.Future[None] | None = None
        self._dies_as = ""  # as soon as the freezer lets it
        self.gone: Callable[[], None] | None = None  # called when it is gone, if it was given up before

    def start(self) -> None:
        """The zygote has forked it."""
        self.link.pid = self.pid
        for _ in range(self.link.waiting_batches()):
            self.link.post()
        self.link.connection_made(_Transport(self))
        if self.alive:
            self._task = self.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.main(self)
        except Exception as error:
            self.loop.failures.append({"message": f"the simulated {self.link.name} is wrong", "exception": error})

    # -- what the child does
    async def read(self) -> Any:
        """The next message for it."""
        while not self._inbox:
            self._wakes = self.loop.create_future()
            await self._wakes
        await self._runs()
        return self._inbox.popleft()

    @property
    def is_idle(self) -> bool:
        """Whether no order has come."""
        return not self._inbox

    def say(self, message: Any) -> None:
        """Tell the control process."""
        self.later(self._told, pack(message), out=True)

    async def take(self, seconds: float) -> None:
        """Be busy for about so long."""
        await asyncio.sleep(self.random.expovariate(1 / seconds))
        await self._runs()

    async def _runs(self) -> None:
        """Whoever is stopped goes on later."""
        while self.vital is not Vital.RUNS:
            if self._goes_on is None or self._goes_on.done():
                self._goes_on = self.loop.create_future()
            await self._goes_on

    # -- what happens to it
    def stop(self, vital: Vital, seconds: float) -> None:
        """A signal or a freezer stops it for so long."""
        if self.alive and self.vital is Vital.RUNS:
            self.children.trace(f"{self.link.name} ({self.pid}) is {vital.value} for {seconds:.1f} s")
            self.vital = vital
            self.loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self.vital = Vital.RUNS
        if self._dies_as:
            self.die(self._dies_as)
        elif self._goes_on is not None and not self._goes_on.done():
            self._goes_on.set_result(None)

    def die(self, why: str) -> None:
        """It ends at once; that is known a little later, after all that it said. What is frozen dies when it thaws."""
        if self.alive and self.vital is Vital.FROZEN:
            self._dies_as = why
        elif self.alive:
            self.alive = False
            self.children.trace(f"{self.link.name} ({self.pid}) ends: {why}")
            if self._task is not None:
                self._task.cancel()
            self.later(self._ended, why, out=True)

    def heard(self, data: bytes) -> None:
        if self.alive:
            self._inbox.extend(self._decoder.feed(data))
            if self._wakes is not None and not self._wakes.done():
                self._wakes.set_result(None)

    def hung_up(self) -> None:
        """The control process has closed its end: the child ends itself, as soon as it runs."""
        if self.vital is Vital.RUNS:
            self.die("hung up")
        else:
            self._dies_as = self._dies_as or "hung up"

    def later(self, call: Callable[..., None], *args: Any, out: bool = False) -> None:
        """In order with all that goes the same way."""
        late = self.children.faults.late
        mean = LATE if late and self.random.random() < late else LATENCY
        self._arrives[out] = max(self._arrives[out], self.loop.now + self.random.expovariate(1 / mean))
        self._flying[out].append((call, args))
        self.loop.call_at(self._arrives[out], self._arrived, out)

    def _arrived(self, out: bool) -> None:
        call, args = self._flying[out].popleft()
        call(*args)

    def _told(self, data: bytes) -> None:
        self.link.data_received(data)

    def _ended(self, why: str) -> None:
        self.children.living.pop(self.pid, None)
        if self.gone is not None:
            self.gone()
            return
        self.link.how = self.link.how or "signal"
        self.link.ended(why)


class SimChildren:
    """The child processes of a simulated host.

    Parameters
    ----------
    mains
        What a child of each role does, called with the child and the arguments that it was started with.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        faults: Faults,
        mains: dict[str, Callable[..., Awaitable[None]]],
        trace: Callable[[str], None],
    ) -> None:
        self.loop, self.faults, self.trace = loop, faults, trace
        self._mains = mains
        self._pid = FIRST_PID
        self.trouble, self.zygote = "", 0
        self.living: dict[int, Child] = {}

    def start(self, link: ChildLink, role: str, *args: Any) -> None:
        """Fork a child for `link`."""
        self._pid += 1
        main = self._mains[role]
        child = self.living[self._pid] = Child(self, link, self._pid, lambda child: main(child, *args))
        if role == "executor":
            link.semaphore = Tokens()  # type: ignore[assignment]

        def kill(how: str = "") -> None:
            if link.pid and link.alive:
                link.how = link.how or how
                child.die(f"killed by SIGKILL {how}")

        link.kill = kill  # type: ignore[method-assign]
        self.loop.call_later(self.loop.random.expovariate(1 / 0.003), child.start)

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {child.link.name: pid for pid, child in self.living.items() if child.link.pid and child.link.alive}

    def kill_all(self, link: ChildLink, how: str) -> None:
        """End a process, which has no children here."""
        link.kill(how)

    def private(self, pid: int) -> int:
        """Bytes that a process has for itself: nobody takes any."""
        return 0

    def use(self, pid: int) -> None:
        """What a process has used: nobody is told."""

    def vitals(self, pids: Iterable[int]) -> dict[int, Vital]:
        """How these processes are."""
        return {pid: self.living[pid].vital if pid in self.living else Vital.GONE for pid in pids}

    def wake_zygote(self) -> None:
        """It is never stopped here."""

    def give_up(self, link: ChildLink, why: str, gone: Callable[[], None]) -> None:
        """A process cannot die: go on as if it had; `gone` is called when it is really gone."""
        child = self.living[link.pid]
        child.gone = gone
        link.ended(why)

    def close(self) -> None:
        """Hang up on all."""
        for child in self.living.values():
            child.hung_up()
