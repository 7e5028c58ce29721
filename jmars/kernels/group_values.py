"""Chunks of a group while it runs in a process: inputs, intermediate chunks, outputs.

Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jmars.errors import ExecutionInterrupted
from jmars.kernels.program import ChunkType, Program
from jmars.kernels.scratch import give_back, spare_array

__all__ = ["GroupStep", "GroupValues", "as_step"]

Array = np.ndarray[Any, Any]


class GroupStep(NamedTuple):
    """An operand of a group.

    Attributes
    ----------
    program
        Place in the programs of the spec.
    inputs
        Chunks in the program's order: `i >= 0` is external input i of the group, `-1 - j` the chunk of step j.
    args
        The operand's arguments.
    """

    program: int
    inputs: tuple[int, ...]
    args: tuple[Any, ...]


as_step: Callable[[tuple[Any, ...]], GroupStep] = partial(tuple.__new__, GroupStep)  # faster than GroupStep(...)


class GroupValues:
    """An intermediate chunk is dropped after its last reader, and its memory used again by this thread.

    Dask gives chunks of other workers at any address. A program that does more than move their elements reads an
    aligned copy, since NumPy adds up unaligned elements in another order.

    Parameters
    ----------
    steps
        The operands, in the order in which they run.
    outputs
        Steps whose chunks are returned.
    shapes
        Known shapes of external inputs that programs know without a length, by place.
    inputs
        Chunks of the external inputs, or None where one is missing.
    """

    def __init__(
        self,
        steps: Sequence[GroupStep],
        outputs: Sequence[int],
        shapes: Mapping[int, tuple[int, ...]],
        inputs: Sequence[Any],
    ) -> None:
        self._outputs, self._shapes = outputs, shapes
        self._inputs = [None if chunk is None else _read_only(np.require(chunk, requirements="C")) for chunk in inputs]
        self._copies: list[Array | None] = [None] * len(inputs)  # aligned, for the steps that read these inputs
        self._ending: dict[int, list[int]] = {}  # by step: inputs whose copies then have no reader
        self._chunks: list[Array | None] = [None] * len(steps)
        last = list(range(len(steps)))  # step after which each chunk can be dropped
        for number, step in enumerate(steps):
            for i in step.inputs:
                if i < 0:
                    last[-1 - i] = number
        final = {i: number for number, step in enumerate(steps) for i in step.inputs if i >= 0}
        for i, number in final.items():
            self._ending.setdefault(number, []).append(i)
        inner = set(range(len(steps))).difference(outputs)
        self._last = last
        self._dropped = sorted(inner, key=last.__getitem__, reverse=True)  # the next one is at the end

    def read(self, program: Program, step: GroupStep) -> list[Array]:
        """Chunks that a step reads, with the program's types; raises ExecutionInterrupted if a chunk is missing."""
        found = []
        for place, (kind, i) in enumerate(zip(program.inputs, step.inputs, strict=True)):
            chunk = self._inputs[i] if i >= 0 else self._chunks[-1 - i]
            if chunk is None:
                raise ExecutionInterrupted("the group that makes an input ended before the input")
            chunk = _typed(chunk, kind, self._shapes.get(i))
            if not chunk.flags.aligned and place not in program.moved:
                chunk = self._aligned(i, chunk)
            found.append(chunk)
        return found

    def _aligned(self, i: int, chunk: Array) -> Array:
        copy = self._copies[i]
        if copy is None or (copy.shape, copy.dtype) != (chunk.shape, chunk.dtype):
            copy = self._copies[i] = spare_array(chunk.shape, chunk.dtype)
            np.copyto(copy, chunk)
        return _read_only(copy)

    def keep(self, number: int, chunk: Array) -> None:
        """Keep the chunk of a step, as long as steps read it."""
        chunk.setflags(write=False)
        self._chunks[number] = chunk
        del chunk
        for i in self._ending.get(number, ()):
            if self._copies[i] is not None:
                give_back(self._copies, i)
        while self._dropped and self._last[self._dropped[-1]] <= number:
            give_back(self._chunks, self._dropped.pop())

    def outputs(self) -> list[Array | None]:
        """Chunks to return; None where a step did not end."""
        return [self._chunks[number] for number in self._outputs]


def _read_only(chunk: Array) -> Array:
    if chunk.flags.writeable:
        chunk = chunk.view()
        chunk.flags.writeable = False
    return chunk


def _typed(chunk: Array, kind: ChunkType, known: tuple[int, ...] | None) -> Array:
    """A chunk with the dtype and shape that a program knows, of the same bytes."""
    if chunk.dtype == kind.dtype and (chunk.shape == kind.shape or _fits(chunk.shape, kind.shape)):
        return chunk
    if not kind.dtype.itemsize:  # no bytes
        return _read_only(np.empty(kind.shape if kind.is_sized else known or (), kind.dtype))
    flat = chunk.reshape(-1).view(np.uint8)
    shape = kind.shape if kind.is_sized or known is None else known
    return _read_only(flat.view(kind.dtype).reshape(shape))


def _fits(shape: tuple[int, ...], promised: tuple[int, ...]) -> bool:
    return len(shape) == len(promised) and all(n in (-1, m) for m, n in zip(shape, promised))
