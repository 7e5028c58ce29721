"""The table of functions: maps NumPy's names and functions to the functions of jmars.

tensor/ops fills the table by `@offers(...)`. `jmars.tensor.<name>`, methods and operators of tensors, and NumPy's
protocols `__array_ufunc__` and `__array_function__` look functions up in the table. Names that are missing from the
table raise `UnsupportedError`.

An argument of another library with `__array_ufunc__` or `__array_function__` overrides the function: pandas keeps
labels, xarray skips NaN, Dask stays lazy. A function of jmars that gets such an argument calls NumPy's function, and
NumPy calls the override. NumPy's arrays, tensors and duck arrays (from_array.py) do not count as overriding.

A ufunc that is none of NumPy's functions is known by reference. A ufunc of a module pickles by the names of module and
ufunc. A ufunc of `np.frompyfunc` does not pickle: the Python function behind the ufunc is pickled instead.
Source: NEP 13, NEP 18.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import operator
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pickle import whichmodule  # type: ignore[attr-defined]
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any, ClassVar, TypeVar

import cloudpickle
import numpy as np

from jmars.errors import ObjectArrayError, UnsupportedError
from jmars.kernels.elementwise import facts
from jmars.kernels.expression import UfuncReference
from jmars.tensor.buffers import SmallValues, is_plain
from jmars.tensor.engine import can_compute
from jmars.tensor.from_array import DuckArrayError, dispatch
from jmars.tensor.operand import Origin
from jmars.tensor.small_parts import method_of, small_operation

F = TypeVar("F", bound=Callable[..., Any])


class _Table(dict[str, Callable[..., Any]]):
    """The table; the names of numpy.ma, numpy.strings, numpy.polynomial and scipy.ndimage come when the first of them
    is asked for.

    Examples
    --------
    >>> FUNCTIONS["char.upper"].__name__, "char.unheard" in FUNCTIONS
    ('upper', False)
    """

    later: ClassVar = {"ma": "ma", "strings": "strings", "char": "strings", "polynomial": "polynomial",
                       "ndimage": "ndimage"}  # fmt: skip

    def fill(self, first: str) -> None:
        """Import the module of the names that begin with `first` and a dot."""
        if first in self.later:
            importlib.import_module(f"jmars.tensor.{self.later[first]}")

    def get(self, name: str, default: Any = None) -> Any:
        """The function of a name, or `default`."""
        return self[name] if name in self else default  # noqa: SIM401  # which is this method

    def __missing__(self, name: str) -> Callable[..., Any]:
        if name in self:
            return self[name]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        if not super().__contains__(name) and isinstance(name, str):
            self.fill(name.partition(".")[0])
        return super().__contains__(name)


FUNCTIONS = _Table()  # by name; "method.<name>": methods only
_BY_NUMPY: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {}  # (with, without overrides)


def offers(*names: str, does: str = "") -> Callable[[F], F]:
    """Register a function under `names`, and for NumPy's functions of the names.

    With `does` a function of several tables gets the first name and this docstring.

    Examples
    --------
    >>> @offers("method.example")
    ... def example(x):
    ...     return x
    >>> call("method.example", 1)
    1
    """

    def register(function: F) -> F:
        if does:
            function.__name__ = function.__qualname__ = names[0].rpartition(".")[2]
            function.__doc__ = does
            function.__module__ = getattr(function, "func", function).__module__
        known = [numpys for name in names if (numpys := numpys_named(name)) is not None]
        theirs = _OF_OBJECTS.get(names[0], known[0] if known and not names[0].startswith("random.") else None)
        alone = _hooked(names[0], function, theirs)
        offered = next((_hooked(names[0], function, theirs, one) for one in known if is_overridable(one)), alone)
        for one in {offered, getattr(offered, "__func__", offered)} if known else ():
            one.__name__ = getattr(known[0], "__name__", names[0])
            one.__module__, one.__qualname__ = "jmars.tensor", names[0]  # where pickle finds it
        FUNCTIONS.update(dict.fromkeys(names, offered))
        for numpys in known:  # np.ma.expand_dims is np.expand_dims: the first registration counts
            _BY_NUMPY.setdefault(numpys, (offered, alone))
        return function

    return register


def numpys_named(name: str) -> Any:
    """Return NumPy's function of a dotted name, or None; "ndimage" is SciPy's."""
    found: Any = sys.modules.get("scipy") if name.startswith("ndimage.") else np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


CallHook = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_call_hook: CallHook | None = None


def set_call_hook(hook: CallHook) -> None:
    """Send calls of the table through `hook(name, function, args, kwargs)` once a length is unknown."""
    global _call_hook
    _call_hook = hook


MaskHook = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
_mask_hook: MaskHook | None = None


def set_mask_hook(hook: MaskHook) -> None:
    """Call `hook(name, args, kwargs)` first; without masked arguments the hook returns NotImplemented."""
    global _mask_hook
    _mask_hook = hook


LayoutHook = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any], Any]
_layout_hook: LayoutHook | None = None
_LAID_OUT = frozenset(  # functions of new arrays whose memory order is not C where the order of the arguments is not
    """all amax amin any append average block column_stack concat concatenate cumprod cumsum cumulative_prod
    cumulative_sum delete diff dstack fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn
    fft.ifftshift fft.ihfft fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn gradient hstack i0 insert
    linalg.qr linalg.svd max mean median method.accumulate method.reduce method.reduceat min nancumprod nancumsum
    nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar pad partition percentile
    piecewise prod ptp quantile roll select sort stack std sum trapezoid unwrap var vstack""".split()  # noqa: SIM905
)


def set_layout_hook(hook: LayoutHook) -> None:
    """Call `hook(numpy_function, args, kwargs, found)` for the results of functions that keep the arguments' order."""
    global _layout_hook
    _layout_hook = hook


PlainHook = Callable[..., Any]
_plain_hook: PlainHook | None = None


def set_plain_hook(hook: PlainHook | None) -> None:
    """Call `hook(function, *args)` for `function(*args)` outside of cells."""
    global _plain_hook
    _plain_hook = hook


def is_plain_hook(code: CodeType) -> bool:
    """Whether code is that of the hook of plain cells, which stands between the user's line and the function."""
    return code is getattr(_plain_hook, "__code__", None)


def outermost(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that calls functions of the table, through the hook of plain cells."""
    return _plain_hook(function, *args) if _plain_hook is not None and is_plain() else function(*args)


SmallHook = Callable[[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_small_hook: SmallHook | None = None  # while small values are computed at once
# Functions that small values take to NumPy by another function, and functions that write to an argument or a file, read
# a file, call a function of the user, or make an iterator.
_SMALL: dict[str, Any] = {
    "method.pow": operator.pow,
    "method.fill": np.ndarray.fill,
    **{
        f"method.{name}": method_of(name)
        for name in ("accumulate", "astype", "mean", "outer", "reduce", "reduceat", "var")
    },
    "ma.operator": lambda name, a, b: facts(name).python(a, b),
    "ma.comparison": lambda name, a, b: facts(name).python(a, b),
    "ma.ufunc": lambda name, *args, **options: getattr(np, name)(*args, **options),
}
_NEVER_SMALL = frozenset(
    """apply_along_axis apply_over_axes array2string array_repr array_str broadcast frombuffer
    fromfile fromfunction fromiter fromregex fromstring genfromtxt lib load loadtxt ma.MaskedArray ma.apply_over_axes
    ma.frombuffer ma.fromfunction ma.harden_mask ma.masked_array ma.mr_ ma.ndenumerate ma.put ma.putmask
    ma.set_fill_value ma.soften_mask may_share_memory memmap method.at
    method.values ndarray ndenumerate ndimage.generic_filter ndimage.generic_filter1d ndimage.vectorized_filter
    ndindex nditer polynomial random save
    savetxt savez savez_compressed shares_memory testing vectorize""".split()  # noqa: SIM905
)


ResultHook = Callable[[Any], Any]
_result_hook: ResultHook | None = None  # while a cell runs


def set_result_hook(hook: ResultHook | None) -> None:
    """Return `hook(found)` from calls of a cell that make nodes."""
    global _result_hook
    _result_hook = hook


def set_small_hook(hook: SmallHook | None) -> None:
    """Call `hook(name, numpys, function, args, kwargs)` first; a call that makes a node returns NotImplemented."""
    global _small_hook
    _small_hook = hook


def eager(ufunc: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a library's compiled ufunc, if the arguments are small and in this process."""
    if not SmallValues.limit or _small_hook is None or "O" in ufunc.types[0]:
        return NotImplemented
    return _small_hook("ufunc", ufunc, ufunc, args, kwargs)


def _hooked(name: str, function: Callable[..., Any], theirs: Any, numpys: Any = None) -> Callable[..., Any]:
    """Wrap a function with dispatch on overriding arguments (through NumPy's function `numpys`) and the hooks.

    NumPy's function `theirs` computes with arrays of objects.
    """

    layout = theirs if name in _LAID_OUT else None
    working = 0 if name.startswith("random.") else 1  # generators draw small arrays at once
    small = _SMALL.get(name, None if name in _NEVER_SMALL or name.partition(".")[0] in _NEVER_SMALL else theirs)

    def work(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if numpys is not None and next(overriding_args((*args, *kwargs.values())), None) is not None:
            return call_numpy(numpys, args, kwargs, _entering)
        if _mask_hook is not None and (found := _mask_hook(name, args, kwargs)) is not NotImplemented:
            return found
        try:
            hook = _call_hook if Origin.met else None
            found = function(*args, **kwargs) if hook is None else hook(name, function, args, kwargs)
            return found if layout is None or _layout_hook is None else _layout_hook(layout, args, kwargs, found)
        except (DuckArrayError, ObjectArrayError) as error:
            if isinstance(error, DuckArrayError):  # sparse arrays and other duck arrays
                found = dispatch(error, name, args, kwargs)
                if found is not NotImplemented:
                    return found
            if theirs is None or not can_compute() or _is_inside(work):
                raise
            if kwargs.keys() & {"chunks", "chunk_size"} or _writes_to_tensor(name, theirs, args, kwargs):
                raise  # NumPy has no chunks
        # NumPy computes with objects, in this process
        return theirs(*call("method.values", args), **call("method.values", kwargs))

    def counted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        SmallValues.count(working)
        try:
            return work(args, kwargs)
        finally:
            SmallValues.count(-working)

    @functools.wraps(function)
    def offered(*args: Any, **kwargs: Any) -> Any:
        hook = _small_hook if SmallValues.limit and small is not None else None
        if hook and (found := hook(name, small, function, args, kwargs)) is not NotImplemented:  # type: ignore[arg-type]
            return found
        plain = _plain_hook is not None and is_plain()
        if not SmallValues.limit and (plain or _result_hook is None or SmallValues.working):
            return _plain_hook(work, args, kwargs) if plain else work(args, kwargs)  # type: ignore[misc]
        if _mask_hook is not None and (found := _mask_hook(name, args, kwargs)) is not NotImplemented:
            return found
        found = _plain_hook(counted, args, kwargs) if plain else counted(args, kwargs)  # type: ignore[misc]
        return found if plain or _result_hook is None else _result_hook(found)

    if isinstance(theirs, np.ufunc):
        return Ufunc(offered, theirs, small is not None)
    # NumPy's functions in C are no methods of a class in which they are attributes
    return _InC(offered) if isinstance(theirs, BuiltinFunctionType) else offered


class _InC(staticmethod):  # type: ignore[type-arg]
    """A function of the table for a function in C of NumPy; pickled by name."""

    def __reduce__(self) -> str:
        return str(self.__qualname__)


class Ufunc:
    """A function of the table for a ufunc of NumPy's, with equal attributes, and equal to the ufunc.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> mt.add.nin, mt.add.types[0], mt.add == np.add
    (2, '??->?', True)
    """

    def __init__(self, function: Callable[..., Any], theirs: np.ufunc, may_be_small: bool) -> None:
        functools.update_wrapper(self, function)
        self.__doc__ = theirs.__doc__
        self._theirs = theirs
        self._small_args = theirs.nin if may_be_small else -1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if SmallValues.limit and not kwargs and len(args) == self._small_args:
            found = small_operation(self._theirs, *args)
            if found is not NotImplemented:
                return found
        return self.__wrapped__(*args, **kwargs)  # of update_wrapper

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_theirs"], name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._theirs

    def __hash__(self) -> int:
        return hash(self._theirs)

    def __repr__(self) -> str:
        return repr(self._theirs)

    def __reduce__(self) -> str:
        return str(self.__qualname__)


def _of_ufunc(method: str) -> Callable[..., Any]:
    return lambda ufunc, *args, **kwargs: getattr(ufunc, method)(*args, **kwargs)


# NumPy's functions for arrays of objects, by the names of methods.
_OF_OBJECTS: dict[str, Any] = {"method.astype": lambda x, *args, **kwargs: np.asarray(x).astype(*args, **kwargs)[()]}
_OF_OBJECTS |= {f"method.{name}": _of_ufunc(name) for name in ("reduce", "accumulate", "reduceat", "outer", "at")}
_WRITES = frozenset({"copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal"})


def _is_inside(work: Callable[..., Any]) -> bool:
    """Whether a function of the table called this function, and goes on with the result as a tensor."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not work.__code__:
        frame = frame.f_back
    return frame is not None


def _writes_to_tensor(name: str, theirs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tensor among the arguments is written, so that a copy of the value would not do."""
    written: list[Any] = list(args[theirs.nin :]) if isinstance(theirs, np.ufunc) else []
    written += args[:1] if name.removeprefix("ma.") in _WRITES else []
    written += args[1:2] if name == "method.at" else []
    out = kwargs.get("out")
    written += out if isinstance(out, tuple) else [out]
    return any(type(one).__module__.startswith("jmars.") for one in written)


def _entering(value: Any) -> Any:
    """Convert a NumPy array to a tensor; looked up by name, so that wrapped functions pickle without the table."""
    return call("asarray", value)


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call the table's function of a name."""
    try:
        function = FUNCTIONS[name]
    except KeyError:
        raise unsupported(name.removeprefix("method.")) from None
    return function(*args, **kwargs)


def find(numpy_function: Any) -> Callable[..., Any] | None:
    """Find our function for a NumPy function that has already dispatched on the arguments, or None."""
    if numpy_function not in _BY_NUMPY:
        FUNCTIONS.fill(str(getattr(numpy_function, "__module__", "")).removeprefix("numpy."))
    return _BY_NUMPY.get(numpy_function, (None, None))[1]


def numpy_function(function: Any) -> Any:
    """Find NumPy's function or class for a function or class of jmars."""
    if not str(getattr(function, "__module__", "")).startswith("jmars."):
        return None  # a function of the user, the usual case
    if isinstance(function, type):
        return vars(function).get("numpy_class")
    found = (numpys for numpys, (offered, alone) in _BY_NUMPY.items() if function is offered or function is alone)
    return next(found, None)


_INSTEAD = {  # of names that a cell of NumPy's courses has
    "lib.stride_tricks.as_strided": "make windows by np.lib.stride_tricks.sliding_window_view",
}


def unsupported(name: str) -> UnsupportedError:
    """Make the error for a NumPy function that jmars lacks."""
    instead = f"{_INSTEAD[name]}, or " if name in _INSTEAD else ""
    on_arrays = "" if name.startswith("random.") else ", on the value, x.fetch(), or on chunks with map_blocks"
    return UnsupportedError(
        f"np.{name} is not in jmars yet, and jmars does not fall back to NumPy silently; "
        f"{instead}compute it in a cell without %%jmars, where numpy is NumPy{on_arrays}"
    )


_METHODS = ("__array_ufunc__", "__array_function__")
_OVERRIDABLE = (np.ufunc, type(np.concatenate))
_LONG = 100  # entries of a list that are searched; longer lists hold numbers


def is_overridable(function: Any) -> bool:
    """Whether arguments can override a function of NumPy; `np.asarray` cannot be overridden.

    Examples
    --------
    >>> is_overridable(np.sqrt), is_overridable(np.mean), is_overridable(np.asarray)
    (True, True, False)
    """
    return isinstance(function, _OVERRIDABLE)


def overriding_args(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the arguments that override NumPy's functions, also arguments within lists and tuples.

    Examples
    --------
    >>> class Labelled:
    ...     __module__ = "another_library"
    ...     def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
    ...         return "mine"
    >>> [type(one).__name__ for one in overriding_args([1, np.ones(2), [Labelled()]])]
    ['Labelled']
    """
    for value in values:
        kind: Any = type(value)
        if kind is list or kind is tuple:  # as np.concatenate takes
            yield from overriding_args(value[:_LONG])
        elif _type_overrides(kind):
            yield value


def _overrides(value: Any) -> bool:
    kind: Any = type(value)
    return _type_overrides(kind)


@lru_cache(maxsize=1024)
def _type_overrides(kind: type) -> bool:
    givers = [next((base for base in kind.__mro__ if name in vars(base)), object) for name in _METHODS]
    known = ("builtins", "numpy", "jmars")
    if all(giver.__module__.partition(".")[0] in known for giver in givers):
        return False
    return issubclass(kind, np.ndarray) or not hasattr(kind, "__array_namespace__")  # else a duck array


def call_numpy(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], enter: Callable[[Any], Any]) -> Any:
    """Call NumPy's function, and thereby the override; `enter` converts NumPy arrays in the result to tensors."""
    return _entered(function(*args, **kwargs), enter)


def _entered(value: Any, enter: Callable[[Any], Any]) -> Any:
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return enter(value)
    if type(value) in (list, tuple):
        return type(value)(_entered(one, enter) for one in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):  # a named tuple, as np.linalg.svd returns
        return value._make(_entered(one, enter) for one in value)
    return value


def call_override(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the first override that accepts a ufunc's arguments; NotImplemented if there is none.

    An override that knows only NumPy's arrays, as pandas', is called with the tensors' values.
    """
    for one in overriding_args((*inputs, *kwargs.values())):
        asked = getattr(one, _METHODS[0], None)
        if asked is None:
            continue
        found = asked(ufunc, method, *inputs, **kwargs)
        if found is NotImplemented and not hasattr(one, _METHODS[1]):
            found = asked(ufunc, method, *map(_value, inputs), **kwargs)
        if found is not NotImplemented:
            return found
    return NotImplemented


def _value(given: Any) -> Any:
    """Compute a lazy array; return other values unchanged."""
    lazy = hasattr(given, _METHODS[0]) and not isinstance(given, np.ndarray) and not _overrides(given)
    return np.asarray(given) if lazy else given


def calls_method(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether NumPy's function calls an argument's method of the same name, as `np.clip(series, low, high)` does."""
    written = inspect.isfunction(getattr(function, "__wrapped__", None))  # functions in C call no methods
    return written and any(hasattr(one, function.__name__) for one in args if _overrides(one))


class PythonUfunc:
    """A ufunc of `np.frompyfunc`: calls a Python function per element, and gives objects.

    Examples
    --------
    >>> PythonUfunc(divmod, 2, 2).ufunc(7, 2)
    (3, 1)
    """

    def __init__(self, function: Callable[..., Any], nin: int, nout: int) -> None:
        self.function, self.nin, self.nout = function, nin, nout
        self.ufunc = np.frompyfunc(function, nin, nout)

    def __reduce__(self) -> Any:
        return PythonUfunc, (self.function, self.nin, self.nout)


def reference_to(ufunc: Any) -> UfuncReference | PythonUfunc:
    """Make the reference by which an expression names a ufunc; for `np.frompyfunc` the function itself.

    Raises
    ------
    UnsupportedError
        If the ufunc does not pickle, so that no other process can have it.

    Examples
    --------
    >>> reference_to(np.hypot).name.rpartition(".")[2]
    'hypot'
    >>> reference_to(np.frompyfunc(hex, 1, 1)).function
    <built-in function hex>
    """
    function = _python_function(ufunc)
    if function is not None:
        return PythonUfunc(function, ufunc.nin, ufunc.nout)
    return _reference(ufunc)


@lru_cache(maxsize=256)
def _reference(ufunc: Any) -> UfuncReference:
    name = str(ufunc.__name__)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of modules such as numpy.core, which are searched
            blob = cloudpickle.dumps(ufunc)
            module: str = whichmodule(ufunc, name) if isinstance(ufunc, np.ufunc) else ""
        if module == "__main__":
            raise pickle.PicklingError("no module has it")
    except Exception as error:
        raise UnsupportedError(
            f"the ufunc {name} cannot be sent to the workers ({error}); call it there by map_blocks, in a function "
            "that imports or makes it"
        ) from error
    public = [part for part in module.split(".") if not part.startswith("_") or module.startswith("numpy.")]
    return UfuncReference(".".join([*filter(None, public), name]), blob, ufunc.nin, ufunc.nout)


def _python_function(ufunc: Any) -> Callable[..., Any] | None:
    """The function that a ufunc of `np.frompyfunc` calls; NumPy tells it to the garbage collector only."""
    if (
        not isinstance(ufunc, np.ufunc)
        or not ufunc.__name__.endswith(" (vectorized)")
        or set(ufunc.types[0]) - set("O->")
    ):
        return None
    return next((one for one in gc.get_referents(ufunc) if callable(one)), None)
