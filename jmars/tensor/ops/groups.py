"""Reductions of groups as a single operand: sums, means and the like of elements with equal codes.

The codes are known when the graph is built. A chunk is reduced to states of the groups that it holds, and a chunk of
the result joins those that hold its groups, by a tree; where states are no smaller than chunks, it joins chunks.
xarray's `groupby` and `resample` use it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.config import config
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, new_data
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_starts
from jmars.tensor.parts import Part, PartOf, positions, tidy
from jmars.tensor.splits import chunk_bytes, split_axis
from jmars.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
GROUPED = ("sum", "prod", "count", "mean", "var", "std", "min", "max", "any", "all")
LINES = 2**20  # elements that the leaf of a reduction of groups takes at a time
CHUNKS = 8  # so many times more chunks than states are joined at a time, if they are no more bytes than a chunk may be
STATES_SHARE = 4  # chunks that are so many times larger than the states of their groups are reduced to these first


@dataclass(frozen=True, eq=False)
class GroupReduction(Operand):
    """Reduces the elements of all groups; the groups are the first axis, before the axes that are kept."""

    function: str
    axes: tuple[int, ...]  # that the codes lie along
    codes: NDArray[np.int64]  # the group of each place, -1 for none
    skips: bool  # leaves NaN out
    ddof: float
    combine_size: int
    name: ClassVar[str] = "groups"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function, axes and codes."""
        codes = self.codes.shape, self.codes.tobytes()
        return ("groups", self.function, self.axes, codes, self.skips, self.ddof, self.combine_size)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The part along the kept axes, and of the places of the kept groups if the codes have a single axis."""
        (meta,) = inputs
        groups, *rest = kept
        number = np.full(output.shape[0] + 1, -1)  # the last stands for no group
        number[positions(groups)] = np.arange(len(groups))
        codes, own = number[self.codes], iter(rest)
        reads = [range(n) if i in self.axes else next(own) for i, n in enumerate(meta.shape)]
        if codes.ndim == 1:
            places = np.flatnonzero(codes >= 0) if (codes >= 0).any() else np.zeros(1, np.int64)
            reads[self.axes[0]], codes = tidy(places), codes[places]
        return PartOf(replace(self, codes=codes), [(0, tuple(reads))])

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a tree per chunk of the result, over chunks, or over small states of chunks."""
        (source,) = inputs
        kept = [i for i in range(len(source.splits)) if i not in self.axes]
        kinds, which = chunk_classes([source.splits[i] for i in kept])
        tree = _GroupTree(self, builder, source, output.dtype, kinds, which.reshape(-1))
        rows = source.ids.transpose([*self.axes, *kept]).reshape(-1, which.size)
        chunks, places = [], 0
        for ids, box in zip(rows, _boxes(source.splits, self.axes)):
            codes = self.codes[box]
            held = np.unique(codes[codes >= 0])
            if len(held):
                chunks.append(_Held(held, ids, codes))
                places += codes.size * source.dtype.itemsize
        state = _states(self.function, source.dtype, 1, ()).nbytes
        if sum(len(one.groups) for one in chunks) * state * STATES_SHARE <= places:
            chunks = [_Held(one.groups, tree.add([one], one.groups, False), None) for one in chunks]
        found, low = np.empty(output.grid, np.int64), 0
        for k, n in enumerate(output.chunks[0]):
            mine = [one for one in chunks if one.groups[-1] >= low and one.groups[0] < low + n]
            found[k] = tree.result(mine, np.arange(low, low + n)).reshape(found[k].shape)
            low += n
        return found


class _Held(NamedTuple):
    """A chunk along the axes that are reduced, or states: groups, numbers by other axes, and codes of a chunk."""

    groups: NDArray[np.int64]
    ids: NDArray[np.int64]
    codes: NDArray[np.int64] | None


@dataclass
class _GroupTree:
    """Adds the operands of a reduction of groups."""

    op: GroupReduction
    builder: ChunkGraphBuilder
    source: ChunkGrid
    dtype: np.dtype[Any]
    kinds: list[tuple[int, ...]]
    which: NDArray[np.int64]

    def result(self, held: list[_Held], whole: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the chunks of the result that have the groups `whole`."""
        while True:
            packs = self._packs(held)
            last = len(packs) <= 1
            joined = []
            for pack in packs or [[]]:
                groups = whole if last else np.intersect1d(np.concatenate([one.groups for one in pack]), whole)
                joined.append(_Held(groups, self.add(pack, groups, last), None))
            held = joined
            if last:
                return held[0].ids

    def _packs(self, held: list[_Held]) -> list[list[_Held]]:
        """Chunks or states that an operand joins."""
        widest = max(map(math.prod, self.kinds))
        packs: list[list[_Held]] = []
        room = 0
        for one in held:
            most = max(2, self.op.combine_size)
            if one.codes is None:
                size = widest * self._state(len(one.groups)).nbytes
            else:
                size, most = widest * one.codes.size * self.source.dtype.itemsize, CHUNKS * most
            if not packs or len(packs[-1]) >= most or room < size and len(packs[-1]) > 1:
                packs.append([])
                room = chunk_bytes()
            packs[-1].append(one)
            room -= size
        return packs

    def add(self, held: list[_Held], groups: NDArray[np.int64], last: bool) -> NDArray[np.int64]:
        """Numbers of the operands that join chunks or states; `last`: to values."""
        op = self.op
        own: list[tuple[bytes, Any]] = []
        for one in held:
            if one.codes is None:
                part = np.intersect1d(one.groups, groups)
                own.append((np.searchsorted(one.groups, part).tobytes(), np.searchsorted(groups, part).tobytes()))
            else:
                local = np.searchsorted(groups, one.codes)
                local[np.take(groups, local, mode="clip") != one.codes] = -1
                kind = np.min_scalar_type(-max(len(groups), 1) - 1)
                own.append((local.astype(kind).tobytes(), one.codes.shape))

        def program(k: int) -> Program:
            state = self._state(len(groups), self.kinds[k])
            types = [self._type(one, k) for one in held]
            output = ChunkType((len(groups), *self.kinds[k]), self.dtype) if last else state
            shape = state.shape, state.dtype
            work = 5 * 8 * min(max((one.size for one in types), default=0), 2 * LINES) + 2 * last * state.nbytes
            params = (op.function, op.axes, op.skips, op.ddof, tuple(own), shape, last)
            step = Call(join_groups, params, tuple(range(len(types))), output, work=work)
            return single(op.function, types, step)

        read = np.stack([one.ids for one in held], axis=1) if held else np.empty((len(self.which), 0), np.int64)
        return add_by_class(self.builder, program, self.which, read)

    def _state(self, groups: int, kept: tuple[int, ...] = ()) -> ChunkType:
        return _states(self.op.function, self.source.dtype, groups, kept)

    def _type(self, one: _Held, k: int) -> ChunkType:
        if one.codes is None:
            return self._state(len(one.groups), self.kinds[k])
        lengths, own = iter(one.codes.shape), iter(self.kinds[k])
        axes = range(len(self.source.splits))
        return ChunkType(tuple(next(lengths if i in self.op.axes else own) for i in axes), self.source.dtype)


def _boxes(splits: Splits, axes: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Places of the chunks along some axes."""
    starts = [[slice(start, start + n) for start, n in zip(chunk_starts(splits[i]), splits[i])] for i in axes]
    return itertools.product(*starts)


def _states(function: str, dtype: np.dtype[Any], groups: int, kept: tuple[int, ...]) -> ChunkType:
    """A chunk of states of groups: fields, groups, other axes."""
    fields = {"mean": 2, "var": 3, "std": 3}.get(function, 1)
    return ChunkType((fields, groups, *kept), group_dtype(function, dtype))


def group_dtype(function: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Dtype of the states of a reduction of groups."""
    if function in ("any", "all"):
        return np.dtype(bool)
    if function in ("min", "max"):
        return dtype
    if function == "count" or dtype.kind in "bi" and function in ("sum", "prod"):
        return np.dtype("i8")
    return np.dtype("u8" if dtype.kind == "u" and function in ("sum", "prod") else "f8")


def _ufunc_of_groups(function: str, skips: bool) -> Any:
    """The ufunc that joins states of a single field."""
    if function in ("min", "max"):
        return getattr(np, f"f{function}" if skips else f"{function}imum")
    return {"prod": np.multiply, "any": np.logical_or, "all": np.logical_and}.get(function, np.add)


def _grouped(function: str, lines: Array, axis: int, starts: Array, skips: bool, dtype: np.dtype[Any]) -> Array:
    """States of groups of consecutive lines that begin at `starts`."""

    def added(values: Array, dtype: Any = dtype) -> Array:
        found = np.add.reduceat(values, starts, axis=axis, dtype=dtype)
        return found.T if axis else found

    sizes = np.diff(starts, append=lines.shape[axis])
    counts: Array = sizes[:, None]
    missing = (
        lines.dtype.kind == "f" and (skips or function == "count") and function not in ("min", "max", "any", "all")
    )
    where = np.isnan(lines) if missing else None
    if where is not None and where.any():
        counts = counts - added(where, np.int64)
        lines = lines if function == "count" else np.where(where, lines.dtype.type(function == "prod"), lines)
    else:
        where = None
    if function == "count":
        return np.broadcast_to(counts, (len(starts), lines.shape[1 - axis]))[None]
    if function not in ("mean", "var", "std"):
        ufunc = _ufunc_of_groups(function, skips)
        wanted = dtype if function in ("sum", "prod") else None
        found: Array = ufunc.reduceat(lines, starts, axis=axis, dtype=wanted)
        return (found.T if axis else found)[None]
    total = added(lines)
    counts = np.broadcast_to(counts, total.shape)
    if function == "mean":
        return np.stack([total, counts])
    means = total / np.maximum(counts, 1)
    far = lines - np.repeat(means.T if axis else means, sizes, axis=axis)
    if where is not None:
        far[where] = 0
    return np.stack([counts, means, added(np.square(far, out=far))])


def _join_states(function: str, skips: bool, states: Array, seen: Array, groups: Array, found: Array) -> None:
    """Joins states of groups that were seen before, and sets states of new groups."""
    again = seen[groups]
    new, both = groups[~again], groups[again]
    states[:, new] = found[:, ~again]
    if not len(both):
        return
    one, other = states[:, both], found[:, again]
    if function in ("var", "std"):
        (n, mean, far), (m, theirs, further) = one, other
        total, apart = np.maximum(n + m, 1), theirs - mean
        states[:, both] = n + m, mean + apart * (m / total), far + further + apart * apart * (n * m / total)
    else:
        states[:, both] = _ufunc_of_groups(function, skips)(one, other)


def join_groups(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> None:
    """Joins chunks or states of chunks to states of groups; the last step writes the values."""
    function, axes, skips, ddof, own, (shape, dtype), last = params
    states = np.empty(shape, dtype) if last else out
    states[...] = np.nan if function in ("min", "max") and dtype.kind == "f" else function in ("prod", "all")
    seen = np.zeros(shape[1], bool)
    for x, (one, other) in zip(inputs, own):
        if isinstance(other, tuple):
            _join_chunk(function, axes, skips, states, seen, x, np.frombuffer(one, f"i{len(one) // math.prod(other)}"))
            continue
        groups = np.frombuffer(other, np.int64)
        _join_states(function, skips, states, seen, groups, x[:, np.frombuffer(one, np.int64)])
        seen[groups] = True
    if not last:
        return
    if function not in ("mean", "var", "std"):
        np.copyto(out, states[0], casting="unsafe")
        return
    total, counts = (states[0], states[1]) if function == "mean" else (states[2], states[0] - ddof)
    value = np.divide(total, counts, out=np.full(out.shape, np.nan), where=counts > 0)
    out[...] = np.sqrt(value) if function == "std" else value


def _join_chunk(function: str, axes: tuple[int, ...], skips: bool, states: Array, seen: Array, x: Array,
                codes: Array) -> None:  # fmt: skip
    n, last = len(codes), axes == tuple(range(x.ndim - len(axes), x.ndim))
    lines = x.reshape(-1, n) if last else np.moveaxis(x, axes, range(len(axes))).reshape(n, -1)
    states = states.reshape(*states.shape[:2], -1)
    for low in range(0, n, LINES):
        some = codes[low : low + LINES]
        order = np.argsort(some, kind="stable")
        order = order[np.searchsorted(some, 0, sorter=order) :]
        starts = np.flatnonzero(np.diff(some[order], prepend=-1))
        groups, in_order = some[order[starts]], len(order) == len(some) and bool((np.diff(order) == 1).all())
        step = max(1, LINES // len(some))
        for first in range(0, states.shape[2], step) if len(order) else ():
            own = slice(first, first + step)
            block = lines[own, low : low + LINES] if last else lines[low : low + LINES, own]
            block = block if in_order else block.take(order, axis=int(last))
            found = _grouped(function, block, int(last), starts, skips, states.dtype)
            _join_states(function, skips, states[:, :, own], seen, groups, found)
        seen[groups] = True


def reduce_groups(function: str, x: Tensor, codes: NDArray[np.int64], axes: Sequence[int], count: int,
                  skips: bool = True, ddof: float = 0) -> Tensor:  # fmt: skip
    """Reduces the elements of `count` groups by a function of `GROUPED`; the groups are the first axis of the result.

    Parameters
    ----------
    codes
        Groups of the places along `axes`, which are ascending; -1 for none.
    skips
        Whether NaN are left out. A group without other elements has the sum or product of nothing, or NaN.
    """
    kept = [i for i in range(x.ndim) if i not in axes]
    state, chunks = group_dtype(function, x.dtype), math.prod(len(x.chunks[i]) for i in axes)
    dtype = x.dtype if x.dtype.kind == "f" and function not in ("count", "any", "all") else state
    held = sum(len(np.unique(codes[box])) for box in _boxes(x.chunks, axes))
    room = chunk_bytes() // max(state.itemsize * math.prod(max(x.chunks[i]) for i in kept), 1)
    if held <= 1.5 * count + chunks:  # most groups lie in one chunk
        room = min(room, -(-count // chunks))
    splits = (split_axis(count, max(1, room)), *(x.chunks[i] for i in kept))
    op = GroupReduction(function, tuple(axes), codes, skips, ddof, config.combine_size, inputs=(x.data,))
    return Tensor(new_data(op, tuple(map(sum, splits)), dtype, splits))
