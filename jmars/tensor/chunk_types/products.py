"""Matrix products of duck arrays: a product for each pair of matching chunks, summed in a tree."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

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
from jmars.tensor.chunk_types.manipulation import chunk_numbers, rechunk_to
from jmars.tensor.chunk_types.on_chunks import ChunkCall, grid_indices, on_chunks
from jmars.tensor.chunk_types.tree_reduction import tree_merged
from jmars.tensor.splits import common_splits
from jmars.tensor.tensor import Tensor

__all__ = ["matmul", "tensordot"]


class _Product:
    """Computes `tensordot` of two chunks."""

    def __init__(self, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self.axes = axes

    def __call__(self, a: Any, b: Any) -> Any:
        """Return the product."""
        return LibraryFunction("tensordot")(a, b, axes=self.axes)


def _sum(*parts: Any) -> Any:
    return reduce(lambda one, other: one + other, parts)


@implements("tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> DuckTensor | Tensor:
    """Compute `tensordot`; for a duck array and a NumPy array the result has the library's type."""
    a, b = as_duck_tensor(a), as_duck_tensor(b)
    if isinstance(axes, int | np.integer):
        axes = tuple(range(a.ndim - int(axes), a.ndim)), tuple(range(int(axes)))
    along = [tuple(np.atleast_1d(one).tolist()) for one in axes]
    left = np.lib.array_utils.normalize_axis_tuple(along[0], a.ndim)
    right = np.lib.array_utils.normalize_axis_tuple(along[1], b.ndim)
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError(f"shape-mismatch for sum: {[a.shape[i] for i in left]} and {[b.shape[i] for i in right]}")
    inner = [common_splits([a.chunks[i], b.chunks[j]]) for i, j in zip(left, right)]
    a = rechunk_to(a, tuple(inner[left.index(i)] if i in left else cut for i, cut in enumerate(a.chunks)))
    b = rechunk_to(b, tuple(inner[right.index(i)] if i in right else cut for i, cut in enumerate(b.chunks)))
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    chunks = tuple(a.chunks[i] for i in rows) + tuple(b.chunks[i] for i in columns)
    product = _Product((left, right))
    sample = probed_array(
        "tensordot", lambda one, other: _sum(product(one, other), product(one, other)), sample_of(a), sample_of(b),
        ndim=len(chunks),
    )  # fmt: skip
    terms = math.prod(map(len, inner))
    firsts = chunk_numbers(a).transpose((*rows, *left)).reshape(-1, terms).tolist()
    seconds = chunk_numbers(b).transpose((*right, *columns)).reshape(terms, -1).T.tolist()
    _, shapes = grid_indices(chunks)
    pairs = [list(zip(one, other)) for one in firsts for other in seconds]
    if terms == 1:
        calls = [ChunkCall(((0, i), (1, j)), (), shape) for [(i, j)], shape in zip(pairs, shapes)]
        return result_array("tensordot", product, [input_of(a), input_of(b)], calls, chunks, sample)
    parts = on_chunks("tensordot", product, [input_of(a), input_of(b)],
                      [ChunkCall(((0, i), (1, j))) for some in pairs for i, j in some])  # fmt: skip
    groups = [range(k * terms, (k + 1) * terms) for k in range(len(pairs))]
    states, last = tree_merged("sum", (parts, True), groups, _sum)
    calls = [ChunkCall(tuple((0, k) for k in group), (), shape) for group, shape in zip(last, shapes)]
    return result_array("sum", _sum, [states], calls, chunks, sample)


@implements("matmul", "dot")
def matmul(a: Any, b: Any) -> DuckTensor | Tensor:
    """Multiply matrices and vectors of one or two axes."""
    a, b = as_duck_tensor(a), as_duck_tensor(b)
    if not 0 < a.ndim <= 2 or not 0 < b.ndim <= 2:
        raise UnsupportedError(
            f"matmul of arrays of other libraries takes one or two axes, not {a.ndim} and {b.ndim}; use tensordot"
        )
    return tensordot(a, b, axes=((-1,), (0,)))
