"""Chooses the programs to compile to machine code: their expressions save more time in a run than compiling takes.

`marked` sees the graph as it will run, so that the choice depends on the graph and the machine, never on measured
times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.expression import CONSTANT, Expression
from jmars.kernels.formulas import FORMULAS
from jmars.kernels.fusing import regions
from jmars.kernels.machine_code import llvm_there
from jmars.kernels.operations import is_exact
from jmars.kernels.program import Elementwise, Program
from jmars.kernels.routines import elementwise_text
from jmars.model.limits import REMEMBERED_PROGRAMS

__all__ = ["marked", "saved"]

LLVM_BYTES = 40 * 2**20  # what an executor takes for it: 15 MiB, and its share of the library's 60
COMPILING = 0.05  # seconds of an executor, once: the library is loaded, a kernel or two compiled
WORTH = 2  # times what compiling takes must be saved

# ns per element that machine code saves; measured in cache, float64, AMD EPYC (AVX-512), numpy 2.4.6, llvmlite 0.50
_SAVED = {"sin": 8.0, "cos": 8.0, "sqrt": 0.7, "where": 0.4, "reciprocal": 0.3, "sign": 0.4, "copysign": 0.4}
_SAVED |= dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not", "heaviside"), 0.5)
_PLAIN = 0.15  # other operations: they write to the cache and read again
_SHORT = -0.4  # a formula of float32: NumPy's own are in float32, ours in float64


def saved(expression: Expression) -> float:
    """Seconds that machine code saves for each element; below 0 where NumPy is faster.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Node
    >>> f8 = np.dtype("f8")
    >>> saved(Expression((f8,), (Node("sqrt", (0,), f8),)))
    7e-10
    """
    total = 0.0
    for node in expression.nodes:
        if node.op in FORMULAS and node.dtype.itemsize < 8:
            total += _SHORT
        elif node.op in FORMULAS:
            total += _SAVED.get(node.op, 0.0)
        elif node.op != CONSTANT and node.ufunc is None and not node.raises:
            total += _SAVED.get(node.op, _PLAIN)
    return total / 1e9


def marked(
    programs: Sequence[Program], counts: Sequence[int], mode: str, workers: int, room: int | None
) -> list[Program]:
    """Mark with `jit` the programs to compile to machine code; the other programs stay unchanged.

    Parameters
    ----------
    programs
        Those of a graph.
    counts
        How many operands each has.
    mode
        "on": all that can be with NumPy's bits; "auto": those of them that are worth it; "fast": those worth it, also
        where a formula is only near NumPy's value (formulas.py); "off": none.
    workers
        Executors; each of them compiles.
    room
        Bytes that one of them may take; None for any number.
    """
    scarce = room is not None and room < 8 * LLVM_BYTES
    if mode == "off" or not llvm_there() or (mode != "on" and scarce):
        return list(programs)
    # seconds of all operands; chunks of other shapes run the same code
    gain: defaultdict[Expression, float] = defaultdict(float)
    fast = mode == "fast"
    for program, count in zip(programs, counts, strict=True):
        for part in _parts(program, fast):
            gain[part.expression] += max(saved(part.expression), 0.0) * part.output.size * count
    least = WORTH * COMPILING * workers

    def shall(program: Program) -> bool:
        pays = mode == "on" or any(gain[part.expression] > least for part in _parts(program, fast))
        return pays and _can(program, fast)

    return [replace(program, jit=True, fast=fast) if shall(program) else program for program in programs]


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def _parts(program: Program, fast: bool) -> list[Elementwise]:
    """Steps of a program that may be machine code."""
    steps = (program.steps[one.middle] for one in regions(program.steps, len(program.inputs)) if one.middle is not None)
    return [
        step
        for step in steps
        if isinstance(step, Elementwise) and step.output.size > BLOCK_SIZE and (fast or is_exact(step.expression))
    ]


def _can(program: Program, fast: bool) -> bool:
    """Whether some part of the program can be machine code."""
    own = ((False, True),)
    return any(elementwise_text(one.expression, own * len(one.expression.inputs)) for one in _parts(program, fast))
