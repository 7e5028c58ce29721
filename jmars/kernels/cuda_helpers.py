"""Functions of C++ that `cuda_text` calls: NumPy's operations where C++ has a different rule or none.

The texts define `jm_NAME`, templates over a type T (U is the unsigned type of the same size), with the qualifier JM of
the compiler: NVRTC for a GPU, or the tests for this machine.
Source: NumPy `_core/src/umath/loops*.src`, `npy_math_internal.h.src` (signs of remainders, NaN in extremes, shifts).
"""

from __future__ import annotations

__all__ = ["PRELUDE", "helper_text"]

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
    # beyond the width all bits have left; a negative count is beyond it
    "left_shift": (
        "template <class T, class U> JM T jm_left_shift(T a, T b) {\n"
        "  return (U)b < 8 * sizeof(T) ? (T)((U)a << (U)b) : (T)0;\n}"
    ),
    "right_shift": (
        "template <class T, class U> JM T jm_right_shift(T a, T b) {\n"
        "  return (U)b < 8 * sizeof(T) ? (T)(a >> b) : a < 0 ? (T)-1 : (T)0;\n}"
    ),
    # whole numbers wrap around, which signed numbers of C++ may not; those shorter than int are computed as int
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
    # by a constant: its reciprocal is r + rest, the first quotient is one of the two next to the exact one, and a
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
    # as processors of x86-64 do it: beyond the range the least number
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
