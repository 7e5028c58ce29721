"""Writes tensors into arrays of other libraries, for xarray's `to_zarr` and `to_netcdf`.

Workers write into Zarr arrays of a store that they can open, all sources in one job (tensor/zarr_arrays.py): a chunk is
written and freed while others are computed. Each piece (or shard) of a Zarr array has a single writer; sources that
share a piece are written one after the other. Other targets, such as variables of NetCDF files, are written in this
process, a window of chunks at a time.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterator, Sequence
from operator import gt
from typing import Any, NoReturn

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.atomic_file import atomic_file, claimed
from jmars.tensor.engine import get_engine
from jmars.tensor.files import moved
from jmars.tensor.operand import TensorData
from jmars.tensor.ops.npy import FromBlocks
from jmars.tensor.remote_files import is_url
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import LinkedGraph
from jmars.tensor.whole_zarr import remove_left, replaced_group
from jmars.tensor.zarr_arrays import (
    opens_on_workers,
    refuse_sources,
    sources,
    store_place,
    write_zarr,
    zarr_place,
    zarr_store,
)

Box = tuple[slice, ...]
WINDOW_SHARE = 4  # of the memory limit: the part that a window of chunks may take
SUMMARY_SHARE = 8  # of an array's reader: the part that an array takes which is computed once for all windows


class Write:
    """Sources as they are now, targets and regions; a call writes them.

    Raises
    ------
    ValueError
        If a region has another shape than the source.
    """

    def __init__(self, sources: Sequence[Tensor], targets: Sequence[Any], regions: Sequence[Any]) -> None:
        self.parts = [
            (Tensor(source.data), target, _starts(source, target, region))
            for source, target, region in zip(sources, targets, regions, strict=True)
            if source.size
        ]

    def __call__(self) -> None:
        """Write all sources; returns when they are written."""
        if shared := [part for part in self.parts if opens_on_workers(part[1])]:
            write_zarr(shared)
        _write_here([part for part in self.parts if not opens_on_workers(part[1])])

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            "a write of tensors runs in the process that has the tensors: call .compute(scheduler='threads'), not on a "
            "cluster of Dask"
        )


def later(write: Write) -> Any:
    """A handle that writes on `.compute()`: Dask's `Delayed`, since xarray makes one of what `store` returns.

    Raises
    ------
    ImportError
        If Dask is not installed.
    """
    try:
        from dask.delayed import delayed
    except ImportError as error:
        raise ImportError("compute=False gives a handle of Dask: pip install dask") from error
    return delayed(write, pure=False)()


def checked_to_zarr(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`to_zarr` of xarray; a place with sources or a second writer is refused before old data are removed."""

    @functools.wraps(theirs)
    def to_zarr(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(theirs).bind(*args, **kwargs)
        given = bound.arguments
        store, tensors, options = given.get("store"), dict(_tensors(given["dataset"])), given.get("storage_options")
        if store is not None and not given.get("append_dim"):
            names = [""] if given.get("mode") == "w" else tensors
            at = functools.partial(zarr_place, zarr_store(store), options=options)
            places = {name: at(f"{given.get('group') or ''}/{name}") for name in names}
            for name, one in tensors.items():
                if isinstance(one.data.op, FromBlocks) and [places.get(name)] == [*map(zarr_place, _arrays(one))]:
                    del places[name]  # is written as it was read
            for one in tensors.values():
                refuse_sources(one, places.values())
        how = given.get("mode") or ("w-" if given.get("append_dim") is None else "a")  # as xarray decides
        if how in ("a", "a-") and store is not None and tensors:
            remove_left([store_place(store, f"{given.get('group') or ''}/{name}", options) for name in tensors])
        is_part = given.get("append_dim") is not None or given.get("region") is not None
        if not tensors or given.get("mode") != "w" or store is None or is_part:  # xarray refuses a part by "w"
            return theirs(*args, **kwargs)
        theirs.__globals__["_validate_dataset_names"](given["dataset"])  # as xarray before it removes a group
        _refuse_format(given.get("zarr_format"))
        with replaced_group(store_place(store, given.get("group"), options)) as given["mode"]:
            return theirs(*bound.args, **bound.kwargs)

    return to_zarr


def checked_tree_to_zarr(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`to_zarr` of a data tree; mode "w" refuses a store with sources of the tree, or with a second writer, first."""

    @functools.wraps(theirs)
    def to_zarr(dt: Any, store: Any, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(theirs).bind(dt, store, *args, **kwargs)
        given, tensors = bound.arguments, [one for node in dt.subtree for _, one in _tensors(node)]
        is_refused = any(given.get(name) is not None for name in ("group", "append_dim", "region"))  # by xarray
        options = given.get("storage_options")
        if given.get("mode") == "a" and tensors and not is_refused:
            names = [f"{node.path}/{name}" for node in dt.subtree for name, _ in _tensors(node)]
            remove_left([store_place(store, name, options) for name in names])
        if given.get("mode") != "w" or not tensors or is_refused or {*(given.get("encoding") or ())} - {*dt.groups}:
            return theirs(*bound.args, **bound.kwargs)
        _refuse_format(given.get("zarr_format"))
        for one in tensors:
            refuse_sources(one, [zarr_place(zarr_store(store), options=options)])
        with replaced_group(store_place(store, None, options)) as given["mode"]:
            return theirs(*bound.args, **bound.kwargs)

    return to_zarr


def _refuse_format(number: Any) -> None:
    """Raise ValueError for a format that zarr would refuse after the old group is gone."""
    if number not in (None, 2, 3):
        raise ValueError(f"zarr_format is 2 or 3, not {number!r}")


def whole_to_netcdf(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`to_netcdf` of xarray; a new file has a temporary name until the end; a source of the data set is not changed."""

    @functools.wraps(theirs)
    def to_netcdf(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(theirs).bind(*args, **kwargs)
        given, tensors = bound.arguments, _tensors(bound.arguments["dataset"])
        path, here = given.get("path_or_file"), given.get("compute", True) and not given.get("multifile")
        if not tensors or not isinstance(path, str | os.PathLike) or is_url(path):
            return theirs(*args, **kwargs)
        place = os.path.abspath(os.path.expanduser(os.fspath(path)))
        for _, tensor in tensors:
            if os.path.realpath(place) in [os.path.realpath(one) for one in sources(tensor) if isinstance(one, str)]:
                raise ValueError(f"the data set is computed from {place}; write it to another place")
        if not here or given.get("mode", "w") != "w":
            return theirs(*args, **kwargs)
        with claimed(place), atomic_file(place, named=True) as part:
            given["path_or_file"] = part
            return theirs(*bound.args, **bound.kwargs)

    return to_netcdf


def _arrays(tensor: Tensor) -> list[Any]:
    return [read for read in sources(tensor) if not isinstance(read, str)]


def _tensors(data: Any) -> list[tuple[Any, Tensor]]:
    return [(name, one._data) for name, one in data.variables.items() if isinstance(one._data, Tensor)]


def _write_here(parts: Sequence[tuple[Tensor, Any, tuple[int, ...]]]) -> None:
    """Write into targets that only this process can open; a job computes the chunks of a window."""
    engine = get_engine()
    room = engine.limits()[0] // WINDOW_SHARE
    kept: list[TensorData] = []
    if sum(source.nbytes for source, *_ in parts) > room and (kept := _summaries([x.data for x, *_ in parts], room)):
        engine.execute(kept)
    window: list[tuple[TensorData, Any, Box]] = []
    taken = 0

    def flush() -> None:
        engine.execute([data for data, *_ in window])
        while window:
            data, target, place = window.pop(0)
            target[place] = engine.fetch(data, copy=False)

    for source, target, starts in parts:
        for box in _boxes(source.chunks):
            part: Tensor = as_tensor(source[box])
            if window and taken + part.nbytes > room:
                flush()
                taken = 0
            window.append((part.data, target, moved(box, starts)))
            taken += part.nbytes
    if window:
        flush()
    del kept  # until here the cluster holds the values


def _summaries(data: Sequence[TensorData], room: int) -> list[TensorData]:
    """Nodes, such as means of a whole array, that every window would compute again: much smaller than their readers."""
    linked = LinkedGraph.of(data)
    sizes = [math.prod(node.shape) * node.dtype.itemsize for node in linked.nodes]
    largest = [0] * len(sizes)  # reader of each node, in bytes
    for size, reads in zip(sizes, linked.inputs):
        for k in reads:
            largest[k] = max(largest[k], size)
    found = []
    for node, size, reader in zip(linked.nodes, sizes, largest):
        if node.op.inputs and size * SUMMARY_SHARE <= reader and size <= room:
            found.append(node)
            room -= size
    return found


def _starts(source: Tensor, target: Any, region: Sequence[slice] | None) -> tuple[int, ...]:
    """First position of a region along each axis; a slice may count from the end of the target."""
    if region is None:
        is_zarr = type(target).__module__.split(".")[0] == "zarr"  # others may grow
        if is_zarr and (source.ndim != target.ndim or any(map(gt, source.shape, target.shape))):
            raise ValueError(f"a source of shape {source.shape} does not fit into the array of shape {target.shape}")
        return (0,) * source.ndim
    axes = [range(*one.indices(n)) for one, n in zip(region, target.shape, strict=True)]
    if tuple(map(len, axes)) != source.shape or any(axis.step != 1 for axis in axes):
        raise ValueError(f"a source of shape {source.shape} does not fit the region {region} of {target.shape}")
    return tuple(axis.start for axis in axes)


def _boxes(chunks: Any) -> Iterator[Box]:
    edges = [np.concatenate([[0], np.cumsum(axis)]).tolist() for axis in chunks]
    for place in np.ndindex(*(len(axis) for axis in chunks)):
        yield tuple(slice(axis[i], axis[i + 1]) for axis, i in zip(edges, place))
