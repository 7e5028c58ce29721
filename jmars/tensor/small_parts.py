"""Parts and elements of small values, read and written by NumPy in this process, without nodes.

`D[i, j] = min(D[i - 1, j], D[i, j - 1]) + cost[i, j]` in a loop would make five nodes a turn. Where the engine gives
the value of a small array, an element is read from the value, and a write makes a node of a new value. The steps of a
view are the same on the value as in NumPy (buffers.py), so a view reads and writes the value of the buffer.

Rows of an array of any size, read in order by a loop that looks at values in every turn, come with their values:
`RowReader` fetches them by the megabyte. So do the elements of a tensor with a single axis: `any(x > 0)`, `max(x)`,
`sorted(x)`, `dict(zip(names, x))` and `for v in x` get NumPy's scalars, to hash, compare and format as in NumPy. An
element that the loop has written to meanwhile is read again, as NumPy's iterator does.
Source: docs/decisions/0060-small-values.md.
"""

from __future__ import annotations

import itertools
import math
import operator
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.kernels.expression import CONSTANT, Expression
from jmars.tensor.buffers import COUNTED, MOST, Buffer, Place, SmallValues, View, ViewStep, in_order
from jmars.tensor.engine import can_compute, current_engine, get_engine
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import TensorData, new_data, warn_user
from jmars.tensor.splits import chunk_bytes

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

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
_CHANGING = (np.divide, operator.pow)  # operators with results of integers of a different dtype
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
        if memory is None and place.__class__ is Buffer and place.node.depth >= CHAIN:
            memory = _end_of_chain(place)
        if memory is not None and (memory.nbytes <= SmallValues.limit or not place.buffer.is_held):
            return memory if memory.ndim or place.is_array else memory[()]
    elif kind is range or kind is type and issubclass(value, _TYPES):
        return value
    raise AwayError


def _end_of_chain(place: Buffer) -> Array | None:
    """The elements of a small value behind many operations, as a loop makes it: computed here, if quick."""
    node, engine = place.node, current_engine()
    node.depth = 0  # of what is made of it, now or with the next value that is tried
    if engine is None or not can_compute() or engine.small(node, 0) is None:
        return None
    return place.memory


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
    if taken * memory.nbytes // min(memory.shape) <= SmallValues.largest():
        return False
    return bool(_taken_elements(memory.shape, entries) * memory.itemsize > SmallValues.largest())


def _taken_elements(shape: tuple[int, ...], entries: Any) -> int:
    """Elements that an index with arrays takes; 0 for an index that NumPy refuses."""
    arrays = [np.asarray(one) if one.__class__ in (list, np.ndarray) else one for one in entries]
    lengths = [
        one.ndim
        if isinstance(one, np.ndarray) and one.dtype == bool
        else one is not None and one is not ... and not isinstance(one, bool | np.bool)
        for one in arrays
    ]
    kept, axis, taken = 1, 0, []
    for one, length in zip(arrays, lengths, strict=True):
        if one is ...:
            length = max(0, len(shape) - sum(lengths))
        if one is ... or isinstance(one, slice):
            kept *= math.prod(shape[axis : axis + length])
        elif isinstance(one, np.ndarray):
            taken.append((np.count_nonzero(one),) if one.dtype == bool else one.shape)
        axis += length
    try:
        return math.prod(np.broadcast_shapes(*taken)) * kept * math.prod(shape[axis:])
    except ValueError:
        return 0


def small_part(x: Tensor, index: Any) -> Any:
    """`x[index]`, by NumPy, of a tensor with elements in this process; NotImplemented for an index that makes a node.

    Of a larger array of the user the parts are elements, and small views.

    Raises
    ------
    IndexError
        NumPy's.
    """
    place = x._place
    memory = place.source
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
        if place.memory is None:
            return NotImplemented
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
    if place.memory is None and found.nbytes > SmallValues.limit:
        return NotImplemented
    found.flags.writeable = False
    return x._viewed(entries, found)


def write_small_part(x: Tensor, index: Any, value: Any) -> bool:
    """`x[index] = value`, by NumPy, of a tensor with elements in this process; False for a write that makes a node.

    Raises
    ------
    Exception
        NumPy's.
    """
    place = x._place
    if not SmallValues.limit or not place.writeable:
        return False
    try:
        index, value = here(index), here(value)
    except AwayError:
        return False
    with SmallValues.writing:
        memory = place.memory
        if memory is not None and (value.__class__ is not np.ndarray or value.dtype != memory.dtype):
            index, value = _apart(index, memory), _apart(value, memory)  # a write that warns is repeated
        memory = place.unlock()
        if memory is None and KnownWrites.follow(place, index, value):
            memory = place.unlock()
        if memory is None:
            return False
        raise_warnings()
        try:
            memory[index] = value
        except Warning as warning:
            repeated(warning, memory.__setitem__, index, value)
        finally:
            place.lock()
    return True


def apply_small(function: Callable[..., Any], x: Any, /, *args: Any, **options: Any) -> bool:
    """Let NumPy's `function(x, *args)` write to the memory of a small tensor; False without memory here."""
    if x.__class__ is not SmallValues.tensor or not SmallValues.limit:
        return False
    place = x._place
    if place.memory is None or not place.writeable or not place.is_array:
        return False
    try:
        given, options = [here(value) for value in args], {key: here(one) for key, one in options.items()}
    except AwayError:
        return False
    with SmallValues.writing, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        memory = place.unlock()
        if memory is None:
            return False
        try:
            function(memory, *given, **options)
        finally:
            place.lock()
    for one in seen:
        warn_user(str(one.message), one.category)
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
    """Yield the elements of a tensor with a single axis, as they are when the loop reads them."""
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
    raise_warnings()
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
        if memory is None and KnownWrites.follow(place, ..., value):
            memory = place.unlock()
        if memory is not None:
            memory[...] = value
            place.lock()
    return memory is not None


NOTED_WRITES = 16  # writes of known values to a large array, after which its memory is held here
HELD_BYTES = 2**26  # bytes of the largest such array


@dataclass
class KnownWrites:
    """The writes of known values to an array, from a moment on when all elements were known.

    `out[t] = 0.5 * out[t - 1]` in a loop would make nodes in every turn, where `out` is an array of constants or of the
    user that is not small. When the loop reads a small part, or after some writes, the elements are held in this
    process, within a limit. Until then the writes make nodes: an array with written borders stays an array of
    constants.
    """

    start: TensorData  # the value at that moment
    version: int  # of the buffer after the last of the writes
    writes: list[tuple[list[ViewStep], Any, Any]]  # steps from the buffer, so that no write refers to the buffer
    is_pending: bool = False  # while the last write is done

    @classmethod
    def follow(cls, place: Place, index: Any, value: Any) -> bool:
        """Note a write that follows and makes a node; True for a write to memory, since the elements are held now."""
        buffer = place.buffer
        known = cls._current(buffer)
        if known is None:
            node = buffer.node
            if buffer.writer or buffer.reader or _nbytes(node) > _room() or not _has_known_elements(node):
                return False
            known = buffer.known_writes = cls(node, buffer.version, [])
        elif len(known.writes) == NOTED_WRITES:
            return known._hold(buffer)
        steps: list[ViewStep] = []
        while isinstance(place, View):
            steps, place = [place.step, *steps], place.parent
        known.writes.append((steps, *deepcopy((index, value))))
        known.is_pending = True
        return False

    def settle(self, buffer: Buffer) -> None:
        """Note that the last write is done, raised an error, or was empty."""
        if not self.is_pending:
            return
        self.is_pending = False
        if buffer.version == self.version:
            self.writes.pop()
        elif buffer.version == self.version + 1:
            self.version += 1
        else:
            buffer.known_writes = None

    @classmethod
    def holds(cls, part: Tensor, buffer: Buffer) -> bool:
        """Hold the elements of an array if a loop reads a small part; whether they are held now."""
        if not SmallValues.limit or part.data.has_unknown_lengths or part.nbytes > SmallValues.limit:
            return False
        known = cls._current(buffer)
        return known is not None and known._hold(buffer)

    @staticmethod
    def _current(buffer: Buffer) -> KnownWrites | None:
        """The writes to a buffer if no other write came between."""
        known = buffer.known_writes
        if known is not None:
            known.settle(buffer)
        if known is not None and buffer.version != known.version:
            buffer.known_writes = None
        return buffer.known_writes

    def _hold(self, buffer: Buffer) -> bool:
        buffer.known_writes = None
        memory = self._memory(buffer) if _nbytes(self.start) <= _room() else None
        if memory is not None:
            buffer.hold(memory)
        return memory is not None

    def _memory(self, buffer: Buffer) -> Array | None:
        """The elements after all writes; None where that is not known."""
        node, op = self.start, self.start.op
        if isinstance(op, FromArray):
            op.check()
            whole = in_order(op.array, buffer.strides)
            whole = whole.copy("K") if whole is not None and np.may_share_memory(whole, op.array) else whole
        else:
            whole = in_order(np.full(node.shape, constant_of(node), node.dtype), buffer.strides)
        if whole is None:
            return None
        for steps, index, value in self.writes:
            part = whole
            for step in steps:
                part = step.layout(part)
            if not np.may_share_memory(part, whole):
                return None
            try:
                part[index] = value
            except (Warning, TypeError, ValueError):  # which the nodes give where they are computed
                return None
        return whole


def _room() -> int:
    """Bytes of the largest array that may be held now."""
    return min(HELD_BYTES, 2 * chunk_bytes(), MOST // 2 - SmallValues.bytes)


def _nbytes(node: TensorData) -> int:
    return math.prod(node.shape) * node.dtype.itemsize


def _has_known_elements(node: TensorData) -> bool:
    """Whether a node is an array of this process or an array of equal constants."""
    if node.op.annotation is not None or node.has_unknown_lengths or node.dtype.names is not None:
        return False
    if isinstance(node.op, FromArray):
        return bool(node.op.array.shape == node.shape and node.op.array.dtype == node.dtype)
    return constant_of(node) is not None


def constant_of(node: TensorData) -> Any:
    """The value of all elements of a node of constants; None for other nodes."""
    expression = getattr(node.op, "expression", None)
    if not isinstance(expression, Expression) or len(expression.nodes) != 1 or expression.nodes[0].op != CONSTANT:
        return None
    return expression.nodes[0].value


def raise_warnings() -> None:
    """Raise warnings of NumPy's calls in the tensor modules, before filters of the cell, for `repeated`."""
    global _filter
    if not warnings.filters or warnings.filters[0] is not _filter:
        warnings.filterwarnings("error", module=r"jmars\.tensor\.(small_|operators)")
        _filter = warnings.filters[0]


_filter: Any = None


def repeated(first: Warning, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of NumPy again that ended by a warning, and warn at the user's line; returns the result."""
    if isinstance(first, np.exceptions.ComplexWarning):  # comes before the first element is written
        warn_user(str(first), type(first))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            return function(*args, **kwargs)
    kinds: list[str] = []
    told = {kind: "call" for kind, how in np.geterr().items() if how == "warn"}
    _, at, name = str(first).partition(" encountered in ")
    try:
        if not at:
            raise first
        with np.errstate(call=lambda kind, _: kinds.append(kind), **told):  # type: ignore[arg-type]
            found = function(*args, **kwargs)
        texts = [str(first), *(f"{kind}{at}{name}" for kind in kinds if not str(first).startswith(kind))]
    except Warning:  # of NumPy's code in Python
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = function(*args, **kwargs)
        first_here = next(k for k, one in enumerate(seen) if one.filename.startswith(_FOLDER))
        for one in seen[first_here:]:  # others were told before the call ended
            if one.filename.startswith(_FOLDER):
                warn_user(str(one.message), one.category)
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return found
    for text in dict.fromkeys(texts):
        warn_user(text, type(first))
    return found


def method_of(name: str) -> Callable[..., Any]:
    """A function that calls a method of the first argument: NumPy's warnings are those of the line that calls."""
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


_FOLDER = os.path.dirname(__file__)  # of the modules that call NumPy


Array = np.ndarray[Any, Any]
COPIED_FOR_AN_ELEMENT = 2**16  # bytes of an array that a write to an element copies
READ_AHEAD = 2**24  # bytes of rows that are read at once
LOOKED_AT = 2  # turns of a loop with a look at values, after which rows are read ahead
ROWS = 30  # small rows that a loop in a cell has read one after the other, after which rows are read ahead
CHAIN = 64  # operations from known values to a small value that is computed, so that a loop goes on with values
NUMBERS = bool | int | float | complex | np.generic


def read_element(x: Tensor, index: Any) -> Any:
    """An element as NumPy's scalar; None where the value of the array is not known, and for other indices.

    Raises
    ------
    IndexError
        NumPy's.
    """
    if not _is_element(x, index):
        return None
    place = x._place
    whole = _known(place, place.buffer.node)
    if whole is not None and (part := _part(place, whole)) is not None:
        return part[index]
    row = _known(place, place.node) if place.node is not place.buffer.node else None  # of a large array
    return None if row is None else row[index]


def write_element(x: Tensor, index: Any, value: Any) -> bool:
    """Write a number to an element; False where the value of the array is not known, and for other indices and values.

    Raises
    ------
    Exception
        NumPy's, for the index or the value.
    """
    if not _is_element(x, index) or not isinstance(value, NUMBERS) or not x._place.writeable:
        return False
    place, buffer = x._place, x._place.buffer
    known = _known(place, buffer.node)
    part = None if known is None or known.nbytes > COPIED_FOR_AN_ELEMENT else _part(place, whole := known.copy())
    if part is None:
        return False
    part[index] = value
    whole.flags.writeable = False
    node = buffer.node
    buffer.put(new_data(FromArray(array=whole, line=node.op.line), node.shape, node.dtype, node.chunks))
    return True


class RowReader(threading.local):
    """Reads rows ahead for a loop, such as `for row in x: if row.sum() > 0: ...`, after two turns with a look.

    In a cell small rows are read ahead after 30 turns without a look, too. In a thread a single loop at a time reads
    ahead. A write to the array makes a new node, without known rows.
    """

    def __init__(self) -> None:
        self.looks = 0  # at values, by this thread
        self.forget()

    def forget(self) -> None:
        """Drop the rows that were read ahead."""
        self._of: weakref.ref[TensorData] | None = None
        self._last, self._looks, self._turns, self._reads, self._start = -2, 0, 0, 0, 0
        self._block: Array | None = None

    def row(self, x: Tensor, i: int) -> Array | None:
        """The value of `x[i]`; None where the loop has not looked at rows so far."""
        node = x.data
        if self._of is None or self._of() is not node:
            self.forget()
            self._of = weakref.ref(node, lambda _: self.forget())
        is_next = i == self._last + 1
        if not is_next:
            self._turns = self._reads = 0
        elif self._block is None:  # rows with values give the loop no cause to ask for values
            self._turns = self._turns + 1 if self.looks > self._looks else 0
            self._reads += 1
        self._last, self._looks = i, self.looks
        if self._block is None or not 0 <= i - self._start < len(self._block):
            self._block = None
            if not can_compute() or self._turns < LOOKED_AT and not (self._reads >= ROWS and _may_read_ahead(x)):
                return None
            is_small = x.nbytes <= SmallValues.limit
            length = len(x) if is_small else max(1, READ_AHEAD // max(1, x.nbytes // len(x)))
            self._start = 0 if is_small else i
            self._block = np.ascontiguousarray(x[self._start : self._start + length].fetch(copy=is_small))
            if is_small:
                self._block.flags.writeable = False
                node.op = FromArray(array=self._block, line=node.op.line)
        row: Array = self._block[i - self._start]
        return row


def _may_read_ahead(x: Tensor) -> bool:
    """Whether a cell reads rows ahead that nobody has looked at: small ones, and not in a cell that is only planned."""
    return x.nbytes <= SmallValues.limit * len(x) and get_engine().tries_on_worker()


rows = RowReader()


def truth(x: Tensor) -> Any:
    """Python's bool of a tensor without axes where the engine computes the value at once; else the tensor, marked."""
    x._place.is_array = None
    engine = current_engine()
    value = engine.small(x.data, 0) if engine is not None and can_compute() else None
    return x if value is None else bool(value)


def _is_element(x: Tensor, index: Any) -> bool:
    """Whether an index is an int per axis."""
    if index.__class__ is tuple:
        return 0 < len(index) == x.ndim and all(map(_is_int, index))
    return _is_int(index) and x.ndim == 1


def _is_int(entry: Any) -> bool:
    return entry.__class__ is int or isinstance(entry, np.integer)


def _known(place: Place, node: TensorData) -> Array | None:
    """The value of the node of a place or of the buffer, in C order; records have no scalars."""
    engine = current_engine()
    if engine is None or place.buffer.permuted or place.node.dtype.names is not None or not can_compute():
        return None
    place.buffer.touched += 1
    return engine.small(node, place.buffer.touched)


def _part(place: Place, whole: Array) -> Array | None:
    """The array of a place within the array of the buffer; None where the array would be a copy."""
    if isinstance(place, Buffer):
        return whole
    step, parent = place.step, _part(place.parent, whole)
    part = None if parent is None else step.layout(parent)
    return part if part is not None and np.may_share_memory(part, whole) else None


FETCHED_BYTES = 2**20  # bytes that are fetched at once
SCALARS_AT_ONCE = 1024  # elements that are made scalars at once: `any(x > 0)` often ends early


class ElementLoop:
    """Elements that a loop of Python's reads from a list, as fast as from any list, until the memory is written."""

    __slots__ = ("_scalars", "elements")

    def __init__(self, elements: list[Any]) -> None:
        self.elements = elements
        self._scalars = iter(elements)

    def __iter__(self) -> Iterator[Any]:
        return self._scalars

    def end(self) -> None:
        """Drop the elements that were not read yet."""
        del self.elements[len(self.elements) - operator.length_hint(self._scalars) :]


def elements(x: Tensor) -> Iterator[Any]:
    """Yield the elements of a tensor with a single axis, as NumPy's scalars.

    Elements after a write to the tensor are tensors without axes, until the loop ends.

    Parameters
    ----------
    x : shape (n,)
        Any dtype but a record.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     sorted(mt.asarray([3, 1, 2])), any(mt.arange(4) > 2)
    ([np.int64(1), np.int64(2), np.int64(3)], True)
    """
    return itertools.chain.from_iterable(_parts(x))


def _parts(x: Tensor) -> Iterator[Iterable[Any]]:
    """Parts of the elements; after a write a part per element."""
    n, node = x.shape[0], x.data
    at_once = max(1, FETCHED_BYTES // max(1, x.itemsize))
    if n > at_once:
        get_engine().execute([node])  # once, whatever number of blocks
    done = 0
    with _same_buffer(x) as buffer:
        while done < n and x.data is node:
            block = (x if n <= at_once else x[done : done + at_once]).fetch()
            for start in range(0, len(block), SCALARS_AT_ONCE):
                loop = ElementLoop(list(block[start : start + SCALARS_AT_ONCE]))
                buffer.loops = (*buffer.loops, loop)
                try:
                    yield loop
                finally:
                    buffer.loops = tuple(one for one in buffer.loops if one is not loop)
                done += len(loop.elements)
                if x.data is not node:
                    break
        for i in range(done, n):
            yield (x[i],)


@contextmanager
def _same_buffer(x: Tensor) -> Iterator[Buffer]:
    """The buffer of a tensor, unchanged within the block: a view has company, so no buffer is set apart."""
    place = x.state().place
    other = type(x)(x.data)
    other.restore(x.state())
    if isinstance(place, View):
        place.buffer.share(other)
    yield place.buffer
