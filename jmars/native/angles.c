/* Sine and cosine of doubles, several at a time where the processor multiplies and adds in one step; kernels/angles.py.
 *
 * An angle is brought to within an eighth of a turn of the nearest quarter, exactly up to 2**45, as a double and what it
 * lost. Two polynomials follow, one of which is taken. Every operation is rounded as written, so all processors that
 * have fused multiply-add give the same bits. Larger angles go to the C library, one by one.
 * Source: Cody and Waite, "Software Manual for the Elementary Functions" (reduction in parts); fdlibm's published
 * k_sin.c and k_cos.c (coefficients); Knuth, TAOCP 2, 4.2.2 (the exact error of a sum).
 */
#include "common.h"

#include <math.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define X86 1
#ifdef __clang__
#define WIDE "avx512f,avx512dq"
#else
#define WIDE "avx512f,avx512dq,prefer-vector-width=512"
#endif
#elif defined(__aarch64__)
#define ARM 1
#endif

enum { GROUP = 256 }; /* angles between looks for large ones */

#define INLINE static inline __attribute__((always_inline))
#define FUSED __builtin_fma
#define MAGIC 0x1.8p52   /* added to a small number it leaves the nearest whole one in the low bits */
#define FARTHEST 0x1p45  /* largest angle */
#define SIGN 0x8000000000000000u
#define QUARTER_1 0x1.921fb54442d18p+0 /* pi / 2 in three parts of 53 bits */
#define QUARTER_2 0x1.1a62633145c07p-54
#define QUARTER_3 (-0x1.f1976b7ed8fbcp-110)

INLINE u64 bits_of(double x)
{
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double double_of(u64 bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The sine of x, `ahead` quarters of a turn on. */
INLINE double wave(double x, u64 ahead)
{
    double near = FUSED(x, 0x1.45f306dc9c883p-1, MAGIC);
    u64 quarters = bits_of(near) + ahead;
    double n = near - MAGIC, rest = FUSED(n, -QUARTER_1, x);
    double part = n * QUARTER_2, part_low = FUSED(n, QUARTER_2, -part);
    double y = rest - part, back = y - rest;
    double low = FUSED(n, -QUARTER_3, ((rest - (y - back)) - (part + back)) - part_low);
    double z = y * y;

    double s = FUSED(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08);
    s = FUSED(s, z, 2.75573137070700676789e-06);
    s = FUSED(s, z, -1.98412698298579493134e-04);
    s = FUSED(s, z, 8.33333333332248946124e-03);
    s = FUSED(s, z, -1.66666666666666324348e-01);
    s = y + FUSED(z * y, s, low * FUSED(z, -0.5, 1.0));
    u64 sine = bits_of(s) | (bits_of(y) & SIGN); /* of -0.0 it is -0.0 */

    double c = FUSED(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09);
    c = FUSED(c, z, -2.75573143513906633035e-07);
    c = FUSED(c, z, 2.48015872894767294178e-05);
    c = FUSED(c, z, -1.38888888888741095749e-03);
    c = FUSED(c, z, 4.16666666666666019037e-02);
    double half = 0.5 * z, most = 1.0 - half;
    double lost = FUSED(y, -low, -0.5 * FUSED(y, y, -z));
    u64 cosine = bits_of(most + (((1.0 - most) - half) + FUSED(z * z, c, lost)));

    u64 odd = -(quarters & 1);
    return double_of(((cosine & odd) | (sine & ~odd)) ^ ((quarters & 2) << 62));
}

/* `out` may be `x`. */
INLINE void each(i64 count, const double *x, double *out, u64 ahead, double (*large)(double))
{
    double given[GROUP], made[GROUP];
    for (i64 start = 0; start < count; start += GROUP) {
        i64 m = count - start < GROUP ? count - start : GROUP, far = 0;
        memcpy(given, x + start, (size_t)m * sizeof *x);
        for (i64 i = 0; i < m; i++) {
            made[i] = wave(given[i], ahead);
            far |= __builtin_fabs(given[i]) > FARTHEST;
        }
        for (i64 i = 0; far && i < m; i++)
            if (__builtin_fabs(given[i]) > FARTHEST)
                made[i] = large(given[i]);
        memcpy(out + start, made, (size_t)m * sizeof *out);
    }
}

#ifdef X86
__attribute__((target(WIDE))) static void wide(i64 count, const double *x, double *out, i64 cosine)
{
    cosine ? each(count, x, out, 1, cos) : each(count, x, out, 0, sin);
}
#endif

#if defined(X86) || defined(ARM)
#ifdef X86
__attribute__((target("avx2,fma")))
#endif
static void narrow(i64 count, const double *x, double *out, i64 cosine)
{
    cosine ? each(count, x, out, 1, cos) : each(count, x, out, 0, sin);
}
#endif

/* How many at a time at most: 1 (`most`) or 2, as `jm_angles` takes it; 0 where the processor cannot. */
EXPORT i64 jm_angles_by(void)
{
#ifdef X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(ARM)
    return 1;
#else
    return 0;
#endif
}

/* Sines, or cosines, of `count` doubles; `by` is at most what `jm_angles_by` says. */
EXPORT i64 jm_angles(i64 by, i64 cosine, i64 count, const double *x, double *out)
{
#ifdef X86
    if (by == 2) {
        wide(count, x, out, cosine);
        return JM_DONE;
    }
#endif
#if defined(X86) || defined(ARM)
    if (by == 1) {
        narrow(count, x, out, cosine);
        return JM_DONE;
    }
#endif
    return JM_REFUSED;
}
