"""Marks: the small squares that an opened box of a large graph shows, bounded however many operands there are.

A mark stands for an operand, or for a run of neighbouring operands if the box has too many. Such a mark shows the most
notable state among its operands, so that a failed operand is always visible.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.model.status import OperandState as S
from jmars.notebook.view import MAX_DRAWN, MAX_MARKS

# States, the least notable first.
NOTABLE = (S.FREED, S.FINISHED, S.SPILLED, S.CANCELLED, S.UNSCHEDULED, S.READY, S.RUNNING, S.CANCELLING, S.FATAL)
_TELLS = np.argsort(NOTABLE).astype(np.uint16)  # place of each state in that order

Told = NDArray[np.uint16]  # state of an operand (index in NOTABLE) and its worker, packed into a number


def notable(states: NDArray[np.integer[Any]], workers: NDArray[np.integer[Any]]) -> Told:
    """Numbers that are greater the more notable an operand's state is; `workers` are -1 where there is none yet."""
    told: Told = _TELLS[states] << 8 | np.clip(workers.astype(np.int32) + 1, 0, 255).astype(np.uint16)
    return told


class Marks:
    """The marks of all boxes.

    Parameters
    ----------
    box
        Number of the box of each operand, shape (operands,).
    n_boxes
        Boxes.
    most
        Marks of all boxes together at most, and no fewer than `n_boxes`; small boxes get as many as they have operands.
    operand
        Row in what `shown` takes of each operand of `box`; without it they are the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> marks = Marks(np.array([0, 0, 0, 0, 0, 1]), n_boxes=2, most=3)
    >>> marks.counts
    [2, 1]
    >>> states, workers = marks.shown(notable(np.array([3, 8, 3, 3, 2, 0]), np.array([0, 1, 0, 0, 1, -1])))
    >>> states.tolist(), workers.tolist()  # 0 and 1; 2, 3 and 4; 5
    ([8, 2, 0], [2, 2, 0])
    """

    def __init__(
        self,
        box: NDArray[np.integer[Any]],
        n_boxes: int,
        most: int = MAX_MARKS,
        operand: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        sizes = np.bincount(box, minlength=n_boxes)
        level = bisect_right(range(1, MAX_DRAWN + 1), most, key=lambda one: int(np.minimum(sizes, one).sum()))
        counts = np.minimum(sizes, max(1, level))
        self.counts: list[int] = counts.tolist()  # marks of each box
        order = np.argsort(box, kind="stable").astype(np.int32)
        self._order = order if operand is None else operand[order]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        runs = within * np.repeat(sizes, counts) // np.repeat(np.maximum(counts, 1), counts)
        self._first = np.repeat(np.cumsum(sizes) - sizes, counts) + runs  # place of each mark's first operand

    def shown(self, told: Told) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """State of each mark, and worker + 1 of an operand in that state (0: no worker yet).

        `told` are the numbers of all operands, as `notable` makes them.
        """
        if not len(self._first):
            return np.zeros(0, np.uint8), np.zeros(0, np.uint8)
        found = np.maximum.reduceat(told[self._order], self._first)
        return np.array(NOTABLE, np.uint8)[found >> 8], (found & 255).astype(np.uint8)
