"""`GraphProcessor`: the code of a vertex.

A processor belongs to a single vertex of a single instance, so it may keep state in its attributes; a plain function is
wrapped in a `FunctionProcessor`.
Source: docs/explanation/seeds.md, "GraphProcessor"; baidu/babylon, anyflow/vertex.h.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from jmars.errors import GraphError

if TYPE_CHECKING:
    from jmars.flow.build_time.declare import VertexBuilder
    from jmars.flow.run_time.nodes import GraphVertex

__all__ = ["FunctionProcessor", "GraphProcessor", "processor_of"]


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
        """Prepares the processor for its runs."""

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
