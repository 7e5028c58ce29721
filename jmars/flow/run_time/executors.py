"""Executors of vertices: the caller's own thread, a pool of threads, or an event loop.

An executor has `submit(work, vertex)`, as the executors of `concurrent.futures` do, so these serve as well; `None` is
the inline executor. `async def` vertices need `submit_async`.
Source: baidu/babylon `anyflow/executor.h` (`InplaceGraphExecutor`, `ThreadPoolGraphExecutor`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor as _Threads
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from jmars.errors import GraphError

__all__ = ["AsyncioExecutor", "Executor", "InlineExecutor", "ThreadPoolExecutor"]


@runtime_checkable
class Executor(Protocol):
    """Calls `work(vertex)` once, soon, in a thread of its choice; if `submit` raises, the run ends with that error."""

    def submit(self, work: Callable[[int], None], vertex: int, /) -> object:
        """Take the work."""


class InlineExecutor:
    """Runs vertices in the thread that calls `Graph.run`, in the order in which they become ready.

    A vertex ends before the next vertex begins, however deep the graph is, so calls never nest.
    """

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Run the vertex now; `Graph` itself keeps the order and does not come here."""
        work(vertex)


class ThreadPoolExecutor:
    """Runs vertices on threads; share a single pool between all graphs. A context manager.

    Parameters
    ----------
    threads
        How many vertices may run at once.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise GraphError(f"{threads} threads can run no vertex; give 1 or more")
        self._pool = _Threads(threads, thread_name_prefix="jmars-flow")

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Queue the vertex."""
        self._pool.submit(work, vertex)

    def close(self) -> None:
        """End the threads after all queued vertices; later submissions are refused and end their runs."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncioExecutor:
    """Runs vertices in an event loop; `async def` vertices take turns there.

    Parameters
    ----------
    loop
        The event loop; None is the one that runs where this is made.

    Raises
    ------
    GraphError
        If none is given and none runs here.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        try:
            self._loop = loop or asyncio.get_running_loop()
        except RuntimeError:
            raise GraphError("no event loop runs here; make the executor in a coroutine, or pass it the loop") from None
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself would let them be collected

    @property
    def blocks(self) -> bool:
        """Whether waiting in this thread would keep the loop from running."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Call the vertex in the loop."""
        self._loop.call_soon_threadsafe(work, vertex)

    def submit_async(self, work: Callable[[int], Coroutine[Any, Any, None]], vertex: int, /) -> None:
        """Run the vertex as a task of the loop."""
        self._loop.call_soon_threadsafe(self._start, work, vertex)

    def _start(self, work: Callable[[int], Coroutine[Any, Any, None]], vertex: int) -> None:
        task = self._loop.create_task(work(vertex))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
