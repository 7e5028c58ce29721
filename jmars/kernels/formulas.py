"""Functions of float64 without branches, for vector units: sin, cos, exp, expm1, log, log1p, tanh and others.

A formula takes and gives lanes of doubles (code.py) and keeps NumPy's values for NaN, infinities, signed zeros,
overflow and subnormal numbers. `ULPS` bounds the error of each formula; tests check the bounds. Lanes outside the
domain of a formula (angles beyond 2**45, infinities) are added to `Code.flagged`; NumPy computes blocks with such
lanes.
Source: Cody and Waite 1980, "Software Manual for the Elementary Functions" (reduction in parts, each exact by fma);
fdlibm's published kernels for log and atan (`e_log.c`, `s_atan.c`); Taylor series for the others, for the sine
economised by Chebyshev polynomials (Lanczos 1938) over a quarter of a turn, to 3.5e-17 of the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jmars.kernels.code import Value

__all__ = ["FORMULAS", "ULPS"]

MAGIC = 1.5 * 2.0**52  # added to a small number it leaves the nearest whole one in the low bits
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
    low = fma(k, -_LN2_LOW, high - r)  # what r lost
    return k, r + fma(r * r, _polynomial(r, _POWER), low)


def exp(x: Value) -> Value:
    """e**x."""
    k, e = _exp_parts(_between(x, -746.0, 710.0))
    return _scaled(1.0 + e, k)


def expm1(x: Value) -> Value:
    """e**x - 1, also near 0."""
    k, e = _exp_parts(_between(x, -60.0, 710.0))
    half, _ = _whole(k, 0.5)
    one = _two_to(half)  # 2**k in two steps: it may be beyond the largest number
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


FORMULAS: dict[str, Callable[[Value], Value]] = {
    f.__name__: f for f in (sin, cos, exp, expm1, log, log1p, tanh, sinh, cosh, arctan)
}
# How far a value may be from the true one, in units of its last place; rounding alone gives 0.5
ULPS = {
    "sin": 2.6, "cos": 2.6, "exp": 1.0, "expm1": 2.0, "log": 1.0, "log1p": 1.0, "tanh": 3.0, "sinh": 3.0,
    "cosh": 2.5, "arctan": 1.0,
}  # fmt: skip
