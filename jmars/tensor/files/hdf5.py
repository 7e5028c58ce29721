"""Datasets of HDF5 files, by the `h5py` library (extra `io`).

Workers read side by side. HDF5 lets one process write at a time, so writers take turns by a lock of the file; it gets
its name when it is complete, and until then h5py is given it open, since HDF5 opens no file that has none.
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
from jmars.tensor.infer import check_dtype
from jmars.tensor.ops.chunks.rechunk import rechunk
from jmars.tensor.ops.io.from_blocks import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["from_hdf5", "to_hdf5"]


def library() -> Any:
    """The `h5py` module; ImportError with what to install."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need the package h5py: pip install 'jmars[io]'") from error
    return h5py


def read_box(path: str, dataset: str, box: tuple[slice, ...]) -> Any:
    """Elements of a box, on a worker."""
    with library().File(path, "r", locking=False) as file:
        return file[dataset][box]


def write_box(path: str, dataset: str, box: tuple[slice, ...], block: Any) -> None:
    """Elements of a box written, on a worker, by one at a time."""
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
    """A dataset of an HDF5 file, lazily: each chunk is read by the worker that needs it.

    Parameters
    ----------
    path
        A file that all workers can read. It must not change while it is used.
    dataset
        Name of the dataset, such as "group/values".
    chunk_size, chunks
        How to cut it; by default whole pieces of the dataset, as many as make a chunk of the usual size.

    Raises
    ------
    ImportError
        If h5py is not installed.
    FileNotFoundError, KeyError
        If there is no such file or dataset.
    UnsupportedError
        For groups, objects, text and records.
    """
    place, h5py = _place(path), library()
    with h5py.File(place, "r", locking=False) as file:
        found = file[dataset]
        if not isinstance(found, h5py.Dataset):
            raise UnsupportedError(f"{dataset} of {place} is a group; name one of its datasets: {', '.join(found)}")
        if found.shape is None:
            raise UnsupportedError(f"{dataset} of {place} holds nothing: it was made without a shape")
        kind, shape, own = check_dtype(found.dtype.newbyteorder("=")), tuple(map(int, found.shape)), found.chunks
        given = found.dtype
    splits = aligned_splits(shape, kind, own, chunk_size, chunks)
    read = functools.partial(read_native if given != kind else read_box, place, dataset)
    return from_blocks(read, shape, kind, splits, name="from_hdf5")


def read_native(path: str, dataset: str, box: tuple[slice, ...]) -> Any:
    """`read_box` of a dataset in the other byte order."""
    values = read_box(path, dataset, box)
    return values.astype(values.dtype.newbyteorder("="))


@offers("to_hdf5")
def to_hdf5(x: Any, path: Any, dataset: str, **options: Any) -> None:
    """Compute a tensor and write it to a dataset of an HDF5 file, chunk by chunk, from the workers.

    Parameters
    ----------
    x
        A tensor, or an array. Where its chunks differ in size it is cut anew, to be the pieces of the dataset.
    path
        A file that all workers can write to. What is in it already stays; a dataset of that name is replaced.
    dataset
        Name of the dataset; groups on the way are made.
    **options
        For h5py's `create_dataset`: `compression="gzip"`, `shuffle=True`, `fillvalue=...`, `chunks=...`.

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
            shutil.copy(place, part)  # with its permissions
        with open(part, "r+b" if exists else "w+b") as opened, h5py.File(opened, "r+" if exists else "w") as file:
            if dataset in file:
                del file[dataset]
            pieces = {"chunks": size} if tensor.ndim and tensor.size else {}
            file.create_dataset(dataset, tensor.shape, tensor.dtype, **{**pieces, **options})
        to_blocks(tensor, functools.partial(write_box, part, dataset), name="to_hdf5")
