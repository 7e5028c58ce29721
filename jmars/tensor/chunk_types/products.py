"""Matrix products: one product for each pair of chunks that meet, and their sums in a tree."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types.guest import Guest, as_guest, checked, does, input_of, made, sample_of
from jmars.tensor.chunk_types.kinds import Named
from jmars.tensor.chunk_types.operand import Place, grid_places, on_chunks
from jmars.tensor.chunk_types.parts import numbers_of, recut
from jmars.tensor.chunk_types.reducing import merged
from jmars.tensor.splits import common_splits
from jmars.tensor.tensor import Tensor

__all__ = ["matmul", "tensordot"]


class _Product:
    """`tensordot` of two chunks."""

    def __init__(self, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self.axes = axes

    def __call__(self, a: Any, b: Any) -> Any:
        """The product."""
        return Named("tensordot")(a, b, axes=self.axes)


def _sum(*parts: Any) -> Any:
    return reduce(lambda one, other: one + other, parts)


@does("tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Guest | Tensor:
    """Sums of products along axes of both; of a foreign and a NumPy array what the library gives."""
    a, b = as_guest(a), as_guest(b)
    if isinstance(axes, int | np.integer):
        axes = tuple(range(a.ndim - int(axes), a.ndim)), tuple(range(int(axes)))
    along = [tuple(np.atleast_1d(one).tolist()) for one in axes]
    left = np.lib.array_utils.normalize_axis_tuple(along[0], a.ndim)
    right = np.lib.array_utils.normalize_axis_tuple(along[1], b.ndim)
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError(f"shape-mismatch for sum: {[a.shape[i] for i in left]} and {[b.shape[i] for i in right]}")
    inner = [common_splits([a.chunks[i], b.chunks[j]]) for i, j in zip(left, right)]
    a = recut(a, tuple(inner[left.index(i)] if i in left else cut for i, cut in enumerate(a.chunks)))
    b = recut(b, tuple(inner[right.index(i)] if i in right else cut for i, cut in enumerate(b.chunks)))
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    chunks = tuple(a.chunks[i] for i in rows) + tuple(b.chunks[i] for i in columns)
    product = _Product((left, right))
    sample = checked(
        "tensordot", lambda one, other: _sum(product(one, other), product(one, other)), sample_of(a), sample_of(b),
        ndim=len(chunks),
    )  # fmt: skip
    terms = math.prod(map(len, inner))
    firsts = numbers_of(a).transpose((*rows, *left)).reshape(-1, terms).tolist()
    seconds = numbers_of(b).transpose((*right, *columns)).reshape(terms, -1).T.tolist()
    _, shapes = grid_places(chunks)
    pairs = [list(zip(one, other)) for one in firsts for other in seconds]
    if terms == 1:
        places = [Place(((0, i), (1, j)), (), shape) for [(i, j)], shape in zip(pairs, shapes)]
        return made("tensordot", product, [input_of(a), input_of(b)], places, chunks, sample)
    parts = on_chunks("tensordot", product, [input_of(a), input_of(b)],
                      [Place(((0, i), (1, j))) for some in pairs for i, j in some])  # fmt: skip
    groups = [range(k * terms, (k + 1) * terms) for k in range(len(pairs))]
    states, last = merged("sum", (parts, True), groups, _sum)
    places = [Place(tuple((0, k) for k in group), (), shape) for group, shape in zip(last, shapes)]
    return made("sum", _sum, [states], places, chunks, sample)


@does("matmul", "dot")
def matmul(a: Any, b: Any) -> Guest | Tensor:
    """The product of matrices and vectors."""
    a, b = as_guest(a), as_guest(b)
    if not 0 < a.ndim <= 2 or not 0 < b.ndim <= 2:
        raise UnsupportedError(
            f"products of stacks of matrices ({a.ndim} and {b.ndim} axes) of other libraries are not in jmars; "
            "use tensordot"
        )
    return tensordot(a, b, axes=((-1,), (0,)))
