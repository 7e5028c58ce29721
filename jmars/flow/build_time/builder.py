"""`GraphBuilder`: adds vertices, declares dependencies and outputs, finishes the graph, and builds instances.

Source: docs/explanation/seeds.md, "GraphBuilder and Graph"; baidu/babylon, anyflow/builder.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from jmars.errors import GraphError
from jmars.flow.build_time import library
from jmars.flow.build_time.blueprint import GraphPlan, VertexPlan
from jmars.flow.build_time.checks import check
from jmars.flow.build_time.declare import VertexBuilder
from jmars.flow.build_time.expressions import add_expression
from jmars.flow.build_time.graph_structure import Edge, Structure
from jmars.flow.run_time.instance import Graph
from jmars.flow.run_time.processor import GraphProcessor, processor_of

__all__ = ["GraphBuilder"]


class GraphBuilder:
    """A graph under construction, mutable until `finish()`; then a factory of independent instances.

    Parameters
    ----------
    name
        Name of the graph, for errors.

    Examples
    --------
    >>> builder = GraphBuilder("price")
    >>> builder.input("amount", "member")
    >>> _full = builder.function(lambda amount: amount * 10, ["amount"], "full")
    >>> _less = builder.function(lambda full: full * 0.5, ["full"], "reduced")
    >>> _price = builder.select("price", "member", "reduced", "full")
    >>> graph = builder.finish().build()
    >>> graph.run("price", given={"amount": 3, "member": True}).result()
    15.0
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._vertices: dict[str, VertexBuilder] = {}
        self._inputs: dict[str, type] = {}
        self._exclusive: set[str] = set()
        self._expressions: dict[Any, str] = {}  # data that holds each part of an expression
        self._plan: GraphPlan | None = None

    # Declaring.

    def input(self, *names: str, type: type = object) -> None:
        """Declares inputs of the graph; a run is given the inputs that it needs."""
        self._check_open()
        for name in names:
            if name in self._inputs:
                raise GraphError(f"graph {self.name!r} has an input {name!r} already; declare each one once")
            self._inputs[name] = type

    def exclusive(self, data: str) -> None:
        """Lets several vertices emit a data, at most one vertex per run; the data is empty if no vertex does."""
        self._check_open()
        self._exclusive.add(data)

    def vertex(self, factory: Callable[[], GraphProcessor], name: str | None = None) -> VertexBuilder:
        """Adds a vertex; the returned `VertexBuilder` declares its dependencies and outputs.

        Parameters
        ----------
        factory
            A subclass of `GraphProcessor`, or a function without arguments that returns a processor; called for every
            instance.
        name
            Name of the vertex; None: derived from the factory's name.

        Raises
        ------
        GraphError
            If the graph is finished, the name is taken, or `factory` is a processor itself.
        """
        self._check_open()
        if isinstance(factory, GraphProcessor):
            raise GraphError(
                "a processor belongs to one vertex of one instance; give its class, or a function that makes one"
            )
        if name is None:
            stem = getattr(factory, "__name__", "vertex").strip("<>")
            name = self._free(stem)
        if name in self._vertices:
            raise GraphError(f"graph {self.name!r} has a vertex {name!r} already; give each one its own name")
        vertex = self._vertices[name] = VertexBuilder(name, factory, self._check_open)
        return vertex

    def function(
        self,
        function: Callable[..., Any],
        inputs: Sequence[str] | Mapping[str, str] = (),
        output: str | Sequence[str] = (),
        name: str | None = None,
    ) -> VertexBuilder:
        """Adds a vertex that calls a function, plain or `async`.

        Parameters
        ----------
        function
            Called with the values of its inputs; empty inputs are None. Returning None emits an empty value.
        inputs
            Names of data, passed by place; or a mapping from argument to data, passed by keyword.
        output
            Name of the returned data; a sequence of names for a function that returns several values.
        name
            Name of the vertex; None: derived from the function's name.
        """
        if isinstance(inputs, str):
            raise GraphError(f"inputs={inputs!r} is one text; give a list of names, as in [{inputs!r}]")
        several = not isinstance(output, str) and len(output) > 0
        stem = getattr(function, "__name__", "function").strip("<>")
        vertex = self.vertex(processor_of(function, several), self._free(stem) if name is None else name)
        if isinstance(inputs, Mapping):
            for argument, data in inputs.items():
                vertex.depend(data, argument)
        else:
            for data in inputs:
                vertex.depend(data)
        for data in [output] if isinstance(output, str) else output:
            vertex.emit(data)
        return vertex

    def const(self, data: str, value: Any) -> VertexBuilder:
        """Adds a data with the same value in every run."""
        return library.const(self, data, value)

    def alias(self, data: str, source: str) -> VertexBuilder:
        """Adds a second name for a data."""
        return library.alias(self, data, source)

    def select(self, data: str, condition: str, yes: str, no: str) -> VertexBuilder:
        """Adds a data that is either of two data; only the selected data is computed."""
        return library.select(self, data, condition, yes, no)

    def expression(self, text: str, output: str) -> None:
        """Adds a data computed by a formula such as `B > C ? D + 4 : E * 5`; only the taken branch is computed."""
        self._check_open()
        add_expression(self, self._expressions, text, output)

    # Finishing.

    def finish(self) -> Self:
        """Checks and freezes the graph; further calls have no effect.

        Raises
        ------
        GraphError
            If a data that is read has no producer or several, types clash, a mutable dependency reads a borrowed value,
            or vertices form a cycle.
        """
        if self._plan is None:
            for vertex in self._vertices.values():
                vertex.factory().config(vertex)
            vertices = list(self._vertices.values())
            check(self.name, vertices, self._inputs, self._exclusive)
            self._plan = _freeze(self.name, vertices, list(self._inputs))
        return self

    def build(self) -> Graph:
        """Builds a new instance with new processors; the instance does not refer to the builder.

        Raises
        ------
        GraphError
            If the graph is not finished.
        """
        return Graph(self._finished())

    @property
    def structure(self) -> Structure:
        """The structure that all instances share, once the graph is finished."""
        return self._finished().structure

    def _finished(self) -> GraphPlan:
        if self._plan is None:
            raise GraphError(f"graph {self.name!r} is not finished; call finish() before building instances")
        return self._plan

    def _check_open(self) -> None:
        """Raises if the graph is finished."""
        if self._plan is not None:
            raise GraphError(f"graph {self.name!r} is finished and cannot change; make a new GraphBuilder")

    def _free(self, stem: str) -> str:
        """An unused vertex name."""
        names = (f"{stem}_{k}" if k else stem for k in range(len(self._vertices) + 1))
        return next(name for name in names if name not in self._vertices)


def _freeze(name: str, vertices: Sequence[VertexBuilder], inputs: Sequence[str]) -> GraphPlan:
    """Names become numbers."""
    emitted = (output.data for vertex in vertices for output in vertex.emits)
    number = {data: place for place, data in enumerate(dict.fromkeys([*inputs, *emitted]))}
    edges: list[Edge] = []
    plans: list[VertexPlan] = []
    for place, vertex in enumerate(vertices):
        anonymous, named = [], {}
        for dependency in vertex.dependencies:
            if dependency.name is None:
                anonymous.append(len(edges))
            else:
                named[dependency.name] = len(edges)
            condition = -1 if dependency.condition is None else number[dependency.condition]
            level, mutable = dependency.essential_level, dependency.is_mutable
            edges.append(Edge(place, number[dependency.data], condition, dependency.expects, level, mutable))
        emits: dict[str | int, int] = {}
        for k, output in enumerate(vertex.emits):
            emits[k] = emits[output.data] = number[output.data]
        emits.update({output.name: number[output.data] for output in vertex.emits if output.name is not None})
        outputs = tuple(output.data for output in vertex.emits)
        plans.append(
            VertexPlan(vertex.name, vertex.factory, tuple(anonymous), named, outputs, emits, vertex.is_trivial)
        )
    rows = tuple(tuple(number[data] for data in plan.outputs) for plan in plans)
    structure = Structure(tuple(number), tuple(plan.name for plan in plans), tuple(edges), rows)
    return GraphPlan(name, structure, tuple(plans))
