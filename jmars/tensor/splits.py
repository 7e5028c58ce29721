"""How an array is cut: int, per-axis tuple, explicit splits, or by the memory that there is.

Used by every operand that makes chunks of its own. Source: seed 000, "Graph Preparation" (`chunk_size`); Mars
`decide_chunk_sizes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jmars.config import config
from jmars.errors import ChunkSizeError
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Splits
from jmars.units import parse_bytes

__all__ = [
    "ChunkSize",
    "agreed_splits",
    "chunk_bytes",
    "common_splits",
    "decide_splits",
    "evenly",
    "refined",
    "split_axis",
    "without_slivers",
]

SLIVER = 16  # a chunk this many times shorter than the longest of its axis is a sliver

ChunkSize = Any  # int | None | tuple of (int | None | tuple of int), one per axis


def split_axis(length: int, chunk_size: int) -> tuple[int, ...]:
    """Lengths of the chunks that cover one axis.

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

    Source: seed 000, "Graph Preparation".
    """
    if chunk_size < 1:
        raise ChunkSizeError(f"a chunk of {chunk_size} elements cuts no axis; give 1 or more, or -1 for the whole axis")
    full, rest = divmod(length, chunk_size)
    return (chunk_size,) * full + ((rest,) if rest or not full else ())


def chunk_bytes() -> int:
    """Bytes of a chunk where the user gives no size: min(128 MiB, memory limit / (8 workers))."""
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
    """Lengths of the chunks on every axis.

    Parameters
    ----------
    shape
        Elements on each axis.
    dtype
        Of the elements, for the automatic size.
    chunk_size, chunks
        Two names of one setting: an int for all axes; a tuple with an int, None or -1 (the whole axis), "auto", or the
        lengths themselves for each axis; for one axis also its lengths; a dict of these by axis, the others None; None
        or "auto": automatic; a text such as "64MiB": automatic, with chunks of at most so many bytes.
    kept
        How an array is cut by now: None as an entry then leaves that axis as it is.

    Returns
    -------
    tuple of tuple of int
        One tuple per axis; each sums to the axis's length.

    Raises
    ------
    ChunkSizeError
        If both are given, or what is given cuts no array of this shape.

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
        raise ChunkSizeError("chunk_size and chunks are two names of one setting and both are given; give one of them")
    given = chunk_size if chunk_size is not None else chunks
    if isinstance(given, Mapping):
        given = _by_axis(given, len(shape))
    if given is None or isinstance(given, str):
        return _automatic(shape, dtype, _limit(given), {})
    if isinstance(given, int | np.integer):
        given = (given,) * len(shape)
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ChunkSizeError(f"{given!r} is no chunk size; give an int, a tuple with one entry per axis, or nothing")
    if len(shape) == 1 and len(given) != 1 and all(isinstance(n, int | np.integer) for n in given):
        given = (tuple(given),)
    if len(given) != len(shape):
        raise ChunkSizeError(
            f"{given!r} has {len(given)} entries and the array {len(shape)} axes; give one entry per axis"
        )
    told = kept if kept is not None else [None] * len(shape)
    fixed = {
        axis: cut if entry is None and cut is not None else _axis(shape[axis], entry, given)
        for axis, (entry, cut) in enumerate(zip(given, told))
        if not isinstance(entry, str)
    }
    return _automatic(shape, dtype, min((_limit(one) for one in given if isinstance(one, str)), default=1), fixed)


def _limit(given: str | None) -> int:
    """Bytes of a chunk that is cut automatically."""
    if given is None or given == "auto":
        return chunk_bytes()
    try:
        return parse_bytes(given)
    except ValueError as error:
        raise ChunkSizeError(
            f"{given!r} is no chunk size: {error}; or give an int, a tuple, 'auto' or nothing"
        ) from error


def _by_axis(given: Mapping[Any, Any], ndim: int) -> tuple[Any, ...]:
    """Entries of a dict by axis as one entry for each axis."""
    wrong = [axis for axis in given if not isinstance(axis, int | np.integer) or not -ndim <= axis < ndim]
    if wrong:
        raise ChunkSizeError(f"{dict(given)!r} names the axes {wrong} and the array has {ndim}; name axes by number")
    found: list[Any] = [None] * ndim
    for axis, entry in given.items():
        found[axis] = entry
    return tuple(found)


def _axis(length: int, entry: Any, given: Any) -> tuple[int, ...]:
    """Splits of one axis as the user gave them."""
    if entry is None or (isinstance(entry, int | np.integer) and entry == -1):
        return (length,)
    if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
        return split_axis(length, min(int(entry), max(length, 1)))
    if isinstance(entry, Sequence | np.ndarray) and all(isinstance(n, int | np.integer) for n in entry):
        lengths = tuple(int(n) for n in entry)
        if sum(lengths) == length and all(n > 0 for n in lengths) or lengths == (length,):
            return lengths
        raise ChunkSizeError(f"splits {lengths} do not cover an axis of {length}; give positive lengths that sum to it")
    raise ChunkSizeError(
        f"{entry!r} in chunk size {given!r} is no int and no tuple of ints; give one of those per axis"
    )


def _automatic(shape: tuple[int, ...], dtype: np.dtype[Any], most: int, fixed: Mapping[int, tuple[int, ...]]) -> Splits:
    """Even chunks of at most `most` bytes, as near to cubes as the shape allows; those in `fixed` are cut so."""
    row = math.prod(max(lengths, default=1) for lengths in fixed.values())
    limit = max(1, most // max(dtype.itemsize * row, 1))  # elements
    side = {axis: length for axis, length in enumerate(shape) if axis not in fixed}
    if math.prod(side.values()) > limit:
        room, open_axes = float(limit), sorted(side, key=lambda axis: shape[axis])
        for taken, axis in enumerate(open_axes):  # short axes stay whole and leave their room to the others
            length = max(1, min(shape[axis], int(room ** (1 / (len(open_axes) - taken)) + 1e-9)))
            side[axis] = length
            room = max(1.0, room / length)
    return tuple(fixed[axis] if axis in fixed else evenly(length, side[axis]) for axis, length in enumerate(shape))


def evenly(length: int, most: int) -> tuple[int, ...]:
    """Chunks of nearly one length, none above `most`.

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
    """The coarsest splits that cut nowhere inside a chunk of any of `axes` (all of one length).

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
    """How to cut what is made of arrays cut as `axes` (all of one length).

    As one of them, the most even of those in fewest chunks, where all the others cut near its cuts only, or else as
    finely as all together: shifted slices of an array would otherwise give a sliver at each cut.

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


def without_slivers(axis: tuple[int, ...], most: int) -> tuple[int, ...]:
    """`axis` with its slivers joined to their neighbours, where they are not longer than `most` or the longest then.

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
    """`chunks` cut further until none has more than `most` elements; axes in `fixed` stay as they are.

    A chunk that `fixed` axes alone make larger is left so.

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
