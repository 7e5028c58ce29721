/* Simulated run without a policy. Repeats `Simulation` of jmars/plan/simulation.py. */
#include "run.h"

enum { JM_DOES_NOT_FIT = 1 };
enum { AHEAD = 8 }; /* edges whose target is prefetched */
#define FIRST INT64_MIN /* lower than any rank */

/* Bytes in a worker's memory from `time` on. */
typedef struct {
    double time;
    i64 worker, used;
} Level;

typedef struct {
    i64 count, room;
    Level *levels;
    i64 *shown; /* last recorded bytes of each worker */
} Log;

static void event(Run *run, double time, i64 kind, i64 a, i64 b, i64 c)
{
    run->failed |= Events_push(&run->events, (Event){time, kind, ++run->events_made, a, b, c});
}

static void make_ready(Run *run, i64 v, i64 w)
{
    run->state[v] = READY;
    run->failed |= Ready_push(&run->ready[w], (Pair){run->rank[v], v});
    if (run->free[w])
        set(run->may_launch, w);
}

static double make_room(Run *run, i64 w, i64 nbytes)
{
    Store *store = &run->stores.of[w];
    if (store->used + nbytes <= store->capacity)
        return run->now;
    if (!run->stores.is_short)
        all_may_leave(&run->stores, run->p, run->n, run->slot_ptr, run->kin, run->words);
    while (store->victims.count && store->used + nbytes > store->capacity) {
        Victim victim = Victims_pop(&store->victims);
        Slot *slot = &run->stores.slots[victim.slot];
        if (slot->lies != IN_MEMORY || slot->fast || slot->used_at != victim.used_at)
            continue;
        drop(&run->stores, w, victim.slot);
        write_out(&run->stores, w, victim.slot, run->now);
    }
    return store->disk_free;
}

/* Stores a received chunk in memory or on disk. */
static void receive(Run *run, i64 w, i64 slot)
{
    i64 size = run->size[run->stores.chunk_of[slot]];
    if (run->stores.of[w].fast_bytes + size > run->stores.of[w].capacity) {
        write_out(&run->stores, w, slot, run->now);
        return;
    }
    make_room(run, w, size);
    put(&run->stores, w, slot);
    may_leave(&run->stores, w, slot);
}

/* Uses a chunk; returns the time at which it is in memory. */
static double touch(Run *run, i64 w, i64 slot)
{
    if (run->stores.slots[slot].lies != ON_DISK) {
        run->stores.slots[slot].used_at = run->stores.uses++;
        return run->now;
    }
    double start = make_room(run, w, run->size[run->stores.chunk_of[slot]]);
    put(&run->stores, w, slot);
    return larger(start, read_in(&run->stores, w, slot, run->now));
}

/* Starts ready operands while a core is free and memory suffices; JM_DOES_NOT_FIT for an operand that never fits. */
static i64 launch(Run *run, i64 w)
{
    Store *store = &run->stores.of[w];
    Ready *line = &run->ready[w];
    while (run->free[w] && line->count) {
        i64 v = line->items[0].b, size = run->size[v], work = run->work[v], need = size + work;
        for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++)
            if (!run->stores.slots[run->slot_of_input[e]].fast)
                need += run->size[run->pred[e]];
        if (need > store->capacity - store->fast_bytes) {
            if (run->free[w] < run->cores[w])
                return JM_DONE; /* running operands will release memory */
            run->wrong[0] = v;
            run->wrong[1] = w;
            run->wrong[2] = need;
            return JM_DOES_NOT_FIT;
        }
        Ready_pop(line);
        run->state[v] = RUNS;
        run->free[w]--;
        double start = run->now;
        for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++)
            hold(&run->stores, w, run->slot_of_input[e]);
        for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++)
            start = larger(start, touch(run, w, run->slot_of_input[e]));
        start = larger(start, make_room(run, w, size + work));
        i64 slot = slot_of(run, v, w);
        put(&run->stores, w, slot);
        hold(&run->stores, w, slot);
        if (work) {
            store->fast_bytes += work;
            grow(&run->stores, w, work);
        }
        double seconds = run->cost[v] / run->speed[w];
        run->busy[w] += seconds;
        run->start[v] = start;
        event(run, start + seconds, FINISHED, v, w, 0);
    }
    unset(run->may_launch, w);
    return JM_DONE;
}

static void send(Run *run, i64 source, i64 target)
{
    i64 chunk = port_start(&run->ports, source, target), slot = slot_of(run, chunk, source), size = run->size[chunk];
    double start = run->now;
    if (run->stores.slots[slot].lies == ON_DISK)
        start = read_in(&run->stores, source, slot, start);
    run->moved += size;
    double over = start + (double)size / run->bandwidth[source * run->p + target];
    event(run, over + (size < 1000000 ? run->latency : 0.0), PORT_FREE, source, target, 0);
    event(run, over + run->latency, ARRIVED, chunk, target, source);
}

/* Requests a chunk from the holder with fewest bytes to send; the urgency is the rank of its first reader there. */
static void ask(Run *run, i64 chunk, i64 target, i64 urgency)
{
    Slot *there = &run->stores.slots[slot_of(run, chunk, target)];
    if (there->coming)
        return;
    there->coming = 1;
    i64 source = -1;
    if (urgency == FIRST)
        urgency = run->rank[run->stores.readers[there->readers]];
    for (i64 j = 0; j < run->words; j++)
        for (u64 left = held(run, chunk)[j]; left; left &= left - 1) {
            i64 w = j * 64 + __builtin_ctzll(left);
            if (source < 0 || run->sent[w] < run->sent[source])
                source = w;
        }
    run->sent[source] += run->size[chunk];
    run->stores.slots[slot_of(run, chunk, source)].sending++;
    int now = port_ask(&run->ports, urgency, chunk, source, target);
    if (now < 0)
        run->failed = 1;
    else if (now)
        send(run, source, target);
}

static void drop_everywhere(Run *run, i64 chunk)
{
    for (i64 j = 0; j < run->words; j++) {
        for (u64 left = held(run, chunk)[j]; left; left &= left - 1) {
            i64 w = j * 64 + __builtin_ctzll(left);
            drop(&run->stores, w, slot_of(run, chunk, w));
        }
        held(run, chunk)[j] = 0;
    }
}

/* Ends an operand: frees chunks without readers left, sends its chunk, and wakes its readers. */
static void finish(Run *run, i64 v, i64 w)
{
    Store *store = &run->stores.of[w];
    i64 own = slot_of(run, v, w);
    run->state[v] = IS_DONE;
    run->end[v] = run->over = run->now;
    run->done++;
    run->free[w]++;
    set(held(run, v), w);
    run->operands[v].origin = (int32_t)w;
    if (run->work[v]) {
        store->fast_bytes -= run->work[v];
        grow(&run->stores, w, -run->work[v]);
    }
    let_go(&run->stores, w, own);
    for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++)
        let_go(&run->stores, w, run->slot_of_input[e]);
    for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++) {
        i64 chunk = run->pred[e];
        Operand *made = &run->operands[chunk];
        Slot *here = &run->stores.slots[run->slot_of_input[e]];
        made->unread--;
        here->local--;
        if (!made->unread) {
            if (!run->keep[chunk])
                drop_everywhere(run, chunk);
        } else if (made->origin != w && !here->local && !made->open && !here->sending) {
            drop(&run->stores, w, run->slot_of_input[e]); /* a copy without readers left on this worker */
            unset(held(run, chunk), w);
        }
    }
    if (!run->operands[v].unread && !run->keep[v])
        drop_everywhere(run, v);
    for (i64 e = run->succ_ptr[v]; e < run->succ_ptr[v + 1]; e++) {
        if (e + AHEAD < run->succ_ptr[v + 1])
            __builtin_prefetch(&run->operands[run->succ[e + AHEAD]]);
        i64 reader = run->succ[e], target = run->operands[reader].worker;
        if (target == w) {
            if (!--run->operands[reader].away)
                make_ready(run, reader, w);
        } else if (target >= 0) {
            ask(run, v, target, FIRST);
        }
    }
    if (run->ready[w].count)
        set(run->may_launch, w);
}

/* Receives a chunk; operands that waited for this chunk only become ready. */
static void arrive(Run *run, i64 chunk, i64 w, i64 source)
{
    i64 slot = slot_of(run, chunk, w);
    run->stores.slots[slot].coming = 0;
    run->stores.slots[slot_of(run, chunk, source)].sending--;
    run->sent[source] -= run->size[chunk];
    if (!run->operands[chunk].unread)
        return;
    receive(run, w, slot);
    set(held(run, chunk), w);
    for (i64 k = run->stores.slots[slot].readers; k < run->stores.slots[slot + 1].readers; k++) {
        if (k + AHEAD < run->stores.slots[slot + 1].readers)
            __builtin_prefetch(&run->operands[run->stores.readers[k + AHEAD]]);
        i64 reader = run->stores.readers[k];
        if (run->state[reader] < RUNS && !--run->operands[reader].away)
            make_ready(run, reader, w);
    }
}

/* Places the stored chunks and the operands of the plan. */
static void begin(Run *run, const i64 *home)
{
    for (i64 v = 0; v < run->n; v++)
        if (home[v] >= 0) {
            run->state[v] = IS_DONE;
            set(held(run, v), home[v]);
            run->operands[v].origin = (int32_t)home[v];
            run->done++;
            for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++) {
                run->operands[run->pred[e]].unread--;
                run->operands[run->pred[e]].open--;
            }
        }
    for (i64 v = 0; v < run->n; v++)
        if (home[v] >= 0 && (run->operands[v].unread || run->keep[v]))
            receive(run, home[v], slot_of(run, v, home[v]));
    run->stores.is_placed = 1;
    if (run->stores.is_short) /* next uses are known from here on */
        all_may_leave(&run->stores, run->p, run->n, run->slot_ptr, run->kin, run->words);
    for (i64 v = 0; v < run->n; v++) {
        i64 w = run->operands[v].worker;
        if (w < 0)
            continue;
        for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++) {
            run->operands[run->pred[e]].open--;
            run->operands[v].away += !is_set(held(run, run->pred[e]), w);
        }
        if (!run->operands[v].away)
            make_ready(run, v, w);
        else
            for (i64 e = run->pred_ptr[v]; e < run->pred_ptr[v + 1]; e++)
                if (run->state[run->pred[e]] == IS_DONE && !is_set(held(run, run->pred[e]), w))
                    ask(run, run->pred[e], w, run->rank[v]); /* readers come by index; the first reader requests */
    }
}

static void show(Run *run, Log *log)
{
    for (i64 w = 0; w < run->p; w++) {
        i64 used = run->stores.of[w].used;
        if (used == log->shown[w])
            continue;
        if (log->count == log->room) {
            i64 room = log->room * 2 + 256;
            Level *levels = realloc(log->levels, (size_t)room * sizeof(Level));
            if (!levels) {
                run->failed = 1;
                return;
            }
            log->levels = levels;
            log->room = room;
        }
        log->levels[log->count++] = (Level){run->now, w, used};
        log->shown[w] = used;
    }
}

static i64 loop(Run *run, Log *log, i64 *peak_total)
{
    for (;;) {
        for (i64 j = 0; j < run->words; j++)
            for (u64 left = run->may_launch[j]; left; left &= left - 1) {
                i64 answer = launch(run, j * 64 + __builtin_ctzll(left));
                if (answer)
                    return answer;
            }
        if (log)
            show(run, log);
        if (run->stores.used > *peak_total)
            *peak_total = run->stores.used;
        if (run->failed || run->stores.failed)
            return JM_NO_MEMORY;
        if (!run->events.count)
            return JM_DONE;
        double until = run->events.items[0].time + 1e-12;
        run->now = run->events.items[0].time;
        while (run->events.count && run->events.items[0].time <= until) {
            Event next = Events_pop(&run->events);
            if (next.kind == FINISHED) {
                finish(run, next.a, next.b);
            } else if (next.kind == PORT_FREE) {
                i64 pairs[2][2];
                int found = port_end(&run->ports, next.a, next.b, pairs);
                for (int k = 0; k < found; k++)
                    send(run, pairs[k][0], pairs[k][1]);
            } else {
                arrive(run, next.a, next.b, next.c);
            }
        }
    }
}

/* `totals` is written: moved, spilled, reloaded, most bytes in all memories, operands done; `wrong`: operand, worker,
 * bytes of JM_DOES_NOT_FIT; `levels`, if not NULL: an array to give to `jm_free`, and its length. */
EXPORT i64 jm_simulate(i64 n, i64 p, const i64 *pred_ptr, const i64 *pred, const i64 *succ_ptr, const i64 *succ,
                       const double *cost, const i64 *size, const i64 *work, const uint8_t *keep, const i64 *rank,
                       const i64 *order, const i64 *assign, const i64 *home, const i64 *cores, const double *speed,
                       const i64 *memory, const double *disk, const double *bandwidth, double latency, i64 by_plan,
                       double *start, double *end, double *busy, i64 *peak, i64 *totals, i64 *wrong, double *makespan,
                       Level **levels, i64 *level_count)
{
    Arena arena = {0};
    Run run = {.n = n, .p = p, .words = (p + 63) / 64, .pred_ptr = pred_ptr, .pred = pred, .succ_ptr = succ_ptr};
    run.succ = succ, run.size = size, run.work = work, run.rank = rank, run.cores = cores, run.keep = keep;
    run.cost = cost, run.speed = speed, run.bandwidth = bandwidth, run.latency = latency;
    run.busy = busy, run.start = start, run.end = end, run.wrong = wrong;
    run.operands = TAKE(&arena, Operand, n);
    run.state = TAKE(&arena, uint8_t, n);
    run.ready = TAKE(&arena, Ready, p);
    run.may_launch = TAKE(&arena, u64, run.words);
    run.free = TAKE(&arena, i64, p);
    run.sent = TAKE(&arena, i64, p);
    Stores *stores = &run.stores;
    stores->of = TAKE(&arena, Store, p);
    stores->size = size, stores->rank = rank, stores->started = run.state, stores->by_plan = (int)by_plan;
    Ports *ports = &run.ports;
    ports->p = p, ports->words = run.words;
    ports->lines = TAKE(&arena, Line, p * p);
    ports->sources = TAKE(&arena, u64, p * run.words);
    ports->targets = TAKE(&arena, u64, p * run.words);
    ports->out = TAKE(&arena, u64, run.words);
    ports->in = TAKE(&arena, u64, run.words);
    Log log = {0, 0, NULL, TAKE(&arena, i64, p)};
    if (!arena.failed)
        lay_out(&run, &arena, assign, home, order);
    i64 answer = JM_NO_MEMORY;
    if (!arena.failed) {
        for (i64 w = 0; w < p; w++) {
            run.free[w] = cores[w];
            stores->of[w].capacity = memory[w];
            stores->of[w].disk = disk[w];
            log.shown[w] = -1;
        }
        totals[3] = 0;
        begin(&run, home);
        answer = loop(&run, levels ? &log : NULL, &totals[3]);
        totals[0] = run.moved;
        totals[1] = totals[2] = 0;
        for (i64 w = 0; w < p; w++) {
            totals[1] += stores->of[w].spilled;
            totals[2] += stores->of[w].reloaded;
            peak[w] = stores->of[w].peak;
            free(run.ready[w].items);
            free(stores->of[w].victims.items);
        }
        for (i64 k = 0; k < p * p; k++)
            free(ports->lines[k].items);
        totals[4] = run.done;
        *makespan = run.over;
    }
    free(run.events.items);
    leave(&arena);
    if (levels && !answer) {
        *levels = log.levels;
        *level_count = log.count;
    } else {
        free(log.levels);
    }
    return answer;
}

EXPORT void jm_free(void *taken) { free(taken); }
