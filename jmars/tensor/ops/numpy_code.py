"""Functions of NumPy that run on tensors as NumPy wrote them: Python code that calls functions of the table instead.

NumPy writes many functions in Python, as compositions of other functions: `np.stack`, `np.cov`, `np.linalg.norm`. On
tensors their code is a cell of plain NumPy, so values, dtypes, errors and warnings are those of the installed NumPy. A
function has code of jmars where NumPy's reads values that a graph need not know, or makes more nodes.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from jmars.tensor.operand import warn_user
from jmars.tensor.ops.arguments import takes_like
from jmars.tensor.protocols import find, numpys_named, offers
from jmars.tensor.tensor import as_tensor

_SMALLEST = 2**12  # bytes above which an array becomes a tensor: `np.outer` of smaller ones is small, too
_LONG = 100  # entries of a list that are searched; longer lists hold numbers, or begin with an array


MEANT: dict[Any, Any] = {}  # of functions and classes without a name in the table: their counterpart on tensors


def offer_numpys(
    name: str, *aliases: str, gives: str = "Tensor", enter: Callable[[Any], Any] = as_tensor
) -> Callable[..., Any]:
    """Register NumPy's function of a name, to run on tensors as NumPy wrote it; `gives` is the type of results.

    `enter` makes tensors of NumPy's arrays among arguments and results.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> from jmars.tensor.protocols import call
    >>> call("trapezoid", ones((2, 4), chunk_size=2)).fetch().tolist()
    [3.0, 3.0]
    """
    theirs = _in_python(numpys_named(name))
    signature = inspect.signature(theirs)
    first, *_ = parameters = [*signature.parameters]
    place = parameters.index("out") if "out" in parameters else None

    def function(*args: Any, **kwargs: Any) -> Any:
        if first == "tup" and not hasattr(args[0] if args else kwargs.get(first, ()), "__getitem__"):
            # refused by NumPy's dispatch, not by the code behind it
            raise TypeError('arrays to stack must be passed as a "sequence" type such as list or tuple.')
        given = [one if k == place else _without_large(one, enter) for k, one in enumerate(args)]
        named = {key: one if key == "out" else _without_large(one, enter) for key, one in kwargs.items()}
        found = on_tensors(theirs)(*given, **named)
        out = kwargs.get("out") if place is None or place >= len(args) else args[place]
        is_out = out is not None and (found is out or (type(out) is tuple and found is out[0]))
        return found if is_out else _as_tensors(found, enter)

    function.__name__, function.__doc__ = theirs.__name__, theirs.__doc__
    function.__signature__ = signature.replace(return_annotation=gives)  # type: ignore[attr-defined]
    return offers(name, *aliases)(takes_like(function) if "like" in parameters else function)


def _without_large(value: Any, enter: Callable[[Any], Any]) -> Any:
    """Large arrays of NumPy as tensors; small ones are computed with at once."""
    if type(value) in (list, tuple):
        is_searched = len(value) < _LONG or isinstance(value[0], np.ndarray)
        return type(value)(_without_large(one, enter) for one in value) if is_searched else value
    return enter(value) if isinstance(value, np.ndarray) and value.nbytes > _SMALLEST else value


def _as_tensors(found: Any, enter: Callable[[Any], Any]) -> Any:
    """NumPy's arrays in a result as tensors."""
    if isinstance(found, tuple | list):
        parts = (_as_tensors(one, enter) for one in found)
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    return enter(found) if isinstance(found, np.ndarray | np.generic) else found


def _in_python(function: Any) -> Any:
    """The function behind NumPy's dispatch on arguments; a function in C itself."""
    return getattr(function, "__wrapped__", function)


@functools.cache
def on_tensors(theirs: Any) -> FunctionType:
    """A function with the same code, whose global names mean functions of the table where NumPy's are meant."""
    known = theirs.__globals__
    meant: dict[str, Any] = {"__builtins__": builtins, "__name__": __name__, "__package__": known["__package__"]}
    made = FunctionType(theirs.__code__, meant, theirs.__name__, theirs.__defaults__, theirs.__closure__)
    made.__kwdefaults__ = theirs.__kwdefaults__
    meant |= {name: _meant(known[name]) for name in _names(theirs.__code__) if name in known}
    return made


def _names(code: CodeType) -> Iterator[str]:
    """Global names that code and the functions within it may read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _meant(value: Any) -> Any:
    """What a global name of NumPy's code means on tensors; ufuncs find tensors themselves."""
    if value is warnings:
        return _Warnings
    if isinstance(value, ModuleType):
        return _Module(value) if value.__name__.partition(".")[0] == "numpy" else value
    if callable(value) and value in MEANT:
        return MEANT[value]
    if isinstance(value, np.ufunc | type) or not callable(value):
        return value
    found = find(value)
    if found is not None:
        return _Either(value, found)
    written = _in_python(value)
    is_numpys = inspect.isfunction(written) and written.__globals__["__name__"].startswith("numpy.")
    return _Later(written) if is_numpys else value


class _Either:
    """NumPy's function, and the function of the table for calls with tensors or arrays of other libraries."""

    def __init__(self, theirs: Any, ours: Callable[..., Any]) -> None:
        self._theirs, self._ours = theirs, ours

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._theirs if _is_plain(args) and _is_plain(kwargs.values()) else self._ours)(*args, **kwargs)


def _is_plain(values: Iterable[Any]) -> bool:
    """Whether values are Python's and NumPy's own, also those in lists."""
    for one in values:
        kind = type(one)
        if kind is list or kind is tuple:
            if not _is_plain(one[:_LONG]):
                return False
        elif kind.__module__ not in ("builtins", "numpy", "numpy.dtypes"):
            return False
    return True


class _Later:
    """A function of NumPy's own that another one calls."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return on_tensors(self._theirs)(*args, **kwargs)


class _Module:
    """A module of NumPy's code."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = _meant(getattr(self._module, name))
        setattr(self, name, found)
        return found


class _Warnings:
    """Python's module in NumPy's code: warns at the user's line."""

    @staticmethod
    def warn(message: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
        """Warn at the user's line, however many functions are between."""
        warn_user(message, category)


# by the type of the results
_OFFERED = {
    "Tensor": """
    append apply_over_axes asarray_chkfinite angle corrcoef cov dstack fft.fft2 fft.fftn fft.fftshift
    fft.ifftn fft.ifftshift fft.irfftn fft.rfft2 fft.rfftn flatnonzero flip fliplr flipud hstack iscomplex
    isreal kron linalg.cross linalg.diagonal linalg.matrix_norm linalg.matrix_rank linalg.multi_dot
    linalg.norm linalg.outer linalg.tensorinv linalg.trace linalg.vector_norm outer polyval ptp real_if_close require
    rollaxis rot90 sinc trapezoid union1d unique_values unwrap vstack
    """,
    "Any": """
    atleast_1d atleast_2d atleast_3d gradient polyfit unique_all unique_counts unique_inverse
    """,
    "tuple[Tensor, ...]": "histogram2d",
    "list[Tensor]": "dsplit hsplit split vsplit",
}
for _gives, _names_of_type in _OFFERED.items():
    for _name in _names_of_type.split():
        offer_numpys(_name, gives=_gives)
offer_numpys("matrix_transpose", "linalg.matrix_transpose")
for _name in "arccos arcsin arctanh log log10 log2 logn power sqrt".split():  # noqa: SIM905
    offer_numpys(f"emath.{_name}", f"lib.scimath.{_name}")
