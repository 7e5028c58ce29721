"""`np.emath`: functions whose results are complex where an element is out of the range of the real function.

Whether any element is decides the dtype, so an array of reals is computed up to there at once; the results are lazy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.from_array import Composite
from jmars.tensor.ops.ufuncs import astype, ufunc
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__: list[str] = []

_SINGLE = (np.single, np.byte, np.short, np.ubyte, np.ushort, np.csingle)  # become csingle in NumPy


def _negative(x: Tensor) -> Any:
    return x < 0


def _beyond_one(x: Tensor) -> Any:
    return ufunc("absolute")(x) > 1


def _complex_if(is_outside: Callable[[Tensor], Any], x: Any) -> Any:
    """The tensor, as complex numbers if any real element is outside."""
    x = as_tensor(x)
    if x.dtype.kind in "cb" or not bool(is_outside(x).any()):
        return x
    return astype(x, np.csingle if issubclass(x.dtype.type, _SINGLE) else np.cdouble)


def _offer(name: str, function: Callable[..., Any]) -> None:
    theirs = getattr(np.emath, name)

    @functools.wraps(theirs)
    def lazy(*args: Any) -> Any:
        return function(*args) if any(isinstance(one, Tensor | Composite) for one in args) else theirs(*args)

    offers(f"emath.{name}", f"lib.scimath.{name}")(lazy)


def _logn(n: Any, x: Any) -> Any:
    return ufunc("log")(_complex_if(_negative, x)) / ufunc("log")(_complex_if(_negative, n))


def _power(x: Any, p: Any) -> Any:
    exponent = as_tensor(p)
    if exponent.dtype.kind in "iu" and bool((exponent < 0).any()):
        exponent = exponent * 1.0
    return ufunc("power")(_complex_if(_negative, x), exponent)


def _of_one(name: str, is_outside: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    return lambda x: ufunc(name)(_complex_if(is_outside, x))


for _name in ("sqrt", "log", "log2", "log10"):
    _offer(_name, _of_one(_name, _negative))
for _name in ("arccos", "arcsin", "arctanh"):
    _offer(_name, _of_one(_name, _beyond_one))
_offer("logn", _logn)
_offer("power", _power)
