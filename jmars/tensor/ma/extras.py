"""Further functions of masked arrays: covariances, fits, convolutions, distinct elements, removal of masked lines.

Source: NumPy `numpy/ma/extras.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ma.construction import array, asarray, filled, masked_where
from jmars.tensor.ma.functions import compressed
from jmars.tensor.ma.handle import MaskedTensor, data_of, mask_of, whole_mask
from jmars.tensor.ma.masked_ufuncs import combined_mask
from jmars.tensor.ops.shape import ravel
from jmars.tensor.ops.ufuncs import astype, ufunc, where
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor


@offers("ma.cov")
def cov(x: Any, y: Any = None, rowvar: bool = True, bias: bool = False, allow_masked: bool = True,
        ddof: int | None = None) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.cov`: compute covariances of rows, over positions where both rows are unmasked.

    Raises
    ------
    ValueError
        If `ddof` is not an integer.
    UnsupportedError
        For `allow_masked=False`, which would need the mask's values.
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be an integer")
    if not allow_masked:
        raise UnsupportedError("np.ma.cov with allow_masked=False is not in jmars; check x.mask.any() first")
    rows, there, by_row = _centred(x, y, rowvar)
    less = ddof if ddof is not None else 0 if bias else 1
    data = filled(rows, 0)
    if not by_row:
        data, there = data.T, there.T
    n = call("dot", there, there.T) - less
    total = call("dot", data, ufunc("conjugate")(data.T))
    squeezed: MaskedTensor = call("ma.squeeze", array(total / n, mask=n <= 0))
    return squeezed


def _centred(x: Any, y: Any, rowvar: bool) -> tuple[MaskedTensor, Tensor, bool]:
    """Stack two arrays and subtract the means; returns (result, 1.0 where unmasked, whether rows are variables)."""
    a = call("ma.astype", array(x, ndmin=2), float)
    by_row = True if a.shape[0] == 1 else bool(rowvar)
    there = ~whole_mask(a)
    if y is not None:
        b = call("ma.astype", array(y, ndmin=2), float)
        if b.shape == a.shape and (a._mask is not None or b._mask is not None):
            common = combined_mask(a._mask, b._mask)
            a, b = MaskedTensor(a.data, common), MaskedTensor(b.data, common)
        axis = 0 if by_row else 1
        a = call("ma.concatenate", (a, b), axis)
        there = ~whole_mask(a)
    middle = call("ma.mean", a, 1 if by_row else 0, keepdims=True)
    return call("ma.subtract", a, middle), astype(there, np.dtype(float)), by_row


@offers("ma.corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, allow_masked: bool = True) -> MaskedTensor:
    """`numpy.ma.corrcoef`: divide covariances by the standard deviations."""
    covariance = cov(x, y, rowvar, allow_masked=allow_masked)
    if not covariance.ndim:
        return call("ma.divide", covariance, covariance)  # type: ignore[no-any-return]
    spread = call("ma.sqrt", call("ma.diagonal", covariance))
    found: MaskedTensor = call("ma.divide", covariance, call("ma.multiply", spread[:, None], spread[None, :]))
    return found


@offers("ma.polyfit")
def polyfit(x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """`numpy.ma.polyfit`: fit a polynomial to the unmasked points."""
    values = as_tensor(data_of(y))
    if values.ndim not in (1, 2):
        raise TypeError("Expected a 1D or 2D array for y!")
    lost = mask_of(y)
    if lost is not None and values.ndim == 2:
        lost = call("any", lost, 1)
    lost = combined_mask(mask_of(x), lost, None if w is None else mask_of(w))
    given = [as_tensor(data_of(x)), values, *([] if w is None else [as_tensor(data_of(w))])]
    if lost is not None:
        given = [call("compress", ~lost, one, 0) for one in given]
    return call("polyfit", given[0], given[1], deg, rcond, full, given[2] if w is not None else None, cov)


@offers("ma.vander")
def vander(x: Any, n: int | None = None) -> Tensor:
    """`numpy.ma.vander`: make a Vandermonde matrix, with zero rows for masked elements."""
    data, mask = call("vander", as_tensor(data_of(x)), n), mask_of(x)
    found: Tensor = data if mask is None else where(mask[:, None], data.dtype.type(0), data)
    return found


def _sliding(name: str, mode: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: masked if any input is, without `propagate_mask` if all are.")
    def function(a: Any, v: Any, mode: str = mode, propagate_mask: bool = True) -> MaskedTensor:
        def met(x: Tensor, y: Tensor) -> Tensor:
            found: Tensor = call(name, astype(x, np.dtype(float)), astype(y, np.dtype(float)), mode=mode) > 0
            return found

        lost, gone = whole_mask(a), whole_mask(v)
        if propagate_mask:
            mask = met(lost, call("ones_like", gone)) | met(call("ones_like", lost), gone)
            return MaskedTensor(call(name, as_tensor(data_of(a)), as_tensor(data_of(v)), mode=mode), mask)
        return MaskedTensor(call(name, filled(a, 0), filled(v, 0), mode=mode), ~met(~lost, ~gone))


_sliding("convolve", "full")
_sliding("correlate", "valid")


@offers("ma.unique")
def unique(ar1: Any, return_index: bool = False, return_inverse: bool = False) -> MaskedTensor:
    """`numpy.ma.unique`: return the sorted distinct elements, and a masked element at the end if any is masked.

    Raises
    ------
    UnsupportedError
        For `return_index` and `return_inverse`.
    """
    if return_index or return_inverse:
        raise UnsupportedError("np.ma.unique with positions is not in jmars; use np.unique of x.compressed()")
    different, mask = call("unique", compressed(ar1)), mask_of(ar1)
    if mask is None:
        return MaskedTensor(different, None)
    one = call("compress", ravel(mask), ravel(as_tensor(data_of(ar1))))[:1]
    both = [call("zeros_like", different, bool), call("ones_like", one, bool)]
    return MaskedTensor(call("concatenate", [different, one]), call("concatenate", both))


@offers("ma.union1d")
def union1d(ar1: Any, ar2: Any) -> MaskedTensor:
    """`numpy.ma.union1d`: return the distinct elements of two arrays."""
    return unique(call("ma.concatenate", (ar1, ar2), None))


def _without_masked(name: str, axes: tuple[int, ...] | None) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: remove the lines that contain masked elements.")
    def function(x: Any, axis: Any = None) -> Tensor:
        given = asarray(x)
        if given.ndim != 2 and name != "compress_nd":
            raise NotImplementedError(f"{name} works for 2D arrays only.")
        data = given.data
        if given._mask is None:
            return data
        every = range(given.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, given.ndim)
        for one in axes if axes is not None else every:
            others = tuple(i for i in range(given.ndim) if i != one)
            data = call("compress", ~call("any", given._mask, others), data, one)
        return data


_without_masked("compress_nd", None)
_without_masked("compress_rowcols", None)
_without_masked("compress_rows", (0,))
_without_masked("compress_cols", (1,))


@offers("ma.masked_object")
def masked_object(x: Any, value: Any, copy: bool = True, shrink: bool = True) -> MaskedTensor:
    """`numpy.ma.masked_object`: mask elements equal to a value, which becomes the fill value."""
    made = masked_where(as_tensor(data_of(x)) == value, x)
    made.fill_value = value
    return made


@offers("ma.apply_over_axes")
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> MaskedTensor:
    """`numpy.ma.apply_over_axes`: apply `func(x, axis)` to the axes in turn, keeping the number of axes."""
    x = asarray(a)
    ndim = x.ndim
    for axis in np.atleast_1d(axes).tolist():
        value = asarray(func(x, axis % ndim))
        x = value if value.ndim == ndim else call("ma.expand_dims", value, axis % ndim)
        if x.ndim != ndim:
            raise ValueError("function is not returning an array of the correct shape")
    return x


@offers("ma.ndenumerate")
def ndenumerate(a: Any, compressed: bool = True) -> Iterator[Any]:
    """`numpy.ma.ndenumerate`: compute and fetch the array, and iterate over positions and elements."""
    found: Iterator[Any] = np.ma.ndenumerate(asarray(a).fetch(), compressed)  # type: ignore[no-untyped-call]
    return found
