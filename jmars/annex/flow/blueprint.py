"""`GraphPlan`: the result of a finished builder, the frozen structure and a factory of each vertex's processor.

Instances refer to the plan and not to the builder, so the builder may be dropped.

`Structure` has the frozen rows of a graph that all instances share. `GraphBuilder.finish` makes a `Structure`;
`Activation` walks the rows. Data, vertices and dependencies are numbers; a row is a tuple, so an instance holds only
its counters and values.
Source: docs/explanation/seeds.md, "GraphBuilder and Graph".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jmars.errors import GraphError

if TYPE_CHECKING:
    from jmars.annex.flow.vertex import GraphProcessor


@dataclass(frozen=True)
class VertexPlan:
    """A vertex: the factory of its processor, and its dependencies and outputs by name."""

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
        }.items():
            object.__setattr__(self, name, value)


def _rows(n: int, pairs: Iterable[tuple[int, int]]) -> Rows:
    """Groups (row, value) pairs into `n` rows, in the given order."""
    rows: Sequence[list[int]] = [[] for _ in range(n)]
    for row, value in pairs:
        rows[row].append(value)
    return tuple(map(tuple, rows))
