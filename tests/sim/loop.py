"""An event loop with virtual time whose every choice comes from a seed.

Nothing waits: when no callback is ready, time jumps to the next timer. Which of the ready callbacks runs next is drawn,
as sockets of many processes become readable in any order. Threads do not exist: what is asked of one is computed at
once and answered later. The same seed gives the same run.
Source: FoundationDB's simulation (deterministic, one thread, seeded); RELIABILITY 1.3.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = ["Stuck", "VirtualLoop", "virtual_clocks"]

CLOCKS = ("time", "monotonic", "perf_counter")
THREAD_SECONDS = 0.02  # that work in a thread takes, on average


class Stuck(Exception):
    """Nothing is ready, and no timer will ever make something so."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in an order drawn from `random`, and calls `after` behind each."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.now = 0.0
        self.steps = 0
        self.after: Callable[[], None] = lambda: None
        self.failures: list[dict[str, Any]] = []  # what callbacks raised
        self.network: Any = None  # of simulated hosts
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        """Seconds since the loop was made, none of them real."""
        return self.now

    def _run_once(self) -> None:
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]
        ready: Any = self._ready  # type: ignore[attr-defined]
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= self.now or not ready):
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self.now = max(self.now, handle._when)
                ready.append(handle)
        if not ready:
            raise Stuck(f"nothing will ever happen again after {self.now:.3f} s")
        place = self.random.randrange(len(ready)) if len(ready) > 1 else 0
        handle = ready[place]
        del ready[place]
        if not handle._cancelled:
            handle._run()
            self.steps += 1
            self.after()

    async def create_connection(self, make: Any, host: Any, port: Any, *, ssl: Any, **_: Any) -> Any:  # type: ignore[override]
        """A connection of the simulated network."""
        return await self.network.connect(make, host, port, ssl)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        """There is one thread."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """What a thread would give, a while later."""
        answer = self.create_future()

        def work() -> None:
            if answer.cancelled():
                return
            try:
                value = func(*args)
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(value)

        self.call_later(self.random.expovariate(1 / THREAD_SECONDS), work)
        return answer


@contextmanager
def virtual_clocks(loop: VirtualLoop) -> Iterator[None]:
    """Within, every clock that a module of ours reads shows the loop's time."""
    shim = SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if not name.startswith("_")})
    for name in CLOCKS:
        setattr(shim, name, loop.time)
    found = _readers(len(sys.modules))
    for module, name, value in found:
        setattr(module, name, shim if value is time else loop.time)
    try:
        yield
    finally:
        for module, name, value in found:
            setattr(module, name, value)


@lru_cache(maxsize=1)
def _readers(modules: int) -> list[tuple[ModuleType, str, Any]]:
    """Where modules of ours hold the module `time` or a clock of it; found anew when there are more modules."""
    clocks = {getattr(time, name) for name in CLOCKS}
    found: list[tuple[ModuleType, str, Any]] = []
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("jmars.") or module is None:
            continue
        for name, value in list(vars(module).items()):
            is_clock = callable(value) and getattr(value, "__module__", None) == "time" and value in clocks
            if value is time or is_clock:
                found.append((module, name, value))
    return found
