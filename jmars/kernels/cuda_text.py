"""Writes an expression as a C++ function, for a GPU: a statement a node, with NumPy's dtypes.

The text is complete but for the loop around the function, so that NVRTC compiles the text for any GPU, and tests
compile the same text for this machine. Compile without fused multiply-add (`--fmad=false`): NumPy rounds after
each operation.
Source: NumPy, `ufunc.resolve_dtypes`; CUDA C++ Programming Guide, "Mathematical
Functions" (errors of the functions in `CLOSE`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from jmars.kernels.cuda_helpers import PRELUDE, helper_text
from jmars.kernels.expression import CONSTANT, Expression, Node
from jmars.kernels.operations import loop_dtypes
from jmars.model.limits import REMEMBERED_PROGRAMS

__all__ = ["CLOSE", "FUNCTION", "cuda_text", "cuda_type", "has_numpys_bits", "truth"]

DType = np.dtype[Any]
FUNCTION = "jm_expression"  # name of the function in the text
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_SIGNED = {1: "signed char", 2: "short", 4: "int", 8: "long long"}
_SYMBOLS = {
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}
_TEMPLATES = {"maximum", "minimum", "fmax", "fmin", "sign", "heaviside"}
_ROUNDING = {"floor", "ceil", "trunc", "rint", "sqrt", "fabs", "copysign", "fmod", "nextafter"}
# Functions of CUDA: NumPy's name, CUDA's, and the error of each in units of the last place, for float64 and float32.
CLOSE: dict[str, tuple[str, int, int]] = {
    "exp": ("exp", 1, 2), "exp2": ("exp2", 1, 2), "expm1": ("expm1", 1, 1), "log": ("log", 1, 1),
    "log2": ("log2", 1, 1), "log10": ("log10", 1, 2), "log1p": ("log1p", 1, 1), "cbrt": ("cbrt", 1, 1),
    "sin": ("sin", 2, 2), "cos": ("cos", 2, 2), "tan": ("tan", 2, 4), "arcsin": ("asin", 2, 2),
    "arccos": ("acos", 2, 2), "arctan": ("atan", 2, 2), "arctan2": ("atan2", 2, 3), "sinh": ("sinh", 2, 3),
    "cosh": ("cosh", 1, 2), "tanh": ("tanh", 1, 2), "arcsinh": ("asinh", 3, 3), "arccosh": ("acosh", 3, 4),
    "arctanh": ("atanh", 2, 3), "hypot": ("hypot", 2, 3), "power": ("pow", 2, 4), "float_power": ("pow", 2, 4),
}  # fmt: skip


def cuda_type(dtype: DType) -> str | None:
    """The C++ type of a dtype; None where no type is written: half and long numbers, dates, records.

    Examples
    --------
    >>> cuda_type(np.dtype("i8")), cuda_type(np.dtype("c8")), cuda_type(np.dtype("f2"))
    ('long long', 'jm_c8', None)
    """
    if not dtype.isnative:
        return None
    match dtype.kind:
        case "b":
            return "bool"
        case "i":
            return _SIGNED[dtype.itemsize]
        case "u":
            return _UNSIGNED[dtype.itemsize]
        case "f":
            return {4: "float", 8: "double"}.get(dtype.itemsize)
        case "c":
            return {8: "jm_c8", 16: "jm_c16"}.get(dtype.itemsize)
    return None


def has_numpys_bits(expression: Expression) -> bool:
    """Whether a GPU computes the same bits as NumPy: no function of `CLOSE`, no absolute of complex numbers."""
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    return not any(
        node.op in CLOSE or (node.op == "absolute" and dtypes[node.args[0]].kind == "c") for node in expression.nodes
    )


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def cuda_text(expression: Expression) -> str | None:
    """The C++ text of a function `jm_expression(x0, x1, …)`; None where a part of the expression has no text.

    Examples
    --------
    >>> f8 = np.dtype("f8")
    >>> text = cuda_text(Expression((f8, f8), (Node("add", (0, 1), f8), Node("sqrt", (2,), f8))))
    >>> print(text[text.index("JM double jm_expression"):])
    JM double jm_expression(double x0, double x1) {
      const double v0 = x0 + x1;
      const double v1 = sqrt(v0);
      return v1;
    }
    """
    writer = _Writer(expression)
    return writer.text() if writer.write() else None


class _Writer:
    """Statements of an expression, and the helpers that they call."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
        self._names = [f"x{i}" for i in range(len(expression.inputs))]
        self._lines: list[str] = []
        self._helpers: set[str] = set()

    def write(self) -> bool:
        """Write all statements; False where a statement has no text."""
        if any(cuda_type(dtype) is None for dtype in self._dtypes):
            return False
        for number, node in enumerate(self._expression.nodes):
            value = self._value(node)
            if value is None:
                return False
            self._lines.append(f"const {cuda_type(node.dtype)} v{number} = {value};")
            self._names.append(f"v{number}")
        return True

    def text(self) -> str:
        """The whole text."""
        inputs = ", ".join(f"{cuda_type(dtype)} x{i}" for i, dtype in enumerate(self._expression.inputs))
        body = "\n".join(f"  {line}" for line in [*self._lines, f"return {self._names[-1]};"])
        function = f"JM {cuda_type(self._expression.dtype)} {FUNCTION}({inputs}) {{\n{body}\n}}"
        return "\n".join(filter(None, [PRELUDE, helper_text(self._helpers), function]))

    def _value(self, node: Node) -> str | None:
        """The text of a node's value."""
        if node.ufunc is not None or node.raises:  # a GPU looks at no floating point errors
            return None
        names = [self._names[arg] for arg in node.args]
        dtypes = [self._dtypes[arg] for arg in node.args]
        if node.op == CONSTANT:
            return _literal(node.value[()], node.dtype)
        if node.op == "astype":
            return self._converted(names[0], dtypes[0], node.dtype)
        if node.op == "where":
            a, b = (self._converted(name, dtype, node.dtype) for name, dtype in zip(names[1:], dtypes[1:]))
            return f"{truth(names[0], dtypes[0])} ? {a} : {b}"
        if node.op in ("real", "imag", "conjugate") and dtypes[0].kind == "c":
            part = {"real": "{0}.re", "imag": "{0}.im", "conjugate": "{1}({0}.re, -{0}.im)"}[node.op]
            return part.format(names[0], cuda_type(dtypes[0]))
        if node.op in ("real", "conjugate", "positive"):
            return self._converted(names[0], dtypes[0], node.dtype)
        loop = loop_dtypes(node.op, tuple(dtypes), node.dtype)
        if loop is None or any(cuda_type(dtype) is None for dtype in loop) or len(set(loop[:-1])) > 1:
            return None
        args = [self._converted(name, dtype, wanted) for name, dtype, wanted in zip(names, dtypes, loop)]
        if node.op in ("divide", "true_divide") and loop[0] == np.float64 and (divisor := self._constant(node.args[1])):
            return f"{self._helper('divide_by')}({', '.join([*args, *divisor])})"
        return self._operation(node.op, args, loop[0])

    def _constant(self, value: int) -> tuple[str, str] | None:
        """The reciprocal of a constant of ordinary size, in two parts; None for another value."""
        number = value - len(self._expression.inputs)
        node = self._expression.nodes[number] if number >= 0 else None
        if (
            node is None
            or node.op != CONSTANT
            or node.dtype != np.float64
            or not 2.0**-100 < abs(node.value) < 2.0**100
        ):
            return None
        exact = 1 / Fraction(float(node.value))
        reciprocal = float(exact)
        return reciprocal.hex(), float(exact - Fraction(reciprocal)).hex()

    def _operation(self, op: str, args: Sequence[str], dtype: DType) -> str | None:
        """An operation on arguments of the loop's dtype."""
        kind, joined = dtype.kind, ", ".join(args)
        if kind == "c":
            return self._of_complex(op, args, dtype)
        if op in _OF_TRUTH:
            return _OF_TRUTH[op](*(truth(arg, dtype) for arg in args))
        if op in _OF_FLOAT:
            return _OF_FLOAT[op](*args, kind == "f")
        if op in _SYMBOLS and (kind in "biu" or op not in ("bitwise_and", "bitwise_or", "bitwise_xor")):
            return f"({args[0]} {_SYMBOLS[op]} {args[1]})" if kind == "f" else self._cast(op, args, dtype)
        if op in _TEMPLATES:
            return f"{self._helper(op)}({joined})"
        if kind == "f":
            return self._of_floats(op, args, dtype)
        if kind in "iu":
            return self._of_integers(op, args, dtype)
        return _OF_BOOL[op](*args) if op in _OF_BOOL else None

    def _cast(self, op: str, args: Sequence[str], dtype: DType) -> str:
        value = f"{args[0]} {_SYMBOLS[op]} {args[1]}"
        return f"({cuda_type(dtype)})({value})" if op.startswith("bitwise") else f"({value})"

    def _of_floats(self, op: str, args: Sequence[str], dtype: DType) -> str | None:
        if op in _ARITHMETIC:
            return f"{args[0]} {_ARITHMETIC[op]} {args[1]}"
        if op in ("floor_divide", "remainder"):
            return f"{self._helper(op)}({', '.join(args)})"
        if op in _ROUNDING:
            return f"{op}({', '.join(args)})"
        if op in CLOSE:
            return f"{CLOSE[op][0]}({', '.join(args)})"
        one = {
            "negative": "-{0}",
            "absolute": "fabs({0})",
            "square": "{0} * {0}",
            "reciprocal": f"({cuda_type(dtype)})1 / {{0}}",
        }
        return one[op].format(args[0]) if op in one else None

    def _of_complex(self, op: str, args: Sequence[str], dtype: DType) -> str | None:
        if op in ("divide", "true_divide"):
            return f"{self._helper('divide_complex')}({', '.join(args)})"
        if op in _ARITHMETIC:
            return f"{args[0]} {_ARITHMETIC[op]} {args[1]}"
        if op == "reciprocal":
            return f"{self._helper('reciprocal_complex')}({args[0]})"
        if op in _OF_TRUTH:
            return _OF_TRUTH[op](*(truth(arg, dtype) for arg in args))
        return _OF_COMPLEX[op].format(*args, type=cuda_type(dtype)) if op in _OF_COMPLEX else None

    def _of_integers(self, op: str, args: Sequence[str], dtype: DType) -> str | None:
        own, unsigned = cuda_type(dtype), _UNSIGNED[dtype.itemsize]
        names = {"square": "multiply"} | {one: f"int_{one}" for one in ("floor_divide", "remainder", "fmod")}
        name = names.get(op, op)
        if op == "square":
            args = [args[0], args[0]]
        if op == "invert":
            return f"({own})~{args[0]}"
        if op in ("floor", "ceil", "trunc") or (op == "absolute" and dtype.kind == "u"):
            return args[0]
        known = ("add", "subtract", "multiply", "negative", "absolute", "left_shift", "right_shift")
        if name in known or name.startswith("int_"):
            return f"{self._helper(name)}<{own}, {unsigned}>({', '.join(args)})"
        return None

    def _converted(self, name: str, old: DType, new: DType) -> str:
        """As `astype`; a float beyond the range of an integer becomes the number that processors of x86-64 give."""
        if old == new:
            return name
        if new.kind == "b":
            return truth(name, old)
        if old.kind == "c" and new.kind != "c":
            return self._converted(f"({name}).re", np.zeros((), old).real.dtype, new)
        if old.kind == "f" and new.kind in "iu":
            if new == np.uint64:
                return f"{self._helper('to_uint64')}({name})"
            return f"{self._helper('to_int')}<{cuda_type(new)}>({name})"
        return f"({cuda_type(new)}){name}"

    def _helper(self, name: str) -> str:
        self._helpers.add(name)
        return f"jm_{name}"


_OF_TRUTH: dict[str, Callable[..., str]] = {
    "logical_and": lambda a, b: f"({a} && {b})",
    "logical_or": lambda a, b: f"({a} || {b})",
    "logical_xor": lambda a, b: f"({a} != {b})",
    "logical_not": lambda a: f"!{a}",
}
_OF_COMPLEX = {
    "negative": "{type}(-({0}).re, -({0}).im)", "square": "({0}) * ({0})", "absolute": "hypot(({0}).re, ({0}).im)",
    "equal": "(({0}).re == ({1}).re && ({0}).im == ({1}).im)",
    "not_equal": "(({0}).re != ({1}).re || ({0}).im != ({1}).im)",
    "isnan": "(({0}).re != ({0}).re || ({0}).im != ({0}).im)",
    "isinf": "(fabs(({0}).re) == jm_f8(0x7ff0000000000000ull) || fabs(({0}).im) == jm_f8(0x7ff0000000000000ull))",
    "isfinite": "(fabs(({0}).re) < jm_f8(0x7ff0000000000000ull) && fabs(({0}).im) < jm_f8(0x7ff0000000000000ull))",
}  # fmt: skip
_OF_BOOL: dict[str, Callable[..., str]] = {
    "add": _OF_TRUTH["logical_or"],
    "multiply": _OF_TRUTH["logical_and"],
    "invert": _OF_TRUTH["logical_not"],
    "absolute": str,
    "floor": str,
    "ceil": str,
    "trunc": str,
}
_OF_FLOAT: dict[str, Callable[..., str | None]] = {
    "isnan": lambda a, real: f"({a} != {a})" if real else "false",
    "isinf": lambda a, real: f"(fabs({a}) == jm_f8(0x7ff0000000000000ull))" if real else "false",
    "isfinite": lambda a, real: f"(fabs({a}) < jm_f8(0x7ff0000000000000ull))" if real else "true",
    "signbit": lambda a, real: f"(signbit({a}) != 0)" if real else None,
}


def truth(name: str, dtype: DType) -> str:
    """The text of whether a value is not zero."""
    if dtype.kind == "c":
        return f"(({name}).re != 0 || ({name}).im != 0)"
    return name if dtype.kind == "b" else f"({name} != 0)"


def _literal(value: Any, dtype: DType) -> str:
    """A constant; floats as hexadecimal digits, so that no bit is lost, or as bits where they have none."""
    match dtype.kind:
        case "b":
            return "true" if value else "false"
        case "f" if math.isfinite(value):
            return float(value).hex() + ("f" if dtype.itemsize == 4 else "")
        case "f":
            bits = int(np.array(value, dtype).view(f"u{dtype.itemsize}"))
            return f"jm_f{dtype.itemsize}({bits:#x}{'u' if dtype.itemsize == 4 else 'ull'})"
        case "c":
            parts = (_literal(part, part.dtype) for part in (value.real, value.imag))
            return f"{cuda_type(dtype)}({', '.join(parts)})"
        case "u":
            return f"({cuda_type(dtype)}){int(value)}ull"
    least = -(2**63)
    return f"({cuda_type(dtype)})" + ("(-9223372036854775807ll - 1)" if value == least else f"({int(value)}ll)")
