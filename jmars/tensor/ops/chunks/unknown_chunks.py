"""Tiling of chunks of unknown size: chunk types, broadcasting, and kernels that read the size from the chunk itself.

Such chunks come from boolean masks and `unique`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from jmars.kernels.compile import compile_program
from jmars.kernels.program import ChunkType, Elementwise, Reduce, single
from jmars.kernels.reducers import Reducer
from jmars.tensor.operand import Length, NeedsLengthError, Unknown
from jmars.tensor.ops.chunks.tiling import chunk_classes

__all__ = ["broadcast_lengths", "chunk_classes", "chunk_type", "length_kind", "run_expression", "run_reduction"]

Array = np.ndarray[Any, Any]


def length_kind(length: Length) -> Hashable:
    """Key of a chunk length, for `chunk_classes`: the length itself, or ("most", bound) for an unknown length."""
    return ("most", length.most) if isinstance(length, Unknown) else length


def chunk_type(kinds: Sequence[Any], dtype: np.dtype[Any]) -> ChunkType:
    """Type of a chunk, by the keys of the lengths; -1 stands for an unknown length.

    Examples
    --------
    >>> chunk_type([3, ("most", 10)], np.dtype("f8"))
    ChunkType(shape=(3, -1), dtype=dtype('float64'), most=240, likely=None)
    """
    shape = tuple(-1 if isinstance(one, tuple) else one for one in kinds)
    if -1 not in shape:
        return ChunkType(shape, dtype)
    most = [one[1] if isinstance(one, tuple) else one for one in kinds]
    return ChunkType(shape, dtype, None if None in most else math.prod(most) * dtype.itemsize)


def broadcast_lengths(shapes: Sequence[tuple[Length, ...]]) -> tuple[Length, ...]:
    """`np.broadcast_shapes` for shapes with unknown lengths.

    Raises
    ------
    NeedsLengthError
        If an unknown length meets a length that is not provably equal.
    ValueError
        As NumPy raises it.
    """
    if not any(isinstance(n, Unknown) for shape in shapes for n in shape):
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            words = " ".join(str(shape).replace(" ", "") for shape in shapes)
            raise ValueError(f"operands could not be broadcast together with shapes {words} ") from None
    result: list[Length] = []
    for back in range(1, max(map(len, shapes)) + 1):
        found = list(dict.fromkeys(shape[-back] for shape in shapes if len(shape) >= back))
        long = [n for n in found if n != 1]
        if len(long) > 1:
            raise NeedsLengthError(f"lengths {long} may differ")
        result.append(long[0] if long else 1)
    return tuple(reversed(result))


def run_expression(out: Array | None, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> Array:
    """Computes an elementwise expression; shapes come from the chunks.

    `params` are the expression, and in a fused program how many steps before have an equal expression.
    """
    expression, twin = (*params, 0)[:2]
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    result = np.empty(shape, expression.dtype) if out is None else out
    types = [ChunkType(x.shape, x.dtype) for x in inputs]
    step = Elementwise(expression, tuple(range(len(types))), ChunkType(shape, expression.dtype), twin)
    compile_program.__wrapped__(single("", types, step))(result, inputs)
    return result


def run_reduction(out: Array, inputs: Sequence[Array], params: tuple[Reducer, tuple[int, ...], bool], arg: Any) -> None:
    """Runs the leaf of a reduction; the shape comes from the chunk.

    `params` are the reducer, its axes, and whether the leaf is the whole reduction.
    """
    reducer, axes, last = params
    (x,) = inputs
    chunk = ChunkType(x.shape, x.dtype)
    step = Reduce(reducer, axes, (0,), ChunkType(out.shape, out.dtype), last)
    compile_program.__wrapped__(single("", (chunk,), step))(out, inputs)
