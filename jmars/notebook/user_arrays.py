"""NumPy arrays of the user in a `%%jmars` cell: tensors meanwhile, and arrays with the cell's writes afterwards.

Arrays that share memory enter as views of one buffer. After the cell each array that the cell wrote gets its new values
in place (a large array in the written slices), so that all names, views and containers show them, as in NumPy; and a
tensor that is a view of an array becomes that view of the array. Masked arrays are masked tensors meanwhile.

The steps from an array to a view are slices, transposes and reshapes. NumPy keeps addresses and strides only. The steps
are guessed from them, tried on the array itself, and taken where they give the very view.
Source: docs/decisions/0044-arrays-written-by-cells.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jmars import tensor as mt
from jmars.errors import ArrayChangedError, UnsupportedError
from jmars.tensor.buffers import Place, View
from jmars.tensor.from_array import COPIED, Composite, FromArray
from jmars.tensor.operand import SourceLine, TensorData
from jmars.tensor.ops.setitem import SetSlice
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
MAX_BASE_BYTES = COPIED  # largest base that enters for several views, without a name of its own
MOST_WRITES = 1000  # writes of a cell to slices of an array that are written back singly


@dataclass(frozen=True)
class _Entered:
    """An array with a buffer of its own in the cell."""

    array: Array
    tensor: Tensor
    start: TensorData  # the values at the start of the cell
    leaf: FromArray  # its operand
    name: str

    @property
    def is_written(self) -> bool:
        return self.tensor.state().place.buffer.version > 0

    def writes(self) -> list[_Write] | None:
        """The cell's writes to slices, the first one first; None where the whole array is to be written back.

        Writing back slices of a large array needs their values only.
        """
        found: list[_Write] = []
        node, left = self.tensor.data, self.array.size // 2
        while node.key != self.start.key and self.array.nbytes > COPIED:
            if not isinstance(node.op, SetSlice) or node.computed or len(found) == MOST_WRITES:
                return None
            before, *value = node.op.inputs
            entries = [slice(*e) if isinstance(e, tuple) else slice(e, e + 1) for e in node.op.index]
            left -= math.prod(len(range(n)[e]) for n, e in zip(node.shape, entries))
            if left < 0:
                return None
            number = node.op.number
            constant = None if number is None else np.frombuffer(number, node.dtype)[0]
            found.append(_Write(tuple(entries), Tensor(value[0]) if value else constant))
            node = before
        return found[::-1] or None


class _Write(NamedTuple):
    """A write to a slice."""

    place: tuple[slice, ...]
    value: Any  # a tensor that broadcasts to the slice, or a number


class UserArrays:
    """The arrays that a cell's text mentions.

    Examples
    --------
    >>> table = np.zeros((2, 3))
    >>> arrays = UserArrays()
    >>> lazy = arrays.enter([("table", table, None), ("row", table[1], None)])
    >>> np.shares_memory(lazy["table"], lazy["row"])
    True
    >>> arrays.array_of(lazy["table"][:, 1:]).base is table
    True
    """

    def __init__(self) -> None:
        self._own: dict[int, _Entered] = {}  # by id of the buffer
        # By id of the array: array, tensor, and whether the tensor could be written at the start of the cell.
        self._lazy: dict[int, tuple[Array, Tensor, bool]] = {}
        self._array: dict[int, Array] = {}  # by id of the tensor
        self._writes: dict[int, list[_Write] | None] = {}  # by id of the buffer: `written`
        self._beside: list[tuple[str, Array]] = []  # memory that tensors of other kinds read

    def enter(self, named: Sequence[tuple[str, Array, SourceLine | None]]) -> dict[str, Tensor]:
        """The tensors of arrays, by name; arrays of objects are left out.

        Parameters
        ----------
        named
            Names, arrays, and lines to name in errors.
        """
        first = {id(array): (name, array, line) for name, array, line in reversed(named)}
        for group in _groups([array for _, array, _ in first.values()]):
            members = [first[id(array)] for array in group]
            try:
                self._enter_group(members)
            except UnsupportedError:
                continue  # objects stay arrays
        return {name: self._lazy[id(array)][1] for name, array, _ in named if id(array) in self._lazy}

    def _enter_group(self, members: Sequence[tuple[str, Array, SourceLine | None]]) -> None:
        host = host_of([array for _, array, _ in members])
        name, line = next(((name, line) for name, array, line in members if array is host), members[0][::2])
        whole = self._enter_whole(host, name, line)
        for name, array, line in members:
            if array is host:
                self._note(array, whole)
            elif (path := path_to(host, array)) is not None:
                view = path(whole)
                place = view.state().place
                if isinstance(place, View) and not array.flags.writeable:
                    place.writeable = False
                self._note(array, view)
            else:
                self._note(array, self._enter_whole(array, name, line))

    def _enter_whole(self, array: Array, name: str, line: SourceLine | None) -> Tensor:
        tensor = as_tensor(array, line=line, lazily=True)
        leaf, buffer = tensor.data.op, tensor.state().place.buffer
        assert isinstance(leaf, FromArray)
        buffer.writeable, buffer.outside = array.flags.writeable, array
        ours = Tensor.at(buffer)
        buffer.share(ours)  # keeps the buffer whole if the cell drops or reshapes all handles
        self._own[id(buffer)] = _Entered(array, ours, tensor.data, leaf, name)
        return tensor

    def _note(self, array: Array, tensor: Tensor) -> None:
        self._lazy[id(array)] = array, tensor, tensor.flags.writeable
        self._array[id(tensor)] = array

    def beside(self, name: str, array: Array) -> None:
        """Note memory of a name that enters as an object of another kind, such as the data of a masked array."""
        self._beside.append((name, array))

    def sharing(self, memory: Array) -> str | None:
        """The name of a further array of the cell that shares this memory, or None."""
        known = [*((one.name, one.array) for one in self._own.values()), *self._beside]
        return next((name for name, array in known if array is not memory and shares_memory(array, memory)), None)

    def written(self) -> list[Tensor]:
        """The tensors to compute: of written arrays, whole, or of the written slices.

        Raises
        ------
        UnsupportedError
            If another array of the cell shares memory of a written array in a way that was not followed, or elements
            of the array share memory.
        """
        __tracebackhide__ = True
        found = [one for one in self._own.values() if one.is_written]
        known = [*((one.name, one.array) for one in self._own.values()), *self._beside]
        for one in found:
            for name, array in known:
                if array is not one.array and shares_memory(array, one.array):
                    raise UnsupportedError(
                        f"the cell writes to {one.name!r} and mentions {name!r}, which shares its memory, but not by "
                        "slices, transposes or reshapes; write to a copy, or use one of both names in the cell"
                    )
            if overlaps_itself(one.array):
                raise UnsupportedError(
                    f"the cell writes to {one.name!r}, whose elements share memory with one another; write to a copy"
                )
        self._writes = {id(one.tensor.state().place.buffer): one.writes() for one in found}
        tensors: list[Tensor] = []
        for one in found:
            writes = self._writes_of(one)
            if writes is not None:
                tensors += [w.value for w in writes if isinstance(w.value, Tensor)]
            elif not one.tensor.state().place.buffer.is_held:
                tensors.append(one.tensor)
        return tensors

    def _writes_of(self, one: _Entered) -> list[_Write] | None:
        return self._writes[id(one.tensor.state().place.buffer)]

    def is_written(self, tensor: Tensor) -> bool:
        """Whether the cell wrote to the array of which a tensor is a view."""
        return self._own[id(tensor.state().place.buffer)].is_written

    def array_of(self, value: Any) -> Array | None:
        """The user's array, or the view of an array, that a tensor of the cell stands for."""
        if not isinstance(value, Tensor):
            return None
        place = value.state().place
        if id(place.buffer) not in self._own:
            return None
        array = self._array.get(id(value))
        if array is not None and array.shape == value.data.shape and array.dtype == value.data.dtype:
            return array
        found = self._real(place)
        return found if place.is_array else found[()]  # a record, np.void, of its array's memory

    def _real(self, place: Place) -> Array:
        if not isinstance(place, View):
            return self._own[id(place)].array
        array = place.step.layout(self._real(place.parent))
        if array.flags.writeable and not place.writeable:
            array = array.view()
            array.flags.writeable = False
        return array

    def write_back(self, fetch: Callable[[Any, bool], Array]) -> None:
        """Write the cell's values to the arrays, and the flags `writeable` that the cell has set.

        Parameters
        ----------
        fetch
            Returns the value of a computed node; False: no copy is needed.

        Raises
        ------
        ArrayChangedError
            If code of the cell wrote to an array by other means, too.
        """
        __tracebackhide__ = True
        written = [one for one in self._own.values() if one.is_written]
        values: list[list[tuple[Any, Any]]] = []  # index and value; all of them, before any array changes
        for one in written:
            writes = self._writes_of(one)
            if writes is None:
                values.append([(..., fetch(one.tensor.data, False))])
            else:
                given = [fetch(w.value.data, False) if isinstance(w.value, Tensor) else w.value for w in writes]
                values.append([(w.place, value) for w, value in zip(writes, given, strict=True)])
        for one in written:
            if not one.leaf.is_unchanged(one.array):
                error = ArrayChangedError(
                    f"the cell wrote to {one.name!r}, and so did other code that the cell ran, which works with the "
                    "NumPy array itself; let one of both write"
                )
                wrote, first = one.tensor.data.op.line, one.leaf.line  # small arrays are written without an operand
                error.line = wrote if wrote and first and wrote.filename == first.filename else first
                raise error
        self._set_flags(True)
        for one in written:
            if not one.array.flags.writeable:
                raise ValueError(f"{one.name!r} was made read-only while the cell ran that writes to it")
        for one, parts in zip(written, values, strict=True):
            for place, value in parts:
                np.copyto(one.array[place], value, casting="equiv")
        self._set_flags(False)

    def _set_flags(self, writeable: bool) -> None:
        """Make the arrays writeable, or read-only, of which the cell has made the tensors so."""
        for array, tensor, before in self._lazy.values():
            if tensor.flags.writeable == writeable != before:
                array.flags.writeable = writeable


def _groups(arrays: Sequence[Array]) -> Iterator[list[Array]]:
    """Arrays of one memory together: of the same owner, or with common elements."""
    left = list(arrays)
    while left:
        group = [left.pop()]
        for one in group:  # grows during the loop
            near = [other for other in left if root_of(one) is root_of(other) or shares_memory(one, other)]
            group += near
            left = [other for other in left if not any(other is found for found in near)]
        yield group


@dataclass(frozen=True)
class _EnteredMasked:
    """A masked array in the cell."""

    name: str
    array: Any  # numpy.ma.MaskedArray
    memory: Any  # its data, as UserArrays knows them
    lazy: Composite
    state: Any  # of `lazy` at the start of the cell


@dataclass
class MaskedArrays:
    """The masked arrays that a cell's text mentions."""

    beside: UserArrays  # the other arrays
    _entered: dict[int, _EnteredMasked] = field(default_factory=dict)  # by id of the array
    _written: dict[int, _EnteredMasked] = field(default_factory=dict)  # by id of the masked tensor

    def enter(self, name: str, array: Any, line: SourceLine | None) -> Composite:
        """The masked tensor of an array, the same under each of its names.

        Raises
        ------
        UnsupportedError
            For objects.
        """
        if id(array) not in self._entered:
            lazy, memory = _masked(array, line), array.data
            self._entered[id(array)] = _EnteredMasked(name, array, memory, lazy, lazy.state())
            self.beside.beside(name, memory)
        return self._entered[id(array)].lazy

    def write(self, value: Composite) -> None:
        """Note a masked tensor that the cell wrote to; of another shape or dtype it stays a masked tensor.

        Raises
        ------
        UnsupportedError
            If another array of the cell shares the memory of this one.
        """
        found = next((one for one in self._entered.values() if one.lazy is value), None)
        if found is None or _form(value) != _form(found.array) or not found.array.data.flags.writeable:
            return
        if (other := self.beside.sharing(found.memory)) is not None:
            raise UnsupportedError(
                f"the cell writes to {found.name!r} and mentions {other!r}, which shares its memory; write to a copy, "
                "or use one of both names in the cell"
            )
        self._written[id(value)] = found

    def array_of(self, value: Any) -> Any:
        """The masked array that a written masked tensor stands for; None for other values."""
        found = self._written.get(id(value))
        return None if found is None else found.array

    def write_back(self, fetch: Callable[[Any, bool], Any]) -> Callable[[], None]:
        """Fetch the values; returns the function that writes them to the arrays."""
        values = [(one, [fetch(part.data, False) for part in one.lazy.parts()]) for one in self._written.values()]

        def write() -> None:
            for one, parts in values:
                _put(one, *parts)

        return write


def _put(one: _EnteredMasked, data: Any, mask: Any = None) -> None:
    array, (_, _, fill, hard) = one.array, one.lazy.state()
    np.copyto(one.memory, data, casting="equiv")
    if mask is not None and array.mask is np.ma.nomask:
        array.mask = mask
    elif mask is not None:
        np.copyto(array.mask, mask)  # into the mask's own memory, so that views of the array change too
    if fill != one.state[2]:
        array.fill_value = fill
    if hard != one.state[3]:
        (array.harden_mask if hard else array.soften_mask)()


def _form(value: Any) -> tuple[Any, Any]:
    return value.shape, value.dtype


def has_mask(value: Any) -> bool:
    """Whether a value is a masked array of NumPy."""
    return isinstance(value, np.ndarray) and type(value).__name__ == "MaskedArray"  # numpy.ma may not be imported


def _masked(value: Any, line: SourceLine | None) -> Composite:
    """Makes a masked tensor of a user's masked array."""
    masked = mt.ma.array  # imports numpy.ma on first use, as NumPy does
    data = as_tensor(value.data, line=line)
    made: Composite = masked(data, mask=value.mask, fill_value=value.fill_value, hard_mask=value.hardmask)
    return made


Path = Callable[[Any], Any]  # from the array to the view, for NumPy arrays and tensors
MOST_WORK = 10_000  # of NumPy's exact answer to `shares_memory`


def shares_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have common elements; True where that takes long to find out."""
    try:
        return bool(np.may_share_memory(a, b) and np.shares_memory(a, b, max_work=MOST_WORK))  # type: ignore[arg-type]  # NumPy takes any number
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: Array) -> bool:
    """Whether elements may share memory with one another, as those of sliding windows do.

    Examples
    --------
    >>> a = np.arange(10)
    >>> overlaps_itself(a[::2]), overlaps_itself(np.lib.stride_tricks.sliding_window_view(a, 3))
    (False, True)
    """
    reach = array.itemsize
    for step, length in sorted((abs(step), n) for step, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if step < reach:
            return array.size > 0
        reach += step * (length - 1)
    return False


def root_of(array: Array) -> Array:
    """The array that owns the memory, as far as NumPy knows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def host_of(arrays: Sequence[Array]) -> Array:
    """The array of which all are views, if it is one of them or small; else the largest."""
    largest = max(arrays, key=lambda one: one.nbytes)
    if len(arrays) == 1:
        return largest
    base = root_of(largest)
    is_known = any(one is base for one in arrays) or base.nbytes <= MAX_BASE_BYTES
    return base if is_known and type(base) in (np.ndarray, np.memmap) and base.dtype == largest.dtype else largest


def path_to(whole: Array, view: Array) -> Path | None:
    """The steps from an array to a view of it; None where they are not found.

    Examples
    --------
    >>> a = np.arange(24).reshape(4, 6)
    >>> path_to(a, a[::-2, 1:4].T)(a).tolist()
    [[19, 7], [20, 8], [21, 9]]
    >>> path_to(a, a.ravel()[3:9])(a).tolist()
    [3, 4, 5, 6, 7, 8]
    >>> path_to(a.T, a[1])(a.T).tolist()
    [6, 7, 8, 9, 10, 11]
    >>> path_to(a, a.view("f8")) is None
    True
    """
    if whole.dtype != view.dtype or not view.size:
        return None
    order = sorted(range(whole.ndim), key=lambda axis: -abs(whole.strides[axis]))
    paths = [_by_axes(whole, view)]
    if (turned := whole.transpose(order)).flags.c_contiguous:
        in_order = [path for path in (_by_reshape(turned, view), _by_flat(turned, view)) if path is not None]
        paths += [_after_transpose(order, path) for path in in_order]
    return next((path for path in paths if path is not None and _leads_to(path, whole, view)), None)


def _after_transpose(order: Sequence[int], path: Path) -> Path:
    return path if list(order) == sorted(order) else lambda x: path(x.transpose(order))


def _by_axes(whole: Array, view: Array) -> Path | None:
    """A basic index, and another order of the axes."""
    offset = _address(view) - _address(whole)
    rows = sorted(range(whole.ndim), key=lambda axis: -abs(whole.strides[axis]))
    entries: list[Any] = [0] * whole.ndim
    for axis in rows:
        step, length = whole.strides[axis], whole.shape[axis]
        if step and length > 1:
            entries[axis], offset = min(max(offset // step, 0), length - 1), offset % abs(step)
    taken: list[int] = []
    for axis in (axis for axis in range(view.ndim) if view.shape[axis] > 1):
        fits = (k for k in rows if k not in taken and whole.shape[k] > 1 and whole.strides[k])
        row = next((k for k in fits if view.strides[axis] % whole.strides[k] == 0), None)
        if row is None:
            return None
        start, step = entries[row], view.strides[axis] // whole.strides[row]
        stop = start + step * (view.shape[axis] - 1) + (1 if step > 0 else -1)
        entries[row] = slice(start, stop if stop >= 0 else None, step)
        taken.append(row)
    index, order = tuple(entries), tuple(int(one) for one in np.argsort(np.argsort(taken)))
    fresh = tuple(None if length == 1 else slice(None) for length in view.shape)
    return lambda x: x[index].transpose(order)[fresh] if order != tuple(range(len(order))) else x[index][fresh]


def _by_reshape(whole: Array, view: Array) -> Path | None:
    """A reshape to axes whose strides divide those of the view, and a basic index."""
    size = whole.itemsize
    steps = sorted({abs(step) // size for n, step in zip(view.shape, view.strides, strict=True) if n > 1 and step})
    lengths, left = [], whole.size
    for step in reversed(steps):
        stride = math.gcd(step, left)
        lengths.append(left // stride)
        left = stride
    shape = (*lengths, left)
    path = _by_axes(whole.reshape(shape), view)
    return None if path is None else lambda x: path(x.reshape(shape))


def _by_flat(whole: Array, view: Array) -> Path | None:
    """A slice of all elements in their order, reshaped."""
    size = whole.itemsize
    start = (_address(view) - _address(whole)) // size
    if view.flags.c_contiguous:
        step, shape = 1, view.shape
    elif view.ndim == 1 and view.strides[0] % size == 0:
        step, shape = view.strides[0] // size, view.shape
    else:
        return None
    stop = start + step * (view.size - 1) + (1 if step > 0 else -1)
    part = slice(start, stop if stop >= 0 else None, step)
    return lambda x: x.reshape(-1)[part].reshape(shape)


def _leads_to(path: Path, whole: Array, view: Array) -> bool:
    try:
        found = path(whole)
    except (IndexError, ValueError):  # the view begins outside of the array
        return False
    if found.shape != view.shape or _address(found) != _address(view):
        return False
    return all(n == 1 or a == b for n, a, b in zip(view.shape, found.strides, view.strides, strict=True))


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
