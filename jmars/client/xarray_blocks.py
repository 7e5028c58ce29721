"""`map_blocks` of xarray on tensors: calls the user's function per block, on workers, with xarray objects on NumPy.

A block has a chunk per tensor, and the coordinates there. A call returns all variables of a part of the result.
Without a template, the kernel calls the function once, on objects without elements. A result with other names, axes,
lengths, dtypes or indexes than the template is an error. Coordinates of objects are passed on.
Source: xarray `core/parallel.py`, which builds a graph of Dask.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from xarray import Coordinates, DataArray, Dataset, Variable, align, merge
from xarray.core import parallel
from xarray.namedarray.utils import is_dask_collection

from jmars.errors import UnsupportedError
from jmars.tensor.deferring import leave_out_empty
from jmars.tensor.operand import check_dtype, new_data
from jmars.tensor.ops.map_blocks import called_here
from jmars.tensor.spawn import FromSpawned, spawn
from jmars.tensor.tensor import Tensor

Cuts = dict[Hashable, tuple[int, ...]]  # lengths of the blocks along each axis
Computed = list[tuple[Hashable, tuple[Hashable, ...], np.dtype[Any]]]  # names, axes and dtypes of variables


class _Promise(NamedTuple):
    """The promised result of a call."""

    kind: type  # DataArray or Dataset
    coords: set[Hashable]
    data: set[Hashable]
    computed: Computed


def mapped_blocks(manager: Any, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`map_blocks` of xarray, also for objects on tensors; `manager` makes tensors of other arrays."""

    @functools.wraps(theirs)
    def map_blocks(func: Any, obj: Any, args: Any = (), kwargs: Any = None, template: Any = None) -> Any:
        if not _tensors_of(obj):
            return theirs(func, obj, args, kwargs, template)
        _check_arguments(args, kwargs, template)
        given, kwargs = [obj, *args], dict(kwargs or {})
        places = [i for i, one in enumerate(given) if isinstance(one, DataArray | Dataset)]
        for i, one in zip(places, align(*(given[i] for i in places), join="exact", copy=False)):
            leave_out_empty(_tensors_of(one))  # as other functions of tensors do
            given[i] = one.chunk(_set_of(one).chunksizes, chunked_array_type=manager)
        cuts: Cuts = {}
        for i in places:
            parallel.assert_chunks_compatible(_set_of(given[0]), _set_of(given[i]))
            cuts.update(_set_of(given[i]).chunks)
        before = _merged_coords(given)
        if template is None:
            template = _inferred(func, given, kwargs)
            coords, after = _inferred_coords(before, template), {dim: cuts[dim] for dim in template.dims if dim in cuts}
        else:
            coords, after = template.coords, dict(_set_of(template).chunksizes)
            if not after:
                raise ValueError(
                    "Provided template has no dask arrays or tensors; give one that has the result's chunks"
                )
        whole = _set_of(template)
        known = {dim: sum(cut) for dim, cut in after.items()}  # no elements tell them
        lengths = _lengths(cuts, after, {**whole.sizes, **coords.to_dataset().sizes, **known})
        kept = {key for key, one in coords.variables.items() if has_objects(one.dtype) and key in before}
        kept.update(coords.xindexes)
        new = {key: one for key, one in whole.variables.items() if key not in kept}
        if wrong := {str(key): str(one.dtype) for key, one in new.items() if has_objects(one.dtype)}:
            raise UnsupportedError(f"tensors lack the dtypes of these variables: {wrong}; drop them, or use astype")
        computed: Computed = [(key, one.dims, check_dtype(one.dtype)) for key, one in new.items()]
        promise = _Promise(type(template), set(whole.coords), set(whole.data_vars), computed)
        found = Dataset(coords=coords, attrs=whole.attrs)
        fixed = found.drop_vars([key for key in found.variables if key not in kept])
        calls = _calls(func, kwargs, given, cuts, lengths, promise, fixed)
        for number, (key, dims, dtype) in enumerate(computed):
            found[key] = dims, _joined(calls, [*cuts], number, dims, dtype, lengths)
        for key in {*found.xindexes, *new}:
            found[key].attrs, found[key].encoding = whole[key].attrs, whole[key].encoding
        found = found.set_coords(whole.coords)
        return found if template is whole else template._from_temp_dataset(found)

    return map_blocks


def without_tensors(theirs: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """`is_dask_collection` for xarray's own `map_blocks`, which takes tensors for arrays in memory."""

    def is_dask_collection(x: Any) -> bool:
        if isinstance(x, Tensor) or _tensors_of(x):
            raise UnsupportedError(
                "this map_blocks knows no tensors: call xarray.map_blocks by this name, since a name that was imported "
                "before jmars is xarray's own function; tensors in kwargs belong into args"
            )
        return theirs(x)

    return is_dask_collection


def _check_arguments(args: Any, kwargs: Any, template: Any) -> None:
    if template is not None and not isinstance(template, DataArray | Dataset):
        raise TypeError(f"template must be a DataArray or Dataset; it is a {type(template).__name__}")
    if not isinstance(args, Sequence):
        raise TypeError(f"args must be a sequence, such as a list; it is a {type(args).__name__}")
    if not isinstance(kwargs, Mapping | None):
        raise TypeError(f"kwargs must be a mapping, such as a dict; it is a {type(kwargs).__name__}")
    for key, one in (kwargs or {}).items():
        if isinstance(one, Tensor) or _tensors_of(one) or is_dask_collection(one):
            raise TypeError(f"Cannot pass dask collections or tensors in kwargs; pass {key} in args, or compute it")


def _lengths(cuts: Cuts, after: Cuts, sizes: Mapping[Hashable, int]) -> Cuts:
    """Lengths of the calls' results per axis: of the template's chunks if as many as blocks, else of the blocks."""
    lengths: Cuts = {}
    for dim, n in sizes.items():
        own, block = after.get(dim, (n,)), cuts.get(dim)
        lengths[dim] = (n,) if block is None else own if len(own) == len(block) else block
        if block and sum(lengths[dim]) != n:
            raise ValueError(
                "map_blocks requires that one block of the input maps to one block of output; along "
                f"{dim!r} the input has {len(block)} chunks, and the template {len(own)}"
            )
    return lengths


def _calls(
    func: Any, kwargs: Any, given: Sequence[Any], cuts: Cuts, lengths: Cuts, promise: _Promise, fixed: Dataset
) -> Any:
    """The nodes of the calls, in an array with the axes of the blocks."""
    name = str(getattr(func, "__name__", type(func).__name__))
    shared = spawn(tuple, [(func, kwargs, promise)], name=name)  # may be large: an object that all calls take
    calls = np.empty([len(cut) for cut in cuts.values()], object)
    for place in np.ndindex(*calls.shape) if promise.computed else ():
        at = dict(zip(cuts, place))
        blocks = [_block(one, cuts, at) if isinstance(one, DataArray | Dataset) else one for one in given]
        own = {dim: cut[at.get(dim, 0)] for dim, cut in lengths.items()}, _block(fixed, lengths, at)
        calls[place] = spawn(_call, (shared, blocks, *own), n_outputs=len(promise.computed), name=name).data
    return calls


def _block(one: Any, cuts: Cuts, at: Mapping[Hashable, int]) -> Any:
    box = {}
    for dim in at.keys() & cuts.keys() & {*one.dims}:
        start = sum(cuts[dim][: at[dim]])
        box[dim] = slice(start, start + cuts[dim][at[dim]])
    return one.isel(box)


def _joined(calls: Any, axes: list[Hashable], number: int, dims: Sequence[Hashable], dtype: Any, cuts: Cuts) -> Tensor:
    """Output `number` of the calls; of the last calls along axes without the output."""
    read = calls[(*(slice(None) if dim in dims else slice(-1, None) for dim in axes), ...)]
    order = sorted(range(len(axes)), key=lambda i: [*dims, *axes].index(axes[i]))
    splits = tuple(cuts[dim] for dim in dims)
    op = FromSpawned(output=number, inputs=tuple(read.transpose(order).reshape(-1)))
    return Tensor(new_data(op, tuple(map(sum, splits)), dtype, splits))


def _call(shared: Any, blocks: Sequence[Any], lengths: Mapping[Hashable, int], fixed: Dataset) -> tuple[Any, ...]:
    """The variables of a part of the result, in a worker."""
    func, kwargs, promise = shared
    for one in blocks:
        for variable in _set_of(one).variables.values() if isinstance(one, DataArray | Dataset) else ():
            if isinstance(variable._data, np.generic):  # of a tensor without axes
                variable._data = np.asarray(variable._data)
    result = func(*blocks, **kwargs)
    if not isinstance(result, promise.kind):
        raise TypeError(f"the template is a {promise.kind.__name__}, and the function gave a {type(result).__name__}")
    if missing := lengths.keys() - result.sizes.keys():
        raise ValueError(f"Dimensions {missing} missing on returned object.")
    for dim, n in lengths.items():
        if result.sizes[dim] != n:
            raise ValueError(f"Received dimension {dim!r} of length {result.sizes[dim]}. Expected length {n}.")
    before = _merged_coords(blocks).xindexes
    for key, index in result.xindexes.items():
        wanted = fixed.xindexes.get(key, before.get(key))
        if wanted is not None and not index.equals(wanted):
            raise ValueError(f"Expected index {key!r} to be {wanted!r}. Received {index!r} instead.")
    expected: Any = {"coords": promise.coords, "data_vars": promise.data}
    for kind in ["coords", "data_vars"] if promise.kind is Dataset else ["coords"]:
        parallel.check_result_variables(result, expected, kind)  # type: ignore[arg-type]
    variables: Mapping[Any, Any] = _set_of(result).variables
    for key, one in fixed.variables.items():
        if key not in fixed.xindexes and not variables[key].identical(one):
            raise ValueError(
                f"the function changes the coordinate {key!r} of dtype {one.dtype}; jmars keeps it as it was"
            )
    return tuple(_checked(key, variables[key], dims, lengths, dtype) for key, dims, dtype in promise.computed)


def _checked(key: Hashable, one: Variable, dims: tuple[Hashable, ...], lengths: Any, dtype: Any) -> Any:
    value, shape = one.values, tuple(lengths[dim] for dim in dims)
    if value.dtype.kind == dtype.kind and dtype.kind in "SU" and value.dtype.itemsize < dtype.itemsize:
        value = value.astype(dtype)  # shorter text
    if (one.dims, value.shape, value.dtype) != (dims, shape, dtype):
        what = "the array" if type(key).__name__ == "ReprObject" else repr(key)  # an array's own name
        raise ValueError(
            f"the function gave {what} as {value.dtype} of shape {value.shape} along {one.dims}, and the template has "
            f"{dtype} of shape {shape} along {dims}; correct the template or the function"
        )
    return value


def _inferred(func: Any, given: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of the function for objects without elements."""
    try:
        found = called_here(func, *map(_without_elements, given), **kwargs)
    except Exception as error:
        raise ValueError(
            "Cannot infer object returned from running user provided function. Please supply the 'template' kwarg to "
            "map_blocks."
        ) from error
    if not isinstance(found, DataArray | Dataset):
        raise TypeError(f"Function must return an xarray DataArray or Dataset. Instead it returned {type(found)}")
    return found


def _without_elements(obj: Any) -> Any:
    if not isinstance(obj, DataArray | Dataset):
        return obj
    whole, empty = _set_of(obj), {}
    for key, one in whole.variables.items():
        is_lazy = isinstance(one._data, Tensor)
        none = np.empty((0,) * one.ndim, one.dtype) if is_lazy else one[(slice(0),) * one.ndim]._data
        empty[key] = one.dims, none, one.attrs
    found = Dataset(empty, attrs=whole.attrs).set_coords(whole.coords)
    return found if obj is whole else obj._from_temp_dataset(found)


def _inferred_coords(before: Coordinates, template: Any) -> Any:
    """Coordinates of the input that the function keeps, and new coordinates."""
    old = before.to_dataset()[[*(set(template.coords) & set(before))]]
    old = old.drop_vars([key for key in old.variables if key not in template.coords])
    new = template.coords.to_dataset()[[*(set(template.coords) - set(before))]]
    return merge((old, new), join="outer", compat="override").coords


def _merged_coords(given: Sequence[Any]) -> Coordinates:
    some = [one.coords for one in given if isinstance(one, DataArray | Dataset)]
    return merge(some, join="exact", compat="override").coords


def _set_of(obj: Any) -> Dataset:
    found: Dataset = obj if isinstance(obj, Dataset) else obj._to_temp_dataset()
    return found


def has_objects(dtype: Any) -> bool:
    """Whether elements are Python objects, or the dtype is foreign to NumPy."""
    return not isinstance(dtype, np.dtype) or dtype.hasobject


def _tensors_of(obj: Any) -> list[Tensor]:
    variables = _set_of(obj).variables if isinstance(obj, DataArray | Dataset) else {}
    return [one._data for one in variables.values() if isinstance(one._data, Tensor)]
