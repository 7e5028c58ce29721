"""Computes views of equal strides as lines of contiguous elements, with the elements between their rows.

The slices of a stencil lie at constant distances in arrays of one shape, so an expression of them is one of lines. Its
values at the elements between the rows mean nothing: the output must be a part of an array whose other elements are
written afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.expression import Expression
from jmars.kernels.float_errors import FloatErrors, unsure
from jmars.kernels.float_flags import clear_flags, is_flagged, recomputed, watched_flags
from jmars.kernels.numpy_backend import block_body
from jmars.kernels.pipeline import BUFFERS, LONE_BLOCK, Run, Stop, interrupted
from jmars.kernels.program import Elementwise
from jmars.kernels.scratch import scratch

__all__ = ["flat_pipeline", "flattened", "never_raises"]

Array = np.ndarray[Any, Any]
MOST = 1.25  # elements computed, the useless ones too, over those wanted


def flat_pipeline(middle: Elementwise, otherwise: Run, native: Callable[..., None] | None) -> Run:
    """Compile an expression of views; `otherwise` runs where their strides differ.

    Parameters
    ----------
    middle
        The expression; no value of it is reduced.
    otherwise
        The region compiled for any strides.
    native
        `compute(out, *parts)` by machine code; None: by NumPy, block by block.
    """
    slots, body = middle.inputs, block_body(middle.expression, middle.twin)
    size = BLOCK_SIZE if native is None else LONE_BLOCK
    flags = watched_flags(middle)
    again = recomputed(middle, apart=True)

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        lines = flattened([out, *(values[slot] for slot in slots)])
        if lines is None:
            otherwise(out, values, args, stop)
            return
        flagged = False
        for start in range(0, len(lines[0]), size):
            part, *parts = (line[start : start + size] for line in lines)
            if native is not None and flags:
                clear_flags(flags)
                native(part, *parts)
                flagged = flagged or is_flagged(flags)
            elif native is not None:
                native(part, *parts)
            else:
                shape = part.shape
                body.run(part, *parts, *[scratch(BUFFERS + k, shape, dtype) for k, dtype in enumerate(body.buffers)])
            if stop is not None and stop():
                raise interrupted()
        if flags and (flagged or _was_unsure()):
            again(values, [values[slot].shape for slot in slots])

    unsure(run)
    return run


def _was_unsure() -> bool:
    """Whether NumPy told the handler of an error that may be one of the elements between the rows."""
    handler = np.geterrcall()
    found = isinstance(handler, FloatErrors) and handler.unsure
    if isinstance(handler, FloatErrors):
        handler.unsure = False
    return found


def never_raises(expression: Expression) -> bool:
    """Whether no value of the elements between the rows can raise: text between them need be no number."""
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    return all(dtype.kind in "biufc" for dtype in dtypes) and not any(
        node.raises or node.ufunc is not None or (node.op == "power" and node.dtype.kind in "iu")
        for node in expression.nodes
    )


def flattened(arrays: Sequence[Array]) -> list[Array] | None:
    """Lines from the first to the last element of each array; None where the arrays' elements lie differently.

    Examples
    --------
    >>> a = np.arange(20.0).reshape(4, 5)
    >>> [line.tolist() for line in flattened([a[:2, 1:], a[2:, 1:]])]
    [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0]]
    """
    first = arrays[0]
    shape, itemsize = first.shape, first.itemsize
    if not first.size:
        return None
    gaps = [stride // itemsize for n, stride in zip(shape, first.strides) if n > 1]
    long = [axis for axis, n in enumerate(shape) if n > 1]
    length = 1 + sum((shape[axis] - 1) * gap for axis, gap in zip(long, gaps))
    if gaps[-1:] != [1] or min(gaps) < 1 or length > MOST * first.size:
        return None
    for array in arrays:
        if array.shape != shape or [array.strides[axis] for axis in long] != [gap * array.itemsize for gap in gaps]:
            return None
    make = np.lib.stride_tricks.as_strided
    return [make(array, (length,), (array.itemsize,)) for array in arrays]
