"""`GraphPlan`: the result of a finished builder, the frozen structure and a factory of each vertex's processor.

Instances refer to the plan and not to the builder, so the builder may be dropped.
Source: docs/explanation/seeds.md, "GraphBuilder and Graph".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jmars.errors import GraphError
from jmars.flow.build_time.graph_structure import Structure
from jmars.flow.run_time.processor import GraphProcessor

__all__ = ["GraphPlan", "VertexPlan"]


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
