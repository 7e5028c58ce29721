"""The names that a test module imports from NumPy, as a `%%jmars` cell has them.

Functions and classes that jmars does not offer raise UnsupportedError when they are called. The assertions of
numpy.testing fetch what they compare.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.notebook.numpy_names import resolve
from jmars.tensor.from_array import Composite
from jmars.tensor.protocols import unsupported
from jmars.tensor.tensor import Tensor

_PUBLIC = (
    ["numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.strings", "numpy.char", "numpy.lib"]
    + ["numpy.lib.stride_tricks", "numpy.lib.scimath", "numpy.lib.recfunctions", "numpy.lib.npyio", "numpy.lib.format"]
    + ["numpy.polynomial", "numpy.rec", "numpy.emath"]
)
_TESTING = ("numpy.testing", "numpy.ma.testutils")
_RAISES = {"assert_raises", "assert_raises_regex"}  # their calls compute what the function returns
_PLAIN = {"assert_warns", "assert_no_warnings", "assert_no_gc_cycles"}


def stand_in(value: Any) -> Any:
    """What a cell has in the place of a module, function or class of NumPy's; other values as they are."""
    if isinstance(value, ModuleType):
        return _Names.of(value.__name__) if value.__name__.partition(".")[0] == "numpy" else value
    if value is np.ma.mr_:
        return resolve("numpy.ma.mr_")
    if not callable(value) or isinstance(value, type) and issubclass(value, np.generic | np.dtype):
        return value
    path = _paths().get(id(value))
    return value if path is None else _resolved(path, value)


def entered(value: Any) -> Any:
    """What a cell has in the place of a value that was made with NumPy: tensors for arrays, also within containers."""
    if type(value) is np.ndarray:
        return value if value.dtype.hasobject else resolve("numpy.asarray")(value)
    if type(value) is dict:
        return {entered(key): entered(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        found = type(value)(map(entered, value))
        return found if any(x is not y for x, y in zip(found, value)) else value
    if type(value).__module__.startswith("tests.conformance.test_") and hasattr(value, "__dict__"):
        vars(value).update(entered(vars(value)))  # an object of the module's: a case with its arrays
        return value
    return stand_in(value)


def fetched(value: Any) -> Any:
    """The value of a tensor, also in lists, tuples and dicts."""
    if isinstance(value, Tensor | Composite):
        return value.fetch()
    if type(value) in (list, tuple):
        return type(value)(map(fetched, value))
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(fetched, value))
    return {key: fetched(one) for key, one in value.items()} if type(value) is dict else value


class _Names(ModuleType):
    """A module of NumPy's."""

    @classmethod
    @functools.cache
    def of(cls, path: str) -> _Names:
        return cls(path)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.__dict__["_numpy"] = importlib.import_module(path)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._numpy, name)
        return stand_in(value)

    def __dir__(self) -> list[str]:
        return dir(self._numpy)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (self.__name__,)  # functions of users run on workers with NumPy's own


@functools.cache
def _paths() -> dict[int, str]:
    """Functions and classes of NumPy's by identity, where a cell may have others."""
    found: dict[int, str] = {}
    for path in (*_PUBLIC, *_TESTING):
        module = importlib.import_module(path) if path != "numpy.emath" else np.emath
        for name in dir(module):
            value = getattr(module, name)
            if callable(value) and not name.startswith("_") and not isinstance(value, ModuleType):
                found.setdefault(id(value), f"{path}.{name}")
    return found


@functools.cache
def _resolved(path: str, value: Any) -> Any:
    module, _, name = path.rpartition(".")
    if module in _TESTING:
        return _fetching(name, value)
    try:
        return resolve(path)
    except UnsupportedError:
        return _refused_class(path, value) if isinstance(value, type) else _refused(path, value)


def _fetching(name: str, function: Any) -> Any:
    """An assertion that computes what it compares."""
    if not name.startswith("assert_") or name in _PLAIN:
        return function

    @functools.wraps(function)
    def asserted(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if name in _RAISES:
            at = 2 if name == "assert_raises_regex" else 1
            args = (*args[:at], *map(_computing, args[at : at + 1]), *args[at + 1 :])
            return function(*args, **kwargs)
        return function(*map(fetched, args), **fetched(kwargs))

    return asserted


def _computing(function: Callable[..., Any]) -> Callable[..., Any]:
    def computed(*args: Any, **kwargs: Any) -> Any:
        return fetched(function(*args, **kwargs))

    return computed


def _refused(path: str, function: Any) -> Any:
    @functools.wraps(function, updated=())
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise unsupported(path.removeprefix("numpy."))

    return refuse


class _Refused(type):
    """Metaclass of classes that raise UnsupportedError when they are called."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise unsupported(cls.refused)  # type: ignore[attr-defined]

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1])


def _refused_class(path: str, own: type) -> Any:
    try:
        return _Refused(own.__name__, (own,), {"refused": path.removeprefix("numpy.")})
    except TypeError:  # it cannot be inherited from: np.ufunc, np.nditer
        return own
