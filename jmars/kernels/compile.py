"""Programs made runnable: `compile_program` gives the kernel that an executor calls for each operand.

A kernel writes `out` in place, asks `stop()` between blocks, and leaves floating point warnings to whoever calls it (an
executor sets `np.seterr(all="ignore")` once). Elementwise parts run block by block in cache, a reduction right behind
them. Used by worker executors and by tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any, Protocol, cast

import numpy as np

from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.numexpr_backend import cheaper_in_numexpr, numexpr_text, numexpr_there
from jmars.kernels.numpy_backend import whole_function
from jmars.kernels.pipeline import Run, Stop, interrupted, pipeline
from jmars.kernels.program import (
    Call,
    ChunkType,
    Combine,
    Elementwise,
    Generate,
    Program,
    Reduce,
    Step,
    program_text,
    regions,
)
from jmars.kernels.reduction_kernel import combine_function, leaf_function

__all__ = ["Kernel", "compile_program"]

Array = np.ndarray[Any, Any]
Region = tuple[Generate | None, Elementwise | None, Step | None]


class Kernel(Protocol):
    """A program made runnable. A plain function with two attributes, so that calling costs what calling costs."""

    backend: str  # "numexpr", "numpy", "numpy-blocked" or "function"
    text: str  # the expression, for the view

    def __call__(self, out: Array, inputs: Sequence[Array], args: Sequence[Any] = (), stop: Stop = None) -> None:
        """Write the output chunk.

        Parameters
        ----------
        out
            C-contiguous, of the program's output type; written in place.
        inputs
            Chunks of the program's input types.
        args
            One entry per step that takes an argument, head first.
        stop
            Asked between blocks; True ends the kernel.

        Raises
        ------
        ExecutionInterrupted
            If `stop()` was true; `out` then holds anything.
        """


@lru_cache(maxsize=4096)
def compile_program(program: Program, backend: str = "auto") -> Kernel:
    """The kernel of a program; the same object for equal programs of one process, safe to call from several threads.

    Parameters
    ----------
    program
        What an operand does.
    backend
        "numpy", "numexpr" (wherever it equals NumPy), or "auto": by measured cost.

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
    takes = [step for step in program.steps if step.takes_args]
    types = [*program.inputs, *(step.output for step in program.steps)]
    parts: list[tuple[Run, int]] = []  # what to run and the number of the value that it gives
    names: list[str] = []
    done = len(program.inputs)
    for region in regions(program.steps):
        arg = next((i for i, step in enumerate(takes) if any(step is s for s in region)), -1)
        run, name = _compile_region(region, types, done, arg, backend)
        done += sum(step is not None for step in region)
        parts.append((run, done - 1))
        names.append(name)
    run = parts[0][0] if len(parts) == 1 else _in_sequence(parts, types)
    order = ("numexpr", "numpy-blocked", "numpy", "function")
    kernel: Any = _own_copy(run)
    kernel.backend = min(names, key=order.index)
    kernel.text = program_text(program)
    return cast(Kernel, kernel)


def _own_copy(run: Run) -> FunctionType:
    """A function object that carries attributes of its own: generated functions are shared by programs."""
    assert isinstance(run, FunctionType)
    return FunctionType(run.__code__, run.__globals__, run.__name__, run.__defaults__, run.__closure__)


def _in_sequence(parts: list[tuple[Run, int]], types: list[ChunkType]) -> Run:
    """Regions one after the other; what stands between two lives until the second has read it."""

    def run(out: Array, inputs: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        values: list[Any] = list(inputs) + [None] * (len(types) - len(inputs))
        before = -1
        for part, number in parts[:-1]:
            target = np.empty(types[number].shape, types[number].dtype)
            part(target, values, args, stop)
            if before >= 0:
                values[before] = None
            values[number], before = target, number
            if stop is not None and stop():
                raise interrupted()
        parts[-1][0](out, values, args, stop)

    return run


def _compile_region(region: Region, types: list[ChunkType], first: int, arg: int, backend: str) -> tuple[Run, str]:
    """What runs a region whose first step gives value number `first`, and the name of the back end."""
    head, middle, tail = region
    if isinstance(tail, Call):
        return _call(tail, arg), "function"
    if isinstance(tail, Combine):
        shape = types[tail.inputs[0]].shape
        return combine_function(tail, shape if tail.reducer.state.names is None else shape[:-1]), "numpy"
    assert tail is None or isinstance(tail, Reduce)
    if tail is not None and head is None and middle is None:
        chunk = types[tail.inputs[0]]
        if not tail.reducer.blocked or chunk.size <= BLOCK_SIZE:
            return leaf_function(tail, chunk.shape, tail.inputs[0], arg), "numpy"
    in_numexpr = False
    if middle is not None and numexpr_text(middle.expression) is not None:
        in_numexpr = (backend == "numexpr" and numexpr_there()) or (
            backend == "auto" and cheaper_in_numexpr(middle.expression)
        )
    small = middle is not None and head is None and tail is None and middle.output.size <= BLOCK_SIZE
    if middle is not None and small and not (backend == "numexpr" and in_numexpr):
        return whole_function(middle.expression, middle.inputs), "numpy"
    run = pipeline(head, middle, tail, types, first, arg, in_numexpr)
    chunk = middle.output if middle is not None else types[first]
    in_blocks = middle is not None and chunk.size > BLOCK_SIZE
    return run, "numexpr" if in_numexpr else "numpy-blocked" if in_blocks else "numpy"


def _call(step: Call, arg: int) -> Run:
    function, params, slots = step.function, step.params, step.inputs

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        function(out, [values[slot] for slot in slots], params, args[arg] if arg >= 0 else None)

    return run
