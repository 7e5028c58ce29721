/* What the kernels share: names of types, memory that is given back together, and what a call answers.
 *
 * Graphs come as compressed sparse rows of int64, as in `Dag`. A kernel takes arrays and writes arrays; it keeps nothing
 * between calls, prints nothing and calls nothing back. Each repeats a Python function to the last bit: the order of
 * floating-point operations is part of what it promises, so nothing here may be reassociated or fused.
 */
#ifndef JM_COMMON_H
#define JM_COMMON_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef uint64_t u64;

#define EXPORT __attribute__((visibility("default")))

enum { JM_DONE = 0, JM_NO_MEMORY = -1, JM_REFUSED = -2 /* Python knows what to say */ };

/* Arrays that live as long as one call. */
typedef struct {
    void *taken[64];
    int count;
    int failed; /* 1 once there was no memory; what was asked for then is NULL */
} Arena;

/* Zeroed memory; NULL, and `failed`, where there is none. */
static inline void *take(Arena *arena, i64 count, size_t size)
{
    void *got = arena->count < 64 ? calloc((size_t)(count > 0 ? count : 1), size) : NULL;
    if (!got)
        arena->failed = 1;
    else
        arena->taken[arena->count++] = got;
    return got;
}

#define TAKE(arena, type, count) ((type *)take(arena, count, sizeof(type)))

static inline void leave(Arena *arena)
{
    while (arena->count)
        free(arena->taken[--arena->count]);
}

static inline double larger(double a, double b) { return b > a ? b : a; }

#endif
