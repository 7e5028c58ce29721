"""Files of plain bytes without a header: `fromfile` and `x.tofile`, as in NumPy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from jmars.tensor.operand import check_dtype, new_data
from jmars.tensor.ops.io.npy import Layout, LoadNpy, write_file
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["fromfile", "tofile"]


@offers("fromfile")
def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0, *, shape: Any = None,
             chunk_size: ChunkSize = None, chunks: ChunkSize = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """`np.fromfile` of binary data, lazily: workers read the chunks that they need.

    Parameters
    ----------
    file
        A path that all workers can read. It must not change as long as the tensor is used.
    dtype
        Dtype of the elements, with the byte order of the file.
    count
        Elements to read; -1 for all.
    offset
        Bytes before the first element.
    shape
        Shape of the array, in C order; None: one axis.

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
    path, given = os.path.abspath(os.fspath(file)), check_dtype(dtype)
    status = os.stat(path)
    there = max(0, status.st_size - offset) // given.itemsize
    wanted = there if count < 0 else min(int(count), there)  # as NumPy: as many as there are
    whole = (wanted,) if shape is None else tuple(int(n) for n in np.atleast_1d(shape))
    if -1 in whole:
        whole = np.empty(0).reshape(0, *whole).shape[1:] if not wanted else _completed(whole, wanted)
    if np.prod(whole, dtype=object) > wanted:
        raise ValueError(f"{path} has {wanted} elements of {given} after byte {offset}, too few for shape {whole}")
    layout = Layout.contiguous(path, whole, given, offset, (status.st_size, status.st_mtime_ns), False)
    splits = decide_splits(whole, given, chunk_size, chunks)
    return Tensor(new_data(LoadNpy(layout, splits), whole, given, splits))


def _completed(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Replace the -1 in `shape` by the length that fits `count` elements."""
    others = int(-np.prod(shape))
    if shape.count(-1) > 1 or not others or count % others:
        raise ValueError(f"cannot arrange {count} elements as {shape}")
    return tuple(count // others if n == -1 else n for n in shape)


@offers("method.tofile")
def tofile(x: Any, fid: Any, sep: str = "", format: str = "%s") -> None:
    """`x.tofile`: compute a tensor and write its elements to a file in C order; the workers write the chunks."""
    if sep or not isinstance(fid, str | os.PathLike):
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
