"""Writes a reduction as C++ for a GPU: the parts that a loop over elements and blocks of threads needs.

`CupyDevice` gives the parts to CuPy's ReductionKernel; tests compile them within a loop of their own, without a GPU.
Source: `cupy/_core/_reduction.pyx` (names of the parts, and where each of them stands).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from jmars.kernels.cuda_helpers import helper_text
from jmars.kernels.cuda_text import FUNCTION, cuda_text, cuda_type
from jmars.kernels.expression import Expression

__all__ = ["ReductionText", "reduction_text"]

_JOIN = {
    "add": "a + b", "multiply": "a * b", "maximum": "jm_maximum(a, b)", "minimum": "jm_minimum(a, b)",
    "logical_and": "a && b", "logical_or": "a || b",
}  # fmt: skip


class ReductionText(NamedTuple):
    """Parts of a reduction kernel."""

    preamble: str  # the function of the expression, and helpers
    value: str  # what is reduced, from an element of each input: x0, x1, …
    join: str  # of two values a and b
    identity: str
    type: str  # of values while they are reduced


@lru_cache(maxsize=4096)
def reduction_text(expression: Expression, ufunc: str, dtype: np.dtype[Any]) -> ReductionText:
    """The parts of a reduction of an expression that has a text, by a ufunc of `library.REDUCTIONS`, in a dtype.

    Examples
    --------
    >>> from jmars.kernels.expression import Node
    >>> f4, f8 = np.dtype("f4"), np.dtype("f8")
    >>> reduction_text(Expression((f4,), (Node("positive", (0,), f4),)), "add", f8)[1:]
    ('(double)jm_expression(x0)', 'a + b', '0', 'double')
    """
    text, kind = cuda_text(expression), cuda_type(dtype)
    assert text is not None and kind is not None
    if ufunc in ("maximum", "minimum") and f"jm_{ufunc}(" not in text:
        text += helper_text({ufunc})
    call = f"{FUNCTION}({', '.join(f'x{i}' for i in range(len(expression.inputs)))})"
    value = f"({call} != 0)" if ufunc.startswith("logical") else f"({kind}){call}"
    return ReductionText(text, value, _JOIN[ufunc], _identity(ufunc, dtype), kind)


def _identity(ufunc: str, dtype: np.dtype[Any]) -> str:
    """The value with which a reduction begins, in C++."""
    if ufunc in ("maximum", "minimum"):
        if dtype.kind == "f":
            return ("-" if ufunc == "maximum" else "") + f"({cuda_type(dtype)})jm_f8(0x7ff0000000000000ull)"
        if dtype.kind == "b":
            return "false" if ufunc == "maximum" else "true"
        info = np.iinfo(dtype)
        number = info.min if ufunc == "maximum" else info.max
        return f"({number + 1} - 1)" if number == -(2**63) else f"{number}{'ull' if dtype.kind == 'u' else 'll'}"
    return {"add": "0", "multiply": "1", "logical_and": "true", "logical_or": "false"}[ufunc]
