/* Network of simulated workers. Repeats `SimNetwork` of jmars/plan/simulation.py. */
#ifndef JM_PORTS_H
#define JM_PORTS_H

#include "heap.h"

typedef struct {
    i64 urgency, asked, chunk;
} Transfer;

static inline int transfer_before(const Transfer *x, const Transfer *y)
{
    return x->urgency < y->urgency || (x->urgency == y->urgency && x->asked < y->asked);
}
HEAP(Line, Transfer, transfer_before)

typedef struct {
    i64 p, words, asked;
    Line *lines;           /* [target][source] */
    u64 *sources, *targets; /* bits per target, or source: ends of non-empty lines */
    u64 *out, *in;         /* bits of busy ends */
} Ports;

static inline int is_set(const u64 *bits, i64 k) { return (int)(bits[k >> 6] >> (k & 63) & 1); }
static inline void set(u64 *bits, i64 k) { bits[k >> 6] |= (u64)1 << (k & 63); }
static inline void unset(u64 *bits, i64 k) { bits[k >> 6] &= ~((u64)1 << (k & 63)); }

/* Queues a transfer; returns 1 if it may start now, or JM_NO_MEMORY. */
static inline int port_ask(Ports *ports, i64 urgency, i64 chunk, i64 source, i64 target)
{
    if (Line_push(&ports->lines[target * ports->p + source], (Transfer){urgency, ++ports->asked, chunk}))
        return JM_NO_MEMORY;
    set(ports->sources + target * ports->words, source);
    set(ports->targets + source * ports->words, target);
    return !is_set(ports->out, source) && !is_set(ports->in, target);
}

/* Starts the most urgent transfer between two free ends. */
static inline i64 port_start(Ports *ports, i64 source, i64 target)
{
    Line *line = &ports->lines[target * ports->p + source];
    i64 chunk = Line_pop(line).chunk;
    if (!line->count) {
        unset(ports->sources + target * ports->words, source);
        unset(ports->targets + source * ports->words, target);
    }
    set(ports->out, source);
    set(ports->in, target);
    return chunk;
}

/* Frees both ends; writes the pairs (source, target) to start next, at most two. */
static inline int port_end(Ports *ports, i64 source, i64 target, i64 next[2][2])
{
    int found = 0;
    unset(ports->out, source);
    unset(ports->in, target);
    const Transfer *first = NULL;
    for (i64 j = 0; j < ports->words; j++)
        for (u64 left = ports->sources[target * ports->words + j] & ~ports->out[j]; left; left &= left - 1) {
            i64 s = j * 64 + __builtin_ctzll(left);
            const Transfer *top = ports->lines[target * ports->p + s].items;
            if (!first || transfer_before(top, first)) {
                first = top;
                next[0][0] = s;
                next[0][1] = target;
                found = 1;
            }
        }
    if (found && next[0][0] == source)
        return found;
    first = NULL;
    int before = found;
    for (i64 j = 0; j < ports->words; j++)
        for (u64 left = ports->targets[source * ports->words + j] & ~ports->in[j]; left; left &= left - 1) {
            i64 t = j * 64 + __builtin_ctzll(left);
            if (before && t == target)
                continue;
            const Transfer *top = ports->lines[t * ports->p + source].items;
            if (!first || transfer_before(top, first)) {
                first = top;
                next[before][0] = source;
                next[before][1] = t;
                found = before + 1;
            }
        }
    return found;
}

#endif
