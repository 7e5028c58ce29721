"""`reshape` and `ravel`.

Groups of axes become groups of axes: (4, 6, 5) to (24, 5) leaves the last axis alone. Within a group the chunks are
rechunked to contiguous runs of elements in C order, the runs are rechunked for the new shape, then reshaped.
Source: `dask.array.reshape` (the grouping of axes).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from jmars.tensor.buffers import ViewStep, can_ravel, can_reshape, layout_of, normal_copy, normal_order, reshaped_layout
from jmars.tensor.operand import Splits
from jmars.tensor.ops.chunks.rechunk import rechunk
from jmars.tensor.ops.shape.axes import reshape_chunks, transpose
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, chunk_bytes, split_axis
from jmars.tensor.steps import share, step
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["merge_axes", "ravel", "reshape"]

SMALL = 2**16  # elements; chunks may grow to this size to keep rows whole
Array = np.ndarray[Any, Any]
Group = tuple[tuple[int, ...], tuple[int, ...]]  # lengths of the old axes and of the new axes


@offers("reshape")
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None, chunk_size: ChunkSize = None,
            chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.reshape` in C order or, through two transposes, in Fortran order.

    Parameters
    ----------
    a
        Any array.
    shape
        The new lengths; at most one may be -1.
    order
        "C" or "F"; "A" is "F" where `a` would lie in that order in NumPy's memory and not in C order, else "C".
    chunk_size, chunks
        Chunks of the result; by default as similar to the chunks of `a` as runs of elements allow.

    Raises
    ------
    ValueError
        If the sizes differ.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> reshape(arange(12, chunk_size=6), (4, 3)).chunks
    ((2, 2), (3,))
    """
    x, copy = as_tensor(a), normal_copy(copy)
    whole = x.shape if shape is None else _full_shape(shape, x)
    order = normal_order(order, "C")
    if order == "K":
        raise ValueError("order 'K' is not permitted for reshaping")
    if order == "F" or order == "A" and _is_fortran(x):
        return transpose(reshape(transpose(a), whole[::-1], copy=copy, chunk_size=chunk_size, chunks=chunks))
    if whole == x.shape:
        result = Tensor(x.data)
    elif not x.size:
        result = _empty(whole, x.dtype)
    else:
        groups = _axis_groups(x.shape, whole)
        cuts = _group_splits(x.chunks, groups)
        sizes = [math.prod(map(max, cut)) for cut in cuts]  # elements of a chunk along each group
        limit = max(math.prod(sizes), min(chunk_bytes() // x.itemsize, SMALL))
        limits = [limit * size // math.prod(sizes) for size in sizes]
        cuts = [cut if _is_contiguous(cut) else _run_splits(cut, n) for cut, n in zip(cuts, limits)]
        runs = rechunk(x, chunks=tuple(lengths for cut in cuts for lengths in cut))
        flat = tuple(map(_run_lengths, cuts))
        wanted = [_splits_of_runs(cut, after, n) for cut, (_, after), n in zip(flat, groups, limits)]
        final = tuple(lengths for cut in wanted for lengths in cut)
        between = tuple(map(_run_lengths, wanted))
        if between == flat:
            result = reshape_chunks(runs, final)
        else:
            result = reshape_chunks(rechunk(reshape_chunks(runs, flat), chunks=between), final)
    if chunk_size is not None or chunks is not None:
        result = rechunk(result, chunk_size, chunks)
    if copy or not can_reshape(x._place, whole):
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")  # NumPy's words
        made = Tensor(result.data)
        made._place.buffer.is_array = True
        return made
    return share(result, a, _reshaping(whole, chunk_size, chunks))


def _reshaping(shape: tuple[int, ...], chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> ViewStep:
    def layout(array: Array) -> Array:
        found = reshaped_layout(array, shape)
        assert found is not None
        return found

    def back(whole: Tensor, part: Tensor) -> Tensor:
        return rechunk(reshape(part, whole.shape), chunks=whole.chunks)

    return step(lambda whole: reshape(whole, shape, chunk_size=chunk_size, chunks=chunks), back, layout)


def merge_axes(x: Tensor, first: int, count: int) -> Tensor:
    """Merges `count` axes from `first` on into one axis."""
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : first + count]), *x.shape[first + count :]))


@offers("ravel")
def ravel(a: Any, order: str = "C") -> Tensor:
    """`np.ravel`: flattens an array; in order "K", in which the elements would lie in NumPy's memory."""
    x = as_tensor(a)
    order = normal_order(order, "C")
    if order == "K" and (axes := _axes_in_memory(x)) != [*range(x.ndim)]:
        return ravel(transpose(a, axes))
    order = "F" if order == "A" and _is_fortran(x) else "C" if order in ("A", "K") else order
    flat = reshape(a, -1, order)
    shares = can_ravel(x._place, order)
    return flat if shares or not isinstance(a, Tensor) else Tensor(flat.data)


@offers("method.flat")
def flat_view(x: Tensor) -> Tensor:
    """`x.flat`: the elements in C order, as a view whatever the order in memory."""
    flattening = step(
        lambda whole: reshape(whole, -1),
        lambda whole, part: rechunk(reshape(part, whole.shape), chunks=whole.chunks),
        lambda array: np.empty(0, array.dtype),
        copies_parts=True,
    )
    return share(Tensor(reshape(x, -1).data), x, flattening)


def _is_fortran(x: Tensor) -> bool:
    """Whether the elements would lie in Fortran order in NumPy's memory, and not in C order."""
    layout = layout_of(x._place)
    return layout is not None and layout.flags.f_contiguous and not layout.flags.c_contiguous


def _axes_in_memory(x: Tensor) -> list[int]:
    """The axes; neighbours along the first axis would lie farthest apart in NumPy's memory."""
    layout = layout_of(x._place)
    if layout is None or layout.flags.c_contiguous:
        return [*range(x.ndim)]
    inner: list[int] = []  # axes, the nearest in memory first
    for axis in reversed(range(x.ndim)):
        place, stride = len(inner), abs(layout.strides[axis])
        for at in reversed(range(len(inner))):  # broadcast axes stay where they are, as in NumPy's iterators
            other = abs(layout.strides[inner[at]])
            if stride and other:
                if other <= stride:
                    break
                place = at
        inner.insert(place, axis)
    return inner[::-1]


def _full_shape(shape: Any, x: Tensor) -> tuple[int, ...]:
    """Normalises a new shape, with -1 replaced; raises ValueError as NumPy does."""
    whole = [operator.index(n) for n in shape] if np.iterable(shape) else [operator.index(shape)]
    whole = [max(n, -1) for n in whole]  # NumPy takes any negative length for an unknown one
    if whole.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if -1 in whole:
        known = math.prod(n for n in whole if n != -1)
        if known:
            whole[whole.index(-1)] = x.size // known
    if math.prod(whole) != x.size or min(whole, default=0) < 0:
        np.broadcast_to(np.zeros((), bool), x.shape).reshape(shape)  # NumPy's own words
        raise ValueError(f"cannot reshape array of size {x.size} into shape {tuple(whole)}")
    return tuple(whole)


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    return as_tensor(np.empty(shape, dtype), chunks=tuple((n,) for n in shape))


def _axis_groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[Group]:
    """Divides old and new axes into the shortest groups of equal size, in order.

    Examples
    --------
    >>> _axis_groups((4, 6, 5), (24, 5))
    [((4, 6), (24,)), ((5,), (5,))]
    """
    found: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        start_old, start_new = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (left := math.prod(old[start_old:i])) != (right := math.prod(new[start_new:j])):
            if left < right:
                i += 1
            else:
                j += 1
        found.append((old[start_old:i], new[start_new:j]))
    return found


def _group_splits(splits: Splits, groups: list[Group]) -> list[Splits]:
    """Splits of the old axes of each group."""
    found, at = [], 0
    for before, _ in groups:
        found.append(splits[at : at + len(before)])
        at += len(before)
    return found


def _is_contiguous(cut: Splits) -> bool:
    """Whether each chunk is contiguous in C order: chunks of length 1, then any divided axis, then undivided axes."""
    first = next((i for i, lengths in enumerate(cut) if max(lengths) > 1), len(cut))
    return all(len(lengths) == 1 for lengths in cut[first + 1 :])


def _run_splits(cut: Splits, limit: int) -> Splits:
    """Splits of the same axes into contiguous runs of about `limit` elements; keeps splits of an axis that fit."""
    shape = tuple(map(sum, cut))
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) > limit:
        axis += 1
    row = math.prod(shape[axis + 1 :])
    fits = max(cut[axis]) * row <= limit and len(cut[axis]) > 1
    lengths = cut[axis] if fits else split_axis(shape[axis], max(1, limit // max(row, 1)))
    return (*((1,) * n for n in shape[:axis]), lengths, *((n,) for n in shape[axis + 1 :]))


def _run_lengths(cut: Splits) -> tuple[int, ...]:
    """Number of elements of each chunk of a group, in C order."""
    lengths = np.ones((), np.int64)
    for axis in cut:
        lengths = lengths[..., None] * np.asarray(axis, np.int64)
    return tuple(lengths.reshape(-1).tolist())


def _splits_of_runs(flat: tuple[int, ...], shape: tuple[int, ...], limit: int) -> Splits:
    """Splits of `shape` into runs of the lengths `flat` if possible, else of about `limit` elements."""
    if len(shape) == 0:
        return ()
    if shape[0] == 1 and len(shape) > 1:
        return ((1,), *_splits_of_runs(flat, shape[1:], limit))
    row = math.prod(shape[1:])
    if all(n % row == 0 for n in flat):
        return (tuple(n // row for n in flat), *((n,) for n in shape[1:]))
    return _run_splits(tuple((n,) for n in shape), limit)
