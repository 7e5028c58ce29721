"""Mutable borrowing of values: a single writer, or any number of readers.

`activation.Activation` asks as a dependency fires, in whatever order target and condition came, so only the actual
readers of a run count: two readers under opposite conditions never meet.
Source: baidu/babylon `anyflow/dependency.h` (`declare_mutable`).
"""

from __future__ import annotations

from jmars.errors import GraphError
from jmars.flow.build_time.graph_structure import Structure

__all__ = ["CALLER", "Loans"]

CALLER = -1  # in the place of a dependency: who requested the data and will read it after the run


class Loans:
    """Readers so far of the data that some dependency may write into."""

    __slots__ = ("readers", "structure")

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.readers: dict[int, list[int]] = {}  # data: dependencies

    def reset(self) -> None:
        """Return all loans."""
        self.readers.clear()

    def take(self, data: int, e: int) -> None:
        """Dependency `e` reads `data`.

        Raises
        ------
        GraphError
            If it and an earlier one do not go together.
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
        """Name of the vertex that reads through a dependency."""
        if e == CALLER:
            return "the caller of the run"
        return f"vertex {self.structure.vertices[self.structure.edges[e].vertex]!r}"
