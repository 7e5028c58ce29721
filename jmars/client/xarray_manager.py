"""xarray on jmars: the chunk manager behind `chunked_array_type="jmars"`.

xarray finds the manager by an entry point and hands over the arrays of a data set, which become tensors. With
another manager installed (Dask), say `xarray.set_options(chunk_manager="jmars")` or give `chunked_array_type="jmars"`.

`adapt` changes xarray where it distinguishes Dask's arrays from all others. A function of ours stands in place of
xarray's function of the same name and calls it for other arrays. A function that a version of xarray lacks is left out.

- Points, `d.sel(lat=points, lon=points)`: xarray's adapter for arrays of the array API standard knows no indices of
  several arrays; tensors know them, as NumPy does. An index that is a tensor without axes takes an element away; the
  places of a coordinate, as of `idxmax`, stay lazy.
- Groups: flox dispatches on Dask and Cubed, and takes tensors for arrays of NumPy: it would compute them at once. Sums,
  means and the like of groups are a single operand (`reduce_groups`); xarray takes the elements of every group.
- Equality without values, for `merge` and `concat`: the same node is equal, and nodes of equal value keys.
- `map_blocks` calls its function per block (client/xarray_blocks.py); xarray takes blocks of Dask's arrays only.
- `argmin`, `idxmin` and the like find lines of nothing but NaN where they are computed, not when they are called.
- `ffill` and `bfill` bring a line into one chunk; bottleneck and numbagg would take a tensor for an array of NumPy.
- Data sets of tensors are not written over their sources, and NetCDF files appear when complete.
- `open_mfdataset(parallel=True)` opens named files together on the workers, if a cluster runs; `preprocess` runs in the
  kernel. The kernel opens open files, which xarray would open again where they are unpickled. `open_dataset` reads open
  files of fsspec without reading ahead.
- Weights are checked where they are computed, not when `weighted` is called.

Source: xarray `namedarray/parallelcompat.py`, `core/indexing.py`, `core/nputils.py`, `core/utils.py`,
`core/duck_array_ops.py`, `computation/weighted.py`.
"""

from __future__ import annotations

import functools
import glob
import io
import itertools
import math
import operator
import os
import pickle
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import cloudpickle
import numpy as np
import xarray
from xarray import Coordinates, Dataset, Variable
from xarray.backends import api
from xarray.coding import variables
from xarray.computation import nanops, weighted
from xarray.core import duck_array_ops, groupby, indexing, nputils, parallel, utils
from xarray.namedarray import pycompat
from xarray.namedarray.parallelcompat import ChunkManagerEntrypoint, guess_chunkmanager

import jmars.tensor as mt
from jmars.client.cluster import default_cluster
from jmars.client.kept_values import value_keys
from jmars.client.session import execute
from jmars.client.xarray_blocks import has_objects, mapped_blocks, without_tensors
from jmars.client.xarray_store import Write, checked_to_zarr, checked_tree_to_zarr, later, whole_to_netcdf
from jmars.errors import UnsupportedError
from jmars.processes.rlimit_guard import is_out_of_memory, may_be_out_of_memory
from jmars.tensor.operand import Splits
from jmars.tensor.ops.groups import GROUPED, reduce_groups
from jmars.tensor.ops.gufuncs import apply_gufunc
from jmars.tensor.ops.map_blocks import map_blocks, single_chunk_along
from jmars.tensor.ops.npy import from_blocks
from jmars.tensor.remote_files import in_pieces, pickled_file, reads_ahead
from jmars.tensor.spawn import map_items
from jmars.tensor.splits import COUNTED_BYTES, chunk_bytes, common_splits, decide_splits, split_axis
from jmars.tensor.tensor import Tensor, as_tensor, pickled_as_graphs
from jmars.tensor.zarr_arrays import (
    from_zarr,
    is_shared,
    many_requests,
    opens_on_workers,
    pieces_at_once,
    zarr_folder,
)


def _piece(given: Any, length: int) -> int:
    """Length of a file's pieces along an axis; that of the axis where the file has none."""
    longest = max(given) if isinstance(given, tuple | list) else given
    return min(int(longest or length), length)


def _even(shape: tuple[int, ...], splits: Splits, given: Sequence[Any]) -> Splits:
    """Chunks of equal lengths, but the last, on axes of automatic chunks."""
    axes = zip(shape, splits, given)
    return tuple(split_axis(n, max(axis)) if isinstance(one, str) else axis for n, axis, one in axes)


PLAIN_LAYERS = {"ImplicitToExplicitIndexingAdapter", "MemoryCachedArray", "CopyOnWriteArray", "LazilyIndexedArray"}
Make = Callable[[Callable[..., Any]], Callable[..., Any]]


class JmarsManager(ChunkManagerEntrypoint[Any]):
    """Tensors for xarray."""

    array_cls = Tensor

    def __init__(self) -> None:
        self.array_cls = Tensor

    def is_chunked_array(self, data: Any) -> bool:
        """Whether the array is a tensor."""
        return isinstance(data, Tensor)

    def chunks(self, data: Any) -> Any:
        """Lengths of the chunks on each axis."""
        return data.chunks

    def normalize_chunks(self, chunks: Any, shape: Any = None, limit: Any = None, dtype: Any = None,
                         previous_chunks: Any = None) -> Any:  # fmt: skip
        """Lengths of chunks from the `chunks` of xarray's users.

        Automatic axes get whole pieces of the file (`previous_chunks`), as many as a chunk of the default size holds;
        all chunks but the last are equal, as pieces of Zarr are.
        """
        shape = tuple(shape)
        kind = np.dtype(dtype if dtype is not None else float)
        if isinstance(chunks, Mapping):
            chunks = tuple(chunks.get(axis) for axis in range(len(shape)))
        if not isinstance(chunks, tuple | list) or len(chunks) != len(shape):
            return _even(shape, decide_splits(shape, kind, chunks), [chunks] * len(shape))
        given = tuple(-1 if n == 0 else entry for entry, n in zip(chunks, shape))
        if previous_chunks is None or "auto" not in given:
            return _even(shape, decide_splits(shape, kind, given), given)
        pieces = [_piece(one, n) if entry == "auto" else 1 for entry, one, n in zip(given, previous_chunks, shape)]
        bytes_of_auto = chunk_bytes() * kind.itemsize // max(kind.itemsize, COUNTED_BYTES)
        room = f"{max(bytes_of_auto // math.prod(pieces), 1)}B"
        counts = tuple(-(-n // piece) for n, piece in zip(shape, pieces))
        some = tuple(room if entry == "auto" else entry for entry in given)
        found = _even(counts, decide_splits(counts, kind, some), given)
        return tuple(
            tuple(int(n) for n in np.diff(np.minimum(np.cumsum((0, *axis)) * piece, length)))
            for axis, piece, length in zip(found, pieces, shape)
        )

    def from_array(self, data: Any, chunks: Any, **kwargs: Any) -> Any:
        """A tensor of an array; an array in a file is read chunk by chunk on the workers.

        Objects, text of variable length and arrays of pandas stay in this process; a file is read when they are used.
        """
        if has_objects(data.dtype):
            return data.array if isinstance(data, indexing.ImplicitToExplicitIndexingAdapter) else data
        splits = self.normalize_chunks(chunks, data.shape, dtype=data.dtype)
        if isinstance(data, np.ndarray):
            return as_tensor(data, chunks=splits)
        zarr_array = _zarr_array(data)
        if zarr_array is not None and (found := _decoded(data, zarr_array, splits)) is not None:
            return found
        waits = zarr_array is not None and is_shared(zarr_array.store) and zarr_folder(zarr_array) is None
        at_once = 1 if zarr_array is None else pieces_at_once(zarr_array)
        how: Any = {"name": "read", "takes": "steps", "pieces": _pieces(data), "holds": (*_bytes(data), at_once)}
        return from_blocks(_Reader(data), data.shape, data.dtype, chunks=splits, waits=waits, **how)

    def rechunk(self, data: Tensor, chunks: Any, **kwargs: Any) -> Tensor:
        """A tensor in other chunks; see `normalize_chunks` for automatic ones."""
        given = [*chunks.values()] if isinstance(chunks, Mapping) else chunks
        if any(isinstance(one, str) for one in (given if isinstance(given, tuple | list) else [given])):
            if isinstance(chunks, Mapping):
                chunks = tuple(chunks.get(axis, own) for axis, own in enumerate(data.chunks))
            chunks = self.normalize_chunks(chunks, data.shape, dtype=data.dtype)
        found: Tensor = data.rechunk(chunks)
        return found

    def compute(self, *data: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Values, computed as a single graph."""
        tensors = [x for x in data if isinstance(x, Tensor)]
        if tensors:
            execute(*tensors)
        return tuple(x.fetch() if isinstance(x, Tensor) else x for x in data)

    def persist(self, *data: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The same tensors, computed and kept on the cluster."""
        tensors = [x for x in data if isinstance(x, Tensor)]
        if tensors:
            execute(*tensors)
        return data

    @property
    def array_api(self) -> Any:
        """Where functions of tensors are."""
        return mt

    def reduction(self, arr: Any, func: Callable[..., Any], combine_func: Callable[..., Any] | None = None,
                  aggregate_func: Callable[..., Any] | None = None, axis: Any = None, dtype: Any = None,
                  keepdims: bool = False) -> Tensor:  # fmt: skip
        """`func` of each chunk along `axis`, then of the partial results."""
        axes = tuple(range(arr.ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, arr.ndim)
        ones = tuple(1 if i in axes else cut for i, cut in enumerate(arr.chunks))
        parts = map_blocks(func, arr, dtype=dtype, chunks=ones, axis=axes, keepdims=True)
        last = aggregate_func or combine_func or func
        whole = parts.rechunk(tuple(-1 if i in axes else cut for i, cut in enumerate(parts.chunks)))
        value = map_blocks(last, whole, dtype=dtype, chunks=ones, axis=axes, keepdims=True)
        return value if keepdims else value.squeeze(axes)

    def scan(self, func: Callable[..., Any], binop: Callable[..., Any], ident: float, arr: Any, axis: Any = None,
             dtype: Any = None, **kwargs: Any) -> Tensor:  # fmt: skip
        """Running sums and the like, along lines that are brought into a single chunk."""
        if axis is None:
            arr, axis = arr.reshape(-1), 0
        along = np.lib.array_utils.normalize_axis_index(axis, arr.ndim)
        whole = arr.rechunk(tuple(-1 if i == along else cut for i, cut in enumerate(arr.chunks)))
        return map_blocks(func, whole, dtype=dtype or arr.dtype, axis=along, **kwargs)

    def apply_gufunc(self, func: Callable[..., Any], signature: str, *args: Any, axes: Any = None, axis: Any = None,
                     keepdims: bool = False, output_dtypes: Any = None, output_sizes: Any = None,
                     vectorize: bool | None = None, allow_rechunk: bool = False, meta: Any = None,
                     **kwargs: Any) -> Any:  # fmt: skip
        """`xarray.apply_ufunc(..., dask="parallelized")`."""
        if axes is not None or axis is not None or keepdims:
            raise UnsupportedError("apply_gufunc with axes, axis or keepdims is not in jmars; move the axes to the end")
        if output_dtypes is None and meta is not None:
            output_dtypes = [np.asarray(one).dtype for one in (meta if isinstance(meta, tuple) else (meta,))]
        value = apply_gufunc(
            func, signature, *args, output_dtypes=output_dtypes, output_sizes=output_sizes, vectorize=bool(vectorize),
            **kwargs,
        )  # fmt: skip
        return value

    def map_blocks(self, func: Callable[..., Any], *args: Any, dtype: Any = None, chunks: Any = None,
                   drop_axis: Any = None, new_axis: Any = None, **kwargs: Any) -> Tensor:  # fmt: skip
        """A function of chunks."""
        if drop_axis or new_axis:
            raise UnsupportedError("map_blocks with drop_axis or new_axis is not in jmars; use apply_ufunc")
        for name in ("name", "meta", "token"):
            kwargs.pop(name, None)
        return map_blocks(func, *args, dtype=dtype, chunks=chunks, **kwargs)

    def blockwise(self, func: Callable[..., Any], out_ind: Any, *args: Any, adjust_chunks: Any = None,
                  new_axes: Any = None, align_arrays: bool = True, **kwargs: Any) -> Tensor:  # fmt: skip
        """Elementwise functions of arrays with named axes."""
        out_ind = tuple(out_ind)
        given = [(args[i], args[i + 1]) for i in range(0, len(args), 2)]
        if adjust_chunks or new_axes or any(set(names or ()) - set(out_ind) for _, names in given):
            raise UnsupportedError("blockwise that changes or sums axes is not in jmars; use apply_gufunc")
        laid = []
        for x, names in given:
            if names is None:  # a plain value
                laid.append(x)
                continue
            order = sorted(range(len(names)), key=lambda i: out_ind.index(names[i]))
            turned = as_tensor(x).transpose(order)
            index = tuple(slice(None) if name in names else None for name in out_ind)
            laid.append(turned[index])
        for name in ("name", "meta", "token", "concatenate"):
            kwargs.pop(name, None)
        return map_blocks(func, *laid, **kwargs)

    def unify_chunks(self, *args: Any, **kwargs: Any) -> tuple[dict[Any, Any], list[Any]]:
        """Arrays with named axes, cut alike."""
        pairs = [(args[i], args[i + 1]) for i in range(0, len(args), 2)]
        cuts: dict[Any, list[tuple[int, ...]]] = {}
        for x, names in pairs:
            for axis, name in enumerate(names or ()):
                cuts.setdefault(name, []).append(x.chunks[axis])
        found = {name: common_splits([cut for cut in some if cut != (1,)] or some) for name, some in cuts.items()}
        arrays = [
            x
            if names is None
            else x.rechunk(tuple(found[n] if sum(found[n]) == m else (m,) for n, m in zip(names, x.shape)))
            for x, names in pairs
        ]
        return found, arrays

    def store(self, sources: Any, targets: Any, *, regions: Any = None, compute: Any = True, **kwargs: Any) -> Any:
        """Write tensors into arrays that take slices; with `compute=False` on `.compute()` of the result.

        `lock` and `flush` are for threads of this process that write, and have no meaning here.
        """
        if others := kwargs.keys() - {"lock", "flush"}:
            raise UnsupportedError(f"store with {', '.join(sorted(others))} is not in jmars; it takes regions, compute")
        sources = [sources] if isinstance(sources, Tensor) else list(sources)
        targets = list(targets) if isinstance(targets, tuple | list) else [targets]
        regions = list(regions) if isinstance(regions, list) else [regions] * len(sources)
        write = Write(sources, targets, regions)
        return write() if compute else later(write)

    def shuffle(self, x: Any, indexer: Any, axis: int, chunks: Any = None) -> Tensor:
        """The elements of `axis` in groups: chunks of whole groups, of several up to the longest chunk of the axis."""
        groups = [np.asarray(one, np.int64) for one in indexer if len(one)]
        taken: Tensor = mt.take(x, np.concatenate(groups), axis)
        lengths: list[int] = []
        for n in map(len, groups):
            if lengths and lengths[-1] + n <= max(x.chunks[axis]):
                lengths[-1] += n
            else:
                lengths.append(n)
        return as_tensor(taken, chunks=tuple(tuple(lengths) if i == axis else cut for i, cut in enumerate(x.chunks)))

    def get_auto_chunk_size(self) -> int:
        """Bytes of a chunk where the user gives no size."""
        return chunk_bytes()


def _pieces(data: Any) -> tuple[int, ...]:
    """Lengths of the pieces of the Zarr array that an array of xarray's reads whole; () where not known."""
    shape = data.shape
    while hasattr(data, "array"):  # layers that decode, index later, and copy
        key = getattr(getattr(data, "key", None), "tuple", ())
        if any(not isinstance(entry, slice) or entry != slice(None) for entry in key):
            return ()
        data = data.array
    found = _zarr_array(data)
    return tuple(found.chunks) if found is not None and found.shape == shape else ()


def _decoded(data: Any, zarr_array: Any, splits: Splits) -> Tensor | None:
    """A whole Zarr array, decoded as layers of xarray's do by functions of tensors: workers do without xarray.

    None for arrays that only this process opens, for parts, and if a layer does anything else: times, text.
    """
    if not _pieces(data) or not opens_on_workers(zarr_array) or zarr_array.dtype.kind not in "biufc":
        return None
    layers = [data]
    while hasattr(layers[-1], "array"):
        layers.append(layers[-1].array)
    found: Any = from_zarr(zarr_array, chunks=splits)
    for layer in reversed(layers[:-1]):
        if type(layer).__name__ not in PLAIN_LAYERS:
            found = _decoded_by(getattr(layer, "func", None), found)
        if found is None or (found.shape, found.dtype) != (layer.shape, layer.dtype):
            return None
    return as_tensor(found)


def _decoded_by(step: Any, x: Tensor) -> Any:
    """The elements with a scale and an offset, or NaN in place of fill values; None for other steps of xarray's."""
    if not isinstance(step, functools.partial) or x.dtype.kind not in "biuf":
        return None
    fills = [*step.keywords.get("encoded_fill_values", ())]
    factors = [step.keywords.get(name) or 0 for name in ("scale_factor", "add_offset")]
    if np.asarray(fills + factors).dtype.kind not in "biuf":  # text
        return None
    if step.func is variables._scale_offset_decoding:
        return step(x)
    if step.func is not variables._apply_mask or not fills or (kind := np.dtype(step.keywords["dtype"])).kind != "f":
        return None
    x = x.astype(kind)  # `_apply_mask` would make an array of NumPy
    missing = functools.reduce(mt.logical_or, [mt.equal(x, fill) for fill in fills])
    return mt.where(missing, kind.type(step.keywords["decoded_fill_value"]), x)


def _bytes(data: Any) -> tuple[int, int]:
    """Bytes of an element in the file, and most bytes of an element while layers of xarray's decode it.

    A layer holds elements before and after, and a mask. Freed memory of smaller elements is no room for larger ones, so
    elements of every size count.
    """
    sizes = [data.dtype.itemsize]
    while hasattr(data, "array") and hasattr(data.array, "dtype"):
        outer, data = data, data.array
        if hasattr(outer, "func") or outer.dtype != data.dtype:
            sizes.append(data.dtype.itemsize)
    held = sum(size * min(sizes.count(size), 2) for size in set(sizes))
    return data.dtype.itemsize, held + (len(sizes) > 1)


def _zarr_array(data: Any) -> Any:
    """The Zarr array below layers of xarray; None if there is none."""
    while hasattr(data, "array"):
        data = data.array
    found: Any = getattr(data, "_array", None)
    return found if hasattr(found, "shards") else None


class _Reader:
    """Boxes of an array of xarray's that lies in a file; the first box opens the file again where it was pickled."""

    def __init__(self, data: Any, blob: bytes = b"", file: str | None = None, in_zarr: bool = True) -> None:
        self._data, self._blob, self._file, self._in_zarr = data, blob, file, in_zarr
        self._opening = threading.Lock()

    def __reduce__(self) -> Any:
        with self._opening:
            if self._data is None:
                return _Reader, (None, self._blob, self._file, self._in_zarr)
        blob, source = io.BytesIO(), self.source
        _FilePickler(blob).dump(self.data)
        file = source if isinstance(source, str) else None
        return _Reader, (None, blob.getvalue(), file, source is not None and file is None)

    @property
    def data(self) -> Any:
        """The array."""
        with self._opening:
            if self._data is None:
                self._data, self._blob = pickle.loads(self._blob), b""
            return self._data

    @property
    def source(self) -> Any:
        """The Zarr array, or the path of the file; None for arrays of the memory, and of open files."""
        if self._data is None and not self._in_zarr:
            return self._file
        data = self.data
        while hasattr(data, "array"):
            data = data.array
        opened = getattr(getattr(getattr(data, "datastore", None), "_manager", None), "_args", (None,))
        return _zarr_array(data) or (opened[0] if isinstance(opened[0], str) else None)

    def __call__(self, box: tuple[slice, ...]) -> Any:
        """Elements of the array; `np.asarray` of an adapter of xarray imports sparse, pint and Dask if they exist."""
        with many_requests(_zarr_array(self.data)):
            found = self.data[box]
            found = found.get_duck_array() if hasattr(found, "get_duck_array") else found
            return found if isinstance(found, np.ndarray) else pycompat.to_numpy(found)


class _FilePickler(cloudpickle.Pickler):  # type: ignore[misc]  # it carries no types
    """Pickles arrays in files; a file of fsspec that reads ahead, megabytes at each jump of HDF5, is read in pieces."""

    def reducer_override(self, obj: Any) -> Any:
        """Opens such a file in another way."""
        return pickled_file(obj) or super().reducer_override(obj)


_opening: ContextVar[_Opening | None] = ContextVar("opening", default=None)


class _Opening:
    """Opens named files together on the workers, when the first of them is asked for."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.found = names, dict[str, Any]()  # names that xarray did not ask for yet

    def __call__(self, name: str, options: Mapping[str, Any]) -> Any:
        if not self.found:
            opened = map_items(functools.partial(_opened, options=options), self.names)
            self.found = dict(zip(self.names, opened.fetch()))
        self.names.remove(name)  # `preprocess`, which comes later, may open the file with other options
        found = self.found[name]
        if isinstance(found, Exception):
            raise found
        return pickle.loads(found)


def _opened(name: str, options: Mapping[str, Any]) -> Any:
    """A data set with the graphs of its tensors, pickled; or the error."""
    try:
        with pickled_as_graphs():
            return cloudpickle.dumps(xarray.open_dataset(name, **options))
    except Exception as error:
        if is_out_of_memory(error) or may_be_out_of_memory(error):
            raise  # the call runs again with more memory
        return error


def _open_dataset(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def open_dataset(*args: Any, **kwargs: Any) -> Any:
        opening = _opening.get()
        if opening is not None and args and args[0] in opening.names:
            return opening(args[0], kwargs)
        if kwargs.get("chunks") is not None and args and reads_ahead(args[0]) and _makes_tensors(kwargs):
            args = (in_pieces(args[0]), *args[1:])
        return theirs(*args, **kwargs)

    return open_dataset


def _open_mfdataset(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def open_mfdataset(paths: Any, *args: Any, **kwargs: Any) -> Any:
        names = _names(paths) if kwargs.get("parallel") and default_cluster(start=False) else []
        if not names or not _makes_tensors(kwargs):
            return theirs(paths, *args, **kwargs)
        token = _opening.set(_Opening(names))
        try:
            return theirs(paths, *args, **kwargs | {"parallel": False, "chunked_array_type": "jmars"})
        finally:
            _opening.reset(token)

    return open_mfdataset


def _makes_tensors(kwargs: Mapping[str, Any]) -> bool:
    return isinstance(guess_chunkmanager(kwargs.get("chunked_array_type")), JmarsManager)


def _names(paths: Any) -> list[str]:
    """Absolute names of the files, as of xarray; none for open files. Text alone is a pattern, in a list a name."""
    if isinstance(paths, list | tuple):
        parts = [[_absolute(one)] if isinstance(one, str | os.PathLike) else _names(one) for one in paths]
        return [*itertools.chain(*parts)] if all(parts) else []
    return sorted(glob.glob(_absolute(paths))) if isinstance(paths, str) else []


def _absolute(name: str | os.PathLike[str]) -> str:
    text = os.fspath(name)
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


def adapt() -> None:
    """Let xarray treat tensors so, once per process."""
    if not hasattr(utils, "_of_jmars"):
        utils._of_jmars = True  # type: ignore[attr-defined]
        _teach_points()
        _replace(utils, "contains_only_chunked_or_numpy", _without_tensors)
        _replace(pycompat, "is_0d_dask_array", _element)
        _replace(duck_array_ops, "lazy_array_equiv", _same_node)
        _replace(duck_array_ops, "push", _along_lines)
        _replace(parallel, "map_blocks", functools.partial(mapped_blocks, JmarsManager()))
        names: Any = parallel
        names.is_dask_collection = without_tensors(names.is_dask_collection)
        _replace(nanops, "nanargmin", _arg_without_nan)
        _replace(nanops, "nanargmax", _arg_without_nan)
        writers = sys.modules.get("xarray.backends.writers") or sys.modules["xarray.backends.api"]  # until 2025.9
        _replace(writers, "to_zarr", checked_to_zarr)
        _replace(writers, "_datatree_to_zarr", checked_tree_to_zarr)
        _replace(writers, "to_netcdf", whole_to_netcdf)
        _replace(api, "open_dataset", _open_dataset)
        _replace(api, "open_mfdataset", _open_mfdataset)
        Variable.chunk = _as_tensors(Variable.chunk)  # type: ignore[method-assign]
        for owner in (groupby.DataArrayGroupByBase, groupby.DatasetGroupByBase):
            owner.reduce = _by_groups(owner.reduce)  # type: ignore[method-assign]
        own: Any = groupby.GroupBy
        own._raise_if_by_is_chunked = _with_labels(own._raise_if_by_is_chunked)
        own._first_or_last = _with_labels(own._first_or_last)
        if hasattr(weighted, "is_duck_dask_array"):
            weighted.is_duck_dask_array = _lazy(weighted.is_duck_dask_array)


def _replace(home: Any, name: str, make: Make) -> None:
    """Put a function in place of xarray's function, also in modules of xarray that have imported it."""
    theirs = getattr(home, name, None)
    if theirs is None:
        return
    ours = make(theirs)
    for module in [one for key, one in sys.modules.items() if key.split(".")[0] == "xarray"]:
        if getattr(module, name, None) is theirs:
            setattr(module, name, ours)


def _lazy_places(before: Callable[..., Any]) -> Callable[..., Any]:
    """Elements of a line in a single chunk, as of a coordinate, at positions that are not computed for it."""

    def get(self: Any, indexer: Any) -> Any:
        line, key = self.array, indexer.tuple
        if not isinstance(line, Tensor) or not isinstance(key[0], Tensor) or line.chunks != (line.shape,):
            return before(self, indexer)
        if not key[0].ndim or key[0].dtype.kind not in "iu":
            return before(self, indexer)
        return apply_gufunc(operator.getitem, "(n),()->()", line, key[0], output_dtypes=[line.dtype])

    return get


def _teach_points() -> None:
    adapter = getattr(indexing, "ArrayApiIndexingAdapter", None)
    places = getattr(nputils, "_advanced_indexer_subspaces", None)
    before = getattr(adapter, "_vindex_get", None)
    if before is None or places is None:
        return

    def at_points(self: Any, indexer: Any) -> Any:
        if not isinstance(self.array, Tensor):
            return before(self, indexer)
        key = indexer.tuple
        found = mt.moveaxis(self.array[key], *places(key))
        lone = key[0] if len(key) == 1 and isinstance(key[0], Tensor) else None
        return found if lone is None or found.shape != lone.shape else found.rechunk(lone.chunks)

    adapter._vindex_get = _lazy_places(at_points)  # type: ignore[union-attr]
    adapter._oindex_get = _lazy_places(adapter._oindex_get)  # type: ignore[union-attr]


def _without_tensors(theirs: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def contains_only_chunked_or_numpy(obj: Any) -> bool:
        variables = obj._variables.values() if hasattr(obj, "_variables") else [obj._variable, *obj._coords.values()]
        return not any(isinstance(one._data, Tensor) for one in variables) and theirs(obj)

    return contains_only_chunked_or_numpy


def _element(theirs: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_0d_dask_array(x: Any) -> bool:
        return isinstance(x, Tensor) and x.ndim == 0 or theirs(x)

    return is_0d_dask_array


def _same_node(theirs: Callable[..., bool | None]) -> Callable[..., bool | None]:
    def lazy_array_equiv(one: Any, other: Any) -> bool | None:
        if isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape:
            cluster = default_cluster(start=False)  # its values may be of files that have changed since
            keys = value_keys([one.data, other.data], cluster.kept.value_of if cluster else lambda key: None)
            return True if len({keys.get(x.data.key) or x.data.key for x in (one, other)}) == 1 else None
        return theirs(one, other)

    return lazy_array_equiv


def _arg_without_nan(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def nanarg(a: Any, axis: Any = None) -> Any:
        if not isinstance(a, Tensor) or a.dtype.kind not in "fc":
            return theirs(a, axis)
        least, missing = theirs.__name__ == "nanargmin", mt.isnan(a)
        values = mt.where(missing, a.dtype.type(np.inf if least else -np.inf), a)
        places = (mt.argmin if least else mt.argmax)(values, axis)
        return map_blocks(_unless_missing, places, mt.all(missing, axis), dtype=places.dtype)

    return nanarg


def _unless_missing(places: Any, missing: Any) -> Any:
    if missing.any():
        raise ValueError("All-NaN slice encountered")
    return places


def _along_lines(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def push(array: Any, n: Any, axis: int, **method: Any) -> Any:
        if not isinstance(array, Tensor):
            return theirs(array, n, axis, **method)
        whole = single_chunk_along(array, [np.lib.array_utils.normalize_axis_index(axis, array.ndim)])
        return map_blocks(duck_array_ops._push, whole, n=n, axis=axis)

    return push


def _refuse_lazy_labels(groups: Any) -> None:
    if groups._by_chunked and isinstance(groups.encoded.codes.variable._data, Tensor):
        names = [str(one.group.name) for one in groups.groupers if isinstance(one.codes.variable._data, Tensor)]
        ready = ", ".join(f"{one}=d[{one!r}].compute()" for one in names)
        raise ValueError(
            f"this method is not supported when lazily grouping by a tensor; compute the labels {', '.join(names)} "
            f"first, d.assign_coords({ready}): the data stay lazy"
        )


def _with_labels(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def refusing(self: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_lazy_labels(self)  # xarray asks for flox, or gives the whole object
        return theirs(self, *args, **kwargs)

    return refusing


def _by_groups(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def reduce(self: Any, func: Any, dim: Any = None, *, axis: Any = None, keep_attrs: bool | None = None,
               keepdims: bool = False, shortcut: bool = True, **kwargs: Any) -> Any:  # fmt: skip
        _refuse_lazy_labels(self)
        name: str = getattr(func, "__name__", "")
        name = name.removeprefix("array_") if getattr(duck_array_ops, name, None) is func else ""  # array_any
        known = kwargs.keys() <= {"skipna", "ddof", "min_count", "numeric_only"} and kwargs.get("min_count") is None
        if name in GROUPED and known and axis is None and _reduces_groups_of_tensors(self, dim):
            keep = xarray.get_options()["keep_attrs"] if keep_attrs is None else keep_attrs  # type: ignore[no-untyped-call]
            skipna = kwargs.get("skipna")
            return _reduced(self, name, keep in ("default", True), skipna is None or skipna, kwargs.get("ddof", 0))
        how = {"axis": axis, "keep_attrs": keep_attrs, "shortcut": shortcut, **({"keepdims": True} if keepdims else {})}
        return theirs(self, func, dim, **how, **kwargs)

    return reduce


def _reduces_groups_of_tensors(groups: Any, dim: Any) -> bool:
    """Whether all variables are tensors of numbers that lie along the groups, and no other axes are reduced."""
    if groups._by_chunked or len(groups.groupers) > 1:
        return False
    along, obj = set(groups.encoded.codes.dims), groups._original_obj
    wanted = (
        {groups._group_dim} if dim is None else {dim} if isinstance(dim, str) else set(dim if dim != ... else obj.dims)
    )
    data = [obj.variable] if not hasattr(obj, "data_vars") else [one.variable for one in obj.data_vars.values()]
    return wanted in (along, {groups._group_dim}) and all(
        isinstance(one._data, Tensor)
        and along <= set(one.dims)
        and one.dtype.kind in "biuf"
        and one.dtype.itemsize <= 8
        for one in data
    )


def _reduced(groups: Any, name: str, keep_attrs: bool, skips: bool, ddof: float) -> Any:
    """The reduction of all groups, with coordinates and axes as xarray's."""
    obj, codes = groups._original_obj, groups.encoded.codes
    numbers = np.unique(codes.data)
    numbers, count = numbers[numbers >= 0], groups.encoded.unique_coord.size
    if count == len(numbers):  # groups without elements are added at the end
        local = Variable(codes.dims, np.where(codes.data < 0, -1, np.searchsorted(numbers, codes.data)))
    else:
        local = codes.variable
    (axis,) = groups.encoded.unique_coord.dims

    def reduced(one: Variable) -> Variable:
        places = np.asarray(local.transpose(*(key for key in one.dims if key in codes.dims)).data)
        axes = [i for i, key in enumerate(one.dims) if key in codes.dims]
        found = reduce_groups(name, as_tensor(one._data), places, axes, count, skips, ddof)
        rest = [key for key in one.dims if key not in codes.dims]
        return Variable((axis, *rest), found, one.attrs if keep_attrs else None)

    is_set = hasattr(obj, "data_vars")
    ds = obj if is_set else obj._to_temp_dataset()
    coords = {key: one.variable for key, one in ds.coords.items() if not set(codes.dims) & set(one.dims)}
    indexes = {key: one for key, one in ds.xindexes.items() if key in coords}
    data = {key: reduced(one.variable) for key, one in ds.data_vars.items()}
    found: Any = Dataset(data, Coordinates(coords, indexes), ds.attrs if keep_attrs else None)
    found = found if is_set else groups._restore_dim_order(obj._from_temp_dataset(found))
    found = groups._maybe_reindex(groups._maybe_unstack(found.assign_coords(groups.encoded.coords)))
    proxy = getattr(groups, "_dim", axis)  # a resampled axis has another name until here
    return found if proxy == axis else found.rename({axis: proxy})


def _as_tensors(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Other chunks of a tensor are a tensor, whatever manager cuts new arrays."""

    @functools.wraps(theirs)
    def chunk(self: Variable, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._data, Tensor):
            kwargs["chunked_array_type"] = JmarsManager()
        return theirs(self, *args, **kwargs)

    return chunk


def _lazy(theirs: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_duck_dask_array(x: Any) -> bool:
        return isinstance(x, Tensor) or theirs(x)

    return is_duck_dask_array


adapt()
