"""NumPy's modules with the functions of jmars: `np` and `np.lib.stride_tricks` in a cell, `jmars.tensor.lib` anywhere.

So is `scipy.ndimage`; the other modules of SciPy are its own.

Functions of jmars come first. Constants, classes and functions that take no array are NumPy's
own. So are functions of small arrays and for tests, as `np.testing` and `np.polynomial.chebyshev`, in this process:
tensors among their arguments become arrays, with the warning of from_array.py for large tensors. Other names raise
UnsupportedError.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from jmars.tensor.from_array import Composite
from jmars.tensor.protocols import FUNCTIONS, offers, unsupported
from jmars.tensor.tensor import Tensor

# Names that mean NumPy's own values: no function, or one that reads no elements.
PASSED_ON = frozenset(
    """
    pi e inf nan newaxis euler_gamma dtype finfo iinfo errstate seterr geterr printoptions set_printoptions
    get_printoptions generic number integer signedinteger unsignedinteger inexact floating complexfloating
    bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 intp uintp byte short intc int_ long longlong ubyte
    ushort uintc uint ulong ulonglong float16 float32 float64 longdouble half single double complex64 complex128
    clongdouble csingle cdouble datetime64 timedelta64 str_ bytes_ void s_ index_exp ndindex broadcast_shapes
    promote_types issubdtype isdtype typecodes little_endian True_ False_ __version__
    float128 complex256 object_ character flexible record recarray memmap busdaycalendar ufunc flatiter
    can_cast min_scalar_type show_config show_runtime typename iterable info get_include test
    format_float_positional format_float_scientific base_repr binary_repr frompyfunc row_stack
    getbufsize setbufsize geterrcall seterrcall
    """.split()  # noqa: SIM905
)
_OWN_MODULES = frozenset({"typing", "exceptions", "dtypes", "version"})  # as they are
# Modules whose functions take values; their classes and constants are NumPy's own.
_OF_VALUES = ("testing.", "rec.", "lib.", "polynomial.", "ctypeslib.")
_ABSENT = frozenset({"lib.stride_tricks.as_strided"})  # writes to the result must reach the array


class NumPyModule(ModuleType):
    """A NumPy module with the functions of jmars."""

    @classmethod
    @functools.cache
    def of(cls, path: str) -> NumPyModule:
        """The version of a module such as "numpy.linalg"."""
        return cls(path)

    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} with the functions of jmars.tensor")
        self._numpy = import_name(path)

    def __getattr__(self, name: str) -> Any:
        value = self.look_up(name)
        if self._path(name) in FUNCTIONS or name in PASSED_ON or isinstance(value, NumPyModule):
            setattr(self, name, value)  # so that Python finds it without this method
        return value

    def _path(self, name: str) -> str:
        return f"{self.__name__}.{name}".removeprefix("numpy.").removeprefix("scipy.")

    def __dir__(self) -> list[str]:
        return dir(self._numpy)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (
            self._numpy.__name__,
        )  # a function for map_blocks runs NumPy's own on the worker

    def look_up(self, name: str) -> Any:
        """The value of `name`.

        Raises
        ------
        UnsupportedError
            If jmars does not distribute the function.
        AttributeError
            If NumPy has no such name either.
        """
        known = self._path(name)
        if known in FUNCTIONS:
            return FUNCTIONS[known]
        try:
            value = getattr(self._numpy, name)
        except AttributeError as error:  # with NumPy's words, which for names that it once had say more
            raise AttributeError(str(error), name=name, obj=self) from None
        if name.startswith("__") and not isinstance(value, str):  # `__path__`, but not `__version__`
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        if isinstance(value, ModuleType):
            own = name in _OWN_MODULES if self.__name__ != "scipy" else name != "ndimage"
            return value if own else NumPyModule.of(f"{self.__name__}.{name}")
        return value if self.__name__.startswith("scipy") else numpys_own(known, value)


def numpys_own(path: str, value: Any) -> Any:
    """The value of the name `path` below numpy where jmars has no function, with NumPy's `value`.

    Raises
    ------
    UnsupportedError
        If jmars does not distribute the function.
    """
    if path in PASSED_ON or not callable(value):
        return value
    if isinstance(value, type) and issubclass(value, Exception | np.generic):
        return value
    if not path.startswith(_OF_VALUES) or path in _ABSENT:
        raise unsupported(path)
    return value if isinstance(value, type) else with_values(value)


@functools.cache
def with_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with arrays for tensors among its arguments.

    A call that gets a function, as `np.testing.assert_raises(ValueError, f, x)`, passes tensors on.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     with_values(np.roots)(mt.asarray([1, -3, 2]))
    array([2., 1.])
    """

    @functools.wraps(function)
    def of_values(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not any(callable(one) and not isinstance(one, type) for one in args):
            args, kwargs = as_values(args), as_values(kwargs)
        return function(*args, **kwargs)

    return of_values


@offers("method.values")
def as_values(value: Any) -> Any:
    """The value with arrays, or NumPy's scalars, in place of tensors, also in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return np.asarray(value) if value._place.is_array else value.fetch()
    if isinstance(value, Composite):
        return value.fetch()  # type: ignore[attr-defined]
    if type(value) is dict:
        return {key: as_values(one) for key, one in value.items()}
    return type(value)(map(as_values, value)) if type(value) in (tuple, list) else value


def import_name(path: str) -> Any:
    """NumPy's own value of a name such as "numpy.linalg.norm", or a submodule that is not imported yet."""
    module, _, name = path.rpartition(".")
    try:
        if module:
            return getattr(import_name(module), name)  # np.emath is no submodule
    except AttributeError:
        pass
    if not module:
        return importlib.import_module(name)
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"cannot import name {name!r} from {module!r}", name=path) from None
