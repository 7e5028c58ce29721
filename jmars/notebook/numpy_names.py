"""What NumPy's names mean: jmars.tensor while a `%%jmars` cell runs, NumPy before and after.

`meaning("numpy.linalg.norm")` is the lazy function, `np.pi` and `np.float32` stay NumPy's, and what jmars does not
distribute raises by its name. The imports of a cell come here (see `jmars.notebook.cell_source`): as long as a cell
runs they give the lazy names, later (a function defined in the cell, called from another) and in blocks NumPy's own.
Used by `jmars.notebook.namespace`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import jmars.tensor as lazy
from jmars.errors import UnsupportedError
from jmars.tensor.ops.blockwise.map_blocks import in_block
from jmars.tensor.protocols import FUNCTIONS, unsupported

__all__ = ["given_names", "lazy_names", "meaning", "path_of"]

_LATER = {
    "numpy.ma": "ma",
    "numpy.strings": "strings",
    "numpy.char": "strings",
}  # imported when asked, as by NumPy
_SEARCHED = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", *_LATER)
# They touch no array, or only look at one: NumPy's own will do.
_PLAIN_MODULES = frozenset({"testing", "typing", "exceptions", "dtypes", "version"})
_PLAIN = frozenset(
    ["can_cast", "promote_types", "min_scalar_type", "issubdtype", "isdtype", "isscalar", "broadcast_shapes"]
    + ["set_printoptions", "get_printoptions", "seterr", "geterr", "show_config", "typename", "iterable"]
    + ["format_float_positional", "format_float_scientific", "base_repr", "binary_repr"]
)

given_names: dict[int, tuple[Any, Any]] = {}  # id of what the cell was given: that, and what NumPy has there
_running = 0  # cells that run now; one may run another


@contextmanager
def lazy_names() -> Iterator[None]:
    """Within, imports rewritten by `cell_source` give jmars.tensor's names."""
    global _running
    _running += 1
    try:
        yield
    finally:
        _running -= 1
        if not _running:
            given_names.clear()


def meaning(path: str) -> Any:
    """What the NumPy name `path` is inside a cell.

    Raises
    ------
    UnsupportedError
        If jmars does not distribute it.
    AttributeError
        If NumPy has no such name either.
    """
    module, _, name = path.rpartition(".")
    if not module:
        value: Any = _CellModule.of("numpy")
    else:
        value = _CellModule.of(module).look_up(name)
    return value


def path_of(value: Any) -> str | None:
    """The name in NumPy of a module or function, as "numpy.linalg.norm"; None if it is not NumPy's."""
    if isinstance(value, ModuleType):
        name = value.__name__
        return name if name in _SEARCHED else None
    loaded = tuple(path for path in _SEARCHED if path in sys.modules)
    return _functions(loaded).get(id(value)) if callable(value) else None


@functools.cache
def _functions(loaded: tuple[str, ...]) -> dict[int, str]:
    """NumPy's functions and ufuncs by identity (they live as long as NumPy's modules do), of modules that are there."""
    found: dict[int, str] = {}
    for path in loaded:
        for name, value in vars(importlib.import_module(path)).items():
            known = not isinstance(value, type) or name in ("ndarray", "MaskedArray", "masked_array")
            if callable(value) and known and not name.startswith("_"):
                found.setdefault(id(value), f"{path}.{name}")
    return found


class _CellModule(ModuleType):
    """A module of NumPy as a cell sees it."""

    @classmethod
    @functools.cache
    def of(cls, path: str) -> _CellModule:
        """The one for `path`, such as "numpy.linalg"."""
        return cls(path)

    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} inside a %%jmars cell: jmars.tensor")
        self._numpy = _imported(path)
        if path in _LATER:
            importlib.import_module(f"jmars.tensor.{_LATER[path]}")  # puts its functions into the table

    def __getattr__(self, name: str) -> Any:
        return self.look_up(name)

    def __dir__(self) -> list[str]:
        return dir(self._numpy)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (
            self._numpy.__name__,
        )  # a function for map_blocks runs NumPy's own on the worker

    def look_up(self, name: str) -> Any:
        """The value of `name`; see `meaning`."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        path = f"{self.__name__}.{name}"
        known = path.removeprefix("numpy.")
        if known in FUNCTIONS:
            return FUNCTIONS[known]
        try:
            value = getattr(self._numpy, name)
        except AttributeError as error:  # with NumPy's words, which for names that it once had say more
            raise AttributeError(str(error), name=name, obj=self) from None
        if isinstance(value, ModuleType):
            return value if name in _PLAIN_MODULES else _CellModule.of(path)
        if known == name and name in dir(lazy):
            return getattr(lazy, name)  # a dtype, a constant
        if not callable(value) or name in _PLAIN or (isinstance(value, type) and issubclass(value, Exception)):
            return value
        raise unsupported(known)


def refusing(path: str) -> Callable[..., Any]:
    """A function that stands for an unsupported name and raises when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return __getattr__(path)(*args, **kwargs)  # NumPy's own in blocks, to which it may have travelled

    refuse.__name__ = path  # not the qualified one: pickle would look it up here
    return refuse


def meaning_or_refusal(path: str) -> Any:
    """As `meaning`, but what is unsupported raises when it is called, not when it is named."""
    try:
        return meaning(path)
    except UnsupportedError:
        return refusing(path)


def __getattr__(path: str) -> Any:
    """For the imports of cells: `path` is a name in NumPy, with a star in front where it came by `import *`."""
    name = path.removeprefix("*")
    if name.partition(".")[0] != "numpy":
        raise AttributeError(f"module {__name__!r} has no attribute {path!r}")
    own = _imported(name)
    if not _running or in_block.get():
        return own
    value = meaning_or_refusal(name) if path.startswith("*") else meaning(name)
    if value is not own:
        given_names[id(value)] = (value, own)
    return value


def _imported(path: str) -> Any:
    """NumPy's own value of a name, which may be a submodule that nobody had imported."""
    module, _, name = path.rpartition(".")
    try:
        if module:
            return getattr(_imported(module), name)  # np.emath is no submodule
    except AttributeError:
        pass
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"cannot import name {name!r} from {module!r}", name=path) from None
