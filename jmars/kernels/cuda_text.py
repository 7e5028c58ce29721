"""Kernels for GPUs: an expression as a C++ function with NumPy's dtypes, and the loops of threads around it.

NVRTC compiles the text for any GPU, and tests compile the same text for this machine. Compile without fused
multiply-add (`--fmad=false`): NumPy rounds after each operation. Where C++ has a different rule or none, the text calls
`jm_NAME`, templates over a type T (U is the unsigned type of the same size), with the qualifier JM of the compiler.

A thread of a map loads several elements before the thread computes them. A reduction has a block of threads for
a part of the reduced elements; a second launch reduces the parts. Arrays lie in C's order; an
input of a map may be broadcast.

Machine code is kept in a folder of the user, so that the next process need not compile. A folder that cannot be read or
written costs a compilation in each process, no operand; the log says why.
Source: NumPy, `ufunc.resolve_dtypes`, `_core/src/umath/loops*.src`, `npy_math_internal.h.src` (signs of remainders, NaN
in extremes, shifts); CUDA C++ Programming Guide, "Mathematical Functions" (errors of the functions in column `close`);
https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html; Harris 2007 (parallel reduction).
"""

from __future__ import annotations

import logging
import math
import os
import re
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jmars.config import cache_dir
from jmars.errors import ClusterError
from jmars.kernels.elementwise import facts, loop_dtypes
from jmars.kernels.expression import CONSTANT, Expression, Node
from jmars.model.limits import REMEMBERED_PROGRAMS

DType = np.dtype[Any]
FUNCTION = "jm_expression"  # name of the function in the text
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_SIGNED = {1: "signed char", 2: "short", 4: "int", 8: "long long"}


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
    """Whether a GPU computes the same bits as NumPy: no function that is only close, no absolute of complex numbers."""
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    return not any(
        facts(node.op).close or (node.op == "absolute" and dtypes[node.args[0]].kind == "c")
        for node in expression.nodes
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
    """Statements of an expression."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
        self._names = [f"x{i}" for i in range(len(expression.inputs))]
        self._lines: list[str] = []

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
        return "\n".join(filter(None, [PRELUDE, helper_text(set(re.findall(r"jm_(\w+)", body))), function]))

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
            return f"jm_divide_by({', '.join([*args, *divisor])})"
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
        known, joined = facts(op), ", ".join(args)
        if known.close is not None and dtype.kind == "f":
            return f"{known.close[0]}({joined})"
        text = next((text for kinds, text in known.cuda.items() if dtype.kind in kinds), "")
        truths = dict(zip("pq", (truth(arg, dtype) for arg in args)))
        unsigned = _UNSIGNED.get(dtype.itemsize)
        text = text.format(*args, op=op, args=joined, T=cuda_type(dtype), U=unsigned, **truths)
        return text or None

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
                return f"jm_to_uint64({name})"
            return f"jm_to_int<{cuda_type(new)}>({name})"
        return f"({cuda_type(new)}){name}"


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


# Bits as numbers, numbers as bits, and complex numbers, on both machines. Products of complex numbers round as NumPy's
# do on processors with fused multiply-add.
PRELUDE = """\
#ifdef __CUDACC__
#define JM_ANY __device__ __forceinline__
#define JM static JM_ANY
JM double jm_f8(unsigned long long bits) { return __longlong_as_double((long long)bits); }
JM float jm_f4(unsigned int bits) { return __int_as_float((int)bits); }
JM unsigned int jm_high(double x) { return (unsigned int)__double2hiint(x); }
#else
#include <math.h>
#include <string.h>
#define JM_ANY inline
#define JM static JM_ANY
JM double jm_f8(unsigned long long bits) { double x; memcpy(&x, &bits, 8); return x; }
JM float jm_f4(unsigned int bits) { float x; memcpy(&x, &bits, 4); return x; }
JM unsigned int jm_high(double x) { unsigned long long bits; memcpy(&bits, &x, 8); return (unsigned int)(bits >> 32); }
#endif
template <class F> struct jm_complex {
  F re, im;
  jm_complex() = default;
  JM_ANY jm_complex(F r, F i = 0) : re(r), im(i) {}
  template <class G> JM_ANY jm_complex(const jm_complex<G>& z) : re((F)z.re), im((F)z.im) {}
};
typedef jm_complex<float> jm_c8;
typedef jm_complex<double> jm_c16;
template <class F> JM jm_complex<F> operator+(jm_complex<F> a, jm_complex<F> b) {
  return jm_complex<F>(a.re + b.re, a.im + b.im);
}
template <class F> JM jm_complex<F> operator-(jm_complex<F> a, jm_complex<F> b) {
  return jm_complex<F>(a.re - b.re, a.im - b.im);
}
template <class F> JM jm_complex<F> operator*(jm_complex<F> a, jm_complex<F> b) {
  return jm_complex<F>(fma(a.re, b.re, -(a.im * b.im)), fma(a.re, b.im, a.im * b.re));
}
"""

HELPERS = {
    # of two zeros the second, NaN before all numbers
    "maximum": "template <class T> JM T jm_maximum(T a, T b) { return a > b || a != a ? a : b; }",
    "minimum": "template <class T> JM T jm_minimum(T a, T b) { return a < b || a != a ? a : b; }",
    "fmax": "template <class T> JM T jm_fmax(T a, T b) { return a > b || b != b ? a : b; }",
    "fmin": "template <class T> JM T jm_fmin(T a, T b) { return a < b || b != b ? a : b; }",
    "sign": "template <class T> JM T jm_sign(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a == 0 ? (T)0 : a; }",
    "heaviside": (
        "template <class T> JM T jm_heaviside(T a, T b) { return a != a ? a : a == 0 ? b : a < 0 ? (T)0 : (T)1; }"
    ),
    # a shift by the width or more leaves no bits; a negative count, as unsigned, is such a shift
    "left_shift": (
        "template <class T, class U> JM T jm_left_shift(T a, T b) {\n"
        "  return (U)b < 8 * sizeof(T) ? (T)((U)a << (U)b) : (T)0;\n}"
    ),
    "right_shift": (
        "template <class T, class U> JM T jm_right_shift(T a, T b) {\n"
        "  return (U)b < 8 * sizeof(T) ? (T)(a >> b) : a < 0 ? (T)-1 : (T)0;\n}"
    ),
    # NumPy's integers wrap around; signed overflow is undefined in C++. Types shorter than int are computed as int
    "add": "template <class T, class U> JM T jm_add(T a, T b) { return (T)((U)a + (U)b); }",
    "subtract": "template <class T, class U> JM T jm_subtract(T a, T b) { return (T)((U)a - (U)b); }",
    "multiply": "template <class T, class U> JM T jm_multiply(T a, T b) { return (T)(1ull * (U)a * (U)b); }",
    "negative": "template <class T, class U> JM T jm_negative(T a) { return (T)((U)0 - (U)a); }",
    "absolute": "template <class T, class U> JM T jm_absolute(T a) { return a < 0 ? (T)((U)0 - (U)a) : a; }",
    "int_floor_divide": (
        "template <class T, class U> JM T jm_int_floor_divide(T a, T b) {\n"
        "  if (b == 0) return (T)0;\n"
        "  if (b == (T)-1 && (T)-1 < 0) return (T)((U)0 - (U)a);\n"
        "  T q = (T)(a / b);\n"
        "  return (T)(q * b) != a && (a < 0) != (b < 0) ? (T)(q - 1) : q;\n}"
    ),
    "int_remainder": (
        "template <class T, class U> JM T jm_int_remainder(T a, T b) {\n"
        "  if (b == 0 || (b == (T)-1 && (T)-1 < 0)) return (T)0;\n"
        "  T r = (T)(a % b);\n"
        "  return r != 0 && (a < 0) != (b < 0) ? (T)(r + b) : r;\n}"
    ),
    "int_fmod": (
        "template <class T, class U> JM T jm_int_fmod(T a, T b) {\n"
        "  return b == 0 || (b == (T)-1 && (T)-1 < 0) ? (T)0 : (T)(a % b);\n}"
    ),
    "floor_divide": (
        "template <class T> JM T jm_floor_divide(T a, T b) {\n"
        "  if (b == 0) return a / b;\n"
        "  T m = fmod(a, b), q = (a - m) / b;\n"
        "  if (m != 0 && (b < 0) != (m < 0)) q -= (T)1;\n"
        "  if (q == 0) return copysign((T)0, a / b);\n"
        "  T f = floor(q);\n"
        "  return q - f > (T)0.5 ? f + (T)1 : f;\n}"
    ),
    "remainder": (
        "template <class T> JM T jm_remainder(T a, T b) {\n"
        "  T m = fmod(a, b);\n"
        "  if (b == 0) return m;\n"
        "  if (m == 0) return copysign((T)0, b);\n"
        "  return (b < 0) != (m < 0) ? m + b : m;\n}"
    ),
    # division by a constant: its reciprocal is r + rest, the first quotient neighbours the exact quotient, and a
    # step with the exact remainder rounds right (Markstein 1990); numbers near the ends of the range are divided
    "divide_by": (
        "JM double jm_divide_by(double a, double b, double r, double rest) {\n"
        "  if ((jm_high(a) & 0x7fffffffu) - 0x10000000u >= 0x60000000u) return a / b;\n"
        "  double q = fma(a, r, a * rest);\n"
        "  return fma(fma(-q, b, a), r, q);\n}"
    ),
    # of complex numbers: Smith 1962, by the larger part of the divisor
    "divide_complex": (
        "template <class T> JM T jm_divide_complex(T a, T b) {\n"
        "  auto r = fabs(b.re), i = fabs(b.im);\n"
        "  if (r >= i) {\n"
        "    if (r == 0 && i == 0) return T(a.re / r, a.im / r);\n"
        "    auto ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);\n"
        "    return T((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale);\n"
        "  }\n"
        "  auto ratio = b.re / b.im, scale = 1 / (b.im + b.re * ratio);\n"
        "  return T((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale);\n}"
    ),
    "reciprocal_complex": (
        "template <class T> JM T jm_reciprocal_complex(T a) {\n"
        "  if (fabs(a.im) <= fabs(a.re)) {\n"
        "    auto ratio = a.im / a.re, scale = a.re + a.im * ratio;\n"
        "    return T(1 / scale, -ratio / scale);\n"
        "  }\n"
        "  auto ratio = a.re / a.im, scale = a.re * ratio + a.im;\n"
        "  return T(ratio / scale, -1 / scale);\n}"
    ),
    # as x86-64 converts: values out of range give the least integer
    "to_int": (
        "template <class T, class F> JM T jm_to_int(F a) {\n"
        "  F end = (F)9223372036854775808.0;\n"
        "  return a >= -end && a < end ? (T)(long long)a : (T)(-9223372036854775807ll - 1);\n}"
    ),
    "to_uint64": (
        "template <class F> JM unsigned long long jm_to_uint64(F a) {\n"
        "  F end = (F)9223372036854775808.0;\n"
        "  if (a >= end && a < 2 * end) return (unsigned long long)a;\n"
        "  return a >= -end && a < end ? (unsigned long long)(long long)a : 9223372036854775808ull;\n}"
    ),
}


def helper_text(names: set[str]) -> str:
    """The texts of some helpers, in a fixed order."""
    return "\n".join(text for name, text in HELPERS.items() if name in names)


MAP, REDUCE = "jm_map", "jm_reduce"  # names of the kernels
BLOCK = 256  # threads of a block of a map
PER_THREAD = 8  # elements of a thread of a map
_JOIN = {
    "add": "a + b", "multiply": "a * b", "maximum": "jm_maximum(a, b)", "minimum": "jm_minimum(a, b)",
    "logical_and": "a && b", "logical_or": "a || b",
}  # fmt: skip
_MAP = """\
extern "C" __global__ void {name}({parameters}, long long n) {{
  const long long begin = (long long)blockIdx.x * {tile} + threadIdx.x;
  if (begin + {last} < n) {{
    {loads}
    {out} v[{per}];
    #pragma unroll
    for (int k = 0; k < {per}; ++k) v[k] = {each};
    #pragma unroll
    for (int k = 0; k < {per}; ++k) out[begin + k * {block}] = v[k];
  }} else
    for (long long i = begin; i < n && i < begin + {tile}; i += {block}) out[i] = {single};
}}"""
_REDUCE = """\
typedef {type} jm_reduced;
JM jm_reduced jm_join(jm_reduced a, jm_reduced b) {{ return {join}; }}
extern "C" __global__ void {name}({parameters}, long long rows, long long depth, long long width, long long part) {{
  __shared__ char raw[256 * sizeof(jm_reduced)];
  jm_reduced* shared = reinterpret_cast<jm_reduced*>(raw);
  const long long parts = (depth + part - 1) / part, blocks = (width + blockDim.x - 1) / blockDim.x;
  const long long column = (blockIdx.x % blocks) * blockDim.x + threadIdx.x;
  const long long p = blockIdx.x / blocks % parts, row = blockIdx.x / blocks / parts;
  const long long end = p * part + part < depth ? p * part + part : depth;
  jm_reduced s = (jm_reduced){identity};
  if (column < width)
    #pragma unroll 4
    for (long long j = p * part + threadIdx.y; j < end; j += blockDim.y) {{
      const long long i = (row * depth + j) * width + column;
      s = jm_join(s, {value});
    }}
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  shared[thread] = s;
  __syncthreads();
  for (int half = blockDim.y / 2; half > 0; half /= 2) {{
    if (threadIdx.y < half) shared[thread] = jm_join(shared[thread], shared[thread + half * blockDim.x]);
    __syncthreads();
  }}
  if (threadIdx.y == 0 && column < width) out[(row * parts + p) * width + column] = shared[thread];
}}"""


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def map_source(expression: Expression, flat: tuple[bool, ...], dims: int, indexed: bool) -> str:
    """The kernel `jm_map` of an expression with a text.

    Parameters are a pointer for each input, one for the output, with `indexed` the number `first` in place of the last
    input, then for each of `dims` dimensions its length and, for each input that is not `flat`, its stride in elements;
    last the number of elements. A `flat` input has an element for each of the output.
    """
    text = cuda_text(expression)
    assert text is not None
    types = [cuda_type(dtype) for dtype in expression.inputs]
    arrays = len(types) - indexed
    parameters = [f"const {types[x]}* __restrict__ x{x}" for x in range(arrays)]
    parameters.append(f"{cuda_type(expression.dtype)}* __restrict__ out")
    parameters += ["long long first"] * indexed
    strided = [x for x in range(arrays) if not flat[x]]
    for d in range(dims):
        parameters += [f"long long n{d}", *(f"long long s{x}_{d}" for x in strided)]
    places = "\n".join(_place(x, dims) for x in strided)
    index = "begin + k * BLOCK".replace("BLOCK", str(BLOCK))

    def element(x: int, at: str) -> str:
        return f"x{x}[{at}]" if flat[x] else f"x{x}[at{x}({at}, {_dimensions(x, dims)})]"

    loads = [
        f"{types[x]} v{x}[{PER_THREAD}];\n    #pragma unroll\n"
        f"    for (int k = 0; k < {PER_THREAD}; ++k) v{x}[k] = {element(x, index)};"
        for x in range(arrays)
    ]
    each = [*(f"v{x}[k]" for x in range(arrays)), *[f"first + {index}"] * indexed]
    single = [*(element(x, "i") for x in range(arrays)), *["first + i"] * indexed]
    kernel = _MAP.format(
        name=MAP, parameters=", ".join(parameters), tile=BLOCK * PER_THREAD, last=BLOCK * (PER_THREAD - 1),
        per=PER_THREAD, block=BLOCK, out=cuda_type(expression.dtype), loads="\n    ".join(loads),
        each=f"{FUNCTION}({', '.join(each)})", single=f"{FUNCTION}({', '.join(single)})",
    )  # fmt: skip
    return "\n".join(filter(None, [text, places, kernel]))


def _dimensions(x: int, dims: int) -> str:
    return ", ".join(f"n{d}, s{x}_{d}" for d in range(dims))


def _place(x: int, dims: int) -> str:
    """The function of an element's place in a broadcast input."""
    parameters = ", ".join(f"long long n{d}, long long s{d}" for d in range(dims))
    steps = [f"at += i % n{d} * s{d}; i /= n{d};" for d in reversed(range(1, dims))]
    return (
        f"JM long long at{x}(long long i, {parameters}) {{ long long at = 0; {' '.join(steps)} return at + i * s0; }}"
    )


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def reduction_source(expression: Expression, ufunc: str, dtype: np.dtype[Any]) -> str:
    """The kernel `jm_reduce` of an expression of flat inputs, by a ufunc of `REDUCTIONS`, in a dtype.

    Inputs have the shape (rows, depth, width); a part of the depth gives an element of the output (rows, parts, width).
    Blocks have at most 256 threads, a power of two along the depth (`Reduction`).
    """
    text, kind = cuda_text(expression), cuda_type(dtype)
    assert text is not None and kind is not None
    if ufunc in ("maximum", "minimum") and f"jm_{ufunc}(" not in text:
        text += helper_text({ufunc})
    count = len(expression.inputs)
    call = f"{FUNCTION}({', '.join(f'x{x}[i]' for x in range(count))})"
    parameters = [f"const {cuda_type(old)}* __restrict__ x{x}" for x, old in enumerate(expression.inputs)]
    kernel = _REDUCE.format(
        name=REDUCE, parameters=", ".join([*parameters, f"{kind}* __restrict__ out"]), type=kind, join=_JOIN[ufunc],
        identity=_identity(ufunc, dtype),
        value=truth(call, expression.dtype) if ufunc.startswith("logical") else f"({kind}){call}",
    )  # fmt: skip
    return f"{text}\n{kernel}"


def _identity(ufunc: str, dtype: np.dtype[Any]) -> str:
    """The value with which a reduction begins, in C++."""
    if ufunc in ("maximum", "minimum"):
        if dtype.kind == "f":
            return f"({'-' if ufunc == 'maximum' else ''}jm_f8(0x7ff0000000000000ull))"
        if dtype.kind == "b":
            return "false" if ufunc == "maximum" else "true"
        info = np.iinfo(dtype)
        number = info.min if ufunc == "maximum" else info.max
        return f"({number + 1} - 1)" if number == -(2**63) else f"{number}{'ull' if dtype.kind == 'u' else 'll'}"
    return {"add": "0", "multiply": "1", "logical_and": "true", "logical_or": "false"}[ufunc]


BLOCKS = 4096  # blocks of a reduction that keep a GPU busy
THREADS = 256  # of a block of a reduction
MIN_PART_ELEMENTS = 8  # elements of a part for a thread
Shape = tuple[int, ...]


class Broadcast(NamedTuple):
    """Strides of the inputs of a map.

    Attributes
    ----------
    flat
        For each input, whether the input has as many elements as the output.
    lengths
        Lengths of the dimensions, merged where all inputs allow; empty if all inputs are flat.
    strides
        For each input, elements between neighbours in each dimension.
    """

    flat: tuple[bool, ...]
    lengths: Shape
    strides: tuple[Shape, ...]


def broadcast(shape: Shape, shapes: Sequence[Shape]) -> Broadcast:
    """Strides of inputs of these shapes for a map of shape `shape`.

    Examples
    --------
    >>> broadcast((2, 3, 4), [(2, 3, 4), (3, 4), (2, 1, 1)])
    Broadcast(flat=(True, False, False), lengths=(2, 12), strides=((12, 1), (0, 1), (1, 0)))
    """
    flat = tuple(math.prod(one) == math.prod(shape) for one in shapes)
    if all(flat):
        return Broadcast(flat, (), ((),) * len(shapes))
    all_strides = [_strides(shape, one) for one in shapes]
    lengths, strides = list[int](), list[list[int]]()  # the last dimension first
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            continue
        here = [one[axis] for one in all_strides]
        if lengths and all(now == before * lengths[-1] for now, before in zip(here, strides[-1], strict=True)):
            lengths[-1] *= shape[axis]
        else:
            lengths.append(shape[axis])
            strides.append(here)
    return Broadcast(flat, tuple(reversed(lengths)), tuple(zip(*reversed(strides))))


def _strides(shape: Shape, own: Shape) -> Shape:
    """Strides of an array of shape `own`, broadcast to `shape`: 0 along broadcast dimensions."""
    own = (1,) * (len(shape) - len(own)) + own
    return tuple(0 if length == 1 else math.prod(own[axis + 1 :]) for axis, length in enumerate(own))


class ReductionLaunch(NamedTuple):
    """A launch: (rows, depth, width) to (rows, parts, width), each part of at most `part` along the depth."""

    rows: int
    depth: int
    width: int
    part: int
    block: tuple[int, int]  # threads along the width and the depth

    @property
    def parts(self) -> int:
        """Parts of the depth."""
        return -(-self.depth // self.part)

    @property
    def size(self) -> int:
        """Elements of the output."""
        return self.rows * self.parts * self.width

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.rows * self.parts * -(-self.width // self.block[0])


def reductions(shape: Shape, axes: Sequence[int]) -> list[ReductionLaunch]:
    """The launches of a reduction along axes; each launch reads the output of the launch before.

    Examples
    --------
    >>> [(one.rows, one.depth, one.width, one.parts) for one in reductions((10**6, 100), (0,))]
    [(1, 1000000, 100, 1024), (1, 1024, 100, 1)]
    >>> [(one.rows, one.depth, one.width, one.parts) for one in reductions((8, 500, 9), (0, 2))]
    [(4000, 9, 1, 1), (1, 8, 500, 1)]
    """
    found, lengths = list[ReductionLaunch](), list(shape)
    reduced = [axis in axes for axis in range(len(shape))]
    stop = len(shape)
    while stop:
        start = stop - 1
        while start and reduced[start - 1] == reduced[start]:
            start -= 1
        depth = math.prod(lengths[start:stop])
        if reduced[start] and depth > 1:
            found += _of_one_run(math.prod(lengths[:start]), depth, math.prod(lengths[stop:]))
        if reduced[start]:
            lengths[start:stop] = [1] * (stop - start)
        stop = start
    return found or [_launch(1, 1, math.prod(shape), 1)]


def _of_one_run(rows: int, depth: int, width: int) -> list[ReductionLaunch]:
    whole = _launch(rows, depth, width, depth)
    parts = min(-(-BLOCKS // whole.blocks), depth // (whole.block[1] * MIN_PART_ELEMENTS))
    if parts < 2:
        return [whole]
    first = _launch(rows, depth, width, -(-depth // parts))
    return [first, _launch(rows, first.parts, width, first.parts)]


def _launch(rows: int, depth: int, width: int, part: int) -> ReductionLaunch:
    across = min(32, THREADS, 1 << (width - 1).bit_length())
    along = min(THREADS // across, 1 << (part - 1).bit_length())
    return ReductionLaunch(rows, depth, width, part, (across, along))


log = logging.getLogger("jmars.worker")

LIMIT = 256 * 2**20  # bytes of all files: some ten thousand kernels


def find_kernel(name: str) -> bytes | None:
    """The machine code kept under `name`, which counts as used now; None if there is none.

    Examples
    --------
    >>> keep_kernel("0123456789abcdef", b"machine code")
    >>> find_kernel("0123456789abcdef"), find_kernel("fedcba9876543210")
    (b'machine code', None)
    """
    try:
        path = _folder() / name
        code = path.read_bytes()
        os.utime(path)
    except FileNotFoundError:
        return None
    except (OSError, ClusterError) as error:
        _warn(error)
        return None
    return code


def keep_kernel(name: str, code: bytes) -> None:
    """Writes machine code, mode 0600; removes the files that were not used for longest beyond LIMIT bytes in all."""
    try:
        folder = _folder()
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                file.write(code)
                file.flush()
                os.replace(file.name, folder / name)
            except OSError:
                os.unlink(file.name)
                raise
        _remove_oldest(folder)
    except (OSError, ClusterError) as error:
        _warn(error)


def _folder() -> Path:
    folder = cache_dir() / "gpu-kernels"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _remove_oldest(folder: Path) -> None:
    files = []
    for entry in os.scandir(folder):
        try:
            status = entry.stat()
        except FileNotFoundError:  # removed by another process
            continue
        files.append((status.st_mtime_ns, status.st_size, entry.path))
    beyond = sum(size for _, size, _ in files) - LIMIT
    for _, size, path in sorted(files):
        if beyond <= 0:
            break
        Path(path).unlink(missing_ok=True)
        beyond -= size


def _warn(error: Exception) -> None:
    log.warning("kernels of GPUs are compiled anew in each process: %s", error)
