"""What a foreign array is, and what its library offers: asked, never listed.

Source: the Python array API standard, `__array_namespace__`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.duck_arrays import is_duck_array

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

STANDARD_NAMES = {  # NumPy's ufunc: what the standard calls it
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
    """The namespace of the first foreign array among them, or NumPy."""
    return next((value.__array_namespace__() for value in values if is_duck_array(value)), np)


def type_name(value: Any) -> str:
    """What errors and `repr` call its type: "sparse.COO"."""
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def dtype_of(value: Any) -> np.dtype[Any]:
    """Its dtype as NumPy has it; libraries have dtypes of their own, of the same names.

    Examples
    --------
    >>> dtype_of(np.float32(1))
    dtype('float32')
    """
    given = value.dtype
    return given if isinstance(given, np.dtype) else np.dtype(str(given).rpartition(".")[2])


def dense(value: Any) -> np.ndarray[Any, Any]:
    """Its elements as a NumPy array: `todense()` of sparse arrays, `get()` of CuPy's, else as NumPy takes it."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    for name in ("todense", "get"):
        if hasattr(value, name):
            return np.asarray(getattr(value, name)())
    return np.asarray(value)


class LibraryFunction:
    """The function of that name in the library of its arguments; picklable, as that module need not be.

    Examples
    --------
    >>> LibraryFunction("absolute")(np.array([-1.0])), LibraryFunction("add")(np.ones(1), 2)
    (array([1.]), array([3.]))
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        xp = namespace_of(*args, *(args[0] if args and isinstance(args[0], list) else ()))
        found = getattr(xp, self.name, None) or getattr(xp, STANDARD_NAMES.get(self.name, self.name), None)
        if found is None:
            raise UnsupportedError(f"{xp.__name__} has no {self.name}")
        return found(*args, **kwargs)


def probed(name: str, function: Callable[..., Any], samples: Sequence[Any]) -> Any:
    """What a function gives for arrays of a few elements: so what a library cannot do is refused before it runs.

    Raises
    ------
    UnsupportedError
        If the library cannot do it.
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
    """The same, where a sparse array says -0.0 of what it does not hold: libraries join only what says the same."""
    if is_duck_array(value) and getattr(value, "fill_value", None) == 0:
        value.fill_value = np.zeros((), dtype_of(value))[()]
    return value


def join_blocks(blocks: Sequence[Any], counts: Sequence[int]) -> Any:
    """Blocks that stand in a grid of `counts`, in C order, as one array."""
    found = list(blocks)
    for axis in reversed(range(len(counts))):
        n = counts[axis]
        if n > 1:
            groups = [found[i : i + n] for i in range(0, len(found), n)]
            found = [LibraryFunction("concat")(group, axis=axis) for group in groups]
    return found[0]
