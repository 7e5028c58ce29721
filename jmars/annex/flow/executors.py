"""Executors of vertices: the calling thread, a pool of threads, or an event loop.

An executor has `submit(work, vertex)`; the executors of `concurrent.futures` qualify too. `None` is the inline
executor. `async def` vertices need `submit_async`.
Source: baidu/babylon, anyflow (`InplaceGraphExecutor`, `ThreadPoolGraphExecutor`).
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
    """Calls `work(vertex)` once, soon, in any thread; an error of `submit` ends the run."""

    def submit(self, work: Callable[[int], None], vertex: int, /) -> object:
        """Accepts a call for execution."""


class InlineExecutor:
    """Runs vertices in the thread that calls `Graph.run`, in the order in which they become ready.

    A vertex ends before the next vertex begins, however deep the graph is, so calls do not nest.
    """

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Runs the vertex now; `Graph` keeps the order of inline runs itself and does not call this method."""
        work(vertex)


class ThreadPoolExecutor:
    """Runs vertices on threads; may be shared by all graphs. A context manager.

    Parameters
    ----------
    threads
        Number of vertices that may run at a time.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise GraphError(f"{threads} threads can run no vertex; give 1 or more")
        self._pool = _Threads(threads, thread_name_prefix="jmars-flow")

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Queues the vertex."""
        self._pool.submit(work, vertex)

    def close(self) -> None:
        """Runs queued vertices, then ends the threads; later submissions are refused and end their runs."""
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
        The event loop; None: the running loop.

    Raises
    ------
    GraphError
        If no loop is given and no loop runs here.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        try:
            self._loop = loop or asyncio.get_running_loop()
        except RuntimeError:
            raise GraphError("no event loop runs here; make the executor in a coroutine, or pass it the loop") from None
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself would let them be collected

    @property
    def blocks(self) -> bool:
        """Whether the current thread runs the loop, so that waiting here would block the loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Runs the vertex in the loop."""
        self._loop.call_soon_threadsafe(work, vertex)

    def submit_async(self, work: Callable[[int], Coroutine[Any, Any, None]], vertex: int, /) -> None:
        """Starts the vertex as a task of the loop."""
        self._loop.call_soon_threadsafe(self._start, work, vertex)

    def _start(self, work: Callable[[int], Coroutine[Any, Any, None]], vertex: int) -> None:
        task = self._loop.create_task(work(vertex))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
