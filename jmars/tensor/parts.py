"""Parts of tensors: positions kept along the axes, and the operand that computes a part.

An axis of a part is a `range` with a step of 1 or more, or ascending int64 positions; a part is the product of all
axes. The chunks of a part are the chunks of the whole with their kept positions, without the empty chunks, so that an
operand that works chunk by chunk on aligned inputs works on aligned parts. `Operand.part` (operand.py) holds the rule
of a class, optimize/parts.py asks for it.
Source: predicate pushdown (Ullman 1988); docs/decisions/0067-read-what-is-needed.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jmars.tensor.operand import Operand, Splits, TensorMeta

Axis: TypeAlias = range | NDArray[np.int64]
Part: TypeAlias = tuple[Axis, ...]
WORTH = 10 / 11  # share of a tensor; a larger part is computed as the whole
LISTED = 2**14  # positions listed where two parts are joined; more become the range around them
RESHAPED = 2**18  # elements of a group of axes, of computed places


class PartOf(NamedTuple):
    """The operand that computes a part, and the parts of inputs to read."""

    operand: Operand | None  # None: the first part that is read is the result
    reads: Sequence[tuple[int, Part]]  # (number of the input, part)


class SourcePart(NamedTuple):
    """The part of a source that an operand reads."""

    source: Hashable  # equal for equal sources
    whole: TensorMeta  # the tensor of the whole source
    part: Part
    chunks: Splits  # of the part
    pieces: tuple[int, ...] = ()  # lengths of the file's pieces, each read whole; () where not known

    @property
    def nbytes(self) -> int:
        """Bytes of the whole source."""
        return math.prod(self.whole.shape) * self.whole.dtype.itemsize


def positions(axis: Axis) -> NDArray[np.int64]:
    """The kept positions as an array."""
    return np.arange(axis.start, axis.stop, axis.step) if isinstance(axis, range) else axis


def tidy(axis: Axis) -> Axis:
    """The same positions, as a range where the gaps are equal.

    Examples
    --------
    >>> tidy(np.array([2, 5, 8])), tidy(range(8, 1, -3))
    (range(2, 9, 3), range(2, 9, 3))
    """
    n = len(axis)
    if n < 2:
        return range(int(axis[0]), int(axis[0]) + 1) if n else range(0)
    first, step = int(min(axis[0], axis[-1])), abs(int(axis[1]) - int(axis[0]))
    if isinstance(axis, range) or first + (n - 1) * step == axis[-1] and bool((np.diff(axis) == step).all()):
        return range(first, first + (n - 1) * step + 1, step)
    return axis


def pick(axis: Axis, places: Axis) -> Axis:
    """The kept positions at `places`.

    Examples
    --------
    >>> pick(range(10, 20, 2), range(1, 3)), pick(np.array([1, 4, 6]), range(1, 3))
    (range(12, 15, 2), range(4, 7, 2))
    """
    if isinstance(places, range):
        if len(places) == len(axis):
            return tidy(axis)
        return tidy(axis[places.start : places.stop : places.step])
    return tidy(axis.start + axis.step * places if isinstance(axis, range) else axis[places])


def places_of(wanted: Axis, kept: Axis) -> Axis:
    """The places of `wanted` among the positions `kept`, which hold them all.

    Examples
    --------
    >>> places_of(range(12, 17, 4), range(10, 20, 2)), places_of(range(4, 5), np.array([1, 4, 6]))
    (range(1, 4, 2), range(1, 2))
    """
    if not isinstance(kept, range):
        return tidy(np.searchsorted(kept, positions(wanted)))
    if not isinstance(wanted, range):
        return tidy((wanted - kept.start) // kept.step)
    first, step = (wanted.start - kept.start) // kept.step, max(1, wanted.step // kept.step)
    return range(first, first + step * (len(wanted) - 1) + 1, step)


def before_slice(part: Part, index: Sequence[Any], shape: Sequence[int]) -> tuple[Part, tuple[Any, ...]]:
    """The part of an array of `shape` behind a part of its slice, and the index that is still to be applied to it.

    An entry of an index is a number, (start, stop, step), or None for a new axis.

    Examples
    --------
    >>> before_slice((range(2),), ((None, None, -1), 3), (9, 9))
    ((range(7, 9), range(3, 4)), ((None, None, -1), 0))
    """
    own: list[Axis] = []
    rest: list[Any] = []
    axes, lengths = iter(part), iter(shape)
    for entry in index:
        if entry is None:
            next(axes)
            rest.append(None)
        elif isinstance(entry, int):
            own.append(range(entry, entry + 1))
            next(lengths)
            rest.append(0)
        else:
            taken, places = range(next(lengths))[slice(*entry)], next(axes)
            backwards = taken.step < 0
            own.append(pick(taken[::-1], turned_round(places, len(taken))) if backwards else pick(taken, places))
            rest.append((None, None, -1 if backwards and len(places) > 1 else None))
    return tuple(own), tuple(rest)


def turned_round(places: Axis, n: int) -> Axis:
    """Places along an axis of length `n` as places of the axis turned round."""
    if isinstance(places, range):
        return tidy(range(n - 1 - places[-1], n - places[0], places.step))
    return n - 1 - places[::-1]


def within(axis: Axis, low: int, high: int) -> Axis:
    """The kept positions in [low, high), counted from `low`.

    Examples
    --------
    >>> within(range(1, 10, 3), 3, 8), within(np.array([1, 4, 6]), 3, 8)
    (range(1, 5, 3), range(1, 4, 2))
    """
    if isinstance(axis, range):
        first, last = (max(0, min(len(axis), -((axis.start - end) // axis.step))) for end in (low, high))
    else:
        first, last = np.searchsorted(axis, [low, high]).tolist()
    here = axis[first:last]
    return tidy(range(here.start - low, here.stop - low, here.step) if isinstance(here, range) else here - low)


def joined(*axes: Axis) -> Axis:
    """All positions, or the range around them where they are too many to list.

    Examples
    --------
    >>> joined(range(4), range(2, 6), range(6, 9)), joined(range(1), range(9, 10))
    (range(0, 9), range(0, 10, 9))
    """
    different = list({one if isinstance(one, range) else id(one): one for one in axes}.values())
    if len(different) == 1:
        return different[0]
    ranges = [one for one in different if isinstance(one, range) and one.step == 1]
    low, high = min(int(one[0]) for one in different), max(int(one[-1]) for one in different) + 1
    if len(ranges) == len(different):
        ranges.sort(key=lambda one: one.start)
        ends = itertools.accumulate((one.stop for one in ranges), max)
        if all(one.start <= end for one, end in zip(ranges[1:], ends)):
            return range(low, high)
    if sum(map(len, different)) > LISTED:
        return range(low, high)
    return tidy(np.unique(np.concatenate([*map(positions, different)])))


def common(one: Axis, other: Axis) -> Axis:
    """The positions that are in both.

    Examples
    --------
    >>> common(range(0, 20, 4), range(2, 30, 6)), common(range(9), range(9, 12))
    (range(8, 20, 12), range(0, 0))
    >>> common(np.array([1, 4, 6]), range(4, 9))
    range(4, 7, 2)
    """
    if not (isinstance(one, range) and isinstance(other, range)):
        return tidy(np.intersect1d(positions(one), positions(other), assume_unique=True))
    step = math.gcd(one.step, other.step)
    apart, own, others = other.start - one.start, one.step // step, other.step // step
    if apart % step:
        return range(0)
    first = one.start + one.step * (apart // step * pow(own, -1, others) % others)  # on the grid of `other`
    by = one.step * others
    first += max(0, -((first - other.start) // by)) * by
    found = range(first, min(one.stop, other.stop), by)
    return found if len(found) else range(0)


def holds(kept: Axis, wanted: Axis) -> bool:
    """Whether all of `wanted` are among the positions `kept`."""
    if isinstance(kept, range) and kept.step == 1:
        return bool(kept.start <= wanted[0] and wanted[-1] < kept.stop)
    if isinstance(kept, range) and isinstance(wanted, range):
        return wanted[0] in kept and wanted[-1] in kept and (len(wanted) == 1 or wanted.step % kept.step == 0)
    return bool(np.isin(positions(wanted), positions(kept)).all())


def whole(meta: TensorMeta) -> Part:
    """The part that is all of a tensor."""
    return tuple(map(range, meta.shape))


def is_whole(part: Part, meta: TensorMeta) -> bool:
    """Whether a part is all of a tensor."""
    return all(len(axis) == n for axis, n in zip(part, meta.shape, strict=True))


def is_plain(meta: TensorMeta) -> bool:
    """Whether all lengths are known and above 0, so that rules of parts hold."""
    return not meta.has_unknown_lengths and all(map(all, meta.chunks))


def along(part: Part, axes: Sequence[int], meta: TensorMeta) -> Part:
    """The part with lines along `axes` that are whole in a tensor."""
    return tuple(range(n) if i in axes else axis for i, (axis, n) in enumerate(zip(part, meta.shape, strict=True)))


def part_key(part: Part) -> tuple[Hashable, ...]:
    """A key, equal for equal parts."""
    return tuple(axis if isinstance(axis, range) else axis.tobytes() for axis in part)


def pick_part(array: NDArray[Any], part: Part) -> NDArray[Any]:
    """The elements of a part: a view, if the axes are ranges."""
    found = array[
        *(slice(axis.start, axis.stop, axis.step) if isinstance(axis, range) else slice(None) for axis in part), ...
    ]
    for i, axis in enumerate(part):
        found = found if isinstance(axis, range) else found.take(axis, i)
    return found


def is_box(part: Part) -> bool:
    """Whether the kept positions of each axis are contiguous."""
    return all(isinstance(axis, range) and axis.step == 1 for axis in part)


def around(part: Part) -> tuple[range, ...]:
    """The box around a part.

    Examples
    --------
    >>> around((range(2, 9, 3), np.array([1, 2, 6])))
    (range(2, 9), range(1, 7))
    """
    return tuple(range(int(axis[0]), int(axis[-1]) + 1) for axis in part)


def size(part: Part) -> int:
    """Number of elements."""
    return math.prod(map(len, part))


def counts(axis: Axis, lengths: Sequence[int]) -> tuple[int, ...]:
    """Numbers of kept positions in the chunks of an axis; empty chunks are left out.

    Examples
    --------
    >>> counts(range(3, 9, 2), (4, 4, 4)), counts(np.array([0, 1, 9]), (4, 4, 4))
    ((1, 2), (2, 1))
    """
    return tuple(n for n in _counts(axis, lengths) if n)


def touched(axis: Axis, lengths: Sequence[int]) -> tuple[int, ...]:
    """Lengths of the chunks of an axis with kept positions."""
    return tuple(length for length, n in zip(lengths, _counts(axis, lengths), strict=True) if n)


def _counts(axis: Axis, lengths: Sequence[int]) -> Sequence[int]:
    if len(axis) == sum(lengths):
        return lengths
    ends = itertools.accumulate(lengths)
    if isinstance(axis, range):
        start, step, n = axis.start, axis.step, len(axis)
        below = [0, *(0 if end <= start else min(n, -((start - end) // step)) for end in ends)]
    else:
        below = [0, *np.searchsorted(axis, list(ends)).tolist()]
    return [high - low for low, high in itertools.pairwise(below)]


def splits_of(part: Part, meta: TensorMeta) -> Splits:
    """Chunks of a part."""
    return tuple(map(counts, part, meta.chunks))


def in_chunks(axis: Axis, lengths: Sequence[int]) -> list[Axis]:
    """Kept positions by chunk of a part, of the chunks' lengths along the axis."""
    ends = np.cumsum(lengths).tolist()
    return [pick(axis, range(end - n, end)) for end, n in zip(ends, lengths)]


def pieces_read(part: Part, chunks: Splits, pieces: Sequence[int]) -> int:
    """How often pieces of a file, of these lengths, are read for the chunks of a part.

    Examples
    --------
    >>> pieces_read((range(10),), ((5, 5),), (2,)), pieces_read((range(10),), ((6, 4),), (2,))
    (6, 5)
    """
    return math.prod(map(_pieces_along, part, chunks, pieces))


def _pieces_along(axis: Axis, lengths: Sequence[int], n: int) -> int:
    """Pieces of length `n` that chunks of these numbers of positions touch, together."""
    if isinstance(axis, range) and axis.step > n:
        return len(axis)
    ends = np.cumsum(lengths)
    if isinstance(axis, range):
        low, high = axis.start + axis.step * (ends - lengths), axis.start + axis.step * (ends - 1)
        return int((high // n - low // n + 1).sum())
    begins = np.diff(axis // n, prepend=-1) != 0
    begins[ends - lengths] = True
    return int(begins.sum())


def touched_pieces(axis: Axis, n: int) -> Axis:
    """The pieces of length `n` along an axis with kept positions."""
    if isinstance(axis, range) and axis.step <= n:
        return range(axis[0] // n, axis[-1] // n + 1)
    return tidy(np.unique(positions(axis) // n))


def reshaped(part: Part, shape: Sequence[int], other: Sequence[int]) -> Part | None:
    """The smallest part, of an array reshaped from `shape` to `other`, that holds a part; None: not known, too large.

    Examples
    --------
    >>> reshaped((range(2, 4), range(3)), (4, 3), (12,)), reshaped((range(4), range(1)), (4, 3), (2, 2, 3))
    ((range(6, 12),), (range(0, 2), range(0, 2), range(0, 1)))
    """
    found: list[Axis] = [range(n) for n in other]
    for before, after in _groups(shape, other):
        own = [part[axis] for axis in before]
        lengths, becomes = [shape[axis] for axis in before], [other[axis] for axis in after]
        there = _regrouped(own, lengths, becomes)
        if there is None:
            return None
        for axis, kept in zip(after, there, strict=True):
            found[axis] = kept
    return tuple(found)


def _groups(shape: Sequence[int], other: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes of both shapes longer than 1, in the shortest groups of equally many elements."""
    one, two = ([axis for axis, n in enumerate(lengths) if n > 1] for lengths in (shape, other))
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(one):
        k, m = i + 1, j + 1
        while (left := math.prod(shape[a] for a in one[i:k])) != (right := math.prod(other[a] for a in two[j:m])):
            k, m = (k + 1, m) if left < right else (k, m + 1)
        found.append((one[i:k], two[j:m]))
        i, j = k, m
    return found


def _regrouped(own: list[Axis], lengths: list[int], becomes: list[int]) -> list[Axis] | None:
    """A part of a group of axes as positions along the axes that the group becomes."""
    if all(len(axis) == n for axis, n in zip(own, lengths, strict=True)):
        return [range(n) for n in becomes]
    if len(own) == len(becomes) == 1:
        return own
    first, row, other_row = own[0], math.prod(lengths[1:]), math.prod(becomes[1:])
    if isinstance(first, range) and first.step == 1 and all(len(a) == n for a, n in zip(own[1:], lengths[1:])):
        low, high = first.start * row, first.stop * row
        if low % other_row == 0 == high % other_row:
            return [range(low // other_row, high // other_row), *map(range, becomes[1:])]
    if size(tuple(own)) > RESHAPED:
        return None
    flat = np.ravel_multi_index(np.ix_(*map(positions, own)), lengths).reshape(-1)
    return [tidy(np.unique(one)) for one in np.unravel_index(flat, becomes)]
