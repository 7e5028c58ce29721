"""Parts of small values of a cell, read and written by NumPy in this process, without a node.

Source: small_values.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.tensor.buffers import Buffer, SmallValues, View
from jmars.tensor.source_line import warn_user

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["AwayError", "here", "small_elements", "small_operation", "small_part"]
__all__ += ["repeated", "write_small_part"]

# Python's and NumPy's values that are passed on as they are.
_PLAIN: frozenset[type] = frozenset(
    {bool, int, float, complex, str, bytes, NoneType, EllipsisType, slice, np.ufunc, type(np._NoValue)}
    | ({*np.sctypeDict.values()} - {np.object_, np.void}) | {type(np.dtype(code)) for code in np.typecodes["All"]}
)  # fmt: skip
_BASIC = frozenset(
    {int, slice, EllipsisType, NoneType} | {one for one in np.sctypeDict.values() if issubclass(one, np.integer)}
)
_TYPES = (np.generic, bool, int, float, complex, str, bytes)


class AwayError(Exception):
    """Raised where an argument is not in this process, or not small."""


def here(value: Any) -> Any:
    """NumPy's value of an argument.

    Raises
    ------
    AwayError
        If there is none in this process, or the value is not small.
    """
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is np.ndarray:
        if value.dtype.hasobject or value.nbytes > SmallValues.limit:
            raise AwayError
        return value
    if kind is list or kind is tuple:
        return value if _PLAIN.issuperset(map(type, value)) else kind(map(here, value))
    place = getattr(value, "_place", None)
    if place.__class__ is Buffer or place.__class__ is View:  # of a tensor
        memory = place.memory
        if memory is not None:
            return memory if memory.ndim or place.is_array else memory[()]
    elif kind is range or kind is type and issubclass(value, _TYPES):
        return value
    raise AwayError


def small_part(x: Tensor, index: Any) -> Any:
    """`x[index]`, by NumPy, of a tensor with elements in this process; NotImplemented for an index that makes a node.

    Raises
    ------
    IndexError
        NumPy's.
    """
    place = x._place
    memory = place.memory
    if not SmallValues.limit or memory is None or memory.dtype.names is not None:
        return NotImplemented
    kind = index.__class__
    if kind is not int:
        try:
            index = here(index)
        except AwayError:
            return NotImplemented
    found = memory[index]
    if found.__class__ is not np.ndarray:
        return found
    entries = index if kind is tuple else (index,)
    if not _BASIC.issuperset(map(type, entries)):
        return x.at(Buffer.of(found))
    if place.__class__ is View and place.step.copies_parts:
        return NotImplemented
    return x._viewed(entries, found)


def write_small_part(x: Tensor, index: Any, value: Any) -> bool:
    """`x[index] = value`, by NumPy, of a tensor with elements in this process; False for a write that makes a node.

    Raises
    ------
    Exception
        NumPy's.
    """
    place = x._place
    if not SmallValues.limit or place.memory is None or not place.writeable:
        return False
    try:
        index, value = here(index), here(value)
    except AwayError:
        return False
    if value.__class__ is np.ndarray and value.dtype != place.memory.dtype and np.may_share_memory(value, place.memory):
        value = value.copy()  # a write that warns is repeated
    with SmallValues.writing:
        memory = place.unlock()
        assert memory is not None
        try:
            memory[index] = value
        except Warning as warning:
            repeated(warning, memory.__setitem__, index, value)
        finally:
            place.lock()
    return True


def small_elements(x: Tensor) -> Iterator[Any]:
    """Yield the elements of a tensor with a single axis; each has the value at the time when the loop reads it."""
    for i in range(len(x)):
        memory = x._place.memory
        yield x[i] if memory is None else memory[i]


def small_operation(function: Any, x: Tensor, other: Any) -> Any:
    """`function(x, other)` where the elements of both are here and the result is small; else NotImplemented."""
    memory = x._place.memory
    if memory is None or not SmallValues.limit:
        return NotImplemented
    kind = other.__class__
    if kind is x.__class__:
        other = other._place.memory
        if other is None or (memory.shape != other.shape and memory.size * other.size * 16 > SmallValues.limit):
            return NotImplemented
    elif kind is not int and kind is not float:
        return NotImplemented
    try:
        found = function(memory, other)
    except Warning as warning:
        found = repeated(warning, function, memory, other)
    if found.__class__ is tuple:  # of divmod
        return tuple(x.at(Buffer.of(one)) if one.__class__ is np.ndarray else one for one in found)
    return x.at(Buffer.of(found)) if found.__class__ is np.ndarray else found


def repeated(first: Warning, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of NumPy again that ended by a warning, and warn at the user's line; returns the result."""
    kinds: list[str] = []
    told = {kind: "call" for kind, how in np.geterr().items() if how == "warn"}
    try:
        with np.errstate(call=lambda kind, _: kinds.append(kind), **told):  # type: ignore[arg-type]
            found = function(*args, **kwargs)
        texts = [(str(first), type(first))]
        _, at, name = str(first).partition(" encountered in ")
        texts += [(f"{kind}{at}{name}", type(first)) for kind in kinds if at and not str(first).startswith(kind)]
    except Warning:  # of NumPy's code in Python
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = function(*args, **kwargs)
        texts = [(str(one.message), one.category) for one in seen]
    for text, category in dict.fromkeys(texts):
        warn_user(text, category)
    return found
