"""Compiles expressions to numexpr programs, where numexpr gives exactly NumPy's values, and compares the costs of both.

Only operations with NumPy's dtype and NumPy's bits are taken: no reductions, no unsigned or short integers, no float16
or complex, no powers, no transcendental functions, no integer division. Constants enter as typed 0-d arrays, so that no
literal promotes a dtype. Names in the text are generated. numexpr is imported when the first expression is compiled,
and runs on a single thread: parallelism is the scheduler's.
Source: docs/explanation/seeds.md, "Graph fusion"; costs as measured, docs/decisions/0007-numpy-before-numexpr.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from jmars.kernels.expression import CONSTANT, Expression, Node
from jmars.model.limits import REMEMBERED_PROGRAMS

__all__ = ["MAX_INPUTS", "MAX_OPS", "cheaper_in_numexpr", "numexpr_function", "numexpr_text", "numexpr_there"]

MAX_OPS = 32  # compiling grows faster than linearly: 35 ms for 50
MAX_INPUTS = 31  # 64 are refused; room for the output and temporaries

_RANK = {np.dtype("?"): 0, np.dtype("i4"): 1, np.dtype("i8"): 2, np.dtype("f4"): 3, np.dtype("f8"): 4}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*"}
_COMPARISON = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
_LOGIC = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "logical_and": "&", "logical_or": "|"}

# ns per element on one thread in cache, float64, (numpy, numexpr); AMD EPYC (AVX-512), numpy 2.4.6, numexpr 2.14.2
_COST = {
    "add": (0.13, 0.35), "subtract": (0.13, 0.35), "multiply": (0.14, 0.35), "divide": (0.26, 0.54),
    "negative": (0.10, 0.24), "absolute": (0.14, 1.25), "square": (0.13, 0.35), "sqrt": (0.88, 1.80),
    "where": (0.50, 0.42), "logical_not": (0.05, 0.25), "invert": (0.05, 0.25),
}  # fmt: skip
_COST |= dict.fromkeys(_COMPARISON, (0.09, 0.39)) | dict.fromkeys(_LOGIC, (0.05, 0.25))
_CONVERSION = 0.15  # more, where NumPy converts an input on the way


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def numexpr_text(expression: Expression) -> str | None:
    """The expression in numexpr's language, or None where it would differ from NumPy or be refused."""
    constants = sum(node.op == CONSTANT for node in expression.nodes)
    if not 1 <= expression.ops <= MAX_OPS or len(expression.inputs) + constants > MAX_INPUTS:
        return None
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    if not all(dtype in _RANK and dtype.isnative for dtype in dtypes):
        return None
    texts = [f"x{i}" for i in range(len(expression.inputs))]
    for k, node in enumerate(expression.nodes):
        args, kinds = [texts[a] for a in node.args], [dtypes[a] for a in node.args]
        text = f"c{k}" if node.op == CONSTANT else _text(node, args, kinds)
        if text is None or len(text) > 4000:
            return None
        texts.append(text)
    return texts[-1]


def _text(node: Node, args: list[str], dtypes: list[np.dtype[Any]]) -> str | None:
    """One operation, or None where numexpr's result is not NumPy's."""
    op, kinds = node.op, {dtype.kind for dtype in dtypes}
    if node.raises:  # numexpr looks at no floating point errors
        return None
    widest = max(dtypes, key=_RANK.__getitem__)
    if op in _ARITHMETIC and widest == node.dtype and kinds <= set("if"):
        return f"({args[0]} {_ARITHMETIC[op]} {args[1]})"
    if op == "divide" and widest == node.dtype and node.dtype.kind == "f" and kinds == {"f"}:
        return f"({args[0]} / {args[1]})"
    if op == "square" and widest == node.dtype and kinds <= set("if"):
        return f"({args[0]} * {args[0]})"
    if op == "negative" and widest == node.dtype and kinds <= set("if"):
        return f"(-{args[0]})"
    if op in ("absolute", "fabs", "sqrt") and kinds == {"f"} and widest == node.dtype:
        return f"{'sqrt' if op == 'sqrt' else 'abs'}({args[0]})"
    if op in _COMPARISON and kinds <= set("if") and np.result_type(*dtypes) == widest:
        return f"({args[0]} {_COMPARISON[op]} {args[1]})"
    if op in _LOGIC and kinds == {"b"}:
        return f"({args[0]} {_LOGIC[op]} {args[1]})"
    if op in ("logical_not", "invert") and kinds == {"b"}:
        return f"(~{args[0]})"
    if op == "where" and dtypes[0].kind == "b" and dtypes[1] == dtypes[2] == node.dtype:
        return f"where({', '.join(args)})"
    return None


def cheaper_in_numexpr(expression: Expression) -> bool:
    """Whether the measured costs of the operations speak for numexpr."""
    numpy_cost = numexpr_cost = 0.0
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    for node in expression.nodes:
        if node.op != CONSTANT:
            here, there = _COST.get(node.op, (0.0, 1e9))
            numpy_cost += here + _CONVERSION * (len({dtypes[arg] for arg in node.args} - {np.dtype("?")}) > 1)
            numexpr_cost += there
    return numexpr_cost < 0.8 * numpy_cost and numexpr_there()


@lru_cache(maxsize=1)
def numexpr_there() -> bool:
    """Whether numexpr is installed (extra `numexpr`); without it NumPy runs everything."""
    return find_spec("numexpr") is not None


@lru_cache(maxsize=1)
def _library() -> Any:
    import numexpr  # heavy, and only where an expression runs in it

    numexpr.set_num_threads(1)
    return numexpr


def numexpr_function(expression: Expression) -> Callable[..., None]:
    """`run(out, *inputs)`; compiled once per thread, because a compiled NumExpr must not run in two at once."""
    text = numexpr_text(expression)
    assert text is not None
    numexpr = _library()
    kinds = {np.dtype(t): t for t in numexpr.necompiler.type_to_kind if t not in (str, bytes, complex)}
    kinds |= {np.dtype("f4"): float}  # numexpr calls float32 "float"
    kinds |= {np.dtype("f8"): np.float64}
    constants = [(f"c{k}", node) for k, node in enumerate(expression.nodes) if node.op == CONSTANT]
    read = [(name, node) for name, node in constants if name in text]
    signature = [(f"x{i}", kinds[dtype]) for i, dtype in enumerate(expression.inputs)]
    signature += [(name, kinds[node.dtype]) for name, node in read]
    values = [node.value for _, node in read]
    own = threading.local()

    def run(out: Any, *inputs: Any) -> None:
        compiled = own.__dict__.get("compiled")
        if compiled is None:
            compiled = own.compiled = numexpr.necompiler.NumExpr(text, signature)
        compiled(*inputs, *values, out=out, casting="no", order="K", ex_uses_vml=False)

    return run
