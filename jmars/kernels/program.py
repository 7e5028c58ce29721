"""What one operand does to its chunks, as data: chunk types, steps, and the joining of a chain of them.

A `Program` is shared by all operands of the same shapes; what differs between them (a slice's bounds, a random
stream's position) is the operand's `args`. Tiling makes programs (tensor/ops), fusing joins them (optimize/chains.py),
compile.py makes a kernel of each. A step names the values it reads: first the program's inputs, then the results of
earlier steps.
Source: seed 000, "Graph Preparation" (fusion); PLANNING "Compiling".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from jmars.kernels.expression import Expression, join, share
from jmars.kernels.reducers import Reducer

__all__ = [
    "Call",
    "ChunkType",
    "Combine",
    "Elementwise",
    "Fill",
    "Generate",
    "Program",
    "Reduce",
    "Step",
    "fuse",
    "program_text",
    "regions",
    "share_inputs",
    "single",
]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ChunkType:
    """Shape and dtype of a chunk."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.size * self.dtype.itemsize


class Step(Protocol):
    """One thing a program does: it reads `inputs` (value numbers) and gives a value of type `output`."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the values that it reads."""

    @property
    def output(self) -> ChunkType:
        """What it gives."""

    @property
    def takes_args(self) -> bool:
        """Whether an operand brings a value for this step."""

    @property
    def work(self) -> int:
        """Bytes of scratch beside inputs and output."""


@dataclass(frozen=True)
class Elementwise:
    """NumPy ufuncs and their like, broadcast to the output's shape."""

    expression: Expression
    inputs: tuple[int, ...]
    output: ChunkType
    takes_args = False
    work = 0


Fill = Callable[[Array, int], None]  # writes elements [start, start + out.size) of a chunk, C order; `start` grows


@dataclass(frozen=True)
class Generate:
    """A chunk made from nothing but its argument: constants, ranges, random numbers.

    `open(params, arg, output)` gives the `Fill` that writes the chunk block by block, so that a fused chain never holds
    it as a whole. `arg` is None unless `takes_args`.
    """

    open: Callable[[tuple[Any, ...], Any, ChunkType], Fill]
    params: tuple[Any, ...]
    output: ChunkType
    takes_args: bool = False
    inputs: tuple[int, ...] = ()
    work = 0


@dataclass(frozen=True)
class Reduce:
    """The first step of a tree reduction: one chunk to the state of its elements along `axes`, kept with length 1."""

    reducer: Reducer
    axes: tuple[int, ...]
    inputs: tuple[int, ...]
    output: ChunkType
    last: bool = False  # whether the output is the finished value (of any shape of that size), not the state
    takes_args: bool = False
    work: int = 0


@dataclass(frozen=True)
class Combine:
    """A further step of a tree reduction: some states to one."""

    reducer: Reducer
    inputs: tuple[int, ...]
    output: ChunkType
    last: bool = False
    takes_args = False
    work = 0


@dataclass(frozen=True)
class Call:
    """Any function that writes its output: `function(out, inputs, params, arg)`.

    `params` are the same for all operands of the program; `arg` is the operand's own, None unless `takes_args`.
    """

    function: Callable[[Array, Sequence[Array], tuple[Any, ...], Any], None]
    params: tuple[Any, ...]
    inputs: tuple[int, ...]
    output: ChunkType
    takes_args: bool = False
    work: int = 0  # bytes of scratch that the function allocates


@dataclass(frozen=True)
class Program:
    """What one operand does. Hashable, picklable and small.

    Examples
    --------
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((4,), f8)
    >>> from jmars.kernels.expression import Node
    >>> double = single("add", (chunk,), Elementwise(Expression((f8,), (Node("add", (0, 0), f8),)), (0,), chunk))
    >>> fuse([double, double], [0]).name
    'add+add'
    """

    name: str  # what the view shows: "add", fused "add+sum"
    inputs: tuple[ChunkType, ...]
    output: ChunkType
    steps: tuple[Step, ...]  # run in order; the last one writes the output
    work: int = 0  # bytes of scratch beside inputs and output; a few block buffers do not count

    @property
    def takes_args(self) -> bool:
        """Whether some step takes a value that each operand brings."""
        return any(step.takes_args for step in self.steps)

    @property
    def calls(self) -> bool:
        """Whether some step is a function rather than an expression: what may raise about the values."""
        return any(isinstance(step, Call) for step in self.steps)

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = hash((self.name, self.inputs, self.output, self.steps))
            self.__dict__["_hash"] = known
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # text hashes per process


def single(name: str, inputs: Sequence[ChunkType], step: Step) -> Program:
    """The program of one step."""
    return Program(name, tuple(inputs), step.output, (step,), step.work)


def fuse(programs: Sequence[Program], slots: Sequence[int]) -> Program:
    """One program for a chain of them.

    Parameters
    ----------
    programs
        The chain, head first.
    slots
        `programs[k]`'s output is input number `slots[k]` of `programs[k + 1]`; one shorter than `programs`.

    Returns
    -------
    Program
        Its inputs are those of `programs[0]`, then for each later program its other inputs in order; so its arguments.
        Elementwise neighbours of one shape become one expression.

    Source: seed 000, "Graph Preparation"; `Fusion.compose` of Mars 0.1.
    """
    assert len(slots) == len(programs) - 1
    inputs = list(programs[0].inputs)
    for program, slot in zip(programs[1:], slots):
        inputs += [chunk for i, chunk in enumerate(program.inputs) if i != slot]
    n = len(inputs)
    steps: list[Step] = _placed(programs[0].steps, list(range(len(programs[0].inputs))), n, 0)
    taken = len(programs[0].inputs)
    for program, slot in zip(programs[1:], slots):
        value = list(range(taken, taken + len(program.inputs) - 1))
        taken += len(value)
        value.insert(slot, n + len(steps) - 1)
        steps += _placed(program.steps, value, n, len(steps))
    steps = _merged(steps, n)
    name = "+".join(program.name for program in programs)
    return Program(name, tuple(inputs), steps[-1].output, tuple(steps), _work(steps))


def share_inputs(program: Program, slots: Sequence[int]) -> Program:
    """The same program with input `i` taken from the new input `slots[i]`; needed where one chunk is read twice.

    Examples
    --------
    `share_inputs(add, [0, 0])` has one input and doubles it.
    """
    inputs = tuple(program.inputs[list(slots).index(i)] for i in range(max(slots) + 1))
    shift = len(inputs) - len(program.inputs)
    steps: list[Step] = []
    for step in program.steps:
        values = tuple(slots[v] if v < len(program.inputs) else v + shift for v in step.inputs)
        steps.append(_reading(step, values))
    return replace(program, inputs=inputs, steps=tuple(steps))


def _reading(step: Step, values: tuple[int, ...]) -> Step:
    """`step` reading other values; an elementwise step reads each only once."""
    if isinstance(step, Elementwise) and len(set(values)) < len(values):
        unique = list(dict.fromkeys(values))
        return Elementwise(share(step.expression, [unique.index(v) for v in values]), tuple(unique), step.output)
    return step if values == step.inputs else replace(step, inputs=values)  # type: ignore[type-var]


def _placed(steps: Sequence[Step], value: list[int], n: int, done: int) -> list[Step]:
    """`steps` of a program with its inputs called `value`, after `done` other steps over `n` inputs."""
    shift = n + done - len(value)
    known = len(value)
    return [_reading(step, tuple(value[v] if v < known else v + shift for v in step.inputs)) for step in steps]


def _merged(steps: list[Step], n: int) -> list[Step]:
    """`steps` with elementwise neighbours of one shape as one expression."""
    merged: list[Step] = []
    value = list(range(n))  # number of each old value among the new ones
    for step in steps:
        step = _reading(step, tuple(value[v] for v in step.inputs))
        before = merged[-1] if merged else None
        alike = before is not None and before.output.shape == step.output.shape
        if alike and isinstance(step, Elementwise) and isinstance(before, Elementwise):
            last = n + len(merged) - 1
            slot = step.inputs.index(last)
            values = before.inputs + step.inputs[:slot] + step.inputs[slot + 1 :]
            both = Elementwise(join(before.expression, step.expression, slot), tuple(range(len(values))), step.output)
            merged[-1] = _reading(both, values)
        else:
            merged.append(step)
        value.append(n + len(merged) - 1)
    return merged


def regions(steps: Sequence[Step]) -> Iterator[tuple[Generate | None, Elementwise | None, Step | None]]:
    """Steps that run together, block by block: (generator, expression, reduction or another step that stands alone)."""
    k = 0
    while k < len(steps):
        head: Generate | None = None
        middle: Elementwise | None = None
        step = steps[k]
        if isinstance(step, Generate):
            head, k = step, k + 1
            follower = steps[k] if k < len(steps) else None
            same_shape = isinstance(follower, Elementwise) and follower.output.shape == head.output.shape
            if not (same_shape or _runs_in_blocks(follower)):
                yield head, None, None
                continue
            step = steps[k]
        if isinstance(step, Elementwise):
            middle, k = step, k + 1
            follower = steps[k] if k < len(steps) else None
            if not _runs_in_blocks(follower):
                yield head, middle, None
                continue
            step = steps[k]
        yield head, middle, step
        k += 1


def _runs_in_blocks(step: Step | None) -> bool:
    return isinstance(step, Reduce) and step.reducer.blocked


def _work(steps: Sequence[Step]) -> int:
    """Bytes that `steps` need beside inputs and output: what stands between regions, and scratch of single steps."""
    sizes: list[int] = []
    work = 0
    for region in regions(steps):
        last = [step for step in region if step is not None][-1]
        sizes.append(last.output.nbytes)
        work = max(work, last.work + sum(sizes[-2:-1]))
    between = sizes[:-1]  # at most two of these live at once
    return max([work, *(before + after for before, after in itertools.pairwise(between))])


def program_text(program: Program) -> str:
    """What the program computes, for the view: "add((x0 + x1) * 2.0)"."""
    texts = [f"x{i}" for i in range(len(program.inputs))]
    for step in program.steps:
        args = [texts[v] for v in step.inputs]
        if isinstance(step, Elementwise):
            text = step.expression.text([f"({t})" if " " in t and not t.endswith(")") else t for t in args])
        elif isinstance(step, Reduce | Combine):
            name = getattr(step.reducer, "ufunc", None) or getattr(step.reducer, "name", "moments")
            text = f"{name}({', '.join(args)})"
        elif isinstance(step, Generate):
            text = f"{step.open.__name__}()"
        else:
            text = f"{getattr(getattr(step, 'function', step), '__name__', program.name)}({', '.join(args)})"
        texts.append(text)
    return texts[-1]
