"""Fields of GRIB files, by the index of cfgrib (extra `grib`).

cfgrib sorts the messages of a file into variables with axes such as time, step, level; a message is a field of latitude
and longitude, and is decoded whole. Its lazy arrays travel to the workers with the places of the messages.
Source: https://github.com/ecmwf/cfgrib.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.files import aligned_splits
from jmars.tensor.formats.common import library, place_of, reading
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.npy import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.remote_files import is_url
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor


@offers("from_grib")
def from_grib(path: Any, variable: str, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None,
              filter: Mapping[str, Any] | None = None) -> Tensor:  # fmt: skip
    """Read a variable of a GRIB file lazily: workers decode the messages that they need.

    The axes are those of `xr.open_dataset(path, engine="cfgrib")`; missing elements and messages are NaN. cfgrib writes
    its index beside the file, where it can.

    Parameters
    ----------
    path
        A file that all workers can read. It must not change while it is used.
    variable
        Name of the variable, such as "t2m".
    chunk_size, chunks
        Chunk sizes; by default whole messages, up to the default chunk size.
    filter
        Keys of the messages to take, such as `{"typeOfLevel": "surface"}`, where a file has several kinds.

    Raises
    ------
    ImportError
        If cfgrib is not installed.
    FileNotFoundError, KeyError
        If the file or the variable does not exist.
    StorageError
        For a file that is no GRIB file, is damaged or cut short, or whose messages make no arrays without a filter.
    """
    place = place_of(path)
    if is_url(place):
        raise UnsupportedError(f"GRIB files are read by path; copy {place} to a folder")
    os.stat(place)
    with reading(place, "GRIB"):
        cfgrib = library("cfgrib", "grib")
        found = cfgrib.open_file(place, errors="raise", filter_by_keys=dict(filter or {})).variables
    if variable not in found:
        raise KeyError(f"{place} has no variable {variable}; it has {', '.join(found)}")
    array = found[variable].data
    shape, kind = tuple(map(int, array.shape)), check_dtype(array.dtype)
    plane = getattr(array, "geo_ndim", len(shape))
    own = (*(1 for _ in shape[plane:]), *shape[len(shape) - plane :])
    return from_blocks(
        functools.partial(read_grib, place, array), shape, kind, aligned_splits(shape, kind, own, chunk_size, chunks),
        name="from_grib", takes="steps", pieces=own, pure=True, files=[place],
    )  # fmt: skip


def read_grib(place: str, array: Any, box: tuple[slice, ...]) -> Any:
    """Read the elements of a box, on a worker."""
    with reading(place, "GRIB"):
        return array[box]
