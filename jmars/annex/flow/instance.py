"""`Graph`: an instance of a graph, used by a single run at a time.

`Graph` wraps an `Activation`, the counters of a run. No lock guards an instance: threads change counters of single
dependencies and vertices, and the thread that completes a count acts.

A counter is a list of tokens, as Python has no atomic integer: `pop` is a single step in C, with and without a global
interpreter lock, so a token is drawn once, and the thread that draws 0 is the last. A vertex has a token for the
activation and for every dependency; the thread that draws 0 starts the vertex. A conditional dependency has five: 2
are drawn when activated, 1 when the target is released, 1 when the condition holds, else 2. The fourth establishes
the dependency; the fifth (a target in spite of a false condition) has no effect. In the document's words activation
adds and readiness subtracts: `Activation.waiting` and `Activation.count` give these numbers. The document's rule
(established at exactly 0) hangs when a target is released before a false condition: +2 -1 -2.

A value is stored before tokens are drawn. `dict.setdefault`, atomic too, decides the vertex that emits a data and the
thread that activates a vertex. The activation of a dependency and a true condition both draw first and look for the
other afterwards, so the target is asked for. A run has tokens of threads and queued vertices; the last token out ends
the run.

`Activation` knows no thread, executor or processor: events (data requested, data released, vertex finished) go in, the
vertices that can run come out, once.

Error messages and `Graph.why_not_ready` explain why a data is not ready, by the data and vertices that block it. They
read an `Activation` without changing it, also during a run.

`Closure` is the future of a run, with results and end. A run is *finished* when the requested data are ready, or at the
first error; started vertices may still run. A run is *flushed* when the last started vertex has ended; only then may
the instance be reset.

A value has a single reader that may write into it, or any number of read-only readers. `Activation` checks a loan when
a dependency is established, so only actual readers of a run count: readers under opposite conditions never conflict.

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
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any

from jmars.annex.flow.vertex import (
    ALWAYS,
    NEVER,
    Executor,
    FunctionProcessor,
    GraphData,
    GraphPlan,
    GraphProcessor,
    GraphVertex,
    InlineExecutor,
    Structure,
    ThreadPoolExecutor,
)
from jmars.errors import GraphError, NotReadyError

if TYPE_CHECKING:
    from jmars.annex.flow.builder import GraphBuilder


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
        self._used = Lock()  # held from run() to reset(); no vertex waits for it
        self._closure: Closure | None = None
        self._executor: Executor | None = None  # None: inline
        self._running = bytearray(len(plan.vertices))
        self._vertices = [GraphVertex(self, i, vertex, vertex.factory()) for i, vertex in enumerate(plan.vertices)]
        for vertex in self._vertices:
            vertex.processor.setup(vertex)
        self._process: list[Callable[[GraphVertex], Any]] = [vertex.processor.process for vertex in self._vertices]
        self._trivial = [vertex.trivial for vertex in plan.vertices]
        self._asynchronous = [inspect.iscoroutinefunction(process) for process in self._process]
        self._has_asynchronous = any(self._asynchronous)
        self._quick = [self._quickly(vertex) for vertex in self._vertices]
        self._resets = [k for k, v in enumerate(self._vertices) if type(v.processor).reset is not GraphProcessor.reset]

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
        todo = deque[int]()
        try:
            self._start(closure, self.state.begin(dict(values), data), todo)
        except BaseException as error:
            self._fail(closure, error)
        self._run_all(closure, todo)
        self._leave(closure)
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
        for number in self._resets:
            if self.state.active[number]:
                self._vertices[number].processor.reset()
        self.state.clear()
        self._closure = self._executor = None
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
        """Emits an output of a running vertex; an inline run publishes the data at the vertex's end."""
        closure = self._closure
        if closure is None or not self._running[vertex]:
            raise GraphError(f"vertex {self._vertices[vertex].name!r} is not running; emit within process()")
        if self.state.claim(data, value, vertex) and not last and self._executor is not None:
            try:
                self._start(closure, self.state.publish(data), None)
            except BaseException as error:  # a mutable data with two readers, a condition without truth
                self._fail(closure, error)

    def _work(self, vertex: int) -> None:
        """Runs a vertex in a thread of the executor, and vertices for this thread that become ready."""
        closure = self._closure
        assert closure is not None, "a vertex runs, so a run is under way"
        self._run_all(closure, deque((vertex,)), isinstance(self._executor, ThreadPoolExecutor))
        self._leave(closure)

    def _run_all(self, closure: Closure, todo: deque[int], keeps: bool = False) -> None:
        """Runs vertices in this thread, including vertices for this thread that become ready meanwhile."""
        state, quick, errors = self.state, self._quick, closure._errors
        values, released, ended, left = state.values, state.released, state.ended, state.left
        value = values.__getitem__
        requested, missing = state.requested, state.missing
        inline = self._executor is None and not self._has_asynchronous
        while todo:
            number = todo.popleft()
            step = quick[number]
            try:
                if step is None:
                    ready = self._process_vertex(number)
                else:  # as `Activation.finish`, for a vertex and a data without anything special
                    function, sources, data, readers = step
                    values[data] = function(*map(value, sources))
                    released[data] = ended[number] = 1
                    ready = []
                    for reader in readers:
                        if not left[reader].pop():
                            ready.append(reader)
                    if data in requested:
                        missing.pop()
            except BaseException as error:
                state.ended[number] = 1
                self._fail(closure, error)
                return
            if inline and missing and not errors:
                todo += ready
            else:
                self._start(closure, ready, todo, keeps)

    def _process_vertex(self, number: int) -> list[int]:
        """Runs the processor of a vertex; returns the vertices that can run from now on."""
        self._running[number] = 1
        try:
            self._process[number](self._vertices[number])
        except BaseException as error:
            self._end(number, error)
            raise
        self._end(number)
        return self.state.finish(number)

    async def _work_async(self, number: int) -> None:
        """Runs an `async def` vertex."""
        closure = self._closure
        assert closure is not None, "a vertex runs, so a run is under way"
        todo: deque[int] = deque()
        self._running[number] = 1
        try:
            await self._process[number](self._vertices[number])
            self._end(number)
            self._start(closure, self.state.finish(number), todo)
        except BaseException as error:
            self._end(number, error)
            self.state.ended[number] = 1
            self._fail(closure, error)
        self._run_all(closure, todo)
        self._leave(closure)

    def _end(self, number: int, error: BaseException | None = None) -> None:
        """Ends a vertex: it may not emit any more, and its channels close."""
        self._running[number] = 0
        vertex = self._vertices[number]
        if vertex._channels:
            vertex._close(error)

    def _start(self, closure: Closure, ready: list[int], todo: deque[int] | None, keeps: bool = False) -> None:
        """Starts vertices by the executor, or adds vertices for this thread to `todo`; finishes the run.

        `keeps`: a thread without further work goes on with the first vertex.
        """
        if not self.state.missing and not closure.finished:
            closure._finish(tuple(map(self.state.values.__getitem__, self.state.requested)), None)
        executor = self._executor
        for number in ready:
            if closure._errors:
                return
            is_asynchronous = self._asynchronous[number]
            here = executor is None or self._trivial[number] or (keeps and not todo)
            if here and todo is not None and not is_asynchronous:
                todo.append(number)
                continue
            closure._tokens.append(None)
            try:
                if is_asynchronous:
                    self._submit_async(number)
                elif executor is not None:
                    executor.submit(self._work, number)
            except BaseException as error:  # the executor refused
                closure._tokens.pop()
                self._fail(closure, error)

    def _fail(self, closure: Closure, error: BaseException) -> None:
        """Finishes the run with an error; started vertices may go on."""
        closure._errors.append(error)
        closure._finish((), error)

    def _leave(self, closure: Closure) -> None:
        """Removes the token of this thread; the first thread that finds no token left flushes the run."""
        closure._tokens.pop()
        if closure._tokens or not closure._is_first():
            return
        if self.state.missing and not closure._errors:
            names = [self.structure.data[d] for d in self.state.requested if not self.state.released[d]]
            self._fail(closure, NotReadyError(f"the run ended without {names}: {self.why_not_ready(*names)}"))
        closure._flush(closure._errors[0] if closure._errors else None)

    def _quickly(self, vertex: GraphVertex) -> tuple[Callable[..., Any], list[int], int, tuple[int, ...]] | None:
        """Function, data read, data emitted and readers of a plain vertex; None where conditions or the like matter."""
        processor, structure = vertex.processor, self.structure
        if type(processor) is not FunctionProcessor or processor.several or len(vertex.outputs) != 1:
            return None
        (data,) = structure.outputs[vertex._number]
        readers = structure.plain[data]
        special = vertex._named or vertex._conditional or structure.counted[data] or structure.gates[data]
        if special or len(structure.producers[data]) > 1 or any(structure.picky[reader] for reader in readers):
            return None
        return processor.function, vertex._sources, data, readers

    def _submit_async(self, number: int) -> None:
        """Submits an `async def` vertex to the executor."""
        submit = getattr(self._executor, "submit_async", None)
        if submit is None:
            raise GraphError(f"vertex {self._vertices[number].name!r} is an `async def`; run with an AsyncioExecutor")
        submit(self._work_async, number)

    def _blocks(self) -> bool:
        """Whether waiting in this thread would block the run."""
        return bool(getattr(self._executor, "blocks", False))


CALLER = -1  # number of the caller of a run, in place of the number of a vertex or dependency


class Activation:
    """Counters and values of an instance.

    Attributes
    ----------
    left
        Tokens of each vertex: for the activation and for dependencies, until established.
    open
        Tokens of each dependency with a separate counter; none for dependencies that are only part of `left`.
    active, ended
        Vertices that this run needs; vertices that ran or were skipped.
    wanted, released
        Data that this run needs; data with a value.
    values
        Emitted values; None is empty.
    missing
        Tokens of requested data that are not released yet.

    Examples
    --------
    >>> from jmars.annex.flow.vertex import Edge
    >>> c_of_a_and_b = Structure(("a", "b", "c"), ("add",), (Edge(0, 0), Edge(0, 1)), ((2,),))
    >>> run = Activation(c_of_a_and_b)
    >>> run.release(0, 3), run.release(1, 4), run.request([2])
    ([], [], [0])
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        data, vertices = len(structure.data), len(structure.vertices)
        self.left = [*map(list.copy, structure.tokens)]
        self.open = [*map(list.copy, structure.edge_tokens)]
        self.active, self.ended = bytearray(vertices), bytearray(vertices)
        self.wanted, self.released, self.truth = bytearray(data), bytearray(data), bytearray(data)
        self.values: list[Any] = [None] * data
        self.claims: dict[int, tuple[int]] = {}  # emitter of each data
        self.firsts: dict[tuple[str, int], object] = {}  # steps done once in a run
        self.silent: dict[int, list[int]] = {}  # producers of each data that ended without emitting
        self.loans = Loans(structure)
        self.requested: dict[int, None] = {}
        self.missing: list[int] = []

    def reset(self) -> None:
        """Resets all state in place."""
        self.clear()
        self._refill(self.structure.tokens)

    def clear(self) -> None:
        """Drops values and flags, for `begin`; nothing draws tokens before."""
        data, vertices = len(self.values), len(self.left)
        self.left[:], self.open[:] = self.structure.tokens, self.structure.edge_tokens
        self.active[:] = self.ended[:] = bytes(vertices)
        self.wanted[:] = self.released[:] = self.truth[:] = bytes(data)
        self.values[:] = [None] * data
        for each in (self.claims, self.firsts, self.silent, self.loans.readers, self.requested, self.missing):
            each.clear()

    def _refill(self, left: Sequence[list[int]]) -> None:
        """Copies tokens to all counters."""
        self.left[:] = map(list.copy, left)
        self.open[:] = map(list.copy, self.structure.edge_tokens)

    @property
    def waiting(self) -> list[int]:
        """Counters of vertices: +1 for every dependency, as the vertex is activated, -1 as a dependency is ready."""
        tokens = zip(self.active, self.structure.tokens, self.left)
        return [len(all_of) * active - (len(all_of) - len(left)) for active, all_of, left in tokens]

    @property
    def count(self) -> list[int]:
        """Counters of dependencies with tokens: +1 or, if conditional, +2 for the activation, then falling."""
        tokens = zip(self.structure.edges, self.structure.edge_tokens, self.open)
        return [
            (min(len(all_of), 4) if self.active[edge.vertex] else 0) - (len(all_of) - len(left))
            for edge, all_of, left in tokens
        ]

    # Events: each method returns the vertices that can run from now on, each vertex once.

    def begin(self, given: Mapping[int, Any], data: Sequence[int]) -> list[int]:
        """Gives and requests data, in a fresh activation.

        The beginning of a graph without conditions and the like does not depend on values, so the last beginning is
        copied if the same data are given and requested.
        """
        key = (*given, None, *data)
        last = self.structure.begun[0]
        if last is not None and last[0] == key:
            _, left, active, wanted, released, ready = last
            self._refill(left)
            self.active[:], self.wanted[:], self.released[:] = active, wanted, released
            for number, value in given.items():
                self.claim(number, value)
            self._request(data)
            return list(ready)
        self._refill(self.structure.tokens)
        for number, value in given.items():
            self.release(number, value)
        ready = self.request(data)
        if self.structure.is_plain:
            left = [*map(list.copy, self.left)]
            flags = bytes(self.active), bytes(self.wanted), bytes(self.released)
            self.structure.begun[0] = (key, left, *flags, tuple(ready))
        return ready

    def request(self, data: Sequence[int]) -> list[int]:
        """Requests data: activates the vertices that lead to them, and no others.

        Raises
        ------
        NotReadyError
            If the data depend on a data without producer and without given value.
        """
        self._request(data)
        ready: list[int] = []
        for d in self.requested:
            if self.structure.loaned[d]:
                self.loans.take(d, CALLER)
        self._activate(list(self.requested)[::-1], ready)
        return self._without_skipped(ready)

    def _request(self, data: Sequence[int]) -> None:
        self.requested.update(dict.fromkeys(data))
        self.missing[:] = range(sum(not self.released[d] for d in self.requested))

    def claim(self, data: int, value: Any, vertex: int = CALLER) -> bool:
        """Stores the value that a vertex emits or the caller gives; `publish` must follow.

        Returns False, without effect, if the caller of the run gave the value: the given value holds.

        Raises
        ------
        GraphError
            If the data was emitted before in this run.
        """
        mark = (vertex,)
        first = self.claims.setdefault(data, mark)
        if first[0] == CALLER != vertex:
            return False
        if first is not mark:
            raise GraphError(
                f"data {self.structure.data[data]!r} was emitted before in this run; a data has one value, emitted once"
            )
        self.values[data] = value
        return True

    def release(self, data: int, value: Any) -> list[int]:
        """Stores and publishes a value given by the caller."""
        self.claim(data, value)
        return self.publish(data)

    def publish(self, data: int) -> list[int]:
        """Makes a claimed value visible to the readers."""
        ready: list[int] = []
        self._publish(data, ready)
        return self._without_skipped(ready)

    def finish(self, vertex: int) -> list[int]:
        """Ends a vertex: publishes its emitted data, and its other outputs as empty."""
        ready: list[int] = []
        self._end(vertex, ready)
        return self._without_skipped(ready)

    # Transitions.

    def _is_first(self, what: str, number: int) -> bool:
        """Whether the run asks for the first time; True for a single thread of several at once."""
        mark = object()
        return self.firsts.setdefault((what, number), mark) is mark

    def _activate(self, stack: list[int], ready: list[int]) -> None:
        """Activates data and, without recursion, all data that their producers need."""
        structure, edges, released = self.structure, self.structure.edges, self.released
        while stack:
            data = stack.pop()
            if self.wanted[data] or not self._is_first("wanted", data):
                continue
            self.wanted[data] = 1
            if released[data]:
                continue
            if not structure.producers[data]:
                raise NotReadyError(
                    f"data {structure.data[data]!r} has no producer and was not given; "
                    f"{path_to(self, data)}; pass it in `given`"
                )
            for vertex in structure.producers[data]:
                if self.active[vertex] or not self._is_first("active", vertex):
                    continue
                self.active[vertex] = 1
                stack += structure.needs[vertex][::-1]
                for e in structure.counts[vertex]:
                    condition = edges[e].condition
                    if self._draw(e, 2 if condition >= 0 else 1, ready):
                        continue
                    if condition >= 0 and not released[condition]:
                        stack.append(condition)
                    elif self.taken(e):
                        stack.append(edges[e].target)
                if not self.left[vertex].pop():
                    ready.append(vertex)

    def _publish(self, data: int, ready: list[int]) -> None:
        """Draws tokens of the dependencies that read a data, then of the dependencies with the data as condition."""
        structure, left = self.structure, self.left
        if not self._is_first("published", data):
            return
        holds = self.truth[data] = bool(structure.gates[data] and self.values[data])
        self.released[data] = 1
        if self.missing and data in self.requested:
            self.missing.pop()
        ready += [vertex for vertex in structure.plain[data] if not left[vertex].pop()]
        for e in structure.counted[data]:
            self._draw(e, 1, ready)
        triggered = []
        for e in structure.gates[data]:
            edge = structure.edges[e]
            taken = edge.expects == holds
            if not self._draw(e, 1 if taken else 2, ready) and taken and self.active[edge.vertex]:
                triggered.append(edge.target)
        self._activate(triggered, ready)

    def _draw(self, e: int, count: int, ready: list[int]) -> bool:
        """Draws tokens of a dependency; whether that establishes the dependency, which counts for the vertex."""
        tokens, edge = self.open[e], self.structure.edges[e]
        if 0 not in [tokens.pop() for _ in range(count)]:
            return False
        if self.structure.loaned[edge.target] and self.taken(e) and self.values[edge.target] is not None:
            self.loans.take(edge.target, e)
        if not self.left[edge.vertex].pop():
            ready.append(edge.vertex)
        return True

    def _end(self, vertex: int, ready: list[int]) -> None:
        """Publishes the outputs of an ended vertex; exclusive data are empty after their last silent producer."""
        self.ended[vertex] = 1
        for data in self.structure.outputs[vertex]:
            if self.released[data]:
                continue
            mark = self.claims.get(data)
            if mark is None:
                silent = self.silent.setdefault(data, [])
                silent.append(vertex)
                if len(silent) == len(self.structure.producers[data]):
                    mark = self.claims.setdefault(data, (vertex,))
            if mark is not None and mark[0] == vertex:
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
        self._errors: list[BaseException] = []  # in order of arrival
        self._tokens = [None]  # of threads in the run and of vertices that an executor has
        self._ends = [None]  # drawn by the thread that ends the run
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

    def _is_first(self) -> bool:
        """Whether this thread is the first to see that no token is left."""
        try:
            self._ends.pop()
        except IndexError:
            return False
        return True

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
