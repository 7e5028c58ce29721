"""Signals: interpolation, convolution, windows, Bessel functions, polynomials."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jmars.errors import ObjectArrayError
from jmars.kernels.program import ChunkType
from jmars.tensor.ops.arguments import trial
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.create import arange
from jmars.tensor.ops.map_blocks import map_blocks
from jmars.tensor.ops.shape import concatenate, ravel, slice_axis
from jmars.tensor.ops.ufuncs import astype
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.splits import fitted_splits
from jmars.tensor.tensor import StandIn, Tensor, as_tensor

Array = np.ndarray[Any, Any]


@offers("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    """`np.interp`: linear interpolation at `x`; all chunks read the data points, brought into a single chunk."""
    if isinstance(x, complex):
        np.asarray(x, np.float64)  # raises NumPy's error
    data, xs, fs = as_tensor(x), as_tensor(xp), as_tensor(fp)
    if xs.ndim != 1 or xs.shape != fs.shape:
        raise ValueError(
            "fp and xp are not of the same length." if xs.ndim == fs.ndim == 1 else "Data points must be 1-D"
        )
    if not xs.size:
        raise ValueError("array of sample points is empty")
    dtype = np.complex128 if fs.dtype.kind == "c" else np.float64
    data, xs, fs = _as_read(data), _as_read(xs).rechunk(-1), _as_read(fs, dtype).rechunk(-1)
    scratch = None if period is not None else _interp_scratch
    params = (left, right, period)
    return blockwise("interp", _interp, [data, xs, fs], data.chunks, dtype, params, scratch=scratch, lines=(), tables=2)


def _as_read(x: Tensor, dtype: Any = np.float64) -> Tensor:
    """`x` in the dtype that `np.interp` reads, so that no block converts again."""
    return astype(x, dtype) if x.dtype != dtype and np.can_cast(x.dtype, dtype) else x


def _interp_scratch(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    """The result, and the slopes between the data points; NumPy keeps them unless there are more points than `x`."""
    x, xp, fp = blocks
    return out.nbytes + (fp.nbytes if xp.nbytes <= x.nbytes else 0)


def _interp(block: Array, xp: Array, fp: Array, left: Any, right: Any, period: Any) -> Array:
    return np.asarray(np.interp(block, xp, fp, left, right, period))


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
    >>> from jmars.tensor.ops.create import arange
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
    """The name of a mode; NumPy takes a number, too; raises NumPy's errors for other modes."""
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


BLOCK = 2**16  # elements that are computed at once


@offers("i0")
def i0(x: Any) -> Tensor:
    """`np.i0`: modified Bessel function of the first kind, order 0."""
    data = as_tensor(x)
    if data.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    data = data if data.dtype.kind == "f" else astype(data, float)
    dtype = np.i0(np.ones(1, data.dtype)).dtype
    return blockwise("i0", _i0, [data], data.chunks, dtype, writes=True, scratch=_of_block, lines=())


def _i0(out: Array, block: Array) -> None:
    """`np.i0`, part by part: NumPy makes some ten arrays of the argument's size."""
    _in_parts(out, block, np.i0)


def _in_parts(out: Array, block: Array, function: Callable[[Array], Array]) -> None:
    line, source = out.reshape(-1), block.reshape(-1)
    for start in range(0, line.size, BLOCK):
        line[start : start + BLOCK] = function(source[start : start + BLOCK])


def _of_block(out: ChunkType, blocks: Sequence[ChunkType]) -> int:
    return 10 * min(out.nbytes, BLOCK * out.dtype.itemsize) + blocks[0].nbytes


def _window(name: str, M: Any, *options: Any) -> Tensor:
    """Makes a window of `M` points, computed from positions."""
    values = np.array([0.0, M, *options])  # numbers of any dtype, in NumPy too
    if values.dtype.hasobject:
        raise ObjectArrayError(f"np.{name} of {values.dtype!r} gives objects, which cannot be distributed")
    length, *more = values[1:]
    if length < 2:
        return as_tensor(getattr(np, name)(length, *more))
    getattr(np, name)(2, *more)  # raises NumPy's errors
    at = arange(math.ceil(length if name == "kaiser" else length - 0.5), dtype=length.dtype)
    params = (name, length, *more)
    return blockwise(name, _window_block, [at], at.chunks, at.dtype, params, writes=True, scratch=_of_block, lines=())


def _window_block(out: Array, at: Array, name: str, n: float, *more: Any) -> None:
    _in_parts(out, at, lambda part: _window_part(part, name, n, *more))


def _window_part(at: Array, name: str, n: float, *more: Any) -> Array:
    """Evaluates a window at positions `at`, with NumPy's formulas."""
    x = 2.0 * at + (1.0 - n)
    if name == "hanning":
        return 0.5 + 0.5 * np.cos(np.pi * x / (n - 1.0))
    if name == "hamming":
        return 0.54 + 0.46 * np.cos(np.pi * x / (n - 1.0))
    if name == "blackman":
        return 0.42 + 0.5 * np.cos(np.pi * x / (n - 1.0)) + 0.08 * np.cos(2.0 * np.pi * x / (n - 1.0))
    if name == "bartlett":
        return np.where(x <= 0, 1 + x / (n - 1.0), 1 - x / (n - 1.0))
    (beta,) = more
    alpha = (n - 1) / 2.0
    return np.i0(beta * np.sqrt(1 - ((at - alpha) / alpha) ** 2.0)) / np.i0(beta)


def _cosine_window(name: str, M: Any) -> Tensor:
    return _window(name, M)


for _name, _does in {
    "hanning": "raised cosine window",
    "hamming": "raised cosine window that does not reach 0",
    "blackman": "sum of three cosine terms",
    "bartlett": "triangular window",
}.items():
    offers(_name, does=f"`np.{_name}`: {_does}.")(partial(_cosine_window, _name))


@offers("kaiser")
def kaiser(M: Any, beta: float) -> Tensor:
    """`np.kaiser`: window by a Bessel function."""
    return _window("kaiser", M, beta)


@offers("vander")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """`np.vander`: matrix with a row of powers per element."""
    data = as_tensor(x)
    if data.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = data.size if N is None else operator.index(N)
    dtype = np.promote_types(data.dtype, int)
    rows = fitted_splits((data.chunks[0], (n,)), dtype.itemsize)[0]
    column = Tensor(rechunked(data.data, (rows,)))[:, None]
    return map_blocks(_vander, column, dtype=dtype, chunks=(rows, n), name="vander", n=n,
                      increasing=increasing)  # fmt: skip


def _vander(block: Array, n: int, increasing: bool) -> Array:
    return np.vander(block[:, 0], n, increasing)


class poly1d(np.poly1d, metaclass=StandIn):  # NumPy's spelling
    """`np.poly1d` inside a cell: makes a NumPy polynomial; the values at the elements of a tensor are lazy.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     p = poly1d(mt.asarray([1, 0, 2]))
    ...     p.deriv(), p(mt.arange(3)).fetch()
    (poly1d([2, 0]), array([2, 3, 6]))
    """

    numpy_class = np.poly1d
    lazy_classes = ()

    def __new__(cls, c_or_r: Any, r: bool = False, variable: str | None = None) -> Any:
        """Make a polynomial of NumPy's."""
        if cls is not poly1d:
            return super().__new__(cls)
        return np.poly1d(numpys_value(c_or_r), r, variable)


def numpys_value(x: Any) -> Any:
    """NumPy's value of a tensor; other values as they are."""
    return x.fetch() if isinstance(x, Tensor) else x


FUNCTIONS["poly1d"] = poly1d
