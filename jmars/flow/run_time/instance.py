"""`Graph`: an instance of a graph, used by one run at a time.

`Graph` wraps an `Activation`. Threads that run vertices never touch counters: they append events to `_mail` (an atomic
operation of a deque) and then try the `_baton`, a lock without waiters. The thread that gets the baton applies all
events to plain ints and lists; other threads go on, since the holder reads the mail again after releasing the baton. So
no thread queues for a critical section, a finished vertex costs a single attempt at a lock, and the code is correct on
free-threaded Python too, where `x -= 1` is not atomic.
Source: docs/explanation/seeds.md, "Execution lifecycle", "Dependency counting".
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, NamedTuple

from jmars.errors import GraphError, NotReadyError
from jmars.flow.build_time.blueprint import GraphPlan
from jmars.flow.run_time.activation import Activation
from jmars.flow.run_time.closure import Closure
from jmars.flow.run_time.executors import Executor, InlineExecutor
from jmars.flow.run_time.nodes import GraphData, GraphVertex
from jmars.flow.run_time.unready import why_not_ready

__all__ = ["Graph"]


class _News(NamedTuple):
    """Consequences of the applied events, to be acted on without the baton."""

    ready: list[int]  # vertices to start
    finished: bool
    values: tuple[Any, ...]  # of the requested data, if finished
    error: BaseException | None
    flushed: bool


class Graph:
    """An instance of a graph, made by `GraphBuilder.build`: run, wait until flushed, reset, run again.

    Attributes
    ----------
    name, structure
        Shared with all instances of the builder.
    state
        Counters and values of the current run; read only.

    Examples
    --------
    >>> from jmars.flow import GraphBuilder
    >>> builder = GraphBuilder()
    >>> builder.input("width", "height")
    >>> _vertex = builder.function(lambda a, b: a * b, ["width", "height"], "area")
    >>> graph = builder.finish().build()
    >>> graph.run("area", given={"width": 2, "height": 3}).result()
    6
    >>> graph.reset()
    >>> graph.run("area", given={"width": 2}).result()
    Traceback (most recent call last):
        ...
    jmars.errors.NotReadyError: data 'height' has no producer and was not given; vertex ... needs it for 'area'; ...
    """

    def __init__(self, plan: GraphPlan) -> None:
        self._plan = plan
        self.name = plan.name
        self.structure = plan.structure
        self.state = Activation(plan.structure)
        self.lent = True  # False while in a pool
        self._used = Lock()  # held from run() to reset()
        self._baton = Lock()
        self._mail: deque[int | tuple[int, BaseException]] = deque()  # vertex: ended; ~data: emitted
        self._started = 0  # vertices started whose end is not applied yet
        self._error: BaseException | None = None
        self._closure: Closure | None = None
        self._executor: Executor | None = None  # None: inline
        self._running = bytearray(len(plan.vertices))
        self._vertices = [GraphVertex(self, i, vertex, vertex.factory()) for i, vertex in enumerate(plan.vertices)]
        for vertex in self._vertices:
            vertex.processor.setup(vertex)
        self._process: list[Callable[[GraphVertex], Any]] = [vertex.processor.process for vertex in self._vertices]
        self._trivial = [vertex.trivial for vertex in plan.vertices]
        self._asynchronous = [inspect.iscoroutinefunction(process) for process in self._process]

    def run(self, *targets: str, given: Mapping[str, Any] | None = None, executor: Executor | None = None) -> Closure:
        """Computes the requested data and all that they depend on, and no other data.

        Parameters
        ----------
        targets
            Names of data.
        given
            Values of data, by name; a given data is not computed.
        executor
            Runs the vertices; None: the calling thread, before `run` returns.

        Returns
        -------
        Closure
            The future of the run, which receives its errors too.

        Raises
        ------
        GraphError
            If the instance is in use or was not reset, or a name is unknown.
        """
        data = [self._plan.data(name) for name in targets]
        values = [(self._plan.data(name), value) for name, value in (given or {}).items()]
        if not self.lent:
            raise GraphError(
                "this instance went back to its pool and may be another run's by now; acquire one for each run"
            )
        if not self._used.acquire(blocking=False):
            raise GraphError(
                f"graph {self.name!r} is in use or was not reset; reset() it, or build an instance for each run"
            )
        self._executor = None if isinstance(executor, InlineExecutor) else executor
        closure = self._closure = Closure(self._blocks, lambda: self.why_not_ready(*targets))
        ready: list[int] = []
        with self._baton:
            try:
                for number, value in values:
                    ready += self.state.release(number, value)
                ready += self.state.request(data)
            except BaseException as error:
                self._error = error
            news = self._settle(ready)
        todo: deque[int] = deque()
        self._go_on(closure, news, todo)
        self._advance(closure, todo)
        self._run_all(closure, todo)
        return closure

    def reset(self) -> None:
        """Resets the instance for the next run.

        Raises
        ------
        GraphError
            If the current run is not flushed: a running vertex would emit into the next run.
        """
        closure = self._closure
        if closure is None:
            return
        if not closure.flushed:
            raise GraphError(f"graph {self.name!r} still runs: wait() for its closure before reset()")
        for number, active in enumerate(self.state.active):
            if active:
                self._vertices[number].processor.reset()
        with self._baton:  # a thread of the last run may still hold the baton
            self.state.reset()
            self._error = self._closure = self._executor = None
        self._used.release()

    @property
    def busy(self) -> bool:
        """Whether vertices of the current run may still run."""
        closure = self._closure
        return closure is not None and not closure.flushed

    def flush(self) -> None:
        """Waits until all started vertices of the current run have ended."""
        if self._closure is not None:
            self._closure.wait()

    def data(self, name: str) -> GraphData:
        """A data and its value in this run."""
        return GraphData(self, self._plan.data(name))

    def vertex(self, name: str) -> GraphVertex:
        """A vertex and its processor."""
        for vertex in self._vertices:
            if vertex.name == name:
                return vertex
        raise GraphError(f"graph {self.name!r} has no vertex {name!r}; it has {[v.name for v in self._vertices]}")

    def why_not_ready(self, *targets: str) -> str:
        """Explains what data wait for; may be called at any time."""
        return "; ".join(why_not_ready(self.state, self._plan.data(name)) for name in targets)

    # Called by the threads of a run.

    def _emit(self, vertex: int, data: int, value: Any, last: bool = False) -> None:
        """Emits an output of a running vertex; as its last act, the event travels with the vertex's end."""
        if not self._running[vertex]:
            raise GraphError(f"vertex {self._vertices[vertex].name!r} is not running; emit within process()")
        if self.state.claim(data, value) and not last:
            self._mail.append(~data)
            if self._executor is not None and self._closure is not None:  # inline runs start no vertex meanwhile
                self._advance(self._closure, None)

    def _work(self, vertex: int) -> None:
        """Runs a vertex, and trivial vertices that become ready."""
        closure = self._closure
        assert closure is not None, "a vertex runs, so a run is under way"
        self._run_all(closure, deque((vertex,)))

    def _run_all(self, closure: Closure, todo: deque[int]) -> None:
        """Runs vertices in this thread, including vertices for this thread that become ready meanwhile."""
        while todo:
            number = todo.popleft()
            self._running[number] = 1
            try:
                self._process[number](self._vertices[number])
            except BaseException as error:
                self._end(number, error)
            else:
                self._end(number)
            self._advance(closure, todo)

    async def _work_async(self, number: int) -> None:
        """Runs an `async def` vertex."""
        closure = self._closure
        assert closure is not None, "a vertex runs, so a run is under way"
        self._running[number] = 1
        try:
            await self._process[number](self._vertices[number])
        except BaseException as error:
            self._end(number, error)
        else:
            self._end(number)
        todo: deque[int] = deque()
        self._advance(closure, todo)
        self._run_all(closure, todo)

    def _end(self, number: int, error: BaseException | None = None) -> None:
        """Ends a vertex: closes its channels and appends the event to the mail."""
        self._running[number] = 0
        vertex = self._vertices[number]
        if vertex._channels:
            vertex._close(error)
        self._mail.append(number if error is None else (number, error))

    def _advance(self, closure: Closure, todo: deque[int] | None) -> None:
        """Applies the mail unless another thread does; adds vertices for this thread to `todo`."""
        while self._mail and self._closure is closure:
            if not self._baton.acquire(blocking=False):
                return  # the holder reads the mail again after releasing the baton
            try:
                if self._closure is not closure:
                    return  # another thread ended the run, and the next run began
                news = self._settle(self._read())
            finally:
                self._baton.release()
            self._go_on(closure, news, todo)

    # Called with the baton.

    def _read(self) -> list[int]:
        """Applies all events in the mail; returns the vertices that can run."""
        ready: list[int] = []
        mail, state = self._mail, self.state
        while mail:
            item = mail.popleft()
            try:
                if isinstance(item, tuple):
                    self._started -= 1
                    state.ended[item[0]] = 1
                    self._error = item[1] if self._error is None else self._error
                elif item >= 0:
                    self._started -= 1
                    ready += state.finish(item)
                else:
                    ready += state.publish(~item)
            except BaseException as error:  # a mutable data with two readers, a condition without truth
                self._error = error if self._error is None else self._error
        return ready

    def _settle(self, ready: list[int]) -> _News:
        """Counts vertices to start, and decides whether the run is finished or flushed."""
        state = self.state
        if self._error is not None:
            ready = []
        self._started += len(ready)
        flushed = not self._started
        if flushed and state.missing and self._error is None:
            names = [self.structure.data[d] for d in state.requested if not state.released[d]]
            self._error = NotReadyError(f"the run ended without {names}: {self.why_not_ready(*names)}")
        finished = self._error is not None or not state.missing
        values = tuple(map(state.values.__getitem__, state.requested)) if finished else ()
        return _News(ready, finished, values, self._error, flushed)

    # Called without the baton.

    def _go_on(self, closure: Closure, news: _News, todo: deque[int] | None) -> None:
        """Starts ready vertices and notifies the closure."""
        if news.finished and not closure.finished:
            closure._finish(news.values, news.error)
        for number in news.ready:
            try:
                if self._asynchronous[number]:
                    self._submit_async(number)
                elif todo is not None and (self._executor is None or self._trivial[number]):
                    todo.append(number)
                elif self._executor is not None:
                    self._executor.submit(self._work, number)
            except BaseException as error:  # the executor refused
                self._mail.append((number, error))
        if news.flushed:
            closure._flush(news.error)

    def _submit_async(self, number: int) -> None:
        """Submits an `async def` vertex to the executor."""
        submit = getattr(self._executor, "submit_async", None)
        if submit is None:
            raise GraphError(f"vertex {self._vertices[number].name!r} is an `async def`; run with an AsyncioExecutor")
        submit(self._work_async, number)

    def _blocks(self) -> bool:
        """Whether waiting in this thread would block the run."""
        return bool(getattr(self._executor, "blocks", False))
