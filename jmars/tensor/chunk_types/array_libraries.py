"""Functions, dtypes and type names of any library's arrays, found through the library's own namespace.

Source: the Python array API standard, `__array_namespace__`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.from_array import is_duck_array

__all__ = [
    "STANDARD_NAMES",
    "LibraryFunction",
    "dense",
    "dtype_of",
    "join_blocks",
    "namespace_of",
    "plain_zero",
    "probed",
    "type_name",
]

STANDARD_NAMES = {  # NumPy's ufunc: its name in the array API standard
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "power": "pow",
    "true_divide": "divide",
}


def namespace_of(*values: Any) -> Any:
    """Array namespace of the first duck array among the values; NumPy if there is none."""
    return next((value.__array_namespace__() for value in values if is_duck_array(value)), np)


def type_name(value: Any) -> str:
    """Name of a value's type for errors and `repr`, such as "sparse.COO"."""
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def dtype_of(value: Any) -> np.dtype[Any]:
    """NumPy's dtype of an array; a library's own dtype is translated by its name.

    Examples
    --------
    >>> dtype_of(np.float32(1))
    dtype('float32')
    """
    given = value.dtype
    return given if isinstance(given, np.dtype) else np.dtype(str(given).rpartition(".")[2])


def dense(value: Any) -> np.ndarray[Any, Any]:
    """Converts an array to NumPy: by `todense()` for sparse arrays, `get()` for CuPy's, `np.asarray` for others."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    for name in ("todense", "get"):
        if hasattr(value, name):
            return np.asarray(getattr(value, name)())
    return np.asarray(value)


class LibraryFunction:
    """Calls the function of a name in the library of its arguments; pickles even where the library's module does not.

    Examples
    --------
    >>> LibraryFunction("absolute")(np.array([-1.0])), LibraryFunction("add")(np.ones(1), 2)
    (array([1.]), array([3.]))
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the library's function."""
        xp = namespace_of(*args, *(args[0] if args and isinstance(args[0], list) else ()))
        found = getattr(xp, self.name, None) or getattr(xp, STANDARD_NAMES.get(self.name, self.name), None)
        if found is None:
            raise UnsupportedError(f"{xp.__name__} has no {self.name}")
        return found(*args, **kwargs)


def probed(name: str, function: Callable[..., Any], samples: Sequence[Any]) -> Any:
    """Call a function on samples of a few elements, so that an unsupported function is refused before the run.

    Raises
    ------
    UnsupportedError
        If the function raises.
    """
    try:
        with np.errstate(all="ignore"):
            return function(*samples)
    except Exception as error:
        kinds = " and ".join(dict.fromkeys(map(type_name, samples)))
        raise UnsupportedError(
            f"{name} of {kinds} is not possible: {type(error).__name__}: {error}; make the array dense before, "
            "x.todense(), or use map_blocks"
        ) from error


def plain_zero(value: Any) -> Any:
    """Replace a sparse array's fill value of -0.0 by 0.0, since libraries join only arrays of one fill value."""
    if is_duck_array(value) and getattr(value, "fill_value", None) == 0:
        value.fill_value = np.zeros((), dtype_of(value))[()]
    return value


def join_blocks(blocks: Sequence[Any], counts: Sequence[int]) -> Any:
    """Concatenate the blocks of a grid of `counts` blocks, given in C order, to one array."""
    found = list(blocks)
    for axis in reversed(range(len(counts))):
        n = counts[axis]
        if n > 1:
            groups = [found[i : i + n] for i in range(0, len(found), n)]
            found = [LibraryFunction("concat")(group, axis=axis) for group in groups]
    return found[0]
