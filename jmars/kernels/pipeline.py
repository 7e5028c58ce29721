"""Runs generators, expression and reduction in a single pass over the blocks of a chunk; any may be missing.

Intermediate values are a block in the second-level cache, so a fused chain never holds a whole chunk beside its inputs
and output. NumPy reduces block by block. Blocks that end in a common state are joined in pairs of equal weight, like
NumPy's pairwise summation, so that the error grows with the logarithm of the chunk's size; the steps of a tree
reduction, a chunk to a state and several states to a single state, are compiled here.

The slices of a stencil lie at constant distances in arrays of one shape, so an expression of them is one of lines:
contiguous elements, with the elements between the rows. The values between the rows mean nothing: the output must be a
part of an array whose other elements are written afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jmars.errors import ExecutionInterrupted
from jmars.kernels.blocks import (
    BLOCK_SIZE,
    Blocks,
    Index,
    clear_flags,
    is_flagged,
    recomputed,
    scratch,
    watched,
    watched_flags,
)
from jmars.kernels.expression import Expression
from jmars.kernels.float_errors import FloatErrors, unsure
from jmars.kernels.numpy_backend import block_body, numexpr_function, whole_function
from jmars.kernels.program import ChunkType, Combine, Elementwise, Fill, Generate, Reduce
from jmars.kernels.reducers import Reducer, UfuncReducer, states
from jmars.kernels.row_chains import RowChain

Array = np.ndarray[Any, Any]
Stop = Callable[[], bool] | None
Run = Callable[[Any, Sequence[Any], Sequence[Any], Stop], Any]  # gives a value only where `out` is None

LONE_BLOCK = 1 << 20  # elements of a block where a single operation runs: blocks serve only to poll `stop`
PLAIN_BLOCK = 1 << 18  # of elements that are reduced as they are, read or made here: sums are the same to the last bit
SHORT_ROW = 128  # most elements of a row; an input shared by all rows is repeated to a block's size up to here
MIDDLE, BUFFERS = 0, 1  # scratch slots; slots of generators follow the buffers


class Head(NamedTuple):
    """A generator of a region."""

    step: Generate
    value: int  # number of its output
    arg: int  # index of the operand's argument; -1 for none

    def open(self, args: Sequence[Any], values: Sequence[Any]) -> Fill:
        """Open the `Fill` that writes the chunk's blocks."""
        arg = args[self.arg] if self.arg >= 0 else None
        return self.step.open(self.step.params, arg, self.step.opened or self.step.output)


def interrupted() -> ExecutionInterrupted:
    """The exception of a kernel whose `stop()` was true."""
    return ExecutionInterrupted("the operand was told to stop; nothing to do: its job was cancelled")


def pipeline(
    heads: Sequence[Head | RowChain],
    middle: Elementwise | None,
    tail: Reduce | None,
    types: list[ChunkType],
    in_numexpr: bool = False,
    block: Callable[..., None] | None = None,
    strided: bool = False,
) -> Run:
    """Compile a region: generators and chains that `middle` reads, or else `tail`; `types` are those of all values.

    `block(out, *parts)` computes `middle` if given; `strided`: rows of what is read or written may lie apart.
    """
    read = middle.inputs if middle is not None else (heads[0].value,) if heads else tail.inputs if tail else ()
    heads = sorted(heads, key=lambda head: read.index(head.value))
    made = [read.index(head.value) for head in heads]  # positions in `read` of generated values
    slots = [v for i, v in enumerate(read) if i not in made]
    chunk = middle.output if middle is not None else types[read[0]]
    kept = tail.kept(chunk.shape) if tail is not None else chunk.shape
    whole = tail.whole if tail is not None else ()
    blocks = Blocks.of(chunk.shape, [*(types[v].shape for v in slots), kept], strided, whole)
    one_pass = tail is None or isinstance(tail.reducer, UfuncReducer)
    single = len(heads) + (middle is not None) + (tail is not None) == 1
    alone = one_pass and single and (middle is None or middle.expression.ops <= 1)
    wide = 0
    if tail is not None:  # merging a wide state costs a pass over the state
        wide = min(16 * math.prod(tail.kept(whole or chunk.shape)), 1 << 18)
    block_size = LONE_BLOCK if alone else max(BLOCK_SIZE, wide)
    if one_pass and tail is not None and middle is None:
        block_size = max(PLAIN_BLOCK, wide)
    compute: Callable[..., None] | None = None
    buffers: tuple[np.dtype[Any], ...] = ()
    repeated: list[int] = []  # inputs that are repeated for each row of a block
    if math.prod(whole or chunk.shape) <= BLOCK_SIZE and not in_numexpr:
        return _at_once(heads, middle, tail, chunk)
    if block is not None and middle is not None:
        compute = watched(block, middle)
    elif middle is not None and in_numexpr:
        compute = watched(numexpr_function(middle.expression), middle)
        block_size *= 4 if tail is None else 1  # a sum is that of the same blocks, whatever computes them
    elif middle is not None:
        body = block_body(middle.expression, middle.twin)
        compute, buffers = body.run, body.buffers
        if not strided and 1 < math.prod((blocks.whole or blocks.shape)[1:]) <= SHORT_ROW:
            shared = [lengths[0] == 1 and lengths[-1] == blocks.shape[-1] for lengths in blocks.operands[: len(slots)]]
            repeated = [k for k, one in enumerate(shared) if one]
            block_size = max(BLOCK_SIZE, wide) if repeated else block_size
    first_head = BUFFERS + len(buffers)
    first_repeated = first_head + len(heads)

    def block_by_block(target: Array, values: Sequence[Any], args: Sequence[Any], stop: Stop) -> None:
        """Write the elements to `target`, or with a tail the states."""
        inputs = [values[slot].reshape(shape) for slot, shape in zip(slots, blocks.operands)]
        wholes = {k: _repeated(inputs[k], blocks, block_size, first_repeated + k) for k in repeated}
        fills = [head.open(args, values) for head in heads]
        states = Accumulator(tail.reducer, blocks, block_size, target) if tail is not None else None
        whole = target.reshape(blocks.shape) if states is None else None
        for start, shape, index, at in blocks.cut(block_size):
            parts = [x[i] for x, i in zip(inputs, at)]
            for k, rows in wholes.items():
                parts[k] = rows[: shape[0]]
            out = whole[index] if whole is not None else None
            for k, (head, place, fill) in enumerate(zip(heads, made, fills)):
                made_here = out if compute is None else None  # the generator writes the region's output
                if made_here is None:
                    made_here = scratch(first_head + k, shape, head.step.output.dtype)
                fill(made_here.reshape(-1), start)
                parts.insert(place, made_here)
            if compute is not None:
                out = scratch(MIDDLE, shape, chunk.dtype) if out is None else out
                compute(out, *parts, *[scratch(BUFFERS + k, shape, dtype) for k, dtype in enumerate(buffers)])
            if states is not None:
                states.add(out if out is not None else parts[0], at[-1])
            if stop is not None and stop():
                raise interrupted()
        if states is not None:
            states.close()

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        if tail is None:
            block_by_block(out, values, args, stop)
        elif chunk.size:
            finished(tail, kept, out, lambda state: block_by_block(state, values, args, stop))
        else:
            empty = np.empty(chunk.shape, chunk.dtype)
            finished(tail, kept, out, lambda state: tail.reducer.leaf(empty, tail.axes, state, None))

    return run


def _repeated(row: Array, blocks: Blocks, block_size: int, slot: int) -> Array:
    """Repeat an input that all rows share for each row of a block: NumPy loops over single rows to broadcast."""
    length = min(blocks.shape[0], max(1, block_size // math.prod(blocks.shape[1:])))
    rows = scratch(slot, (length, *row.shape[1:]), row.dtype)
    np.copyto(rows, row)
    return rows


def _at_once(
    heads: Sequence[Head | RowChain], middle: Elementwise | None, tail: Reduce | None, chunk: ChunkType
) -> Run:
    """Compile a region of a chunk of at most a block: no cutting, and NumPy allocates intermediate values."""
    compute = whole_function(middle.expression, middle.inputs, middle.twin) if middle is not None else None
    reduce = leaf_function(tail, chunk.shape, 0, -1) if tail is not None else None
    alone = compute is None and reduce is None

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        made = out
        if heads:
            values = list(values)
            values += [None] * (max(head.value for head in heads) + 1 - len(values))
            for head in heads:
                made = out if alone else np.empty(head.step.output.shape, head.step.output.dtype)
                head.open(args, values)(made.reshape(-1), 0)
                values[head.value] = made
        if compute is not None:
            made = np.empty(chunk.shape, chunk.dtype) if reduce is not None else out
            compute(made, values)
        if reduce is not None:
            reduce(out, [made], (), None)

    return run


MAX_COMPUTED_RATIO = 1.25  # most ratio of computed elements, gaps included, to wanted elements


def flat_pipeline(middle: Elementwise, otherwise: Run, native: Callable[..., None] | None) -> Run:
    """Compile an expression of views; `otherwise` runs where their strides differ.

    Parameters
    ----------
    middle
        The expression; no value of it is reduced.
    otherwise
        The region compiled for any strides.
    native
        `compute(out, *parts)` by machine code; None: by NumPy, block by block.
    """
    slots, body = middle.inputs, block_body(middle.expression, middle.twin)
    size = BLOCK_SIZE if native is None else LONE_BLOCK
    flags = watched_flags(middle)
    again = recomputed(middle, apart=True)

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        lines = flattened([out, *(values[slot] for slot in slots)])
        if lines is None:
            otherwise(out, values, args, stop)
            return
        flagged = False
        for start in range(0, len(lines[0]), size):
            part, *parts = (line[start : start + size] for line in lines)
            if native is not None and flags:
                clear_flags(flags)
                native(part, *parts)
                flagged = flagged or is_flagged(flags)
            elif native is not None:
                native(part, *parts)
            else:
                shape = part.shape
                body.run(part, *parts, *[scratch(BUFFERS + k, shape, dtype) for k, dtype in enumerate(body.buffers)])
            if stop is not None and stop():
                raise interrupted()
        if flags and (flagged or _was_unsure()):
            again(values, [values[slot].shape for slot in slots])

    unsure(run)
    return run


def _was_unsure() -> bool:
    """Whether NumPy told the handler of an error that may be one of the elements between the rows."""
    handler = np.geterrcall()
    found = isinstance(handler, FloatErrors) and handler.unsure
    if isinstance(handler, FloatErrors):
        handler.unsure = False
    return found


def never_raises(expression: Expression) -> bool:
    """Whether no value of the elements between the rows can raise: text between them need be no number."""
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    return all(dtype.kind in "biufc" for dtype in dtypes) and not any(
        node.raises or node.ufunc is not None or (node.op == "power" and node.dtype.kind in "iu")
        for node in expression.nodes
    )


def flattened(arrays: Sequence[Array]) -> list[Array] | None:
    """Lines from the first to the last element of each array; None where the arrays' elements lie differently.

    Examples
    --------
    >>> a = np.arange(20.0).reshape(4, 5)
    >>> [line.tolist() for line in flattened([a[:2, 1:], a[2:, 1:]])]
    [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0]]
    """
    first = arrays[0]
    shape, itemsize = first.shape, first.itemsize
    if not first.size:
        return None
    gaps = [stride // itemsize for n, stride in zip(shape, first.strides) if n > 1]
    long = [axis for axis, n in enumerate(shape) if n > 1]
    length = 1 + sum((shape[axis] - 1) * gap for axis, gap in zip(long, gaps))
    if gaps[-1:] != [1] or min(gaps) < 1 or length > MAX_COMPUTED_RATIO * first.size:
        return None
    for array in arrays:
        if array.shape != shape or [array.strides[axis] for axis in long] != [gap * array.itemsize for gap in gaps]:
            return None
    make = np.lib.stride_tricks.as_strided
    return [make(array, (length,), (array.itemsize,)) for array in arrays]


ReductionRun = Callable[[Array, Sequence[Any], Sequence[Any], Callable[[], bool] | None], None]
PART = -1  # slot of scratch
SMALL_STATE = 4096  # elements; several copies of a larger state would leave the cache


class Accumulator:
    """Reduces the blocks of a chunk to the chunk's state, written to `state` (kept axes, C-contiguous)."""

    def __init__(self, reducer: Reducer, blocks: Blocks, block_size: int, state: Array) -> None:
        self.reducer = reducer
        shape = blocks.operands[-1]  # the state is the last operand, 1 on the axes that vanish
        axis, whole = blocks.cut_axis(block_size), blocks.whole or blocks.shape
        vanish = [n == 1 and (not blocks.whole or length > 1) for n, length in zip(shape, blocks.shape)]
        self.axes = tuple(i for i, vanishes in enumerate(vanish[axis:]) if vanishes)
        self.state = state.reshape(shape)
        size = math.prod(n for n, vanishes in zip(whole, vanish) if not vanishes)
        self.pairwise = all(vanish[: axis + 1]) and size <= SMALL_STATE
        self.lone = lone_axis(blocks.shape[axis:], whole[axis:], vanish[axis:])
        self.parts: list[tuple[int, Array]] = []  # (level, state of 2**level blocks), levels falling
        self.seen: set[tuple[int | None, ...]] = set()

    def add(self, values: Array, at: Index) -> None:
        """Take the next block; `at` indexes its states."""
        region = self.state[at]
        if not self.pairwise:
            key = tuple(i.start if isinstance(i, slice) else i for i in at)
            if key not in self.seen:
                self.seen.add(key)
                self._leaf(values, region)
            else:
                part = scratch(PART, region.shape, region.dtype)
                self._leaf(values, part)
                self.reducer.merge(region, part)
            return
        part = np.empty(region.shape, region.dtype)
        self._leaf(values, part)
        level = 0
        while self.parts and self.parts[-1][0] == level:
            _, earlier = self.parts.pop()
            self.reducer.merge(earlier, part)
            part, level = earlier, level + 1
        self.parts.append((level, part))

    def _leaf(self, values: Array, state: Array) -> None:
        if self.lone >= 0:
            side_by_side(self.reducer, values, self.axes, state, None, self.lone)
        else:
            self.reducer.leaf(values, self.axes, state, None)

    def close(self) -> None:
        """Merge the remaining parts and write the state."""
        if self.parts:
            _, part = self.parts.pop()
            while self.parts:
                _, earlier = self.parts.pop()
                self.reducer.merge(earlier, part)
                part = earlier
            self.state[...] = part.reshape(self.state.shape)


def lone_axis(shape: Sequence[int], whole: Sequence[int], vanish: Sequence[bool]) -> int:
    """The last kept axis behind a vanishing axis, if `shape` has a single position of several in `whole`; -1 otherwise.

    NumPy would add across the axis in another order.

    Examples
    --------
    >>> lone_axis((9, 1), (9, 5), (True, False)), lone_axis((1, 9), (5, 9), (False, True))
    (1, -1)
    """
    long = [axis for axis, n in enumerate(whole) if n > 1]
    first = next((axis for axis in long if vanish[axis]), len(whole))
    side = max((axis for axis in long if axis > first and not vanish[axis]), default=-1)
    return side if side >= 0 and shape[side] == 1 else -1


def side_by_side(
    reducer: Reducer, values: Array, axes: tuple[int, ...], state: Array, arg: Any, axis: int, order: Sequence[int] = ()
) -> None:
    """Reduce a lone line as NumPy reduces lines that lie side by side along `axis`; `order` as in `leaf_function`."""
    order = order or range(values.ndim)
    two = np.repeat(values.transpose(order), 2, order.index(axis)).transpose(np.argsort(order))
    twice = np.empty((*state.shape[:axis], 2, *state.shape[axis + 1 :]), state.dtype)
    reducer.leaf(two, axes, twice, arg)
    state[...] = twice[(slice(None),) * axis + (slice(1),)]


def finished(step: Reduce | Combine, shape: tuple[int, ...], out: Array, write: Callable[[Array], None]) -> None:
    """Let `write` fill the states of a step (`shape`, kept axes); `out` gets the states or the finished values."""
    if not step.last:
        write(states(step.reducer, out))
        return
    if isinstance(step.reducer, UfuncReducer) and out.dtype == step.reducer.state:
        write(out.reshape(shape))
        if step.reducer.count is not None:
            step.reducer.finish(out, out)
        return
    state = np.empty(shape, step.reducer.state)
    write(state)
    step.reducer.finish(state.reshape(out.shape), out)


def leaf_function(step: Reduce, shape: tuple[int, ...], slot: int, arg: int, order: Sequence[int] = ()) -> ReductionRun:
    """Compile the reduction of a chunk without blocks; `arg` is the place of the argument, -1 for none, and `order` has
    the axes of a view by falling distance of elements in memory.
    """
    kept, reducer, axes = step.kept(shape), step.reducer, step.axes
    order, whole = order or range(len(shape)), step.whole or shape
    lone = lone_axis([shape[i] for i in order], [whole[i] for i in order], [i in axes for i in order])
    if lone >= 0:
        side = order[lone]

        def run_lone(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Any = None) -> None:
            own = args[arg] if arg >= 0 else None
            finished(step, kept, out, lambda state: side_by_side(reducer, values[slot], axes, state, own, side, order))

        return run_lone

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Any = None) -> None:
        own = args[arg] if arg >= 0 else None
        finished(step, kept, out, lambda state: reducer.leaf(values[slot], axes, state, own))

    if isinstance(reducer, UfuncReducer) and reducer.count is None and step.output.dtype == reducer.state:
        reduce = getattr(np, reducer.ufunc).reduce
        dtype = reducer.wanted
        keep = step.output.shape == kept

        def run_plain(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Any = None) -> None:
            reduce(values[slot], axes, dtype, out if keep else out.reshape(kept), True)

        return run_plain
    return run


def combine_function(step: Combine, shape: tuple[int, ...]) -> ReductionRun:
    """The kernel that joins the states of chunks; `shape` is that of the states, axes kept."""
    reducer, slots = step.reducer, step.inputs

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Any = None) -> None:
        def write(state: Array) -> None:
            np.copyto(state, states(reducer, values[slots[0]]))
            for slot in slots[1:]:
                reducer.merge(state, states(reducer, values[slot]))

        finished(step, shape, out, write)

    plain = isinstance(reducer, UfuncReducer) and reducer.count is None and step.output.dtype == reducer.state
    if isinstance(reducer, UfuncReducer) and plain and len(slots) > 1:
        ufunc = getattr(np, reducer.ufunc)
        first, second, *rest = slots
        keep = step.output.shape == shape

        def run_plain(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Any = None) -> None:
            state = out if keep else out.reshape(shape)
            ufunc(values[first], values[second], out=state)
            for slot in rest:
                ufunc(state, values[slot], out=state)

        return run_plain
    return run
