"""Elements of small arrays in a cell, read and written one by one as NumPy's scalars, without a node for each.

`D[i, j] = min(D[i - 1, j], D[i, j - 1]) + cost[i, j]` in a loop would make five nodes a turn. Where the engine gives
the value of a small array, an element is read from the value, and a write makes a node of a new value. The steps of a
view are the same on the value as in NumPy (buffers.py), so a view reads and writes the value of its buffer.

Rows of an array of any size, read one after the other by a loop that looks at values in each turn, come with their
values: `RowReader` fetches them by the megabyte.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.tensor.buffers import Buffer, Place
from jmars.tensor.engine import can_compute, current_engine
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import TensorData, new_data

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["read_element", "rows", "truth", "write_element"]

Array = np.ndarray[Any, Any]
COPIED_FOR_AN_ELEMENT = 2**16  # bytes of an array that a write to an element copies
READ_AHEAD = 2**24  # bytes of rows that are read at once
LOOKED_AT = 2  # turns of a loop with a look at values, after which rows are read ahead
NUMBERS = bool | int | float | complex | np.generic


def read_element(x: Tensor, index: Any) -> Any:
    """An element as NumPy's scalar; None where the value of the array is not known, and for other indices.

    Raises
    ------
    IndexError
        NumPy's.
    """
    if not _is_element(x, index):
        return None
    place = x._place
    whole = _known(place, place.buffer.node)
    if whole is not None and (part := _part(place, whole)) is not None:
        return part[index]
    row = _known(place, place.node) if place.node is not place.buffer.node else None  # of a large array
    return None if row is None else row[index]


def write_element(x: Tensor, index: Any, value: Any) -> bool:
    """Write a number to an element; False where the value of the array is not known, and for other indices and values.

    Raises
    ------
    Exception
        NumPy's, for the index or the value.
    """
    if not _is_element(x, index) or not isinstance(value, NUMBERS) or not x._place.writeable:
        return False
    place, buffer = x._place, x._place.buffer
    known = _known(place, buffer.node)
    part = None if known is None or known.nbytes > COPIED_FOR_AN_ELEMENT else _part(place, whole := known.copy())
    if part is None:
        return False
    part[index] = value
    whole.flags.writeable = False
    node = buffer.node
    buffer.put(new_data(FromArray(array=whole, line=node.op.line), node.shape, node.dtype, node.chunks))
    return True


class RowReader(threading.local):
    """Reads rows ahead for a loop, such as `for row in x: if row.sum() > 0: ...`, after two turns with a look.

    In each thread a single loop at a time reads ahead. A write to the array makes another node, without known rows.
    """

    def __init__(self) -> None:
        self.looks = 0  # at values, by this thread
        self.forget()

    def forget(self) -> None:
        """Drop the rows that were read ahead."""
        self._of: weakref.ref[TensorData] | None = None
        self._last, self._looks, self._turns, self._start = -2, 0, 0, 0
        self._block: Array | None = None

    def row(self, x: Tensor, i: int) -> Array | None:
        """The value of `x[i]`; None where the loop has not looked at rows so far."""
        node = x.data
        if self._of is None or self._of() is not node:
            self.forget()
            self._of = weakref.ref(node, lambda _: self.forget())
        is_next = i == self._last + 1
        if not is_next:
            self._turns = 0
        elif self._block is None:  # rows with values give the loop no cause to ask for values
            self._turns = self._turns + 1 if self.looks > self._looks else 0
        self._last, self._looks = i, self.looks
        if self._block is None or not 0 <= i - self._start < len(self._block):
            self._block = None
            if self._turns < LOOKED_AT or not can_compute():
                return None
            length = max(1, READ_AHEAD // max(1, x.nbytes // len(x)))
            self._start, self._block = i, np.ascontiguousarray(x[i : i + length].fetch(copy=False))
        row: Array = self._block[i - self._start]
        return row


rows = RowReader()


def truth(x: Tensor) -> Any:
    """Python's bool of a tensor without axes where the engine computes the value at once; else the tensor."""
    engine = current_engine()
    value = engine.small(x.data, 0) if engine is not None and can_compute() else None
    return x if value is None else bool(value)


def _is_element(x: Tensor, index: Any) -> bool:
    """Whether an index is an int for each axis."""
    if index.__class__ is tuple:
        return 0 < len(index) == x.ndim and all(map(_is_int, index))
    return _is_int(index) and x.ndim == 1


def _is_int(entry: Any) -> bool:
    return entry.__class__ is int or isinstance(entry, np.integer)


def _known(place: Place, node: TensorData) -> Array | None:
    """The value of the node of a place or of its buffer, in C order; records have no scalars."""
    engine = current_engine()
    if engine is None or place.buffer.permuted or place.node.dtype.names is not None or not can_compute():
        return None
    place.buffer.touched += 1
    return engine.small(node, place.buffer.touched)


def _part(place: Place, whole: Array) -> Array | None:
    """The array of a place within the array of its buffer; None where the array would be a copy."""
    if isinstance(place, Buffer):
        return whole
    step, parent = place.step, _part(place.parent, whole)
    part = None if parent is None else step.layout(parent)
    return part if part is not None and np.may_share_memory(part, whole) else None
