/* Initial workers, breadth or depth first. Repeats `_search` of jmars/plan/initial.py. */
#include "common.h"

enum { MOST_PASSES = 8 }; /* as in initial.py */

typedef struct {
    i64 *items, first, end, room; /* a stack or a queue */
} Row;

static int push(Row *row, i64 item)
{
    if (row->end == row->room) {
        i64 room = row->room * 2 + 64;
        i64 *items = realloc(row->items, (size_t)room * sizeof(i64));
        if (!items)
            return JM_NO_MEMORY;
        row->items = items;
        row->room = room;
    }
    row->items[row->end++] = item;
    return JM_DONE;
}

/* Writes `worker_of`, -1 for operands that are not initial, and uses up `quota`. */
EXPORT i64 jm_search(i64 n, i64 p, const i64 *pred_ptr, const i64 *pred, const i64 *succ_ptr, const i64 *succ,
                     i64 source_count, const i64 *sources, i64 depth_first, i64 *quota, i64 *worker_of)
{
    Arena arena = {0};
    Row line = {0};
    uint8_t *is_open = TAKE(&arena, uint8_t, n); /* a source without a worker */
    uint8_t *passes = TAKE(&arena, uint8_t, n);  /* 0: not counted yet */
    i64 *stamp = TAKE(&arena, i64, n);           /* the last search that visited the operand */
    i64 searches = 0, starts = 0;
    i64 answer = arena.failed ? JM_NO_MEMORY : JM_DONE;
    const double limit = (double)n / (double)p;
    for (i64 v = 0; v < n; v++)
        worker_of[v] = -1;
    for (i64 k = 0; k < source_count && !answer; k++)
        is_open[sources[k]] = 1;
    while (!answer) {
        i64 worker = 0;
        for (i64 w = 1; w < p; w++)
            if (quota[w] > quota[worker])
                worker = w;
        i64 spread = 0, left = quota[worker];
        if (!left)
            break;
        while (left && (double)spread <= limit && !answer) {
            while (starts < source_count && !is_open[sources[starts]])
                starts++;
            if (starts == source_count) {
                answer = JM_REFUSED;
                break;
            }
            line.first = line.end = 0;
            searches++;
            stamp[sources[starts]] = searches;
            answer = push(&line, sources[starts++]);
            while (line.first < line.end && !answer) {
                i64 v = depth_first ? line.items[--line.end] : line.items[line.first++];
                if (depth_first) {
                    if (stamp[v] == -searches)
                        continue; /* the operand was on the stack twice */
                    stamp[v] = -searches;
                }
                if (passes[v]) {
                    if (passes[v] > MOST_PASSES)
                        continue;
                } else {
                    spread++;
                    if (is_open[v]) {
                        is_open[v] = 0;
                        worker_of[v] = worker;
                        left--;
                    }
                    if ((double)spread > limit || !left) {
                        passes[v] = 1;
                        break;
                    }
                }
                passes[v]++;
                if (depth_first) { /* predecessors in their order come first, then successors */
                    for (i64 e = succ_ptr[v + 1]; e-- > succ_ptr[v] && !answer;)
                        if (stamp[succ[e]] != -searches)
                            answer = push(&line, succ[e]);
                    for (i64 e = pred_ptr[v + 1]; e-- > pred_ptr[v] && !answer;)
                        if (stamp[pred[e]] != -searches)
                            answer = push(&line, pred[e]);
                    continue;
                }
                for (i64 e = pred_ptr[v]; e < pred_ptr[v + 1] && !answer; e++)
                    if (stamp[pred[e]] != searches) {
                        stamp[pred[e]] = searches;
                        answer = push(&line, pred[e]);
                    }
                for (i64 e = succ_ptr[v]; e < succ_ptr[v + 1] && !answer; e++)
                    if (stamp[succ[e]] != searches) {
                        stamp[succ[e]] = searches;
                        answer = push(&line, succ[e]);
                    }
            }
        }
        quota[worker] = left;
    }
    free(line.items);
    leave(&arena);
    return answer;
}
