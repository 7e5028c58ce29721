"""The code of a vertex.

A `GraphProcessor` belongs to a single vertex of a single graph instance, so it may keep state in its attributes; a
plain function is wrapped in a `FunctionProcessor`.
Source: docs/explanation/seeds.md, "GraphProcessor"; baidu/babylon `anyflow/vertex.h`.
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
    """The work of a vertex; override the methods that matter.

    `config` is called once, on an example, as the graph is finished; `setup` once for each instance; `process` once for
    each run that needs the vertex, never twice at a time; `reset` after it. `process` may be an `async def`, and the
    run then needs an `AsyncioExecutor`.

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
        """Check or complete the vertex's declaration; `finish()` raises the exceptions of this method."""

    def setup(self, vertex: GraphVertex) -> None:
        """Make ready for many runs."""

    def process(self, vertex: GraphVertex) -> Awaitable[None] | None:
        """Read `vertex.inputs` or `vertex.value(name)`, and `vertex.emit(...)`."""
        raise NotImplementedError(f"{type(self).__name__} has no process(); define it")

    def reset(self) -> None:
        """Forget the state of the last run."""


class FunctionProcessor(GraphProcessor):
    """Calls a function with the inputs, anonymous by place and named by keyword, and emits the results."""

    def __init__(self, function: Callable[..., Any], several: bool = False) -> None:
        self.function = function
        self.several = several  # the function gives one value for each output

    def process(self, vertex: GraphVertex) -> None:
        """Call the function."""
        self._emit(vertex, self.function(*vertex.inputs, **vertex.named))

    def _emit(self, vertex: GraphVertex, value: Any) -> None:
        """Emit the result, or a result for each of several outputs."""
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
    """The same with an `async def`."""

    async def process(self, vertex: GraphVertex) -> None:  # type: ignore[override]  # the engine asks which it is
        """Await it."""
        self._emit(vertex, await self.function(*vertex.inputs, **vertex.named))


def processor_of(function: Callable[..., Any], several: bool) -> Callable[[], GraphProcessor]:
    """Makes processors that call a function."""
    kind = AsyncFunctionProcessor if inspect.iscoroutinefunction(function) else FunctionProcessor
    return lambda: kind(function, several)
