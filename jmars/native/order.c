/* Depth-first and backward ranks. Repeats `rank_depth_first` of jmars/plan/order.py. */
#include "heap.h"

/* Writes `rank`, the position of each vertex. `sinks` are in order of visits; `gain` is size - Liu's key. */
EXPORT i64 jm_depth_first(i64 n, const i64 *pred_ptr, const i64 *pred, const i64 *succ_ptr, const i64 *succ,
                          const i64 *size, const i64 *gain, i64 sink_count, const i64 *sinks, i64 *rank)
{
    Arena arena = {0};
    i64 m = pred_ptr[n], widest = 0;
    for (i64 v = 0; v < n; v++) {
        i64 in = pred_ptr[v + 1] - pred_ptr[v], out = succ_ptr[v + 1] - succ_ptr[v];
        widest = in > widest ? in : widest;
        widest = out > widest ? out : widest;
    }
    i64 *inputs = TAKE(&arena, i64, m);   /* the rows of `pred`, sorted at the first visit of their operand */
    i64 *cursor = TAKE(&arena, i64, n);   /* the next input of an operand on the stack */
    i64 *missing = TAKE(&arena, i64, n);  /* inputs without position yet */
    i64 *stack = TAKE(&arena, i64, n);
    i64 *ready = TAKE(&arena, i64, n);
    uint8_t *placed = TAKE(&arena, uint8_t, n);
    Pair *row = TAKE(&arena, Pair, widest);
    if (arena.failed) {
        leave(&arena);
        return JM_NO_MEMORY;
    }
    for (i64 v = 0; v < n; v++)
        missing[v] = pred_ptr[v + 1] - pred_ptr[v];
    i64 place = 0;
    for (i64 s = 0; s < sink_count; s++) {
        i64 depth = 0, met = placed[sinks[s]] ? -1 : sinks[s];
        while (met >= 0 || depth) {
            if (met >= 0) {
                const i64 first = pred_ptr[met], count = pred_ptr[met + 1] - first;
                for (i64 k = 0; k < count; k++)
                    row[k] = (Pair){gain[pred[first + k]], k};
                sort_pairs(row, count);
                for (i64 k = 0; k < count; k++)
                    inputs[first + k] = pred[first + row[k].b];
                cursor[met] = first;
                stack[depth++] = met;
                met = -1;
            }
            i64 v = stack[depth - 1];
            while (cursor[v] < pred_ptr[v + 1] && placed[inputs[cursor[v]]])
                cursor[v]++;
            if (cursor[v] < pred_ptr[v + 1]) {
                met = inputs[cursor[v]++];
                continue;
            }
            depth--;
            if (placed[v])
                continue;
            i64 waiting = 0;
            ready[waiting++] = v;
            while (waiting) {
                i64 now = ready[--waiting], able = 0;
                placed[now] = 1;
                rank[now] = place++;
                for (i64 e = succ_ptr[now]; e < succ_ptr[now + 1]; e++)
                    if (!--missing[succ[e]]) {
                        row[able] = (Pair){-size[succ[e]], able};
                        ready[waiting + able++] = succ[e];
                    }
                if (able > 1) { /* largest output first, so that the smallest is on top of the stack */
                    sort_pairs(row, able);
                    for (i64 k = 0; k < able; k++)
                        row[k].a = ready[waiting + row[k].b];
                    for (i64 k = 0; k < able; k++)
                        ready[waiting + k] = row[k].a;
                }
                waiting += able;
            }
        }
    }
    leave(&arena);
    return place;
}

/* A candidate of the backward search: bytes added, then the longest path and the number, both largest first. */
typedef struct {
    i64 price;
    double late;
    i64 v;
} Step;

static inline int step_before(const Step *x, const Step *y)
{
    if (x->price != y->price)
        return x->price < y->price;
    return x->late > y->late || (x->late == y->late && x->v > y->v);
}
HEAP(Steps, Step, step_before)

static i64 price(const i64 *pred_ptr, const i64 *pred, const i64 *size, const uint8_t *held, i64 v)
{
    i64 more = -size[v];
    for (i64 e = pred_ptr[v]; e < pred_ptr[v + 1]; e++)
        more += held[pred[e]] ? 0 : size[pred[e]];
    return more;
}

/* Repeats `rank_backwards` of jmars/plan/order.py; returns the number of ranked operands. */
EXPORT i64 jm_backwards(i64 n, const i64 *pred_ptr, const i64 *pred, const i64 *succ_ptr, const i64 *succ,
                        const i64 *size, const double *late, i64 *rank)
{
    Arena arena = {0};
    Steps steps = {0};
    i64 *left = TAKE(&arena, i64, n); /* readers without position yet */
    uint8_t *held = TAKE(&arena, uint8_t, n), *done = TAKE(&arena, uint8_t, n);
    i64 place = n;
    int failed = arena.failed;
    for (i64 v = 0; v < n && !failed; v++) {
        left[v] = succ_ptr[v + 1] - succ_ptr[v];
        if (!left[v])
            failed = Steps_push(&steps, (Step){price(pred_ptr, pred, size, held, v), late[v], v});
    }
    while (steps.count && !failed) {
        Step step = Steps_pop(&steps);
        const i64 v = step.v;
        if (done[v])
            continue;
        const i64 now = price(pred_ptr, pred, size, held, v);
        if (now < step.price) { /* an input is held by now, so the price fell */
            step.price = now;
            failed = Steps_push(&steps, step);
            continue;
        }
        done[v] = 1;
        rank[v] = --place;
        for (i64 e = pred_ptr[v]; e < pred_ptr[v + 1] && !failed; e++) {
            const i64 p = pred[e];
            left[p]--;
            if (!held[p]) {
                held[p] = 1;
                for (i64 f = succ_ptr[p]; f < succ_ptr[p + 1] && !failed; f++) {
                    const i64 r = succ[f];
                    if (!done[r] && !left[r])
                        failed = Steps_push(&steps, (Step){price(pred_ptr, pred, size, held, r), late[r], r});
                }
            }
            if (!left[p] && !failed)
                failed = Steps_push(&steps, (Step){price(pred_ptr, pred, size, held, p), late[p], p});
        }
    }
    free(steps.items);
    leave(&arena);
    return failed ? JM_NO_MEMORY : n - place;
}
