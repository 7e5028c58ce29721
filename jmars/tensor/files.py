"""Arrays in files of several formats; the workers read and write the chunks.

Chunks consist of whole pieces of a file, so that no two workers read or write the same piece. `to_blocks`, the
counterpart of `from_blocks`, calls a function with every chunk on the workers; no data passes through the client.

- Plain bytes and text, as in NumPy. The client writes text, the rows of a chunk at a time.
- `.npz` archives. `np.savez` stores .npy files uncompressed, so a chunk of an array is read at its offset in the
  archive. Arrays of `np.savez_compressed` cannot be read from the middle: this process reads them whole, up to
  `config.array_limit` bytes; larger arrays raise UnsupportedError.
- Datasets of HDF5 files, by `h5py`. Workers read in parallel, also from a URL of fsspec. HDF5 lets a single process
  write at a time, so the writers take turns by a file lock. The file is written atomically (atomic_file.py); h5py gets
  the unfinished file as an open file, since HDF5 cannot open a file without a name.
- Stacks of images, by Pillow.

The libraries (extra `io`) are imported where a file of their format is read or written.
"""

from __future__ import annotations

import fcntl
import functools
import glob
import itertools
import math
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.atomic_file import atomic_file, claimed
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import get_engine
from jmars.tensor.from_array import array_limit
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import (
    Operand,
    Origin,
    Splits,
    TensorData,
    TensorMeta,
    check_dtype,
    new_data,
)
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_starts, rechunk
from jmars.tensor.ops.map_blocks import pickled, unpickled
from jmars.tensor.ops.npy import (
    Layout,
    RemoteArray,
    create_npy,
    file_stamp,
    fill,
    from_blocks,
    load_at,
    loaded,
    read_header,
    write_file,
)
from jmars.tensor.protocols import call, offers
from jmars.tensor.remote_files import is_url, opened, url_stamp
from jmars.tensor.splits import ChunkSize, chunk_bytes, decide_splits, split_axis
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import new_group
from jmars.units import format_bytes


def aligned_splits(
    shape: tuple[int, ...], dtype: np.dtype, own: Sequence[int] | None, chunk_size: ChunkSize, chunks: ChunkSize
) -> Splits:
    """Decide the chunks of an array in a file: the user's, else whole pieces up to the default chunk size.

    Parameters
    ----------
    shape, dtype
        Shape and dtype of the array.
    own
        Lengths of the file's pieces along each axis; None if the file is a single piece.
    chunk_size, chunks
        The user's setting; see `decide_splits`.

    Examples
    --------
    >>> aligned_splits((10, 10), np.dtype("f8"), (4, 10), None, None)
    ((10,), (10,))
    >>> aligned_splits((10, 10), np.dtype("f8"), (4, 10), (4, 5), None)
    ((4, 4, 2), (5, 5))
    """
    if chunk_size is not None or chunks is not None or own is None or not math.prod(shape):
        return decide_splits(shape, dtype, chunk_size, chunks)
    size = [min(max(1, n), length) for n, length in zip(own, shape)]
    room = chunk_bytes() // dtype.itemsize
    for axis in reversed(range(len(shape))):  # pieces that are neighbours in C order are joined first
        others = math.prod(size) // size[axis]
        pieces = max(1, room // max(1, others * size[axis]))
        size[axis] = min(size[axis] * pieces, shape[axis])
    return tuple(split_axis(length, n) for length, n in zip(shape, size))


def regular_size(splits: Splits) -> tuple[int, ...]:
    """Return piece lengths for a file that is cut regularly: the longest chunks of the axes.

    Examples
    --------
    >>> regular_size(((4, 4, 2), (3, 5)))
    (4, 5)
    """
    return tuple(max(1, *axis) if len(axis) > 1 else max(1, axis[0]) for axis in splits)


Array = np.ndarray[Any, Any]


@offers("to_blocks")
def to_blocks(x: Any, function: Callable[[tuple[slice, ...], Array], Any], name: str | None = None) -> None:
    """Compute a tensor and call `function(slices, block)` for every chunk; returns when all calls are done.

    Parameters
    ----------
    x
        A tensor, or an array.
    function
        Called on the workers, in parallel, with the position of the block in the array (a slice per axis) and its
        elements, which are read-only. The result is ignored.
    name
        Label in the view; by default the function's name.

    An exception of the function ends the job and is raised in the client. If a worker dies during a call, the call is
    repeated: writing the same block twice must do no harm.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from jmars.tensor.ops.create import arange
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_blocks(arange(4, chunk_size=2), lambda at, block: np.save(f"{folder}/{at[0].start}", block))
    ...     np.load(f"{folder}/2.npy").tolist()
    [2, 3]
    """
    tensor: Tensor = as_tensor(x)
    if not tensor.size:
        return
    label = name or str(getattr(function, "__name__", type(function).__name__))
    get_engine().execute([block_writes(tensor, function, label)])


def block_writes(
    tensor: Tensor, function: Callable[[tuple[slice, ...], Array], Any], label: str, returns: bool = False
) -> TensorData:
    """The node that calls `function(slices, block)` for every chunk of a tensor; `returns`: for bytes, in a row."""
    op = ToBlocks(label, pickled(function), returns, inputs=(tensor.data,))
    if returns:
        origin = Origin.of(new_group())
        chunks = origin.axis([None] * math.prod(map(len, tensor.chunks)))
        return new_data(op, (origin.whole,), np.dtype(np.uint8), (chunks,))
    ones = tuple((1,) * len(axis) for axis in tensor.chunks)
    return new_data(op, tuple(map(sum, ones)), np.dtype(bool), ones)


@dataclass(frozen=True, eq=False)
class ToBlocks(Operand):
    """Calls a function for every chunk; the output has an element True per chunk, or the bytes that it returns."""

    function: str
    blob: bytes = field(repr=False)  # a URL may hold credentials
    returns: bool = False
    name: ClassVar[str] = "to_blocks"

    def stamp(self) -> Hashable | None:
        """None: it writes."""
        return None

    @property
    def label(self) -> str:
        """Label in the view."""
        return self.function

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add a call per chunk, with the chunk's bounds as argument."""
        (source,) = inputs
        kinds, which = chunk_classes(source.splits)
        bounds = [list(zip(chunk_starts(axis), itertools.accumulate(axis))) for axis in source.splits]
        done = ChunkType((-1,) if self.returns else (1,) * len(source.splits), output.dtype)

        def program(k: int) -> Program:
            chunk = ChunkType(kinds[k], source.dtype)
            call = Call(write_block, (self.function, self.blob), (0,), done, True, chunk.nbytes, runs_user_code=True)
            return single(self.function, (chunk,), call)

        args = [(box,) for box in itertools.product(*bounds)]
        return add_by_class(builder, program, which.reshape(-1), source.ids.reshape(-1, 1), args).reshape(output.grid)


def write_block(out: Array | None, inputs: Sequence[Array], params: tuple[str, bytes], arg: Any) -> Array | None:
    """Call the function with the block's position and the block."""
    found = unpickled(params[1])(tuple(slice(low, high) for low, high in arg), inputs[0])
    if out is None:
        return np.frombuffer(found, np.uint8)
    out[...] = True
    return None


def moved(box: tuple[slice, ...], starts: Sequence[int]) -> tuple[slice, ...]:
    """A box of a source in the target."""
    return tuple(slice(one.start + low, one.stop + low) for one, low in zip(box, starts))


def whole_pieces(lengths: tuple[int, ...], piece: int, start: int) -> tuple[int, ...]:
    """Chunks of an axis that no piece of the target has two of: edges within a piece move to its end.

    Examples
    --------
    >>> whole_pieces((3, 3, 4), 2, 0)
    (4, 2, 4)
    >>> whole_pieces((3, 3, 4), 2, 1)
    (3, 4, 3)
    """
    total = sum(lengths)
    edges = [min(-(-(int(edge) + start) // piece) * piece - start, total) for edge in np.cumsum(lengths)]
    return tuple(int(n) for n in np.diff(sorted({0, *edges, total})))


def hdf5_library() -> Any:
    """Import `h5py`; the ImportError names the extra to install."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need the package h5py: pip install 'jmars[io]'") from error
    return h5py


def _hdf5_file(place: str, options: Any) -> Any:
    """A file of HDF5, open for reading."""
    if is_url(place):
        return hdf5_library().File(opened(place, options), "r")
    return hdf5_library().File(place, "r", locking=False)


class HDF5Reader:
    """Reads boxes of a dataset, on a worker."""

    def __init__(self, place: str, dataset: str, options: Any) -> None:
        self.place, self.dataset, self.options = place, dataset, options

    def __call__(self, box: tuple[slice, ...]) -> Any:
        """Read the elements of a box."""
        with _hdf5_file(self.place, self.options) as file:
            return file[self.dataset][box]


def write_hdf5_box(path: str, dataset: str, box: tuple[slice, ...], block: Any) -> None:
    """Write the elements of a box, on a worker, under the file's lock."""
    with open(path, "r+b") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        with hdf5_library().File(opened, "r+") as file:
            file[dataset][box] = block


def _hdf5_place(path: Any) -> str:
    if not isinstance(path, str | os.PathLike):
        raise UnsupportedError("jmars opens HDF5 files by path, so that workers can open them; give the path")
    return path if is_url(path) else os.path.abspath(os.fspath(path))


@offers("from_hdf5")
def from_hdf5(path: Any, dataset: str, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None,
              storage_options: Mapping[str, Any] | None = None) -> Tensor:  # fmt: skip
    """Read a dataset of an HDF5 file lazily: workers read the chunks that they need.

    Parameters
    ----------
    path
        A file that all workers can read, or a URL of fsspec. It must not change while it is used.
    dataset
        Name of the dataset, such as "group/values".
    chunk_size, chunks
        Chunk sizes; by default whole pieces of the dataset, up to the default chunk size.
    storage_options
        Options of fsspec for a URL.

    Raises
    ------
    ImportError
        If h5py is not installed.
    FileNotFoundError, KeyError
        If the file or the dataset does not exist.
    UnsupportedError
        For groups, objects, text and records.
    """
    place, h5py = _hdf5_place(path), hdf5_library()
    with _hdf5_file(place, storage_options) as file:
        if dataset not in file:
            raise KeyError(f"{place} has no {dataset}; it has {', '.join(file)}")
        found = file[dataset]
        if not isinstance(found, h5py.Dataset):
            raise UnsupportedError(f"{dataset} of {place} is a group; name one of its datasets: {', '.join(found)}")
        if found.shape is None:
            raise UnsupportedError(f"{dataset} of {place} is an empty dataset, without a shape; name another dataset")
        kind, shape, own = check_dtype(found.dtype), tuple(map(int, found.shape)), found.chunks
        is_here = found.file == file and not (is_url(place) or found.is_virtual or found.external)
    splits = aligned_splits(shape, kind, own, chunk_size, chunks)
    read, files = HDF5Reader(place, dataset, storage_options), [] if is_url(place) else [place]
    how: Any = {"name": "from_hdf5", "takes": "steps", "pure": is_here, "files": files, "pieces": own or ()}
    return from_blocks(read, shape, kind, splits, **how)


@offers("to_hdf5")
def to_hdf5(x: Any, path: Any, dataset: str, **options: Any) -> None:
    """Compute a tensor and write to a dataset of an HDF5 file, chunk by chunk, from the workers.

    Parameters
    ----------
    x
        A tensor or array. Its chunks become the dataset's pieces; if they differ in length, x is rechunked first.
    path
        A file that all workers can write to. Other datasets in the file stay; a dataset of this name is replaced.
    dataset
        Name of the dataset; missing groups are made.
    **options
        Options of h5py's `create_dataset`: `compression="gzip"`, `shuffle=True`, `fillvalue=...`, `chunks=...`.

    Raises
    ------
    ImportError
        If h5py is not installed.
    ValueError
        If a group has the name.
    """
    place, h5py = _hdf5_place(path), hdf5_library()
    if is_url(place):
        raise UnsupportedError("HDF5 files are written by path; to an object store, write Zarr: mt.to_zarr(x, url)")
    tensor: Tensor = as_tensor(x)
    size = regular_size(tensor.chunks)
    tensor = rechunk(tensor, size)
    with claimed(place), atomic_file(place) as part:
        exists = os.path.exists(place)
        if exists:
            shutil.copy(place, part)  # copies the permissions, too
        with open(part, "r+b" if exists else "w+b") as opened, h5py.File(opened, "r+" if exists else "w") as file:
            if isinstance(there := file.get(dataset), h5py.Group):
                raise ValueError(
                    f"{dataset} of {place} is a group, with {', '.join(there)}; give the name of a dataset"
                )
            if there is not None:
                del file[dataset]
            pieces = {"chunks": size} if tensor.ndim and tensor.size else {}
            file.create_dataset(dataset, tensor.shape, tensor.dtype, **{**pieces, **options})
        to_blocks(tensor, functools.partial(write_hdf5_box, part, dataset), name="to_hdf5")


def pillow() -> Any:
    """Import Pillow's module `Image`; the ImportError names the extra to install."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need the package pillow: pip install 'jmars[io]'") from error
    return Image


def read_image(path: str) -> Any:
    """Read the pixels of an image, shape (height, width) or (height, width, channels)."""
    with pillow().open(path) as image:
        return np.asarray(image)


@offers("from_images")
def from_images(paths: str | Sequence[str | os.PathLike[str]], chunk_size: ChunkSize = None, *,
                chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """Stack images of equal size, shape (images, height, width) or (images, height, width, channels).

    Parameters
    ----------
    paths
        A pattern such as `"folder/*.png"`, whose files are sorted by name, or a list of files.
    chunk_size, chunks
        Chunk sizes; by default whole images, up to the default chunk size.

    Raises
    ------
    ImportError
        If Pillow is not installed.
    FileNotFoundError
        If no file matches.
    ValueError
        At the run, if an image's size or pixel type differs from the first image's.
    """
    names = sorted(glob.glob(paths)) if isinstance(paths, str) else [os.fspath(path) for path in paths]
    if not names:
        raise FileNotFoundError(f"no file matches {paths!r}; give a pattern such as 'folder/*.png'")
    names = [os.path.abspath(name) for name in names]
    first = read_image(names[0])
    shape = (len(names), *first.shape)
    splits = aligned_splits(shape, check_dtype(first.dtype), (1, *first.shape), chunk_size, chunks)
    read = functools.partial(read_images, tuple(names), first.shape, str(first.dtype))
    return from_blocks(
        read,
        shape,
        first.dtype,
        splits,
        name="from_images",
        takes="steps",
        pure=True,
        files=names,
        pieces=(1, *first.shape),
    )


def read_images(names: tuple[str, ...], shape: tuple[int, ...], dtype: str, box: tuple[slice, ...]) -> Any:
    """Read a box of the stack, on a worker."""
    found = []
    for name in names[box[0]]:
        image = read_image(name)
        if image.shape != shape or image.dtype != dtype:
            raise ValueError(
                f"{name} has dtype {image.dtype} and shape {image.shape}, but the first image has {dtype} and {shape}; "
                "give images of equal dtype and shape"
            )
        found.append(image[box[1:]])
    return np.stack(found)


_LOCAL = struct.Struct("<4s5H3I2H")  # local header of a member; the lengths of its name and extra field come last


class Archive(Mapping[str, Tensor]):
    """Mapping from names to the arrays of an .npz file; arrays are opened on access.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", x=np.arange(4), y=np.ones(2))
    ...     found = Archive(f"{folder}/a.npz")
    ...     list(found), found["x"].sum().fetch().item()
    (['x', 'y'], 6)
    """

    def __init__(self, path: str, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> None:
        self._path, self._cut = path, {"chunk_size": chunk_size, "chunks": chunks}
        with zipfile.ZipFile(path) as archive:
            self._members = {
                one.filename.removesuffix(".npy"): one for one in archive.infolist() if one.filename.endswith(".npy")
            }
        self.files = list(self._members)

    def __getitem__(self, name: str) -> Tensor:
        member = self._members.get(name) or self._members.get(name.removesuffix(".npy"))
        if member is None:
            raise KeyError(f"{name} is not in {self._path}; it has {', '.join(self.files)}")
        if member.compress_type != zipfile.ZIP_STORED:
            return as_tensor(_decompressed(self._path, member), **self._cut)
        with open(self._path, "rb") as file:
            file.seek(member.header_offset)
            *_, name_length, extra_length = _LOCAL.unpack(file.read(_LOCAL.size))
        return load_at(self._path, member.header_offset + _LOCAL.size + name_length + extra_length, **self._cut)

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """No effect, since no file is kept open; exists for NumPy's interface. Arrays stay usable."""

    def __repr__(self) -> str:
        return f"Archive({self._path!r}) with {', '.join(self.files)}"


def _decompressed(path: str, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Reads a compressed member whole; raises UnsupportedError beyond `array_limit()` bytes."""
    with zipfile.ZipFile(path) as archive:
        with archive.open(member) as stream:
            shape, _, dtype = read_header(stream, path)
        size, limit = math.prod(map(int, shape)) * dtype.itemsize, array_limit()
        if size > limit:
            raise UnsupportedError(
                f"{member.filename} of {path} is compressed, so it is read whole by this process, and its "
                f"{format_bytes(size)} are more than {format_bytes(limit)}; save it by np.savez, and workers read its "
                "chunks one by one, or set jmars.config.array_limit"
            )
        with archive.open(member) as stream:
            found: np.ndarray[Any, Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return found


@offers("savez")
def savez(file: Any, *args: Any, allow_pickle: bool = False, **kwds: Any) -> None:
    """`np.savez`: compute tensors and write an .npz file, which appears when complete.

    The workers write arrays to temporary files; this process packs the files, block by block.

    Parameters
    ----------
    file
        A path in a folder that all workers can write to; ".npz" is appended if missing.
    *args, **kwds
        Tensors or arrays; unnamed arrays are called arr_0, arr_1, and so on.
    """
    _pack("savez", file, args, kwds, zipfile.ZIP_STORED)


@offers("savez_compressed")
def savez_compressed(file: Any, *args: Any, allow_pickle: bool = False, **kwds: Any) -> None:
    """`np.savez_compressed`: as `savez`, compressed, so that the arrays are read whole, not chunk by chunk."""
    _pack("savez_compressed", file, args, kwds, zipfile.ZIP_DEFLATED)


def _pack(name: str, file: Any, args: tuple[Any, ...], kwds: dict[str, Any], how: int) -> None:
    if not isinstance(file, str | os.PathLike):
        getattr(np, name)(file, *as_values(args), **as_values(kwds))  # from this process
        return
    path = os.path.abspath(os.fspath(file))
    path = path if path.endswith(".npz") else f"{path}.npz"
    arrays = dict(kwds)
    for i, one in enumerate(args):
        if f"arr_{i}" in arrays:
            raise ValueError(f"Cannot use un-named variables and keyword arr_{i}")
        arrays[f"arr_{i}"] = one
    with claimed(path), atomic_file(path) as packed, zipfile.ZipFile(packed, "w", how) as archive:
        for key, one in arrays.items():
            with atomic_file(path, keep=False) as member:
                x = as_tensor(one)
                fill(x, create_npy(x, member))
                archive.write(member, f"{key}.npy")


@offers("load_npz")
def load_npz(path: str, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Archive:
    """Open an .npz file as a lazy mapping from names to arrays; `np.load` does the same."""
    return Archive(path, chunk_size, chunks)


@offers("fromfile")
def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0, *, shape: Any = None,
             chunk_size: ChunkSize = None, chunks: ChunkSize = None, storage_options: Any = None,
             **kwargs: Any) -> Tensor:  # fmt: skip
    """`np.fromfile` of binary data, lazily: workers read the chunks that they need.

    Parameters
    ----------
    file
        A path that all workers can read, or a URL of fsspec. It must not change as long as the tensor is used.
    dtype
        Dtype of the elements, with the byte order of the file.
    count
        Elements to read; -1 for all.
    offset
        Bytes before the first element.
    shape
        Shape of the array, in C order; None: one axis.
    storage_options
        Options of fsspec for a URL.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is too short, or `shape` does not fit the number of elements.
    """
    if sep or not isinstance(file, str | os.PathLike):
        found: Tensor = as_tensor(np.fromfile(file, dtype, count, sep, offset))  # in this process
        return found if shape is None else call("reshape", found, shape)
    path, given = file if is_url(file) else os.path.abspath(os.fspath(file)), check_dtype(dtype)
    if is_url(file):
        with opened(path, storage_options) as stream:
            size, far = stream.size, url_stamp(stream)
    else:
        size, stamp = file_stamp(os.stat(path))
    there = max(0, size - offset) // given.itemsize
    wanted = there if count < 0 else min(int(count), there)  # as NumPy: as many as there are
    whole = (wanted,) if shape is None else tuple(int(n) for n in np.atleast_1d(shape))
    if -1 in whole:
        whole = np.empty(0).reshape(0, *whole).shape[1:] if not wanted else _completed(whole, wanted)
    if np.prod(whole, dtype=object) > wanted:
        raise ValueError(f"{path} has {wanted} elements of {given} after byte {offset}, too few for shape {whole}")
    if is_url(file):
        return RemoteArray(path, storage_options, whole, given, offset, stamp=far).tensor(chunk_size, chunks)
    return loaded(Layout.contiguous(path, whole, given, offset, (size, stamp), False), chunk_size, chunks)


def _completed(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Replace the -1 in `shape` by the length that fits `count` elements."""
    others = int(-np.prod(shape))
    if shape.count(-1) > 1 or not others or count % others:
        raise ValueError(f"cannot arrange {count} elements as {shape}")
    return tuple(count // others if n == -1 else n for n in shape)


def _is_stream(file: Any) -> bool:
    """Whether a file is written from this process: an open file, a device, a pipe."""
    return not isinstance(file, str | os.PathLike) or (os.path.exists(file) and not os.path.isfile(file))


@offers("method.tofile")
def tofile(x: Any, fid: Any, sep: str = "", format: str = "%s") -> None:
    """`x.tofile`: compute a tensor and write the elements to a file in C order; the workers write the chunks."""
    if sep or _is_stream(fid):
        np.asarray(x).tofile(fid, sep, format)  # from this process
        return
    tensor: Tensor = as_tensor(x)

    def begin(part: str) -> Layout:
        Path(part).touch()
        os.truncate(part, tensor.nbytes)
        status = os.stat(part)
        stamp = status.st_size, status.st_mtime_ns
        return Layout.contiguous(part, tensor.shape, tensor.dtype, 0, stamp, False)

    write_file(tensor, os.path.abspath(os.fspath(fid)), begin)


@offers("savetxt")
def savetxt(fname: Any, X: Any, fmt: Any = "%.18e", delimiter: str = " ", newline: str = "\n", header: str = "",
            footer: str = "", comments: str = "# ", encoding: Any = None) -> None:  # fmt: skip
    """`np.savetxt`: compute a tensor and write the rows as text.

    Parameters
    ----------
    fname
        A path; an open file, or a compressed file, gets the value whole, not row of chunks by row of chunks.
    X
        A tensor of one or two axes.

    Raises
    ------
    ValueError
        For more than two axes.
    """
    if _is_stream(fname) or os.fspath(fname).endswith((".gz", ".xz", ".bz2")):
        np.savetxt(fname, as_values(X), fmt, delimiter, newline, header, footer, comments, encoding)
        return
    x = as_tensor(X)
    if x.ndim not in (1, 2):
        raise ValueError(f"Expected 1D or 2D array, got {x.ndim}D array instead")
    x = call("rechunk", x, (x.chunks[0], *((n,) for n in x.shape[1:])))
    mark = {"fmt": fmt, "delimiter": delimiter, "newline": newline}
    place = os.path.abspath(os.fspath(fname))
    with claimed(place), atomic_file(place) as part, open(part, "w", encoding=encoding or "latin1") as file:
        x.execute()
        if header:
            np.savetxt(file, np.empty((0, 1)), header=header, comments=comments, newline=newline)
        low = 0
        for n in x.chunks[0]:
            np.savetxt(file, x[low : low + n].fetch(copy=False), **mark)
            low += n
        if footer:
            np.savetxt(file, np.empty((0, 1)), footer=footer, comments=comments, newline=newline)
