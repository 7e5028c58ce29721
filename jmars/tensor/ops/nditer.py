"""NumPy's loops over elements, `np.nditer` and `ndenumerate`, and functions of few elements, called on values.

The elements of `nditer` are fetched when the loop begins, elements of `ndenumerate` in pieces of `PIECE` bytes.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.buffers import Buffer, layout_of
from jmars.tensor.numpy_modules import as_values, with_values
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.tensor import StandIn, Tensor, as_tensor

_WRITES = frozenset({"readwrite", "writeonly"})
_ALONE = 2  # references to an iterator without elements: of its owner, and of the call that counts
# iterators of ended loops, of which code has elements, with the values; by tensor
_read_later: weakref.WeakKeyDictionary[Buffer, list[tuple[np.nditer, list[Any]]]] = weakref.WeakKeyDictionary()


class _TensorIterator:
    """NumPy's iterator over the values of tensors.

    A tensor that may be written gets the elements that the loop wrote when other code reads the tensor, and when the
    loop, the `with` or the iterator ends.
    """

    ndim = 1  # an iterator, not an array

    def __init__(self, op: Any, flags: Any = (), op_flags: Any = None, *args: Any, **kwargs: Any) -> None:
        self._operands = list(op) if isinstance(op, list | tuple) else [op]
        self._written: list[_Written] = []
        may_write = _written_operands(op_flags, len(self._operands))
        self._refuse_overlaps([one for one, writes in zip(self._operands, may_write) if writes])
        values = [_writable(one) if writes else _in_order(one) for one, writes in zip(self._operands, may_write)]
        given = () if op_flags is None else (op_flags,)
        self._values = values
        self._iterator = np.nditer(
            values if isinstance(op, list | tuple) else values[0], flags, *given, *args, **kwargs
        )
        self._written = [
            _Written(one, value)
            for one, value, writes in zip(self._operands, values, may_write)
            if writes and isinstance(one, Tensor)
        ]
        this = weakref.ref(self)
        for one in self._written:
            one.watch(lambda: None if (iterator := this()) is None else iterator._write())

    def _refuse_overlaps(self, written: list[Any]) -> None:
        for one in written:
            for other in self._operands:
                tensors = isinstance(one, Tensor) and isinstance(other, Tensor)
                if tensors and other is not one and np.may_share_memory(one, other):
                    raise UnsupportedError(
                        "np.nditer writes to a tensor that shares memory with another operand; give it a copy, x.copy()"
                    )

    def _write(self) -> None:
        """Write changed elements to the tensors."""
        written, self._written = self._written, []  # a write reads the tensor
        for one in written:
            one.write()
        self._written = written

    @property
    def operands(self) -> tuple[Any, ...]:
        """The tensors, and the arrays that the iterator made."""
        self._write()
        return tuple(
            given if isinstance(given, Tensor) else found
            for given, found in zip(self._operands, self._iterator.operands, strict=True)
        )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._iterator)
        except StopIteration:
            self._write()
            raise

    def iternext(self) -> bool:
        """Go to the next element; False at the end."""
        goes_on = self._iterator.iternext()
        if not goes_on:
            self._write()
        return goes_on

    def close(self) -> None:
        """End the loop. Elements that code still has, as `v` of `for v in it`, stay valid as long as the tensor."""
        if sys.getrefcount(self._iterator) > _ALONE:  # elements refer to the iterator, which drops the values now
            for buffer in {one._place.buffer for one in self._operands if isinstance(one, Tensor)}:
                kept = [row for row in _read_later.get(buffer, ()) if sys.getrefcount(row[0]) > _ALONE]
                _read_later[buffer] = [*kept, (self._iterator, self._values)]
        self._iterator.close()
        self._write()
        self._forget()

    def _forget(self) -> None:
        for one in self._written:
            one.forget()
        self._written = []

    def __enter__(self) -> _TensorIterator:
        self._iterator.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self._write()
        self._forget()

    def __len__(self) -> int:
        return len(self._iterator)

    def __getitem__(self, index: Any) -> Any:
        return self._iterator[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._iterator[index] = as_values(value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'nditer' object has no attribute {name!r}", name=name, obj=self)
        return getattr(self._iterator, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._iterator, name, value)


class _Written:
    """A tensor that a loop may write, the value that the loop writes, and the value as the tensor has it."""

    def __init__(self, tensor: Tensor, value: Any) -> None:
        self.tensor, self.value, self.before = tensor, value, value.copy()
        self._buffer = tensor._place.buffer
        self._outer = self._buffer.writer, self._buffer.reader  # of a loop around this loop
        self._is_busy = False

    def watch(self, writer: Callable[[], None]) -> None:
        """Call `writer` before other code reads the tensor, and `read` after other code has written the tensor."""
        this = weakref.ref(self)
        own = writer, lambda: None if (one := this()) is None else one.read()
        self._buffer.writer, self._buffer.reader = map(_both, self._outer, own)

    def write(self) -> None:
        """Write changed elements; other code may have written other elements."""
        changed = _differ(self.value, self.before)
        if changed.any():
            self.before[...] = self.value
            with self._busy():
                self.tensor[changed if changed.ndim else ...] = (
                    self.value[changed] if changed.ndim else self.value.copy()
                )

    def read(self) -> None:
        """Take the elements that the tensor has now."""
        if not self._is_busy and self.value.flags.writeable:
            with self._busy():
                self.value[...] = as_values(self.tensor)
                self.before[...] = self.value

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def forget(self) -> None:
        """End the loop."""
        self._buffer.writer, self._buffer.reader = self._outer


def _both(one: Callable[[], None] | None, other: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        if one is not None:
            one()
        other()

    return both


def _written_operands(op_flags: Any, n: int) -> list[bool]:
    """Whether the `n` operands may be written."""
    if not op_flags:
        return [False] * n
    if isinstance(op_flags[0], str):
        return [not _WRITES.isdisjoint(op_flags)] * n
    return [not _WRITES.isdisjoint(flags) for flags in op_flags] + [False] * (n - len(op_flags))


def _differ(value: Any, before: Any) -> Any:
    """Whether the bytes differ, element by element."""
    one, other = (x.ravel().view(np.uint8).reshape(x.size, x.itemsize) for x in (value, before))
    return (one != other).any(axis=1).reshape(value.shape)


def _in_order(value: Any, copies: bool = False) -> Any:
    """The value of a tensor in NumPy's memory order, the order of the loop."""
    layout = layout_of(value._place) if isinstance(value, Tensor) and value.ndim else None
    if layout is None or (layout.flags.c_contiguous and min(layout.strides) > 0):
        return np.array(as_values(value)) if copies else as_values(value)
    turned = tuple(slice(None, None, -1 if step < 0 else 1) for step in layout.strides)
    kept = tuple(slice(None if step else 1) for step in layout.strides)  # an element of each that NumPy broadcasts
    found = np.empty_like(layout[turned][kept])[turned]
    np.copyto(found, as_values(value)[kept])
    return found if found.shape == value.shape else np.broadcast_to(found, value.shape)


def _writable(value: Any) -> Any:
    """An array of the value that may be written; read-only where the tensor is."""
    if not isinstance(value, Tensor):
        return value
    found = _in_order(value, copies=True)
    found.flags.writeable = value.flags.writeable
    return found


class nditer(metaclass=StandIn):  # NumPy's spelling
    """`np.nditer`; the elements of tensors are fetched at once.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     x = mt.arange(3)
    ...     for value in nditer(x, op_flags=["readwrite"]):
    ...         value[...] = 2 * value
    ...     x.fetch()
    array([0, 2, 4])
    """

    numpy_class = np.nditer
    lazy_classes = (_TensorIterator,)

    def __new__(cls, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Make NumPy's iterator, or an iterator over the values of tensors."""
        return (_TensorIterator if _has_tensors(op) else np.nditer)(op, *args, **kwargs)


class _TensorBroadcast:
    """NumPy's broadcast of tensors; the elements are fetched when the first is read."""

    def __init__(self, *args: Any) -> None:
        self._args = args
        self._found: Any = None
        self.shape = np.broadcast_shapes(*map(np.shape, args))
        self.ndim = self.nd = len(self.shape)
        self.size = int(np.prod(self.shape, dtype=int))
        self.numiter = len(args)

    @property
    def _values(self) -> Any:
        if self._found is None:
            self._found = np.broadcast(*as_values(self._args))
        return self._found

    @property
    def index(self) -> int:
        """The number of elements that were read."""
        return 0 if self._found is None else self._found.index

    @property
    def iters(self) -> tuple[Any, ...]:
        """An iterator over the elements of all arguments."""
        return self._values.iters  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Begin again."""
        self._found = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._values)


class broadcast(metaclass=StandIn):  # NumPy's spelling
    """`np.broadcast`; the shape is known at once, elements are fetched when the first is read.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> broadcast(ones((3, 1)), ones(4)).shape
    (3, 4)
    """

    numpy_class = np.broadcast
    lazy_classes = (_TensorBroadcast,)

    def __new__(cls, *args: Any) -> Any:
        """Make NumPy's object, or a broadcast of tensors."""
        return (_TensorBroadcast if _has_tensors(args) else np.broadcast)(*args)


def _has_tensors(values: Any) -> bool:
    given: Sequence[Any] = values if isinstance(values, list | tuple) else [values]
    return any(isinstance(one, Tensor) for one in given)


FUNCTIONS |= {"nditer": nditer, "broadcast": broadcast}


PIECE = 16 * 2**20  # bytes that are fetched at a time


@offers("ndenumerate")
def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """`np.ndenumerate`: indices and values of the elements, in C order; computes when the first element is read.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> [(place, int(value)) for place, value in ndenumerate(arange(4, chunk_size=3).reshape(2, 2))]
    [((0, 0), 0), ((0, 1), 1), ((1, 0), 2), ((1, 1), 3)]
    """
    return _iterate(as_tensor(arr))


def _iterate(x: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    if not x.ndim:
        yield from np.ndenumerate(np.asarray(x))
        return
    x.execute()  # once, not for each piece again
    rows = max(1, PIECE * len(x) // max(1, x.nbytes))
    for start in range(0, len(x), rows):
        for place, value in np.ndenumerate(x[start : start + rows].fetch()):
            yield (start + place[0], *place[1:]), value


PASSED_THROUGH = """
    poly polyadd polyder polydiv polyint polymul polysub roots tril_indices triu_indices diag_indices mask_indices
    einsum_path fromiter frombuffer fromstring fromregex genfromtxt loadtxt
    datetime_data mintypecode geomspace
""".split()  # noqa: SIM905


for _name in PASSED_THROUGH:
    offers(_name)(with_values(getattr(np, _name)))


@offers("isfortran")
def isfortran(a: Any) -> bool:
    """`np.isfortran`: whether the elements would lie in Fortran order in NumPy, and not in C order."""
    return bool(a.flags.fnc)


@offers("tril_indices_from")
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """`np.tril_indices_from`: NumPy arrays, made from the shape alone."""
    return np.tril_indices_from(_shaped(arr), k)


@offers("triu_indices_from")
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """`np.triu_indices_from`: NumPy arrays, made from the shape alone."""
    return np.triu_indices_from(_shaped(arr), k)


@offers("diag_indices_from")
def diag_indices_from(arr: Any) -> Any:
    """`np.diag_indices_from`: NumPy arrays, made from the shape alone."""
    return np.diag_indices_from(_shaped(arr))


def _shaped(arr: Any) -> np.ndarray[Any, Any]:
    """An array of the same shape in a byte of memory."""
    return np.broadcast_to(np.False_, arr.shape)
