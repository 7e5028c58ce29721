"""`Closure`: the future of a run, with its results and its end.

A run is *finished* when the requested data are ready, or at its first error; started vertices may still run. A run is
*flushed* when the last started vertex has ended; only then may the instance be reset.
Source: baidu/babylon, anyflow (`Closure`: finish, wait, on_finish).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from threading import Condition
from typing import Any

from jmars.errors import GraphError

__all__ = ["Closure"]

_log = logging.getLogger(__name__)


class Closure:
    """The future of a run, made by `Graph.run`: waits for results, or for the end of all vertices.

    Examples
    --------
    >>> from jmars.flow import GraphBuilder
    >>> builder = GraphBuilder()
    >>> builder.input("a")
    >>> _vertex = builder.function(lambda a: a + 1, ["a"], "b")
    >>> closure = builder.finish().build().run("b", given={"a": 1})
    >>> closure.finished, closure.flushed, closure.error, closure.result()
    (True, True, None, 2)
    """

    def __init__(self, blocks: Callable[[], bool], why: Callable[[], str]) -> None:
        self._changed = Condition()
        self._callbacks: list[Callable[[Closure], object]] = []
        self._blocks = blocks  # whether waiting in this thread would block the run
        self._why = why
        self.finished = False
        self.flushed = False
        self.error: BaseException | None = None  # the first error before the run finished
        self.late_error: BaseException | None = None  # the first error after that
        self._values: tuple[Any, ...] = ()

    def result(self, timeout: float | None = None) -> Any:
        """The requested value, or a tuple of values unless a single data was requested; None for empty data.

        Raises
        ------
        TimeoutError
            If the run has not finished in `timeout` seconds; the message names the missing data.
        Exception
            The first error of the run.
        """
        if not self._await(lambda: self.finished, timeout):
            raise TimeoutError(f"the run has not finished after {timeout} s: {self._why()}")
        if self.error is not None:
            raise self.error
        return self._values[0] if len(self._values) == 1 else self._values

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the last vertex has ended; False after `timeout` seconds. Raises no error of the run."""
        return self._await(lambda: self.flushed, timeout)

    def on_finish(self, callback: Callable[[Closure], object]) -> None:
        """Calls `callback` when the run finishes, in the finishing thread; at once if the run has finished."""
        with self._changed:
            if not self.finished:
                self._callbacks.append(callback)
                return
        callback(self)

    def __await__(self) -> Generator[Any, None, Any]:
        """Awaits `result()` in an event loop."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        self.on_finish(lambda _: loop.call_soon_threadsafe(ended.set))
        yield from ended.wait().__await__()
        return self.result(0)

    def _finish(self, values: tuple[Any, ...], error: BaseException | None) -> None:
        """Marks the run as finished; of several calls, from any thread, the first counts."""
        with self._changed:
            if self.finished:
                return
            self._values, self.error = values, error
            self.finished = True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # a callback's error must not end the thread that drives the run
                _log.exception("a callback of on_finish failed; the run is not affected")

    def _flush(self, error: BaseException | None) -> None:
        """Marks the run as flushed."""
        with self._changed:
            if error is not self.error:
                self.late_error = error
            self.flushed = True
            self._changed.notify_all()

    def _await(self, happened: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until `happened()` is true."""
        if happened():
            return True
        if timeout != 0 and self._blocks():
            raise GraphError(
                "this event loop runs the graph, and waiting here would stop it; `await` the closure instead"
            )
        with self._changed:
            return self._changed.wait_for(happened, timeout)
