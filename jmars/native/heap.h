/* Binary heaps of structs, a type for each item: HEAP(Line, Item, before) makes `Line`, `Line_push`, `Line_pop`.
 *
 * `before(a, b)` must be a total order, so that the order of items does not depend on the heap's layout and equals the
 * order of Python's `heapq` with tuples.
 */
#ifndef JM_HEAP_H
#define JM_HEAP_H

#include "common.h"

#define HEAP(Name, Item, before)                                                                                       \
    typedef struct {                                                                                                   \
        Item *items;                                                                                                   \
        i64 count, room;                                                                                               \
    } Name;                                                                                                            \
    /* 0, or JM_NO_MEMORY */                                                                                           \
    static inline int Name##_push(Name *heap, Item item)                                                               \
    {                                                                                                                  \
        if (heap->count == heap->room) {                                                                               \
            i64 room = heap->room ? heap->room * 2 : 16;                                                               \
            Item *items = realloc(heap->items, (size_t)room * sizeof(Item));                                           \
            if (!items)                                                                                                \
                return JM_NO_MEMORY;                                                                                   \
            heap->items = items;                                                                                       \
            heap->room = room;                                                                                         \
        }                                                                                                              \
        Item *items = heap->items;                                                                                     \
        i64 at = heap->count++;                                                                                        \
        while (at > 0) {                                                                                               \
            i64 above = (at - 1) / 2;                                                                                  \
            if (!before(&item, &items[above]))                                                                         \
                break;                                                                                                 \
            items[at] = items[above];                                                                                  \
            at = above;                                                                                                \
        }                                                                                                              \
        items[at] = item;                                                                                              \
        return JM_DONE;                                                                                                \
    }                                                                                                                  \
    static inline Item Name##_pop(Name *heap)                                                                          \
    {                                                                                                                  \
        Item *items = heap->items, first = items[0], last = items[--heap->count];                                      \
        i64 at = 0, n = heap->count;                                                                                   \
        for (;;) {                                                                                                     \
            i64 below = 2 * at + 1;                                                                                    \
            if (below >= n)                                                                                            \
                break;                                                                                                 \
            if (below + 1 < n && before(&items[below + 1], &items[below]))                                             \
                below++;                                                                                               \
            if (!before(&items[below], &last))                                                                         \
                break;                                                                                                 \
            items[at] = items[below];                                                                                  \
            at = below;                                                                                                \
        }                                                                                                              \
        items[at] = last;                                                                                              \
        return first;                                                                                                  \
    }

/* Two numbers compared lexicographically, the item of most heaps and sorts. */
typedef struct {
    i64 a, b;
} Pair;

static inline int pair_before(const Pair *x, const Pair *y) { return x->a < y->a || (x->a == y->a && x->b < y->b); }

static inline int pair_compare(const void *x, const void *y)
{
    return pair_before(x, y) ? -1 : pair_before(y, x);
}

/* Sorts ascending; short rows by insertion. */
static inline void sort_pairs(Pair *pairs, i64 count)
{
    if (count > 24) {
        qsort(pairs, (size_t)count, sizeof(Pair), pair_compare);
        return;
    }
    for (i64 i = 1; i < count; i++) {
        Pair pair = pairs[i];
        i64 at = i;
        for (; at > 0 && pair_before(&pair, &pairs[at - 1]); at--)
            pairs[at] = pairs[at - 1];
        pairs[at] = pair;
    }
}

#endif
