"""Arrays that are no tensors: NumPy's as leaves of the graph, arrays of other libraries, values of several tensors.

A leaf has the values of the array at the moment of the call: a tensor must not see later writes, since NumPy would have
computed at once. Arrays up to 16 MiB are copied, once per content. For larger arrays a checksum of each 4 MiB is kept,
and if elements have changed when they are sent, an error says so. Of a large array only the part that the results need
is sent. A small part of a large array becomes a leaf: the rest is neither read nor sent. A map of a file for reading is
neither copied nor read for a checksum; workers of this machine read the file (client/sent_graphs.py).

An array that `np.asarray` accepts becomes a tensor. Conversion of duck arrays (sparse arrays, GPU arrays) and of their
handles (`chunk_types.DuckTensor`) raises `DuckArrayError`, and the table of functions (protocols.py) calls `dispatch`.
The package chunk_types is imported at the first such call, and registers functions here by `set_dispatcher`.

`Composite` is the base class of values that consist of several tensors, as a masked array consists of data and mask.
Code that computes, fetches or restores tensors works on `parts()`. Functions that take tensors only refuse a Composite
with an error that names the class.

The other way, `__array__` of a tensor is called by any function that takes arrays, and brings the whole tensor into
this process: from `config.array_warning` on with a warning before the computation, once per line; beyond
`config.array_limit` the call is refused. `x.fetch()` asks for the value and is never refused.
Source: NEP 30 (duck arrays).
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import sysconfig
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from weakref import WeakValueDictionary, ref

import numpy as np
import xxhash
from numpy.typing import NDArray

from jmars.config import config
from jmars.errors import ArrayChangedError, GraphError, MemoryLimitError, UnsupportedError
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import get_engine
from jmars.tensor.operand import Operand, SourceLine, TensorMeta, warn_at
from jmars.tensor.parts import Part, PartOf, SourcePart, pick_part, splits_of, touched_pieces
from jmars.units import format_bytes

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

COPIED = 16 * 2**20  # bytes of the largest array that is copied
PARTS = 4 * COPIED  # bytes of the parts of a large array that are copied
_SHARED = 2**16  # bytes of the smallest arrays that share a copy
_CHECKSUM_BYTES = 4 * 2**20  # bytes of the rows with a checksum of their own
Checksums: TypeAlias = tuple[int, ...]
PENDING: Checksums = ()  # of an array that is not taken yet
_copies: WeakValueDictionary[tuple[Any, ...], np.ndarray[Any, Any]] = WeakValueDictionary()  # by content


@dataclass(frozen=True, eq=False, kw_only=True)
class FromArray(Operand):
    """An array of the user; the client uploads the chunks and replaces the operand by a stored leaf."""

    name: ClassVar[str] = "array"
    array: np.ndarray[Any, Any]
    checksum: Checksums | None = None  # of a large array at the time it was taken; None for others
    copied: int = 0  # bytes of the parts that were copied
    content: Checksums | None = None  # of an array that nobody writes to, once they were asked for
    of: SourcePart | None = None  # the part of the array that is the value; None: the whole
    is_sent_whole: bool = False

    @classmethod
    def take(
        cls, array: np.ndarray[Any, Any], owned: bool, line: SourceLine | None = None, lazily: bool = False
    ) -> FromArray:
        """Make the operand of an array.

        Parameters
        ----------
        array, line
            The array and the user's line.
        owned
            Whether no other code can write to the array, so that it needs no copy.
        lazily
            Whether a large array is taken when the first operand, or tensor with memory of its own, reads it.
        """
        if owned or map_of(array) is not None:
            return cls(array=array, line=line)
        if array.nbytes <= COPIED:
            return cls(array=_copy(array), line=line)
        return cls(array=array, checksum=PENDING if lazily else _checksum(array), line=line)

    def stamp(self) -> Hashable | None:
        """Checksums of the elements that the array had when it was taken; None before, and for a map of a file."""
        if self.checksum is not None or map_of(self.array) is not None:
            return None if self.checksum in (None, PENDING) else self.checksum
        if self.content is None:
            object.__setattr__(self, "content", _checksum(self.array))
        return self.content

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The elements of the part."""
        return self.array if self.of is None else pick_part(self.array, self.of.part)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The part of an array that is large."""
        if self.is_sent_whole or self.of is not None or self.array.nbytes <= COPIED:
            return None
        return PartOf(replace(self, of=SourcePart(output.key, output, kept, splits_of(kept, output))), [])

    rows_together: ClassVar[int] = 1

    def note_reader(self) -> None:
        """Take an array that was to be taken lazily."""
        if self.checksum == PENDING:
            object.__setattr__(self, "checksum", _checksum(self.array))

    def copied_part(self, index: tuple[Any, ...], nbytes: int) -> FromArray | None:
        """The operand of `array[index]`, of `nbytes` bytes; None where the array was taken (and may have changed
        since), or the parts are large.
        """
        was_taken = self.checksum != PENDING and map_of(self.array) is None
        if was_taken or nbytes > COPIED or self.copied + nbytes > PARTS:
            return None
        object.__setattr__(self, "copied", self.copied + nbytes)
        return FromArray(array=_copy(np.asarray(self.array[index])))

    @property
    def is_current(self) -> bool:
        """Whether the elements of the array are the tensor's: the array was copied, or is not taken yet."""
        return self.checksum is None or self.checksum == PENDING

    def check(self) -> None:
        """Raise ArrayChangedError if the array has changed since it was taken, near the part."""
        before = self.checksum or ()
        rows = touched_pieces(self.of.part[0], _rows(self.array)) if self.of is not None else range(len(before))
        if before and any(_digest(self.array, k) != before[k] for k in rows):
            where = f" in line {self.line.lineno} ({self.line.text.strip()})" if self.line is not None else ""
            error = ArrayChangedError(
                f"an array of shape {self.array.shape} was used{where} and changed before its values were sent to the "
                "cluster; NumPy would have used the old values. Use a copy there, x.copy(), or change it later"
            )
            error.line = self.line
            raise error

    def is_unchanged(self, array: np.ndarray[Any, Any]) -> bool:
        """Whether an array still has the values that this operand took."""
        mine = _checksum(self.array) if self.checksum is None else self.checksum
        return mine == PENDING or mine == _checksum(array.astype(self.array.dtype, copy=False))

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Raise GraphError: the array must be uploaded first."""
        raise GraphError("a NumPy array was not uploaded before tiling; call graph.replace_by_stored first")


def plain_array(value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Convert by `np.asarray`, but refuse masked arrays, since the mask would be lost silently."""
    masked = isinstance(value, np.ndarray) and type(value) is not np.ndarray and hasattr(value, "mask")
    if isinstance(value, Composite) and (refusal := value.refusal()) is not None:
        raise refusal
    if masked or isinstance(value, Composite):
        raise UnsupportedError(
            "a tensor has no mask, so the mask of a masked array would be lost; make a masked tensor, "
            "jmars.tensor.ma.asarray(x), or use its values, x.data or x.filled(...)"
        )
    if is_scipy_sparse(value):  # NumPy makes an object of it
        raise DuckArrayError("a sparse array of SciPy")
    try:
        found = np.asarray(value, dtype)
        if found.dtype.char in "gG" and isinstance(value, list | tuple):  # NumPy takes elements by `float` from objects
            found = np.asarray(_plain_elements(value), dtype)
        return found
    except (TypeError, RuntimeError):  # a sparse array, or an array on a GPU
        refuse_duck_array(value)
        raise


def _plain_elements(value: Any) -> Any:
    """Nested lists with NumPy's arrays in the place of tensors."""
    if isinstance(value, list | tuple):
        return [_plain_elements(one) for one in value]
    return np.asarray(value) if hasattr(value, "__array__") else value


def is_own(array: np.ndarray[Any, Any], value: Any) -> bool:
    """Whether an array that `plain_array` made of a value shares no memory with the value."""
    if isinstance(value, np.ndarray):
        return array is not value and not np.may_share_memory(array, value)  # an empty array shares no memory
    return array.base is None and not hasattr(value, "__array__")


def map_of(array: np.ndarray[Any, Any]) -> np.memmap[Any, Any] | None:
    """The map of a file for reading (`mode="r"`) in an array's memory; None for arrays that may be written."""
    root = _root(array)
    return root if isinstance(root, np.memmap) and root.mode == "r" else None


def _root(array: Any) -> Any:
    """The array with the memory of a view; an array that is no view itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of an array; equal arrays share a copy, so that many cells keep the copy once."""
    if array.nbytes < _SHARED:
        return array.copy()
    content = (_checksum(array), array.shape, array.dtype)
    found = _copies.get(content)
    if found is None:
        found = array.copy()
        found.flags.writeable = False
        if _checksum(found) == content[0]:  # another thread wrote to it meanwhile: the copy is taken by nobody else
            _copies[content] = found
    return found


def copied_bytes() -> int:
    """Bytes of the copies of users' arrays that this process keeps, from 64 KiB on; for any thread."""
    return sum(copy.nbytes for ref in _copies.valuerefs() if (copy := ref()) is not None)


def _checksum(array: np.ndarray[Any, Any]) -> Checksums:
    """Compute checksums of the elements, some rows at a time."""
    return tuple(_digest(array, k) for k in range(max(1, -(-len(np.atleast_1d(array)) // _rows(array)))))


def _rows(array: np.ndarray[Any, Any]) -> int:
    """Number of rows with a checksum of their own."""
    return max(1, _CHECKSUM_BYTES * len(np.atleast_1d(array)) // max(1, array.nbytes))


def _digest(array: np.ndarray[Any, Any], k: int) -> int:
    """Compute xxh3, 128 bits, of the rows with number `k`."""
    found, rows = xxhash.xxh3_128(), _rows(array)
    for column in _fields(np.atleast_1d(array)[k * rows : (k + 1) * rows]):
        found.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
    return found.intdigest()


def _fields(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """The fields of records in turn, since the bytes between them are not copied; of other arrays, the array."""
    if array.dtype.names is None:
        yield array
    else:
        for name in array.dtype.names:
            yield from _fields(array[name])


Dispatcher = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
_dispatcher: Dispatcher | None = None


class DuckArrayError(UnsupportedError):
    """Raised where a duck array would have to become a NumPy array."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} is not converted to a NumPy array implicitly; convert it, x.todense()")


def is_duck_array(value: Any) -> bool:
    """Whether a value is an array of a library other than NumPy and jmars: one with `__array_namespace__`, or a sparse
    array of SciPy.
    """
    kind = type(value)
    if hasattr(kind, "__array_namespace__"):
        return kind.__module__.partition(".")[0] not in ("numpy", "jmars")
    return is_scipy_sparse(value)


def is_scipy_sparse(value: Any) -> bool:
    """Whether a value is a sparse array or matrix of SciPy."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and isinstance(value, (sparse.sparray, sparse.spmatrix))


def refuse_duck_array(value: Any) -> None:
    """Raise DuckArrayError for a duck array."""
    if is_duck_array(value):
        raise DuckArrayError(f"an array of {type(value).__name__}") from None


def supports_arithmetic(value: Any) -> bool:
    """Whether a tensor's operators accept a value: duck arrays, and arrays without a ufunc override."""
    return is_duck_array(value) or hasattr(value, "__array__") and not hasattr(value, "__array_ufunc__")


def set_dispatcher(dispatcher: Dispatcher) -> None:
    """Register `dispatcher(name, args, kwargs)` for calls with duck arrays."""
    global _dispatcher
    _dispatcher = dispatcher


def dispatch(error: DuckArrayError, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the duck-array version of a function; raises `error` while no dispatcher is registered."""
    importlib.import_module("jmars.tensor.chunk_types")
    if _dispatcher is None:  # chunk_types is still being imported
        raise error
    return _dispatcher(name, args, kwargs)


_given: dict[int, tuple[ref[Any], ref[Tensor], list[int]]] = {}  # by id: array, its tensor, checksums


def note_given(array: np.ndarray[Any, Any], x: Tensor) -> np.ndarray[Any, Any]:
    """Note an array that `np.asarray(x)` gives, for `written_back`; return an equal one that its views keep alive."""
    whole: np.ndarray[Any, Any] = _root(array)
    if (type(whole), whole.shape, whole.strides, whole.dtype) != (np.ndarray, array.shape, array.strides, array.dtype):
        whole = np.array(array)
    number = id(whole)
    _given[number] = ref(whole, lambda _: _given.pop(number, None)), ref(x), [*_checksum(whole)]
    return whole


def written_back(array: Any) -> Any:
    """Write changed elements of an array from `np.asarray(x)` to `x`, and return `x`; return other values unchanged.

    Of a view of the array with all its elements in order, return `x` in that shape; of other views, return the view.
    Only rows near a view are read and written.

    Raises
    ------
    ArrayChangedError
        If the rows of the tensor were written, too.
    """
    if type(array) is not np.ndarray or (noted := _given.get(id(_root(array)))) is None:
        return array  # also a masked array: a mask would be lost
    whole, x, before = noted[0](), noted[1](), noted[2]
    if whole is None or x is None or whole is not _root(array):
        return array
    lines, rows = np.atleast_1d(whole), _rows(whole)
    near = [k for k in range(len(before)) if np.may_share_memory(array, lines[k * rows : (k + 1) * rows])]
    if changed := [k for k in near if _digest(whole, k) != before[k]]:
        pieces = slice(changed[0], changed[-1] + 1)
        part = slice(pieces.start * rows, pieces.stop * rows) if len(before) > 1 else ...
        now = np.array(whole[part])
        if [*_checksum(np.asarray(x[part].fetch(copy=False), x.dtype))] != before[pieces]:
            raise ArrayChangedError(
                f"an array that np.asarray gave of a tensor of shape {x.shape} was written, and so was the tensor; "
                "NumPy would have both writes. Write to one of them, or to a copy, np.array(x)"
            )
        x[part] = now
        before[pieces] = _checksum(now)
    if array is whole:
        return x
    in_order = array.flags.c_contiguous and whole.flags.c_contiguous and array.dtype == whole.dtype
    return x.reshape(array.shape) if in_order and array.size == whole.size else array


class Composite:
    """A value that consists of several tensors."""

    __slots__ = ()

    def parts(self) -> list[Tensor]:
        """Return the tensors."""
        raise NotImplementedError

    def decode(self, values: Sequence[Any]) -> Any:
        """Make the value from the fetched values of the parts."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of axes."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of elements."""
        raise NotImplementedError

    def formatted(self, write: Callable[[Any], str]) -> str:
        """Format the value by `write` (str or repr); of a large value only the corners are fetched."""
        raise NotImplementedError

    def state(self) -> Any:
        """Return the state for `restore`: parts and settings."""
        raise NotImplementedError

    def refusal(self) -> Exception | None:
        """Return the error for code that takes the value as a tensor; None: there is no more to say than the class."""
        return None

    def restore(self, state: Any) -> None:
        """Restore a result of `state`."""
        raise NotImplementedError


_OURS = ("jmars", "numpy")


def array_limit() -> int:
    """Bytes of the largest array that comes here unasked: `config.array_limit`, by default half of the free memory."""
    return config.array_limit or get_engine().free_memory() // 2


def check_size(x: Tensor) -> None:
    """Warn of a tensor that is about to become a large array of this process.

    Raises
    ------
    MemoryLimitError
        If the array would be larger than `config.array_limit`, by default half of the free memory.
    """
    size = x.nbytes
    if size < config.array_warning and not 0 < config.array_limit < size:
        return
    library, frame = _caller()
    taking = f"{library or 'this line'} takes a tensor of shape {x.shape} and dtype {x.dtype} as a NumPy array"
    limit = array_limit()
    instead = "work on a part of the tensor, or on its chunks by jmars.tensor.map_blocks"
    if size > limit:
        half = "config.array_limit" if config.array_limit else "half of the free memory"
        raise MemoryLimitError(
            f"{taking}, {format_bytes(size)} in this process; {half} is {format_bytes(limit)}. Instead {instead}; "
            "x.fetch() takes the value in any case, and jmars.config.array_limit sets the limit"
        )
    warn_at(
        frame,
        f"{taking}: {format_bytes(size)} are brought into this process. To spare them, {instead}; x.fetch() takes the "
        "value without this warning, and jmars.config.array_warning sets the size",
        UserWarning,
    )


def _caller() -> tuple[str, FrameType | None]:
    """The library that takes the array, "" for code of the user, and the frame of the user's line."""
    library: str | None = None
    innermost: FrameType | None = None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = package(frame)
        if name not in _OURS:
            users = not frame.f_code.co_filename.startswith(libraries())
            innermost = innermost or frame
            if library is None:
                library = "" if users else name
            if users:
                return library, frame
        frame = frame.f_back
    return library or "", innermost


def is_library(frame: FrameType) -> bool:
    """Whether a frame runs code of an installed library other than NumPy and jmars."""
    return package(frame) not in _OURS and frame.f_code.co_filename.startswith(libraries())


def package(frame: FrameType) -> str:
    """Top-level package of the code that a frame runs."""
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]


by_standard: set[str] = set()  # packages that asked tensors for the namespace of the array API standard


def libraries() -> tuple[str, ...]:
    """Folders of Python's own modules and of installed packages, also of the user and of a parent environment."""
    return _libraries(tuple(sys.path))


@functools.lru_cache(2)
def _libraries(path: tuple[str, ...]) -> tuple[str, ...]:
    installed = {one for one in path if os.path.basename(one) in ("site-packages", "dist-packages")}
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")} | installed)
