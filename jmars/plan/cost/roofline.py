"""Roofline estimate of an operand that was never measured: bytes over memory bandwidth plus operations over core speed.

`annotate` multiplies the estimate by `Profile.scale`, the error of the estimate for programs that were measured.
The seconds per element were measured on an AMD EPYC. Source: Williams, Waterman and Patterson 2009 (roofline).
"""

from __future__ import annotations

import math

from jmars.kernels.expression import CONSTANT
from jmars.kernels.operations import is_exact
from jmars.kernels.program import Call, Combine, Elementwise, Generate, Program, Reduce, Step

__all__ = ["CALL", "prior"]

CALL = 10e-6  # seconds: arrays made, a kernel called
_BANDWIDTH = 8e9  # bytes a second of one core while others run too
_CHEAP = 0.3e-9  # seconds an element
_ELEMENT = {
    "sin": 16e-9, "cos": 16e-9, "tan": 20e-9, "arcsin": 15e-9, "arccos": 15e-9, "arctan": 12e-9, "arctan2": 20e-9,
    "exp": 1e-9, "exp2": 1e-9, "expm1": 5e-9, "log": 1e-9, "log2": 1e-9, "log10": 5e-9, "log1p": 5e-9,
    "sinh": 6e-9, "cosh": 6e-9, "tanh": 2e-9, "power": 3e-9, "sqrt": 1.2e-9, "cbrt": 15e-9, "hypot": 5e-9,
    "divide": 0.8e-9, "true_divide": 0.8e-9, "floor_divide": 6e-9, "remainder": 6e-9, "fmod": 6e-9,
}  # fmt: skip
_SPECIAL = 20e-9  # a ufunc of another library: erf of SciPy takes 8 ns, gammaln 25 ns
_NATIVE, _FORMULA = 0.03e-9, 0.4e-9  # seconds an element in machine code, between registers
_RANDOM = 4e-9
_CALLED = 1e-9  # a function, for each element read or written
_PRODUCT = 0.1e-9  # one product of a matrix multiplication and its sum


def prior(program: Program, size: int) -> float:
    """Estimated seconds of an operand of `program`; `size` is the size of the program's signature.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import ChunkType, single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((1_000_000,), f8)
    >>> sine = single("sin", (chunk,), Elementwise(Expression((f8,), (Node("sin", (0,), f8),)), (0,), chunk))
    >>> f"{prior(sine, 16_000_000):.3f} s"
    '0.018 s'
    """
    moved = sum(one.nbytes for one in program.inputs) + program.output.nbytes
    return CALL + moved / _BANDWIDTH + sum(_seconds(step, program, size) for step in program.steps)


def _seconds(step: Step, program: Program, size: int) -> float:
    elements = step.output.size
    if isinstance(step, Elementwise):
        nodes = [node for node in step.expression.nodes if node.op != CONSTANT]
        if program.jit and (program.fast or is_exact(step.expression)):
            return elements * math.fsum(_FORMULA if node.op in _ELEMENT else _NATIVE for node in nodes)
        return elements * math.fsum(_ELEMENT.get(node.op, _CHEAP if node.ufunc is None else _SPECIAL) for node in nodes)
    if isinstance(step, Generate):
        return elements * (_RANDOM if step.takes_args and "random" in step.open.__module__ else _CHEAP)
    types = [*program.inputs, *(one.output for one in program.steps)]
    read = sum(types[slot].size for slot in step.inputs)
    if isinstance(step, Reduce | Combine):
        return read * (_CHEAP if step.reducer.state.names is None else 5 * _CHEAP)
    assert isinstance(step, Call)
    if getattr(step.function, "__name__", "") == "sum_products":
        return size / 8 * _PRODUCT
    return (read + elements) * _CALLED
