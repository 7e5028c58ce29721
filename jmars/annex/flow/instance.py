"""`Graph`: an instance of a graph, used by a single run at a time.

`Graph` wraps an `Activation`. Threads that run vertices never touch counters: they append events to `_mail` (an atomic
operation of a deque) and then try the `_baton`, a lock without waiters. The thread that gets the baton applies all
events to plain ints and lists; other threads go on, since the holder reads the mail again after releasing the baton. So
no thread queues for a critical section, a finished vertex costs a single attempt at a lock, and the code is correct on
free-threaded Python too, where `x -= 1` is not atomic.

`Activation` is the state machine of a run: the active, ready and done data and vertices. Pure: events (data requested,
data released, vertex finished) go in, the vertices that can run come out. The machine knows no thread, executor or
processor; `Graph` ensures that a single thread at a time calls it.

An unconditional dependency counts +1 when activated and -1 when the target is released, and is ready at 0. The sum over
a vertex's dependencies is a single count, `waiting`, which only falls: below 0 before activation, and to 0, once, after
activation. A conditional dependency has a separate counter: +2 when activated; -1 when the target is released; -1 when
the condition holds, else -2. The dependency fires when the activation leaves the counter at or below 0, or when a later
step takes the counter from above 0 to 0 or below (the *edge rule*); firing lowers `waiting` by 1. Before activation all
steps go down from 0, so no dependency fires; after activation the steps sum to 2 or more exactly when the target is
released and taken, or known not to be taken; a falling counter crosses 0 once. The document's rule (fires at exactly 0)
hangs when a target is released before a false condition: +2 -1 -2.

Error messages and `Graph.why_not_ready` explain why a data is not ready, by the data and vertices that block it. They
read an `Activation` without changing it, also during a run.

`Closure` is the future of a run, with results and end. A run is *finished* when the requested data are ready, or at the
first error; started vertices may still run. A run is *flushed* when the last started vertex has ended; only then may
the instance be reset.

A value has a single reader that may write into it, or any number of read-only readers. `Activation` checks a loan when
a dependency fires, so only actual readers of a run count: readers under opposite conditions never conflict.

`GraphPool` keeps instances of a finished graph, for concurrent runs.
Source: docs/explanation/seeds.md, "Execution lifecycle", "Dependency counting", "Conditional dependencies";
baidu/babylon, anyflow/dependency.cpp; baidu/babylon, anyflow, which logs unfinished data at the end of a run;
baidu/babylon, anyflow (`Closure`: finish, wait, on_finish); baidu/babylon, anyflow (`declare_mutable`).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from jmars.annex.flow.vertex import (
    ALWAYS,
    NEVER,
    Executor,
    GraphData,
    GraphPlan,
    GraphVertex,
    InlineExecutor,
    Structure,
)
from jmars.errors import GraphError, NotReadyError

if TYPE_CHECKING:
    from jmars.annex.flow.builder import GraphBuilder


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
        self.lent = True
        self._used = Lock()  # held from run() to reset()
        self._baton = Lock()
        self._mail: deque[int | tuple[int, BaseException]] = deque()  # vertex: ended; ~data: emitted
        self._started = 0  # started vertices whose end is not applied yet
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
        """A data and the value in this run."""
        return GraphData(self, self._plan.data(name))

    def vertex(self, name: str) -> GraphVertex:
        """A vertex and the processor."""
        for vertex in self._vertices:
            if vertex.name == name:
                return vertex
        raise GraphError(f"graph {self.name!r} has no vertex {name!r}; it has {[v.name for v in self._vertices]}")

    def why_not_ready(self, *targets: str) -> str:
        """Explains why data wait; may be called at any time."""
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
                    return  # the run was ended by another thread, and the next run began
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


_GIVEN = object()  # marks a value given by the caller


class Activation:
    """Counters and values of an instance.

    Attributes
    ----------
    waiting
        Dependencies that each vertex still waits for; below 0 for inactive vertices with ready dependencies.
    count
        Counter of each conditional dependency; 0 for dependencies that are only part of `waiting`.
    active, ended
        Vertices that this run needs; vertices that ran or were skipped.
    wanted, released
        Data that this run needs; data with a value.
    values
        Emitted values; None is empty.
    missing
        Requested data that are not released yet.

    Examples
    --------
    >>> from jmars.annex.flow.vertex import Edge
    >>> c_of_a_and_b = Structure(("a", "b", "c"), ("add",), (Edge(0, 0), Edge(0, 1)), ((2,),))
    >>> run = Activation(c_of_a_and_b)
    >>> run.release(0, 3), run.release(1, 4), run.request([2])
    ([], [], [0])
    """

    __slots__ = (
        "active",
        "claims",
        "count",
        "ended",
        "loans",
        "missing",
        "released",
        "requested",
        "silent",
        "structure",
        "truth",
        "values",
        "waiting",
        "wanted",
    )

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        data, vertices = len(structure.data), len(structure.vertices)
        self.waiting = [0] * vertices
        self.count = [0] * len(structure.edges)
        self.active, self.ended = bytearray(vertices), bytearray(vertices)
        self.wanted, self.released, self.truth = bytearray(data), bytearray(data), bytearray(data)
        self.values: list[Any] = [None] * data
        self.claims: dict[int, object] = {}  # emitter of each data; the only part that other threads write
        self.silent: dict[int, int] = {}  # number of producers of each data that ended without emitting
        self.loans = Loans(structure)
        self.requested: dict[int, None] = {}
        self.missing = 0

    def reset(self) -> None:
        """Resets all state in place."""
        data, vertices = len(self.values), len(self.waiting)
        self.waiting[:] = [0] * vertices
        self.count[:] = [0] * len(self.count)
        self.active[:] = self.ended[:] = bytes(vertices)
        self.wanted[:] = self.released[:] = self.truth[:] = bytes(data)
        self.values[:] = [None] * data
        self.claims.clear()
        self.silent.clear()
        self.loans.readers.clear()
        self.requested.clear()
        self.missing = 0

    # Events: each method returns the vertices that can run from now on, each vertex once.

    def request(self, data: Iterable[int]) -> list[int]:
        """Requests data: activates the vertices that lead to them, and no others.

        Raises
        ------
        NotReadyError
            If the data depend on a data without producer and without given value.
        """
        self.requested.update(dict.fromkeys(data))
        self.missing = sum(not self.released[d] for d in self.requested)
        ready: list[int] = []
        for d in self.requested:
            if self.structure.loaned[d]:
                self.loans.take(d, CALLER)
        self._activate(list(self.requested)[::-1], ready)
        return self._without_skipped(ready)

    def claim(self, data: int, value: Any, given: bool = False) -> bool:
        """Stores an emitted value; any thread may call this, and `publish` must follow.

        Returns False, without effect, if the caller of the run gave the value: the given value holds.

        Raises
        ------
        GraphError
            If the data was emitted before in this run.
        """
        mark = _GIVEN if given else object()
        first = self.claims.setdefault(data, mark)  # a single step in C: atomic with and without the GIL
        if first is _GIVEN and not given:
            return False
        if first is not mark:
            raise GraphError(
                f"data {self.structure.data[data]!r} was emitted before in this run; a data has one value, emitted once"
            )
        self.values[data] = value
        return True

    def release(self, data: int, value: Any) -> list[int]:
        """Stores and publishes a value given by the caller."""
        self.claim(data, value, given=True)
        return self.publish(data)

    def publish(self, data: int) -> list[int]:
        """Makes a claimed value visible to the readers."""
        ready: list[int] = []
        if not self.released[data]:
            self._publish(data, ready)
        return self._without_skipped(ready)

    def finish(self, vertex: int) -> list[int]:
        """Ends a vertex: publishes its emitted data, and its other outputs as empty."""
        ready: list[int] = []
        self._end(vertex, ready)
        return self._without_skipped(ready)

    # Transitions.

    def _activate(self, stack: list[int], ready: list[int]) -> None:
        """Activates data and, without recursion, all data that their producers need."""
        structure, edges = self.structure, self.structure.edges
        waiting, count, active = self.waiting, self.count, self.active
        wanted, released = self.wanted, self.released
        while stack:
            data = stack.pop()
            if wanted[data]:
                continue
            wanted[data] = 1
            if released[data]:
                continue
            if not structure.producers[data]:
                raise NotReadyError(
                    f"data {structure.data[data]!r} has no producer and was not given; "
                    f"{path_to(self, data)}; pass it in `given`"
                )
            for vertex in structure.producers[data]:
                if active[vertex]:
                    continue
                active[vertex] = 1
                left = waiting[vertex] + len(structure.depends[vertex])
                stack += structure.needs[vertex][::-1]
                for e in structure.counts[vertex]:
                    edge = edges[e]
                    conditional = edge.condition >= 0
                    now = count[e] = count[e] + (2 if conditional else 1)
                    if now <= 0:
                        left -= 1
                        self._established(e)
                    elif conditional and (now == 2 or not released[edge.condition]):
                        stack.append(edge.condition)
                    else:
                        stack.append(edge.target)
                waiting[vertex] = left
                if not left:
                    ready.append(vertex)

    def _publish(self, data: int, ready: list[int]) -> None:
        """Updates the dependencies that read a data, then the dependencies with the data as condition."""
        structure, count, waiting = self.structure, self.count, self.waiting
        holds = self.truth[data] = bool(structure.gates[data] and self.values[data])
        self.released[data] = 1
        if self.missing and data in self.requested:
            self.missing -= 1
        for vertex in structure.plain[data]:
            left = waiting[vertex] = waiting[vertex] - 1
            if not left:
                ready.append(vertex)
        for e in structure.counted[data]:
            self._step(e, 1, ready)
        if structure.gates[data]:
            triggered = []
            for e in structure.gates[data]:
                taken = structure.edges[e].expects == holds
                self._step(e, 1 if taken else 2, ready)
                if taken and count[e] == 1:  # active, and waits for the target only
                    triggered.append(structure.edges[e].target)
            self._activate(triggered, ready)

    def _step(self, e: int, down: int, ready: list[int]) -> None:
        """Lowers a dependency's counter and fires by the edge rule."""
        before = self.count[e]
        now = self.count[e] = before - down
        if before > 0 and now <= 0:
            self._established(e)
            vertex = self.structure.edges[e].vertex
            left = self.waiting[vertex] = self.waiting[vertex] - 1
            if not left:
                ready.append(vertex)

    def _end(self, vertex: int, ready: list[int]) -> None:
        """Publishes the outputs of an ended vertex; exclusive data are empty after their last silent producer."""
        self.ended[vertex] = 1
        for data in self.structure.outputs[vertex]:
            if self.released[data]:
                continue
            if data not in self.claims:
                silent = self.silent[data] = self.silent.get(data, 0) + 1
                if silent < len(self.structure.producers[data]):
                    continue
                self.claim(data, None)
            self._publish(data, ready)

    def _without_skipped(self, ready: list[int]) -> list[int]:
        """Vertices to run; vertices with an empty essential input end here, with empty outputs."""
        if not any(map(self.structure.picky.__getitem__, ready)):
            return ready
        run = []
        for vertex in ready:  # grows during the loop
            if self.structure.picky[vertex] and self._lacks(vertex):
                self._end(vertex, ready)
            else:
                run.append(vertex)
        return run

    def _lacks(self, vertex: int) -> bool:
        """Whether an essential input is empty."""
        for e in self.structure.depends[vertex]:
            level = self.structure.edges[e].essential
            if level != NEVER and self.value(e) is None and (level == ALWAYS or self.taken(e)):
                return True
        return False

    # Values for a vertex.

    def taken(self, e: int) -> bool:
        """Whether a dependency's condition holds; True without condition."""
        edge = self.structure.edges[e]
        return edge.condition < 0 or bool(self.released[edge.condition] and self.truth[edge.condition] == edge.expects)

    def value(self, e: int) -> Any:
        """Value of a dependency for the vertex; None if the target is empty or the dependency not taken."""
        return self.values[self.structure.edges[e].target] if self.taken(e) else None

    def _established(self, e: int) -> None:
        """Fires a dependency; checks the loan of a target with mutable dependencies."""
        target = self.structure.edges[e].target
        if self.structure.loaned[target] and self.taken(e) and self.values[target] is not None:
            self.loans.take(target, e)


def why_not_ready(run: Activation, data: int) -> str:
    """The chain from a data to the data and vertices that it waits for, nearest first."""
    structure, lines = run.structure, []
    stack, seen = [data], {data}
    while stack:
        d = stack.pop()
        name = repr(structure.data[d])
        if run.released[d]:
            continue
        if not run.wanted[d]:
            lines.append(f"data {name} was not asked for")
            continue
        if not structure.producers[d]:
            lines.append(f"data {name} has no producer and was not given")
        for vertex in structure.producers[d]:
            if run.ended[vertex]:
                continue
            left = [t for e in structure.depends[vertex] for t in _awaited(run, e)]
            names = ", ".join(repr(structure.data[t]) for t in left)
            state = f"waits for {names}" if left else "has all that it needs and has not ended"
            lines.append(f"data {name} is made by vertex {structure.vertices[vertex]!r}, which {state}")
            stack += [t for t in left if t not in seen]
            seen.update(left)
    return "; ".join(lines) or f"data {structure.data[data]!r} is ready"


def path_to(run: Activation, data: int) -> str:
    """The chain of vertices that need a data, up to the requested data."""
    structure, seen = run.structure, set[int]()
    words: list[str] = []
    while data not in run.requested and data not in seen:
        seen.add(data)
        edges = [structure.edges[e] for e in (*structure.counted[data], *structure.gates[data])]
        users = [*structure.plain[data], *(edge.vertex for edge in edges)]
        vertex = next((v for v in users if run.active[v]), None)
        if vertex is None:
            break
        data = next((d for d in structure.outputs[vertex] if run.wanted[d]), structure.outputs[vertex][0])
        words.append(f"vertex {structure.vertices[vertex]!r} needs it for {structure.data[data]!r}")
    return ", ".join(words) or "it was requested"


def _awaited(run: Activation, e: int) -> list[int]:
    """Data that a dependency still waits for."""
    edge = run.structure.edges[e]
    if edge.condition >= 0 and not run.released[edge.condition]:
        return [edge.condition]
    return [edge.target] if run.taken(e) and not run.released[edge.target] else []


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


CALLER = -1  # in place of a dependency: the caller, who reads requested data after the run


class Loans:
    """Readers so far of data with mutable dependencies."""

    __slots__ = ("readers", "structure")

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.readers: dict[int, list[int]] = {}  # data: dependencies

    def take(self, data: int, e: int) -> None:
        """Adds dependency `e` as a reader of `data`.

        Raises
        ------
        GraphError
            If the data has several readers and a mutable reader among them.
        """
        readers = self.readers.setdefault(data, [])
        readers.append(e)
        if len(readers) > 1 and any(r != CALLER and self.structure.edges[r].mutable for r in readers):
            names = " and ".join(map(self._name, readers))
            raise GraphError(
                f"data {self.structure.data[data]!r} is read by {names} in this run, and one of them"
                " is declared mutable; let the mutable one be the only reader, or copy"
            )

    def _name(self, e: int) -> str:
        """The reader behind a dependency, in words."""
        if e == CALLER:
            return "the caller of the run"
        return f"vertex {self.structure.vertices[self.structure.edges[e].vertex]!r}"


class GraphPool:
    """A pool of at most `limit` instances of a graph, lent first come, first served; thread-safe.

    By `acquire` to threads, by `request` (a future) to event loops.

    Parameters
    ----------
    builder
        A finished `GraphBuilder`.
    limit
        Most instances that exist at a time, 1 or more.

    Raises
    ------
    GraphError
        If `limit` is below 1.

    Examples
    --------
    >>> from jmars.flow import GraphBuilder
    >>> builder = GraphBuilder()
    >>> builder.input("a")
    >>> _vertex = builder.function(lambda a: a + 1, ["a"], "b")
    >>> pool = GraphPool(builder.finish(), limit=2)
    >>> with pool.lent() as graph:
    ...     graph.run("b", given={"a": 1}).result()
    2
    """

    def __init__(self, builder: GraphBuilder, limit: int) -> None:
        if limit < 1:
            raise GraphError(f"a pool of {limit} instances can lend none; give a limit of 1 or more")
        self.limit = limit
        self.built = 0  # instances that exist
        self._builder = builder
        self._structure = builder.structure  # raises now if the builder is unfinished
        self._lock = Lock()
        self._idle: list[Graph] = []
        self._waiting: deque[Future[Graph]] = deque()

    def request(self) -> Future[Graph]:
        """Requests an instance; returns a future, served in the order of requests.

        Cancelling the future leaves the queue; if `cancel()` returns False the instance must be released.
        """
        future: Future[Graph] = Future()
        with self._lock:
            if self._idle:
                instance = self._idle.pop()
            elif self.built < self.limit:
                instance = self._builder.build()
                self.built += 1
            else:
                self._waiting.append(future)
                return future
            instance.lent = True
        future.set_result(instance)
        return future

    def acquire(self, timeout: float | None = None) -> Graph:
        """Takes a reset instance for a run; waits until an instance is free.

        Parameters
        ----------
        timeout
            Longest wait in seconds; None: no limit.

        Raises
        ------
        TimeoutError
            If no instance became free in time; the request is withdrawn.
        """
        future = self.request()
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.cancel():
                raise
            return future.result()  # an instance came at the last moment
        except BaseException:  # an interrupted wait must not leak an instance
            if not future.cancel():
                self.release(future.result())
            raise

    def release(self, instance: Graph) -> None:
        """Resets an instance, returns it to the pool, and serves the next request.

        Raises
        ------
        GraphError
            If the instance is not lent by this pool, was returned before, or still runs.
        """
        if instance.busy:
            raise GraphError("this instance still runs: wait() for its closure before giving it back")
        if instance.structure is not self._structure:
            raise GraphError("this instance runs another graph; give it back to the pool that lent it")
        with self._lock:
            if not instance.lent:
                raise GraphError("this instance was given back before; release each one once")
            instance.lent = False
        instance.reset()
        with self._lock:
            while self._waiting:
                future = self._waiting.popleft()
                if future.set_running_or_notify_cancel():  # not cancelled, and can no longer be
                    instance.lent = True
                    break
            else:
                self._idle.append(instance)
                return
        future.set_result(instance)

    @contextmanager
    def lent(self) -> Iterator[Graph]:
        """Acquires an instance for a `with` block; the end of the block waits for running vertices."""
        instance = self.acquire()
        try:
            yield instance
        finally:
            instance.flush()
            self.release(instance)
