"""Datetimes and timedeltas: ranges, business days, conversion to text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.numpy_modules import as_values
from jmars.tensor.ops.blockwise.map_blocks import map_blocks
from jmars.tensor.ops.create.ranges import arange
from jmars.tensor.ops.elementwise.ufuncs import astype
from jmars.tensor.ops.out_argument import assign_out
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["DATETIME_FUNCTIONS", "arange_datetimes"]

_CALENDAR = ("weekmask", "holidays", "busdaycal", "out")
DATETIME_FUNCTIONS = {  # by name: how many arguments are arrays, and the names of the others
    "datetime_as_string": (1, ("unit", "timezone", "casting")),
    "busday_count": (2, _CALENDAR),
    "busday_offset": (2, ("roll", *_CALENDAR)),
    "is_busday": (1, _CALENDAR),
}


def _offer_datetime_function(name: str) -> None:
    theirs: Callable[..., Any] = getattr(np, name)
    n, others = DATETIME_FUNCTIONS[name]

    @functools.wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Any:
        more = {**dict(zip(others, args[n:])), **kwargs}
        is_written, out = "out" in more, more.pop("out", None)
        more = as_values(more)
        given = [_element(x) for x in args[:n]]
        if any(isinstance(x, Tensor) for x in given):
            given = [as_tensor(x) if np.ndim(x) else x for x in given]
        ones = [np.zeros(1, x.dtype) if isinstance(x, Tensor) else x for x in given]  # 1970-01-01, a Thursday
        dtype = theirs(*ones, **more).dtype
        if is_written and not isinstance(out, Tensor | np.ndarray):
            raise ValueError(f"{name}: must provide a NumPy array for 'out'")  # NumPy's words
        if isinstance(out, Tensor):
            theirs(*ones, **more, out=np.zeros(1, out.dtype))  # raises NumPy's error
        if not any(isinstance(x, Tensor) for x in given):
            value = theirs(*given, **more)
            return value if out is None else assign_out(as_tensor(value), out, name, "unsafe")
        if (calendar := more.pop("busdaycal", None)) is not None:  # does not pickle
            more |= {"weekmask": calendar.weekmask.astype("i1"), "holidays": calendar.holidays}
        return assign_out(map_blocks(theirs, *given, dtype=dtype, name=name, **more), out, name, "unsafe")

    offers(name)(function)


def _element(x: Any) -> Any:
    """A number as NumPy's functions take it, of any dtype; an array without axes stays a tensor."""
    return x.fetch() if isinstance(x, Tensor) and not x._place.is_array else x


for _name in DATETIME_FUNCTIONS:
    _offer_datetime_function(_name)


@offers("method.arange_datetimes")
def arange_datetimes(start: Any, stop: Any, step: Any, dtype: Any, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
    """`np.arange` of datetimes or timedeltas; NumPy decides the unit.

    Raises
    ------
    TypeError, ValueError
        As NumPy raises them.
    """
    kind = _kind_of_range(start, stop, step, dtype)
    first, gap = _ticks(start, kind), _ticks(step, kind)
    relative = kind.kind == "M" and np.asarray(stop).dtype.kind not in "MSU"  # a number of units after the start
    last = _ticks(stop, kind) + (first if relative else 0)
    count = max(0, -((first - last) // gap))
    return astype(arange(first, first + count * gap, gap, chunk_size=chunk_size, chunks=chunks), kind)


def _kind_of_range(start: Any, stop: Any, step: Any, dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of a range, by every millionth element, whose values may overflow; raises NumPy's errors."""
    made: Any
    try:
        made = np.arange(start, stop, step * 10**6, dtype=dtype)
    except OverflowError:  # of so large a step that all elements are few
        made = np.arange(start, stop, step, dtype=dtype)
    kind: np.dtype[Any] = made.dtype
    return kind


def _ticks(value: Any, kind: np.dtype[Any]) -> int:
    """Converts a datetime, timedelta or number to a count of units of `kind`."""
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        array = array.astype(kind)
    elif array.dtype.kind in "mM":
        array = array.astype(kind.str.replace(kind.char, array.dtype.char, 1))
    return int(array.astype(np.int64))
