/* Shared by all kernels: names of types, an arena of temporary arrays, and return codes.
 *
 * Graphs come as compressed sparse rows of int64, as in `Dag`. A kernel reads and writes arrays; it keeps no
 * state between calls, prints no text and calls no callbacks. A kernel repeats a Python function to the last bit: the
 * order of floating-point operations is part of its contract, so operations must not be reassociated or fused.
 */
#ifndef JM_COMMON_H
#define JM_COMMON_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef uint64_t u64;

#define EXPORT __attribute__((visibility("default")))

enum { JM_DONE = 0, JM_NO_MEMORY = -1, JM_REFUSED = -2 /* the Python function raises the error */ };

/* Arrays that live for a call. */
typedef struct {
    void *taken[64];
    int count;
    int failed; /* 1 after an allocation failed; failed allocations are NULL */
} Arena;

/* Allocates zeroed memory; NULL, and sets `failed`, if there is none. */
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
