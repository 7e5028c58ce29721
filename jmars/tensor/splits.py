"""Decides the chunk lengths of an array: from an int, a tuple per axis, explicit lengths, or the memory limit.

Source: docs/explanation/seeds.md, "Chunk graph"; Mars `decide_chunk_sizes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import Any

import numpy as np

from jmars.config import config
from jmars.errors import ChunkSizeError
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Splits
from jmars.units import parse_bytes

COUNTED_BYTES = 8  # bytes of an element at least: counts, positions and means of narrow elements are that wide
UNCUT_BYTES = 2**20  # bytes of a chunk that is not cut
SLIVER = 16  # a chunk this many times shorter than the longest of its axis is a sliver

ChunkSize = Any  # int | None | tuple of (int | None | tuple of int), one per axis


def chunk_boxes(splits: Splits) -> Iterator[tuple[slice, ...]]:
    """Place of each chunk in the whole, in C order of the grid.

    Examples
    --------
    >>> [box[0].start for box in chunk_boxes(((2, 3, 1),))]
    [0, 2, 5]
    """
    return product(*([slice(stop - n, stop) for stop, n in zip(accumulate(axis), axis)] for axis in splits))


def split_axis(length: int, chunk_size: int) -> tuple[int, ...]:
    """Lengths of the chunks that cover an axis.

    Parameters
    ----------
    length
        Elements on the axis, 0 or more.
    chunk_size
        Elements in each chunk, 1 or more; the last chunk may be shorter.

    Returns
    -------
    tuple of int, shape (max(1, ceil(length / chunk_size)),)
        Chunk lengths in elements, in axis order; they sum to `length`.

    Raises
    ------
    ChunkSizeError
        If `chunk_size` is below 1.

    Examples
    --------
    >>> split_axis(10, 4)
    (4, 4, 2)

    Source: docs/explanation/seeds.md, "Chunk graph".
    """
    if chunk_size < 1:
        raise ChunkSizeError(f"chunk_size is {chunk_size}; give 1 element or more, or -1 for the whole axis")
    full, rest = divmod(length, chunk_size)
    return (chunk_size,) * full + ((rest,) if rest or not full else ())


def chunk_bytes() -> int:
    """Default bytes of a chunk: min(`config.chunk_size_limit` (128 MiB), memory limit / (8 * workers))."""
    engine = current_engine()
    if engine is None:
        return config.chunk_size_limit
    memory, workers = engine.limits()
    return max(1, min(config.chunk_size_limit, memory // (8 * max(workers, 1))))


def decide_splits(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunk_size: ChunkSize = None,
    chunks: ChunkSize = None,
    kept: Splits | None = None,
) -> Splits:
    """Decide the lengths of the chunks along every axis.

    Parameters
    ----------
    shape
        Lengths of the axes in elements.
    dtype
        Dtype of the elements, for the automatic size.
    chunk_size, chunks
        Two names of the same setting: an int for all axes; a tuple with an entry per axis: an int, None or -1 (the
        whole axis), "auto", or a tuple of lengths; for an array of one axis also the lengths alone; a dict from axes to
        such entries, other axes None; None or "auto": automatic; a text such as "64MiB": automatic, with that many
        bytes at most.
    kept
        Present chunks of an array that is rechunked: an entry None leaves its axis unchanged.

    Returns
    -------
    tuple of tuple of int
        A tuple of chunk lengths per axis, which sum to the axis's length.

    Raises
    ------
    ChunkSizeError
        If both names are given, or the setting does not fit an array of this shape.

    Examples
    --------
    >>> f8 = np.dtype("f8")
    >>> decide_splits((100,), f8, 30)
    ((30, 30, 30, 10),)
    >>> decide_splits((4, 6), f8, (2, 3))
    ((2, 2), (3, 3))
    >>> decide_splits((4, 6), f8, ((1, 3), -1))
    ((1, 3), (6,))
    >>> decide_splits((1000, 6), f8, ("auto", -1)), decide_splits((1000, 6), f8, "24kB")
    (((1000,), (6,)), ((500, 500), (6,)))
    """
    if chunk_size is not None and chunks is not None:
        raise ChunkSizeError("chunk_size and chunks are two names of the same setting; give only one of them")
    given = chunk_size if chunk_size is not None else chunks
    if isinstance(given, Mapping):
        given = _by_axis(given, len(shape))
    if given is None or isinstance(given, str):
        return _automatic(shape, dtype, _limit(given, dtype), {})
    if isinstance(given, int | np.integer):
        given = (given,) * len(shape)
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ChunkSizeError(f"{given!r} is not a chunk size; give an int, a tuple with one entry per axis, or nothing")
    if len(shape) == 1 and len(given) != 1 and all(isinstance(n, int | np.integer) for n in given):
        given = (tuple(given),)
    if len(given) != len(shape):
        raise ChunkSizeError(
            f"{given!r} has {len(given)} entries, but the array has {len(shape)} axes; give one entry per axis"
        )
    present = kept if kept is not None else [None] * len(shape)
    fixed = {
        axis: cut if entry is None and cut is not None else _axis(shape[axis], entry, given)
        for axis, (entry, cut) in enumerate(zip(given, present))
        if not isinstance(entry, str)
    }
    texts = (_limit(one, dtype) for one in given if isinstance(one, str))
    return _automatic(shape, dtype, min(texts, default=1), fixed)


def _limit(given: str | None, dtype: np.dtype[Any]) -> int:
    """Bytes of a chunk for an automatic size; by default as many elements as of 8 bytes, since results are wider."""
    if given is None or given == "auto":
        return chunk_bytes() * max(dtype.itemsize, 1) // max(dtype.itemsize, COUNTED_BYTES)
    try:
        return parse_bytes(given)
    except ValueError as error:
        raise ChunkSizeError(
            f"{given!r} is not a chunk size: {error}; or give an int, a tuple, 'auto' or nothing"
        ) from error


def _by_axis(given: Mapping[Any, Any], ndim: int) -> tuple[Any, ...]:
    """Convert a dict from axes to entries to a tuple with an entry per axis."""
    wrong = [axis for axis in given if not isinstance(axis, int | np.integer) or not -ndim <= axis < ndim]
    if wrong:
        raise ChunkSizeError(
            f"{dict(given)!r} names the axes {wrong}, but the array has {ndim} axes; name axes by number"
        )
    found: list[Any] = [None] * ndim
    for axis, entry in given.items():
        found[axis] = entry
    return tuple(found)


def _axis(length: int, entry: Any, given: Any) -> tuple[int, ...]:
    """Convert the user's entry for an axis to chunk lengths."""
    if entry is None or (isinstance(entry, int | np.integer) and entry == -1):
        return (length,)
    if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
        return split_axis(length, min(int(entry), max(length, 1)))
    if isinstance(entry, Sequence | np.ndarray) and all(isinstance(n, int | np.integer) for n in entry):
        lengths = tuple(int(n) for n in entry)
        if sum(lengths) == length and all(n > 0 for n in lengths) or lengths == (length,):
            return lengths
        raise ChunkSizeError(
            f"chunk lengths {lengths} do not cover an axis of {length}; give positive lengths that sum to {length}"
        )
    raise ChunkSizeError(
        f"{entry!r} in chunk size {given!r} is neither an int nor a tuple of ints; give an int or a tuple per axis"
    )


def _automatic(shape: tuple[int, ...], dtype: np.dtype[Any], most: int, fixed: Mapping[int, tuple[int, ...]]) -> Splits:
    """Cut an array evenly into chunks of at most `most` bytes, as near to cubes as possible; `fixed` axes are given."""
    row = math.prod(max(lengths, default=1) for lengths in fixed.values())
    limit = max(1, most // max(dtype.itemsize * row, 1))  # elements
    side = {axis: length for axis, length in enumerate(shape) if axis not in fixed}
    if math.prod(side.values()) > limit:
        room, open_axes = float(limit), sorted(side, key=lambda axis: shape[axis])
        for taken, axis in enumerate(open_axes):  # short axes stay whole, so that long axes get longer chunks
            length = max(1, min(shape[axis], int(room ** (1 / (len(open_axes) - taken)) + 1e-9)))
            side[axis] = length
            room = max(1.0, room / length)
    return tuple(fixed[axis] if axis in fixed else evenly(length, side[axis]) for axis, length in enumerate(shape))


def evenly(length: int, most: int) -> tuple[int, ...]:
    """Cut an axis into chunks of nearly equal length, at most `most` elements.

    Examples
    --------
    >>> evenly(10, 4)
    (4, 3, 3)
    """
    if length <= most:
        return (length,)
    parts = -(-length // most)
    each, longer = divmod(length, parts)
    return (each + 1,) * longer + (each,) * (parts - longer)


def common_splits(axes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Find the coarsest splits that contain every cut of all `axes`, axes of the same length.

    Examples
    --------
    >>> common_splits([(30, 30, 40), (50, 50)])
    (30, 20, 10, 40)
    """
    if all(axis == axes[0] for axis in axes):
        return axes[0]
    ends = np.unique(np.concatenate([np.cumsum(axis) for axis in axes]))
    return tuple(int(n) for n in np.diff(ends, prepend=0) if n) or (0,)


def agreed_splits(axes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Choose the splits of a result with inputs cut as `axes`, axes of the same length.

    If all cuts lie near the cuts of the axis with the fewest chunks (among equals the most even), the result is cut
    like that axis, else at every cut of all axes. So shifted slices of an array do not leave a sliver at every cut.

    Examples
    --------
    >>> agreed_splits([(99, 100, 100), (100, 100, 99)]), agreed_splits([(40, 60), (60, 40)])
    ((99, 100, 100), (40, 20, 40))
    """
    if all(axis == axes[0] for axis in axes):
        return axes[0]
    model = min(axes, key=lambda axis: (len(axis), max(axis) - min(axis)))
    ends = np.concatenate([[0], np.cumsum(model)])
    others = np.concatenate([np.cumsum(axis) for axis in axes])
    after = np.minimum(np.searchsorted(ends, others), len(model))
    away = np.minimum(ends[after] - others, others - ends[np.maximum(after - 1, 0)])
    return model if away.max() * SLIVER < max(model) else common_splits(axes)


def are_near(one: Splits, other: Splits) -> bool:
    """Whether two splits of an array have as many chunks, and cuts at most a sliver apart.

    Examples
    --------
    >>> are_near(((99, 100),), ((100, 99),)), are_near(((40, 60),), ((60, 40),))
    (True, False)
    """
    return all(
        len(own) == len(their)
        and min(*own, *their) > 0
        and max(abs(low - high) for low, high in zip(accumulate(own), accumulate(their))) * SLIVER < max(own)
        for own, their in zip(one, other, strict=True)
    )


def without_slivers(axis: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Join slivers to their neighbours where the joined chunk is at most `most` or the longest chunk.

    Examples
    --------
    >>> without_slivers((1, 99, 100, 3), 102), without_slivers((1, 99, 100, 3), 103)
    ((100, 100, 3), (100, 103))
    """
    longest = max(axis)
    found = list(axis[:1])
    for length in axis[1:]:
        joined = found[-1] + length
        if min(found[-1], length) * SLIVER < longest and joined <= max(most, longest):
            found[-1] = joined
        else:
            found.append(length)
    return tuple(found)


def refined(chunks: Splits, fixed: Sequence[int], most: int) -> Splits:
    """Cut chunks further until they have at most `most` elements; axes in `fixed` stay unchanged.

    Chunks stay larger where the `fixed` axes alone exceed `most`.

    Examples
    --------
    >>> refined(((8, 4), (100,)), [1], 500)
    ((4, 4, 4), (100,))
    """
    size = math.prod(max(axis, default=1) for axis in chunks)
    found = list(chunks)
    for axis in sorted(set(range(len(chunks))) - set(fixed), key=lambda axis: -max(chunks[axis], default=1)):
        longest = max(found[axis], default=1)
        if size <= most or longest <= 1:
            continue
        side = max(1, most * longest // size)
        found[axis] = tuple(part for length in found[axis] for part in evenly(length, side))
        size = size // longest * max(found[axis])
    return tuple(found)


def fitted_splits(chunks: Splits, itemsize: int, most_times: int = 1) -> Splits:
    """Cut a result that is larger than the inputs into chunks of the default size, by the leading axes.

    Whole rows in C order stay in a chunk: sorts and sums along the last axis need no other chunks.

    Parameters
    ----------
    chunks
        The cuts of the inputs along each axis.
    itemsize
        Bytes of an element; at least `COUNTED_BYTES` are counted, since masks select wider elements.
    most_times
        Chunks of at most so many times the default size are not cut.
    """
    most, itemsize = [max(cut, default=0) for cut in chunks], max(itemsize, COUNTED_BYTES)
    size = math.prod(most) * itemsize
    if size <= UNCUT_BYTES or size <= most_times * (room := chunk_bytes()):
        return chunks
    found = list(chunks)
    for axis, length in enumerate(most):
        behind = math.prod(most[axis + 1 :]) * itemsize
        here = max(1, min(length, room // max(behind, 1)))
        found[axis] = tuple(n for own in chunks[axis] for n in evenly(own, here))
        if here > 1:
            break
    return tuple(found)
