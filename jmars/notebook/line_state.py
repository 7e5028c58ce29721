"""Folds events to costs by source line: seconds, bytes and states of the operands made by lines of a cell.

The seconds of a fused operand are split evenly among the operands that were fused, since a compiled kernel tells no
more. Rows are numbered once and keep their numbers for all jobs of the cell.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.model.states import STATE_NAMES
from jmars.model.timing import Spans
from jmars.notebook.cell_facts import MOST, CellFacts
from jmars.notebook.operand_table import OperandTable, summed
from jmars.notebook.view import CodeLine, plain_text

__all__ = ["LineState"]

_WIDTH = 6  # columns of costs: seconds in the four states of a worker, of these seconds of fused lines, bytes
_N_STATES = len(STATE_NAMES)


class LineState:
    """Lines of a cell, and lines elsewhere that made operands of its jobs, with costs.

    Attributes
    ----------
    code
        The lines: those of the cell in their order, then others as they appear.

    Examples
    --------
    >>> lines = LineState(CellFacts(file="cell.py", text=("a = np.ones(8)", "b = a + 1")))
    >>> [line["text"] for line in lines.code], lines.costs()[:, 4].tolist()
    (['a = np.ones(8)', 'b = a + 1'], [0.0, 0.0])
    """

    def __init__(self, cell: CellFacts) -> None:
        self.code: list[CodeLine] = []
        self._cell = cell
        self._row: dict[tuple[str, int], int] = {}  # by file and line
        self._costs = np.zeros((MOST, _WIDTH))
        self._past = np.zeros((MOST, _N_STATES), np.int64)  # operands of earlier stages and jobs by state
        self._table: OperandTable | None = None
        self._bits: NDArray[np.uint64] = np.zeros((1, 1), np.uint64)  # see `lines_of`; the last row is of no operand
        self._stage: tuple[str, int] = ("", 0)  # job and number of the stage of `_table`
        self._rows: NDArray[np.int16] = np.zeros(0, np.int16)  # of the members of the fused operands
        self._of_tensor = self._last = self._rows  # of the tensor operands; of each fused operand's output, -1 none
        self._nbytes: NDArray[np.int64] = np.zeros(0, np.int64)
        self._mixed: NDArray[np.bool_] = np.zeros(0, bool)
        for number, text in enumerate(cell.text, 1):
            if number > 1 or not text.startswith("# %%jmars"):
                self._number(cell.file, number, text, "")

    def begin_stage(self, table: OperandTable, job: str, number: int) -> None:
        """Follows the operands of a stage; operands of the stage before stay counted."""
        if self._table is not None and self._stage != (job, number):
            self._past += self._now()
        self._table, self._stage = table, (job, number)
        stages = [self._of_stage(stage) for stage in table.data["stages"]] or [self._number("", 0, "", "")]
        self._of_tensor = np.array(stages, np.int16)
        self._rows = self._of_tensor[table.tensor[table.members]]
        operand = table.group[table.members]
        self._last = np.full(table.n_after, -1, np.int16)
        self._last[operand] = self._rows  # the member that makes the output comes last
        self._mixed = np.zeros(table.n_after, bool)
        self._mixed[operand[self._rows != self._last[operand]]] = True
        words = len(self.code) // 64 + 1
        self._bits = np.zeros((table.n_after + 1, words), np.uint64)
        bit = np.left_shift(np.uint64(1), (self._rows % 64).astype(np.uint64))
        np.bitwise_or.at(self._bits.reshape(-1), operand * words + self._rows // 64, bit)
        nbytes = np.frombuffer(table.data.get("after_nbytes", b""), "<i8")
        self._nbytes = np.maximum(nbytes, 0) if len(nbytes) == table.n_after else np.zeros(table.n_after, np.int64)

    def timed(self, found: Spans) -> None:
        """Adds the times and bytes of operands that ended."""
        if self._table is None:
            return
        found = found[found[:, 5] < len(self._last)]
        ids = found[:, 5].astype(np.int64)
        first, last = self._table.member_ptr[ids], self._table.member_ptr[ids + 1]
        size = last - first
        place = np.arange(int(size.sum())) + np.repeat(first - (np.cumsum(size) - size), size)
        rows = self._rows[place]
        took = np.maximum(0.0, np.diff(found[:, :5].T, axis=0)) / np.maximum(size, 1)
        for column, each in enumerate([*took, took[2:].sum(0) * self._mixed[ids]]):
            self._costs[:, column] += np.bincount(rows, np.repeat(each, size), MOST)
        made = self._last[ids] >= 0
        self._costs[:, _WIDTH - 1] += np.bincount(self._last[ids][made], self._nbytes[ids][made], MOST)

    def lines_of(self, operands: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
        """Rows of the lines that made fused operands of the newest stage, as bits, shape (operands, words).

        Bit k of word w is set for row 64 w + k.
        """
        bits: NDArray[np.uint64] = self._bits[np.minimum(operands, len(self._bits) - 1)]
        return bits

    def costs(self) -> NDArray[np.float32]:
        """Costs by line, shape (lines, 15): see `Picture.line_costs`."""
        n = len(self.code)
        return np.column_stack([self._costs, self._past + self._now()])[:n].astype("<f4")

    def _now(self) -> NDArray[np.int64]:
        """Operands before fusion of the newest stage, by line and state; shape (MOST, states)."""
        if self._table is None:
            return np.zeros((MOST, _N_STATES), np.int64)
        return summed(self._table.tensor_counts, self._of_tensor, MOST)

    def _of_stage(self, stage: Any) -> int:
        name, file, line, text = stage[:4]
        return self._number(str(file or ""), int(line or 0), str(text or name), self._cell.name_of(str(file or "")))

    def _number(self, file: str, line: int, text: str, where: str) -> int:
        """Row of a new or known line."""
        key = (file, line)
        if key not in self._row:
            if len(self.code) >= MOST:
                return MOST - 1
            self._row[key] = len(self.code)
            full = len(self.code) == MOST - 1
            told: Mapping[str, Any] = {"line": 0, "text": "further lines"} if full else {"line": line, "text": text}
            shown = plain_text(str(told["text"]).rstrip().expandtabs(4), 200)
            self.code.append(CodeLine(file=plain_text(file), where=plain_text(where), line=told["line"], text=shown))
        return self._row[key]
