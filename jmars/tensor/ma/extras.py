"""Further functions of masked arrays: covariances, fits, convolutions, distinct elements, removal of masked lines.

Source: NumPy `numpy/ma/extras.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ma.construction import array, asarray, filled
from jmars.tensor.ma.functions import compressed
from jmars.tensor.ma.handle import MaskedTensor, data_of, mask_of, whole_mask
from jmars.tensor.ma.masked_ufuncs import combined_mask
from jmars.tensor.ops.numpy_code import MEANT, offer_numpys
from jmars.tensor.ops.shape import ravel
from jmars.tensor.ops.ufuncs import astype, where
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.tensor import Tensor, as_tensor


def _centred(x: Any, y: Any, rowvar: bool, allow_masked: bool) -> tuple[MaskedTensor, Tensor, bool]:
    """Stack two arrays and subtract the means; returns (result, 1.0 where unmasked, whether rows are variables)."""
    if not allow_masked:
        raise UnsupportedError("np.ma.cov with allow_masked=False is not in jmars; check x.mask.any() first")
    a = call("ma.astype", array(x, ndmin=2), float)
    by_row = True if a.shape[0] == 1 else bool(rowvar)
    there = ~whole_mask(a)
    if y is not None:
        b = call("ma.astype", array(y, ndmin=2), float)
        if b.shape == a.shape and (a._lazy_mask is not None or b._lazy_mask is not None):
            common = combined_mask(a._lazy_mask, b._lazy_mask)
            a, b = MaskedTensor(a.data, common), MaskedTensor(b.data, common)
        axis = 0 if by_row else 1
        a = call("ma.concatenate", (a, b), axis)
        there = ~whole_mask(a)
    middle = call("ma.mean", a, 1 if by_row else 0, keepdims=True)
    return call("ma.subtract", a, middle), astype(there, np.dtype(float)), by_row


@offers("ma.corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, allow_masked: bool = True) -> MaskedTensor:
    """`numpy.ma.corrcoef`: divide covariances by the standard deviations."""
    covariance = call("ma.cov", x, y, rowvar, allow_masked=allow_masked)
    if not covariance.ndim:
        return call("ma.divide", covariance, covariance)  # type: ignore[no-any-return]
    spread = call("ma.sqrt", call("ma.diagonal", covariance))
    found: MaskedTensor = call("ma.divide", covariance, call("ma.multiply", spread[:, None], spread[None, :]))
    return found


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


@offers("ma.compress_nd")
def compress_nd(x: Any, axis: Any = None) -> Tensor:
    """`numpy.ma.compress_nd`: remove the lines that contain masked elements."""
    given = asarray(x)
    data = given.data
    if given._lazy_mask is None:
        return data
    every = range(given.ndim)
    for one in every if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, given.ndim):
        others = tuple(i for i in every if i != one)
        data = call("compress", ~call("any", given._lazy_mask, others), data, one)
    return data


@offers("ma.ndenumerate")
def ndenumerate(a: Any, compressed: bool = True) -> Iterator[Any]:
    """`numpy.ma.ndenumerate`: compute and fetch the array, and iterate over positions and elements."""
    found: Iterator[Any] = np.ma.ndenumerate(asarray(a).fetch(), compressed)  # type: ignore[no-untyped-call]
    return found


def _of_data(name: str) -> Callable[..., Any]:
    """NumPy's function of a name in NumPy's code: takes the data of masked arrays, as in NumPy."""
    return lambda *args, **options: call(name, *(_data(one) for one in args), **options)


def _data(value: Any) -> Any:
    return value.data if isinstance(value, MaskedTensor) else value


def _entered(value: Any) -> Any:
    """A masked tensor of NumPy's masked array; a tensor of another array."""
    return asarray(value) if isinstance(value, np.ma.MaskedArray) else as_tensor(value)


MEANT |= {getattr(np.ma, name): FUNCTIONS[f"ma.{name}"] for name in ("MaskedArray", "array", "asarray", "asanyarray")}
MEANT |= {
    np.ma.extras._covhelper: _centred,  # type: ignore[attr-defined]
    np.polyfit: _of_data("polyfit"),
    np.broadcast_to: _of_data("broadcast_to"),
}
for _name in """append apply_over_axes common_fill_value compress_cols compress_rowcols compress_rows cov diff
intersect1d mask_cols mask_rows masked_equal masked_greater masked_greater_equal masked_inside masked_less
masked_less_equal masked_not_equal masked_object masked_outside masked_values polyfit setdiff1d setxor1d
union1d""".split():  # noqa: SIM905
    offer_numpys(f"ma.{_name}", gives="Any", enter=_entered)
