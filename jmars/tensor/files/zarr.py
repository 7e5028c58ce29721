"""Zarr arrays, versions 2 and 3 of the format, by the `zarr` library (extra `io`).

The client opens or makes the array; workers read and write its pieces in parallel, since a chunk consists of whole
pieces. Arrays of objects are refused, so that nothing from the file is unpickled.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.files.aligned import aligned_splits, regular_size
from jmars.tensor.files.to_blocks import to_blocks
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.chunks.rechunk import rechunk
from jmars.tensor.ops.io.from_blocks import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["from_zarr", "to_zarr"]


def library() -> Any:
    """Import `zarr`; the ImportError says what to install."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Zarr arrays need the package zarr: pip install 'jmars[io]'") from error
    return zarr


@functools.lru_cache(maxsize=32)
def opened_array(store: str, path: str | None, mode: str, described: str) -> Any:
    """Open an array of a store, once per process and description."""
    return library().open_array(store, path=path or "", mode=mode)


def description(array: Any) -> str:
    """Describe an array by its metadata: shape, dtype, pieces, codecs."""
    return repr(array.metadata.to_dict())


def read_box(store: str, path: str | None, described: str, box: tuple[slice, ...]) -> Any:
    """Read the elements of a box, on a worker."""
    return opened_array(store, path, "r", described)[box]


def write_box(store: str, path: str | None, described: str, box: tuple[slice, ...], block: Any) -> None:
    """Write the elements of a box, on a worker."""
    opened_array(store, path, "r+", described)[box] = block


def _place(url: Any) -> str:
    if not isinstance(url, str | os.PathLike):
        raise UnsupportedError("jmars opens Zarr stores by path or URL, so that workers can open them; give the path")
    text = os.fspath(url)
    return text if "://" in text else os.path.abspath(text)


@offers("from_zarr")
def from_zarr(url: Any, component: str | None = None, chunk_size: ChunkSize = None, *,
              chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """Read a Zarr array lazily: workers read the chunks that they need.

    Parameters
    ----------
    url
        Path or URL of a store that all workers can open. It must not change while the tensor is used.
    component
        Path of the array within a group.
    chunk_size, chunks
        Chunk sizes; by default whole pieces of the array, up to the default chunk size.

    Raises
    ------
    ImportError
        If zarr is not installed.
    FileNotFoundError
        If the array does not exist.
    UnsupportedError
        For objects and text.
    """
    store = _place(url)
    array = library().open_array(store, path=component or "", mode="r")
    kind, shape = check_dtype(array.dtype), tuple(int(n) for n in array.shape)
    own = getattr(array, "shards", None) or array.chunks
    splits = aligned_splits(shape, kind, own, chunk_size, chunks)
    read = functools.partial(read_box, store, component, description(array))
    return from_blocks(read, shape, kind, splits, name="from_zarr")


@offers("to_zarr")
def to_zarr(x: Any, url: Any, component: str | None = None, *, overwrite: bool = False, **options: Any) -> None:
    """Compute a tensor and write it to a Zarr array; the workers write the chunks.

    Parameters
    ----------
    x
        A tensor or array. If its chunks are not whole pieces (or shards) of the Zarr array, it is rechunked, so that
        every piece has a single writer.
    url, component
        Store and path of the array; see `from_zarr`.
    overwrite
        Whether to replace an existing array.
    **options
        Options of `zarr.create_array`: `zarr_format=2`, `compressors=...`, `fill_value=...`, `attributes=...`; also
        `chunks=...` (by default the tensor's chunks) and `shards=...`.

    Raises
    ------
    ImportError
        If zarr is not installed.
    zarr.errors.ContainsArrayError, ValueError
        If the array exists and `overwrite` is false, and as zarr raises them.
    """
    zarr, store = library(), _place(url)
    tensor: Tensor = as_tensor(x)
    own = regular_size(tensor.chunks) if tensor.ndim else ()
    array = zarr.create_array(
        store=store,
        name=component,
        shape=tensor.shape,
        dtype=tensor.dtype,
        overwrite=overwrite,
        **{"chunks": own, **options},
    )
    pieces = getattr(array, "shards", None) or array.chunks  # the unit of a write
    tensor = rechunk(tensor, own if pieces == own else aligned_splits(tensor.shape, tensor.dtype, pieces, None, None))
    write: Callable[..., None] = functools.partial(write_box, store, component, description(array))
    to_blocks(tensor, write, name="to_zarr")
