"""Covariance and correlation: `np.cov` and `np.corrcoef`. Source: NumPy `lib/_function_base_impl.py`."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

from jmars.tensor.operand import check_dtype, warn_user
from jmars.tensor.ops.elementwise.ufuncs import astype, astype_unsafe, ufunc
from jmars.tensor.ops.linalg.matrix_products import matmul
from jmars.tensor.ops.reduce.reduction import sum_
from jmars.tensor.ops.reduce.trial import trial
from jmars.tensor.ops.shape.concatenate import concatenate
from jmars.tensor.ops.shape.reshape import reshape
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["corrcoef", "cov"]

Array = np.ndarray[Any, Any]


@offers("cov")
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
        aweights: Any = None, *, dtype: Any = None) -> Tensor:  # fmt: skip
    """`np.cov`: covariance matrix of variables, a row each; weights given as tensors are computed at once."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    rows = [_as_rows(m, rowvar, first=True), *([] if y is None else [_as_rows(y, rowvar, first=False)])]
    kind = np.result_type(*(x.dtype for x in rows), np.float64) if dtype is None else np.dtype(dtype)
    check_dtype(kind)
    trial("cov", rows[0], dtype=dtype)  # raises for dtypes that hold no means
    if not rows[0].shape[0]:
        return as_tensor(np.empty((0, 0)))
    x = astype(rows[0] if len(rows) == 1 else concatenate(rows), kind)
    ddof = (0 if bias else 1) if ddof is None else int(ddof)
    weights, count = _weights(fweights, aweights, x.shape[1], ddof)
    weighed = x if weights is None else x * weights
    total = x.shape[1] if weights is None else weights.sum()
    if count <= 0:
        warn_user("Degrees of freedom <= 0 for slice", RuntimeWarning)
    distance = astype_unsafe(x - sum_(weighed, 1, keepdims=True) / total, kind)
    other = distance if weights is None else distance * weights
    other = other.conj().T if kind.kind == "c" else other.T
    value = astype_unsafe(
        matmul(distance, other) * ufunc("true_divide")(1, np.float64(max(count, 0))), np.result_type(kind, other.dtype)
    )
    return Tensor(value.reshape(()).data) if value.shape == (1, 1) else value


def _weights(frequencies: Any, importance: Any, n: int, ddof: int) -> tuple[Array | None, float]:
    """Weight of each observation, and the divisor of the sums of squares."""
    if frequencies is None and importance is None:
        return None, n - ddof
    given = []
    for name, one in (("fweights", frequencies), ("aweights", importance)):
        if one is None:
            continue
        values = np.asarray(one, float)
        if name == "fweights" and (values != np.around(values)).any():
            raise TypeError("fweights must be integer")
        if values.ndim > 1 or values.shape[0] != n:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if (values < 0).any():
            raise ValueError(f"{name} cannot be negative")
        given.append(values)
    weights = np.prod(given, axis=0)
    total = float(weights.sum())
    lost = ddof if importance is None else ddof * float((weights * np.asarray(importance)).sum()) / total
    return weights, total - lost


@cache
def _transposes_single_row() -> bool:
    """Whether this NumPy version transposes a single row for `rowvar=False`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.cov(np.ones((1, 2)), rowvar=False).ndim == 2


def _as_rows(x: Any, rowvar: bool, *, first: bool) -> Tensor:
    data = as_tensor(x)
    if data.ndim > 2:
        raise ValueError(f"{'m' if first else 'y'} has more than 2 dimensions")
    if data.ndim < 2:
        return reshape(data, (1, -1))
    turned = not rowvar and (data.shape[0] != 1 or (first and _transposes_single_row()))
    return data.T if turned else data


@offers("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """`np.corrcoef`: covariances divided by products of standard deviations."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    d = np.diagonal(c)
    root = ufunc("sqrt")(d.real if c.dtype.kind == "c" else d)
    c = c / root[:, None] / root[None, :]
    if c.dtype.kind == "c":
        return ufunc("add")(np.clip(c.real, -1, 1), 1j * np.clip(c.imag, -1, 1))  # type: ignore[no-any-return]
    return np.clip(c, -1, 1)  # type: ignore[no-any-return]
