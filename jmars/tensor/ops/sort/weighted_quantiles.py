"""Weighted quantiles along axes that are brought into a single chunk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.blockwise.single_chunk import single_chunk_along
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.elementwise.ufuncs import native
from jmars.tensor.ops.reduce.derived_reductions import broadcast_weights
from jmars.tensor.ops.shape.axes import broadcast_to, expand_dims, moveaxis
from jmars.tensor.ops.shape.reshape import reshape
from jmars.tensor.tensor import Tensor

__all__ = ["reduced_axes_last", "weighted_quantiles"]

Array = np.ndarray[Any, Any]


def reduced_axes_last(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Merges the axes `axis` into a last axis; returns the tensor, the kept axes and the merged axes."""
    axes = tuple(range(x.ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    lines = x.transpose((*rest, *axes))
    if len(axes) != 1:
        lines = reshape(lines, (*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes)))
    return lines, rest, axes


def weighted_quantiles(name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, weights: Any) -> Tensor:
    """`np.<name>(a, q, axis, method=method, keepdims=keepdims, weights=weights)`.

    Raises
    ------
    ValueError, TypeError
        As NumPy: at once for methods other than "inverted_cdf" and weights of a wrong shape; when it is computed for
        negative weights and for slices whose weights are all 0.
    """
    x, given = native(a), native(weights)
    probe = np.ones(1, x.dtype)
    kind = np.asarray(getattr(np, name)(probe, q, method=method, weights=np.ones(1, given.dtype))).dtype
    if given.shape != x.shape:
        given = broadcast_to(broadcast_weights(given, x, axis), x.shape)
    lines, rest, axes = reduced_axes_last(x, axis)
    lines = single_chunk_along(lines, [len(rest)])
    counts = Tensor(rechunked(reduced_axes_last(given, axis)[0].data, lines.chunks))
    leading = np.shape(q)
    flat = (tuple(q.reshape(-1).tolist()), q.dtype) if isinstance(q, np.ndarray) else q
    cut = (*lines.chunks[:-1], (math.prod(leading),))
    value = blockwise(name, _quantile_block, [lines, counts], cut, kind, (name, flat, method))
    value = reshape(moveaxis(value, -1, 0), (*leading, *(x.shape[i] for i in rest)))
    if keepdims:
        value = expand_dims(value, tuple(len(leading) + i for i in sorted(axes)))
    return Tensor(value.data)


def _quantile_block(block: Array, weights: Array, called: str, q: Any, method: str) -> Array:
    """Calls NumPy's function along the last axis of a block; the results for all `q` form the new last axis."""
    if not isinstance(q, tuple):
        return np.expand_dims(getattr(np, called)(block, q, axis=-1, method=method, weights=weights), -1)
    several = np.array(q[0], q[1])
    return np.moveaxis(getattr(np, called)(block, several, axis=-1, method=method, weights=weights), 0, -1)
