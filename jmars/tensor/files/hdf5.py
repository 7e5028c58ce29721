"""Datasets of HDF5 files, by the `h5py` library (extra `io`).

Workers read in parallel. HDF5 lets a single process write at a time, so the writers take turns by a file lock. The file
is written atomically (atomic_file.py); h5py gets the unfinished file as an open file, since HDF5 cannot open a file
without a name.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.atomic_file import atomic_file
from jmars.tensor.files.aligned import aligned_splits, regular_size
from jmars.tensor.files.to_blocks import to_blocks
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.chunks.rechunk import rechunk
from jmars.tensor.ops.io.from_blocks import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["from_hdf5", "to_hdf5"]


def library() -> Any:
    """Import `h5py`; the ImportError says what to install."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need the package h5py: pip install 'jmars[io]'") from error
    return h5py


def read_box(path: str, dataset: str, box: tuple[slice, ...]) -> Any:
    """Read the elements of a box, on a worker."""
    with library().File(path, "r", locking=False) as file:
        return file[dataset][box]


def write_box(path: str, dataset: str, box: tuple[slice, ...], block: Any) -> None:
    """Write the elements of a box, on a worker, under the file's lock."""
    with open(path, "r+b") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        with library().File(opened, "r+") as file:
            file[dataset][box] = block


def _place(path: Any) -> str:
    if not isinstance(path, str | os.PathLike):
        raise UnsupportedError("jmars opens HDF5 files by path, so that workers can open them; give the path")
    return os.path.abspath(os.fspath(path))


@offers("from_hdf5")
def from_hdf5(path: Any, dataset: str, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None) -> Tensor:
    """Read a dataset of an HDF5 file lazily: workers read the chunks that they need.

    Parameters
    ----------
    path
        A file that all workers can read. It must not change while it is used.
    dataset
        Name of the dataset, such as "group/values".
    chunk_size, chunks
        Chunk sizes; by default whole pieces of the dataset, up to the default chunk size.

    Raises
    ------
    ImportError
        If h5py is not installed.
    FileNotFoundError, KeyError
        If the file or the dataset does not exist.
    UnsupportedError
        For groups, objects, text and records.
    """
    place, h5py = _place(path), library()
    with h5py.File(place, "r", locking=False) as file:
        found = file[dataset]
        if not isinstance(found, h5py.Dataset):
            raise UnsupportedError(f"{dataset} of {place} is a group; name one of its datasets: {', '.join(found)}")
        if found.shape is None:
            raise UnsupportedError(f"{dataset} of {place} is an empty dataset, without a shape; name another dataset")
        kind, shape, own = check_dtype(found.dtype), tuple(map(int, found.shape)), found.chunks
    splits = aligned_splits(shape, kind, own, chunk_size, chunks)
    read = functools.partial(read_box, place, dataset)
    return from_blocks(read, shape, kind, splits, name="from_hdf5")


@offers("to_hdf5")
def to_hdf5(x: Any, path: Any, dataset: str, **options: Any) -> None:
    """Compute a tensor and write it to a dataset of an HDF5 file, chunk by chunk, from the workers.

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
    """
    place, h5py = _place(path), library()
    tensor: Tensor = as_tensor(x)
    size = regular_size(tensor.chunks)
    tensor = rechunk(tensor, size)
    exists = os.path.exists(place)
    with atomic_file(place) as part:
        if exists:
            shutil.copy(place, part)  # copies the permissions, too
        with open(part, "r+b" if exists else "w+b") as opened, h5py.File(opened, "r+" if exists else "w") as file:
            if dataset in file:
                del file[dataset]
            pieces = {"chunks": size} if tensor.ndim and tensor.size else {}
            file.create_dataset(dataset, tensor.shape, tensor.dtype, **{**pieces, **options})
        to_blocks(tensor, functools.partial(write_box, part, dataset), name="to_hdf5")
