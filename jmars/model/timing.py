"""Begin and end of operands in the four states of a worker, laid out from reports of batches.

ALLOCATING (waits for memory) and PREPARING_INPUTS (waits for chunks that are read back) pass while other operands
compute; CALCULATING and STORING of a worker never overlap. A batch reports the durations of all states after the last
operand, so the ends are known and the begins follow.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    return spans_of([(time, data)])


def spans_of(events: Sequence[tuple[float, Mapping[str, Any]]]) -> Spans:
    """`spans` of several events, one below the other: (time, data) of each, as vectors over all operands.

    Examples
    --------
    >>> import numpy as np
    >>> second = np.array([1_000_000], "<u4").tobytes()
    >>> data = {"ids": np.array([7], "<u4").tobytes(), "microseconds": [b"", b"", second, b""]}
    >>> spans_of([(10.0, data), (12.0, data)])[:, 2:].tolist()
    [[9.0, 10.0, 10.0, 7.0], [11.0, 12.0, 12.0, 7.0]]
    """
    packed = [data["ids"] for _, data in events]
    ids = np.frombuffer(b"".join(packed), "<u4")
    lengths = [len(one) for one in packed]
    size = np.array(lengths, np.int64) // 4
    took = np.zeros((4, len(ids)))
    for row, told in zip(took, zip_longest(*[data["microseconds"] for _, data in events], fillvalue=b"")):
        if any(told):  # else no time was reported, as of most waits
            row[:] = np.frombuffer(b"".join(map(_filled, told, lengths)), "<u4")
    took *= 1e-6
    busy = took[2] + took[3]
    after = np.concatenate([[0.0], np.cumsum(busy)])  # seconds until the end of an operand, from the first event on
    last = np.repeat(after[np.cumsum(size)], size)  # the same for the last operand of its event
    found = np.empty((len(ids), 6))
    found[:, 5], found[:, 4] = ids, np.repeat([time for time, _ in events], size) - (last - after[1:])
    found[:, 3] = found[:, 4] - took[3]
    found[:, 2] = found[:, 3] - took[2]
    found[:, 1] = found[:, 2] - took[1]
    found[:, 0] = found[:, 1] - took[0]
    return found


def _filled(told: bytes, n: int) -> bytes:
    """Microseconds of a state as `n` bytes, one number for each operand; 0 where no time was reported."""
    return told if len(told) == n else told[:n].ljust(n, b"\0")


def bytes_to_read(graph: Mapping[str, Any]) -> int:
    """Bytes that all operands of a `GraphBuilt` event read from files and other sources."""
    reads = np.array(graph.get("group_reads", ()), np.int64)
    return int(reads[np.frombuffer(graph["after_group"], "<u4")].sum()) if reads.any() else 0
