"""Divides a reduction to few elements into two: to some thousand parts first, then of the parts.

CuPy's loop has a block of threads for each few elements of the output, so that a sum of all would use one of a GPU's
hundred processors. Its other loop, by CUB, takes NVRTC 3 s to compile on first use.
Source: `cupy/_core/_reduction.pyx` (`_get_block_specs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["Reduction", "split_reduction"]

PARTS = 4096  # elements of an output that keep a GPU busy
LEAST = 512  # elements of a part: as many as a block of threads


class Reduction(NamedTuple):
    """Inputs of equal shapes, reduced along axes, which `out` keeps with length 1."""

    out: Any
    inputs: Sequence[Any]
    axes: tuple[int, ...]


def split_reduction(whole: Reduction, empty: Callable[..., Any]) -> tuple[list[Reduction], Reduction] | None:
    """Reductions to parts, and that of the parts; None for a reduction that keeps a GPU busy.

    `empty` makes an array of a shape and dtype.

    Examples
    --------
    >>> import numpy as np
    >>> x, out = np.arange(10**6), np.empty((1,), int)
    >>> first, last = split_reduction(Reduction(out, [x], (0,)), np.empty)
    >>> [one.inputs[0].shape for one in (*first, last)]
    [(1953, 512), (64,), (1954,)]
    """
    out, inputs, axes = whole
    shape = inputs[0].shape
    if len(axes) == len(shape):
        out, inputs, axes, shape = out.reshape(1), [one.reshape(-1) for one in inputs], (0,), (math.prod(shape),)
    axis = max(axes, key=lambda one: shape[one])
    parts = min(PARTS // out.size, math.prod(shape) // out.size // LEAST, shape[axis])
    if parts < 2:
        return None
    width = shape[axis] // parts
    parts = shape[axis] // width
    end, before = parts * width, (slice(None),) * axis
    rest = int(end < shape[axis])
    results = empty((*out.shape[:axis], parts + rest, *out.shape[axis + 1 :]), out.dtype)
    divided = [one[(*before, slice(end))].reshape(*shape[:axis], parts, width, *shape[axis + 1 :]) for one in inputs]
    within = tuple(one + (one >= axis) for one in axes)
    first = [Reduction(results[(*before, slice(parts), None)], divided, within)]
    if rest:
        ends = [one[(*before, slice(end, None))] for one in inputs]
        first.append(Reduction(results[(*before, slice(parts, None))], ends, axes))
    return first, Reduction(out, [results], (axis,))
