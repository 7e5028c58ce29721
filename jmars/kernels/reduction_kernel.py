"""Compiles the steps of a tree reduction: a chunk to its state, several states to a single state.

Blocks that end in a common state are joined in pairs of equal weight, like NumPy's pairwise summation, so that the
error grows with the logarithm of the chunk's size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.kernels.blocks import Blocks, Index
from jmars.kernels.program import Combine, Reduce
from jmars.kernels.reducers import Reducer, UfuncReducer, states
from jmars.kernels.scratch import scratch

__all__ = ["Accumulator", "combine_function", "finished", "leaf_function"]

Array = np.ndarray[Any, Any]
Run = Callable[[Array, Sequence[Any], Sequence[Any], Callable[[], bool] | None], None]
PART = -1  # slot of scratch
SMALL_STATE = 4096  # elements; several copies of a larger state would leave the cache


class Accumulator:
    """Reduces the blocks of a chunk to the chunk's state, written to `state` (kept axes, C-contiguous)."""

    def __init__(self, reducer: Reducer, blocks: Blocks, block_size: int, state: Array) -> None:
        self.reducer = reducer
        shape = blocks.operands[-1]  # the state is the last operand, 1 on the axes that vanish
        axis = blocks.cut_axis(block_size)
        self.axes = tuple(i for i, length in enumerate(shape[axis:]) if length == 1)
        self.state = state.reshape(shape)
        one_region = all(length == 1 for length in shape[: axis + 1])
        self.pairwise = one_region and state.size <= SMALL_STATE
        self.parts: list[tuple[int, Array]] = []  # (level, state of 2**level blocks), levels falling
        self.seen: set[tuple[int | None, ...]] = set()

    def add(self, values: Array, at: Index) -> None:
        """Take the next block; `at` indexes its states."""
        region = self.state[at]
        if not self.pairwise:
            key = tuple(i.start if isinstance(i, slice) else i for i in at)
            if key not in self.seen:
                self.seen.add(key)
                self.reducer.leaf(values, self.axes, region, None)
            else:
                part = scratch(PART, region.shape, region.dtype)
                self.reducer.leaf(values, self.axes, part, None)
                self.reducer.merge(region, part)
            return
        part = np.empty(region.shape, region.dtype)
        self.reducer.leaf(values, self.axes, part, None)
        level = 0
        while self.parts and self.parts[-1][0] == level:
            _, earlier = self.parts.pop()
            self.reducer.merge(earlier, part)
            part, level = earlier, level + 1
        self.parts.append((level, part))

    def close(self) -> None:
        """Merge the remaining parts and write the state."""
        if self.parts:
            _, part = self.parts.pop()
            while self.parts:
                _, earlier = self.parts.pop()
                self.reducer.merge(earlier, part)
                part = earlier
            self.state[...] = part.reshape(self.state.shape)


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


def leaf_function(step: Reduce, shape: tuple[int, ...], slot: int, arg: int) -> Run:
    """Compile the reduction of a chunk without blocks; `arg` is the place of its argument, -1 for none."""
    kept = tuple(1 if axis in step.axes else length for axis, length in enumerate(shape))
    reducer, axes = step.reducer, step.axes

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


def combine_function(step: Combine, shape: tuple[int, ...]) -> Run:
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
