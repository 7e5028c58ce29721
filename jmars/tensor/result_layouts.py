"""Memory order of results: NumPy's own function, called on arrays of few elements, tells where elements would lie.

`x.flags`, `x.strides`, `ravel("K")` and `tobytes("A")` depend on the order. Only results of arrays that do not lie in C
order can lie in another order, so that other calls pay a look at the arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jmars.tensor.buffers import Buffer, layout_of, small_layout, strides_in_order
from jmars.tensor.protocols import set_layout_hook
from jmars.tensor.tensor import Tensor

__all__ = ["lay_out_as_numpy"]

Array = np.ndarray[Any, Any]


def lay_out_as_numpy(theirs: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
    """Give new tensors among the results `found` the order in memory that NumPy's function `theirs` gives.

    A result keeps C order if NumPy's function raises for short arrays, as for a position past their end.
    """
    given = [*_tensors((args, *kwargs.values()))]
    if not any(one._place.permuted for one in given):
        return found
    options = {name: one for name, one in kwargs.items() if name not in ("chunk_size", "chunks")}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            made = theirs(*_short(args), **_short(options))
    except Exception:  # of short arrays, whatever NumPy's function raises
        return found
    for one, like in zip(_tensors(found), made if isinstance(made, tuple | list) else [made], strict=False):
        place, is_known = one._place, one.ndim > 1 and not one.data.has_unknown_lengths
        if is_known and isinstance(place, Buffer) and isinstance(like, np.ndarray) and all(one is not x for x in given):
            place.strides = strides_in_order(like, one.shape, one.itemsize)
    return found


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)


def _short(value: Any) -> Any:
    """Arguments with arrays of at most eight elements along each axis, all 1, in place of tensors."""
    if isinstance(value, Tensor):
        layout = layout_of(value._place)
        if layout is None:
            raise ValueError("unknown length")
        return small_layout(layout, 8).astype(value.dtype)
    if isinstance(value, tuple | list):
        return type(value)(map(_short, value)) if type(value) in (tuple, list) else value
    return {name: _short(one) for name, one in value.items()} if isinstance(value, dict) else value


set_layout_hook(lay_out_as_numpy)
