"""`x[index] = value` as a function: returns a new array, and `Tensor.__setitem__` rebinds the handle.

Chunks without written elements are passed on; chunks that are overwritten completely are not read. Many positions or
values, as in `x[i, :, j] = value` and `np.add.at`, are exchanged (indexing.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.expression import CONSTANT, Expression, Node
from jmars.kernels.program import Call, ChunkType, Elementwise, Program, single
from jmars.tensor.buffers import basic_index
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import has_value
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Operand, TensorData, TensorMeta, loses_imaginary, new_data, warn_user
from jmars.tensor.ops.arguments import assigned, converted, copied, element
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, has_rows, local_slice, rechunked, view_slice
from jmars.tensor.ops.constants import full
from jmars.tensor.ops.getitem import (
    Index,
    assign_by_mask,
    assign_rows_by_mask,
    broadcast_positions,
    is_bool_scalar,
    joint_positions,
    without_bools,
)
from jmars.tensor.ops.indexing import MANY, axis_slices, positions_in_chunks, scatter_by_tensor
from jmars.tensor.ops.records_and_objects import field_names, set_field
from jmars.tensor.ops.shape import (
    broadcast_to,
    expand_dims,
    merge_axes,
    moveaxis,
    ravel,
    reshape,
    reshape_chunks,
    squeeze,
)
from jmars.tensor.ops.ufuncs import cast_and_broadcast, checked_mask, where
from jmars.tensor.parts import Axis, Part, PartOf, common, places_of, tidy, turned_round
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
FEW_SHARE = 64  # a slice of an array with at most one of so many elements has few
MAX_SKIPPED_WRITES = 64  # writes beside a slice that the slice skips, to read the array before them


@offers("method.setitem")
def setitem(x: Tensor, index: Any, value: Any) -> Tensor:
    """Returns `x` after `x[index] = value`.

    Raises
    ------
    IndexError, ValueError
        As NumPy raises them.
    """
    if isinstance(index, str | list) and (names := field_names(index)) is not None:
        return set_field(x, names, value)
    if isinstance(index, tuple) and len(index) > 1 and any(map(is_bool_scalar, index)):
        return reshape(setitem(*without_bools(x, index), value), x.shape)
    basic = Index.of(index, x.shape) if basic_index(index) is not None else None  # whose faults NumPy finds first
    is_tuple = x.dtype.names is not None and isinstance(value, tuple)
    if is_element(x, index) and not is_tuple and (value.ndim if isinstance(value, Tensor) else np.ndim(value)):
        value = _as_element(value, x.dtype)
    if hasattr(value, "dtype") and np.ndim(value) and loses_imaginary(value.dtype, x.dtype):
        result = setitem(x, index, call("real", value))
        warn_user("Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning)
        return result
    if basic is None:
        written = converted(value, x.dtype)
    else:
        written = assigned(value, x.dtype, sum(not isinstance(entry, int) for entry in basic.entries))
    mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if is_bool_scalar(mask):
        mask = as_tensor(mask)
        if isinstance(written, Tensor) and written.ndim == x.ndim + 1:
            if not len(written) and not bool(mask):
                return x
            if len(written) != 1:
                raise ValueError(f"{len(written)} values cannot be written to an array that a single bool selects")
            written = squeeze(written, 0)
        return cast_and_broadcast(where(mask, written, x), x.dtype, x.shape, x.chunks)
    if isinstance(mask, Tensor | np.ndarray) and mask.dtype == np.dtype(bool) and mask.ndim:
        by_mask = _set_by_mask(x, as_tensor(mask), written)
        if by_mask is not None:
            return by_mask
    meaning = basic or Index.of(index, x.shape)
    if not meaning.arrays:
        return _set_slice(x, meaning, written)
    return set_by_arrays(x, meaning, as_tensor(written))


def is_element(x: Tensor, index: Any) -> bool:
    """Whether an index has an int for every axis, and no other entry."""
    entries = index if isinstance(index, tuple) else (index,)
    return len(entries) == x.ndim and all(
        isinstance(one, int | np.integer) and type(one) is not bool for one in entries
    )


def _as_element(value: Any, dtype: np.dtype[Any]) -> Any:
    """The value that an array with axes writes to an element of `dtype`; raises NumPy's errors, for most dtypes."""
    element = np.zeros(1, dtype)
    if not isinstance(value, Tensor):
        element[0] = value
        return element[0]
    element[0] = np.zeros([min(n, 2) for n in value.shape], value.dtype)
    return reshape(value, ())


def _set_by_mask(x: Tensor, mask: Tensor, value: Any) -> Tensor | None:
    """`x[mask] = value`; None if the value has an element per true element, so that the mask must be computed first."""
    if 0 in mask.data.shape:
        return None
    if x.shape[: mask.ndim] != mask.shape:
        axis = next(i for i, n in enumerate(mask.shape) if i >= x.ndim or x.shape[i] != n)
        raise IndexError(
            f"boolean index did not match indexed array along axis {axis}; size of axis is "
            f"{x.shape[axis] if axis < x.ndim else 0} but size of corresponding boolean axis is {mask.shape[axis]}"
        )
    inner = x.ndim - mask.ndim
    if not inner and isinstance(value, Tensor) and value.ndim > 1:
        raise TypeError(
            "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has "
            f"{value.ndim} dimensions"
        )
    if isinstance(value, Tensor) and value.data.has_unknown_lengths and value.ndim == inner + 1:
        placed = assign_by_mask(x, mask, value)
        if placed is not None:
            return placed
    if isinstance(value, Tensor) and value.ndim > inner and value.shape[-1 - inner] == 1:
        value = squeeze(value, tuple(range(value.ndim - inner)))
    if isinstance(value, Tensor) and value.ndim > inner:  # an element per true element, whose positions must be known
        if mask.size > MANY:
            rows = (value.shape[-1 - inner], *x.shape[mask.ndim :])
            return assign_rows_by_mask(x, mask, broadcast_to(match_ndim(value, rows), rows))
        flat = reshape(x, (mask.size, *x.shape[mask.ndim :]))
        return None if mask.ndim == 1 else Tensor(reshape(setitem(flat, ravel(mask).fetch(), value), x.shape).data)
    if inner:
        mask = expand_dims(mask, tuple(range(mask.ndim, x.ndim)))
    return cast_and_broadcast(where(mask, value, x), x.dtype, x.shape, x.chunks)


def _set_slice(x: Tensor, meaning: Index, value: Any) -> Tensor:
    """Assignment by basic indexing."""
    entries = [entry for entry in meaning.entries if entry is not None]
    kept = tuple(e if isinstance(e, int) else (e.start, e.stop, e.step) for e in entries)
    if not isinstance(value, Tensor):
        return _with_operand(x, SetSlice(kept, np.asarray(value, x.dtype).tobytes(), inputs=(x.data,)))
    cuts = [axis_slices(lengths, entry) for lengths, entry in zip(x.chunks, entries)]
    counts = [tuple(part.taken for part in parts) for parts in cuts]
    target = tuple(
        (1,) if entry is None else next(axis)
        for axis in [iter([c for c, e in zip(counts, entries) if not isinstance(e, int)])]
        for entry in meaning.entries
        if not isinstance(entry, int)
    )
    shape = tuple(map(sum, target))
    value = match_ndim(value, shape)
    if 0 in shape:
        return Tensor(x.data)
    lengths = tuple(tuple(n) if value.shape[i] != 1 else (1,) for i, n in enumerate(target))
    given = Tensor(rechunked(value.data, lengths))
    kept_axes = [entry for entry in meaning.entries if not isinstance(entry, int)]
    there = iter([n for n, entry in zip(lengths, kept_axes) if entry is not None])  # splits of the value, axes as in x
    own = tuple((1,) if isinstance(entry, int) else next(there) for entry in entries)
    given = reshape_chunks(given, own)
    return _with_operand(x, SetSlice(kept, inputs=(x.data, given.data)))


def _with_operand(x: Tensor, op: Operand) -> Tensor:
    return Tensor(new_data(op, x.shape, x.dtype, x.chunks))


@dataclass(frozen=True, eq=False)
class SetSlice(Operand):
    """Replaces a slice by a number, or by the second input, broadcast to the slice."""

    index: tuple[Any, ...]
    number: bytes | None = None
    name: ClassVar[str] = "setitem"

    def token(self) -> Hashable:
        """Identifies the operand by index and number."""
        return ("setitem", self.index, self.number)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The part of the array before, and of the value where it is written; one of both where it is enough."""
        index: list[Any] = []
        values: list[Axis] = []
        for axis, (entry, own, n) in enumerate(zip(self.index, kept, output.shape, strict=True)):
            written = range(entry, entry + 1) if isinstance(entry, int) else range(n)[slice(*entry)]
            here = common(own, tidy(written))
            if not len(here):
                return PartOf(None, [(0, kept)])
            places = places_of(here, own)
            if not isinstance(places, range):
                return None
            turned = places[::-1]
            backwards = (turned.start, turned.stop if turned.stop >= 0 else None, turned.step)
            forwards = (places.start, places.stop, places.step)
            index.append(places.start if isinstance(entry, int) else forwards if written.step > 0 else backwards)
            there = places_of(here, tidy(written))
            if inputs[1:]:
                last = inputs[1].shape[axis] - 1
                values.append(range(1) if not last else there if written.step > 0 else turned_round(there, last + 1))
        if not inputs[1:]:
            return PartOf(replace(self, index=tuple(index)), [(0, kept)])
        covers = tuple(map(len, values)) == tuple(map(len, kept)) and inputs[1].dtype == output.dtype
        if covers and all(isinstance(entry, int) or entry[2] > 0 for entry in index):
            return PartOf(None, [(1, tuple(values))])
        return PartOf(replace(self, index=tuple(index)), [(0, kept), (1, tuple(values))])

    def sliced(self, output: TensorData, index: Sequence[int | slice]) -> tuple[TensorData, list[int | slice]] | None:
        """Reads few elements from the value of the write that wrote them, or from before the writes beside them.

        Larger slices are read after the writes, so that the arrays before need not be kept.
        """
        asked = [_positions(entry, n) for entry, n in zip(index, output.shape)]
        if math.prod(map(len, asked)) * FEW_SHARE > math.prod(output.shape):
            return None
        op, before = self, None
        for _ in range(MAX_SKIPPED_WRITES):
            written = [_positions(slice(*e) if isinstance(e, tuple) else e, n) for e, n in zip(op.index, output.shape)]
            if not any(_apart(one, other) for one, other in zip(asked, written)):
                value = op.inputs[1:]
                if op.number is not None and all(map(_are_among, asked, written)):
                    number = np.frombuffer(op.number, output.dtype)[0]
                    part = full([len(one) for one in asked], number, output.dtype)
                    return part.data, [0 if isinstance(entry, int) else slice(None) for entry in index]
                if value and all(map(_is_inside, asked, written, value[0].shape)):
                    return value[0], [_within(*axis) for axis in zip(index, value[0].shape, asked, written)]
                break
            before = op.inputs[0]
            if not isinstance(before.op, SetSlice) or has_value(before):
                break
            op = before.op
        return None if before is None else (before, list(index))

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk with written elements."""
        target, *values = inputs
        entries = [slice(*e) if isinstance(e, tuple) else e for e in self.index]
        cuts = [axis_slices(lengths, entry) for lengths, entry in zip(target.splits, entries)]
        steps = [1 if isinstance(e, int) or e.step is None else int(e.step) for e in entries]
        place: Any = np.ix_(*([part.chunk for part in parts] for parts in cuts)) if cuts else ()
        old = np.asarray(target.ids[place])
        broad = [own == (1,) for own in values[0].splits] if values else [True] * len(cuts)
        new = np.broadcast_to(values[0].ids, old.shape) if values else None
        keys = [[(p.length, p.taken, 1 if b else p.taken) for p in parts] for parts, b in zip(cuts, broad)]
        kinds, which = chunk_classes(keys)

        def program(k: int) -> Program:
            chunk = ChunkType(tuple(n for n, _, _ in kinds[k]), target.dtype)
            part = tuple((count, step) for (_, count, _), step in zip(kinds[k], steps))
            read = [ChunkType(tuple(n for _, _, n in kinds[k]), g.dtype) for g in values]
            if not all(n == count for n, count, _ in kinds[k]):
                fits = read == [ChunkType(tuple(n for n, _ in part), chunk.dtype)] and has_rows(chunk.shape, part)
                into = part_of_output if fits else None
                step = Call(write_slice, (part, self.number), tuple(range(1 + len(read))), chunk, True, target=into)
                return single(self.name, (chunk, *read), step)
            if self.number is not None:
                value = Expression((), (Node(CONSTANT, (), output.dtype, self.number),))
                return single(self.name, (), Elementwise(value, (), chunk))
            return single(self.name, read, Call(overwrite_chunk, part, (0,), chunk))

        whole = np.array([all(n == count for n, count, _ in kind) for kind in kinds])[which]
        ids = old.copy()
        if whole.any():
            read = new[whole][:, None] if new is not None else np.empty((int(whole.sum()), 0), np.int64)
            ids[whole] = add_by_class(builder, program, which[whole], read)
        if not whole.all():
            begin = [np.array([part.start for part in parts]) for parts in cuts]
            rows = [axis[i].tolist() for axis, i in zip(begin, np.nonzero(~whole))]
            read = np.stack([ids[~whole] for ids in (old, new) if ids is not None], axis=1)
            ids[~whole] = add_by_class(builder, program, which[~whole], read, [(at,) for at in zip(*rows)])
        result = target.ids.copy()
        result[place] = ids
        return result


@dataclass(frozen=True, eq=False)
class SetSlices(Operand):
    """Replaces slices in their order, by numbers or by the further inputs: the operands of `SetSlice`, joined."""

    writes: tuple[tuple[tuple[Any, ...], bytes | None], ...]  # index and number of each
    name: ClassVar[str] = "setitem"

    def token(self) -> Hashable:
        """Identifies the operand by indices and numbers."""
        return ("setitems", self.writes)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk with written elements."""
        target, *values = inputs
        given = iter(values)
        writes_by_chunk: dict[tuple[int, ...], list[_ChunkWrite]] = {}
        for index, number in self.writes:
            value = next(given) if number is None else None
            entries = [slice(*e) if isinstance(e, tuple) else e for e in index]
            cuts = [axis_slices(lengths, entry) for lengths, entry in zip(target.splits, entries)]
            steps = [1 if isinstance(e, int) or e.step is None else int(e.step) for e in entries]
            broad = [value is None or own == (1,) for own in (value.splits if value is not None else cuts)]
            for place in itertools.product(*(range(len(parts)) for parts in cuts)):
                parts = [axis[i] for axis, i in zip(cuts, place)]
                if all(part.taken for part in parts):
                    at = tuple(0 if one else i for one, i in zip(broad, place))
                    write = _ChunkWrite(
                        tuple((part.taken, step) for part, step in zip(parts, steps)),
                        tuple(part.start for part in parts),
                        number,
                        -1 if value is None else int(value.ids[at]),
                        () if value is None else tuple(1 if one else part.taken for one, part in zip(broad, parts)),
                    )
                    before = writes_by_chunk.setdefault(tuple(part.chunk for part in parts), [])
                    if all(part.taken == part.length for part in parts):
                        before.clear()
                    before.append(write)
        ids = target.ids.copy()
        for chunk, writes in writes_by_chunk.items():
            shape = tuple(axis[i] for axis, i in zip(target.splits, chunk))
            ids[chunk] = self._add(builder, ChunkType(shape, target.dtype), int(target.ids[chunk]), writes)
        return ids

    def _add(self, builder: ChunkGraphBuilder, chunk: ChunkType, before: int, writes: Sequence[_ChunkWrite]) -> int:
        is_read = any(n != count for n, (count, _) in zip(chunk.shape, writes[0].part))
        types = {before: chunk} if is_read else {}
        types |= {write.value: ChunkType(write.shape, chunk.dtype) for write in writes if write.value >= 0}
        slots = {one: slot for slot, one in enumerate(types)}
        params = (is_read, tuple((write.part, slots.get(write.value, -1)) for write in writes))
        arg = tuple((write.start, write.number or b"") for write in writes)
        step = Call(write_slices, params, tuple(range(len(types))), chunk, True)
        return builder.add(single(self.name, list(types.values()), step), list(types), (arg,))


class _ChunkWrite(NamedTuple):
    """A write to a chunk."""

    part: tuple[tuple[int, int], ...]  # count and step along each axis
    start: tuple[int, ...]
    number: bytes | None
    value: int  # chunk of the value; -1 for a number
    shape: tuple[int, ...]  # of that chunk


def write_slices(
    out: Array,
    inputs: Sequence[Array],
    params: tuple[bool, Sequence[tuple[tuple[tuple[int, int], ...], int]]],
    arg: Sequence[tuple[tuple[int, ...], bytes]],
) -> None:
    """Writes slices of a chunk in their order.

    `params`: whether the first input is the chunk before, and (count, step) per axis with the input of the value, -1
    for a number. `arg`: the starts and the numbers.
    """
    is_read, writes = params
    if is_read:
        np.copyto(out, inputs[0])
    for (part, slot), (start, number) in zip(writes, arg, strict=True):
        place = tuple(local_slice(at, count, step) for at, (count, step) in zip(start, part))
        out[place] = inputs[slot] if slot >= 0 else np.frombuffer(number, out.dtype)[0]


def _positions(entry: int | slice, n: int) -> range:
    """Positions that an entry of an index selects along an axis."""
    return range(n)[entry] if isinstance(entry, slice) else range(entry, entry + 1)


def _apart(one: range, other: range) -> bool:
    """Whether two ranges lie apart: no position is between the ends of both."""
    return not one or not other or max(one) < min(other) or max(other) < min(one)


def _are_among(asked: range, written: range) -> bool:
    """Whether all positions were written."""
    return written.step == 1 and asked[0] in written and asked[-1] in written


def _is_inside(asked: range, written: range, n: int) -> bool:
    """Whether all positions were written, with a value of `n` elements along the axis, an element per position."""
    return n == len(written) and _are_among(asked, written)


def _within(entry: int | slice, n: int, asked: range, written: range) -> int | slice:
    """The entry of an index, of an array, in the value that was written at `written`."""
    start = written[0]
    if isinstance(entry, int):
        return entry - start
    stop = asked.stop - start
    return slice(asked.start - start, stop if stop >= 0 else None, asked.step)


def overwrite_chunk(out: Array, inputs: Sequence[Array], params: tuple[tuple[int, int], ...], arg: Any) -> None:
    """Overwrites a chunk with the value; `params` are (count, step) per axis."""
    out[tuple(slice(None, None, 1 if step > 0 else -1) for _, step in params)] = inputs[0]


def write_slice(
    out: Array, inputs: Sequence[Array | None], params: tuple[Any, bytes | None], arg: tuple[int, ...]
) -> None:
    """Copies a chunk and writes the value to the slice that begins at `arg`.

    `params` are (count, step) per axis, and a value as bytes, or None if the second input is the value; that input is
    None if the value has been computed in `out`.
    """
    part, number = params
    old = inputs[0]
    assert old is not None
    if number is None and inputs[1] is None:
        _copy_around(out, old, [(at, count) for at, (count, _) in zip(arg, part)])
        return
    np.copyto(out, old)
    value = inputs[1] if number is None else np.frombuffer(number, out.dtype)[0]
    out[tuple(local_slice(at, count, step) for at, (count, step) in zip(arg, part))] = value


def part_of_output(out: Array, params: tuple[Any, bytes | None], arg: tuple[int, ...]) -> Array:
    """The slice of `out` that `write_slice` writes."""
    return view_slice(out, params[0], arg)


def _copy_around(out: Array, old: Array, box: Sequence[tuple[int, int]]) -> None:
    """Copies all elements outside of a box, given by (start, count) per axis."""
    inner: tuple[slice, ...] = ()
    for start, count in box:
        for beside in (slice(0, start), slice(start + count, None)):
            out[(*inner, beside)] = old[(*inner, beside)]
        inner = (*inner, slice(start, start + count))


@offers("method.fill")
def fill(x: Tensor, value: Any) -> None:
    """`x.fill(value)`; raises NumPy's errors for arrays."""
    x[...] = element(value, x.dtype) if not isinstance(value, Tensor) or value.ndim else value


@offers("copyto")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """`np.copyto` into a tensor or a NumPy array; a NumPy array makes the function compute at once."""
    if not isinstance(dst, Tensor):
        np.copyto(dst, as_values(src), casting, where=as_values(where))  # type: ignore[arg-type]
        return
    if not isinstance(casting, str):
        raise TypeError(f"casting must be str, not {type(casting).__name__}")
    np.can_cast(dst.dtype, dst.dtype, casting)  # type: ignore[arg-type]  # raises NumPy's error
    value = as_tensor(copied(src, dst.dtype, casting))
    while value.ndim > dst.ndim and value.shape[0] == 1:
        value = squeeze(value, 0)  # as NumPy ignores leading axes of one element
    dst._assign(value if where is True else _where(where, value, dst))


def _where(mask: Any, value: Tensor, otherwise: Tensor) -> Tensor:
    return where(checked_mask(mask), value, otherwise)


def set_by_arrays(x: Tensor, meaning: Index, value: Tensor) -> Tensor:
    """Returns `x` after `x[index] = value`, for an index with integer arrays.

    Raises
    ------
    ValueError
        If the value does not broadcast to the shape of `x[index]`.
    UnsupportedError
        For None beside arrays.
    """
    entries = meaning.entries
    if any(entry is None for entry in entries):
        raise UnsupportedError("x[None, array] = value is not in jmars; leave None out, it changes no element")
    part = tuple(entry if isinstance(entry, slice) else slice(None) for entry in entries)
    if any(entry != slice(None) for entry in part):
        inner = call("method.getitem", x, part)
        whole = Index(tuple(slice(None) if isinstance(entry, slice) else entry for entry in entries))
        return call("method.setitem", x, part, set_by_arrays(inner, whole, value))  # type: ignore[no-any-return]
    named = [i for i, entry in enumerate(entries) if not isinstance(entry, slice)]
    arrays = broadcast_positions([entries[i] for i in named])
    shape, k = arrays[0].shape, len(named)
    first = named[0] if named[-1] - named[0] == k - 1 else 0  # position of the arrays' axes in x[index]
    rest = tuple(n for i, n in enumerate(x.shape) if i not in named)
    wanted = (*rest[:first], *shape, *rest[first:])
    value = match_ndim(value, wanted)
    if 0 in wanted:
        return Tensor(x.data)
    if k == 1 and len(shape) == 1:
        return _set_positions(x, arrays[0], named[0], value)
    value = broadcast_to(value, wanted)
    lines = merge_axes(moveaxis(x, named, range(k)), 0, k)
    positions = ravelled(joint_positions(arrays, [x.shape[i] for i in named], named))
    given = reshape(moveaxis(value, range(first, first + len(shape)), range(len(shape))), (len(positions), *rest))
    written = reshape(_set_positions(lines, positions, 0, given), (*(x.shape[i] for i in named), *rest))
    return Tensor(rechunked(moveaxis(written, range(k), named).data, x.chunks))


def ravelled(positions: Any) -> Any:
    """Positions as a line."""
    return ravel(positions) if isinstance(positions, Tensor) else positions.reshape(-1)


def match_ndim(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Gives `value` as many axes as `shape`; raises ValueError if the value does not broadcast to `shape`."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = squeeze(value, 0)
    try:
        fits = np.broadcast_shapes(value.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")
    return expand_dims(value, tuple(range(len(shape) - value.ndim))) if value.ndim < len(shape) else value


def _set_positions(x: Tensor, positions: Any, at: int, value: Tensor) -> Tensor:
    """Writes a value with the axes of `x` at positions along axis `at`; the last value of a repeated position wins."""
    if is_exchanged(positions, value):
        return scatter_by_tensor(x, as_tensor(positions), at, value)
    if len(np.unique(positions)) < len(positions):  # the last value wins, as in NumPy
        last = len(positions) - 1 - np.unique(positions[::-1], return_index=True)[1]
        if value.shape[at] != 1:
            from_value: list[Any] = [slice(None)] * value.ndim
            from_value[at] = last
            value = value[tuple(from_value)]
        positions = positions[last]
    cut = [lengths if value.shape[i] != 1 else (1,) for i, lengths in enumerate(x.chunks)]
    cut[at] = (value.shape[at],)
    given: TensorData = rechunked(value.data, tuple(cut))
    return _with_operand(x, SetPositions(positions, at, inputs=(x.data, given)))


def is_exchanged(positions: Any, value: Tensor | None) -> bool:
    """Whether positions and values are too many to go to all operands that write some."""
    values = 0 if value is None else value.size * value.dtype.itemsize
    return isinstance(positions, Tensor) or len(positions) > MANY or values > chunk_bytes()


def apply_at(x: Tensor, positions: Any, value: Tensor | None, function: np.ufunc) -> Tensor:
    """Applies a ufunc at positions along the first axis, repeatedly for repeated positions."""
    if is_exchanged(positions, value):
        return scatter_by_tensor(x, as_tensor(positions), 0, value, function.__name__)
    if value is None:
        return _with_operand(x, SetPositions(positions, 0, function.__name__, inputs=(x.data,)))
    given = rechunked(value.data, (value.shape[:1], *x.chunks[1:]))
    return _with_operand(x, SetPositions(positions, 0, function.__name__, inputs=(x.data, given)))


@dataclass(frozen=True, eq=False)
class SetPositions(Operand):
    """Replaces elements at positions along an axis, or applies a ufunc there.

    The second input, the values, is a single chunk along that axis.
    """

    positions: NDArray[np.int64]
    axis: int
    function: str | None = None  # a ufunc of one argument has no second input
    name: ClassVar[str] = "setitem"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return f"{self.function}.at" if self.function else self.name

    def token(self) -> Hashable:
        """Identifies the operand by axis, function and positions."""
        return ("set positions", self.axis, self.function, self.positions.tobytes())

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk that holds a written element."""
        target, *values = inputs
        axis = self.axis
        ids = np.moveaxis(target.ids.copy(), axis, 0)
        grid = tuple(1 if i == axis else n for i, n in enumerate(output.grid))
        given = [np.broadcast_to(value.ids, grid).reshape(-1) for value in values]
        kinds, which = chunk_classes([s for i, s in enumerate(output.chunks) if i != axis])
        broad = [[own == (1,) for own in value.splits] for value in values]
        for at, there, here in positions_in_chunks(self.positions, output.chunks[axis]):
            length = output.chunks[axis][at]

            def program(k: int, length: int = length) -> Program:
                shape = (*kinds[k][:axis], length, *kinds[k][axis:])
                types = [chunk := ChunkType(shape, target.dtype)]
                for value, wide in zip(values, broad):
                    own = tuple(1 if b else n for n, b in zip(shape, wide))
                    types.append(ChunkType((*own[:axis], value.splits[axis][0], *own[axis + 1 :]), value.dtype))
                work = types[-1].nbytes
                step = Call(scatter, (axis, self.function), tuple(range(len(types))), chunk, True, work)
                return single(self.label, types, step)

            pairs = np.stack([ids[at].reshape(-1), *given], axis=1)
            made = add_by_class(builder, program, which.reshape(-1), pairs, [((there, here),)] * len(pairs))
            ids[at] = made.reshape(ids[at].shape)
        return np.moveaxis(ids, 0, axis)


def scatter(out: Array, inputs: Sequence[Array], params: tuple[int, str | None], arg: tuple[bytes, bytes]) -> None:
    """Copies a chunk and writes elements `there` of the value to positions `here`, or applies a ufunc to both."""
    axis, function = params
    np.copyto(out, inputs[0])
    there, here = (np.frombuffer(a, np.int64) for a in arg)
    target = np.moveaxis(out, axis, 0)
    values = [np.moveaxis(x, axis, 0) for x in inputs[1:]]
    some = [value if value.shape[0] == 1 else value[there] for value in values]
    if function is None:
        target[here] = some[0]
    else:
        getattr(np, function).at(target, here, *some)
