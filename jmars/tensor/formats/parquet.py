"""Columns of Parquet files and Arrow tables, by pyarrow (extra `arrow`).

A column is a tensor of one axis, or of two for lists of a fixed length. Missing elements of floats are NaN, those of
times NaT; integers and bools that may have missing elements are masked tensors. Workers read the row groups that a
selection touches, each whole, and of each the column alone.

Written tables are folders of one file for each chunk of rows, as Dask and Spark write them: the footer of a file has
the places of all its row groups, so that several workers cannot write one file.
Source: https://parquet.apache.org/docs/file-format/;
https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html.
"""

from __future__ import annotations

import functools
import glob
import itertools
import math
import os
import re
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jmars.errors import StorageError, UnsupportedError
from jmars.tensor.atomic_file import atomic_folder, claimed
from jmars.tensor.chunk_types.duck_tensor import ChunkCall, arrays
from jmars.tensor.engine import get_engine
from jmars.tensor.formats.common import file_of, library, path_to_write, place_of, reading
from jmars.tensor.from_array import Composite
from jmars.tensor.ops.npy import file_stamp, from_blocks
from jmars.tensor.protocols import call, offers
from jmars.tensor.remote_files import is_url, url_stamp
from jmars.tensor.splits import chunk_bytes, split_axis
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]


@offers("from_parquet")
def from_parquet(path: Any, columns: str | Sequence[str] | None = None, chunk_size: int | None = None, *,
                 storage_options: Mapping[str, Any] | None = None) -> dict[str, Any]:  # fmt: skip
    """Read columns of Parquet files lazily: a dictionary of tensors, which workers read.

    Parameters
    ----------
    path
        A file, a folder of files, a pattern such as `"trips/*.parquet"`, or a list of them, which all workers can read;
        or URLs of fsspec of files and folders. Files of a folder follow by their names, numbers by value. They must not
        change while they are used.
    columns
        Names of the columns, or a single name; by default all.
    chunk_size
        Rows of a chunk; by default whole row groups, up to the default chunk size.
    storage_options
        Options of fsspec for URLs.

    Returns
    -------
    dict
        Tensors by name, of the same chunks of rows. Missing elements are NaN or NaT; integers and bools that may have
        missing elements, by the statistics of the files, are masked tensors.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    FileNotFoundError, KeyError
        If a file or a column does not exist.
    StorageError
        For a file that is no Parquet file, is damaged or cut short.
    UnsupportedError
        For columns of text, decimals, and lists of several lengths; for folders with partitions.
    """
    places = tuple(_files(path, storage_options))
    if any(map(is_url, places)):
        with ThreadPoolExecutor(16) as threads:
            heads = list(threads.map(functools.partial(_head, options=storage_options), places))
    else:
        heads = [_head(place, storage_options) for place in places]
    schema = heads[0].schema
    kinds = _kinds({name: schema.field(name).type for name in schema.names}, columns, places[0])
    for place, head in zip(places, heads):
        for name in kinds:
            if head.schema.get_field_index(name) < 0 or head.schema.field(name).type != schema.field(name).type:
                raise StorageError(
                    f"the column {name} is {schema.field(name).type} in {places[0]} and not in {place}; read the files "
                    "apart"
                )
    groups = [(k, group) for k, head in enumerate(heads) for group in range(len(head.rows))]
    lengths = [n for head in heads for n in head.rows]
    rows = sum(lengths)
    widest = max((kind.itemsize * math.prod(width) for kind, width in kinds.values()), default=1)
    most = max(1, chunk_bytes() // max(1, widest))
    cut = tuple(_joined(lengths, most)) if chunk_size is None else split_axis(rows, chunk_size)
    stamps = tuple(head.stamp for head in heads)
    found: dict[str, Any] = {}
    for name, (kind, width) in kinds.items():
        ends = tuple(itertools.accumulate(lengths))
        read = ColumnReader(places, stamps, storage_options, ends, tuple(groups), name, kind, width)
        has_missing = not width and kind.kind in "iub" and any(head.may_miss(name) for head in heads)
        found[name] = read.tensor(rows, cut)
        if has_missing and rows:
            mask = replace(read, dtype=np.dtype(bool), is_mask=True).tensor(rows, cut)
            found[name] = call("ma.masked_array", found[name], mask)
    return found


def _files(path: Any, options: Any) -> list[str]:
    """The files of a path, a URL, a pattern, a folder, or a list of these."""
    if isinstance(path, list | tuple):
        found = [file for one in path for file in _files(one, options)]
    elif is_url(place := place_of(path)):
        library("fsspec", "arrow")
        from fsspec.core import url_to_fs

        system, within = url_to_fs(place, **(options or {}))
        system.invalidate_cache()  # files may have come since an earlier listing
        names = system.glob(within) if glob.has_magic(within) else _in_order(within, system.find(within))
        found = [system.unstrip_protocol(name) for name in names]
        found = found or [place]
    elif os.path.isdir(place):
        names = [os.path.join(folder, name) for folder, _, below in os.walk(place) for name in below]
        found = _in_order(place, names)
    elif glob.has_magic(place) and not os.path.exists(place):
        found = sorted(glob.glob(place), key=_numbers)
    else:
        found = [place]
    if not found:
        raise FileNotFoundError(f"there is no Parquet file in {path}")
    return found


def _in_order(folder: str, names: Sequence[str]) -> list[str]:
    """Files of a folder in order, without names that begin with "_" or ".", such as Spark's "_SUCCESS"."""
    below = {name: name[len(folder) :].strip("/").split("/") for name in names}
    found = [name for name in names if not any(part.startswith(("_", ".")) for part in below[name])]
    if any("=" in part for name in found for part in below[name][:-1]):
        raise UnsupportedError(f"{folder} has partitions, folders named column=value; give the paths of its files")
    return sorted(found, key=_numbers)


def _numbers(name: str) -> list[Any]:
    """A key that sorts numbers in names by value: part.2 before part.10."""
    return [(int(one), "") if one.isdigit() else (-1, one) for one in re.split("([0-9]+)", name)]


@dataclass(frozen=True)
class _Head:
    """What the footer of a file says."""

    schema: Any
    rows: tuple[int, ...]  # of its row groups
    metadata: Any
    stamp: Hashable

    def may_miss(self, name: str) -> bool:
        """Whether a column may have missing elements."""
        if not self.schema.field(name).nullable:
            return False
        number = next((k for k, one in enumerate(self.metadata.schema.names) if self._path(k) == name), None)
        if number is None:
            return True
        known = (self.metadata.row_group(k).column(number).statistics for k in range(len(self.rows)))
        return any(one is None or not one.has_null_count or one.null_count > 0 for one in known)

    def _path(self, number: int) -> str:
        return str(self.metadata.schema.column(number).path)


def _head(place: str, options: Any) -> _Head:
    with reading(place, "Parquet"), ExitStack() as stack:
        far = stack.enter_context(file_of(place, options)) if is_url(place) else None
        stamp = file_stamp(os.stat(place)) if far is None else url_stamp(far)
        file = stack.enter_context(library("pyarrow.parquet", "arrow").ParquetFile(far or place))
        metadata = file.metadata
        rows = tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
        return _Head(file.schema_arrow, rows, metadata, stamp)


@contextmanager
def _parquet(place: str, storage: Any, stamp: Any) -> Iterator[Any]:
    """An open Parquet file with the stamp; the footer of a local file that an earlier call read is used again."""
    parquet = library("pyarrow.parquet", "arrow")
    with reading(place, "Parquet"):
        if not is_url(place) and file_stamp(os.stat(place)) != stamp:
            raise StorageError(f"{place} has changed since it was loaded; load it again")
        footer = None if is_url(place) else _footer(place, stamp)
        options = {"metadata": footer, "page_checksum_verification": True}
        with parquet.ParquetFile(file_of(place, storage, stamp), **options) as file:
            yield file


@functools.lru_cache(64)
def _footer(place: str, stamp: tuple[int, int]) -> Any:
    return library("pyarrow.parquet", "arrow").read_metadata(place)


Kind = tuple[np.dtype[Any], tuple[int, ...]]  # dtype, and shape of a row


def _kinds(types: Mapping[str, Any], columns: str | Sequence[str] | None, where: str) -> dict[str, Kind]:
    """Kinds of the columns that are asked for, by name."""
    found = {name: _kind(one) for name, one in types.items()}
    asked = list(types) if columns is None else [columns] if isinstance(columns, str) else list(columns)
    if missing := [name for name in asked if name not in types]:
        raise KeyError(f"{where} has no column {missing[0]}; it has {', '.join(types)}")
    if refused := [f"{name} ({types[name]})" for name in asked if found[name] is None]:
        can = [name for name, kind in found.items() if kind is not None]
        rest = f"give columns={can}, or read the others" if can else "read them"
        raise UnsupportedError(
            f"tensors have numbers, bools and times, and not the columns {', '.join(refused)} of {where}; {rest} "
            "by pandas or polars"
        )
    return {name: kind for name in asked if (kind := found[name]) is not None}


def _kind(given: Any) -> Kind | None:
    """dtype and shape of a row; None for a type that tensors have not."""
    types = library("pyarrow", "arrow").types
    if types.is_fixed_size_list(given):
        of = _kind(given.value_type)
        return None if of is None or of[1] else (of[0], (given.list_size,))
    if types.is_dictionary(given):
        return _kind(given.value_type)
    if types.is_boolean(given) or types.is_integer(given) or types.is_floating(given):
        return np.dtype(given.to_pandas_dtype()), ()
    if types.is_date(given):
        return np.dtype("M8[D]" if types.is_date32(given) else "M8[ms]"), ()
    if types.is_timestamp(given) or types.is_duration(given):
        return np.dtype(f"{'M' if types.is_timestamp(given) else 'm'}8[{given.unit}]"), ()
    return None


def _joined(lengths: Sequence[int], most: int) -> Iterator[int]:
    """Rows of chunks: those of neighbouring row groups, up to `most`.

    Examples
    --------
    >>> [*_joined([3, 3, 3, 9, 0], 6)], [*_joined([], 6)]
    ([6, 3, 9], [0])
    """
    chunk = 0
    for n in lengths:
        if chunk and n and chunk + n > most:
            yield chunk
            chunk = 0
        chunk += n
    yield chunk


@dataclass(frozen=True)
class ColumnReader:
    """Reads rows of a column, on a worker."""

    places: tuple[str, ...]
    stamps: tuple[Hashable, ...]  # of files
    options: Any = field(repr=False)  # of fsspec
    ends: tuple[int, ...]  # rows up to the end of each row group
    groups: tuple[tuple[int, int], ...]  # numbers of the file and of the group within
    name: str
    dtype: np.dtype[Any]
    width: tuple[int, ...]  # elements of a row; () for one
    is_mask: bool = False  # whether to read where elements are missing

    def tensor(self, rows: int, cut: tuple[int, ...]) -> Tensor:
        """The column."""
        shape = (rows, *self.width)
        if not math.prod(shape):
            return as_tensor(np.empty(shape, self.dtype))
        lengths = np.diff(self.ends, prepend=0).tolist()
        regular = len({*lengths[:-1], max(lengths)}) == 1
        is_local = not any(map(is_url, self.places))
        size = self.dtype.itemsize  # of the elements; Arrow takes as much for a group, and more while it decodes
        return from_blocks(
            self, shape, self.dtype, chunks=(cut, *((n,) for n in self.width)), name="from_parquet",
            pieces=(lengths[0], *self.width) if regular else (), holds=(size, 3 * size, 1), pure=is_local,
            files=self.places if is_local else (), waits=not is_local,
        )  # fmt: skip

    def __call__(self, box: tuple[slice, ...]) -> Array:
        """The elements of a box; row groups are read one by one."""
        low, high = box[0].start, box[0].stop
        found = np.empty((high - low, *self.width), self.dtype)
        at, number = low, bisect_right(self.ends, low)
        while at < high:
            end = min(self.ends[number], high)
            start = self.ends[number - 1] if number else 0
            found[at - low : end - low] = self._group(number, slice(at - start, end - start))
            at, number = end, bisect_right(self.ends, end)
        return found[:, box[1]] if self.width else found

    def _group(self, number: int, rows: slice) -> Array:
        """Some rows of a row group."""
        file, group = self.groups[number]
        place = self.places[file]
        with _parquet(place, self.options, self.stamps[file]) as opened:
            column = opened.read_row_group(group, [self.name], use_threads=False).column(0)
        if len(column) < rows.stop:
            raise StorageError(f"{place} has {len(column)} rows in row group {group}, and more were promised")
        column = column.slice(rows.start, rows.stop - rows.start)
        if self.is_mask:
            return np.asarray(column.is_null().to_numpy())
        return values_of(column, self.dtype, self.width, self.name)


def values_of(column: Any, dtype: np.dtype[Any], width: tuple[int, ...], name: str) -> Array:
    """Elements of an Arrow column: NaN or NaT where floats or times are missing, 0 where integers or bools are."""
    types = library("pyarrow", "arrow").types
    if width:
        flat = column.combine_chunks().flatten()
        if column.null_count or (dtype.kind in "iub" and flat.null_count):
            raise UnsupportedError(f"the column {name} of lists has missing elements; fill them, or read it by pyarrow")
        return values_of(flat, dtype, (), name).reshape(-1, *width)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count and dtype.kind in "iub":
        column = column.fill_null(False if dtype.kind == "b" else 0)
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(dtype, copy=False)


@offers("from_arrow")
def from_arrow(table: Any, columns: str | Sequence[str] | None = None, chunk_size: int | None = None) -> dict[str, Any]:
    """Tensors of the columns of an Arrow table, by name.

    Parameters
    ----------
    table
        A table or record batch of pyarrow, or a data frame of polars, pandas or another library that gives Arrow data.
    columns
        Names of the columns, or a single name; by default all.
    chunk_size
        Rows of a chunk; by default as for arrays.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    KeyError, UnsupportedError
        As `from_parquet`, whose rules for missing elements hold; a TypeError for a column without a name.
    """
    arrow = library("pyarrow", "arrow")
    try:
        found = arrow.table(table)
    except (TypeError, arrow.ArrowInvalid) as error:
        raise TypeError(f"{error}; give a table, a data frame, or columns by name, {{'a': x}}") from error
    made = {}
    kinds = _kinds({name: found.schema.field(name).type for name in found.column_names}, columns, "the table")
    for name, (kind, width) in kinds.items():
        column = found.column(name)
        cut = None if chunk_size is None else (chunk_size, *(-1 for _ in width))
        made[name] = as_tensor(values_of(column, kind, width, name), chunk_size=cut)
        if kind.kind in "iub" and column.null_count:
            mask = as_tensor(column.is_null().to_numpy(), chunks=made[name].chunks)
            made[name] = call("ma.masked_array", made[name], mask)
    return made


@offers("method.arrow")
def to_arrow(values: Any, mask: Any = None) -> Any:
    """An Arrow array of values, null where the mask is true."""
    pyarrow = library("pyarrow", "arrow")
    values = np.asarray(values, np.asarray(values).dtype.newbyteorder("="), order="C")
    try:
        if values.ndim == 2:
            if mask is not None:
                raise UnsupportedError("Arrow lists of masked tensors are not written; fill them by x.filled(...)")
            return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])
        if values.ndim != 1:
            raise UnsupportedError(f"Arrow columns have one axis, or two for lists, and not {values.ndim}")
        return pyarrow.array(values, mask=None if mask is None else np.ascontiguousarray(mask))
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        raise UnsupportedError(f"Arrow has no dtype {values.dtype} ({error}); convert by astype") from error


@offers("to_parquet")
def to_parquet(columns: Mapping[str, Any], path: Any, *, overwrite: bool = False, **options: Any) -> None:
    """Compute tensors and write them as columns of a Parquet table: a folder of files, written by the workers.

    Parameters
    ----------
    columns
        Tensors or arrays of one axis and equal length by name; those of two axes become lists of a fixed length.
        Masked elements and NaT are written as missing, NaN as NaN.
    path
        A folder that all workers can write; the folder appears when all files are complete.
    overwrite
        Whether to replace a folder that has Parquet files.
    **options
        Options of pyarrow's `write_table`: `compression="zstd"`, `row_group_size=1_000_000`. Pages have checksums
        unless `write_page_checksum=False`.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    FileExistsError
        If the folder has files, unless `overwrite`, or other files than those of Parquet.
    TypeError, ValueError, UnsupportedError
        For columns without names of text or of different lengths, and for dtypes that Arrow has not.
    """
    place = path_to_write(path, "Parquet")
    library("pyarrow.parquet", "arrow")
    if not isinstance(columns, Mapping):
        raise TypeError(f'columns are given by name, as {{"a": x}}, and not as {type(columns).__name__}')
    if not columns:
        raise ValueError("a table has at least one column")
    names: list[tuple[str, bool]] = []  # of each array: the name of its column, and whether it is the mask
    parts: list[Tensor] = []
    for name, one in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"the names of columns are text, and not {name!r}")
        is_masked = isinstance(one, Composite | np.ma.MaskedArray)
        has_mask = is_masked and one.mask is not np.ma.nomask
        values: Tensor = as_tensor(one.data if is_masked else one)
        no_rows = np.empty((0, *values.shape[1:]) if values.ndim else (), values.dtype)
        to_arrow(no_rows, np.empty(no_rows.shape, bool) if has_mask else None)
        names += [(name, False), (name, True)][: 1 + has_mask]
        parts += [values, as_tensor(one.mask)] if has_mask else [values]
    if len({len(one) for one in parts}) != 1:
        raise ValueError(f"columns have one length, and not {sorted({len(one) for one in parts})}")
    width = sum(one.nbytes for one in parts) // max(1, len(parts[0]))
    cut = max((one.chunks[0] for one in parts), key=len)
    if max(cut) * width > chunk_bytes():
        cut = split_axis(len(parts[0]), max(1, chunk_bytes() // width))
    inputs = [(one.rechunk(chunks=(cut, *((n,) for n in one.shape[1:]))).data, False) for one in parts]
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with claimed(place):
        there = sorted(os.listdir(place)) if os.path.isdir(place) else []
        if others := [name for name in there if not name.endswith(".parquet")]:
            raise FileExistsError(f"{place} has other files, such as {others[0]}; give another folder")
        if there and not overwrite:
            raise FileExistsError(f"{place} has files; give overwrite=True to replace them, or another folder")
        with atomic_folder(place, overwrite, "") as part:
            write = functools.partial(write_part, part, tuple(names), options)
            digits = len(str(len(cut)))
            calls = [
                ChunkCall(tuple((i, k) for i in range(len(parts))), (f"part-{k:0{digits}}.parquet",), (1,))
                for k in range(len(cut))
            ]
            done = arrays("to_parquet", write, inputs, calls, ((1,) * len(cut),), np.dtype(bool))
            get_engine().execute([done.data])


def write_part(folder: str, names: Sequence[tuple[str, bool]], options: Mapping[str, Any], *blocks: Any) -> Array:
    """Write the file of a chunk of rows, on a worker; another try writes it anew."""
    *given, file = blocks
    values = {name: block for (name, is_mask), block in zip(names, given) if not is_mask}
    masks = {name: block for (name, is_mask), block in zip(names, given) if is_mask}
    table = library("pyarrow", "arrow").table({name: to_arrow(x, masks.get(name)) for name, x in values.items()})
    options = {"write_page_checksum": True, **options}
    library("pyarrow.parquet", "arrow").write_table(table, os.path.join(folder, file), **options)
    return np.ones(1, bool)
