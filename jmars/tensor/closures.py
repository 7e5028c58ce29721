"""Names the tensor in the closure, globals or defaults of a user's function that cannot be pickled.

A tensor pickles as its value. Where no value can be computed, as in the body of a loop of the graph, the error has the
names of function and tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.from_array import Composite
from jmars.tensor.methods import TensorMethods

__all__ = ["closure_error"]

_INSIDE = ("func", "pyfunc", "__func__", "__wrapped__")  # functions of partials, vectorized functions and methods
_MOST = 10_000  # objects that are searched


def closure_error(value: Any) -> UnsupportedError | None:
    """Return an error for the first function in `value` that uses a tensor; None if there is none.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> mean = mt.ones(3).mean()
    >>> def centred(block):
    ...     return block - mean
    >>> print(closure_error(centred))
    the function centred uses the tensor mean, whose value cannot be computed here; give it to the function as an \
argument
    """
    for function in _functions(value):
        for name, one in _surroundings(function):
            if isinstance(one, TensorMethods | Composite):
                return UnsupportedError(
                    f"the function {function.__name__} uses the tensor {name}, whose value cannot be computed here; "
                    "give it to the function as an argument"
                )
    return None


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the functions in a value, within callables, and among the globals and closures of the functions found."""
    seen, left = set[int](), [value]
    while left and len(seen) < _MOST:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, tuple | list):
            left += one[:_MOST]
        elif isinstance(one, dict):
            left += islice(one.values(), _MOST)
        elif isinstance(one, FunctionType):
            yield one
            left += [used for _, used in _surroundings(one) if isinstance(used, FunctionType)]
        elif callable(one) and not isinstance(one, type):
            left += [getattr(one, name) for name in _INSIDE if getattr_static(one, name, None) is not None]
            left += [inner for inner in islice(getattr(one, "__dict__", {}).values(), _MOST) if callable(inner)]


def _surroundings(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield names and values of a function's free variables, globals and defaults."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            pass  # the free variable is unbound
    for name in _names(code):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    values = function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=False)
    yield from (function.__kwdefaults__ or {}).items()


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and its nested functions load."""
    yield from code.co_names  # names of attributes among them
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)
