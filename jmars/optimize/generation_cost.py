"""Seconds to generate chunks from parameters alone: random numbers, ranges and constants.

Measured on a single thread in cache, AMD EPYC, NumPy 2.4. Generators that are missing here are not known to be cheap:
files are read, permutations are computed place by place.
"""

from __future__ import annotations

import math
from functools import lru_cache

from jmars.kernels.expression import CONSTANT
from jmars.kernels.program import Elementwise, Generate, Program
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.native import backend
from jmars.tensor.operand import Splits
from jmars.tensor.ops.create.ranges import open_arange, open_linspace
from jmars.tensor.ops.random.cells import Cells
from jmars.tensor.ops.random.doubles import open_doubles, run_axis
from jmars.tensor.ops.random.draws import open_draws

__all__ = ["doubles_seconds", "generation_seconds"]

# ns an element
_OPERATION = 0.3  # of an expression; NumPy's transcendental ones are not taken
_DEAR = ("sin", "cos", "tan", "power", "arctan", "arctan2", "arcsin", "arccos", "log", "exp", "cbrt", "hypot")
_PLACED = {open_arange: 0.8, open_linspace: 1.4, open_doubles: 1.2}
_METHODS = {
    "random": 1.7, "uniform": 5.7, "standard_normal": 9.0, "normal": 10.5, "standard_exponential": 3.5,
    "exponential": 4.5, "integers": 3.5,
}  # fmt: skip
_CELL = 4000.0  # ns to jump to a cell's place in the sequence
_OPENED = 30_000.0  # ns to open a stream of random numbers
_RUN = {"c": 5.0, "python": 2_000.0}  # ns to jump to the start of a run of doubles


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def generation_seconds(program: Program) -> float | None:
    """Seconds to generate a chunk by a program; None if the program has inputs or an unknown generator.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.program import ChunkType, single
    >>> million = ChunkType((1_000_000,), np.dtype("f8"))
    >>> f"{generation_seconds(single('arange', (), Generate(open_arange, (0.0, 1.0), million, True))):.4f} s"
    '0.0008 s'
    """
    if program.inputs:
        return None
    total = 0.0
    for step in program.steps:
        if isinstance(step, Elementwise):
            nodes = [node for node in step.expression.nodes if node.op != CONSTANT]
            total += math.inf if any(node.op in _DEAR for node in nodes) else len(nodes) * _OPERATION * step.output.size
        else:
            total += _generating(step) if isinstance(step, Generate) else math.inf
    return total / 1e9 if total < math.inf else None


def doubles_seconds(shape: tuple[int, ...], chunks: Splits, whole: tuple[int, ...]) -> float:
    """Seconds to generate all chunks of a slice of a random array of shape `whole`."""
    first = tuple(lengths[0] for lengths in chunks)  # most chunks have this size
    each = _PLACED[open_doubles] + _going(first, whole)
    return (each * math.prod(shape) + _OPENED * math.prod(map(len, chunks))) / 1e9


def _going(shape: tuple[int, ...], whole: tuple[int, ...]) -> float:
    """ns per element to jump to the start of each run of a chunk of doubles."""
    return _RUN[backend()] / max(1, math.prod(shape[run_axis(shape, whole) :]))


def _generating(step: Generate) -> float:
    """ns to generate a chunk."""
    if step.open is not open_draws:
        if step.open is not open_doubles:
            return _PLACED.get(step.open, math.inf) * step.output.size
        going = _going((step.opened or step.output).shape, step.params[1])
        return (_PLACED[open_doubles] + going) * step.output.size + _OPENED
    method, _, cells, vector = step.params
    shape = (step.opened or step.output).shape
    if method not in _METHODS or vector or 0 in shape:
        return math.inf
    drawn = step.output.size * _surplus(shape, cells)
    each: float = _METHODS[method] + _CELL / math.prod(cells.sides)
    return each * drawn + _OPENED


def _surplus(shape: tuple[int, ...], cells: Cells) -> float:
    """Ratio of generated elements to a chunk's elements, above 1 where a chunk begins in the middle of cells."""
    return math.prod(min(1 + side / n, whole / n) for n, side, whole in zip(shape, cells.sides, cells.shape))
