"""Parts of small values of a cell, read and written by NumPy in this process, without a node.

Source: small_values.py.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.tensor.buffers import COUNTED, Buffer, SmallValues, View
from jmars.tensor.source_line import warn_user

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["AwayError", "here", "repeated", "small_elements", "small_operation", "small_part"]
__all__ += ["write_small_operation", "write_small_part"]

# Python's and NumPy's values that are passed on as they are.
_PLAIN: frozenset[type] = frozenset(
    {bool, int, float, complex, str, bytes, NoneType, EllipsisType, slice, np.ufunc, type(np._NoValue)}
    | ({*np.sctypeDict.values()} - {np.object_, np.void}) | {type(np.dtype(code)) for code in np.typecodes["All"]}
)  # fmt: skip
_BASIC = frozenset(
    {int, slice, EllipsisType, NoneType} | {one for one in np.sctypeDict.values() if issubclass(one, np.integer)}
)
_NUMBERS = frozenset(
    {bool, int, float, complex} | {one for one in np.sctypeDict.values() if issubclass(one, np.number)}
)
_CHANGING = (np.divide, operator.pow)  # operators whose results of integers may have another dtype
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


def _takes_many(memory: Any, entries: Any) -> bool:
    """Whether arrays among the entries of an index may take more elements than are small."""
    shapes = [np.shape(one) for one in entries if one.__class__ is np.ndarray or one.__class__ is list]
    shapes = [shape for shape in shapes if math.prod(shape) > 1]
    if not shapes or memory.size < 2:
        return False
    try:
        taken = math.prod(np.broadcast_shapes(*shapes))
    except ValueError:  # of masks, or NumPy's error
        taken = max(map(math.prod, shapes))
    return bool(taken * memory.nbytes // min(memory.shape) > SmallValues.largest())


def small_part(x: Tensor, index: Any) -> Any:
    """`x[index]`, by NumPy, of a tensor with elements in this process; NotImplemented for an index that makes a node.

    Raises
    ------
    IndexError
        NumPy's.
    """
    place = x._place
    memory = place.memory
    if not SmallValues.limit or memory is None:
        return NotImplemented
    if memory.dtype.names is not None and not getattr(index, "ndim", 0):  # a record, a field or a slice is a view
        return NotImplemented
    kind = index.__class__
    if kind is tuple and _BASIC.issuperset(map(type, index)):
        entries = index
    elif kind in _BASIC:
        entries = (index,)
    else:
        try:
            index = here(index)
        except AwayError:
            return NotImplemented
        if _takes_many(memory, index if kind is tuple else (index,)):
            return NotImplemented
        found = memory[index]
        return x.at(Buffer.of(found)) if found.__class__ is np.ndarray else found
    found = memory[index]
    if found.__class__ is not np.ndarray:
        return found
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
    if value.__class__ is not np.ndarray or value.dtype != place.memory.dtype:
        index, value = _apart(index, place.memory), _apart(value, place.memory)  # a write that warns is repeated
    with SmallValues.writing:
        memory = place.unlock()
        if memory is None:
            return False
        try:
            memory[index] = value
        except Warning as warning:
            repeated(warning, memory.__setitem__, index, value)
        finally:
            place.lock()
    return True


def _apart(value: Any, memory: Any) -> Any:
    """The value with copies of arrays that may share memory."""
    kind = value.__class__
    if kind is np.ndarray:
        return value.copy() if np.may_share_memory(value, memory) else value
    if (kind is list or kind is tuple) and not _PLAIN.issuperset(map(type, value)):
        return kind(_apart(one, memory) for one in value)
    return value


def small_elements(x: Tensor) -> Iterator[Any]:
    """Yield the elements of a tensor with a single axis; each has the value at the time when the loop reads it."""
    for i in range(len(x)):
        memory = x._place.memory
        yield x[i] if memory is None else memory[i]


def small_operation(function: Any, *args: Any) -> Any:
    """`function(*args)` of numbers and tensors with elements here and a small result; else NotImplemented.

    Arrays of `COUNTED` bytes and more are not small here: the table of functions decides.
    """
    given: list[Any] = []
    shape, size = None, 1
    for one in args:
        kind = one.__class__
        if kind is SmallValues.tensor:
            memory = one._place.memory
            if memory is None or memory.nbytes >= COUNTED:
                return NotImplemented
            if memory.shape != shape:
                shape, size = memory.shape, size * memory.size
            given.append(memory)
        elif kind in _NUMBERS:
            given.append(one)
        else:
            return NotImplemented
    if size * 16 > COUNTED and (len(given) > 1 or size * 16 > SmallValues.limit):
        return NotImplemented
    try:
        found = function(*given)
    except Warning as warning:
        found = repeated(warning, function, *given)
    kind = found.__class__
    if kind is np.ndarray:
        return SmallValues.tensor.at(Buffer.of(found))
    if kind is tuple:  # of divmod
        return tuple(SmallValues.tensor.at(Buffer.of(one)) if one.__class__ is np.ndarray else one for one in found)
    return found


def write_small_operation(function: Any, x: Tensor, other: Any) -> bool:
    """Do `x = function(x, other)` in the memory of `x`; False where the dtype or the size may differ."""
    place, kind = x._place, other.__class__
    memory = place.memory
    if memory is None:
        return False
    if kind is SmallValues.tensor:
        other_memory = other._place.memory
        if other_memory is None or other_memory.dtype != memory.dtype or other_memory.size > memory.size:
            return False
    elif kind is not int and kind is not float or memory.dtype.kind not in "fc":
        return False
    if memory.dtype.kind not in "fc" and function in _CHANGING:
        return False
    found = small_operation(function, x, other)
    value: Any = found._place.memory if found.__class__ is SmallValues.tensor else found
    if value is NotImplemented or value.shape != memory.shape or value.dtype != memory.dtype:
        return False
    with SmallValues.writing:
        memory = place.unlock()
        if memory is not None:
            memory[...] = value
            place.lock()
    return memory is not None


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
