"""Runs generators, expression and reduction in a single pass over the blocks of a chunk; any may be missing.

Intermediate values are a block in the second-level cache, so a fused chain never holds a whole chunk beside its inputs
and output. NumPy reduces block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jmars.errors import ExecutionInterrupted
from jmars.kernels.blocks import BLOCK_SIZE, Blocks
from jmars.kernels.float_flags import watched
from jmars.kernels.numexpr_backend import numexpr_function
from jmars.kernels.numpy_backend import block_body, whole_function
from jmars.kernels.program import ChunkType, Elementwise, Fill, Generate, Reduce
from jmars.kernels.reducers import UfuncReducer
from jmars.kernels.reduction_kernel import Accumulator, finished, leaf_function
from jmars.kernels.row_chains import RowChain
from jmars.kernels.scratch import scratch

__all__ = ["Head", "Run", "Stop", "interrupted", "pipeline"]

Array = np.ndarray[Any, Any]
Stop = Callable[[], bool] | None
Run = Callable[[Any, Sequence[Any], Sequence[Any], Stop], Any]  # gives a value only where `out` is None

LONE_BLOCK = 1 << 20  # elements of a block where one operation runs alone: only `stop` asks for blocks there
PLAIN_BLOCK = 1 << 18  # of elements that are reduced as they are, read or made here: sums are the same to the last bit
SHORT_ROW = 128  # elements of a row, up to which an input that all rows share is repeated to the size of a block
MIDDLE, BUFFERS = 0, 1  # slots of scratch; generators have those behind the buffers


class Head(NamedTuple):
    """A generator of a region."""

    step: Generate
    value: int  # number of the value that it gives
    arg: int  # which of the operand's arguments it takes; -1 for none

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
    made = [read.index(head.value) for head in heads]  # which of the values read are made here
    slots = [v for i, v in enumerate(read) if i not in made]
    chunk = middle.output if middle is not None else types[read[0]]
    kept = tuple(1 if tail and axis in tail.axes else n for axis, n in enumerate(chunk.shape))
    blocks = Blocks.of(chunk.shape, [*(types[v].shape for v in slots), kept], apart=strided)
    one_pass = tail is None or isinstance(tail.reducer, UfuncReducer)
    single = len(heads) + (middle is not None) + (tail is not None) == 1
    alone = one_pass and single and (middle is None or middle.expression.ops <= 1)
    wide = min(16 * math.prod(kept), 1 << 18) if tail is not None else 0  # joining a wide state costs a pass over it
    block_size = LONE_BLOCK if alone else max(BLOCK_SIZE, wide)
    if one_pass and tail is not None and middle is None:
        block_size = max(PLAIN_BLOCK, wide)
    compute: Callable[..., None] | None = None
    buffers: tuple[np.dtype[Any], ...] = ()
    repeated: list[int] = []  # inputs that are repeated for each row of a block
    if chunk.size <= BLOCK_SIZE and not in_numexpr:
        return _at_once(heads, middle, tail, chunk)
    if block is not None and middle is not None:
        compute = watched(block, middle)
    elif middle is not None and in_numexpr:
        compute = watched(numexpr_function(middle.expression), middle)
        block_size *= 4 if tail is None else 1  # a sum is that of the same blocks, whatever computes them
    elif middle is not None:
        body = block_body(middle.expression, middle.twin)
        compute, buffers = body.run, body.buffers
        if not strided and 1 < math.prod(blocks.shape[1:]) <= SHORT_ROW:
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
                made_here = out if compute is None else None  # alone, it writes what the region gives
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
