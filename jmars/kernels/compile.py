"""Compiles programs to kernels: `compile_program` gives the function that an executor calls for each operand.

A kernel writes `out` in place, asks `stop()` (the job's stop flag) between steps and blocks, and leaves floating point
errors to its caller (an executor sets a `FloatErrors` as NumPy's handler once). A `Call` step and a chunk of a single
block do not ask. Elementwise parts run block by block in cache, a reduction right behind them.

`executable` writes an operand as a separate document, with the chunks to fetch, as readable JSON, so that the operand
runs apart from any cluster; `run_executable` runs the document on given inputs. `Job.operand` and
`python -m jmars operand` reach both. The operand itself travels as a pickle inside, like any program: run only
documents that you made.

Expressions of values that lie side by side in several chunks are computed in place, without a copy. Shifted slices of
an array have most of their elements in a chunk and a few in the neighbours. The output is divided into cells, and in a
cell every input lies in a single array.
Source: docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

import base64
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import mul
from types import FunctionType
from typing import Any, NamedTuple, Protocol, cast

import cloudpickle
import numpy as np
from msgspec import structs

from jmars.errors import GraphError, UnsupportedError
from jmars.kernels.blocks import BLOCK_SIZE, close_spares, give_back, open_spares, spare_array
from jmars.kernels.expression import Expression
from jmars.kernels.float_errors import expression_of, note_member
from jmars.kernels.fusing import Region, Sharing, lifetimes, sharing
from jmars.kernels.native_pipeline import native_block, native_pipeline
from jmars.kernels.numpy_backend import runs_in_numexpr, whole_function
from jmars.kernels.pipeline import (
    Head,
    Run,
    Stop,
    combine_function,
    flat_pipeline,
    interrupted,
    leaf_function,
    never_raises,
    pipeline,
)
from jmars.kernels.program import (
    Call,
    ChunkType,
    Combine,
    Elementwise,
    Generate,
    Program,
    Reduce,
    Step,
    measured,
    program_text,
)
from jmars.kernels.reducers import UfuncReducer
from jmars.kernels.row_chains import RowChain, row_chain
from jmars.model.limits import REMEMBERED_PROGRAMS

Array = np.ndarray[Any, Any]
BACKENDS = ("llvm", "numexpr", "numpy-blocked", "numpy", "function")


class Kernel(Protocol):
    """A compiled program: a plain function with two attributes, so that a call costs no more than a function call."""

    backend: str  # "llvm", "numexpr", "numpy", "numpy-blocked" or "function"
    text: str  # the expression, for the view

    def __call__(self, out: Any, inputs: Sequence[Array], args: Sequence[Any] = (), stop: Stop = None) -> Any:
        """Write the output chunk; return the chunk if its size is unknown.

        Parameters
        ----------
        out
            C-contiguous, of the program's output type, written in place; None where its size is not known.
        inputs
            Chunks of the program's input types.
        args
            One entry per step that takes an argument, head first.
        stop
            Reads the job's stop flag; asked between blocks, True ends the kernel.

        Raises
        ------
        ExecutionInterrupted
            If `stop()` was true; `out` then holds anything.
        """


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def compile_program(program: Program, backend: str = "auto") -> Kernel:
    """Compile a program; equal programs of a process share a kernel, which several threads may call.

    Parameters
    ----------
    program
        What an operand does.
    backend
        "numpy"; "numexpr" or "llvm", wherever these give NumPy's bits; "llvm-fast", wherever there is machine code;
        "auto": the program's own.

    Examples
    --------
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((3,), f8)
    >>> add = Elementwise(Expression((f8, f8), (Node("add", (0, 1), f8),)), (0, 1), chunk)
    >>> kernel = compile_program(single("add", (chunk, chunk), add))
    >>> out = np.empty(3)
    >>> kernel(out, [np.ones(3), np.arange(3.0)], ())
    >>> out.tolist(), kernel.text
    ([1.0, 2.0, 3.0], 'x0 + x1')
    """
    program, backend = _with_twins(program), program.backend if backend == "auto" else backend
    types = [*program.inputs, *(step.output for step in program.steps)]
    first = len(program.inputs)  # number of the first step's value
    parts: list[tuple[Run, int, tuple[int, ...]]] = []  # (run, its value, values that end after it)
    names: list[str] = []
    shared = sharing(program.steps, first)
    for region, ending in lifetimes(program.steps, first):
        run, name = _compile_region(program, region, types, backend, shared)
        parts.append((run, first + region.last, ending))
        names.append(name)
    members = [program.members[number - first] if program.members else 0 for _, number, _ in parts]
    run = parts[0][0]
    if len(parts) > 1:
        run = _in_sequence(
            parts,
            members,
            types,
            _reshaped(program.steps, first),
            _placements(program, shared),
            _joins(program, shared),
        )
    kernel: Any = _own_copy(run)
    kernel.backend = min(names, key=BACKENDS.index)
    kernel.text = program_text(program)
    return cast(Kernel, kernel)


def _with_twins(program: Program) -> Program:
    """Number the steps of equal expressions, so that all steps get their own generated functions."""
    expressions = [expression for step in program.steps if (expression := expression_of(step)) is not None]
    if len(set(expressions)) == len(expressions):
        return program
    seen: Counter[Expression] = Counter()
    steps: list[Step] = []
    for step in program.steps:
        expression = expression_of(step)
        if expression is not None:
            if isinstance(step, Elementwise):
                step = structs.replace(step, twin=seen[expression])
            elif isinstance(step, Call):
                step = structs.replace(step, params=(expression, seen[expression]))
            seen[expression] += 1
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _own_copy(run: Run) -> FunctionType:
    """Copy a function object so that it can carry attributes: programs share generated functions."""
    assert isinstance(run, FunctionType)
    return FunctionType(run.__code__, run.__globals__, run.__name__, run.__defaults__, run.__closure__)


def _reshaped(steps: Sequence[Step], first: int) -> dict[int, int]:
    """Map values that only reshape a value to the reshaped value."""
    return {first + k: step.inputs[0] for k, step in enumerate(steps) if isinstance(step, Call) and step.reshapes}


class _Placement(NamedTuple):
    """A value that lies in another value's memory."""

    owner: int  # number of the other value
    part: Callable[..., Array]  # of the owner's array, params and the operand's argument
    params: tuple[Any, ...]
    arg: int  # index of the operand's argument; -1 for none
    is_there: bool  # whether the elements are the owner's, and not yet to be computed

    def of(self, array: Array, args: Sequence[Any], shape: tuple[int, ...]) -> Array:
        """The value's array."""
        return self.part(array, self.params, args[self.arg] if self.arg >= 0 else None).reshape(shape)


def _placements(program: Program, shared: Sharing) -> dict[int, _Placement]:
    """Where the values lie that have no memory of their own."""
    found, first = {}, len(program.inputs)
    for is_there, owners in ((True, shared.views), (False, shared.inside)):
        for value, owner in owners.items():
            number = (value if is_there else owner) - first
            step = program.steps[number]
            assert isinstance(step, Call)
            part = step.view if is_there else step.target
            assert part is not None
            found[value] = _Placement(owner, part, step.params, _argument(program, number), is_there)
    return found


def _joins(program: Program, shared: Sharing) -> dict[int, tuple[tuple[int, ...], int]]:
    """Values that stay side by side: numbers of the values that hold parts, and the argument with their starts."""
    first = len(program.inputs)
    return {value: (held, _argument(program, value - first)) for value, held in shared.joined.items()}


def _in_sequence(
    parts: list[tuple[Run, int, tuple[int, ...]]],
    members: list[int],
    types: list[ChunkType],
    reshaped: dict[int, int],
    placed: dict[int, _Placement],
    joins: dict[int, tuple[tuple[int, ...], int]],
) -> Run:
    """Run regions in order; a value between regions lives until its last reader has run.

    A reshaped value is a view; if the output reshapes a value, that value is computed in the output's memory. A value
    of `placed` lies in the memory of another, a value of `joins` in that of several others.
    """
    last = parts[-1][1]
    in_out = reshaped.get(last) if reshaped.get(last) in [number for _, number, _ in parts] else None
    in_out = None if in_out in reshaped else in_out

    def run(out: Any, inputs: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> Any:
        values: list[Any] = list(inputs) + [None] * (len(types) - len(inputs))
        target: Any
        early: dict[int, Array] = {}  # memory of values that are computed later
        done = 0

        def memory(number: int) -> Array:
            shape, dtype = types[number].shape, types[number].dtype
            if number in early:
                return early.pop(number)
            if number in (last, in_out):
                return cast(Array, out.reshape(shape))
            return spare_array(shape, dtype)

        opened = open_spares()
        try:
            for part, number, ending in parts[:-1]:
                place = placed.get(number)
                if number in joins:
                    held, arg = joins[number]
                    target = SideBySide([values[one] for one in held], args[arg])
                elif number in reshaped:
                    target = values[reshaped[number]].reshape(types[number].shape)
                elif place is not None and place.is_there:
                    target = place.of(values[place.owner], args, types[number].shape)
                elif place is not None:
                    early[place.owner] = memory(place.owner)
                    part(place.of(early[place.owner], args, types[number].shape), values, args, stop)
                    target = None  # the reader finds the value in place
                else:
                    if types[number].is_sized:
                        target = memory(number)
                        part(target, values, args, stop)
                    else:
                        target = part(None, values, args, stop)
                    target.setflags(write=False)  # like a stored chunk: readers share it
                _end(values, ending)
                values[number], target = target, None
                done += 1
                if stop is not None and stop():
                    raise interrupted()
            found = out if in_out is not None else parts[-1][0](out, values, args, stop)
            _end(values, parts[-1][2])
            return found
        except BaseException as error:
            note_member(error, members[done])
            raise
        finally:
            if opened:
                close_spares()

    return run


def _end(values: list[Any], ending: Sequence[int]) -> None:
    """Remove values that have ended; their memory is for the next values, since warm memory is faster."""
    for number in ending:
        if values[number] is not None:
            give_back(values, number)


def _compile_region(
    program: Program, region: Region, types: list[ChunkType], backend: str, shared: Sharing
) -> tuple[Run, str]:
    """Compile a region; returns its function and the name of the back end."""
    steps, first = program.steps, len(program.inputs)
    middle = steps[region.middle] if region.middle is not None else None
    tail = steps[region.tail] if region.tail is not None else None
    assert middle is None or isinstance(middle, Elementwise)
    if isinstance(tail, Call):
        return _call(tail, _argument(program, region.tail)), "function"
    if isinstance(tail, Combine):
        shape = types[tail.inputs[0]].shape
        return combine_function(tail, shape if tail.reducer.state.names is None else shape[:-1]), "numpy"
    assert tail is None or isinstance(tail, Reduce)
    if tail is not None and not region.heads and not region.chains and middle is None:
        chunk = types[tail.inputs[0]]
        is_view = tail.inputs[0] in shared.views
        in_place = is_view and isinstance(tail.reducer, UfuncReducer)  # NumPy's order of adding
        if not tail.reducer.blocked or math.prod(tail.whole or chunk.shape) <= BLOCK_SIZE or in_place:
            order = _memory_order(steps[tail.inputs[0] - first], types) if is_view and tail.whole else ()
            return leaf_function(tail, chunk.shape, tail.inputs[0], _argument(program, region.tail), order), "numpy"
    heads = [_head(program, number) for number in region.heads] + [
        _chain(program, one, types, backend) for one in region.chains
    ]
    touched = middle.inputs if middle is not None else tail.inputs if tail is not None else ()
    lengths = {value: steps[value - first].params for value in touched if value in shared.joined}  # type: ignore[attr-defined]
    touched = (*touched, first + region.last) if tail is None else touched
    strided = not shared.strided.isdisjoint(touched)
    flat = middle is not None and not heads and first + region.last in shared.inside and never_raises(middle.expression)
    if middle is None or not lengths:
        return _compile_pass(heads, middle, tail, types, backend, strided, flat)
    names: list[str] = []

    def compiled(part: Elementwise, own: list[ChunkType], first: bool) -> Run:
        run, name = _compile_pass([], part, None, own, backend, True, flat and first)
        names.append(name)
        return run

    run = in_cells(middle, types, lengths, compiled)
    return run, min(names, key=BACKENDS.index, default="numpy")  # back end of the single columns


def _memory_order(step: Step, types: Sequence[ChunkType]) -> list[int]:
    """Axes of a view by falling distance of elements in memory, also axes of a single position."""
    assert isinstance(step, Call) and step.view is not None
    chunk = types[step.inputs[0]]
    gaps = itertools.accumulate((n + 1 for n in chunk.shape[:0:-1]), mul, initial=1)
    apart = np.lib.stride_tricks.as_strided(np.empty(0, "i1"), chunk.shape, [*gaps][::-1])
    made = step.view(apart, step.params, (0,) * apart.ndim)
    return sorted(range(made.ndim), key=lambda axis: -abs(made.strides[axis]))


def _compile_pass(
    heads: Sequence[Head | RowChain],
    middle: Elementwise | None,
    tail: Reduce | None,
    types: list[ChunkType],
    backend: str,
    strided: bool,
    flat: bool,
) -> tuple[Run, str]:
    """Compile a pass over blocks; `strided`: rows may lie apart; `flat`: elements between them may be overwritten."""
    in_numexpr = middle is not None and backend == "numexpr" and runs_in_numexpr(middle.expression)
    small = middle is not None and not heads and tail is None and middle.output.size <= BLOCK_SIZE
    if middle is not None and small and not in_numexpr:
        return whole_function(middle.expression, middle.inputs, middle.twin), "numpy"
    if middle is not None and backend in ("llvm", "llvm-fast"):
        native = native_pipeline(heads, middle, tail, types, backend == "llvm-fast", strided)
        if native is not None:
            if flat:
                native = flat_pipeline(middle, native, native_block(middle.expression))
            return native, "llvm"
    run = pipeline(heads, middle, tail, types, in_numexpr, strided=strided)
    if middle is not None and flat and not in_numexpr:
        run = flat_pipeline(middle, run, None)
    chunk = middle.output if middle is not None else heads[0].step.output if heads else types[0]
    in_blocks = middle is not None and chunk.size > BLOCK_SIZE
    return run, "numexpr" if in_numexpr else "numpy-blocked" if in_blocks else "numpy"


def _head(program: Program, number: int) -> Head | RowChain:
    step = program.steps[number]
    assert isinstance(step, Generate)
    return Head(step, len(program.inputs) + number, _argument(program, number))


def _chain(program: Program, numbers: Sequence[int], types: Sequence[ChunkType], backend: str) -> Head | RowChain:
    args = [_argument(program, number) for number in numbers]
    members = [program.members[number] if program.members else 0 for number in numbers]
    return row_chain(program.steps, types, numbers, args, members, backend == "numexpr")


def _argument(program: Program, number: int | None) -> int:
    """Place of a step's argument among the operand's arguments; -1 for a step without argument."""
    if number is None or not program.steps[number].takes_args:
        return -1
    return sum(step.takes_args for step in program.steps[:number])


def _call(step: Call, arg: int) -> Run:
    function, params, slots = step.function, step.params, step.inputs

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> Any:
        return function(out, [values[slot] for slot in slots], params, args[arg] if arg >= 0 else None)

    return run


FORMAT = "jmars operand, version 1"


def executable(
    program: Program, args: Sequence[Any], fetch: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> Any:
    """The document of an operand.

    Parameters
    ----------
    program, args
        What it does, and what it alone brings.
    fetch
        What is known of each input, in the order of the program's: where its chunk comes from.
    about
        What is known of the operand: number, line, worker.

    Returns
    -------
    dict
        `format`, `about`, `nodes` (a Fetch for each input, then the operand), `edges` (pairs of places in `nodes`),
        `steps` (text) and `pickle` (base64): JSON throughout.
    """
    nodes: list[dict[str, Any]] = [
        {"op": "Fetch", **_typed(kind), **told} for kind, told in zip(program.inputs, fetch, strict=True)
    ]
    nodes.append({"op": program.name, **_typed(program.output), "scratch": program.work})
    return {
        "format": FORMAT,
        "about": dict(about),
        "nodes": nodes,
        "edges": [[place, len(fetch)] for place in range(len(fetch))],
        "steps": program_text(program),
        "pickle": base64.b64encode(cloudpickle.dumps((program, tuple(args)))).decode(),
    }


def run_executable(document: Mapping[str, Any], inputs: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Compute the operand's chunk from these input chunks.

    Parameters
    ----------
    document
        Of `executable`; its pickle is loaded, which runs code.
    inputs
        Arrays, in the order of the Fetch nodes.

    Raises
    ------
    GraphError
        If it is no such document, or the arrays do not fit it.
    UnsupportedError
        If the operand reads parts of chunks where they lie, as a step of a large sort does.
    Exception
        Whatever the operand raises.
    """
    if document.get("format") != FORMAT:
        raise GraphError(f"this is no operand of jmars ({document.get('format')!r}); write one with Job.operand")
    program, args = cloudpickle.loads(base64.b64decode(document["pickle"]))
    if program.gathers:
        raise UnsupportedError(f"{program.name} reads parts of chunks where they lie, which is done on a cluster only")
    if len(inputs) != len(program.inputs):
        raise GraphError(f"{program.name} reads {len(program.inputs)} chunks and {len(inputs)} were given; give each")
    chunks = []
    for place, (kind, given) in enumerate(zip(program.inputs, inputs, strict=True)):
        chunk = np.asarray(given, order="C")
        fits = len(chunk.shape) == len(kind.shape) and all(b in (-1, a) for a, b in zip(chunk.shape, kind.shape))
        if chunk.dtype != kind.dtype or not fits:
            raise GraphError(
                f"input {place} of {program.name} is {chunk.dtype} of shape {chunk.shape}; "
                f"give {kind.dtype} of shape {kind.shape}, where -1 is any length"
            )
        chunks.append(chunk)
    kernel = compile_program(program)
    with np.errstate(all="ignore"):
        if not program.output.is_sized:
            found, shape = measured(kernel(None, chunks, args, None), program.output, program.name)
            return np.asarray(found).reshape(shape)
        out = np.empty(program.output.shape, program.output.dtype)
        kernel(out, chunks, args, None)
    return out


def _typed(kind: ChunkType) -> dict[str, Any]:
    return {"shape": list(kind.shape), "dtype": str(kind.dtype)}


Lengths = tuple[tuple[int, ...], ...]  # of the parts along each axis
Box = tuple[slice, ...]


class SideBySide(NamedTuple):
    """Arrays that hold a value together, as `Call.joins` says."""

    arrays: Sequence[Array]
    starts: tuple[int, ...]  # of the elements in the first arrays of each axis


class _Part(NamedTuple):
    """Where an input has the elements of a cell."""

    slot: int
    array: int  # index among the arrays laid side by side; -1 for an array of its own
    box: Box
    shifts: tuple[bool, ...]  # axes along which the box begins at the start of the value

    def of(self, values: Sequence[Any]) -> Array:
        """The elements, as a view."""
        value = values[self.slot]
        if self.array < 0:
            own: Array = value[self.box]
            return own
        box = tuple(
            slice(part.start + start, part.stop + start) if shifted else part
            for part, start, shifted in zip(self.box, value.starts, self.shifts)
        )
        found: Array = value.arrays[self.array][box]
        return found


class _Cell(NamedTuple):
    box: Box
    parts: tuple[_Part, ...]
    run: Run


def in_cells(
    middle: Elementwise,
    types: Sequence[ChunkType],
    joined: Mapping[int, Lengths],
    compiled: Callable[[Elementwise, list[ChunkType], bool], Run],
) -> Run:
    """Compile an expression with the inputs `joined` given as `SideBySide`.

    Parameters
    ----------
    middle
        The expression.
    types
        Of all values of the program.
    joined
        Lengths of the parts of these inputs along each axis.
    compiled
        Compiles the expression for a part of the output whose rows lie apart, as those of the inputs. The last argument
        is whether the elements between these rows are computed later.
    """
    shape = middle.output.shape
    cells: list[_Cell] = []
    axes = [_cuts([joined[v][axis] for v in joined]) for axis in range(len(shape))]
    for box in sorted(itertools.product(*axes), key=_size, reverse=True):
        cell = tuple(part.stop - part.start for part in box)
        own = list(types)
        parts = []
        for slot in dict.fromkeys(middle.inputs):
            part = _part(slot, box, joined[slot]) if slot in joined else _Part(slot, -1, _within(box, types[slot]), ())
            parts.append(part)
            whole = types[slot].shape
            there = tuple(1 if n == 1 else m for n, m in zip(whole, cell[len(cell) - len(whole) :]))
            own[slot] = ChunkType(there, types[slot].dtype)
        is_thin = cell[-1] == 1 and shape[-1] > 1
        smaller = Elementwise(middle.expression, middle.inputs, ChunkType(cell, middle.output.dtype), middle.twin)
        run = _packed(smaller) if is_thin else compiled(smaller, own, not cells)
        cells.append(_Cell(box, tuple(parts), run))

    def all_cells(out: Any, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        given = list(values)
        for cell in cells:
            for part in cell.parts:
                given[part.slot] = part.of(values)
            cell.run(out[cell.box], given, args, stop)

    return all_cells


def _size(box: Box) -> int:
    return math.prod(part.stop - part.start for part in box)


def _cuts(lengths: Sequence[tuple[int, ...]]) -> list[slice]:
    """The parts of an axis between all cuts."""
    ends = sorted({end for own in lengths for end in itertools.accumulate(own)})
    return [slice(low, high) for low, high in itertools.pairwise([0, *ends]) if high > low]


def _within(box: Box, chunk: ChunkType) -> Box:
    """The part of a broadcast array in a box."""
    own = box[len(box) - len(chunk.shape) :]
    return tuple(slice(None) if n == 1 else part for n, part in zip(chunk.shape, own))


def _part(slot: int, box: Box, lengths: Lengths) -> _Part:
    """The part of a value side by side."""
    number, own, shifts = 0, [], []
    for part, axis in zip(box, lengths):
        ends = list(itertools.accumulate(axis))
        k = next(k for k, end in enumerate(ends) if part.start < end)
        number = number * len(axis) + k
        begin = ends[k] - axis[k]
        own.append(slice(part.start - begin, part.stop - begin))
        shifts.append(k == 0)
    return _Part(slot, number, tuple(own), tuple(shifts))


def _packed(middle: Elementwise) -> Run:
    """Compile an expression of single columns; they are copied, since NumPy's last bits differ for elements apart."""
    compute = whole_function(middle.expression, middle.inputs, middle.twin)
    shape = middle.output.shape
    rows = max(1, BLOCK_SIZE // max(1, math.prod(shape[1:])))

    def run(out: Any, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        packed = list(values)
        for low in range(0, shape[0], rows):
            part = out[low : low + rows]
            for slot in middle.inputs:
                value = values[slot]
                is_cut = value.ndim == len(shape) and len(value) == shape[0]
                packed[slot] = np.ascontiguousarray(value[low : low + rows] if is_cut else value)
            column = np.empty(part.shape, middle.output.dtype)
            compute(column, packed)
            part[...] = column
            if stop is not None and stop():
                raise interrupted()

    return run
