/* Sweeps along a graph: levels, longest paths, Liu's key, shares of work, the peak of one core.
 *
 * `order` is always `topological`: by level, then by index. Repeats functions of jmars/graph.py,
 * jmars/plan/order.py and jmars/plan/assign.py.
 */
#include "heap.h"

/* Writes the level of each vertex, and the vertices by level and index; returns the number of vertices reached. */
EXPORT i64 jm_levels(i64 n, const i64 *succ_ptr, const i64 *succ, i64 *level, i64 *order)
{
    Arena arena = {0};
    i64 *waiting = TAKE(&arena, i64, n + 1);
    if (arena.failed) {
        leave(&arena);
        return JM_NO_MEMORY;
    }
    for (i64 e = 0; e < succ_ptr[n]; e++)
        waiting[succ[e]]++;
    i64 end = 0;
    for (i64 v = 0; v < n; v++) {
        level[v] = 0;
        if (!waiting[v])
            order[end++] = v;
    }
    for (i64 at = 0; at < end; at++) {
        i64 v = order[at];
        for (i64 e = succ_ptr[v]; e < succ_ptr[v + 1]; e++)
            if (!--waiting[succ[e]]) {
                level[succ[e]] = level[v] + 1; /* vertices leave the queue level by level, so v is on the last level */
                order[end++] = succ[e];
            }
    }
    if (end == n) {
        i64 *first = waiting; /* all zero now: number of vertices on lower levels */
        for (i64 v = 0; v < n; v++)
            first[level[v] + 1]++;
        for (i64 k = 1; k <= n; k++)
            first[k] += first[k - 1];
        for (i64 v = 0; v < n; v++)
            order[first[level[v]]++] = v;
    }
    leave(&arena);
    return end;
}

/* Repeats `b_level`; `level` initially holds the costs. */
EXPORT i64 jm_b_level(i64 n, const i64 *succ_ptr, const i64 *succ, const i64 *order, const double *edge, double *level)
{
    for (i64 k = n - 1; k >= 0; k--) {
        i64 v = order[k], e = succ_ptr[v];
        if (e == succ_ptr[v + 1])
            continue;
        double longest = level[succ[e]];
        for (e++; e < succ_ptr[v + 1]; e++)
            longest = larger(longest, level[succ[e]]);
        level[v] += edge[v] + longest;
    }
    return JM_DONE;
}

/* Repeats `t_level`; `done` holds the seconds of each operand and its transfer. */
EXPORT i64 jm_t_level(i64 n, const i64 *pred_ptr, const i64 *pred, const i64 *order, const double *done, double *level)
{
    for (i64 k = 0; k < n; k++) {
        i64 v = order[k], e = pred_ptr[v];
        level[v] = 0.0;
        if (e == pred_ptr[v + 1])
            continue;
        double longest = level[pred[e]] + done[pred[e]];
        for (e++; e < pred_ptr[v + 1]; e++)
            longest = larger(longest, level[pred[e]] + done[pred[e]]);
        level[v] = longest;
    }
    return JM_DONE;
}

/* Repeats `liu_key`. */
EXPORT i64 jm_liu(i64 n, const i64 *pred_ptr, const i64 *pred, const i64 *succ_ptr, const i64 *order, const i64 *size,
                  i64 *peak)
{
    i64 widest = 0;
    for (i64 v = 0; v < n; v++)
        if (pred_ptr[v + 1] - pred_ptr[v] > widest)
            widest = pred_ptr[v + 1] - pred_ptr[v];
    Pair *row = malloc((size_t)(widest + 1) * sizeof(Pair));
    if (!row)
        return JM_NO_MEMORY;
    for (i64 k = 0; k < n; k++) {
        i64 v = order[k], count = pred_ptr[v + 1] - pred_ptr[v], held = 0, highest = 0;
        const i64 *inputs = pred + pred_ptr[v];
        for (i64 i = 0; i < count; i++) {
            i64 p = inputs[i], is_shared = succ_ptr[p + 1] - succ_ptr[p] > 1;
            row[i] = (Pair){size[p] - (is_shared ? size[p] : peak[p]), p};
        }
        sort_pairs(row, count);
        for (i64 i = 0; i < count; i++) {
            i64 own = size[row[i].b];
            if (held + own - row[i].a > highest)
                highest = held + own - row[i].a;
            held += own;
        }
        peak[v] = held + size[v] > highest ? held + size[v] : highest;
    }
    free(row);
    return JM_DONE;
}

/* Weights of `source_runs`: the weight of an operand is divided among its inputs, from the end to the start. */
EXPORT i64 jm_shares(i64 n, const i64 *pred_ptr, const i64 *pred, const i64 *order, double *weight)
{
    for (i64 k = n - 1; k >= 0; k--) {
        i64 v = order[k], count = pred_ptr[v + 1] - pred_ptr[v];
        if (!count)
            continue;
        double share = weight[v] / (double)count;
        for (i64 e = pred_ptr[v]; e < pred_ptr[v + 1]; e++)
            weight[pred[e]] += share;
    }
    return JM_DONE;
}

/* Repeats `sequential_peak`; `order` sorts by rank, `left` initially holds the out-degrees and is used up. */
EXPORT i64 jm_sequential_peak(i64 n, const i64 *pred_ptr, const i64 *pred, const i64 *order, const i64 *size,
                              const uint8_t *keep, i64 *left, i64 *peak)
{
    i64 held = 0, highest = 0;
    for (i64 k = 0; k < n; k++) {
        i64 v = order[k];
        held += size[v];
        if (held > highest)
            highest = held;
        for (i64 e = pred_ptr[v]; e < pred_ptr[v + 1]; e++)
            if (!--left[pred[e]] && !keep[pred[e]])
                held -= size[pred[e]];
        if (!left[v] && !keep[v])
            held -= size[v];
    }
    *peak = highest;
    return JM_DONE;
}
