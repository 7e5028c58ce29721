"""Polynomials: evaluation and least squares fits, `polyval`, `polyfit`, `vander`, and the class `np.poly1d`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jmars.tensor.ops.blockwise.map_blocks import map_blocks
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.create.constants import zeros
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc
from jmars.tensor.ops.linalg.decompositions import inv, lstsq
from jmars.tensor.ops.linalg.matrix_products import matmul
from jmars.tensor.ops.reduce.reduction import sum_
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.splits import fitted_splits
from jmars.tensor.tensor import StandIn, Tensor, as_tensor

__all__ = ["numpys_value", "poly1d", "polyfit", "polyval", "vander"]

Array = np.ndarray[Any, Any]


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


@offers("polyval")
def polyval(p: Any, x: Any) -> Tensor:
    """`np.polyval`: evaluates a polynomial, highest power first, at each element of `x`."""
    data = as_tensor(x)
    factors = list(p) if isinstance(p, Tensor) else list(np.asarray(p))
    y: Any = zeros(data.shape, data.dtype, chunks=data.chunks)
    for factor in factors:
        y = y * data + factor
    return Tensor(y.data)


@offers("polyfit")
def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None,
            cov: Any = False) -> Any:  # fmt: skip
    """`np.polyfit`: least squares fit of a polynomial of degree `deg`; computes at once.

    With `full`, also residuals, rank, singular values and `rcond`; with `cov`, also the covariance of the coefficients,
    which is lazy.
    """
    xs, ys, deg = as_tensor(x) + 0.0, as_tensor(y) + 0.0, int(deg)
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if xs.ndim != 1 or not xs.size:
        raise TypeError("expected 1D vector for x" if xs.ndim != 1 else "expected non-empty vector for x")
    if ys.ndim not in (1, 2) or xs.shape[0] != ys.shape[0]:
        raise TypeError("expected x and y to have same length")
    left = vander(xs, deg + 1)
    if w is not None:
        weights = as_tensor(w) + 0.0
        if weights.ndim != 1 or weights.shape[0] != ys.shape[0]:
            raise TypeError(
                "expected a 1-d array for weights" if weights.ndim != 1 else "expected w and y to have the same length"
            )
        left = astype(left * weights[:, None], left.dtype, casting="same_kind")  # NumPy multiplies in place
        ys = astype(ys * (weights[:, None] if ys.ndim == 2 else weights), ys.dtype, casting="same_kind")
    scale = ufunc("sqrt")(sum_(left * left, 0))
    rcond = xs.size * np.finfo(xs.dtype).eps if rcond is None else rcond
    scaled = left / scale
    solution, residues, rank, singular = lstsq(scaled, ys, rcond)
    fit = Tensor((solution.T / scale).T.data)
    if full:
        return fit, residues, rank, singular, rcond
    return (fit, _covariance(scaled, scale, ys, residues, cov)) if cov else fit


def _covariance(scaled: Tensor, scale: Tensor, ys: Tensor, residues: Tensor, cov: Any) -> Tensor:
    """Covariance of the coefficients, as NumPy scales it: by the residuals, unless `cov` is "unscaled".

    `scaled` has shape (number of points, number of coefficients); its columns times `scale` are the powers.
    """
    n, order = scaled.shape
    base = inv(matmul(scaled.T, scaled)) / (scale[:, None] * scale)
    factor: Any = 1
    if cov != "unscaled":
        if n <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residues / (n - order)
    return Tensor((base * factor if ys.ndim == 1 else base[:, :, None] * factor).data)


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
