"""Names and source lines of a stage's operands, as a `GraphBuilt` event tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jmars.model.record import record

__all__ = ["OperandNames"]


@record
class OperandNames:
    """Names and lines of the operands after fusion; lists by operand number.

    Attributes
    ----------
    names
        Kind of operand, as the view shows it.
    lines
        "line 3: y = x + 1"; "" without a line.

    Examples
    --------
    >>> names = OperandNames(("add", "sum"), ("line 1: y = x + 1", ""))
    >>> names.about(0), names.about(7)
    (('add', 'line 1: y = x + 1'), ('operand', ''))
    """

    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: Mapping[str, Any]) -> OperandNames:
        """Names and lines in the data of a `GraphBuilt` event."""
        labels, stages = graph["group_labels"], graph["stages"]
        names = [str(labels[k]) for k in np.frombuffer(graph["after_group"], "<u4").tolist()]
        lines = [""] * len(names)
        into = np.frombuffer(graph["before_group"], "<u4")
        for row, stage in zip(into.tolist(), np.frombuffer(graph["before_stage"], "<u4").tolist()):
            if row < len(lines) and stages[stage][2]:
                lines[row] = f"line {stages[stage][2]}: {stages[stage][3]}"
        return cls(tuple(names), tuple(lines))

    def about(self, operand: int) -> tuple[str, str]:
        """Name and line of an operand."""
        if operand >= len(self.names):
            return "operand", ""
        return self.names[operand] or "operand", self.lines[operand]
