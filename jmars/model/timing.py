"""Begin and end of operands in the four states of a worker, laid out from reports of batches.

ALLOCATING (waits for memory) and PREPARING_INPUTS (waits for chunks that are read back) pass while other operands
compute; CALCULATING and STORING of a worker never overlap. A batch reports the durations of all states after the last
operand, so the ends are known and the begins follow.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["STATES", "Spans", "spans"]

STATES = ("allocating", "preparing", "calculating", "storing")

Spans = NDArray[np.float64]  # shape (operands, 6): begins of the states, then the end, then the operand's number


def spans(time: float, data: Mapping[str, Any]) -> Spans:
    """Begin and end of operands of an `OperandsTimed` event in the four states.

    Parameters
    ----------
    time
        When the last one ended: of the event, in seconds.
    data
        `ids` and `microseconds` as docs/reference/events.md has them.

    Returns
    -------
    array, shape (operands, 6)
        When it began to allocate, to prepare, to calculate and to store, when it ended, and its number; in the order in
        which they ran. A state ends where the next one begins.

    Examples
    --------
    >>> import numpy as np
    >>> u4 = lambda *values: np.array(values, "<u4").tobytes()
    >>> data = {"ids": u4(7, 8), "microseconds": [b"", u4(0, 1_000_000), u4(2_000_000, 3_000_000), b""]}
    >>> spans(10.0, data).tolist()
    [[5.0, 5.0, 5.0, 7.0, 7.0, 7.0], [6.0, 6.0, 7.0, 10.0, 10.0, 8.0]]
    """
    ids = np.frombuffer(data["ids"], "<u4").astype(np.float64)
    n = len(ids)
    took = np.zeros((4, n))
    for row, packed in enumerate(list(data["microseconds"])[:4]):
        values = np.frombuffer(packed, "<u4")
        took[row, : len(values)] = values[:n] * 1e-6
    busy = took[2] + took[3]
    ends = time - (np.cumsum(busy[::-1])[::-1] - busy)
    found = np.empty((n, 6))
    found[:, 5], found[:, 4] = ids, ends
    found[:, 3] = ends - took[3]
    found[:, 2] = found[:, 3] - took[2]
    found[:, 1] = found[:, 2] - took[1]
    found[:, 0] = found[:, 1] - took[0]
    return found
