"""Reads the processor's floating point flags behind machine code and numexpr, which tell NumPy of no error.

The flags say that some element had an error, or that a comparison met NaN. So NumPy computes the elements once more,
and drops them: it calls the handler (float_errors.py) for the errors that it warns of. Without an error that takes a
call of a C function for each block, and no second computation.
Source: C standard library, <fenv.h>; docs/decisions/0055-warnings-of-workers.md.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jmars.kernels.blocks import Blocks
from jmars.kernels.numpy_backend import block_body
from jmars.kernels.program import Elementwise
from jmars.kernels.scratch import scratch
from jmars.model.limits import REMEMBERED_PROGRAMS

__all__ = ["clear_flags", "is_flagged", "recomputed", "watched", "watched_flags"]

Array = np.ndarray[Any, Any]
_SLOTS = 1000  # of scratch, from here on: those below are in use while a block is computed again
# flags of <fenv.h> by bit of `float_errors.BITS`; processors differ
_FLAGS = {"x86_64": {1: 4, 2: 8, 4: 16, 8: 1}, "aarch64": {1: 2, 2: 4, 4: 8, 8: 1}}


@lru_cache(maxsize=1)
def _library() -> Any:
    return ctypes.PyDLL(None)  # of the interpreter, which has libm; keeps the global lock, since calls are short


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def watched_flags(middle: Elementwise) -> int:
    """The processor's flags of the errors that nodes of an expression are to be warned of; 0 where there are none.

    Of other processors than those of `_FLAGS` no flags are read.
    """
    bits = 0
    for node in middle.expression.nodes:
        bits |= node.warns
    return sum(flag for bit, flag in _FLAGS.get(platform.machine(), {}).items() if bits & bit)


def clear_flags(flags: int) -> None:
    """Clear flags of this thread."""
    _library().feclearexcept(flags)


def is_flagged(flags: int) -> bool:
    """Whether one of the flags of this thread is set."""
    return bool(_library().fetestexcept(flags))


def recomputed(middle: Elementwise, apart: bool = False) -> Callable[[Sequence[Any], Sequence[tuple[int, ...]]], None]:
    """`run(values, shapes)` computes a step by NumPy and drops the elements, so that the handler hears of errors.

    Parameters
    ----------
    middle
        The step; the values are those of its program, and `shapes` are the shapes of those that the step reads.
    apart
        Whether rows of the values may lie apart.
    """
    body = block_body(middle.expression, middle.twin)

    def run(values: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> None:
        blocks = Blocks.of(middle.output.shape, shapes, apart=apart)
        inputs = [values[slot].reshape(shape) for slot, shape in zip(middle.inputs, blocks.operands)]
        for _, shape, _, at in blocks.cut():
            _compute(body, shape, middle.output.dtype, [x[i] for x, i in zip(inputs, at)])

    return run


def watched(compute: Callable[..., None], middle: Elementwise) -> Callable[..., None]:
    """`compute(out, *parts)` of a block, with the block computed again by NumPy where flags tell of an error."""
    flags = watched_flags(middle)
    if not flags:
        return compute
    body = block_body(middle.expression, middle.twin)

    def run(out: Array, *parts: Array) -> None:
        clear_flags(flags)
        compute(out, *parts)
        if is_flagged(flags):
            _compute(body, out.shape, out.dtype, parts)

    return run


def _compute(body: Any, shape: tuple[int, ...], dtype: np.dtype[Any], parts: Sequence[Array]) -> None:
    buffers = [scratch(_SLOTS + 1 + k, shape, kind) for k, kind in enumerate(body.buffers)]
    body.run(scratch(_SLOTS, shape, dtype), *parts, *buffers)
