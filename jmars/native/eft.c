/* Assignment by earliest finish time. Repeats `assign_eft` of jmars/plan/assign.py. */
#include "heap.h"

#include <math.h>

static inline int number_before(const double *a, const double *b) { return *a < *b; }
HEAP(Clock, double, number_before) /* times at which the cores of a worker are free */

/* Holders of chunks and times of arrival: a row for each chunk, with its holders in ascending order. */
typedef struct {
    i64 words;     /* 64-bit words for a bit per worker */
    u64 *held;     /* words for each chunk */
    i64 *row;      /* start of each chunk's row; a row has room for the workers of the chunk and its readers */
    double *since;
} Copies;

static inline int has(const Copies *all, i64 chunk, i64 worker)
{
    return (int)(all->held[chunk * all->words + (worker >> 6)] >> (worker & 63) & 1);
}

/* Position of a worker in the row of a chunk, present or not. */
static inline i64 place(const Copies *all, i64 chunk, i64 worker)
{
    const u64 *held = all->held + chunk * all->words;
    i64 at = all->row[chunk];
    for (i64 j = 0; j < worker >> 6; j++)
        at += __builtin_popcountll(held[j]);
    return at + __builtin_popcountll(held[worker >> 6] & (((u64)1 << (worker & 63)) - 1));
}

static void add(Copies *all, i64 chunk, i64 worker, double when)
{
    u64 *held = all->held + chunk * all->words;
    const i64 at = place(all, chunk, worker);
    i64 count = 0;
    for (i64 j = 0; j < all->words; j++)
        count += __builtin_popcountll(held[j]);
    memmove(all->since + at + 1, all->since + at, (size_t)(all->row[chunk] + count - at) * sizeof(double));
    all->since[at] = when;
    held[worker >> 6] |= (u64)1 << (worker & 63);
}

/* Finds the `few` least busy workers of a team, the first of equals first; returns their number. */
static i64 least_busy(const i64 *team, i64 count, i64 few, const Clock *cores, const double *port_in, i64 *found,
                      double *busy)
{
    i64 n = 0;
    for (i64 k = 0; k < count; k++) {
        double now = larger(cores[team[k]].items[0], port_in[team[k]]);
        if (n == few && !(now < busy[n - 1]))
            continue;
        i64 at = n < few ? n++ : n - 1;
        for (; at > 0 && now < busy[at - 1]; at--) {
            busy[at] = busy[at - 1];
            found[at] = found[at - 1];
        }
        busy[at] = now;
        found[at] = team[k];
    }
    return n;
}

/* Writes the worker of each operand to `where`, which initially has the workers of stored chunks and else -1.
 *
 * `team_of` is each operand's row in (team_ptr, team): the workers that may run it, ascending. `per_byte` is [from][to].
 * Returns 1 + the operand that the order puts before its input, or 0.
 */
EXPORT i64 jm_eft(i64 n, i64 p, const i64 *pred_ptr, const i64 *pred, const i64 *succ_ptr, const i64 *order,
                  const double *cost, const i64 *size, const i64 *wish, const i64 *team_of, const i64 *team_ptr, const i64 *team,
                  const i64 *core_count, const double *speed, const double *per_byte, double latency, double price,
                  double pull, i64 few, i64 *where)
{
    Arena arena = {0};
    Copies all = {(p + 63) / 64, NULL, NULL, NULL};
    all.held = TAKE(&arena, u64, n * all.words);
    all.row = TAKE(&arena, i64, n + 1);
    if (!arena.failed)
        for (i64 v = 0; v < n; v++) {
            i64 most = succ_ptr[v + 1] - succ_ptr[v] + 1;
            all.row[v + 1] = all.row[v] + (most < p ? most : p);
        }
    all.since = TAKE(&arena, double, arena.failed ? 0 : all.row[n]);
    Clock *cores = TAKE(&arena, Clock, p);
    double *port_in = TAKE(&arena, double, p), *port_out = TAKE(&arena, double, p);
    double *end = TAKE(&arena, double, n);
    double *busy = TAKE(&arena, double, few > 0 ? few : 1);
    i64 *idle = TAKE(&arena, i64, few > 0 ? few : 1);
    i64 *tried = TAKE(&arena, i64, p);
    u64 *owners = TAKE(&arena, u64, all.words);
    u64 *able = TAKE(&arena, u64, all.words);
    i64 answer = arena.failed ? JM_NO_MEMORY : JM_DONE;
    for (i64 w = 0; w < p && !answer; w++)
        for (i64 c = 0; c < core_count[w] && !answer; c++)
            answer = Clock_push(&cores[w], 0.0);
    for (i64 v = 0; v < n && !answer; v++)
        if (where[v] >= 0)
            add(&all, v, where[v], 0.0);
    for (i64 k = 0; k < n && !answer; k++) {
        const i64 v = order[k];
        if (where[v] >= 0)
            continue;
        const i64 *needs = pred + pred_ptr[v], count = pred_ptr[v + 1] - pred_ptr[v], prefers = wish[v];
        for (i64 i = 0; i < count; i++)
            if (where[needs[i]] < 0)
                answer = v + 1;
        if (answer)
            break;
        const i64 *mine = team + team_ptr[team_of[v]], mine_count = team_ptr[team_of[v] + 1] - team_ptr[team_of[v]];
        i64 tried_count = 0;
        if (mine_count <= few + 4) {
            for (; tried_count < mine_count; tried_count++)
                tried[tried_count] = mine[tried_count];
        } else {
            i64 many = 0, largest = 0;
            memset(owners, 0, (size_t)all.words * sizeof(u64));
            for (i64 i = 0; i < count; i++) {
                for (i64 j = 0; j < all.words; j++)
                    owners[j] |= all.held[needs[i] * all.words + j];
                if (size[needs[i]] > size[needs[largest]])
                    largest = i;
            }
            for (i64 j = 0; j < all.words; j++)
                many += __builtin_popcountll(owners[j]);
            if (many > few + 4)
                memcpy(owners, all.held + needs[largest] * all.words, (size_t)all.words * sizeof(u64));
            i64 idle_count = few > 0 ? least_busy(mine, mine_count, few, cores, port_in, idle, busy) : 0;
            for (i64 i = 0; i < idle_count; i++)
                owners[idle[i] >> 6] |= (u64)1 << (idle[i] & 63);
            if (prefers >= 0)
                owners[prefers >> 6] |= (u64)1 << (prefers & 63);
            if (mine_count < p) {
                memset(able, 0, (size_t)all.words * sizeof(u64));
                for (i64 i = 0; i < mine_count; i++)
                    able[mine[i] >> 6] |= (u64)1 << (mine[i] & 63);
                for (i64 j = 0; j < all.words; j++)
                    owners[j] &= able[j];
            }
            for (i64 j = 0; j < all.words; j++)
                for (u64 left = owners[j]; left; left &= left - 1)
                    tried[tried_count++] = j * 64 + __builtin_ctzll(left);
        }
        double best_score = INFINITY, best_end = INFINITY;
        i64 best = -1;
        for (i64 t = 0; t < tried_count; t++) {
            const i64 w = tried[t];
            double ready = 0.0, port = port_in[w], moving = 0.0;
            for (i64 i = 0; i < count; i++) {
                const i64 chunk = needs[i];
                double arrives;
                if (has(&all, chunk, w)) {
                    arrives = all.since[place(&all, chunk, w)];
                } else {
                    const i64 source = where[chunk];
                    const double takes = (double)size[chunk] * per_byte[source * p + w];
                    port = larger(larger(end[chunk], port), port_out[source]) + takes;
                    arrives = port + latency;
                    moving += takes;
                }
                if (arrives > ready)
                    ready = arrives;
            }
            const double ends = larger(ready, cores[w].items[0]) + cost[v] / speed[w];
            const double score = ends + price * moving + (prefers >= 0 && prefers != w ? pull : 0.0);
            if (score < best_score || (score == best_score && (ends < best_end || (ends == best_end && w < best)))) {
                best_score = score;
                best_end = ends;
                best = w;
            }
        }
        if (best < 0) { /* all scores are NaN: a price or pull is NaN */
            answer = JM_REFUSED;
            break;
        }
        double port = port_in[best];
        for (i64 i = 0; i < count; i++) {
            const i64 chunk = needs[i], source = where[chunk];
            if (has(&all, chunk, best))
                continue;
            port = larger(larger(end[chunk], port), port_out[source]) + (double)size[chunk] * per_byte[source * p + best];
            port_out[source] = port;
            add(&all, chunk, best, port + latency);
        }
        port_in[best] = port;
        Clock_pop(&cores[best]);
        end[v] = best_end;
        where[v] = best;
        answer = Clock_push(&cores[best], best_end);
        add(&all, v, best, best_end);
    }
    for (i64 w = 0; cores && w < p; w++)
        free(cores[w].items);
    leave(&arena);
    return answer;
}
