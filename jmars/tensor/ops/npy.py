"""`.npy` files, and `from_blocks`: arrays whose chunks a user's function reads or computes on the workers.

Executors map a `.npy` file into memory and copy their chunks, block by block. The client reads the header or creates
the file; executors receive the path and the first index of their chunk. Object arrays are refused; no file is
unpickled. `mapped_layout` tells where a map of the user (`np.memmap`) lies in the file, for executors to read.

Stamps of files: equal stamps, equal content, so that values of an unchanged file are used again. A stamp holds inode,
size, times of the last write and of the last change, in ns. The system sets the time of change at every write, so that
`cp -p` and `touch -d` change the stamp as well. There is no stamp where the times may not show the next write: for a
file that changed less than `FRESH` seconds ago, and for one that this process maps for writing (`np.memmap` with "r+"),
since such writes change the times late or not at all.
Source: NEP 1 (the .npy format).
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from jmars.errors import ObjectArrayError, StorageError, UnsupportedError
from jmars.kernels.program import Call, ChunkType, Fill, Generate, Program, single
from jmars.tensor.atomic_file import atomic_file, claimed
from jmars.tensor.buffers import Buffer, SmallValues
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.engine import get_engine
from jmars.tensor.from_array import map_of
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Operand, Splits, TensorMeta, check_dtype, new_data
from jmars.tensor.ops.chunks import add_by_class, boxes, chunk_classes, chunk_starts, corners
from jmars.tensor.ops.map_blocks import code_of, pickled, unpickled
from jmars.tensor.parts import Axis, Part, PartOf, SourcePart, in_chunks, positions, splits_of, whole
from jmars.tensor.protocols import call, offers
from jmars.tensor.remote_files import is_url, opened, url_stamp
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
FRESH = 2.0  # seconds; some file systems have times of whole seconds
MOST_FILES = 10_000  # in a folder, such as a Zarr array
ZIP = b"PK\x03\x04"  # first bytes of an archive
MAPPED_BYTES = 4 * 2**20  # most bytes of mapped pages of a file


class Layout(Struct, frozen=True):
    """Position and format of an array in a file."""

    path: str  # absolute
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]  # bytes
    offset: int  # bytes before the first element
    stamp: tuple[int, int]  # size in bytes and modification time in ns

    @classmethod
    def contiguous(
        cls, path: str, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, stamp: tuple[int, int], fortran: bool
    ) -> Layout:
        """The layout of an array without gaps."""
        steps = tuple(accumulate(shape if fortran else shape[::-1], mul, initial=dtype.itemsize))[:-1]
        return cls(path, shape, dtype, steps if fortran else steps[::-1], offset, stamp)

    def mapped(self, memory: mmap.mmap) -> Array:
        """View of the whole array in the mapped file."""
        return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)

    def part(self, index: tuple[Any, ...]) -> Layout:
        """The layout of a slice."""
        whole = np.lib.stride_tricks.as_strided(np.empty((), self.dtype), self.shape, self.strides)  # never read
        part = whole[(*index, ...)]
        offset = self.offset + _address(part) - _address(whole)
        return Layout(self.path, part.shape, self.dtype, part.strides, offset, self.stamp)


def file_stamp(status: os.stat_result) -> tuple[int, int]:
    """Size and time of the last change, by which a file is known."""
    return status.st_size, status.st_mtime_ns


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


@offers("load", "load_npy")
def load(file: Any, mmap_mode: Any = None, allow_pickle: bool = False, *, chunk_size: ChunkSize = None,
         chunks: ChunkSize = None, storage_options: Any = None, **kwargs: Any) -> Any:  # fmt: skip
    """`np.load`: loads an .npy file lazily, chunk by chunk; for an .npz file returns the arrays by name.

    Parameters
    ----------
    file
        A path that all workers can read, or a URL of fsspec of an .npy file. The file must not change while the tensor
        is in use. An open file is read in this process, at once.
    mmap_mode
        None, "r" or "c"; the file is always mapped and never written.
    chunk_size, chunks
        Chunks of the tensor.
    storage_options
        Options of fsspec for a URL.

    Raises
    ------
    FileNotFoundError, ValueError
        As NumPy raises them, for missing files and for other formats.
    UnsupportedError
        For large compressed arrays in an .npz file.
    StorageError
        When a chunk is read after the file changed.
    """
    if not isinstance(file, str | os.PathLike):
        return np.load(file, mmap_mode, allow_pickle, **kwargs)  # of this process
    if mmap_mode not in (None, "r", "c"):
        raise UnsupportedError(f"mmap_mode={mmap_mode!r} would write to the file; load it with 'r' and save the result")
    if is_url(file):
        with opened(file, storage_options) as stream:
            if stream.read(len(ZIP)) == ZIP:
                raise UnsupportedError(f"{file} is an .npz archive; copy it to a folder and give the path")
            stream.seek(0)
            try:
                shape, fortran, dtype = read_header(stream, file)
            except ObjectArrayError as error:  # NumPy, which reads objects, takes a URL for a path
                raise UnsupportedError(f"{file} holds Python objects; copy it to a folder and give the path") from error
            far = RemoteArray(file, storage_options, shape, dtype, stream.tell(), fortran, url_stamp(stream))
            return far.tensor(chunk_size, chunks)
    path = os.path.abspath(os.fspath(file))
    with open(path, "rb") as stream:
        if stream.read(len(ZIP)) == ZIP:
            return call("load_npz", path, chunk_size=chunk_size, chunks=chunks)
    return load_at(path, 0, chunk_size, chunks)


def load_at(path: str, start: int, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
    """Loads an .npy array that begins at byte `start` of a file; see `load`."""
    return loaded(_read_header(path, start), chunk_size, chunks)


def loaded(layout: Layout, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
    """The array of a file: lazy, but a small array is read at once in a cell, so that the cell may remove the file."""
    nbytes = math.prod(layout.shape) * layout.dtype.itemsize
    if nbytes <= SmallValues.chosen and chunk_size is None and chunks is None:
        memory = _map(layout)
        found = np.empty(layout.shape, layout.dtype) if memory is None else layout.mapped(memory)
        return Tensor.at(Buffer.of(found.copy("K")))
    splits = decide_splits(layout.shape, layout.dtype, chunk_size, chunks)
    return Tensor(new_data(LoadNpy(layout, splits), layout.shape, layout.dtype, splits))


def _read_header(path: str, start: int = 0) -> Layout:
    """Reads the header of an .npy file; raises ValueError if the file is shorter than the header says."""
    with open(path, "rb") as stream:
        stream.seek(start)
        shape, fortran, dtype = read_header(stream, path)
        offset, stamp = stream.tell(), file_stamp(os.fstat(stream.fileno()))
    needed = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if stamp[0] < needed:
        raise ValueError(
            f"{path} is cut short: its header asks for {needed} bytes and it has {stamp[0]}; save it again"
        )
    return Layout.contiguous(path, tuple(int(n) for n in shape), dtype, offset, stamp, fortran)


def read_header(stream: IO[bytes], path: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and dtype of the .npy array that begins where the stream is.

    Raises
    ------
    ValueError
        For other formats.
    UnsupportedError
        For objects, and for fields with other than Latin names.
    """
    try:
        version = np.lib.format.read_magic(stream)
    except ValueError as error:
        error.add_note(f"{path} is no .npy file")
        raise
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise UnsupportedError(
            f"{path} has .npy version {version}, whose fields have other than Latin names; rename them"
        )
    check_dtype(dtype)
    return shape, fortran, dtype


def stamp_of(paths: Sequence[str]) -> Hashable | None:
    """The stamp of files and of folders with all that is in them; None where there is none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     stamp_of([file.name])  # it is too new

    >>> stamp_of(["/proc/self/no such file"])
    >>> stamp_of([os.__file__]) == stamp_of([os.__file__])
    True
    """
    found: list[Hashable] = []
    try:
        written = _mapped_for_writing()
        for name in _files(paths):
            one = _facts(name)
            if time.time() - one[-1] / 1e9 < FRESH or one[1] in written or len(found) == MOST_FILES:
                return None
            found.append((name, one))
    except OSError:
        return None
    return tuple(found)


def _files(paths: Sequence[str]) -> Iterator[str]:
    """Files, and all files and folders in folders and behind links, in an order that does not depend on the system."""
    for path in paths:
        yield path
        for folder, folders, names in os.walk(path, onerror=_raise, followlinks=True) if os.path.isdir(path) else ():
            folders.sort()
            yield from sorted(os.path.join(folder, name) for name in [*folders, *names])


def _raise(error: OSError) -> None:
    raise error


def _facts(path: str) -> tuple[int, ...]:
    """Device, inode, size, times of write and change; opened, since a network's file system then asks its server."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _mapped_for_writing() -> set[int]:
    """Inodes of the files that this process maps to write to them; raises OSError where the system does not tell."""
    rows = [line.split(None, 5) for line in Path("/proc/self/maps").read_bytes().splitlines()]
    return {int(row[4]) for row in rows if row[1][1:2] == b"w" and row[1][3:4] == b"s"}


def mapped_layout(array: Array) -> Layout | None:
    """Place of a map of a file for reading, or of a slice of the map, in the file.

    None for other arrays, for a path that now names a different file, and for a file that was written less than `FRESH`
    seconds ago: the stamp may not show the next write.
    """
    root = map_of(array)
    memory: Any = None if root is None else root.base
    if root is None or root.filename is None or not isinstance(memory, mmap.mmap):
        return None
    path, start = str(root.filename), _address(np.frombuffer(memory, np.uint8))
    try:
        status = os.stat(path)
    except OSError:
        return None
    if time.time() - status.st_mtime < FRESH or not _maps_file(start, path, status.st_ino):
        return None
    offset = root.offset - root.offset % mmap.ALLOCATIONGRANULARITY + _address(array) - start
    return Layout(path, array.shape, array.dtype, array.strides, offset, file_stamp(status))


def _maps_file(address: int, path: str, inode: int) -> bool:
    """Whether memory is a map of the file that has this path; False where the system has no /proc."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    for line in lines:
        if line.startswith(f"{address:08x}-"):
            return line.split(None, 5)[4:] == [str(inode), os.path.realpath(path)]  # of a removed file: "... (deleted)"
    return False


@dataclass(frozen=True, eq=False)
class LoadNpy(Operand):
    """Reads chunks of an .npy file, or the elements at positions along an axis of the file's array."""

    layout: Layout
    splits: Splits
    axis: int = 0
    positions: bytes | None = None  # of int64; None: all elements
    of: SourcePart | None = None  # the part of a larger array of the file that the user loads
    name: ClassVar[str] = "load"
    rows_together: ClassVar[int] = 1

    def token(self) -> Hashable:
        """Identifies the operand by the file, with modification time, splits and positions."""
        return ("load", self.layout, self.splits, self.axis, self.positions)

    @property
    def label(self) -> str:
        """The function's name, with a mark for a part."""
        return "load[...]" if self.of is not None else "load"

    def stamp(self) -> Hashable | None:
        """The stamp of the file, unless it changed since the tensor was made."""
        found: Any = stamp_of([self.layout.path])
        return found if found and found[0][1][2:4] == self.layout.stamp else None

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Reads the part; positions along a single axis are read as they are."""
        listed = [i for i, axis in enumerate(kept) if not isinstance(axis, range)]
        if self.of is not None or self.positions is not None or len(listed) > 1:
            return None
        index = tuple(slice(one.start, one.stop, one.step) if isinstance(one, range) else slice(None) for one in kept)
        axis = listed[0] if listed else 0
        there = positions(kept[axis]).astype(np.int64).tobytes() if listed else None
        chunks = splits_of(kept, output)
        of = self._source(output, kept, chunks)
        return PartOf(LoadNpy(self.layout.part(index), chunks, axis, there, of, line=self.line), [])

    def source_part(self, output: TensorMeta) -> SourcePart:
        """The part of the file's array."""
        return self.of or self._source(output, whole(output), output.chunks)

    def _source(self, output: TensorMeta, part: Part, chunks: Splits) -> SourcePart:
        return SourcePart((self.layout, self.positions), output, part, chunks)

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The ranges around the positions."""
        return tuple(one if isinstance(one, range) else range(int(one[0]), int(one[-1]) + 1) for one in kept)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the first index, and the bytes of the positions, as argument."""
        shapes, which = shape_classes(output.chunks)
        programs = [
            single(self.label, (), Generate(open_file, (self.layout, self.axis), chunk, True, reads=chunk.nbytes))
            for chunk in (ChunkType(shape, output.dtype) for shape in shapes)
        ]
        none = np.empty((which.size, 0), np.int64)
        args: list[tuple[Any, ...]] = [((corner, self._there(corner, output)),) for (corner,) in corners(output.chunks)]
        return builder.add_many(programs, which.reshape(-1), none, args).reshape(output.grid)

    def _there(self, corner: tuple[int, ...], output: TensorMeta) -> bytes | None:
        """The positions of a chunk."""
        if self.positions is None:
            return None
        starts, lengths = chunk_starts(output.chunks[self.axis]), output.chunks[self.axis]
        begin = corner[self.axis]
        return self.positions[8 * begin : 8 * (begin + lengths[starts.index(begin)])]


def open_file(params: tuple[Layout, int], arg: tuple[tuple[int, ...], bytes | None], output: ChunkType) -> Fill:
    """Returns the function that copies a chunk from the file; releases mapped pages on the way."""
    layout, axis = params
    corner, positions = arg
    memory = _map(layout)
    chunk: list[Axis] = [range(at, at + n) for at, n in zip(corner, output.shape)]
    if positions is not None:
        chunk[axis] = np.frombuffer(positions, np.int64)
    window = None if memory is None else Window(layout, memory)

    def fill(out: Array, start: int) -> None:
        if window is None or not out.size:
            return
        done = 0
        for box in boxes(output.shape, start, start + out.size) if output.shape else [()]:
            wanted = [there[one] for there, one in zip(chunk, box)]
            shape = tuple(map(len, wanted))
            size = math.prod(shape)
            window.read(wanted, out[done : done + size].reshape(shape))
            done += size

    return fill


class Window:
    """The array of a mapped file, of which pages that span at most `MAPPED_BYTES` are in memory at a time.

    The system maps pages around an element that is read, up to 2 MiB of them: a chunk of narrow rows would take memory
    for all that lies between the rows.
    """

    def __init__(self, layout: Layout, memory: mmap.mmap) -> None:
        self._layout, self._memory, self._array = layout, memory, layout.mapped(memory)
        self._low, self._high = 0, 0  # bytes of the file that were touched since pages were released

    def read(self, box: Sequence[Axis], out: Array) -> None:
        """Copy the elements at positions along each axis to `out`, which has the shape of the box."""
        places: list[Axis] = [range(n) for n in out.shape]
        wanted = list(box)
        for axis, there in enumerate(box):
            if not isinstance(there, range) and (there[1:] < there[:-1]).any():
                places[axis] = np.argsort(there, kind="stable")
                wanted[axis] = there[places[axis]]
        for there, here in self._near(wanted, places):
            out[here] = self._array[there]

    def write(self, chunk: Array, corner: Sequence[int]) -> None:
        """Copy a chunk into the file, from a first index on."""
        places: list[Axis] = [range(n) for n in chunk.shape]
        for there, here in self._near([range(at, at + n) for at, n in zip(corner, chunk.shape)], places):
            self._array[there] = chunk[here]
        self._release()

    def _near(self, wanted: list[Axis], places: list[Axis]) -> Iterator[tuple[Any, Any]]:
        """Indices of the file and of memory, of parts that span at most `MAPPED_BYTES`; pages are released between."""
        steps = self._layout.strides
        ends = [(int(there[0]) * step, int(there[-1]) * step) for there, step in zip(wanted, steps)]
        spans = [abs(last - first) for first, last in ends]
        if sum(spans) > MAPPED_BYTES:
            axis = max(range(len(spans)), key=spans.__getitem__)
            half = len(wanted[axis]) // 2
            for part in (slice(half), slice(half, None)):
                nearer = [*wanted[:axis], wanted[axis][part], *wanted[axis + 1 :]]
                yield from self._near(nearer, [*places[:axis], places[axis][part], *places[axis + 1 :]])
            return
        low = self._layout.offset + sum(map(min, ends))
        high = low + sum(spans)
        if max(high, self._high) - min(low, self._low) > MAPPED_BYTES:
            self._release()
            self._low, self._high = low, high
        self._low, self._high = min(low, self._low), max(high, self._high)
        yield tuple(map(_index, wanted)), tuple(map(_index, places))

    def _release(self) -> None:
        if hasattr(self._memory, "madvise"):
            self._memory.madvise(mmap.MADV_DONTNEED)


def _index(axis: Axis) -> slice | NDArray[np.int64]:
    """An index of neighbours, or of listed positions."""
    return slice(axis.start, axis.stop) if isinstance(axis, range) else axis


def _map(layout: Layout) -> mmap.mmap | None:
    """Maps the file for reading; None for an empty array; raises StorageError if the file changed."""
    descriptor = os.open(layout.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if file_stamp(os.fstat(descriptor)) != layout.stamp:
            raise StorageError(f"{layout.path} has changed since it was loaded; load it again")
        if not layout.stamp[0] > layout.offset:
            return None
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


@offers("save")
def save(file: Any, arr: Any, allow_pickle: bool = False, **kwargs: Any) -> None:
    """`np.save`: computes a tensor and writes an .npy file, chunk by chunk; returns when the file is complete.

    The file is written under a temporary name and replaces an existing file at the end.

    Parameters
    ----------
    file
        A path that all workers can write to; a missing suffix ".npy" is appended, as in NumPy. An open file gets the
        value from this process.
    arr
        A tensor or an array.
    """
    if not isinstance(file, str | os.PathLike):
        np.save(file, as_values(arr), allow_pickle)  # of this process
        return
    path = os.path.abspath(os.fspath(file))
    path = path if path.endswith(".npy") else f"{path}.npy"
    x = as_tensor(arr)
    write_file(x, path, lambda part: create_npy(x, part))


def write_file(x: Tensor, path: str, begin: Callable[[str], Layout]) -> None:
    """Computes a tensor and writes the chunks to a file, under a temporary name until the file is complete.

    `begin` creates the file at full length and returns the layout.
    """
    with claimed(path), atomic_file(path) as part:
        fill(x, begin(part))


def create_npy(x: Tensor, part: str) -> Layout:
    """Creates an .npy file of full length for a tensor and returns the layout."""
    np.lib.format.open_memmap(part, "w+", x.dtype, x.shape)
    return _read_header(part)


def fill(x: Tensor, layout: Layout) -> None:
    """Computes a tensor and lets the workers write its chunks into a file of full length; writes small values here."""
    _allocate_blocks(layout.path)
    if not x.size:
        return
    if (memory := x._place.memory) is not None:
        return write_chunk(np.empty((), bool), [memory], (layout,), (0,) * x.ndim)
    ones = tuple((1,) * len(axis) for axis in x.chunks)
    get_engine().execute([new_data(SaveNpy(layout, inputs=(x.data,)), tuple(map(sum, ones)), np.dtype(bool), ones)])


def _allocate_blocks(path: str) -> None:
    """Allocates the file's disk blocks, so that a full disk raises an error here instead of a SIGBUS in an executor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if hasattr(os, "posix_fallocate") and os.fstat(descriptor).st_size:
            os.posix_fallocate(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


@offers("method.to_npy")
def to_npy(x: Tensor, path: Any) -> None:
    """Writes a tensor to an .npy file; see `save`."""
    save(path, x)


@dataclass(frozen=True, eq=False)
class SaveNpy(Operand):
    """Writes chunks into a file; the output is True per chunk."""

    layout: Layout
    name: ClassVar[str] = "save"

    def stamp(self) -> Hashable | None:
        """None: it writes."""
        return None

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the first index as argument."""
        (source,) = inputs
        shapes, which = shape_classes(source.splits)
        done = ChunkType((1,) * len(source.splits), output.dtype)

        def program(k: int) -> Program:
            chunk = ChunkType(shapes[k], source.dtype)
            return single("save", (chunk,), Call(write_chunk, (self.layout,), (0,), done, True))

        made = add_by_class(builder, program, which.reshape(-1), source.ids.reshape(-1, 1), corners(source.splits))
        return made.reshape(output.grid)


def write_chunk(out: Array, inputs: Sequence[Array], params: tuple[Layout], corner: tuple[int, ...]) -> None:
    """Copies a chunk to the position in the file."""
    (layout,) = params
    (chunk,) = inputs
    descriptor = os.open(layout.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size != layout.stamp[0]:
            raise StorageError(f"{layout.path} changed its size while it was written; save to another path")
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_WRITE) as memory:
            Window(layout, memory).write(chunk, corner)
    finally:
        os.close(descriptor)
    out[...] = True


@dataclass(frozen=True)
class RemoteArray:
    """An array without gaps in a file of fsspec; a call reads a box, by ranges of bytes."""

    url: str
    options: Any = field(repr=False)  # of fsspec
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int  # bytes before the first element
    fortran: bool = False
    stamp: Hashable = None  # of `url_stamp`

    def tensor(self, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
        """The array, to be read by workers."""
        return from_blocks(self, self.shape, self.dtype, chunk_size, chunks=chunks, name="load", waits=True)

    def __call__(self, box: tuple[slice, ...]) -> Array:
        """The elements of a box."""
        if self.fortran:
            turned = replace(self, shape=self.shape[::-1], fortran=False)
            return turned(box[::-1]).T
        lengths, axis = [one.stop - one.start for one in box], len(box) - 1
        row = self.dtype.itemsize  # bytes of an index of `axis`; further axes are read whole
        while axis > 0 and (self.shape[axis] - lengths[axis]) * row <= NEAR:
            row, axis = row * self.shape[axis], axis - 1
        whole = math.prod(lengths[: axis + 1]) * row
        if whole > NEAR * 256 and lengths[0] > 1 and axis < len(box) - 1:
            middle = box[0].start + lengths[0] // 2
            halves = slice(box[0].start, middle), slice(middle, box[0].stop)
            return np.concatenate([self((half, *box[1:])) for half in halves])
        steps = np.cumprod((row, *self.shape[axis:0:-1]))[::-1].tolist()
        first = [box[axis].start if box else 0]
        corners = itertools.product(*(range(one.start, one.stop) for one in box[: max(axis, 0)]), first)
        starts = [self.offset + sum(map(mul, corner, steps)) for corner in corners]
        ends = [start + (lengths[axis] if box else 1) * row for start in starts]
        with opened(self.url, self.options, self.stamp) as file:
            found = b"".join(file.fs.cat_ranges([file.path] * len(starts), starts, ends, on_error="raise"))
        if len(found) > whole:
            raise StorageError(f"the server of {self.url} ignores ranges of bytes; copy the file and read the copy")
        if len(found) < whole:
            raise StorageError(f"{self.url} ends before its array does; it was cut short, or has changed")
        values = np.frombuffer(found, self.dtype).reshape((*lengths[: axis + 1], *self.shape[axis + 1 :]))
        return values[(*(slice(None),) * (axis + 1), *box[axis + 1 :])]


NEAR = 2**16  # bytes between two ranges that are read with them


@offers("from_blocks")
def from_blocks(
    function: Callable[[tuple[slice, ...]], Any],
    shape: Sequence[int],
    dtype: Any,
    chunk_size: ChunkSize = None,
    *,
    chunks: ChunkSize = None,
    name: str | None = None,
    takes: Literal["chunks", "boxes", "steps"] = "boxes",
    pieces: Sequence[int] = (),
    holds: tuple[int, int, int] | None = None,
    pure: bool = False,
    files: Sequence[str] = (),
    waits: bool = False,
) -> Tensor:
    """Makes a tensor whose chunks are results of `function(slices)`.

    Parameters
    ----------
    function
        Called on a worker with a slice per axis; returns that part of the array, with the declared dtype. A method
        `function.into(slices, out)`, where there is one, writes the part to an array instead, which spares memory.
        If the function waits and has a method `begin`, a worker calls `function.begin(slices)` ahead, and then
        `function.into(slices, out, begun)` or `function(slices, begun)` with the result.
    shape, dtype
        Shape and dtype of the whole array.
    chunk_size, chunks
        Chunks of the tensor. The function is called for each chunk, with the slices of the chunk's elements that the
        results need.
    name
        Label in the view; by default the function's name.
    takes
        Slices that the function can be called with: "chunks", those of whole chunks only; "boxes", any with a step of
        1; "steps", any with a step above 0.
    pieces
        Lengths of the pieces that the function can only read whole, as those of a Zarr array; plans say where chunks
        cut pieces, and a call is promised memory for pieces as they are stored and decoded.
    holds
        Memory of a call: bytes of an element of a piece, by default those of the dtype; bytes that each element of the
        result takes at most while the function makes it of the pieces' elements; pieces that are read at once, by
        default 1.
    pure
        Whether the results depend on nothing but the slices and the content of `files`, so that they may be used again
        (docs/how-to/reuse.md).
    files
        Paths of files and folders that a pure function reads.
    waits
        Whether the function mostly waits, as for a network. A worker then calls it for several chunks at once, each in
        a thread, while the results are small.

    An exception of the function ends the job and is raised in the client unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> squares = np.arange(6) ** 2
    >>> from_blocks(lambda box: squares[box], (6,), int, chunk_size=4).fetch().tolist()
    [0, 1, 4, 9, 16, 25]
    """
    if not callable(function):
        raise TypeError(f"from_blocks takes a function first; {function!r} cannot be called")
    kind = check_dtype(dtype)
    shape = tuple(int(n) for n in shape)
    splits = decide_splits(shape, kind, chunk_size, chunks)
    label = name or str(getattr(function, "__name__", type(function).__name__))
    if takes not in ("chunks", "boxes", "steps"):
        raise ValueError(f"{label} takes {takes!r}; choose one of chunks, boxes, steps")
    if pieces and (len(pieces) != len(shape) or min(pieces) < 1):
        raise ValueError(f"{label} has pieces {tuple(pieces)}; give a length above 0 for each of {len(shape)} axes")
    code, paths = code_of(function) if pure else None, tuple(map(os.path.abspath, files))
    made = FromBlocks(
        label, pickled(function), takes, tuple(pieces), holds or (kind.itemsize, kind.itemsize, 1), files=paths,
        pure=code, waits=waits, into=hasattr(function, "into") and (not waits or hasattr(function, "begin")),
    )  # fmt: skip
    return Tensor(new_data(made, shape, kind, splits))


@dataclass(frozen=True, eq=False)
class FromBlocks(Operand):
    """Calls a function per chunk."""

    function: str
    blob: bytes = field(repr=False)  # a URL may hold credentials
    takes: str = "chunks"  # slices that the function can be called with
    pieces: tuple[int, ...] = ()  # lengths of pieces that the function reads whole; () where not known
    # bytes of an element, stored and being decoded (0: pieces are decoded in the chunk); pieces read at once
    holds: tuple[int, int, int] = (0, 0, 1)
    of: SourcePart | None = None  # the part that is read; None: the whole
    files: tuple[str, ...] = ()  # that the function reads
    pure: bytes | None = None  # `code_of` a function whose values depend on arguments and files only; None: of others
    waits: bool = False  # mostly waits, so calls are begun ahead
    into: bool = False  # the function can write to the chunk
    name: ClassVar[str] = "from_blocks"
    stamped: ClassVar[tuple[str, ...]] = ("blob", "pure")

    def stamp(self) -> Hashable | None:
        """Code of the function and stamps of its files; None for a function that is not marked as pure."""
        there = None if self.pure is None else stamp_of(self.files)
        return None if there is None else (self.pure, there)

    @property
    def label(self) -> str:
        """The function's name, with a mark for a part."""
        return self.function if self.of is None else f"{self.function}[...]"

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Reads the part, unless the function is called with whole chunks."""
        if self.takes == "chunks" or self.of is not None:
            return None
        return PartOf(replace(self, of=self._source(output, kept, splits_of(kept, output))), [])

    @property
    def rows_together(self) -> int:
        """Rows of a piece, if pieces are known."""
        return self.pieces[0] if self.pieces and self.takes != "chunks" else 0

    def source_part(self, output: TensorMeta) -> SourcePart:
        """The part of the function's array."""
        return self.of or self._source(output, whole(output), output.chunks)

    def _source(self, output: TensorMeta, part: Part, chunks: Splits) -> SourcePart:
        return SourcePart((self.function, self.blob), output, part, chunks, self.pieces)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the bounds, or the positions along the axes, as argument."""
        if self.of is not None:
            return self._tile_part(builder, self.of.part, output)
        kinds, which = chunk_classes(output.chunks)
        bounds = [list(zip(chunk_starts(axis), itertools.accumulate(axis))) for axis in output.chunks]

        cut = [any(k % n for k in chunk_starts(axis)) for axis, n in zip(output.chunks, self.pieces)]

        def program(k: int) -> Program:
            chunk = ChunkType(kinds[k], output.dtype)
            call = self._call(read_block, chunk, self._memory(kinds[k], kinds[k], self.into, cut), chunk.nbytes)
            return single(self.function, (), call)

        args = [(box,) for box in itertools.product(*bounds)]
        rows = np.zeros((which.size, 0), np.int64)
        return add_by_class(builder, program, which.reshape(-1), rows, args).reshape(output.grid)

    def _call(self, function: Callable[..., None], chunk: ChunkType, work: int, reads: int) -> Call:
        ahead = min(AHEAD, AHEAD_BYTES // max(1, work)) if self.waits else 0
        how: Any = {"runs_user_code": True, "reads": reads, "waits": ahead if ahead > 1 else 0}
        return Call(function, (self.function, self.blob), (), chunk, True, work, **how)

    def _memory(
        self, lengths: Sequence[int], spans: Sequence[int], direct: bool, cut: Sequence[bool], stepped: bool = False
    ) -> int:
        """Bytes that a call takes for so many elements, taken out of such spans of the axes, or written directly.

        `cut`: the axes along which a span may begin within a piece; `stepped`: slices have steps.
        """
        stored, decoding, at_once = self.holds
        pieces = [-(-span // n) + is_cut for span, n, is_cut in zip(spans, self.pieces, cut)]
        count, piece = math.prod(pieces) if self.pieces else 0, math.prod(self.pieces) * stored
        decoded = min(count, at_once, DECODED if decoding or stepped else 1) * piece
        encoded = min(count, at_once) * piece
        if direct:
            in_line = bool(spans) and spans[1:] == tuple(self.pieces[1:]) and not spans[0] % self.pieces[0]
            return encoded + decoded * (decoding > 0 or stepped or any(cut) or not in_line)
        return encoded + max(math.prod(lengths) * decoding, math.prod(lengths) * stored + decoded)

    def _tile_part(self, builder: ChunkGraphBuilder, kept: Part, output: TensorMeta) -> NDArray[np.int64]:
        steps = self.takes == "steps"
        axes = [[_reads(one, steps) for one in in_chunks(*axis)] for axis in zip(kept, output.chunks, strict=True)]
        direct = self.into and all(isinstance(axis, range) and (steps or axis.step == 1) for axis in kept)
        kinds, which = chunk_classes(
            [[(n, *_lengths(reads)) for n, reads in zip(*axis)] for axis in zip(output.chunks, axes, strict=True)]
        )

        cut = [any(one.read[0] % n for reads in axis for one in reads) for axis, n in zip(axes, self.pieces)]
        stepped = any(one.read[2] > 1 for axis in axes for reads in axis for one in reads)

        def program(k: int) -> Program:
            shape, most, spans, all_read = zip(*kinds[k]) if kinds[k] else ((), (), (), ())
            chunk, read = ChunkType(shape, output.dtype), math.prod(all_read) * output.dtype.itemsize
            work = self._memory(most, spans, direct, cut, stepped)
            return single(self.label, (), self._call(read_part, chunk, work, read))

        args = [(box,) for box in itertools.product(*axes)]
        rows = np.zeros((which.size, 0), np.int64)
        return add_by_class(builder, program, which.reshape(-1), rows, args).reshape(output.grid)


DECODED = 4  # pieces that wait decoded until they are copied, where several are read at once
RUNS = 8  # runs of positions along an axis of a chunk that are read one by one


class _Read(NamedTuple):
    """A slice to read along an axis, the part to take, and the place in the chunk."""

    read: tuple[int, int, int]
    taken: tuple[int, int, int] | bytes  # a slice, or int64 positions
    place: tuple[int, int]


def _reads(axis: Axis, steps: bool) -> tuple[_Read, ...]:
    """How the positions of a chunk are read along an axis; `steps`: by slices with steps, too."""
    n = len(axis)
    if isinstance(axis, range):
        if steps or axis.step == 1:
            return (_Read((axis.start, axis.stop, axis.step), (0, n, 1), (0, n)),)
        return (_Read((axis.start, axis.stop, 1), (0, axis.stop - axis.start, axis.step), (0, n)),)
    ends = [0, *(np.flatnonzero(np.diff(axis) > 1) + 1).tolist(), n]
    if len(ends) - 1 > RUNS:
        first = int(axis[0])
        return (_Read((first, int(axis[-1]) + 1, 1), (axis - first).astype(np.int64).tobytes(), (0, n)),)
    return tuple(
        _Read((int(axis[low]), int(axis[high - 1]) + 1, 1), (0, high - low, 1), (low, high))
        for low, high in itertools.pairwise(ends)
    )


def _lengths(reads: tuple[_Read, ...]) -> tuple[int, int, int]:
    """Elements along an axis that are read: at most at once, those between their ends, and all together."""
    lengths, spans = [len(range(*one.read)) for one in reads], [one.read[1] - one.read[0] for one in reads]
    return max(lengths), max(spans), sum(lengths)


def read_part(out: Array, inputs: Sequence[Array], params: tuple[str, bytes], arg: Any) -> None:
    """Calls the function for the boxes of a part, and copies the taken elements to the chunk."""
    name, blob = params
    for box in itertools.product(*([_Read(*one) for one in axis] for axis in arg)):  # plain tuples travel
        wanted = ChunkType(tuple(len(range(*one.read)) for one in box), out.dtype)
        read = tuple(one.read for one in box)
        place: Any = (*(slice(*one.place) for one in box), ...)
        if all(one.taken == (0, n, 1) for one, n in zip(box, wanted.shape)) and _reads_into(blob, read, out[place]):
            continue
        value = _checked(name, _result(blob, read), wanted, box)
        for axis, one in enumerate(box):
            taken: Any = np.frombuffer(one.taken, np.int64) if isinstance(one.taken, bytes) else slice(*one.taken)
            index: Any = (*(slice(None),) * axis, taken)
            value = value[index]
        out[place] = value


def _checked(name: str, value: Any, wanted: ChunkType, box: Any) -> Array:
    """The result of a function as an array; raises ValueError for a different shape or dtype."""
    found = np.asarray(value)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise ValueError(
            f"{name} gave {found.dtype} of shape {found.shape} for the box {box}, and {wanted.dtype} of shape "
            f"{wanted.shape} was promised; a function of whole chunks needs takes='chunks'"
        )
    return found


def read_block(out: Array, inputs: Sequence[Array], params: tuple[str, bytes], arg: Any) -> None:
    """Calls the function with a slice per axis and checks shape and dtype of the result."""
    name, blob = params
    box = tuple(map(tuple, arg))
    if not _reads_into(blob, box, out):
        np.copyto(out, _checked(name, _result(blob, box), ChunkType(out.shape, out.dtype), arg))


def _reads_into(blob: bytes, box: Any, out: Array) -> bool:
    """Have the function write to the chunk, by a method `into(slices, out)`; whether it could."""
    function, slices = unpickled(blob), tuple(slice(*one) for one in box)
    if not hasattr(function, "into") or ((blob, box) in _begun and not hasattr(function, "begin")):
        return False
    function.into(slices, out, *_begun_before(blob, box))
    return True


AHEAD = 32  # calls of functions that wait that are begun ahead in an executor, each in a thread
AHEAD_BYTES = 2**29  # that they take
_begun: dict[tuple[bytes, Any], Future[Any]] = {}  # by function and bounds of the box


def ahead(step: Call, arg: Any) -> Iterator[tuple[bytes, Any]]:
    """The functions and bounds of boxes that an operand's step will ask `_result` for."""
    if step.function is read_block:
        yield step.params[1], tuple(map(tuple, arg))
    else:
        for box in itertools.product(*([_Read(*one).read for one in axis] for axis in arg)):
            yield step.params[1], tuple(map(tuple, box))


def begin_ahead(calls: deque[tuple[bytes, Any]], most: int) -> None:
    """Begin calls until `most` results wait for their operands."""
    while calls and len(_begun) < most:
        call = calls.popleft()
        if call not in _begun:
            _begun[call] = _threads().submit(_call_of, *call)


def forget_ahead() -> None:
    """Drop what was begun ahead and is not needed any more; no later call waits for a thread that still runs one."""
    running = [one for one in _begun.values() if not one.cancel() and not one.done()]
    if running:
        _threads().shutdown(wait=False)
        _threads.cache_clear()
    _begun.clear()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AHEAD)


def _result(blob: bytes, box: Any) -> Any:
    function, begun = unpickled(blob), _begun_before(blob, box)
    if begun and not hasattr(function, "begin"):
        return begun[0]
    return function(tuple(slice(*one) for one in box), *begun)


def _begun_before(blob: bytes, box: Any) -> list[Any]:
    """The result of a call that was begun ahead; [] if none was."""
    begun = _begun.get((blob, box)) if _begun else None
    if begun is None:
        return []
    value = begun.result()
    del _begun[blob, box]  # not before: an interrupt leaves the thread busy
    return [value]


def _call_of(blob: bytes, box: Any) -> Any:
    function = unpickled(blob)
    return getattr(function, "begin", function)(tuple(slice(*one) for one in box))
