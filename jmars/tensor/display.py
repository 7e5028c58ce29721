"""A tensor as NumPy prints it, fetching only the corners of a large one. Used by tensor.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.tensor.engine import get_engine

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["summary"]


def summary(x: Tensor, write: Callable[[Any], str]) -> str:
    """`write` (str or repr) of the value; of a large one with the dots that NumPy prints in the middle."""
    options = np.get_printoptions()
    edge = options["edgeitems"]
    if x.size <= options["threshold"] or max(x.shape) <= 2 * edge:
        return write(x.fetch())
    with np.printoptions(threshold=0):
        text = write(corners(x, edge))
    return text.replace(_shape_note(x, edge), f"shape={x.shape}")


def corners(x: Tensor, edge: int) -> np.ndarray[Any, Any]:
    """The first `edge` + 1 and last `edge` elements of each long axis; NumPy drops the odd one for its dots."""
    ranges = [[slice(0, edge + 1), slice(n - edge, n)] if n > 2 * edge + 1 else [slice(0, n)] for n in x.shape]
    parts = [(at, x[at]) for at in itertools.product(*ranges)]
    get_engine().execute([part.data for _, part in parts])
    lengths = [min(n, 2 * edge + 1) for n in x.shape]
    out = np.empty(lengths, x.dtype)
    for at, part in parts:
        there = tuple(s if s.start == 0 else slice(n - edge, n) for s, n in zip(at, lengths))
        out[there] = part.fetch(copy=False)
    return out


def _shape_note(x: Tensor, edge: int) -> str:
    """How NumPy 2.2 and newer note the shape of an array that it abbreviates."""
    lengths = tuple(min(n, 2 * edge + 1) for n in x.shape)
    return f"shape={lengths}" if math.prod(lengths) else "shape="
