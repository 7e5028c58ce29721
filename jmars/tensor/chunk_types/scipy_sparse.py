"""Chunks that are sparse arrays of SciPy: their functions, since SciPy gives them no array namespace.

All formats become CSR, since chunks are cut by rows. Sums are arrays of NumPy, as in SciPy, and so are extremes.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np


def csr(value: Any) -> Any:
    """A sparse array in the format CSR, also of a sparse matrix, with columns in order and none twice in a row."""
    sparse: Any = sys.modules["scipy.sparse"]
    found = value if isinstance(value, sparse.csr_array) else sparse.csr_array(value)
    if not found.has_canonical_format:
        found = found.copy()  # SciPy sorts columns in place, which fails in read-only chunks
        found.sum_duplicates()
    return found


def nbytes(value: Any) -> int:
    """Bytes of the elements that an array in the format CSR stores, and of their positions."""
    return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)


def _concat(arrays: Sequence[Any], axis: int = 0) -> Any:
    sparse: Any = sys.modules["scipy.sparse"]
    if any(isinstance(one, np.ndarray) for one in arrays):
        return np.concatenate(arrays, axis=axis)
    if arrays[0].ndim == 1:
        return sparse.hstack([one.reshape(1, -1) for one in arrays]).reshape(-1)
    return (sparse.vstack if axis == 0 else sparse.hstack)(arrays, format="csr")


def _tensordot(a: Any, b: Any, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    if axes != ((a.ndim - 1,), (0,)):
        raise TypeError("of sparse arrays of SciPy there is the matrix product alone, x @ y")
    return a @ b


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(block: Any, axis: tuple[int, ...], keepdims: bool = False) -> Any:
        if isinstance(block, np.ndarray):
            return getattr(np, name)(block, axis=axis, keepdims=keepdims)
        found = getattr(block, name)(axis=axis[0] if len(axis) == 1 < block.ndim else None)
        found = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        kept = tuple(1 if i in axis else n for i, n in enumerate(block.shape))
        return found.reshape(kept if keepdims else [n for i, n in enumerate(block.shape) if i not in axis])

    return reduce


def _squeeze(block: Any, axis: Any) -> Any:
    if not isinstance(block, np.ndarray):
        raise TypeError("a sparse array of SciPy keeps its axes")
    return np.squeeze(block, axis)


def _method(name: str) -> Callable[..., Any]:
    return lambda block: getattr(block, name)()


_KEEP_ZEROS = (  # functions of elements that give 0 for 0, which are methods of sparse arrays
    "arcsin arcsinh arctan arctanh ceil deg2rad expm1 floor log1p rad2deg rint sign sin sinh sqrt tan tanh trunc"
)
_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "negative": "neg"}
_TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()  # noqa: SIM905

NAMESPACE = SimpleNamespace(
    __name__="scipy.sparse",
    concat=_concat,
    tensordot=_tensordot,
    squeeze=_squeeze,
    permute_dims=lambda block, axes: block.transpose(axes) if tuple(axes) != tuple(range(block.ndim)) else block,
    astype=lambda block, dtype: block.astype(dtype),
    conj=_method("conj"),
    conjugate=_method("conj"),
    real=lambda block: block.real,
    imag=lambda block: block.imag,
    absolute=abs,
    power=operator.pow,
    square=lambda block: block.power(2),
    not_equal=operator.ne,
    **{name: _reduction(name) for name in ("sum", "max", "min")},
    **{name: getattr(operator, one) for name, one in _ARITHMETIC.items()},
    **{name: _method(name) for name in _KEEP_ZEROS.split()},
    **{name: np.dtype(name) for name in _TYPES},
)
