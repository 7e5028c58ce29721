"""Mutable borrowing of values: a value has a single reader that may write into it, or any number of read-only readers.

`Activation` checks a loan when a dependency fires, so only actual readers of a run count: readers under opposite
conditions never conflict.
Source: baidu/babylon, anyflow (`declare_mutable`).
"""

from __future__ import annotations

from jmars.errors import GraphError
from jmars.flow.build_time.graph_structure import Structure

__all__ = ["CALLER", "Loans"]

CALLER = -1  # in place of a dependency: the caller of the run, who reads requested data after the run


class Loans:
    """Readers so far of data with mutable dependencies."""

    __slots__ = ("readers", "structure")

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.readers: dict[int, list[int]] = {}  # data: dependencies

    def reset(self) -> None:
        """Forgets all readers."""
        self.readers.clear()

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
