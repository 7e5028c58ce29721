"""Ready-made vertices: const, alias, select. All are trivial: they pass a value on.

Source: baidu/babylon, anyflow/builtin/{const,alias,select}.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jmars.flow.run_time.processor import FunctionProcessor, GraphProcessor

if TYPE_CHECKING:
    from jmars.flow.build_time.builder import GraphBuilder
    from jmars.flow.build_time.declare import VertexBuilder
    from jmars.flow.run_time.nodes import GraphVertex

__all__ = ["alias", "const", "select"]


class _Select(GraphProcessor):
    """Emits the value of the taken dependency."""

    def process(self, vertex: GraphVertex) -> None:
        """Emits the first dependency if its condition holds, else the second."""
        vertex.emit(vertex.dependency(0 if vertex.dependency(0).taken else 1).value)


def const(builder: GraphBuilder, data: str, value: Any) -> VertexBuilder:
    """Adds a vertex that emits `value`."""
    return builder.vertex(lambda: FunctionProcessor(lambda: value), f"const {data}").emit(data, borrowed=True).trivial()


def alias(builder: GraphBuilder, data: str, source: str) -> VertexBuilder:
    """Adds a vertex that emits the value of `source`."""
    vertex = builder.vertex(lambda: FunctionProcessor(lambda value: value), f"alias {data}")
    vertex.depend(source)
    return vertex.emit(data, borrowed=True).trivial()


def select(builder: GraphBuilder, data: str, condition: str, yes: str, no: str) -> VertexBuilder:
    """Adds a vertex that emits the value of `yes` if `condition` is true, else the value of `no`."""
    vertex = builder.vertex(_Select, f"select {data}")
    vertex.depend(yes).on(condition)
    vertex.depend(no).unless(condition)
    return vertex.emit(data, borrowed=True).trivial()
