"""Elementwise operations: `OPS` holds the facts that back ends and cost models use, a row per operation.

A row has NumPy's names and Python's operator, machine code, C++ text for GPUs, numexpr's text, and measured times.
Machine code is LLVM assembly on values of the dtype in which NumPy's loop computes: a `Value` is a vector of lanes, and
`a * b` writes an instruction. The code is exact: no reordering, and contraction only by `fma`, so that every operation
rounds as NumPy's does. No text of a user ever enters the code.

The functions of float64 (sin, cos, exp, expm1, log, log1p, tanh and others) are formulas without branches, for vector
units. A formula takes and gives lanes of doubles and keeps NumPy's values for NaN, infinities, signed zeros, overflow
and subnormal numbers. A row bounds the error of a formula; tests check the bounds. Lanes outside the domain of a
formula (angles beyond 2**45, infinities) are added to `Code.flagged`; NumPy computes blocks with such lanes.
Source: NumPy `_core/src/umath/loops*.src` (order of comparisons with NaN, shifts beyond the width, signs); Cody and
Waite 1980, "Software Manual for the Elementary Functions" (reduction in parts, each exact by fma); fdlibm's published
kernels for log and atan (`e_log.c`, `s_atan.c`); Taylor series for the others, for the sine economised by Chebyshev
polynomials (Lanczos 1938) over a quarter of a turn, to 3.5e-17 of the value; LLVM Language Reference
(llvm.org/docs/LangRef.html), "Instruction Reference" and "Vector Type".
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jmars.kernels.expression import Expression

MAGIC = 1.5 * 2.0**52  # added to a small number, it leaves the nearest integer in the low bits
FARTHEST = 2.0**45  # largest angle
SIGN = -(2**63)
_PI = (math.pi, 1.224646799147353e-16, 2.1657133478438278e-32)  # in parts of 53 bits, none below 0: -0.0 stays
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 21 zeros at its end
_SINE = (
    -1.6666666666666666e-01, 8.333333333333316e-03, -1.9841269841254988e-04, 2.755731921916633e-06,
    -2.5052107617354537e-08, 1.6058977333762584e-10, -7.643970924511495e-13, 2.7314520349837663e-15,
)  # fmt: skip
_POWER = [1 / math.factorial(k) for k in range(2, 15)]
_LOG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
_ATAN = (
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01, -1.11111104054623557880e-01,
    9.09088713343650656196e-02, -7.69187620504482999495e-02, 6.66107313738753120669e-02, -5.83357013379057348645e-02,
    4.97687799461593236017e-02, -3.65315727442169155270e-02, 1.62858201153657823623e-02,
)  # fmt: skip


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c0 + c1 x + c2 x**2 + ..., from the end."""
    value = x.like(coefficients[-1])
    for one in coefficients[-2::-1]:
        value = x.code.fma(value, x, one)
    return value


def _whole(x: Value, scale: float, shift: float = 0.0) -> tuple[Value, Value]:
    """`x * scale + shift` as the nearest whole number, and that in the low bits of an integer."""
    near = x.code.fma(x, scale, shift) + MAGIC
    return near - MAGIC, near.bits


def _signed_as(size: Value, sign: Value) -> Value:
    """Give `size` the sign of `sign`; the two signs may differ only where `size` is 0."""
    return (size.bits | (sign.bits & SIGN)).as_double


def _sine_of(x: Value, turns: Value) -> Value:
    """The sine of `x - turns * pi`, an angle of at most about pi / 2."""
    fma = x.code.fma
    x.code.flagged.append(abs(x).is_("ogt", FARTHEST))
    d = x
    for part in _PI:
        d = fma(turns, -part, d)
    s = d * d
    return _signed_as(fma(_polynomial(s, _SINE) * s, d, d), d)


def sin(x: Value) -> Value:
    """Sine; the sign turns with every half turn."""
    turns, bits = _whole(x, 1 / math.pi)
    return (_sine_of(x, turns).bits ^ (bits << 63)).as_double


def cos(x: Value) -> Value:
    """Cosine: minus the sine, half a turn on."""
    turns, bits = _whole(x, 1 / math.pi, -0.5)
    return (_sine_of(x, turns + 0.5).bits ^ ((bits + 1) << 63)).as_double


def _two_to(k: Value) -> Value:
    """2**k for an integer k from -1022 to 1023, by the exponent bits."""
    return ((k + (MAGIC + 1023)).bits << 52).as_double


def _scaled(x: Value, k: Value) -> Value:
    """x * 2**k for a k of up to twice the exponents there are."""
    half, _ = _whole(k, 0.5)
    return x * _two_to(half) * _two_to(k - half)


def _between(x: Value, low: float, high: float) -> Value:
    """x clipped to these bounds; NaN stays NaN."""
    choose = x.code.choose
    x = choose(x.is_("ogt", high), x.like(high), x)
    return choose(x.is_("olt", low), x.like(low), x)


def _exp_parts(x: Value) -> tuple[Value, Value]:
    """(k, e) where exp(x) is 2**k * (1 + e) and e is from -0.3 to 0.42."""
    fma = x.code.fma
    k, _ = _whole(x, 1 / math.log(2))
    high = fma(k, -_LN2_HIGH, x)  # exact
    r = fma(k, -_LN2_LOW, high)
    low = fma(k, -_LN2_LOW, high - r)  # rounding error of r
    return k, r + fma(r * r, _polynomial(r, _POWER), low)


def exp(x: Value) -> Value:
    """e**x."""
    k, e = _exp_parts(_between(x, -746.0, 710.0))
    return _scaled(1.0 + e, k)


def expm1(x: Value) -> Value:
    """e**x - 1, also near 0."""
    k, e = _exp_parts(_between(x, -60.0, 710.0))
    half, _ = _whole(k, 0.5)
    one = _two_to(half)  # 2**k as a product: it may exceed the largest number
    rest = x.code.fma(e, one, one - _two_to(half - k)) * _two_to(k - half)
    return x.code.choose(x.is_("oeq", 0.0), x, rest)


def _log_of(x: Value, correction: Value | None = None) -> Value:
    """The logarithm of a finite number above 0, with `correction` added to the logarithm of its fraction."""
    code, fma = x.code, x.code.fma
    tiny = x.is_("olt", 2.0**-1022)
    bits = code.choose(tiny, x * 2.0**54, x).bits
    moved = bits - 0x3FE6A09E00000000  # 1 / sqrt(2)
    k = ((moved + (2048 << 52)) >> 52 | 0x4330000000000000).as_double - (2.0**52 + 2048)
    z = (bits - (moved & -(1 << 52))).as_double
    k = code.choose(tiny, k - 54.0, k)
    f = z - 1.0
    s = f / (f + 2.0)
    square = s * s
    half = f * f * 0.5
    low = k * _LN2_LOW if correction is None else fma(k, _LN2_LOW, correction)
    inner = fma(s, fma(_polynomial(square, _LOG), square, half), low)
    return fma(k, _LN2_HIGH, f - (half - inner))


def log(x: Value) -> Value:
    """Natural logarithm: NaN below 0, minus infinity at 0."""
    choose = x.code.choose
    value = choose(x.is_("oeq", 0.0), x.like(-math.inf), _log_of(x))
    value = choose(x.is_("olt", 0.0), x.like(math.nan), value)
    return choose(x.is_("oeq", math.inf) | x.is_("uno", x), x, value)


def log1p(x: Value) -> Value:
    """log(1 + x), also near 0."""
    choose = x.code.choose
    u = x + 1.0
    lost = choose(x.is_("oge", 1.0), 1.0 - (u - x), x - (u - 1.0)) / u
    value = _log_of(u, lost)
    value = choose(abs(x).is_("olt", 2.0**-54), x, value)
    value = choose(x.is_("oeq", -1.0), x.like(-math.inf), value)
    value = choose(x.is_("olt", -1.0), x.like(math.nan), value)
    return choose(x.is_("oeq", math.inf) | x.is_("uno", x), x, value)


def tanh(x: Value) -> Value:
    """Hyperbolic tangent."""
    e = expm1(_between(abs(x), 0.0, 20.0) * 2.0)
    return _signed_as(e / (e + 2.0), x)


def sinh(x: Value) -> Value:
    """Hyperbolic sine."""
    size = abs(x)
    far = size.is_("ogt", 700.0)
    e = expm1(x.code.choose(far, size * 0.5, size))
    near = (e + e / (e + 1.0)) * 0.5
    return _signed_as(x.code.choose(far, e * 0.5 * e, near), x)


def cosh(x: Value) -> Value:
    """Hyperbolic cosine."""
    size = abs(x)
    far = size.is_("ogt", 700.0)
    e = exp(x.code.choose(far, size * 0.5, size))
    return x.code.choose(far, e * 0.5 * e, (e + 1.0 / e) * 0.5)


def arctan(x: Value) -> Value:
    """Inverse tangent, by that of (a - c) / (1 + a c) for the nearest of five angles."""
    choose, size = x.code.choose, abs(x)
    steps = ((7 / 16, 0.5), (11 / 16, 1.0), (19 / 16, 1.5))
    above, below, high, low = size, x.like(1.0), x.like(0.0), x.like(0.0)
    lows = (2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17)
    for (start, c), lost in zip(steps, lows):
        here = size.is_("oge", start)
        above, below = choose(here, size - c, above), choose(here, x.code.fma(size, c, 1.0), below)
        high, low = choose(here, x.like(math.atan(c)), high), choose(here, x.like(lost), low)
    far = size.is_("oge", 39 / 16)
    above, below = choose(far, x.like(-1.0), above), choose(far, size, below)
    high, low = choose(far, x.like(math.pi / 2), high), choose(far, x.like(6.12323399573676603587e-17), low)
    t = above / below
    s = t * t
    value = high - (x.code.fma(t * s, _polynomial(s, _ATAN), -low) - t)
    return _signed_as(choose(size.is_("uno", size), size, value), x)


_KINDS = {"f8": "double", "f4": "float", "b1": "i1"} | {f"{s}{n}": f"i{8 * n}" for s in "iu" for n in (1, 2, 4, 8)}
_BITS = {"double": "i64", "float": "i32"}


def kind_of(dtype: np.dtype[Any]) -> str | None:
    """LLVM's type for an element, or None where no type computes as NumPy does."""
    return _KINDS.get(dtype.str[1:]) if dtype.isnative else None


class Code:
    """Instructions of a function that computes `lanes` elements at a time."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.flagged: list[Value] = []  # lanes out of a formula's range
        self._known: dict[tuple[str, str], Value] = {}

    def type(self, kind: str) -> str:
        """A vector of `kind`."""
        return f"<{self.lanes} x {kind}>"

    def write(self, text: str, kind: str) -> Value:
        """Append an instruction that gives a value; an equal instruction is written only once."""
        known = self._known.get((text, kind))
        if known is None:
            known = self._known[text, kind] = Value(self, f"%v{len(self._known)}", kind)
            self.lines.append(f"{known.name} = {text}")
        return known

    def constant(self, value: Any, kind: str) -> Value:
        """The same number in every lane."""
        if kind in _BITS:
            one = f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
        elif kind == "i1":
            one = str(bool(value)).lower()
        else:
            one = str(int(value))
        return Value(self, f"<{', '.join([f'{kind} {one}'] * self.lanes)}>", kind)

    def call(self, name: str, *args: Value) -> Value:
        """Call an LLVM function on vectors: `name` without types; the result has the type of the first argument."""
        kind, kinds = args[0].kind, [arg.kind for arg in args]
        short = {"double": "f64", "float": "f32"}
        full = f"@llvm.{name}.v{self.lanes}{short.get(kind, kind)}"
        flags = [", i1 false"] if name == "abs" and kind not in short else []  # the least integer stays itself
        self.declared.add(f"declare {self.type(kind)} {full}({', '.join(map(self.type, kinds))}{', i1' * len(flags)})")
        return self.write(
            f"call {self.type(kind)} {full}({', '.join(arg.typed for arg in args)}{''.join(flags)})", kind
        )

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """`a * b + c`, rounded once."""
        return self.call("fma", a, a.like(b), a.like(c))

    def choose(self, condition: Value, a: Value, b: Value | float) -> Value:
        """Lanes of `a` where the condition holds, of `b` elsewhere."""
        return self.write(f"select {condition.typed}, {a.typed}, {a.like(b).typed}", a.kind)

    def convert(self, how: str, value: Value, kind: str) -> Value:
        """Convert a value by an LLVM conversion instruction."""
        return self.write(f"{how} {value.typed} to {self.type(kind)}", kind)


@dataclass(frozen=True, eq=False)
class Value:
    """A vector of lanes; arithmetic with a Python number makes a constant of the number."""

    code: Code
    name: str
    kind: str

    @property
    def typed(self) -> str:
        """The value with its type, as instructions spell an operand."""
        return f"{self.code.type(self.kind)} {self.name}"

    @property
    def is_float(self) -> bool:
        """Whether the lanes are floating point."""
        return self.kind in _BITS

    def like(self, other: Value | float) -> Value:
        """`other` as a value of the same type."""
        return other if isinstance(other, Value) else self.code.constant(other, self.kind)

    def then(self, how: str, other: Value | float) -> Value:
        """Append an LLVM instruction of two operands of equal type."""
        return self.code.write(f"{how} {self.typed}, {self.like(other).name}", self.kind)

    def is_(self, how: str, other: Value | float) -> Value:
        """Compare lane by lane, by LLVM's name of the comparison."""
        instruction = "fcmp" if self.is_float else "icmp"
        return self.code.write(f"{instruction} {how} {self.typed}, {self.like(other).name}", "i1")

    def __add__(self, other: Value | float) -> Value:
        return self.then("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self.then("fsub" if self.is_float else "sub", other)

    def __rsub__(self, other: float) -> Value:
        return self.like(other) - self

    def __mul__(self, other: Value | float) -> Value:
        return self.then("fmul" if self.is_float else "mul", other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Value | float) -> Value:
        return self.then("fdiv", other)

    def __rtruediv__(self, other: float) -> Value:
        return self.like(other) / self

    def __neg__(self) -> Value:
        return self.code.write(f"fneg {self.typed}", self.kind) if self.is_float else self.like(0) - self

    def __abs__(self) -> Value:
        return self.code.call("fabs" if self.is_float else "abs", self)

    def __and__(self, other: Value | int) -> Value:
        return self.then("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self.then("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self.then("xor", other)

    def __lshift__(self, by: int) -> Value:
        return self.then("shl", by)

    def __rshift__(self, by: int) -> Value:
        """Zeros come in from above."""
        return self.then("lshr", by)

    @property
    def bits(self) -> Value:
        """A floating point number's bits."""
        return self.code.convert("bitcast", self, _BITS[self.kind])

    @property
    def as_double(self) -> Value:
        """Bits as the number that they are of."""
        return self.code.convert("bitcast", self, "double")


DType = np.dtype[Any]
_BOOL = np.dtype("?")


def _compared(how: str, a: Value, b: Value, dtype: DType) -> Value:
    if a.is_float:
        return a.is_(f"{'u' if how == 'ne' else 'o'}{how}", b)
    sign = "" if how in ("eq", "ne") else "s" if dtype.kind == "i" else "u"
    return a.is_(sign + how, b)


def _larger(a: Value, b: Value, dtype: DType) -> Value:
    """`maximum`: of two zeros the second, NaN before all."""
    if not a.is_float:
        return a.code.choose(_compared("gt", a, b, dtype), a, b)
    return a.code.choose(a.is_("ogt", b) | a.is_("uno", a), a, b)


def _smaller(a: Value, b: Value, dtype: DType) -> Value:
    if not a.is_float:
        return a.code.choose(_compared("lt", a, b, dtype), a, b)
    return a.code.choose(a.is_("olt", b) | a.is_("uno", a), a, b)


def _sign(a: Value, dtype: DType) -> Value:
    if dtype.kind == "f":
        one = a.code.choose(a.is_("ogt", 0.0), a.like(1.0), a.like(0.0))
        one = a.code.choose(a.is_("olt", 0.0), a.like(-1.0), one)
        return a.code.choose(a.is_("uno", a), a, one)
    one = a.code.choose(a.is_("ne", 0), a.like(1), a.like(0))
    return a.code.choose(a.is_("slt", 0), a.like(-1), one) if dtype.kind == "i" else one


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


def truth(a: Value) -> Value:
    """Whether a value is not zero."""
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
        return truth(a)
    if old.kind == "f" and new.kind == "f":
        return a.code.convert("fpext" if new.itemsize > old.itemsize else "fptrunc", a, kind)
    if new.kind == "f":
        return a.code.convert("sitofp" if old.kind == "i" else "uitofp", a, kind)
    if old.kind == "f":
        return None
    if old == _BOOL or new.itemsize > old.itemsize:
        return a.code.convert("sext" if old.kind == "i" else "zext", a, kind)
    return a.code.convert("trunc", a, kind)


MachineCode = Callable[..., Value]
_INFINITY = "jm_f8(0x7ff0000000000000ull)"


class Op(NamedTuple):
    """What is known of an elementwise operation. Times are ns an element of float64 on one thread."""

    others: tuple[str, ...] = ()  # other names of NumPy's function
    sign: str = ""  # Python's sign of an operation on two values
    dunder: str = ""  # Python's method of the operator: "add" for `__add__`
    reduction: str = ""  # NumPy's function that reduces by the operation
    llvm: tuple[str, MachineCode] | None = None  # dtype kinds of loops; function of the values and the loop's dtype
    ulps: float = 0.0  # bound of the error of machine code; 0 for NumPy's bits
    saved: float = 0.15  # ns that machine code saves in cache: the value is neither written nor read again
    cuda: Mapping[str, str] = MappingProxyType({})  # C++ text by dtype kinds (cuda_text.py)
    close: tuple[str, int, int] | None = None  # CUDA's function near NumPy's values; its ULPs, float64 and float32
    numexpr: tuple[str, str] | None = None  # dtype kinds of the values, text
    in_cache: tuple[float, float] = (0.0, math.inf)  # ns by NumPy and by numexpr
    ns: float = 0.3  # ns by NumPy beside the time of moving bytes, while all cores work

    @property
    def python(self) -> Callable[[Any, Any], Any]:
        """Python's operator, as `operator.add`."""
        return getattr(operator, f"__{self.dunder}__")  # type: ignore[no-any-return]

    @property
    def compares(self) -> bool:
        """Whether it is a comparison of two values."""
        return self.sign in ("<", "<=", ">", ">=", "==", "!=")


def _comparison(sign: str, dunder: str, for_complex: str = "") -> Op:
    return Op(
        sign=sign,
        dunder=dunder,
        llvm=("biuf", lambda a, b, dtype: _compared(dunder, a, b, dtype)),
        cuda={"biuf": f"({{0}} {sign} {{1}})", "c": for_complex},
        numexpr=("if", f"({{0}} {sign} {{1}})"),
        in_cache=(0.09, 0.39),
    )


def _bitwise(sign: str, dunder: str) -> Op:
    return Op(
        sign=sign,
        dunder=dunder,
        llvm=("biu", lambda a, b, _: a.then(dunder, b)),
        cuda={"biu": f"({{T}})({{0}} {sign} {{1}})"},
        numexpr=("b", f"({{0}} {sign} {{1}})"),
        in_cache=(0.05, 0.25),
    )


def _in_double(formula: Callable[[Value], Value]) -> MachineCode:
    """A formula; float32 is computed as float64 and rounded, so the error is hardly more than half a unit."""

    def computed(a: Value, _: DType) -> Value:
        if a.kind == "double":
            return formula(a)
        return a.code.convert("fptrunc", formula(a.code.convert("fpext", a, "double")), a.kind)

    return computed


def _called(name: str) -> MachineCode:
    """Machine code that calls an LLVM function."""
    return lambda a, *more: a.code.call(name, a, *more[:-1])


_WRAPS = "jm_{op}<{T}, {U}>({args})"
_HELPER = "jm_{op}({args})"
_SAME = "{op}({args})"  # C++'s function has the name of NumPy's

# Measured on AMD EPYC (AVX-512), numpy 2.4.6, numexpr 2.14.2, llvmlite 0.50
OPS: dict[str, Op] = {
    "absolute": Op(("abs",), dunder="abs", llvm=("iuf", lambda a, dtype: a if dtype.kind == "u" else abs(a)),
                   cuda={"f": "fabs({0})", "i": _WRAPS, "bu": "{0}", "c": "hypot(({0}).re, ({0}).im)"},
                   numexpr=("f", "abs({0})"), in_cache=(0.14, 1.25)),
    "add": Op((), "+", "add", "sum", llvm=("iuf", lambda a, b, _: a + b),
              cuda={"fc": "{0} + {1}", "iu": _WRAPS, "b": "({p} || {q})"},
              numexpr=("if", "({0} + {1})"), in_cache=(0.13, 0.35)),
    "arccos": Op(("acos",), close=("acos", 2, 2), ns=15),
    "arccosh": Op(("acosh",), close=("acosh", 3, 4), ns=15),
    "arcsin": Op(("asin",), close=("asin", 2, 2), ns=15),
    "arcsinh": Op(("asinh",), close=("asinh", 3, 3), ns=15),
    "arctan": Op(("atan",), llvm=("f", _in_double(arctan)), ulps=1.0, saved=0.0, close=("atan", 2, 2), ns=12),
    "arctan2": Op(("atan2",), close=("atan2", 2, 3), ns=20),
    "arctanh": Op(("atanh",), close=("atanh", 2, 3), ns=15),
    "bitwise_and": _bitwise("&", "and"),
    "bitwise_count": Op(),
    "bitwise_or": _bitwise("|", "or"),
    "bitwise_xor": _bitwise("^", "xor"),
    "cbrt": Op(close=("cbrt", 1, 1), ns=15),
    "ceil": Op(llvm=("f", _called("ceil")), cuda={"f": _SAME, "biu": "{0}"}),
    "conjugate": Op(("conj",), llvm=("iuf", lambda a, _: a)),
    "copysign": Op(llvm=("f", _called("copysign")), saved=0.4, cuda={"f": _SAME}),
    "cos": Op(llvm=("f", _in_double(cos)), ulps=2.6, saved=8.0, close=("cos", 2, 2), ns=16),
    "cosh": Op(llvm=("f", _in_double(cosh)), ulps=2.5, saved=0.0, close=("cosh", 1, 2), ns=6),
    "deg2rad": Op(),
    "degrees": Op(),
    "divide": Op(("true_divide",), "/", "truediv", llvm=("f", lambda a, b, _: a / b),
                 cuda={"f": "{0} / {1}", "c": "jm_divide_complex({args})"},
                 numexpr=("f", "({0} / {1})"), in_cache=(0.26, 0.54), ns=0.8),
    "divmod": Op(ns=6),
    "equal": _comparison("==", "eq", "(({0}).re == ({1}).re && ({0}).im == ({1}).im)"),
    "exp": Op(llvm=("f", _in_double(exp)), ulps=1.0, saved=0.0, close=("exp", 1, 2), ns=1),
    "exp2": Op(close=("exp2", 1, 2), ns=1),
    "expm1": Op(llvm=("f", _in_double(expm1)), ulps=2.0, saved=0.0, close=("expm1", 1, 1), ns=5),
    "fabs": Op(llvm=("f", _called("fabs")), cuda={"f": _SAME}, numexpr=("f", "abs({0})")),
    "float_power": Op(close=("pow", 2, 4), ns=8),
    "floor": Op(llvm=("f", _called("floor")), cuda={"f": _SAME, "biu": "{0}"}),
    "floor_divide": Op((), "//", "floordiv", cuda={"f": _HELPER, "iu": "jm_int_{op}<{T}, {U}>({args})"}, ns=6),
    "fmax": Op(cuda={"biuf": _HELPER}),
    "fmin": Op(cuda={"biuf": _HELPER}),
    "fmod": Op(cuda={"f": _SAME, "iu": "jm_int_{op}<{T}, {U}>({args})"}, ns=6),
    "frexp": Op(),
    "gcd": Op(ns=9),
    "greater": _comparison(">", "gt"),
    "greater_equal": _comparison(">=", "ge"),
    "heaviside": Op(llvm=("f", _heaviside), saved=0.5, cuda={"biuf": _HELPER}),
    "hypot": Op(close=("hypot", 2, 3), ns=5),
    "invert": Op(("bitwise_not", "bitwise_invert"), dunder="invert",
                 llvm=("biu", lambda a, _: a ^ (True if a.kind == "i1" else -1)),
                 cuda={"iu": "({T})~{0}", "b": "!{0}"}, numexpr=("b", "(~{0})"), in_cache=(0.05, 0.25)),
    "isfinite": Op(llvm=("biuf", lambda a, _: abs(a).is_("olt", math.inf) if a.is_float else _never(a) ^ True),
                   cuda={"f": f"(fabs({{0}}) < {_INFINITY})", "biu": "true",
                         "c": f"(fabs(({{0}}).re) < {_INFINITY} && fabs(({{0}}).im) < {_INFINITY})"}),
    "isinf": Op(llvm=("biuf", lambda a, _: abs(a).is_("oeq", math.inf) if a.is_float else _never(a)),
                cuda={"f": f"(fabs({{0}}) == {_INFINITY})", "biu": "false",
                      "c": f"(fabs(({{0}}).re) == {_INFINITY} || fabs(({{0}}).im) == {_INFINITY})"}),
    "isnan": Op(llvm=("biuf", lambda a, _: a.is_("uno", a) if a.is_float else _never(a)),
                cuda={"f": "({0} != {0})", "biu": "false",
                      "c": "(({0}).re != ({0}).re || ({0}).im != ({0}).im)"}),
    "isnat": Op(),
    "lcm": Op(ns=12),
    "ldexp": Op(ns=3),
    "left_shift": Op(("bitwise_left_shift",), "<<", "lshift", llvm=("iu", _shifted("left")), cuda={"iu": _WRAPS}),
    "less": _comparison("<", "lt"),
    "less_equal": _comparison("<=", "le"),
    "log": Op(llvm=("f", _in_double(log)), ulps=1.0, saved=0.0, close=("log", 1, 1), ns=1),
    "log10": Op(close=("log10", 1, 2), ns=5),
    "log1p": Op(llvm=("f", _in_double(log1p)), ulps=1.0, saved=0.0, close=("log1p", 1, 1), ns=5),
    "log2": Op(close=("log2", 1, 1), ns=1),
    "logaddexp": Op(ns=13),
    "logaddexp2": Op(ns=13),
    "logical_and": Op(reduction="all", llvm=("biuf", lambda a, b, _: truth(a) & truth(b)), saved=0.5,
                      cuda={"biufc": "({p} && {q})"}, numexpr=("b", "({0} & {1})"), in_cache=(0.05, 0.25)),
    "logical_not": Op(llvm=("biuf", lambda a, _: truth(a) ^ True), saved=0.5,
                      cuda={"biufc": "!{p}"}, numexpr=("b", "(~{0})"), in_cache=(0.05, 0.25)),
    "logical_or": Op(reduction="any", llvm=("biuf", lambda a, b, _: truth(a) | truth(b)), saved=0.5,
                     cuda={"biufc": "({p} || {q})"}, numexpr=("b", "({0} | {1})"), in_cache=(0.05, 0.25)),
    "logical_xor": Op(llvm=("biuf", lambda a, b, _: truth(a) ^ truth(b)), saved=0.5,
                      cuda={"biufc": "({p} != {q})"}),
    "maximum": Op(reduction="max", llvm=("biuf", _larger), cuda={"biuf": _HELPER}),
    "minimum": Op(reduction="min", llvm=("biuf", _smaller), cuda={"biuf": _HELPER}),
    "modf": Op(),
    "multiply": Op((), "*", "mul", "prod", llvm=("iuf", lambda a, b, _: a * b),
                   cuda={"fc": "{0} * {1}", "iu": _WRAPS, "b": "({p} && {q})"},
                   numexpr=("if", "({0} * {1})"), in_cache=(0.14, 0.35)),
    "negative": Op(dunder="neg", llvm=("iuf", lambda a, _: -a),
                   cuda={"f": "-{0}", "iu": _WRAPS, "c": "{T}(-({0}).re, -({0}).im)"},
                   numexpr=("if", "(-{0})"), in_cache=(0.10, 0.24)),
    "nextafter": Op(cuda={"f": _SAME}, ns=6),
    "not_equal": _comparison("!=", "ne", "(({0}).re != ({1}).re || ({0}).im != ({1}).im)"),
    "positive": Op(dunder="pos", llvm=("iuf", lambda a, _: a)),
    "power": Op(("pow",), "**", "pow", close=("pow", 2, 4), ns=3),
    "rad2deg": Op(),
    "radians": Op(),
    "reciprocal": Op(llvm=("f", lambda a, _: 1.0 / a), saved=0.3,
                     cuda={"f": "({T})1 / {0}", "c": "jm_reciprocal_complex({0})"}),
    "remainder": Op(("mod",), "%", "mod", cuda={"f": _HELPER, "iu": "jm_int_{op}<{T}, {U}>({args})"}, ns=6),
    "right_shift": Op(("bitwise_right_shift",), ">>", "rshift", llvm=("iu", _shifted("right")), cuda={"iu": _WRAPS}),
    "rint": Op(llvm=("f", _called("roundeven")), cuda={"f": _SAME}),
    "sign": Op(llvm=("iuf", _sign), saved=0.4, cuda={"biuf": _HELPER}),
    "signbit": Op(llvm=("f", lambda a, _: a.bits.is_("slt", 0)), cuda={"f": "(signbit({0}) != 0)"}),
    "sin": Op(llvm=("f", _in_double(sin)), ulps=2.6, saved=8.0, close=("sin", 2, 2), ns=16),
    "sinh": Op(llvm=("f", _in_double(sinh)), ulps=3.0, saved=0.0, close=("sinh", 2, 3), ns=6),
    "spacing": Op(),
    "sqrt": Op(llvm=("f", _called("sqrt")), saved=0.7, cuda={"f": _SAME},
               numexpr=("f", "sqrt({0})"), in_cache=(0.88, 1.80), ns=1.2),
    "square": Op(llvm=("iuf", lambda a, _: a * a),
                 cuda={"f": "{0} * {0}", "iu": "jm_multiply<{T}, {U}>({0}, {0})", "c": "({0}) * ({0})"},
                 numexpr=("if", "({0} * {0})"), in_cache=(0.13, 0.35)),
    "subtract": Op((), "-", "sub", llvm=("iuf", lambda a, b, _: a - b),
                   cuda={"fc": "{0} - {1}", "iu": _WRAPS}, numexpr=("if", "({0} - {1})"), in_cache=(0.13, 0.35)),
    "tan": Op(close=("tan", 2, 4), ns=20),
    "tanh": Op(llvm=("f", _in_double(tanh)), ulps=3.0, saved=0.0, close=("tanh", 1, 2), ns=2),
    "trunc": Op(llvm=("f", _called("trunc")), cuda={"f": _SAME, "biu": "{0}"}),
    "where": Op(saved=0.4, in_cache=(0.52, 0.32)),
}  # fmt: skip
UFUNCS = {name: op for name, op in OPS.items() if name != "where"}
REDUCTIONS = {name: op.reduction for name, op in OPS.items() if op.reduction}
_OTHER = Op()


def facts(op: str) -> Op:
    """What is known of the operation of a node, as "add" or "modf.1"; of one without a row, the defaults."""
    name, _, output = op.partition(".")
    return OPS.get(name if output.isdecimal() else op, _OTHER)  # "log.f" is a ufunc of a module named log


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
    return all(facts(node.op).ulps == 0 for node in expression.nodes)
