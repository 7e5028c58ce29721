"""Steps that run a block of rows at a time, so that their chunks are never whole: `rfft(x * window)` before `abs`.

A function that computes each row by itself (`Call.by_rows`) and the expressions that only this function reads are a
chain. The reader of the chain takes the elements in blocks, as of a generator: whole chunks between the steps would
leave the cache, and fresh memory is slow to write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from jmars.kernels.blocks import BLOCK_SIZE, scratch, watched
from jmars.kernels.float_errors import note_member
from jmars.kernels.numpy_backend import block_body, numexpr_function, runs_in_numexpr
from jmars.kernels.program import Call, ChunkType, Elementwise, Fill, Reduce, Step

Array = np.ndarray[Any, Any]
LONGEST_ROW = 2**16  # elements: a thread keeps blocks of rows, and a block has at least one row
BLOCK_ELEMENTS = 2**16  # elements of a block, unless a row is longer: a call of a function costs some 20 microseconds
SLOT = 500  # of scratch, from here on


def row_chains(
    steps: Sequence[Step],
    n: int,
    readers: Sequence[Sequence[int]],
    middle: int | None,
    tail: int | None,
    alone: Collection[int],
) -> list[tuple[int, ...]]:
    """Chains that the last steps of a region read: steps in the order in which they run.

    Parameters
    ----------
    steps
        Of a program.
    n
        Number of the program's inputs.
    readers
        Steps that read each step's value.
    middle, tail
        Of the region (`fusing.Region`). A tail that runs row by row is the end of its chain.
    alone
        Steps that would be a region each; others may not join a chain, as their generators would be left behind.
    """
    reader = middle if middle is not None else tail
    if reader is None:
        return []
    step = steps[reader]
    if middle is None and isinstance(step, Call):
        found = _chain(steps, n, readers, reader, alone)
        return [found] if len(found) > 1 else []
    if not isinstance(step, Elementwise | Reduce) or (isinstance(step, Reduce) and not step.reducer.blocked):
        return []
    ends = [value - n for value in step.inputs if value >= n and readers[value - n] == [reader]]
    if isinstance(step, Elementwise):
        ends = [end for end in ends if steps[end].output.shape == step.output.shape]
    return [found for end in ends if (found := _chain(steps, n, readers, end, alone))]


def _chain(
    steps: Sequence[Step], n: int, readers: Sequence[Sequence[int]], end: int, alone: Collection[int]
) -> tuple[int, ...]:
    """The chain that ends with a function; empty if the function needs whole inputs, or its blocks would be large."""
    last = steps[end]
    if not isinstance(last, Call) or not last.by_rows or last.output.size <= BLOCK_SIZE:
        return ()
    shape = last.output.shape
    found, stack = {end}, [end]
    while stack:
        for value in steps[stack.pop()].inputs:
            k = value - n
            if k not in alone or k in found or not found.issuperset(readers[k]):
                continue
            step = steps[k]
            by_rows = isinstance(step, Elementwise) or (isinstance(step, Call) and step.by_rows)
            if by_rows and len(step.output.shape) == len(shape) and step.output.shape[0] == shape[0]:
                found.add(k)
                stack.append(k)
    return tuple(sorted(found)) if max(_row(steps[k].output) for k in found) <= LONGEST_ROW else ()


def _row(chunk: ChunkType) -> int:
    return math.prod(chunk.shape[1:])


class RowChain(NamedTuple):
    """A compiled chain; a head of `pipeline`."""

    step: Call  # last step of the chain
    value: int  # number of its output
    parts: tuple[_Part, ...]
    rows: int  # of a block

    def open(self, args: Sequence[Any], values: Sequence[Any]) -> Fill:
        """Open the `Fill` that writes the chain's elements."""
        return _RowFill(self, args, values).fill


class _Part(NamedTuple):
    """A step of a chain."""

    compute: Callable[..., None]  # of the output, the inputs and, for a function, the operand's argument
    value: int  # number of its output
    output: ChunkType
    inputs: tuple[tuple[int, bool], ...]  # (value, whether it is split into blocks of rows here)
    arg: int  # index of the operand's argument; -1 for none
    member: int


def row_chain(
    steps: Sequence[Step],
    types: Sequence[ChunkType],
    numbers: Sequence[int],
    args: Sequence[int],
    members: Sequence[int],
    numexpr: bool,
) -> RowChain:
    """Compile a chain.

    Parameters
    ----------
    steps, types
        Of the program: steps, and types of its inputs and of the steps' values.
    numbers
        Steps of the chain.
    args
        Place of the argument of each of these steps among the operand's arguments; -1 for none.
    members
        The fused operand of each of these steps.
    numexpr
        Whether numexpr computes the expressions that it can.
    """
    n = len(types) - len(steps)
    made = {n + k for k in numbers}
    parts = []
    for k, arg, member in zip(numbers, args, members, strict=True):
        step, output = steps[k], steps[k].output
        whole = {v for v in step.inputs if len(types[v].shape) < len(output.shape) or types[v].shape[0] == 1}
        read = tuple([(v, v not in made and v not in whole) for v in step.inputs])
        parts.append(_Part(_computes(step, numexpr), n + k, output, read, arg, member))
    last = steps[numbers[-1]]
    assert isinstance(last, Call)
    rows = max(1, BLOCK_ELEMENTS // max(1, max(_row(part.output) for part in parts)))
    return RowChain(last, n + numbers[-1], tuple(parts), rows)


def _computes(step: Step, numexpr: bool) -> Callable[..., None]:
    if isinstance(step, Call):
        function, params = step.function, step.params

        def call(out: Array, inputs: Sequence[Array], arg: Any) -> None:
            function(out, inputs, params, arg)

        return call
    assert isinstance(step, Elementwise)
    compute: Callable[..., None]
    dtypes: Sequence[np.dtype[Any]] = ()
    if numexpr and runs_in_numexpr(step.expression):
        compute = watched(numexpr_function(step.expression), step)
    else:
        body = block_body(step.expression, step.twin)
        compute, dtypes = body.run, body.buffers

    def run(out: Array, inputs: Sequence[Array], arg: Any) -> None:
        compute(out, *inputs, *[scratch(SLOT - 1 - k, out.shape, dtype) for k, dtype in enumerate(dtypes)])

    return run


class _RowFill:
    """Writes the elements of a chain for an operand, in C order."""

    def __init__(self, chain: RowChain, args: Sequence[Any], values: Sequence[Any]) -> None:
        self._chain, self._args, self._values = chain, args, dict(enumerate(values))
        self._row = _row(chain.step.output)
        self._rest = np.empty(0, chain.step.output.dtype)  # elements of a row that were not asked for yet

    def fill(self, out: Array, start: int) -> None:
        """Write elements [start, start + out.size)."""
        at, rest = min(len(self._rest), out.size), self._rest
        out[:at], self._rest = rest[:at], rest[at:]
        row = (start + at) // self._row
        while at < out.size:
            rows = min(self._chain.rows, (out.size - at) // self._row)
            if rows:
                self._compute(row, out[at : at + rows * self._row])
                at, row = at + rows * self._row, row + rows
            else:  # a part of a row
                last = np.empty(self._row, out.dtype)  # not scratch: other chains fill their blocks meanwhile
                self._compute(row, last)
                out[at:], self._rest = last[: out.size - at], last[out.size - at :]
                return

    def _compute(self, row: int, out: Array) -> None:
        """Write whole rows to `out`, which is flat."""
        values, parts = self._values, self._chain.parts
        rows = out.size // self._row
        for place, part in enumerate(parts, 1):
            shape = (rows, *part.output.shape[1:])
            target = out.reshape(shape) if part is parts[-1] else scratch(SLOT + place, shape, part.output.dtype)
            inputs = [values[v][row : row + rows] if is_cut else values[v] for v, is_cut in part.inputs]
            try:
                part.compute(target, inputs, self._args[part.arg] if part.arg >= 0 else None)
            except BaseException as error:
                note_member(error, part.member, in_chain=True)
                raise
            values[part.value] = target
