"""A vertex at run time: processor, dependencies, data and channels by name, and executors, which call vertices.

A `GraphProcessor` is the code of a vertex. It belongs to a single vertex of a single instance, so it may keep state in
its attributes; a plain function is wrapped in a `FunctionProcessor`.

A processor receives a `GraphVertex`, a view of the instance; the state is in the instance's `Activation`, as rows.

A `Channel` is a value that arrives in parts; readers start when the channel opens, not when it is complete.
`GraphVertex.open` makes a channel. Every reader gets all items from the first on. A channel is unbounded, so a
publisher never waits; under an inline executor the reader runs after the publisher and finds all items.

An executor has `submit(work, vertex)`; the executors of `concurrent.futures` qualify too. `None` is the inline
executor. `async def` vertices need `submit_async`.

`GraphPlan` is the result of a finished builder: the frozen structure and a factory per vertex's processor. Instances
refer to the plan and not to the builder, so the builder may be dropped. `Structure` has the frozen rows of a graph that
all instances share. `GraphBuilder.finish` makes a `Structure`; `Activation` walks the rows. Data, vertices and
dependencies are numbers; a row is a tuple, so an instance holds only its counters and values.
Source: docs/explanation/seeds.md, "GraphBuilder and Graph", "GraphProcessor", "GraphVertex, GraphDependency and
GraphData"; baidu/babylon, anyflow/vertex.h; baidu/babylon, anyflow (channels on `ConcurrentTransientTopic`,
`InplaceGraphExecutor`, `ThreadPoolGraphExecutor`).
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from jmars.errors import GraphError

if TYPE_CHECKING:
    from jmars.annex.flow.builder import VertexBuilder
    from jmars.annex.flow.instance import Graph


@dataclass(frozen=True)
class VertexPlan:
    """A vertex: the factory of the processor, and dependencies and outputs by name."""

    name: str
    factory: Callable[[], GraphProcessor]  # called once for each instance
    anonymous: tuple[int, ...]  # dependencies without a name, in the order of declaration
    named: dict[str, int]  # dependencies with a name
    outputs: tuple[str, ...]  # data
    emits: dict[str | int, int]  # data number by the output's name, the data's name, and place
    trivial: bool  # too small to be worth an executor

    def edge(self, which: str | int) -> int:
        """Number of a dependency, by name or place."""
        try:
            return self.named[which] if isinstance(which, str) else self.anonymous[which]
        except LookupError:
            raise GraphError(
                f"vertex {self.name!r} has no dependency {which!r}; it has {len(self.anonymous)} anonymous ones and "
                f"{sorted(self.named)}"
            ) from None

    def output(self, which: str | int) -> int:
        """The number of an output's data."""
        try:
            return self.emits[which]
        except LookupError:
            raise GraphError(f"vertex {self.name!r} has no output {which!r}; it emits {list(self.outputs)}") from None


@dataclass(frozen=True)
class GraphPlan:
    """A graph that can be built any number of times."""

    name: str
    structure: Structure
    vertices: tuple[VertexPlan, ...]

    def data(self, name: str) -> int:
        """The number of a data."""
        try:
            return self.structure.number[name]
        except LookupError:
            raise GraphError(
                f"graph {self.name!r} has no data {name!r}; "
                f"it has {', '.join(map(repr, self.structure.data)) or 'none'}"
            ) from None


NEVER, WHEN_TAKEN, ALWAYS = 0, 1, 2  # when an empty input skips its vertex

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Edge:
    """A dependency: `vertex` reads `target` if the truth of `condition` is `expects`."""

    vertex: int
    target: int
    condition: int = -1  # a data, -1 for an unconditional dependency
    expects: bool = True  # truth of the condition for which the target is read
    essential: int = NEVER
    mutable: bool = False


@dataclass(frozen=True)
class Structure:
    """Dependencies and outputs of all vertices, as rows.

    Parameters
    ----------
    data, vertices
        Names; a data's or vertex's number is its place.
    edges
        Dependencies of all vertices; dependencies of a vertex in order of declaration.
    outputs
        Data that each vertex emits.
    """

    data: tuple[str, ...]
    vertices: tuple[str, ...]
    edges: tuple[Edge, ...]
    outputs: Rows
    number: dict[str, int] = field(init=False)  # of a data
    producers: Rows = field(init=False)  # vertices that emit each data
    depends: Rows = field(init=False)  # dependencies of each vertex
    loaned: bytes = field(init=False)  # data with a mutable dependency, whose readers are checked
    plain: Rows = field(init=False)  # unconditional readers of each data, once per dependency
    needs: Rows = field(init=False)  # data that each vertex reads unconditionally
    counted: Rows = field(init=False)  # dependencies on each data with a separate counter
    counts: Rows = field(init=False)  # dependencies of each vertex with a separate counter
    gates: Rows = field(init=False)  # dependencies with each data as condition
    picky: bytes = field(init=False)  # vertices with an essential dependency
    tokens: list[list[int]] = field(init=False)  # of each vertex's counter, as a run begins
    edge_tokens: list[list[int]] = field(init=False)  # of each dependency's counter
    is_plain: bool = field(init=False)  # no dependency is conditional, mutable or essential
    begun: list[Any] = field(init=False)  # the last beginning of a run of a plain graph

    def __post_init__(self) -> None:
        n, v, edges = len(self.data), len(self.vertices), self.edges
        loaned = bytearray(n)
        for edge in edges:
            loaned[edge.target] |= edge.mutable
        own = [edge.condition >= 0 or loaned[edge.target] for edge in edges]
        ids = range(len(edges))
        rows = {
            "producers": _rows(n, ((d, vertex) for vertex, row in enumerate(self.outputs) for d in row)),
            "depends": _rows(v, ((edges[e].vertex, e) for e in ids)),
            "plain": _rows(n, ((edges[e].target, edges[e].vertex) for e in ids if not own[e])),
            "needs": _rows(v, ((edges[e].vertex, edges[e].target) for e in ids if not own[e])),
            "counted": _rows(n, ((edges[e].target, e) for e in ids if own[e])),
            "counts": _rows(v, ((edges[e].vertex, e) for e in ids if own[e])),
            "gates": _rows(n, ((edges[e].condition, e) for e in ids if edges[e].condition >= 0)),
        }
        picky = bytearray(v)
        for edge in edges:
            picky[edge.vertex] |= edge.essential != NEVER
        for name, value in {
            **rows,
            "number": {name: number for number, name in enumerate(self.data)},
            "loaned": bytes(loaned),
            "picky": bytes(picky),
            "tokens": [list(range(len(row) + 1)) for row in rows["depends"]],
            "edge_tokens": [
                [-1, 0, 1, 2, 3] if edge.condition >= 0 else [0, 1] if own[e] else [] for e, edge in enumerate(edges)
            ],
            "is_plain": not any(own) and not any(picky),
            "begun": [None],
        }.items():
            object.__setattr__(self, name, value)


def _rows(n: int, pairs: Iterable[tuple[int, int]]) -> Rows:
    """Groups (row, value) pairs into `n` rows, in the given order."""
    rows: Sequence[list[int]] = [[] for _ in range(n)]
    for row, value in pairs:
        rows[row].append(value)
    return tuple(map(tuple, rows))


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

    A thread that ends a vertex goes on with the first vertex that can run thereby; further threads take the rest.

    Parameters
    ----------
    threads
        Number of vertices that may run at a time.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise GraphError(f"{threads} threads can run no vertex; give 1 or more")
        self._queue: SimpleQueue[tuple[Callable[[int], None], int] | None] = SimpleQueue()
        self._open = Lock()  # so that nothing is queued behind the end of the queue
        self._end = weakref.finalize(self, _end_threads, self._queue, threads)
        self._threads = [
            Thread(target=_take_turns, args=(self._queue,), name=f"jmars-flow_{k}", daemon=True) for k in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Queues the vertex."""
        with self._open:
            if not self._end.alive:
                raise RuntimeError("this executor takes no vertices after its shutdown; close it after the last run")
            self._queue.put((work, vertex))

    def close(self) -> None:
        """Runs queued vertices, then ends the threads; later submissions are refused and end their runs."""
        with self._open:
            self._end()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _take_turns(queue: SimpleQueue[tuple[Callable[[int], None], int] | None]) -> None:
    """Runs queued vertices until the end of the queue; a thread of a pool."""
    while (job := queue.get()) is not None:
        job[0](job[1])
        del job  # the last vertex's graph is not kept while the thread waits


def _end_threads(queue: SimpleQueue[Any], threads: int) -> None:
    for _ in range(threads):
        queue.put(None)


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


class GraphData:
    """A data of an instance, with the value in the current run."""

    __slots__ = ("_graph", "_number", "name")

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph, self._number = graph, number
        self.name = graph.structure.data[number]

    @property
    def ready(self) -> bool:
        """Whether the data was emitted or given, empty data included."""
        return bool(self._graph.state.released[self._number])

    @property
    def empty(self) -> bool:
        """Whether the data is ready and has no value."""
        return self.ready and self.value is None

    @property
    def active(self) -> bool:
        """Whether the current run needs the data."""
        return bool(self._graph.state.wanted[self._number])

    @property
    def value(self) -> Any:
        """The value; None if the data is not ready, or empty."""
        return self._graph.state.values[self._number]


class GraphDependency:
    """A dependency of a vertex of an instance."""

    __slots__ = ("_graph", "_number")

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph, self._number = graph, number

    @property
    def target(self) -> GraphData:
        """The data that the dependency reads."""
        return GraphData(self._graph, self._graph.structure.edges[self._number].target)

    @property
    def condition(self) -> GraphData | None:
        """The condition; None for an unconditional dependency."""
        number = self._graph.structure.edges[self._number].condition
        return GraphData(self._graph, number) if number >= 0 else None

    @property
    def taken(self) -> bool:
        """Whether the condition holds; True without condition."""
        return self._graph.state.taken(self._number)

    @property
    def value(self) -> Any:
        """The value for the vertex; None if the target is empty or the dependency not taken."""
        return self._graph.state.value(self._number)


class GraphVertex:
    """A vertex of an instance, as the processor sees it."""

    __slots__ = (
        "_channels",
        "_conditional",
        "_graph",
        "_named",
        "_number",
        "_plan",
        "_sources",
        "outputs",
        "processor",
    )

    def __init__(self, graph: Graph, number: int, plan: VertexPlan, processor: GraphProcessor) -> None:
        self._graph, self._number, self._plan = graph, number, plan
        self.processor = processor
        self.outputs = plan.outputs  # names of the emitted data
        edges = graph.structure.edges
        self._conditional = any(edges[e].condition >= 0 for e in (*plan.anonymous, *plan.named.values()))
        self._sources = [edges[e].target for e in plan.anonymous]
        self._named = {name: edges[e].target for name, e in plan.named.items()}
        self._channels: list[Channel] = []

    @property
    def name(self) -> str:
        """Name in the graph."""
        return self._plan.name

    @property
    def inputs(self) -> list[Any]:
        """Values of the anonymous dependencies, in order of declaration; None for empty inputs."""
        state = self._graph.state
        if self._conditional:
            return [state.value(e) for e in self._plan.anonymous]
        values = state.values
        return [values[d] for d in self._sources]

    @property
    def named(self) -> dict[str, Any]:
        """Values of the named dependencies."""
        state = self._graph.state
        if self._conditional:
            return {name: state.value(e) for name, e in self._plan.named.items()}
        return {name: state.values[d] for name, d in self._named.items()}

    def value(self, name: str) -> Any:
        """Value of a named dependency; None if empty or not taken."""
        return self.dependency(name).value

    def dependency(self, which: str | int) -> GraphDependency:
        """A dependency by name, or an anonymous dependency by place."""
        return GraphDependency(self._graph, self._plan.edge(which))

    def emit(self, value: Any, output: str | int = 0) -> None:
        """Emits the value of an output; readers may start at once, while this vertex goes on.

        Parameters
        ----------
        value
            The value; None emits an empty value.
        output
            Name or place of the output.

        Raises
        ------
        GraphError
            If the output does not exist, was emitted before in this run, or the vertex is not running.
        """
        self._graph._emit(self._number, self._plan.output(output), value)

    def _leave(self, value: Any, output: int = 0) -> None:
        """Emits as the last act of `process`: cheaper, since readers are notified with the vertex's end."""
        self._graph._emit(self._number, self._plan.output(output), value, last=True)

    def open(self, output: str | int = 0) -> Channel:
        """Emits a channel: readers start now and get items as they are published.

        The channel is closed when the vertex ends, if not before.
        """
        channel = Channel()
        self._channels.append(channel)
        self.emit(channel, output)
        return channel

    def _close(self, error: BaseException | None = None) -> None:
        """Closes all channels of an ended vertex."""
        for channel in self._channels:
            channel.close(error)
        self._channels.clear()

    def __repr__(self) -> str:
        return f"<GraphVertex {self.name!r}>"


class Channel:
    """A stream of items in the order of publication; thread-safe.

    Examples
    --------
    >>> channel = Channel()
    >>> channel.publish(1), channel.publish(2), channel.close()
    (None, None, None)
    >>> list(channel), list(channel)
    ([1, 2], [1, 2])
    """

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._changed = Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._wakers: list[Callable[[], object]] = []  # of readers in event loops

    def publish(self, item: Any) -> None:
        """Appends an item.

        Raises
        ------
        GraphError
            If the channel is closed.
        """
        with self._changed:
            if self._closed:
                raise GraphError("this channel is closed, as its vertex ended or closed it; publish before that")
            self._items.append(item)
            self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Ends the stream; readers raise `error` after the last item. Further calls have no effect."""
        with self._changed:
            if not self._closed:
                self._closed, self._error = True, error
                self._wake()

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while True:
            with self._changed:
                if place == len(self._items) and not self._closed:
                    _refuse_to_block_a_loop()
                    while place == len(self._items) and not self._closed:
                        self._changed.wait()
                items = self._items[place:]
                ended = self._closed
            yield from items
            place += len(items)
            if ended:
                break
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[Any]:
        place = 0
        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                items, ended = self._items[place:], self._closed
                if not items and not ended:
                    news = asyncio.Event()
                    self._wakers.append(partial(loop.call_soon_threadsafe, news.set))
            for item in items:
                yield item
            place += len(items)
            if ended:
                break
            if not items:
                await news.wait()
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        """Wakes all readers; called with the lock held."""
        self._changed.notify_all()
        for wake in self._wakers:
            wake()
        self._wakers.clear()


def _refuse_to_block_a_loop() -> None:
    """Raises in an event loop, where a plain `for` would block the publisher."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise GraphError("a channel is read with a plain `for` in an event loop; read it with `async for`")


class GraphProcessor:
    """The code of a vertex; subclasses override the methods they need.

    `config` is called on a sample processor as the graph is finished; `setup` once per instance; `process` once per run
    that needs the vertex, never concurrently; `reset` afterwards. `process` may be an `async def`; the run then needs
    an `AsyncioExecutor`.

    Examples
    --------
    >>> from jmars.flow import GraphBuilder
    >>> class Count(GraphProcessor):
    ...     def setup(self, vertex):
    ...         self.runs = 0
    ...     def process(self, vertex):
    ...         self.runs += 1
    ...         vertex.emit(self.runs)
    >>> builder = GraphBuilder()
    >>> _vertex = builder.vertex(Count).emit("runs")
    >>> graph, other = builder.finish().build(), builder.build()
    >>> graph.run("runs").result(), graph.reset(), graph.run("runs").result(), other.run("runs").result()
    (1, None, 2, 1)
    """

    def config(self, vertex: VertexBuilder) -> None:
        """Checks or completes the vertex's declaration; exceptions propagate from `finish()`."""

    def setup(self, vertex: GraphVertex) -> None:
        """Prepares the processor for all runs."""

    def process(self, vertex: GraphVertex) -> Awaitable[None] | None:
        """Reads `vertex.inputs` or `vertex.value(name)` and calls `vertex.emit(...)`."""
        raise NotImplementedError(f"{type(self).__name__} has no process(); define it")

    def reset(self) -> None:
        """Discards the state of a run."""


class FunctionProcessor(GraphProcessor):
    """Calls a function with anonymous inputs by place and named inputs by keyword, and emits the result."""

    def __init__(self, function: Callable[..., Any], several: bool = False) -> None:
        self.function = function
        self.several = several  # the function returns a value for each output

    def process(self, vertex: GraphVertex) -> None:
        """Calls the function."""
        self._emit(vertex, self.function(*vertex.inputs, **vertex.named))

    def _emit(self, vertex: GraphVertex, value: Any) -> None:
        """Emits the result, or the results of several outputs."""
        if not self.several:
            if vertex.outputs:
                vertex._leave(value)
            return
        values = tuple(value)
        if len(values) != len(vertex.outputs):
            raise GraphError(
                f"the function of vertex {vertex.name!r} gave {len(values)} values for {len(vertex.outputs)} outputs; "
                "return one for each"
            )
        for place, each in enumerate(values):
            vertex._leave(each, place)


class AsyncFunctionProcessor(FunctionProcessor):
    """Calls an `async def` function."""

    async def process(self, vertex: GraphVertex) -> None:  # type: ignore[override]  # the engine asks which it is
        """Awaits the function."""
        self._emit(vertex, await self.function(*vertex.inputs, **vertex.named))


def processor_of(function: Callable[..., Any], several: bool) -> Callable[[], GraphProcessor]:
    """Returns a factory of processors that call a function."""
    kind = AsyncFunctionProcessor if inspect.iscoroutinefunction(function) else FunctionProcessor
    return lambda: kind(function, several)
