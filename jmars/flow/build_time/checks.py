"""Checks a graph when it is finished, so that runs cannot hang.

Source: docs/explanation/seeds.md, "Data nodes and compute nodes".
"""

from __future__ import annotations

import difflib
import graphlib
from collections.abc import Mapping, Sequence

from jmars.errors import GraphError
from jmars.flow.build_time.declare import EmitBuilder, VertexBuilder

__all__ = ["check"]


def check(graph: str, vertices: Sequence[VertexBuilder], inputs: Mapping[str, type], exclusive: set[str]) -> None:
    """Raises the first error found in a graph.

    Raises
    ------
    GraphError
        If a data that is read has no producer or several, types clash, a mutable dependency reads a borrowed value, or
        vertices form a cycle.
    """
    producers: dict[str, list[tuple[VertexBuilder, EmitBuilder]]] = {}
    for vertex in vertices:
        for output in vertex.emits:
            producers.setdefault(output.data, []).append((vertex, output))
    _check_producers(graph, producers, inputs, exclusive)
    for vertex in vertices:
        _check_dependencies(graph, vertex, producers, inputs)
    _check_order(graph, vertices, producers)


def _check_producers(
    graph: str,
    producers: Mapping[str, Sequence[tuple[VertexBuilder, EmitBuilder]]],
    inputs: Mapping[str, type],
    exclusive: set[str],
) -> None:
    for data, found in producers.items():
        names = " and ".join(repr(vertex.name) for vertex, _ in found)
        if data in inputs:
            raise GraphError(f"data {data!r} of graph {graph!r} is an input and emitted by {names}; it has one source")
        if len(found) > 1 and data not in exclusive:
            raise GraphError(
                f"data {data!r} of graph {graph!r} is emitted by {names}; a data has one producer: give each its own "
                f"data and select() between them, or declare builder.exclusive({data!r}) if one at most emits in a run"
            )


def _check_dependencies(
    graph: str,
    vertex: VertexBuilder,
    producers: Mapping[str, Sequence[tuple[VertexBuilder, EmitBuilder]]],
    inputs: Mapping[str, type],
) -> None:
    for dependency in vertex.dependencies:
        for data in (dependency.data, dependency.condition):
            if data is not None and data not in producers and data not in inputs:
                near = difflib.get_close_matches(data, [*producers, *inputs], n=1)
                raise GraphError(
                    f"vertex {vertex.name!r} of graph {graph!r} reads {data!r}, which no vertex emits and which is no "
                    f"input; {f'is {near[0]!r} meant?' if near else f'declare builder.input({data!r})'}"
                )
        sources = [(producer.name, output.type) for producer, output in producers.get(dependency.data, ())]
        if dependency.data in inputs:
            sources = [("the input", inputs[dependency.data])]
        for name, kind in sources:
            if kind not in (None, object) and not issubclass(kind, dependency.type):
                raise GraphError(
                    f"vertex {vertex.name!r} of graph {graph!r} takes {dependency.data!r} as "
                    f"{dependency.type.__name__} and {name} gives {kind.__name__}; declare types that agree"
                )
        if dependency.is_mutable and any(output.borrowed for _, output in producers.get(dependency.data, ())):
            raise GraphError(
                f"vertex {vertex.name!r} of graph {graph!r} reads {dependency.data!r} as mutable, and its value "
                "belongs to another data (alias, select, const); depend on that one, or copy"
            )


def _check_order(
    graph: str,
    vertices: Sequence[VertexBuilder],
    producers: Mapping[str, Sequence[tuple[VertexBuilder, EmitBuilder]]],
) -> None:
    before: dict[str, list[str]] = {}
    for vertex in vertices:
        data = [name for d in vertex.dependencies for name in (d.data, d.condition) if name is not None]
        before[vertex.name] = [producer.name for name in data for producer, _ in producers.get(name, ())]
    try:
        graphlib.TopologicalSorter(before).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(map(repr, error.args[1]))
        raise GraphError(f"vertices of graph {graph!r} need one another: {circle}; a graph has no circle") from None
