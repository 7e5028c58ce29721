"""Convolution and correlation of 1-d arrays: `convolve` and `correlate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.errors import ObjectArrayError
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.reduce.trial import trial
from jmars.tensor.ops.shape.concatenate import concatenate, slice_axis
from jmars.tensor.ops.shape.reshape import ravel
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["convolve", "correlate"]

Array = np.ndarray[Any, Any]


@offers("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """`np.convolve`: the shorter array is brought into a single chunk, the longer array keeps its chunks.

    An output chunk reads only the needed elements of the longer array.

    Raises
    ------
    ValueError
        If an array is empty or `mode` is unknown.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> convolve(arange(5, chunk_size=2), [1, 1], "valid").fetch().tolist()
    [1, 3, 5, 7]
    """
    _refuse_objects("convolve", a, v)
    trial("convolve", a, v)
    mode = _known_mode(mode)
    long, short = ravel(a), ravel(v)
    if not long.size or not short.size:
        raise ValueError(f"{'a' if not long.size else 'v'} cannot be empty")
    if long.size < short.size:
        long, short = short, long
    n, m = long.size, short.size
    dtype = np.convolve(np.zeros(1, long.dtype), np.zeros(1, short.dtype)).dtype
    first = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
    length = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    parts, start = [], first  # output element k of "full" reads long[k - m + 1 : k + 1]
    kernel = short.rechunk(-1)
    for size in _split_like(long.chunks[0], length):
        low, high = max(0, start - m + 1), min(n, start + size)
        piece = Tensor(rechunked(slice_axis(long, 0, slice(low, high)).data, ((high - low,),)))
        parts.append(blockwise("convolve", _convolve_piece, [piece, kernel], ((size,),), dtype, (start - low, size)))
        start += size
    return concatenate(parts)


def _refuse_objects(name: str, a: Any, v: Any) -> None:
    """Raise ObjectArrayError where the arrays have no common dtype, so that NumPy multiplies objects."""
    kinds = [np.asarray(one).dtype if isinstance(one, list | tuple) else as_tensor(one).dtype for one in (a, v)]
    try:
        np.result_type(*kinds)
    except TypeError:
        raise ObjectArrayError(f"np.{name} of {kinds} gives objects, which cannot be distributed") from None


def _known_mode(mode: Any) -> str:
    """The name of a mode, which NumPy also takes as a number; raises NumPy's errors for others."""
    np.correlate([1.0], [1.0], mode)
    return mode if isinstance(mode, str) else ("valid", "same", "full")[mode]


def _split_like(cut: Sequence[int], length: int) -> list[int]:
    """Chunk lengths that sum to `length` and resemble `cut`."""
    found: list[int] = []
    for n in cut:
        take = min(n, length - sum(found))
        if take:
            found.append(take)
    if (rest := length - sum(found)) > 0:
        if rest > max(cut):
            found.append(rest)
        else:
            found[-1:] = [found[-1] + rest] if found else [rest]
    return found or [0]


def _convolve_piece(piece: Array, kernel: Array, first: int, size: int) -> Array:
    """Computes elements [first, first + size) of the full convolution."""
    return np.convolve(piece, kernel, "full")[first : first + size]


@offers("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """`np.correlate`: convolution with the second array reversed and conjugated."""
    _refuse_objects("correlate", a, v)
    trial("correlate", a, v)
    mode = _known_mode(mode)
    x, y = ravel(a), ravel(v)
    turned = slice_axis(y, 0, slice(None, None, -1))
    turned = turned.conj() if y.dtype.kind == "c" else turned
    if x.size >= y.size or mode == "full":
        return convolve(x, turned, mode)
    whole = convolve(x, turned, "full")  # NumPy swaps the arrays and reverses the result
    n, m = x.size, y.size
    if mode == "valid":
        return Tensor(slice_axis(whole, 0, slice(n - 1, m)).data)
    return Tensor(slice_axis(whole, 0, slice(n // 2, n // 2 + m)).data)
