"""Writes NumPy's operations in LLVM assembly, on values of the dtype in which NumPy's loop computes.

`lane_code` writes a whole expression. An operation or dtype outside the table, or with an error beyond formulas.ULPS,
has no machine code: NumPy runs the expression.
Source: NumPy `_core/src/umath/loops*.src` (order of comparisons with NaN, shifts beyond the width, signs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jmars.kernels.code import Code, Value, kind_of
from jmars.kernels.expression import CONSTANT, Expression, Node
from jmars.kernels.formulas import FORMULAS

__all__ = ["converted", "is_exact", "lane_code", "loop_dtypes"]

DType = np.dtype[Any]
_BOOL = np.dtype("?")
_COMPARISON = {
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
}
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven", "sqrt": "sqrt", "fabs": "fabs"}


def _compared(op: str, a: Value, b: Value, dtype: DType) -> Value:
    how = _COMPARISON[op]
    if a.is_float:
        return a.is_(f"{'u' if how == 'ne' else 'o'}{how}", b)
    sign = "" if how in ("eq", "ne") else "s" if dtype.kind == "i" else "u"
    return a.is_(sign + how, b)


def _larger(a: Value, b: Value, dtype: DType) -> Value:
    """`maximum`: of two zeros the second, NaN before all."""
    if not a.is_float:
        return a.code.choose(_compared("greater", a, b, dtype), a, b)
    return a.code.choose(a.is_("ogt", b) | a.is_("uno", a), a, b)


def _smaller(a: Value, b: Value, dtype: DType) -> Value:
    if not a.is_float:
        return a.code.choose(_compared("less", a, b, dtype), a, b)
    return a.code.choose(a.is_("olt", b) | a.is_("uno", a), a, b)


def _sign(a: Value, dtype: DType) -> Value:
    if dtype.kind == "f":
        one = a.code.choose(a.is_("ogt", 0.0), a.like(1.0), a.like(0.0))
        one = a.code.choose(a.is_("olt", 0.0), a.like(-1.0), one)
        return a.code.choose(a.is_("uno", a), a, one)
    one = a.code.choose(a.is_("ne", 0), a.like(1), a.like(0))
    return a.code.choose(a.is_("slt", 0), a.like(-1), one) if dtype.kind == "i" else one


def _signbit(a: Value, dtype: DType) -> Value:
    return a.bits.is_("slt", 0)


def _copysign(a: Value, b: Value, dtype: DType) -> Value:
    return a.code.call("copysign", a, b)


def _shifted(how: str) -> Callable[[Value, Value, DType], Value]:
    """A shift; beyond the width all bits have left."""

    def shift(a: Value, b: Value, dtype: DType) -> Value:
        inside = b.is_("ult", 8 * dtype.itemsize)
        by = a.code.choose(inside, b, 0)
        if how == "left":
            return a.code.choose(inside, a.then("shl", by), 0)
        if dtype.kind == "u":
            return a.code.choose(inside, a.then("lshr", by), 0)
        return a.then("ashr", a.code.choose(inside, b, 8 * dtype.itemsize - 1))

    return shift


def _heaviside(a: Value, b: Value, dtype: DType) -> Value:
    value = a.code.choose(a.is_("olt", 0.0), a.like(0.0), a.like(1.0))
    value = a.code.choose(a.is_("oeq", 0.0), b, value)
    return a.code.choose(a.is_("uno", a), a, value)


# operation: (kinds of dtype that its loop may have, what it is); the function takes the arguments and the loop's dtype
Operation = tuple[str, Callable[..., Value]]
OPERATIONS: dict[str, Operation] = {
    "add": ("iuf", lambda a, b, _: a + b),
    "subtract": ("iuf", lambda a, b, _: a - b),
    "multiply": ("iuf", lambda a, b, _: a * b),
    "divide": ("f", lambda a, b, _: a / b),
    "true_divide": ("f", lambda a, b, _: a / b),
    "negative": ("iuf", lambda a, _: -a),
    "positive": ("iuf", lambda a, _: a),
    "conjugate": ("iuf", lambda a, _: a),
    "absolute": ("ifu", lambda a, dtype: a if dtype.kind == "u" else abs(a)),
    "square": ("iuf", lambda a, _: a * a),
    "reciprocal": ("f", lambda a, _: 1.0 / a),
    "maximum": ("biuf", _larger),
    "minimum": ("biuf", _smaller),
    "sign": ("iuf", _sign),
    "signbit": ("f", _signbit),
    "copysign": ("f", _copysign),
    "heaviside": ("f", _heaviside),
    "bitwise_and": ("biu", lambda a, b, _: a & b),
    "bitwise_or": ("biu", lambda a, b, _: a | b),
    "bitwise_xor": ("biu", lambda a, b, _: a ^ b),
    "invert": ("biu", lambda a, _: a ^ (True if a.kind == "i1" else -1)),
    "logical_and": ("biuf", lambda a, b, _: _truth(a) & _truth(b)),
    "logical_or": ("biuf", lambda a, b, _: _truth(a) | _truth(b)),
    "logical_xor": ("biuf", lambda a, b, _: _truth(a) ^ _truth(b)),
    "logical_not": ("biuf", lambda a, _: _truth(a) ^ True),
    "left_shift": ("iu", _shifted("left")),
    "right_shift": ("iu", _shifted("right")),
    "isnan": ("biuf", lambda a, _: a.is_("uno", a) if a.is_float else _never(a)),
    "isinf": ("biuf", lambda a, _: abs(a).is_("oeq", math.inf) if a.is_float else _never(a)),
    "isfinite": ("biuf", lambda a, _: abs(a).is_("olt", math.inf) if a.is_float else _never(a) ^ True),
}
OPERATIONS |= {op: ("biuf", lambda a, b, dtype, op=op: _compared(op, a, b, dtype)) for op in _COMPARISON}
OPERATIONS |= {op: ("f", lambda a, _, how=how: a.code.call(how, a)) for op, how in _ROUNDING.items()}
OPERATIONS |= {op: ("f", lambda a, _, formula=formula: _in_double(formula, a)) for op, formula in FORMULAS.items()}


def _in_double(formula: Callable[[Value], Value], a: Value) -> Value:
    """Apply a formula; float32 is computed as float64 and rounded, so the error is hardly more than half a unit."""
    if a.kind == "double":
        return formula(a)
    return a.code.convert("fptrunc", formula(a.code.convert("fpext", a, "double")), a.kind)


def _truth(a: Value) -> Value:
    return a if a.kind == "i1" else a.is_("une" if a.is_float else "ne", 0)


def _never(a: Value) -> Value:
    return a.code.constant(False, "i1")


def converted(a: Value, old: DType, new: DType) -> Value | None:
    """As `astype`; None where NumPy's answer depends on the machine: a float as an integer."""
    kind = kind_of(new)
    assert kind is not None
    if a.kind == kind:
        return a
    if new == _BOOL:
        return _truth(a)
    if old.kind == "f" and new.kind == "f":
        return a.code.convert("fpext" if new.itemsize > old.itemsize else "fptrunc", a, kind)
    if new.kind == "f":
        return a.code.convert("sitofp" if old.kind == "i" else "uitofp", a, kind)
    if old.kind == "f":
        return None
    if old == _BOOL or new.itemsize > old.itemsize:
        return a.code.convert("sext" if old.kind == "i" else "zext", a, kind)
    return a.code.convert("trunc", a, kind)


@lru_cache(maxsize=4096)
def loop_dtypes(op: str, args: tuple[DType, ...], out: DType) -> tuple[DType, ...] | None:
    """Dtypes of the arguments and the result in NumPy's loop; None if NumPy has no such loop."""
    ufunc = getattr(np, op, None)
    if not isinstance(ufunc, np.ufunc) or ufunc.nout != 1 or ufunc.nin != len(args):
        return None
    try:
        found = ufunc.resolve_dtypes((*args, None))
    except TypeError:
        return None
    return tuple(found) if found[-1] == out else None


def is_exact(expression: Expression) -> bool:
    """Whether machine code gives NumPy's bits: no formula stands in the expression."""
    return not any(node.op in FORMULAS for node in expression.nodes)


def lane_code(expression: Expression, code: Code, inputs: Sequence[Value]) -> Value | None:
    """Write the expression over these lanes; None where a part of the expression has no machine code."""
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    values = list(inputs)
    for node in expression.nodes:
        value = _node(node, code, [values[arg] for arg in node.args], [dtypes[arg] for arg in node.args])
        if value is None:
            return None
        values.append(value)
    return values[-1]


def _node(node: Node, code: Code, args: list[Value], dtypes: list[DType]) -> Value | None:
    kind = kind_of(node.dtype)
    if kind is None:
        return None
    if node.op == CONSTANT:
        return code.constant(node.value[()], kind)
    if node.op == "astype":
        return converted(args[0], dtypes[0], node.dtype)
    if node.op == "where":
        a, b = (converted(one, dtype, node.dtype) for one, dtype in zip(args[1:], dtypes[1:]))
        return None if a is None or b is None else code.choose(_truth(args[0]), a, b)
    if node.op not in OPERATIONS or node.raises:  # machine code looks at no floating point errors
        return None
    kinds, operation = OPERATIONS[node.op]
    loop = loop_dtypes(node.op, tuple(dtypes), node.dtype)
    if loop is None or any(kind_of(dtype) is None for dtype in loop) or len(set(loop[:-1])) > 1:
        return None
    if loop[0].kind not in kinds:
        return None
    ready = [converted(one, dtype, wanted) for one, dtype, wanted in zip(args, dtypes, loop)]
    return None if None in ready else operation(*ready, loop[0])
