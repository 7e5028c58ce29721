/* Memory and disk of simulated workers. Repeats `SimMemory` of jmars/plan/simulation.py.
 *
 * A `Slot` is the state of a chunk at a worker; slots exist only for pairs that the run can use. Candidates for
 * spilling are kept in a heap, made at the first spill; an entry is valid while its slot has the same `used_at`, and
 * every change of the next use of a chunk also uses the chunk.
 */
#ifndef JM_STORE_H
#define JM_STORE_H

#include "heap.h"

enum { ABSENT, IN_MEMORY, ON_DISK };

typedef struct {
    i64 used_at;           /* count of uses over all workers: lower is longer ago */
    int32_t readers, next; /* first local reader by rank, and the first that has not started */
    int32_t local;         /* local readers that are not done */
    int32_t sending;       /* transfers from this worker that are not done */
    int32_t fast;          /* running operands that pin the chunk */
    uint8_t coming, lies;  /* requested and not received; ABSENT, IN_MEMORY, ON_DISK */
} Slot;

typedef struct {
    i64 next_use, used_at, slot;
} Victim;

static inline int victim_before(const Victim *x, const Victim *y)
{
    return x->next_use > y->next_use || (x->next_use == y->next_use && x->used_at < y->used_at);
}
HEAP(Victims, Victim, victim_before)

typedef struct {
    i64 capacity, fast_bytes, used, peak, spilled, reloaded;
    double disk, disk_free;
    Victims victims;
} Store;

/* State shared by all stores. */
typedef struct {
    Store *of; /* of each worker */
    Slot *slots;
    i64 *chunk_of;  /* chunk of each slot */
    i64 *readers;   /* rows of operands, by slot */
    const i64 *size, *rank;
    const uint8_t *started; /* state of each operand; 2 and more: runs, or is done */
    i64 uses, used;         /* a count, and bytes in all memories */
    int by_plan, is_placed, is_short, failed;
} Stores;

static inline i64 next_use(Stores *all, i64 slot)
{
    Slot *at = &all->slots[slot];
    if (!all->by_plan)
        return 0;
    if (!all->is_placed)
        return INT64_MAX;
    while (at->next < all->slots[slot + 1].readers && all->started[all->readers[at->next]] >= 2)
        at->next++;
    return at->next < all->slots[slot + 1].readers ? all->rank[all->readers[at->next]] : INT64_MAX;
}

static inline void may_leave(Stores *all, i64 w, i64 slot)
{
    const Slot *at = &all->slots[slot];
    if (all->is_short && at->lies == IN_MEMORY && !at->fast)
        all->failed |= Victims_push(&all->of[w].victims, (Victim){next_use(all, slot), at->used_at, slot});
}

static inline void grow(Stores *all, i64 w, i64 nbytes)
{
    Store *store = &all->of[w];
    store->used += nbytes;
    all->used += nbytes;
    if (store->used > store->peak)
        store->peak = store->used;
}

static inline void put(Stores *all, i64 w, i64 slot)
{
    all->slots[slot].lies = IN_MEMORY;
    all->slots[slot].used_at = all->uses++;
    grow(all, w, all->size[all->chunk_of[slot]]);
}

static inline void drop(Stores *all, i64 w, i64 slot)
{
    if (all->slots[slot].lies == IN_MEMORY) {
        all->of[w].used -= all->size[all->chunk_of[slot]];
        all->used -= all->size[all->chunk_of[slot]];
    }
    all->slots[slot].lies = ABSENT;
}

static inline void write_out(Stores *all, i64 w, i64 slot, double now)
{
    Store *store = &all->of[w];
    i64 size = all->size[all->chunk_of[slot]];
    all->slots[slot].lies = ON_DISK;
    store->spilled += size;
    store->disk_free = larger(store->disk_free, now) + (double)size / store->disk;
}

static inline double read_in(Stores *all, i64 w, i64 slot, double now)
{
    Store *store = &all->of[w];
    i64 size = all->size[all->chunk_of[slot]];
    store->disk_free = larger(store->disk_free, now) + (double)size / store->disk;
    store->reloaded += size;
    return store->disk_free;
}

static void all_may_leave(Stores *all, i64 p, i64 n, const i64 *slot_ptr, const u64 *kin, i64 words)
{
    all->is_short = 1;
    for (i64 w = 0; w < p; w++)
        all->of[w].victims.count = 0;
    for (i64 chunk = 0; chunk < n; chunk++) {
        i64 slot = slot_ptr[chunk];
        for (i64 j = 0; j < words; j++)
            for (u64 left = kin[chunk * words + j]; left; left &= left - 1)
                may_leave(all, j * 64 + __builtin_ctzll(left), slot++);
    }
}

static inline void hold(Stores *all, i64 w, i64 slot)
{
    if (!all->slots[slot].fast++)
        all->of[w].fast_bytes += all->size[all->chunk_of[slot]];
}

static inline void let_go(Stores *all, i64 w, i64 slot)
{
    if (--all->slots[slot].fast)
        return;
    all->of[w].fast_bytes -= all->size[all->chunk_of[slot]];
    may_leave(all, w, slot);
}

#endif
