"""User functions of vectors and neighbourhoods: `apply_along_axis`, `map_overlap`, `sliding_window_view`.

All rechunk their input and call `map_blocks`. Source: dask.array `map_overlap`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ops.blockwise.first_elements import call_with_first, first_element
from jmars.tensor.ops.blockwise.gufuncs import apply_gufunc
from jmars.tensor.ops.blockwise.map_blocks import map_blocks, pickled, unpickled
from jmars.tensor.ops.blockwise.overlap import add_halos, halo_widths
from jmars.tensor.ops.blockwise.single_chunk import single_chunk_along
from jmars.tensor.ops.blockwise.sliding_windows import sliding_windows
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.shape.axes import expand_dims, moveaxis, normal_axis
from jmars.tensor.ops.shape.pad import pad
from jmars.tensor.protocols import offers
from jmars.tensor.steps import share, step
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["apply_along_axis", "apply_over_axes", "map_overlap"]

Array = np.ndarray[Any, Any]
_PADDING = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}  # boundary: NumPy's mode of padding
_GIVE_BOTH = "give apply_along_axis dtype= and shape="


@offers("apply_along_axis")
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, dtype: Any = None,
                     shape: Any = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """`np.apply_along_axis`: calls `func1d(line, *args, **kwargs)` along `axis`, which is brought into a single chunk.

    Parameters
    ----------
    func1d
        Takes a 1-d array and returns a number or an array, whose axes replace `axis`.
    axis, arr
        The axis and the array.
    dtype, shape
        dtype and shape of a result; by default the function is called once more with the first line, as NumPy does.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> apply_along_axis(np.sum, 1, ones((3, 4), chunk_size=2)).fetch().tolist()
    [4.0, 4.0, 4.0]
    """
    x = as_tensor(arr)
    axis = normal_axis(axis, x.ndim)
    if dtype is None or shape is None:
        if 0 in (*x.shape[:axis], *x.shape[axis + 1 :]):
            raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
        first = first_element(moveaxis(x, axis, -1), core=1)
        sample = np.asarray(call_with_first(func1d, [first], _GIVE_BOTH, *args, **kwargs))
        dtype, shape = (sample.dtype if dtype is None else dtype), (sample.shape if shape is None else shape)
    shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
    if len(shape) > 1:
        names = [f"o{i}" for i in range(len(shape))]
        function = partial(_call_line, func1d, args, kwargs)
        value = apply_gufunc(function, f"(i)->({','.join(names)})", moveaxis(x, axis, -1), output_dtypes=[dtype],
                             output_sizes=dict(zip(names, shape)), vectorize=True)  # fmt: skip
        last, first = range(value.ndim - len(shape), value.ndim), range(axis, axis + len(shape))
        return Tensor(moveaxis(value, tuple(last), tuple(first)).data)
    x = single_chunk_along(x, [axis])
    cut = tuple(((*shape, 1)[0],) if i == axis else own for i, own in enumerate(x.chunks))

    def lines(block: Array) -> Array:
        value = np.asarray(np.apply_along_axis(func1d, axis, block, *args, **kwargs))
        return value if shape else np.expand_dims(value, axis)

    value = map_blocks(lines, x, dtype=dtype, chunks=cut, name=getattr(func1d, "__name__", "apply_along_axis"))
    return value if shape else Tensor(value[tuple(0 if i == axis else slice(None) for i in range(x.ndim))].data)


def _call_line(func1d: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], line: Array) -> Any:
    return func1d(line, *args, **kwargs)


@offers("apply_over_axes")
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """`np.apply_over_axes`: applies `func(x, axis)` axis by axis; the number of axes stays."""
    x = as_tensor(a)
    for axis in np.atleast_1d(axes).tolist():
        value = as_tensor(func(x, normal_axis(axis, as_tensor(a).ndim)))
        if value.ndim != x.ndim:
            value = expand_dims(value, normal_axis(axis, x.ndim))
        if value.ndim != x.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        x = value
    return Tensor(x.data)


@offers("map_overlap")
def map_overlap(func: Callable[..., Any], x: Any, depth: Any = 1, boundary: Any = "reflect", *, trim: bool = True,
                dtype: Any = None, name: str | None = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """Calls `func(block, **kwargs)` with blocks that overlap their neighbours, as in Dask.

    Chunks shorter than the depth are joined to neighbours.

    Parameters
    ----------
    func
        Takes a block with its halo and returns an array of the same shape.
    x
        A tensor or array.
    depth
        Elements of halo on each side: an int, a tuple with an int per axis, or a dict by axis.
    boundary
        Values beyond the array: "reflect", "periodic", "nearest", "none" (no halo: blocks at the ends are shorter), or
        a number; for all axes, or a dict by axis.
    trim
        Whether the halo is removed from the results.
    dtype
        dtype of the results; by default the function is called once with ones.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> map_overlap(lambda b: b + np.roll(b, 1), arange(6, chunk_size=3), 1, "periodic").fetch().tolist()
    [5, 1, 3, 5, 7, 9]
    """
    data = as_tensor(x)
    depths = tuple(_per_axis(depth, data.ndim, 0))
    edges = tuple(_per_axis(boundary, data.ndim, "none"))
    data = Tensor(rechunked(data.data, tuple(map(_no_shorter, data.chunks, depths))))
    chunks, inner = data.chunks, list(depths)
    for axis, (n, depth, edge) in enumerate(zip(data.shape, depths, edges)):
        if n < depth:  # the whole axis has too few elements for a halo
            inner[axis] = 0
            data = data if edge == "none" else _padded(data, axis, depth, edge)
    around, whole_blocks = halo_widths(data, tuple(inner), edges), add_halos(data, tuple(inner), edges)
    for axis, (n, depth, edge) in enumerate(zip(map(sum, chunks), depths, edges)):
        if n < depth and edge != "none":
            around[axis] = [(depth, depth)]
    out = chunks if trim else whole_blocks.chunks

    def with_borders(block: Array, block_id: tuple[int, ...]) -> Array:
        value = np.asarray(func(block, **kwargs))
        if not trim:
            return value
        cut = [slice(a, value.shape[i] - b) for i, (a, b) in enumerate(w[k] for w, k in zip(around, block_id))]
        return value[tuple(cut)]

    if dtype is None:
        dtype = np.asarray(unpickled(pickled(func))(np.ones([2 * n + 1 for n in depths], data.dtype), **kwargs)).dtype
    return map_blocks(with_borders, whole_blocks, dtype=dtype, chunks=out, name=name or getattr(func, "__name__", None))


def _no_shorter(lengths: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """Lengths of chunks of an axis, each at least `depth`, or the whole axis.

    Examples
    --------
    >>> _no_shorter((3, 3, 3, 1), 4)
    (6, 4)
    """
    found = [0]
    for n in lengths:
        if found[-1] >= max(depth, 1):
            found.append(n)
        else:
            found[-1] += n
    if len(found) > 1 and found[-1] < depth:
        found[-2:] = [sum(found[-2:])]
    return tuple(found) if min(lengths) < depth else lengths


def _padded(x: Tensor, axis: int, depth: int, edge: Any) -> Tensor:
    """`x` with the halo of both ends of an axis of few elements, in a single chunk along it."""
    widths = [(depth, depth) if i == axis else (0, 0) for i in range(x.ndim)]
    options = {} if edge in _PADDING else {"constant_values": edge}
    wide = pad(x, widths, _PADDING.get(edge, "constant"), **options)
    return Tensor(rechunked(wide.data, (*x.chunks[:axis], (x.shape[axis] + 2 * depth,), *x.chunks[axis + 1 :])))


def _per_axis(given: Any, ndim: int, default: Any) -> list[Any]:
    """Expands a setting to a list with an entry per axis."""
    if isinstance(given, Mapping):
        return [given.get(axis, default) for axis in range(ndim)]
    if isinstance(given, tuple | list):
        if len(given) != ndim:
            raise ValueError(f"{given!r} has {len(given)} entries and the array {ndim} axes; give one for each axis")
        return list(given)
    return [given] * ndim


@offers("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Tensor:  # fmt: skip
    """`np.lib.stride_tricks.sliding_window_view`: read-only windows, which see later writes to `x`.

    Reductions and elementwise functions read the windows where the elements lie; computed windows are copies.

    Raises
    ------
    UnsupportedError
        For `writeable=True`: NumPy writes an element in all windows of the element.
    """
    if writeable:
        raise UnsupportedError("windows cannot be written in jmars; leave writeable=True out, and write to the array")
    data = as_tensor(x)
    sizes = tuple(map(operator.index, window_shape if isinstance(window_shape, tuple | list) else (window_shape,)))
    axes = (
        tuple(range(data.ndim))
        if axis is None
        else np.lib.array_utils.normalize_axis_tuple(axis, data.ndim, allow_duplicate=True)
    )
    if axis is None and len(axes) != len(sizes):
        raise ValueError(f"must provide window_shape for all dimensions of `x`; got {len(sizes)} of {len(axes)}")
    if len(axes) != len(sizes):
        raise ValueError(f"Must provide matching length window_shape and axis; got {len(sizes)} and {len(axes)}")
    windowing = step(
        lambda whole: _all_windows(whole, sizes, axes),
        None,
        lambda layout: np.lib.stride_tricks.sliding_window_view(layout, sizes, axes),
        permutes=True,
    )
    return share(_all_windows(data, sizes, axes), data, windowing)


def _all_windows(x: Tensor, sizes: Sequence[int], axes: Sequence[int]) -> Tensor:
    """Sliding windows along several axes, as new last axes; an axis that occurs again gives windows of windows."""
    if min(sizes, default=0) < 0:
        raise ValueError("`window_shape` cannot contain negative values")
    made = Tensor(x.data)
    if not sizes:
        return made
    together = [list(axes)] if len(set(axes)) == len(axes) else [[axis] for axis in axes]
    left = iter(sizes)
    for group in together:
        own = {axis: int(next(left)) for axis in group}
        if any(size > made.shape[axis] for axis, size in own.items()):
            raise ValueError("window shape cannot be larger than input array shape")
        every = tuple(own.get(axis, 1) for axis in range(made.ndim))
        made = sliding_windows(made, every, (1,) * made.ndim, tuple(group))
    return made
