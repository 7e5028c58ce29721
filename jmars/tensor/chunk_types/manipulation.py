"""Array manipulation for duck arrays: slices, rechunking, transposition, concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types.array_libraries import LibraryFunction, dtype_of, join_blocks
from jmars.tensor.chunk_types.duck_tensor import (
    FUNCTIONS,
    DuckTensor,
    as_duck_tensor,
    implements,
    input_of,
    probed_array,
    result_array,
    sample_of,
)
from jmars.tensor.chunk_types.on_chunks import ChunkCall, grid_indices
from jmars.tensor.operand import Splits
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.index.basic_indexing import AxisSlice, axis_slices
from jmars.tensor.ops.index.getitem import Index
from jmars.tensor.splits import common_splits, decide_splits
from jmars.tensor.tensor import Tensor

__all__ = ["chunk_numbers", "concatenate", "getitem", "permute_dims", "rechunk_to"]


def chunk_numbers(x: DuckTensor | Tensor) -> Any:
    """Return the numbers of an array's chunks in C order, shape = chunks along each axis."""
    counts = tuple(map(len, x.chunks))
    return np.arange(math.prod(counts)).reshape(counts)


def _within(part: AxisSlice, step: int) -> tuple[int, int | None, int]:
    """Return (start, stop, step) of a slice within its chunk, as the array API standard allows."""
    last = part.start + (part.taken - 1) * step
    if not part.taken:
        return 0, 0, 1
    return part.start, last + 1 if step > 0 else (last - 1 if last else None), step


def _indexed(block: Any, index: tuple[Any, ...]) -> Any:
    return block[tuple(slice(*entry) if isinstance(entry, tuple) else entry for entry in index)]


@implements("getitem")
def getitem(x: DuckTensor, index: Any) -> DuckTensor | Tensor:
    """Index with slices, ints, None and Ellipsis; a chunk that the index takes as a whole is not copied.

    Raises
    ------
    UnsupportedError
        For an index of arrays.
    """
    meaning = Index.of(index, x.shape)
    if meaning.arrays:
        raise UnsupportedError("jmars does not index arrays of other libraries with arrays; use x.todense()[index]")
    entries = meaning.basic
    axes = [entry for entry in entries if entry is not None]
    parts = [axis_slices(cut, entry) for cut, entry in zip(x.chunks, axes, strict=True)]
    steps = [1 if isinstance(entry, int) or entry.step is None else int(entry.step) for entry in axes]
    own = iter(zip(axes, parts))
    chunks: list[tuple[int, ...]] = []
    for entry in entries:
        there = None if entry is None else next(own)
        if there is None or isinstance(there[0], slice):
            chunks.append((1,) if there is None else tuple(part.taken for part in there[1]))
    numbers = chunk_numbers(x)
    _, shapes = grid_indices(tuple(chunks))
    calls = []
    for number, at in enumerate(np.ndindex(*map(len, parts))):
        taken = [own[i] for own, i in zip(parts, at)]
        box = iter(zip(axes, taken, steps))
        local: list[Any] = []
        for entry in entries:
            if entry is None:
                local.append(None)
                continue
            axis, part, step = next(box)
            local.append(part.start if isinstance(axis, int) else _within(part, step))
        whole = all(isinstance(entry, slice) for entry in entries) and all(
            part.taken == part.length and step == 1 for part, step in zip(taken, steps)
        )
        read = ((0, int(numbers[tuple(part.chunk for part in taken)])),)
        calls.append(ChunkCall(read, None if whole else (tuple(local),), shapes[number]))
    first = tuple(0 if isinstance(entry, int) else entry if entry is None else slice(None) for entry in entries)
    sample = probed_array("getitem", lambda block: block[first], x.sample, ndim=len(chunks))
    if chunks:
        small = tuple(slice(0, min(2, sum(cut))) for cut in chunks)
        sample = probed_array("getitem", lambda block: block[small], sample, ndim=len(chunks))
    return result_array("getitem", _indexed, [input_of(x)], calls, tuple(chunks), sample)


def _pieces(*given: Any) -> Any:
    """Slice blocks and join the pieces; the last two arguments are the slices and the number of pieces per axis."""
    *blocks, boxes, counts = given
    return join_blocks([_indexed(block, box) for block, box in zip(blocks, boxes, strict=True)], counts)


def rechunk_to(x: Any, chunks: Splits) -> Any:
    """Rechunk an array to `chunks`; a tensor stays a tensor."""
    if x.chunks == chunks:
        return x
    if isinstance(x, Tensor):
        return Tensor(rechunked(x.data, chunks))
    numbers, stops = chunk_numbers(x), [np.cumsum(cut).tolist() for cut in x.chunks]
    ends = [np.cumsum(cut).tolist() for cut in chunks]
    where, shapes = grid_indices(chunks)
    calls = []
    for place, lengths in zip(where, shapes):
        covers = []  # for each axis: (chunk, start, stop within the chunk)
        for axis, (i, length) in enumerate(zip(place, lengths)):
            low, high = ends[axis][i] - length, ends[axis][i]
            begins = [stop - n for stop, n in zip(stops[axis], x.chunks[axis])]
            cover = [
                (k, max(low, a) - a, min(high, b) - a)
                for k, (a, b) in enumerate(zip(begins, stops[axis]))
                if max(low, a) < min(high, b)
            ]
            covers.append(cover or [(0, 0, 0)])
        reads, boxes = [], []
        for at in np.ndindex(*map(len, covers)):
            taken = [cover[i] for cover, i in zip(covers, at)]
            reads.append((0, int(numbers[tuple(k for k, _, _ in taken)])))
            boxes.append(tuple((a, b, 1) for _, a, b in taken))
        calls.append(ChunkCall(tuple(reads), (tuple(boxes), tuple(map(len, covers))), lengths))
    probed_array("rechunk", lambda block: join_blocks([block, block], (2,)), x.sample, ndim=x.ndim)
    return result_array("rechunk", _pieces, [input_of(x)], calls, chunks, x.sample)


@implements("rechunk")
def rechunk(x: DuckTensor, chunk_size: Any = None, chunks: Any = None) -> DuckTensor | Tensor:
    """Change the chunk sizes; settings as for tensors."""
    found: DuckTensor | Tensor = rechunk_to(x, decide_splits(x.shape, x.dtype, chunk_size, chunks))
    return found


@implements("permute_dims", "transpose")
def permute_dims(x: Any, axes: Any = None, *more: int) -> DuckTensor | Tensor:
    """Reorder the axes; by default reverse them."""
    given = (axes, *more) if more or isinstance(axes, int | np.integer) else axes
    x = as_duck_tensor(x)
    order = tuple(range(x.ndim))[::-1] if given is None else np.lib.array_utils.normalize_axis_tuple(given, x.ndim)
    if len(order) != x.ndim:
        raise ValueError("axes don't match array")
    chunks = tuple(x.chunks[axis] for axis in order)
    _, shapes = grid_indices(chunks)
    turned = chunk_numbers(x).transpose(order).reshape(-1).tolist()
    calls = [ChunkCall(((0, number),), (order,), shape) for number, shape in zip(turned, shapes)]
    sample = probed_array(
        "transpose", lambda block: LibraryFunction("permute_dims")(block, order), sample_of(x), ndim=x.ndim
    )
    return result_array("transpose", LibraryFunction("permute_dims"), [input_of(x)], calls, chunks, sample)


@implements("swapaxes")
def swapaxes(x: Any, axis1: int, axis2: int) -> DuckTensor | Tensor:
    """Swap two axes."""
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return permute_dims(x, order)


@implements("matrix_transpose")
def matrix_transpose(x: Any) -> DuckTensor | Tensor:
    """Swap the last two axes."""
    return swapaxes(x, -1, -2)


@implements("expand_dims")
def expand_dims(x: DuckTensor, axis: Any) -> DuckTensor | Tensor:
    """Insert axes of length 1."""
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    new = np.lib.array_utils.normalize_axis_tuple(axes, x.ndim + len(axes))
    return getitem(x, tuple(None if i in new else slice(None) for i in range(x.ndim + len(new))))


@implements("squeeze")
def squeeze(x: DuckTensor, axis: Any = None) -> DuckTensor | Tensor:
    """Remove axes of length 1."""
    found = (
        tuple(i for i, n in enumerate(x.shape) if n == 1)
        if axis is None
        else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    )
    if any(x.shape[i] != 1 for i in found):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return getitem(x, tuple(0 if i in found else slice(None) for i in range(x.ndim))) if found else x


@implements("concat", "concatenate")
def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> DuckTensor | Tensor:
    """Concatenate arrays along an axis; no chunk is copied."""
    if axis is None:
        raise UnsupportedError("jmars has no concatenate(axis=None) for arrays of other libraries; name an axis")
    given = [as_duck_tensor(x) for x in arrays]
    along = np.lib.array_utils.normalize_axis_index(axis, given[0].ndim)
    kinds = {type(sample_of(x)) for x in given}
    if len(kinds) > 1:
        raise UnsupportedError(
            f"concatenate takes arrays of one type, not {' and '.join(sorted(k.__name__ for k in kinds))}; convert them"
        )
    sides = [None if i == along else common_splits([x.chunks[i] for x in given]) for i in range(given[0].ndim)]
    if any(x.ndim != len(sides) for x in given) or any(
        cut is not None and x.shape[i] != sum(cut) for x in given for i, cut in enumerate(sides)
    ):
        raise ValueError(
            f"all the input array dimensions except for axis {axis} must match: {[x.shape for x in given]}"
        )
    both = probed_array("concatenate", _beside, *map(sample_of, given), along, ndim=len(sides))
    dtype = dtype_of(both)
    cast = [x if x.dtype == dtype else FUNCTIONS["astype"](x, dtype) for x in given]
    ready = [rechunk_to(x, tuple(x.chunks[i] if cut is None else cut for i, cut in enumerate(sides))) for x in cast]
    chunks = tuple(sum((x.chunks[along] for x in ready), ()) if cut is None else cut for cut in sides)
    reads = np.concatenate(
        [np.stack([np.full(chunk_numbers(x).shape, k), chunk_numbers(x)], axis=-1) for k, x in enumerate(ready)],
        axis=along,
    )
    calls = [ChunkCall(((k, number),), None) for k, number in reads.reshape(-1, 2).tolist()]
    return result_array(
        "concatenate",
        _beside,
        [*map(input_of, ready)],
        calls,
        chunks,
        both[tuple(slice(0, min(2, n)) for n in both.shape)],
    )


def _beside(*given: Any) -> Any:
    """Concatenate blocks along an axis, which is the last argument."""
    *blocks, axis = given
    return LibraryFunction("concat")(blocks, axis=axis)
