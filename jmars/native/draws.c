/* Generates doubles of a PCG64 sequence, NumPy's bits, four at a time; for tensor/ops/random_streams.py.
 *
 * A number costs a 128-bit multiplication, which waits for the previous one. Four generators a step apart that go four
 * steps at a time do not wait for each other. Numbers between two runs of elements are skipped by a jump of as many
 * steps as the length of the gap has bits.
 * Source: O'Neill 2014 (PCG XSL RR 128/64); Brown 1994 (jumping ahead); NumPy's pcg64.h, for the multiplier.
 */
#include "common.h"

#if defined(__SIZEOF_INT128__)
typedef unsigned __int128 u128;

#define WIDE(high, low) ((u128)(high) << 64 | (low))
static const u64 HIGH = 0x2360ED051FC65DA4u, LOW = 0x4385DF649FCCF645u;

static inline __attribute__((always_inline)) double number(u128 state)
{
    u64 mixed = (u64)(state >> 64) ^ (u64)state;
    unsigned turn = (unsigned)(state >> 122);
    mixed = mixed >> turn | mixed << (-turn & 63);
    return (double)(i64)(mixed >> 11) * 0x1p-53;
}

/* Coefficients of a jump: state * *times + *plus is the state `steps` later. */
static void jump(u64 steps, u128 add, u128 *times, u128 *plus)
{
    u128 a = WIDE(HIGH, LOW), b = add;
    *times = 1;
    *plus = 0;
    for (; steps; steps >>= 1) {
        if (steps & 1) {
            *times *= a;
            *plus = *plus * a + b;
        }
        b *= a + 1;
        a *= a;
    }
}

static u128 run_of(u128 state, u128 add, const u128 times[4], const u128 plus[4], i64 count, double *out)
{
    i64 k = 0;
    if (count >= 4) {
        u128 a = state * times[0] + plus[0], b = state * times[1] + plus[1];
        u128 c = state * times[2] + plus[2], d = state * times[3] + plus[3];
        for (;; k += 4) {
            out[k] = number(a);
            out[k + 1] = number(b);
            out[k + 2] = number(c);
            out[k + 3] = number(d);
            if (k + 8 > count) {
                state = d;
                k += 4;
                break;
            }
            a = a * times[3] + plus[3];
            b = b * times[3] + plus[3];
            c = c * times[3] + plus[3];
            d = d * times[3] + plus[3];
        }
    }
    for (; k < count; k++) {
        state = state * times[0] + add;
        out[k] = number(state);
    }
    return state;
}

/* Writes elements [start, start + count) in C order of a box of runs, as `open_doubles` does.
 *
 * generator: high and low half of the state before the first number, and of the increment. The box begins at number
 * `begin`: lengths[0] x ... x lengths[axes - 1] runs of `run`; the next run along axis k is strides[k] numbers later.
 */
EXPORT i64 jm_doubles(const u64 *generator, i64 begin, i64 start, i64 count, i64 run, i64 axes, const i64 *lengths,
                      const i64 *strides, double *out)
{
    u128 state = WIDE(generator[0], generator[1]), add = WIDE(generator[2], generator[3]), times[4], plus[4];
    i64 at = 0; /* numbers generated or skipped */
    for (int k = 0; k < 4; k++)
        jump((u64)k + 1, add, &times[k], &plus[k]);
    u128 far = 1, far_plus = 0;
    i64 known = 0; /* length of the jump `far`, which is mostly the same */
    while (count > 0) {
        i64 row = start / run, within = start % run, there = begin + within;
        i64 n = run - within < count ? run - within : count;
        for (i64 k = axes; k-- > 0; row /= lengths[k])
            there += row % lengths[k] * strides[k];
        if (there != at) {
            if (there - at != known) {
                known = there - at;
                jump((u64)known, add, &far, &far_plus);
            }
            state = state * far + far_plus;
        }
        state = run_of(state, add, times, plus, n, out);
        at = there + n;
        start += n;
        out += n;
        count -= n;
    }
    return JM_DONE;
}
/* Whether the compiler has 128-bit integers. */
EXPORT i64 jm_doubles_there(void) { return 1; }
#else
EXPORT i64 jm_doubles_there(void) { return 0; }

EXPORT i64 jm_doubles(const u64 *generator, i64 begin, i64 start, i64 count, i64 run, i64 axes, const i64 *lengths,
                      const i64 *strides, double *out)
{
    (void)generator, (void)begin, (void)start, (void)count, (void)run, (void)axes, (void)lengths, (void)strides, (void)out;
    return JM_REFUSED;
}
#endif
