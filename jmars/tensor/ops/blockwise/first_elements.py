"""Learns the results of a user's function by a call with the first elements of its arguments, as NumPy does.

A call with other values may give another dtype: `lambda x: 0 if x < 0 else x / 2`. Where no value can be computed, in
the body of a loop of the graph, the function is called with ones.
Source: https://numpy.org/doc/stable/reference/generated/numpy.vectorize.html (`otypes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.tensor.engine import can_compute
from jmars.tensor.operand import kind_of, result_type
from jmars.tensor.ops.blockwise.map_blocks import in_block, pickled, unpickled
from jmars.tensor.tensor import Tensor

__all__ = ["call_with_first", "called_here", "first_element"]

Array = np.ndarray[Any, Any]


def first_element(x: Any, core: int = 0) -> Any:
    """The first element of a tensor, an array or a number, or its first part of the last `core` axes.

    Raises
    ------
    ValueError
        If there is no element.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> first_element(arange(6).reshape(2, 3), core=1).tolist()
    [0, 1, 2]
    """
    if not isinstance(x, Tensor):
        x = np.asarray(x)
    elif not can_compute():
        return np.ones(x.data.shape[x.ndim - core :], result_type(kind_of(x)))[()]
    loop = (0,) * (x.ndim - core)
    if 0 in x.shape[: len(loop)]:
        raise ValueError(
            "the results of a function cannot be learned from inputs of size 0; give their dtypes, otypes="
        )
    first = x[loop] if loop else x
    return np.asarray(first.fetch() if isinstance(first, Tensor) else first)[()]


def call_with_first(function: Callable[..., Any], first: Sequence[Any], advice: str, *args: Any, **kwargs: Any) -> Any:
    """Returns the results of a copy of `function` for the arguments `first`, `args` and `kwargs`.

    Raises
    ------
    Exception
        The function's own, of its call with the first elements; of a call with ones a ValueError, whose `advice` says
        what to give instead.
    """
    try:
        with np.errstate(all="ignore"):  # the workers call it with these elements, too
            return called_here(function, *first, *args, **kwargs)
    except Exception as error:
        if can_compute():
            raise
        name = getattr(function, "__name__", "the function")
        raise ValueError(
            f"{name} was called with ones to learn its results, and it raised {type(error).__name__}: {error}; {advice}"
        ) from error


def called_here(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns the results of a copy of `function` in this process, as a worker would call it."""
    copy = unpickled(pickled(function))  # in a cell the original's `np` is lazy
    token = in_block.set(True)
    try:
        return copy(*args, **kwargs)
    finally:
        in_block.reset(token)
