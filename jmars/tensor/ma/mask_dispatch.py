"""Dispatches functions of tensors on masked arguments: to the function of numpy.ma, or to an error.

Many of NumPy's functions respect masks (`np.sum`, `np.sqrt`). Others silently ignore them (`np.median`,
`np.concatenate`); jmars refuses these. Once this package is imported, every call of the table goes through `dispatch`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ma.handle import MaskedTensor, data_of
from jmars.tensor.ops.elementwise.ufuncs import UFUNCS
from jmars.tensor.ops.index.setitem import is_element
from jmars.tensor.protocols import FUNCTIONS, set_mask_hook

__all__ = ["dispatch"]

# NumPy's functions that respect masks, since they call a masked array's methods or operators.
_RESPECT_MASKS = set(
    """all any argmax argmin argsort clip compress copy count_nonzero cumprod cumsum diagonal diff expand_dims max mean
    min ndim nonzero prod ptp ravel repeat reshape resize round shape size sort squeeze std sum swapaxes take trace
    transpose var zeros_like ones_like empty_like""".split()  # noqa: SIM905
)
_OF_THE_DATA = {"method.getitem", "method.setitem", "asarray", "array", "tensor", "rechunk", "iscomplexobj"}
_UFUNCS = {row[0] for row in UFUNCS}


def dispatch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the masked version of the function `name`; NotImplemented if no argument is masked.

    Raises
    ------
    UnsupportedError
        If NumPy's function ignores masks, or jmars lacks a masked version.
    """
    if name.startswith("ma.") or not any(map(_is_masked, (*args, *kwargs.values()))):
        return NotImplemented
    if name == "method.pow":
        name = "power"
    if name in _UFUNCS:
        return FUNCTIONS["ma.ufunc"](name, *args, **kwargs)
    if name in _RESPECT_MASKS and f"ma.{name}" in FUNCTIONS:
        return FUNCTIONS[f"ma.{name}"](*args, **kwargs)
    if name in _OF_THE_DATA:
        plain = {key: _plain(value) for key, value in kwargs.items()}
        if name == "method.setitem":
            args = (*args[:2], _written(*args))
        return FUNCTIONS[name](*map(_plain, args), **plain)
    known = f"ma.{name}" in FUNCTIONS
    raise UnsupportedError(
        f"np.{name.removeprefix('method.')} silently ignores the mask of a masked array, so jmars refuses it; use "
        + (f"np.ma.{name}, or " if known else "")
        + "the values: x.filled(...), x.compressed() or x.data"
    )


def _written(x: Any, index: Any, value: Any) -> Any:
    """The value that `x[index] = value` writes into a plain array: of a masked element what NumPy writes, or its error.

    NumPy raises for integers, writes NaN to floats with a warning, and a text of zero to text.
    """
    if isinstance(value, list) and not any(isinstance(one, MaskedTensor) for one in value):
        return np.array(value, x.dtype)
    if isinstance(value, MaskedTensor) and not value.ndim and is_element(x, index):
        found = value.fetch()  # the mask decides what is written
        is_array = found is np.ma.masked and value._data._place.is_array  # an array without axes keeps its element
        value = np.ma.array(value._data.fetch(), mask=True) if is_array else found
    if isinstance(value, np.ma.MaskedArray) and not value.ndim and is_element(x, index):
        line = np.zeros(1, x.dtype)
        line[0] = value
        return line[0]
    return value


def _is_masked(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(one, MaskedTensor | np.ma.MaskedArray) for one in value[:100])
    return isinstance(value, MaskedTensor | np.ma.MaskedArray)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, list) and _is_masked(value):
        if not any(isinstance(one, MaskedTensor) for one in value):
            return np.asarray(value)
        return [data_of(one) if isinstance(one, MaskedTensor) else one for one in value]
    return data_of(value) if isinstance(value, MaskedTensor | np.ma.MaskedArray) else value


set_mask_hook(dispatch)
