"""Operands for tests of the runtime: any function of chunks, with what faults need (sleep, die, fail)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.operand import Operand, TensorData, new_data


@dataclass(frozen=True, eq=False, kw_only=True)
class Apply(Operand):
    """`function(out, inputs, chunk number)` on each chunk; inputs have the chunks of the output, or all."""

    name: ClassVar[str] = "apply"
    function: Callable
    gather: bool = False
    work: int = 0

    def tile(self, builder, inputs, output):
        ids = np.empty(output.grid, np.int64)
        flat = ids.reshape(-1)
        for number, index in enumerate(np.ndindex(*output.grid)):
            sources = [(grid, i) for grid in inputs for i in (np.ndindex(*grid.ids.shape) if self.gather else [index])]
            types = [ChunkType(_shape(grid.splits, i), grid.dtype) for grid, i in sources]
            out = ChunkType(_shape(output.chunks, index), output.dtype)
            step = Call(_run, (self.function,), tuple(range(len(types))), out, True, self.work)
            flat[number] = builder.add(single("apply", types, step), [int(g.ids[i]) for g, i in sources], (number,))
        return ids


class SlowToTile(Apply):
    """Its tiling takes half a minute."""

    def tile(self, builder, inputs, output):
        time.sleep(30)
        return super().tile(builder, inputs, output)


def _run(out, inputs, params, arg):
    params[0](out, inputs, arg)


def _shape(splits, index):
    return tuple(axis[i] for axis, i in zip(splits, index, strict=True))


def apply(function, *inputs: TensorData, chunks=None, gather=False, dtype=np.float64, work=0) -> TensorData:
    """A node that runs `function` on each of its chunks."""
    splits = chunks if chunks is not None else inputs[0].chunks
    op = Apply(inputs=inputs, function=function, gather=gather, work=work)
    return new_data(op, tuple(map(sum, splits)), np.dtype(dtype), splits)


def numbers(count: int, size: int = 10) -> TensorData:
    """`count` chunks of `size` elements, chunk i full of i."""

    def fill(out, inputs, number):
        out[...] = number

    return apply(fill, chunks=((size,) * count,))


def total(node: TensorData) -> TensorData:
    """The sum of all elements: of each chunk, then of those."""

    def add(out, inputs, number):
        out[...] = math.fsum(float(chunk.sum()) for chunk in inputs)

    parts = apply(add, node, chunks=((1,) * len(node.chunks[0]),))
    return apply(add, parts, chunks=(), gather=True)
