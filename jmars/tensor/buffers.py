"""Buffers and views: tensors that would share memory in NumPy read and write the same `Buffer`.

A buffer has a current node, and a write gives the buffer a new node; nodes are immutable. A view is a chain of steps
from a buffer, such as a slice and a transpose. Reading a view derives a node from the buffer's current node; writing to
a view derives the buffer's next node. Whether a reshape is a view depends on strides, and `layout` asks NumPy; the
attributes `base`, `strides` and `flags` tell the same.

The buffer of a small value in a cell has the elements in this process, as `memory` (small_values.py). NumPy reads and
writes the memory, and a node is made of the memory when the graph needs one. A write after that copies the memory. So
has the buffer of a larger array to which a loop writes known values part by part (small_parts.py); a write after a node
was made makes a node there.
"""

from __future__ import annotations

import math
import operator
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Struct

from jmars.model.collector import free_in_child
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Splits, TensorData, new_data
from jmars.tensor.splits import decide_splits

if TYPE_CHECKING:
    from jmars.tensor.ma.handle import MaskedTensor
    from jmars.tensor.small_parts import ElementLoop, KnownWrites
    from jmars.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
_MEMORY = np.zeros(2**16, np.uint8)  # where the memory that layouts pretend to have begins
ADDRESS = _MEMORY.ctypes.data  # readable, since NumPy 2.1.0 read the first element; no other element may be read


_CopyMode: Any = np._CopyMode
GAPS = 4  # times its elements that memory with gaps may take
_OF_MEMORY = (-1,)  # strides that are to be read from the memory
DEEP = 16  # steps from a buffer to a view; a loop of `x = x[1:]` sets views of more steps apart, where no other is left
COUNTED = 2**16  # bytes of a small value that counts for `SmallValues.bytes`
MOST = 2**28  # bytes of all values that live here; beyond this, new ones of at least COUNTED bytes are nodes


class _SmallValues(threading.local):
    """Limit of small values: at most `limit` bytes; 0 where no value is computed at once.

    While a function of jmars works for a call of the user in a thread, calls by the function in this thread make nodes:
    an attribute `limit` of the thread, 0, hides the attribute of the class, the limit of the cell that runs.
    """

    limit = 0
    bytes = 0  # of the living values of at least COUNTED bytes
    # Held between `unlock` and `lock`, and while a write makes a node, so that threads of a cell write one by one.
    writing = free_in_child(threading.RLock())
    tensor: ClassVar[type[Tensor]]  # set by tensor.py
    masked: ClassVar[type[MaskedTensor] | None] = None  # set by ma, which is imported where it is used
    index_step: ClassVar[staticmethod[[tuple[Any, ...]], ViewStep]]  # of tensor.py
    _living: ClassVar[dict[int, weakref.ref[Any]]] = {}

    def __init__(self) -> None:
        self.working = 0  # number of functions that work in this thread

    def __reduce__(self) -> str:
        return "SmallValues"  # by name, as functions that are sent along name it

    @property
    def chosen(self) -> int:
        """Limit of the cell that runs."""
        return type(self).limit

    def choose(self, limit: int) -> None:
        """Set the limit; an interrupt may have left functions of an earlier cell as if they worked."""
        if not self.chosen:
            self.working = 0
        type(self).limit = limit
        self.count(0)

    def count(self, change: int) -> None:
        """Note that a function begins to work, by 1, or ends, by -1."""
        self.working = max(0, self.working + change)
        if self.working:
            self.limit = 0
        else:
            vars(self).pop("limit", None)

    def largest(self) -> int:
        """Bytes of the largest new value that is small now."""
        return self.limit if self.bytes <= MOST else min(self.limit, COUNTED - 1)

    @classmethod
    def keep(cls, owner: Buffer | Array, nbytes: int) -> None:
        """Count the bytes of a buffer, or of held memory, until freed."""
        key = id(owner)

        def forget(_: object) -> None:
            del cls._living[key]
            cls.bytes -= nbytes

        cls._living[key] = weakref.ref(owner, forget)
        cls.bytes += nbytes


SmallValues = _SmallValues()


def is_plain() -> bool:
    """Whether no `%%jmars` cell runs in this thread: neither the thread of a cell, nor a thread that a cell started."""
    others = Buffer.others
    return others is None or threading.get_ident() in others


class ViewStep(Struct, frozen=True):
    """A step from a place to a view of that place.

    Attributes
    ----------
    read
        Node of the view, from the node of the place.
    write
        Node of the place after a write, from its node and the new node of the view; None for a read-only view.
    layout
        The same step on a NumPy array, without reading elements.
    key
        Equal for equal steps from one place; None where that is not known.
    permutes
        Whether axes change their order in memory.
    copies_parts
        Whether an index of the view gives a copy, as of NumPy's `x.flat`.
    """

    read: Callable[[TensorData], TensorData]
    write: Callable[[TensorData, TensorData], TensorData] | None
    layout: Callable[[Array], Array]
    key: Hashable = None
    permutes: bool = False
    copies_parts: bool = False


class Buffer:
    """Memory of an array that is not a view; place of the handle that owns the buffer.

    Attributes
    ----------
    node
        The current value, as a node of the graph.
    memory
        The current value where the elements are in this process; read-only but between `unlock` and `lock`.
    version
        Number of writes.
    writeable
        Whether the owner may write.
    is_array
        Whether NumPy would have an array here though there is no axis, not a read-only scalar; None: Python's bool.
    is_owned
        Whether NumPy would have an array here that owns the memory, not a view of an array without a name.
    outside
        The user's array of which this is the value, until the cell writes to it; None for others.
    journal
        Writes, each with the value before, where code that handles errors may have them taken back; else None.
    touched
        Number of single elements that were read or written: small_parts.py.
    loops
        Loops over elements that run now; a write drops the elements that they have read ahead.
    known_writes
        Writes of known values since a moment at which all elements were known; None where none are followed.
    is_held
        Whether the memory is that of a large array.
    of_cell
        Whether a `%%jmars` cell made the array, or a plain cell out of such arrays.
    writer, reader
        Of a loop of `np.nditer`, else None: `writer` writes what the loop has written, before each read; `reader` gives
        the loop the elements that other code has written, after each write.
    """

    __slots__ = ("__weakref__", "_first", "_handles", "_memory", "_node", "_splits", "_strides", "is_array",
                 "is_held", "is_owned", "known_writes", "loops", "of_cell", "outside", "reader", "touched", "version",
                 "writeable", "writer")  # fmt: skip

    journal: ClassVar[list[tuple[Buffer, TensorData]] | None] = None
    in_cell: ClassVar[bool] = False  # while a `%%jmars` cell runs that waits for its values
    others: ClassVar[frozenset[int | None] | None] = None  # while a cell runs, the threads that ran before the cell

    def __init__(self, node: TensorData, strides: tuple[int, ...] | None = None, is_array: bool = False) -> None:
        self._node: TensorData | None = node
        self._memory: Array | None = None
        self._strides = strides
        self.is_array: bool | None = is_array or bool(node.shape)
        self.version = self.touched = 0
        self.writeable = self.is_owned = True
        self.loops: tuple[ElementLoop, ...] = ()
        self.outside: Array | None = None
        self.known_writes: KnownWrites | None = None
        self.is_held, self.of_cell = False, Buffer.in_cell and not is_plain()
        self._splits: Splits | None = None  # of the node of held memory
        self.writer: Callable[[], None] | None = None
        self.reader: Callable[[], None] | None = None
        # Living owner and views by id, once there are views; the handle of which the first view was made.
        self._handles: dict[int, weakref.ref[Tensor]] | None = None
        self._first: weakref.ref[Tensor] | None = None

    @classmethod
    def of(cls, memory: Array) -> Buffer:
        """The buffer of an array of this process without other writers."""
        memory.setflags(False)  # type: ignore[call-arg]  # write; faster than by name
        made = cls.__new__(cls)
        made._node, made._memory, made._strides, made.is_array = None, memory, _OF_MEMORY, True
        made.version, made.touched, made.writeable, made.is_owned = 0, 0, True, True
        made.loops, made.writer, made.reader, made._handles, made._first = (), None, None, None, None
        made.outside = None
        made.known_writes, made.is_held, made._splits = None, False, None
        made.of_cell = Buffer.in_cell and not is_plain()
        if memory.nbytes >= COUNTED:
            SmallValues.keep(made, memory.nbytes)
        return made

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Bytes between neighbours along the axes in NumPy; None in C order."""
        if self._strides is _OF_MEMORY:
            memory = self._memory
            assert memory is not None
            self._strides = None if memory.flags.c_contiguous else memory.strides
        return self._strides

    @strides.setter
    def strides(self, value: tuple[int, ...] | None) -> None:
        if self._memory is not None:
            self.restore(self.node)  # the memory may lie in a different order
        self._strides = value

    @property
    def node(self) -> TensorData:
        """The current value, as a node."""
        if self.writer is not None:
            self.writer()
        node = self._node
        if node is None:
            with SmallValues.writing:  # of another thread is over
                node, memory = self._node, self._memory
                if node is None:
                    assert memory is not None
                    splits = self._splits if self.is_held else None
                    splits = splits or decide_splits(memory.shape, memory.dtype)
                    node = self._node = new_data(FromArray(array=memory), memory.shape, memory.dtype, splits)
        return node

    @property
    def memory(self) -> Array | None:
        """The elements of a small value in this process; else None."""
        if self.writer is not None:
            self.writer()
        memory, node = self._memory, self._node
        if memory is not None or not SmallValues.limit or node is None or node.op.__class__ is not FromArray:
            return memory
        with SmallValues.writing:  # of another thread is over
            node = self._node
            if self._memory is not None or node is None or (op := node.op).__class__ is not FromArray:
                return self._memory
            if op.checksum is not None or op.array.nbytes > SmallValues.limit:
                return None
            if op.array.shape == node.shape and op.array.dtype == node.dtype:
                memory = in_order(op.array, self._strides)
                if memory is not None:
                    memory.flags.writeable = False
                self._memory = memory
        return memory

    @property
    def source(self) -> Array | None:
        """Elements in this process, to be read only: a small value, or the user's array of any size."""
        memory = self.memory
        return self.outside if memory is None else memory

    def unlock(self) -> Array | None:
        """Memory for a write until `lock`, read by no node; None without memory."""
        memory = self.memory
        if memory is None:
            return None
        if self._node is not None:
            if self.is_held:  # the next copy counts again
                self.restore(self._node)
                return None
            copy = _copied(memory)
            if copy.strides != memory.strides:
                self._strides = _OF_MEMORY
            memory, self._node = copy, None
            self._memory = memory
        memory.flags.writeable = True
        self._note_write()
        return memory

    def hold(self, memory: Array) -> None:
        """Take memory with the current value of a large array; strides are the buffer's."""
        memory.flags.writeable = False
        SmallValues.keep(memory, memory.nbytes)
        self._splits = self.node.chunks
        self._node, self._memory, self.is_held = None, memory, True

    def lock(self) -> None:
        """End a write to the memory."""
        if self._memory is not None:
            self._memory.flags.writeable = False
        if self.reader is not None:
            self.reader()

    def _note_write(self) -> None:
        self.version += 1
        self.outside = None
        for loop in self.loops:
            loop.end()

    @property
    def buffer(self) -> Buffer:
        """Itself."""
        return self

    @property
    def permuted(self) -> bool:
        """Whether elements may lie in an order other than C."""
        return self.strides is not None

    def put(self, node: TensorData) -> None:
        """Write a new value."""
        node.op.note_reader()
        _ = self.strides  # of the memory
        if Buffer.journal is not None:
            Buffer.journal.append((self, self.node))
        if self.known_writes is not None and not self.known_writes.is_pending:
            self.known_writes = None  # a second write
        self._node, self._memory, self.is_held = node, None, False
        self._note_write()
        if self.reader is not None:
            self.reader()

    def restore(self, node: TensorData) -> None:
        """Keep the same value as a new node."""
        _ = self.strides
        self._node, self._memory, self.is_held = node, None, False

    def take_back(self, node: TensorData) -> None:
        """Take back writes."""
        if self.node is not node:
            self.put(node)

    def share(self, handle: Tensor) -> None:
        """Note a handle of this buffer."""
        if self._handles is None:
            self._handles = {}
        handles, key = self._handles, id(handle)
        handles[key] = weakref.ref(handle, lambda _: handles.pop(key, None))
        self._first = self._first or handles[key]

    @property
    def shared(self) -> int:
        """Number of living handles; 0 as long as there was no view."""
        return 0 if self._handles is None else len(self._handles)

    @property
    def has_owner(self) -> bool:
        """Whether the handle of the first view's array is alive; `x.shape = ...` has made the handle a view."""
        first = None if self._first is None else self._first()
        return first is not None and first._place.buffer is self

    def owner(self) -> Tensor | None:
        """The handle of the whole; None where no view was made, or the owner is gone."""
        living = [handle for ref in list((self._handles or {}).values()) if (handle := ref()) is not None]
        return next((handle for handle in living if handle._place is self), None)


class View:
    """Place of a view: a step from a place.

    `is_array` is false for a record that an index took out of an array: NumPy's scalar that shares the memory.
    """

    parent: Place
    writeable: bool
    _memory: Array | None

    __slots__ = ("_memory", "_node", "_step", "_version", "_whole", "buffer", "depth", "is_array", "parent",
                 "writeable")  # fmt: skip

    def __init__(self, parent: Place, step: ViewStep, node: TensorData) -> None:
        self._begin(parent, step, node, parent.buffer.version, None, None)
        self.writeable = bool(parent.writeable) and step.write is not None

    @classmethod
    def of(
        cls,
        parent: Place,
        made_by: tuple[Any, ...] | Callable[[Tensor], Tensor],
        whole: Array | None,
        part: Array | None,
    ) -> View:
        """The view by a basic index or a function, without a node yet; `part` is the place's part of the memory
        `whole`, or both are None.
        """
        made = cls.__new__(cls)
        made._begin(parent, made_by, None, -1, whole, part)
        return made

    def _begin(self, parent: Place, step: Any, node: TensorData | None, version: int, whole: Any, memory: Any) -> None:
        self.parent, self._step, self.is_array = parent, step, True
        self.buffer: Buffer = parent.buffer
        self.depth: int = parent.depth + 1 if parent.__class__ is View else 1
        self._node, self._version, self._whole, self._memory = node, version, whole, memory
        self.writeable = bool(parent.writeable)

    @property
    def step(self) -> ViewStep:
        """The step from the parent."""
        if self._step.__class__ is tuple:
            self._step = SmallValues.index_step(self._step)
        elif self._step.__class__ is not ViewStep:
            self._follow(self._step)
        return self._step  # type: ignore[no-any-return]

    def _follow(self, made_by: Callable[[Tensor], Tensor]) -> None:
        """Take the steps of a view by a function."""
        handles = [SmallValues.tensor.at(place) for place in (self.buffer, self.parent)]
        for one in handles:  # with two handles of the buffer, the parent is not set apart
            self.buffer.share(one)
        SmallValues.count(1)
        try:
            found: Any = made_by(handles[-1])._place
        finally:
            SmallValues.count(-1)
        if found is self.parent:  # of a function that gives the array itself
            self._step = SmallValues.index_step((Ellipsis,))
            return
        assert found.buffer is self.buffer, found
        self.parent, self._step = found.parent, found.step
        self._node, self._version = found._node, found._version
        self._whole = self._memory = None

    @property
    def copies_parts(self) -> bool:
        """Whether an index of the view gives a copy."""
        return self._step.__class__ is ViewStep and bool(self._step.copies_parts)

    @property
    def permuted(self) -> bool:
        """Whether elements may lie in an order other than C."""
        return self.step.permutes or self.parent.permuted

    @property
    def node(self) -> TensorData:
        """The current value, read from the buffer after writes by other handles."""
        if self.buffer.writer is not None:
            self.buffer.writer()
        if self._version != (version := self.buffer.version):
            self._node = self.step.read(self.parent.node)
            self._version = version
        assert self._node is not None
        return self._node

    @property
    def memory(self) -> Array | None:
        """The view of the parent's memory; None where NumPy would copy.

        Without memory the array of a small node, as of rows of a large array; None for other nodes.
        """
        return self._part_of(self.parent.source)

    def _part_of(self, whole: Array | None) -> Array | None:
        """The memory, given the parent's source."""
        if whole is None and self._whole is None:
            return self._array_of_node() if SmallValues.limit else None
        if whole is not None and whole is self._whole:
            return self._memory
        with SmallValues.writing:  # of another thread is over
            step = self.step  # which may replace the parent
            whole = self.parent.source
            if whole is None:
                self._whole = self._memory = None
                return self._array_of_node() if SmallValues.limit else None
            part = None if self.copies_parts else _part(step, whole)
            self._whole = None
            is_large = part is not None and self.parent.memory is None and part.nbytes > SmallValues.chosen
            self._memory = None if is_large else part
            self._whole = whole
            return self._memory

    @property
    def source(self) -> Array | None:
        """Elements in this process, to be read only; of any size where they are the user's."""
        parent = self.parent
        whole: Array | None = parent.source  # once: each level of views of views would double the calls
        memory = self._part_of(whole)
        if parent is not self.parent:  # replaced by its own step
            whole = self.parent.source
        if memory is not None or self.copies_parts or whole is None:
            return memory
        return _part(self.step, whole)

    def _array_of_node(self) -> Array | None:
        node, op = self.node, self.node.op
        if self.copies_parts or len(node.shape) > 1 and self.permuted:
            return None
        if op.__class__ is not FromArray or op.checksum is not None or op.array.nbytes > SmallValues.limit:
            return None
        if op.array.shape != node.shape or op.array.dtype != node.dtype or not op.array.flags.c_contiguous:
            return None
        op.array.setflags(write=False)
        return op.array

    def unlock(self) -> Array | None:
        """Part of the parent's memory, for a write until `lock`; None without memory of the parent."""
        if self.memory is None or self.parent.unlock() is None:
            return None
        memory = self.memory
        assert memory is not None  # as before: the copy of the parent's memory has no gaps
        memory.flags.writeable = True
        return memory

    def lock(self) -> None:
        """End a write to the memory."""
        if self._memory is not None:
            self._memory.flags.writeable = False
        self.parent.lock()

    def put(self, node: TensorData) -> None:
        """Write a new value to the buffer."""
        assert self.step.write is not None
        self.parent.put(self.step.write(self.parent.node, node))
        self._node, self._version = node, self.buffer.version

    def alone(self) -> Buffer:
        """A buffer with the elements of this view only."""
        memory, layout = self.memory, layout_of(self)
        made = Buffer(self.node) if memory is None else Buffer.of(_copied(memory))
        if memory is None:
            made._strides = None if layout is None or layout.flags.c_contiguous else layout.strides
        made.writeable, made.is_array = self.writeable, self.is_array
        made.is_owned = self.buffer.is_owned and self.buffer.has_owner
        made.of_cell = self.buffer.of_cell
        return made

    def restore(self, node: TensorData) -> None:
        """Keep the same value as a new node."""
        self._node, self._version = node, self.buffer.version

    def is_step_from(self, parent: Place, key: Hashable) -> bool:
        """Whether this view is a step with `key` from `parent`, so that a write of the value changes no element."""
        return self.parent is parent and key is not None and self.step.key == key


Place = Buffer | View


class MemoryFlags:
    """`x.flags`: how the elements would lie in memory in NumPy, and whether they may be written.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> x = ones((2, 3))
    >>> x.flags.c_contiguous, x.T.flags["F"], x[0].flags.owndata, x.flags.writeable
    (True, True, False, True)
    """

    _SHORT: ClassVar = {"C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned",
                        "X": "writebackifcopy", "B": "behaved", "CA": "carray", "FA": "farray"}  # fmt: skip

    _NAMES: ClassVar = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")

    def __init__(self, place: Place) -> None:
        self._place = place
        layout = layout_of(place)
        self.c_contiguous = bool(layout is None or layout.flags.c_contiguous)
        self.f_contiguous = bool(len(place.node.shape) < 2 if layout is None else layout.flags.f_contiguous)
        self.owndata = isinstance(place, Buffer) and place.is_owned
        self.contiguous, self.aligned, self.writebackifcopy = self.c_contiguous, True, False

    @property
    def fortran(self) -> bool:
        """Whether the elements lie in Fortran order."""
        return self.f_contiguous

    @property
    def fnc(self) -> bool:
        """Whether the elements lie in Fortran order, and not in C order."""
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        """Whether the elements lie in Fortran order or in C order."""
        return self.f_contiguous or self.c_contiguous

    @property
    def behaved(self) -> bool:
        """Whether the tensor may be written, since all elements are aligned."""
        return self.writeable

    @property
    def carray(self) -> bool:
        """Whether the tensor may be written and the elements lie in C order."""
        return self.writeable and self.c_contiguous

    @property
    def farray(self) -> bool:
        """Whether the elements do not lie in C order: NumPy asks no more."""
        return not self.c_contiguous

    @property
    def writeable(self) -> bool:
        """Whether the tensor may be written; False can be set, and True where no base is read-only."""
        return self._place.writeable

    @writeable.setter
    def writeable(self, value: bool) -> None:
        place = self._place
        if value and isinstance(place, View) and (place.step.write is None or not place.parent.writeable):
            raise ValueError("cannot set WRITEABLE flag to True of this array")  # NumPy's words
        place.writeable = bool(value)

    def __repr__(self) -> str:
        return "".join(f"  {name} : {self[name]}\n" for name in self._NAMES)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryFlags):
            return NotImplemented
        return all(self[name] == other[name] for name in self._NAMES)

    __hash__ = None  # type: ignore[assignment]  # as NumPy's

    def __getitem__(self, name: str) -> bool:
        found: bool = getattr(self, self._SHORT.get(name, name.lower()))
        return found

    def __setitem__(self, name: str, value: bool) -> None:
        setattr(self, self._SHORT.get(name, name.lower()), value)


class PlaceState(NamedTuple):
    """A place, the node, the node of the buffer, and whether the place may be written, at a moment."""

    place: Place
    node: TensorData
    whole: TensorData
    writeable: bool


def _part(step: ViewStep, whole: Array) -> Array | None:
    """The part of an array behind a step, to be read only; None where NumPy would copy."""
    part = step.layout(whole)
    if part.size and not np.may_share_memory(part, whole):
        return None
    if part.flags.writeable:  # of the user's array
        part = part.view()
        part.flags.writeable = False
    return part


def layout_of(place: Place) -> Array | None:
    """A NumPy array with the shape, dtype and strides that the place would have in NumPy; None for unknown lengths.

    No element is in memory: only functions that read no elements may be called.
    """
    if place.memory is None and place.node.has_unknown_lengths and not place.node.resolve_lengths():
        return None
    if isinstance(place, View):
        step, parent = place.step, layout_of(place.parent)
        return None if parent is None else step.layout(parent)
    one: Any = place.node if place.memory is None else place.memory
    return _pretend(one.shape, one.dtype, place.strides)


def unresolved(place: Place) -> list[TensorData]:
    """Nodes of unknown lengths: of a place and of the parents; layouts read the shapes of all."""
    nodes = [place.node]
    while isinstance(place, View):
        place = place.parent
        nodes.append(place.node)
    return [node for node in nodes if node.has_unknown_lengths and not node.resolve_lengths()]


def in_order(array: Array, strides: tuple[int, ...] | None) -> Array | None:
    """The array itself, or a copy with other strides (None: in C order); None for strides with large gaps."""
    if strides is None:
        return np.ascontiguousarray(array).reshape(array.shape)
    return array if array.strides == strides else _laid_out(array, strides)


def _copied(array: Array) -> Array:
    """A copy with the same strides, but without large gaps."""
    flags = array.flags
    made = None if flags.c_contiguous or flags.f_contiguous else _laid_out(array, array.strides)
    return array.copy("K") if made is None else made


def _laid_out(array: Array, strides: tuple[int, ...]) -> Array | None:
    """A copy with the given strides, for the views that NumPy has; None for strides with large gaps."""
    if not array.size:
        return array.copy()
    steps = [(n - 1) * step for n, step in zip(array.shape, strides)]
    first = -sum(step for step in steps if step < 0)
    size = first + sum(step for step in steps if step > 0) + array.itemsize
    if size > GAPS * array.nbytes:
        return None
    made: Array = np.ndarray(array.shape, array.dtype, np.empty(size, np.uint8), first, strides)
    made[...] = array
    return made


class _Memory:
    """Pretended memory, as NumPy's array interface describes memory."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None) -> None:
        self.__array_interface__ = {
            "data": (ADDRESS, False), "shape": shape, "strides": strides, "typestr": f"|V{dtype.itemsize}", "version": 3
        }  # fmt: skip


def _pretend(shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None) -> Array:
    if not dtype.itemsize or not math.prod(shape):
        return np.empty(shape, dtype)
    found: Array = np.asarray(_Memory(shape, dtype, strides)).view(dtype)
    return found


def basic_index(index: Any) -> tuple[Any, ...] | None:
    """Entries of a basic index (slices, ints, None, Ellipsis); None for other indices."""
    entries = index if isinstance(index, tuple) else (index,)
    return tuple(map(_plain, entries)) if all(map(_is_basic, entries)) else None


def _plain(entry: Any) -> Any:
    """An entry without tensors."""
    if not isinstance(entry, slice):
        return entry
    return slice(*(None if one is None else operator.index(one) for one in (entry.start, entry.stop, entry.step)))


def _is_basic(entry: Any) -> bool:
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return True
    return isinstance(entry, int | np.integer) and not isinstance(entry, bool)


def reshaped_layout(layout: Array, shape: tuple[int, ...]) -> Array | None:
    """The layout with a different shape; None where NumPy would copy."""
    try:
        return layout.reshape(shape, copy=False)
    except ValueError:
        return None


def can_reshape(place: Place, shape: tuple[int, ...]) -> bool:
    """Whether a reshape shares memory with the place in NumPy."""
    if isinstance(place, Buffer) and not place.permuted:
        return True
    layout = layout_of(place)
    return layout is not None and reshaped_layout(layout, shape) is not None


def can_ravel(place: Place, order: str = "C") -> bool:
    """Whether flattening in order "C" or "F" shares memory with the place in NumPy."""
    if order == "C" and isinstance(place, Buffer) and not place.permuted:
        return True
    layout = layout_of(place)
    return layout is not None and bool(layout.flags.c_contiguous if order == "C" else layout.flags.f_contiguous)


def fits_order(place: Place, order: str) -> bool:
    """Whether the elements lie in order "C" or "F", or with "A" in one of the two; with "K" any order fits."""
    if order == "K" or (order in "CA" and isinstance(place, Buffer) and not place.permuted):
        return True
    return any(can_ravel(place, one) for one in ("CF" if order == "A" else order))


def strides_like(
    places: Sequence[Place], shape: tuple[int, ...], itemsize: int, is_copy: bool = False
) -> tuple[int, ...] | None:
    """Strides of a new array that NumPy allocates in the order of the inputs (order "K"); None for C order.

    A broadcast axis is the last in the memory of a copy, and stays in place in a ufunc's result.
    """
    if len(shape) < 2 or not any(place.permuted for place in places):
        return None
    layouts = [layout_of(place) for place in places]
    if None in [None if one is None else 0 for one in layouts]:
        return None
    small = [small_layout(one, is_broadcast=not is_copy) for one in layouts if one is not None]
    return strides_in_order(np.nditer([*small, None], flags=["zerosize_ok"]).operands[-1], shape, itemsize)


def normal_copy(copy: Any) -> bool | None:
    """The argument `copy=` of functions that make arrays: True, False, or None for a copy where needed.

    Raises
    ------
    ValueError
        For text.
    """
    if isinstance(copy, str):
        raise ValueError("strings are not allowed for 'copy' keyword. Use True/False/None instead.")  # NumPy's words
    if isinstance(copy, _CopyMode):
        return None if copy is _CopyMode.IF_NEEDED else bool(copy)
    return None if copy is None else bool(copy)


def normal_order(order: Any, unsaid: str = "K") -> str:
    """The letter of an order in memory, also given in lower case; `unsaid` for None.

    Raises
    ------
    ValueError, TypeError
        As NumPy raises them.
    """
    if order is None:
        return unsaid
    letter = order.upper() if isinstance(order, str) else ""
    if letter not in ("C", "F", "A", "K"):
        np.empty((0,)).copy(order=order)  # NumPy's own words
    return letter


def ordered_strides(
    order: str | None, places: Sequence[Place], shape: tuple[int, ...], itemsize: int, is_copy: bool = False
) -> tuple[int, ...] | None:
    """Strides of a new array that NumPy makes of arrays at the places with `order=`; None for C order.

    Raises
    ------
    ValueError
        If `order` is none of "C", "F", "A", "K" and None.
    """
    order = normal_order(order)
    if order == "K":
        return strides_like(places, shape, itemsize, is_copy)
    layouts = [layout_of(place) for place in places] if order == "A" and any(one.permuted for one in places) else [None]
    if order == "F" or all(one is not None and one.flags.f_contiguous for one in layouts):
        return strides_in_order(np.empty([2] * len(shape), np.int8, order="F"), shape, itemsize)
    return None


def taken_strides(place: Place, index: Any, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """Strides of `x[index]`, a copy by arrays among the entries of the index; None for C order."""
    layout = layout_of(place) if len(shape) > 1 else None
    if layout is None or 0 in layout.shape:
        return None
    entries: list[Any] = []
    for entry in index if isinstance(index, tuple) else (index,):
        if isinstance(entry, slice) or entry is None or entry is Ellipsis:
            entries.append(slice(None) if isinstance(entry, slice) else entry)
        elif isinstance(entry, bool) or getattr(entry, "dtype", None) == np.dtype(bool):
            entries += [np.zeros(2, np.int8)] * np.ndim(entry) or [True]  # as the array's positions; none without axes
        else:
            entries.append(np.zeros([min(n, 2) for n in np.shape(entry)], np.int8))
    return strides_in_order(small_layout(layout)[tuple(entries)], shape, itemsize)


def strides_in_order(made: Array, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """Strides of a new array with the order of axes in memory of `made`; None for C order."""
    if made.ndim != len(shape):  # of a broadcast to more axes
        return None
    order = sorted(range(len(shape)), key=lambda axis: (-abs(made.strides[axis]), axis))
    if order == list(range(len(shape))):
        return None
    found, step = [0] * len(shape), itemsize
    for axis in reversed(order):
        found[axis] = step
        step *= max(1, shape[axis])
    return tuple(found)


def small_layout(layout: Array, most: int = 2, is_broadcast: bool = False) -> Array:
    """Ones, at most `most` along an axis, in the memory order of `layout`; broadcast if asked."""
    order = sorted(range(layout.ndim), key=lambda axis: (-abs(layout.strides[axis]), axis))
    shape = [min(n, most) for n in layout.shape]
    kept = [1 if is_broadcast and not step and n else n for n, step in zip(shape, layout.strides)]
    made = np.ones([kept[axis] for axis in order], np.int8)
    return np.broadcast_to(made.transpose(np.argsort(order)), shape) if layout.ndim else made


class MemoryAttributes:
    """Base class of `Tensor`."""

    __slots__ = ()

    @property
    def base(self: Any) -> Any:
        """The tensor that owns the memory of a view; None for the owner, and where the owner is gone."""
        return self._place.buffer.owner() if isinstance(self._place, View) else None

    @property
    def strides(self: Any) -> tuple[int, ...]:
        """Bytes between neighbours along the axes, as NumPy would have the elements in memory."""
        _ = self.shape  # known lengths
        layout = layout_of(self._place)
        assert layout is not None
        return tuple(layout.strides)

    @property
    def flags(self: Any) -> MemoryFlags:
        """Order in memory, as NumPy would have the elements, and whether the tensor may be written."""
        _ = self.data  # sets a view without its array apart
        return MemoryFlags(self._place)

    def setflags(self: Any, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Forbid or allow writes."""
        if write is not None:
            self.flags.writeable = write

    # State, to take back writes

    def state(self: Any) -> PlaceState:
        """Return place and values, for `restore`."""
        node, place = self.data, self._place
        return PlaceState(place, node, place.buffer.node, place.writeable)

    def restore(self: Any, state: PlaceState) -> None:
        """Take back all writes since `state`."""
        self._place = state.place
        state.place.buffer.take_back(state.whole)
        state.place.restore(state.node)
        state.place.writeable = state.writeable
