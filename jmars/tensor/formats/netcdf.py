"""Variables of NetCDF files: of version 4 by h5netcdf (extra `netcdf`), of version 3 on paths by SciPy.

NetCDF 4 files are HDF5 files with named dimensions: workers read in parallel, and write one at a time (files.py).
NetCDF 3 files are mapped into memory, so that a worker reads the pages of a box.
Source: https://cfconventions.org/cf-conventions/cf-conventions.html (packed data, missing data).
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.atomic_file import atomic_file, claimed
from jmars.tensor.files import aligned_splits, hdf5_library, regular_size, to_blocks, write_hdf5_box
from jmars.tensor.formats.common import library, path_to_write, place_of, reading
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.chunks import rechunk
from jmars.tensor.ops.npy import from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.remote_files import is_url, opened
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]


@offers("from_netcdf")
def from_netcdf(path: Any, variable: str, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None,
                decode: bool = False, storage_options: Mapping[str, Any] | None = None) -> Tensor:  # fmt: skip
    """Read a variable of a NetCDF file lazily: workers read the chunks that they need.

    Parameters
    ----------
    path
        A file that all workers can read, or a URL of fsspec. It must not change while it is used.
    variable
        Name of the variable, such as "t2m" or "group/t2m".
    chunk_size, chunks
        Chunk sizes; by default whole pieces of the variable, up to the default chunk size.
    decode
        Whether to apply `scale_factor`, `add_offset`, `_Unsigned`, and NaN for `_FillValue` and `missing_value`: the
        values are float64 then, or float32 where the stored values, factor and offset are float32. By default the
        values are those that are stored.
    storage_options
        Options of fsspec for a URL.

    Raises
    ------
    ImportError
        If h5netcdf is not installed, or SciPy for NetCDF 3 files.
    FileNotFoundError, KeyError
        If the file or the variable does not exist.
    StorageError
        For a file that is no NetCDF file, is damaged or cut short.
    UnsupportedError
        For NetCDF 3 files at URLs, groups and text of free length, and for `decode` of other than integers and floats.
    """
    place = place_of(path)
    with reading(place, "NetCDF"), _netcdf(place, storage_options) as file:
        found = _variable(file, variable)
        if found is None:
            names = ", ".join([*file.variables, *(f"{one}/..." for one in file.groups)])
        else:
            shape, own, kind = tuple(map(int, found.shape)), found.chunks, check_dtype(found.dtype)
            attributes = {name: np.ravel(found.attrs[name]) for name in CODED if name in found.attrs}
    if found is None:
        raise KeyError(f"{place} has no variable {variable}; it has {names}")
    if decode:
        if kind.kind not in "iuf":
            raise UnsupportedError(f"{variable} of {place} has {kind}; decode=True is for integers and floats")
        kind = decoded(np.empty(0, kind), attributes).dtype
    read = functools.partial(read_netcdf, place, storage_options, variable, attributes if decode else None)
    return from_blocks(
        read, shape, kind, aligned_splits(shape, kind, own, chunk_size, chunks), name="from_netcdf", takes="steps",
        pieces=own or (), pure=not is_url(place), files=[] if is_url(place) else [place],
    )  # fmt: skip


CODED = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")  # attributes of coded values


@contextmanager
def _netcdf(place: str, options: Any) -> Iterator[Any]:
    """A file for reading; by an open file, since HDF5 refuses a path that xarray has open with other locks."""
    with opened(place, options) if is_url(place) else open(place, "rb") as stream:
        start = stream.read(8)
        stream.seek(0)
        if start[:3] != b"CDF":
            with library("h5netcdf", "netcdf").File(stream, "r") as file:
                yield file
        elif is_url(place):
            raise UnsupportedError(f"{place} is a NetCDF 3 file, which jmars reads on paths only; copy it to a path")
        else:
            is_counted = start[4:] != b"\xff" * 4  # a stream does not tell its number of records: SciPy maps none
            with library("scipy.io", "scipy").netcdf_file(place, "r", mmap=is_counted) as file:
                yield SimpleNamespace(variables={name: _Classic(file, name) for name in file.variables}, groups={})


class _Classic:
    """A variable of a NetCDF 3 file, as h5netcdf shows variables; holds no array, so that the file can be unmapped."""

    chunks = None

    def __init__(self, file: Any, name: str) -> None:
        self.file, self.name = file, name
        found = file.variables[name]
        self.shape, self.dtype = found.data.shape, found.data.dtype.newbyteorder("=")
        texts = {key: value for key, value in found._attributes.items() if isinstance(value, bytes)}
        self.attrs = {**found._attributes, **{key: value.decode("latin-1") for key, value in texts.items()}}

    def __getitem__(self, box: tuple[slice, ...]) -> Array:
        return np.array(self.file.variables[self.name].data[box], self.dtype)


def _variable(file: Any, name: str) -> Any:
    """The variable of a name, None where there is none."""
    *groups, last = name.strip("/").split("/")
    for one in groups:
        if one not in file.groups:
            return None
        file = file.groups[one]
    return file.variables.get(last)


def read_netcdf(place: str, options: Any, name: str, attributes: Any, box: tuple[slice, ...]) -> Any:
    """Read the elements of a box, on a worker; `attributes`: those of coded values, None to leave them as stored."""
    with reading(place, "NetCDF"), _netcdf(place, options) as file:
        values = np.asarray(_variable(file, name)[box])
    return values if attributes is None else decoded(values, attributes)


def decoded(values: Array, attributes: Mapping[str, Any]) -> Array:
    """Values by the attributes of coded values; a mark of missing values that their dtype has not marks none.

    Examples
    --------
    >>> decoded(np.array([-1, 2], "i1"), {"scale_factor": 0.5, "add_offset": 1, "_FillValue": [-1]})
    array([nan,  2.])
    """
    stored, kind = values, values.dtype.kind
    if kind in "iu":
        coded = {"true": "u", "false": "i"}.get(str(np.ravel(attributes.get("_Unsigned", ""))[0]), kind)
        values = values.view(values.dtype.str.replace(kind, coded))
    missing = np.zeros(values.shape, bool)
    for name in ("_FillValue", "missing_value"):
        for mark in np.ravel(attributes.get(name, ())):
            missing |= _equal(stored, mark) | _equal(values, mark)
    given = [np.ravel(attributes.get(name, np.float32(n)))[0] for name, n in (("scale_factor", 1), ("add_offset", 0))]
    small = {one.dtype.newbyteorder("=") for one in (values, *given)} == {np.dtype(np.float32)}
    number: Any = np.float32 if small else np.float64
    found: Array = values.astype(number) * number(given[0]) + number(given[1])
    return np.asarray(np.where(missing, number(np.nan), found))


def _equal(values: Array, mark: Any) -> Array:
    with np.errstate(invalid="ignore"):
        same = mark.astype(values.dtype)
        return np.asarray((values == same) & (same == mark))


@offers("to_netcdf")
def to_netcdf(x: Any, path: Any, variable: str, dims: Sequence[str] | None = None, *, mode: Literal["w", "a"] = "w",
              attributes: Mapping[str, Any] | None = None, **options: Any) -> None:  # fmt: skip
    """Compute a tensor and write it as a variable of a NetCDF 4 file, chunk by chunk, from the workers.

    Parameters
    ----------
    x
        A tensor or array. Its chunks become the variable's pieces; if they differ in length, x is rechunked first.
    path
        A file that all workers can write.
    variable
        Name of the variable; missing groups are made.
    dims
        Names of the dimensions; by default "dim_0", "dim_1", and so on.
    mode
        "w" replaces an existing file, when the new one is complete; "a" adds the variable to the file.
    attributes
        Attributes of the variable, such as `{"units": "K"}`.
    **options
        Options of h5netcdf's `create_variable`: `compression="gzip"`, `shuffle=True`, `fillvalue=...`, `chunks=...`.

    Raises
    ------
    ImportError
        If h5netcdf is not installed.
    ValueError, UnsupportedError
        If the variable exists, or a dimension with another length; for a dtype that the files have not.
    """
    place, h5netcdf, h5py = path_to_write(path, "NetCDF"), library("h5netcdf", "netcdf"), hdf5_library()
    if mode not in ("w", "a"):
        raise ValueError(f"mode is 'w' or 'a', not {mode!r}")
    tensor: Tensor = as_tensor(x)
    if tensor.dtype.kind in "bMmU":
        raise UnsupportedError(f"NetCDF files have no dtype {tensor.dtype}; convert by astype, or write by xarray")
    dims = [dims] if isinstance(dims, str) else dims
    names = tuple(f"dim_{axis}" for axis in range(tensor.ndim)) if dims is None else tuple(dims)
    if len(names) != tensor.ndim:
        raise ValueError(f"dims has {len(names)} names; give a name for each of {tensor.ndim} axes")
    size = regular_size(tensor.chunks)
    *groups, last = variable.strip("/").split("/")
    with claimed(place), atomic_file(place) as part:
        if adds := mode == "a" and os.path.exists(place):
            shutil.copy(place, part)
        with open(part, "r+b" if adds else "w+b") as stream, h5netcdf.File(stream, "r+" if adds else "w") as file:
            there = file
            for one in groups:
                there = there.groups[one] if one in there.groups else there.create_group(one)
            if last in there.variables:
                raise ValueError(
                    f"{place} has a variable {variable}; give another name, or mode='w' to replace the file"
                )
            for name, n in zip(names, tensor.shape):
                if name not in there.dimensions:
                    there.dimensions[name] = n
                elif there.dimensions[name].size != n:
                    raise ValueError(f"{place} has a dimension {name} of {there.dimensions[name].size}, and x has {n}")
            pieces = {"chunks": size} if tensor.ndim and tensor.size else {}
            made = there.create_variable(last, names, tensor.dtype, **{**pieces, **options})
            made.attrs.update(attributes or {})
        with open(part, "rb") as written, h5py.File(written, "r") as plain:
            names_there = plain["/".join(groups) or "/"]
            held = next(name for name in (f"_nc4_non_coord_{last}", last) if name in names_there)
        write = functools.partial(write_hdf5_box, part, "/".join([*groups, held]))
        to_blocks(rechunk(tensor, size), write, name="to_netcdf")
