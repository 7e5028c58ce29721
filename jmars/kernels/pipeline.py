"""Generator, expression and reduction in one pass over the blocks of a chunk; each of the three may be missing.

What stands between them is one block in the second-level cache, so a fused chain never holds a whole chunk beside its
inputs and output. Used by compile.py. Source: PLANNING "Compiling" (reductions by NumPy per block).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.errors import ExecutionInterrupted
from jmars.kernels.blocks import BLOCK_SIZE, Blocks
from jmars.kernels.numexpr_backend import numexpr_function
from jmars.kernels.numpy_backend import block_body, whole_function
from jmars.kernels.program import ChunkType, Elementwise, Generate, Reduce
from jmars.kernels.reducers import UfuncReducer
from jmars.kernels.reduction_kernel import Accumulator, finished, leaf_function
from jmars.kernels.scratch import scratch

__all__ = ["Run", "Stop", "interrupted", "pipeline"]

Array = np.ndarray[Any, Any]
Stop = Callable[[], bool] | None
Run = Callable[[Array, Sequence[Any], Sequence[Any], Stop], None]

LONE_BLOCK = 1 << 20  # elements of a block where one operation runs alone: only `stop` asks for blocks there
HEAD, MIDDLE, BUFFERS = 0, 1, 2  # slots of scratch


def interrupted() -> ExecutionInterrupted:
    """What a kernel raises when `stop()` was true."""
    return ExecutionInterrupted("the operand was told to stop; nothing to do: its job was cancelled")


def pipeline(
    head: Generate | None,
    middle: Elementwise | None,
    tail: Reduce | None,
    types: list[ChunkType],
    first: int,
    arg: int,
    in_numexpr: bool,
) -> Run:
    """The kernel of a region whose first step gives value number `first` (of `types`); `arg` is the head's argument."""
    read = middle.inputs if middle is not None else (first,) if head is not None else tail.inputs if tail else ()
    made = read.index(first) if head is not None else -1  # which of the values read is made here
    slots = [v for i, v in enumerate(read) if i != made]
    chunk = middle.output if middle is not None else types[read[0]]
    kept = tuple(1 if tail and axis in tail.axes else n for axis, n in enumerate(chunk.shape))
    blocks = Blocks.of(chunk.shape, [*(types[v].shape for v in slots), kept])
    one_pass = tail is None or isinstance(tail.reducer, UfuncReducer)
    alone = one_pass and (head, middle, tail).count(None) == 2 and (middle is None or middle.expression.ops <= 1)
    wide = min(16 * math.prod(kept), 1 << 18) if tail is not None else 0  # joining a wide state costs a pass over it
    block_size = LONE_BLOCK if alone else max(BLOCK_SIZE, wide)
    compute: Callable[..., None] | None = None
    buffers: tuple[np.dtype[Any], ...] = ()
    if chunk.size <= BLOCK_SIZE and not in_numexpr:
        return _at_once(head, middle, tail, chunk, first, arg)
    if middle is not None and in_numexpr:
        compute, block_size = numexpr_function(middle.expression), 4 * block_size
    elif middle is not None:
        body = block_body(middle.expression)
        compute, buffers = body.run, body.buffers

    def block_by_block(target: Array, values: Sequence[Any], args: Sequence[Any], stop: Stop) -> None:
        """Write the elements to `target`, or with a tail the states."""
        inputs = [values[slot].reshape(shape) for slot, shape in zip(slots, blocks.operands)]
        fill = head.open(head.params, args[arg] if arg >= 0 else None, head.output) if head is not None else None
        states = Accumulator(tail.reducer, blocks, block_size, target) if tail is not None else None
        whole = target.reshape(blocks.shape) if states is None else None
        for start, shape, index, at in blocks.cut(block_size):
            parts = [x[i] for x, i in zip(inputs, at)]
            out = whole[index] if whole is not None else None
            if fill is not None and head is not None:
                made_here = out if out is not None and compute is None else scratch(HEAD, shape, head.output.dtype)
                fill(made_here.reshape(-1), start)
                parts.insert(made, made_here)
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


def _at_once(
    head: Generate | None, middle: Elementwise | None, tail: Reduce | None, chunk: ChunkType, first: int, arg: int
) -> Run:
    """The same for a chunk of at most a block: no cutting, and NumPy allocates what stands between."""
    compute = whole_function(middle.expression, middle.inputs) if middle is not None else None
    reduce = leaf_function(tail, chunk.shape, 0, -1) if tail is not None else None

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        if head is not None:
            made = np.empty(head.output.shape, head.output.dtype) if compute or reduce else out
            head.open(head.params, args[arg] if arg >= 0 else None, head.output)(made.reshape(-1), 0)
            values = [*values[:first], made]
        if compute is not None:
            target = np.empty(chunk.shape, chunk.dtype) if reduce is not None else out
            compute(target, values)
            values = [target]
        elif head is not None:
            values = [values[-1]]
        if reduce is not None:
            reduce(out, values, (), None)

    return run
