"""Tree reductions of duck arrays: each chunk is reduced to a state, `config.combine_size` states are merged at a time.

The library's own functions make and merge the states; variances are merged by the formula of Chan, Golub and LeVeque.
Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types.array_libraries import LibraryFunction
from jmars.tensor.chunk_types.duck_tensor import (
    DuckTensor,
    as_duck_tensor,
    implements,
    input_of,
    probed_array,
    result_array,
    sample_of,
)
from jmars.tensor.chunk_types.manipulation import chunk_numbers
from jmars.tensor.chunk_types.on_chunks import ChunkCall, grid_indices, on_chunks
from jmars.tensor.operand import Splits, TensorData
from jmars.tensor.tensor import Tensor

__all__ = ["reduction", "tree_merged"]


class ChunkReduction:
    """Reduces chunks: `start(block)` makes a state, `join` merges two states, `end` computes the value."""

    def __init__(self, name: str, axes: tuple[int, ...], keepdims: bool, correction: float = 0) -> None:
        self.name, self.axes, self.keepdims, self.correction = name, axes, keepdims, correction

    def start(self, block: Any) -> Any:
        """Make the state of a chunk; reduced axes keep length 1."""
        along = {"axis": self.axes, "keepdims": True}
        if self.name in ("var", "std"):
            n = math.prod(block.shape[axis] for axis in self.axes)
            return n, LibraryFunction("mean")(block, **along), LibraryFunction("var")(block, **along) * n
        if self.name == "mean":
            return math.prod(block.shape[axis] for axis in self.axes), LibraryFunction("sum")(block, **along)
        if self.name == "count_nonzero":
            return LibraryFunction("sum")(block != 0, **along)
        return LibraryFunction(self.name)(block, **along)

    def join(self, one: Any, other: Any) -> Any:
        """Merge two states."""
        if self.name in ("var", "std"):
            (n, a, s), (m, b, t) = one, other
            gap = b - a
            return n + m, a + gap * (m / (n + m)), s + t + gap * gap * (n * m / (n + m))
        if self.name == "mean":
            return one[0] + other[0], one[1] + other[1]
        return LibraryFunction(_JOINS[self.name])(one, other)

    def end(self, *states: Any) -> Any:
        """Merge states and compute the value."""
        found = self.join_states(*states)
        if self.name in ("var", "std"):
            found = found[2] / (found[0] - self.correction)
            found = found if self.name == "var" else LibraryFunction("sqrt")(found)
        elif self.name == "mean":
            found = found[1] / found[0]
        return found if self.keepdims else LibraryFunction("squeeze")(found, axis=self.axes)

    def join_states(self, *states: Any) -> Any:
        """Merge states."""
        return reduce(self.join, states)


_JOINS = {
    "sum": "add",
    "count_nonzero": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


def tree_merged(
    name: str,
    states: tuple[TensorData, bool],
    groups: Sequence[Sequence[int]],
    join: Callable[..., Any],
) -> tuple[tuple[TensorData, bool], list[tuple[int, ...]]]:
    """Merge states until no group has more than `config.combine_size`; returns their node and the remaining groups."""
    size = max(2, config.combine_size)
    now = [tuple(group) for group in groups]
    while max(map(len, now)) > size:
        parts = [[group[i : i + size] for i in range(0, len(group), size)] for group in now]
        calls = [
            ChunkCall(tuple((0, k) for k in part), None if len(part) == 1 else ()) for some in parts for part in some
        ]
        states = on_chunks(name, join, [states], calls), True
        numbers = itertools.count()
        now = [tuple(next(numbers) for _ in some) for some in parts]
    return states, now


def reduction(
    name: str, x: Any, axis: Any = None, keepdims: bool = False, correction: float = 0
) -> DuckTensor | Tensor:
    """Reduce along axes; by default all."""
    x = as_duck_tensor(x)
    axes = tuple(range(x.ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    if not axes:
        raise UnsupportedError(f"{name} of an array of another library needs an axis; axis=() would change nothing")
    fold = ChunkReduction(name, axes, keepdims, correction)
    chunks: Splits = tuple((1,) if i in axes else cut for i, cut in enumerate(x.chunks) if keepdims or i not in axes)
    sample = probed_array(
        name, lambda block: fold.end(fold.start(block), fold.start(block)), sample_of(x), ndim=len(chunks)
    )
    leaves = [ChunkCall(((0, k),)) for k in range(chunk_numbers(x).size)]
    states: tuple[TensorData, bool] = on_chunks(name, fold.start, [input_of(x)], leaves), True
    kept = [i for i in range(x.ndim) if i not in axes]
    numbers = chunk_numbers(x).transpose((*kept, *axes)).reshape(math.prod(len(x.chunks[i]) for i in kept), -1)
    states, groups = tree_merged(name, states, numbers.tolist(), fold.join_states)
    _, shapes = grid_indices(chunks)
    calls = [ChunkCall(tuple((0, k) for k in group), (), shape) for group, shape in zip(groups, shapes, strict=True)]
    return result_array(name, fold.end, [states], calls, chunks, sample)


def _offer(name: str) -> None:
    @implements(name)
    def function(x: Any, axis: Any = None, *, keepdims: bool = False) -> DuckTensor | Tensor:
        return reduction(name, x, axis, keepdims)


for _name in _JOINS:
    _offer(_name)
implements("amax")(lambda *args, **kwargs: reduction("max", *args, **kwargs))
implements("amin")(lambda *args, **kwargs: reduction("min", *args, **kwargs))
_offer("mean")


def _spread(name: str) -> None:
    @implements(name)
    def function(x: Any, axis: Any = None, *, keepdims: bool = False, correction: float | None = None,
                 ddof: float = 0) -> DuckTensor | Tensor:  # fmt: skip
        return reduction(name, x, axis, keepdims, ddof if correction is None else correction)


_spread("var")
_spread("std")
