"""Pickles of functions, kept while nothing that a pickle holds has changed.

A function of a notebook is pickled by value, with its globals and closure, which takes longer than the whole rest of
`spawn`; a loop spawns the same function thousands of times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from operator import is_
from threading import Lock
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle

from jmars.tensor.ops.blockwise.map_blocks import pickled

__all__ = ["function_blob"]

KEPT = 32  # functions
LARGEST = 2**16  # bytes of a pickle that is kept
_CONSTANT = frozenset({type(None), bool, int, float, complex, str, bytes, CodeType})  # these, and no subclass of them
_kept: dict[int, tuple[FunctionType, list[Any], int, bytes]] = {}  # by id, oldest first: what the pickle depends on
_lock = Lock()
_EMPTY = CellType()


def function_blob(function: Any) -> bytes:
    """Pickle a function, or return the pickle of the last time if it would be the same.

    Examples
    --------
    >>> step = 1
    >>> def add(number):
    ...     return number + step
    >>> function_blob(add) is function_blob(add)
    True
    """
    held = _held(function) if type(function) is FunctionType else None
    if held is None:
        return pickled(function)
    modules = len(sys.modules)  # a module is pickled with its submodules
    known = _kept.get(id(function))
    if known is not None and known[0] is function and known[2] == modules and _are_same(known[1], held):
        return known[3]
    blob = pickled(function)
    if len(blob) <= LARGEST:
        with _lock:
            _kept.pop(id(function), None)
            _kept[id(function)] = function, held, modules, blob
            if len(_kept) > KEPT:
                del _kept[next(iter(_kept))]
    return blob


def _are_same(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _held(function: FunctionType) -> list[Any] | None:
    """All objects that a function's pickle depends on, which must be the same objects; None if some can change."""
    if cloudpickle.list_registry_pickle_by_value():
        return None
    if _is_importable(function):
        return [function]
    held: list[Any] = []
    waiting, seen = [function], {id(function)}
    while waiting:
        for part in _parts(waiting.pop()):
            if type(part) in _CONSTANT or _is_importable(part):
                held.append(part)
            elif type(part) is not FunctionType:
                return None
            elif id(part) not in seen:
                seen.add(id(part))
                held.append(part)
                waiting.append(part)
    return held


def _parts(function: FunctionType) -> Iterator[Any]:
    """What a pickle by value holds of a function."""
    yield function.__code__
    yield function.__name__
    yield function.__qualname__
    yield function.__module__
    yield function.__doc__
    yield len(function.__defaults__ or ())
    yield from function.__defaults__ or ()
    for named in (function.__kwdefaults__, function.__dict__, function.__annotations__):
        yield len(named or ())
        for name, value in (named or {}).items():
            yield name
            yield value
    for cell in function.__closure__ or ():
        yield cell.cell_contents if cell != _EMPTY else cell  # an empty cell is no constant
    yield from _globals(function.__code__, function.__globals__)


def _globals(code: CodeType, known: dict[str, Any]) -> Iterator[Any]:
    """Names in code, and in code within it, that are globals, and their values."""
    for name in code.co_names:
        if name in known:
            yield name
            yield known[name]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner, known)


def _is_importable(part: Any) -> bool:
    """Whether a module, function or class is pickled by its name."""
    if type(part) is ModuleType:
        return sys.modules.get(part.__name__) is part
    if not isinstance(part, FunctionType | BuiltinFunctionType | type):
        return False  # without a look at its attributes: those of a user's object may raise anything
    module = part.__module__
    if module in (None, "__main__"):
        return False
    return getattr(sys.modules.get(module), getattr(part, "__qualname__", ""), None) is part
