/* State of a simulated run, and its allocation. */
#ifndef JM_RUN_H
#define JM_RUN_H

#include "ports.h"
#include "store.h"

enum { FINISHED, PORT_FREE, ARRIVED }; /* events; events of the same time happen in this order */
enum { WAITS, READY, RUNS, IS_DONE };

typedef struct {
    double time;
    i64 kind, count, a, b, c;
} Event;

static inline int event_before(const Event *x, const Event *y)
{
    if (x->time != y->time)
        return x->time < y->time;
    return x->kind < y->kind || (x->kind == y->kind && x->count < y->count);
}
HEAP(Events, Event, event_before)
HEAP(Ready, Pair, pair_before) /* (rank, operand) */

typedef struct {
    int32_t worker, away; /* -1: none; inputs that are not at the worker */
    int32_t origin;       /* worker that made the chunk */
    int32_t unread, open; /* readers that are not done; readers without worker */
} Operand;

typedef struct {
    i64 n, p, words, events_made, moved, done;
    const i64 *pred_ptr, *pred, *succ_ptr, *succ, *size, *work, *rank, *cores;
    const uint8_t *keep;
    const double *cost, *speed, *bandwidth;
    double latency, now, over;
    Operand *operands;
    uint8_t *state;
    i64 *slot_ptr, *slot_of_input; /* slots of each chunk; slot of each input at its reader's worker */
    u64 *kin, *held;               /* bits per chunk: workers with a slot, holders */
    Stores stores;
    Ports ports;
    Ready *ready;
    u64 *may_launch; /* workers with a free core and ready operands */
    i64 *free, *sent;
    Events events;
    double *busy, *start, *end;
    i64 *wrong; /* the misfit: operand, worker, bytes */
    int failed;
} Run;

static inline i64 slot_of(const Run *run, i64 chunk, i64 w)
{
    const u64 *kin = run->kin + chunk * run->words;
    i64 slot = run->slot_ptr[chunk];
    for (i64 j = 0; j < w >> 6; j++)
        slot += __builtin_popcountll(kin[j]);
    return slot + __builtin_popcountll(kin[w >> 6] & (((u64)1 << (w & 63)) - 1));
}

static inline u64 *held(const Run *run, i64 chunk) { return run->held + chunk * run->words; }

/* Makes the slots: a slot for each chunk at its own worker and at the workers of its readers. */
static void lay_out(Run *run, Arena *arena, const i64 *assign, const i64 *home, const i64 *order)
{
    i64 n = run->n, m = run->pred_ptr[n], words = run->words;
    run->kin = TAKE(arena, u64, n * words);
    run->held = TAKE(arena, u64, n * words);
    run->slot_ptr = TAKE(arena, i64, n + 1);
    run->slot_of_input = TAKE(arena, i64, m);
    if (arena->failed)
        return;
    for (i64 v = 0; v < n; v++) {
        Operand *operand = &run->operands[v];
        operand->worker = home[v] < 0 ? (int32_t)assign[v] : -1;
        operand->origin = -1;
        operand->open = operand->unread = (int32_t)(run->succ_ptr[v + 1] - run->succ_ptr[v]);
        i64 w = home[v] < 0 ? assign[v] : home[v];
        if (w >= 0)
            set(run->kin + v * words, w);
        if (operand->worker >= 0)
            for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++)
                set(run->kin + run->pred[e] * words, w);
    }
    for (i64 v = 0; v < n; v++) {
        run->slot_ptr[v + 1] = run->slot_ptr[v];
        for (i64 j = 0; j < words; j++)
            run->slot_ptr[v + 1] += __builtin_popcountll(run->kin[v * words + j]);
    }
    Stores *stores = &run->stores;
    stores->slots = TAKE(arena, Slot, run->slot_ptr[n] + 1);
    stores->chunk_of = TAKE(arena, i64, run->slot_ptr[n]);
    stores->readers = TAKE(arena, i64, m);
    if (arena->failed)
        return;
    for (i64 v = 0; v < n; v++) {
        for (i64 slot = run->slot_ptr[v]; slot < run->slot_ptr[v + 1]; slot++)
            stores->chunk_of[slot] = v;
        if (run->operands[v].worker >= 0)
            for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++) {
                run->slot_of_input[e] = slot_of(run, run->pred[e], run->operands[v].worker);
                stores->slots[run->slot_of_input[e]].local++;
            }
    }
    int32_t at = 0;
    for (i64 slot = 0; slot <= run->slot_ptr[n]; slot++) {
        stores->slots[slot].readers = stores->slots[slot].next = at;
        at += stores->slots[slot].local;
    }
    for (i64 k = 0; k < n; k++) /* by rank, so that the readers of a slot are in order of rank */
        if (run->operands[order[k]].worker >= 0)
            for (i64 e = run->pred_ptr[order[k]]; e < run->pred_ptr[order[k] + 1]; e++)
                stores->readers[stores->slots[run->slot_of_input[e]].next++] = order[k];
    for (i64 slot = 0; slot < run->slot_ptr[n]; slot++)
        stores->slots[slot].next = stores->slots[slot].readers;
}

#endif
