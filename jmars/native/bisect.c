/* Recursive bisection. Repeats `assign_bisect` of jmars/plan/assign.py.
 *
 * Within a bisection operands have local numbers 0..k-1, their positions by rank; nets list local numbers.
 */
#include "heap.h"

enum { PASSES = 3, PATIENCE = 60 };
static const double SLACK = 0.02; /* as in assign.py */

HEAP(Moves, Pair, pair_before) /* (loss, operand) */

typedef struct {
    i64 k, nets;
    const i64 *net_ptr, *net, *weight; /* rows of operands, and the bytes of each net */
    i64 *of_ptr, *of;                  /* rows of nets, for each operand */
    i64 *count;                        /* [net][side] */
    i64 *gain;
    const double *cost;
    double load[2];
    uint8_t *side, *fixed;
    i64 *changed, *stamp; /* operands whose gain the last move changed, without repetition */
    i64 changes, moves;
    Moves heap;
} Halves;

static void add_gain(Halves *h, i64 v, i64 weight)
{
    h->gain[v] += weight;
    if (h->stamp[v] != h->moves) {
        h->stamp[v] = h->moves;
        h->changed[h->changes++] = v;
    }
}

static i64 lone(const Halves *h, i64 e, int side, i64 but)
{
    i64 at = h->net_ptr[e];
    while (h->side[h->net[at]] != side || h->net[at] == but)
        at++;
    return h->net[at];
}

/* Moves `v` to the other side. */
static void move(Halves *h, i64 v)
{
    int a = h->side[v], b = 1 - a;
    h->moves++;
    h->changes = 0;
    for (i64 k = h->of_ptr[v]; k < h->of_ptr[v + 1]; k++) {
        i64 e = h->of[k], weight = h->weight[e], *count = h->count + 2 * e;
        if (count[b] == 0)
            for (i64 at = h->net_ptr[e]; at < h->net_ptr[e + 1]; at++)
                add_gain(h, h->net[at], weight);
        else if (count[b] == 1)
            add_gain(h, lone(h, e, b, -1), -weight);
        count[a]--;
        count[b]++;
        if (count[a] == 0)
            for (i64 at = h->net_ptr[e]; at < h->net_ptr[e + 1]; at++)
                add_gain(h, h->net[at], -weight);
        else if (count[a] == 1)
            add_gain(h, lone(h, e, a, v), weight);
    }
    h->side[v] = (uint8_t)b;
    h->load[a] -= h->cost[v];
    h->load[b] += h->cost[v];
    h->gain[v] = 0;
    for (i64 k = h->of_ptr[v]; k < h->of_ptr[v + 1]; k++) {
        const i64 e = h->of[k], *count = h->count + 2 * e;
        h->gain[v] += count[b] == 1 ? h->weight[e] : count[a] == 0 ? -h->weight[e] : 0;
    }
}

/* Fills side 1 up to its share of the work, by the operand that adds least to the cut. */
static int fill(Halves *h, double share)
{
    const double target = share * (h->load[0] + h->load[1]);
    i64 starts = 0;
    h->heap.count = 0;
    while (h->load[1] < target) {
        i64 v;
        if (h->heap.count) {
            Pair best = Moves_pop(&h->heap);
            v = best.b;
            if (h->side[v] || -best.a != h->gain[v])
                continue;
        } else {
            while (starts < h->k && h->side[starts])
                starts++;
            if (starts == h->k)
                break;
            v = starts++;
        }
        if (h->load[1] + h->cost[v] / 2 > target)
            break;
        move(h, v);
        for (i64 c = 0; c < h->changes; c++)
            if (!h->side[h->changed[c]] && Moves_push(&h->heap, (Pair){-h->gain[h->changed[c]], h->changed[c]}))
                return JM_NO_MEMORY;
    }
    return JM_DONE;
}

/* A pass of single moves; returns 1 if the cut shrank, else 0, or JM_NO_MEMORY. `moved` has room for k. */
static int improve(Halves *h, double share, i64 *moved)
{
    const double total = h->load[0] + h->load[1], slack = total * SLACK;
    const double most[2] = {total * (1 - share) + slack, total * share + slack};
    h->heap.count = 0;
    for (i64 v = 0; v < h->k; v++) {
        h->fixed[v] = 0;
        for (i64 k = h->of_ptr[v]; k < h->of_ptr[v + 1]; k++)
            if (h->count[2 * h->of[k]] && h->count[2 * h->of[k] + 1]) { /* a net of the operand is cut */
                if (Moves_push(&h->heap, (Pair){-h->gain[v], v}))
                    return JM_NO_MEMORY;
                break;
            }
    }
    i64 saved = 0, best = 0, keep = 0, count = 0;
    while (h->heap.count && count - keep < PATIENCE) {
        const Pair next = Moves_pop(&h->heap);
        const i64 v = next.b;
        if (h->fixed[v] || -next.a != h->gain[v])
            continue;
        const int other = 1 - h->side[v];
        if (h->load[other] + h->cost[v] > most[other])
            continue;
        saved -= next.a;
        h->fixed[v] = 1;
        moved[count++] = v;
        move(h, v);
        for (i64 c = 0; c < h->changes; c++)
            if (!h->fixed[h->changed[c]] && Moves_push(&h->heap, (Pair){-h->gain[h->changed[c]], h->changed[c]}))
                return JM_NO_MEMORY;
        if (saved > best) {
            best = saved;
            keep = count;
        }
    }
    while (count > keep)
        move(h, moved[--count]);
    return best > 0;
}

/* Divides operands 0..k-1 among `team` workers from `first` on; `name` holds their global numbers. */
static int split(i64 k, const i64 *name, i64 nets, const i64 *net_ptr, const i64 *net, const i64 *weight,
                 const double *cost, const double *rate, i64 first, i64 team, i64 *assigned)
{
    if (team == 1 || !k) {
        for (i64 v = 0; v < k; v++)
            assigned[name[v]] = first;
        return JM_DONE;
    }
    Arena arena = {0};
    const i64 pins = net_ptr[nets], few = team / 2;
    Halves h = {.k = k, .nets = nets, .net_ptr = net_ptr, .net = net, .weight = weight, .moves = 0};
    double *own = TAKE(&arena, double, k), all_rates = 0.0, first_rates = 0.0;
    h.of_ptr = TAKE(&arena, i64, k + 1);
    h.of = TAKE(&arena, i64, pins);
    h.count = TAKE(&arena, i64, 2 * nets);
    h.gain = TAKE(&arena, i64, k);
    h.side = TAKE(&arena, uint8_t, k);
    h.fixed = TAKE(&arena, uint8_t, k);
    h.changed = TAKE(&arena, i64, k);
    h.stamp = TAKE(&arena, i64, k);
    i64 *moved = TAKE(&arena, i64, k);
    int answer = arena.failed ? JM_NO_MEMORY : JM_DONE;
    if (!answer) {
        h.cost = own;
        for (i64 v = 0; v < k; v++) {
            own[v] = cost[name[v]];
            h.load[0] += own[v];
        }
        for (i64 e = 0; e < nets; e++) {
            h.count[2 * e] = net_ptr[e + 1] - net_ptr[e];
            for (i64 at = net_ptr[e]; at < net_ptr[e + 1]; at++) {
                h.of_ptr[net[at] + 1]++;
                h.gain[net[at]] -= weight[e]; /* all operands are on side 0 */
            }
        }
        for (i64 v = 0; v < k; v++)
            h.of_ptr[v + 1] += h.of_ptr[v];
        for (i64 e = 0; e < nets; e++)
            for (i64 at = net_ptr[e]; at < net_ptr[e + 1]; at++)
                h.of[h.of_ptr[net[at]] + moved[net[at]]++] = e;
        for (i64 w = 0; w < team; w++) {
            all_rates += rate[first + w];
            if (w < few)
                first_rates += rate[first + w];
        }
        const double share = first_rates / all_rates;
        answer = fill(&h, share);
        for (int pass = 0; pass < PASSES && !answer; pass++) {
            int better = improve(&h, share, moved);
            answer = better < 0 ? better : JM_DONE;
            if (!better)
                break;
        }
        free(h.heap.items);
    }
    for (int side = 1; side >= 0 && !answer; side--) {
        Arena inside = {0};
        i64 *local = TAKE(&inside, i64, k), *inner = TAKE(&inside, i64, k);
        i64 *inner_ptr = TAKE(&inside, i64, nets + 1), *inner_net = TAKE(&inside, i64, pins);
        i64 *inner_weight = TAKE(&inside, i64, nets), count = 0, kept = 0, end = 0;
        answer = inside.failed ? JM_NO_MEMORY : JM_DONE;
        if (!answer) {
            for (i64 v = 0; v < k; v++)
                if (h.side[v] == side) {
                    local[v] = count;
                    inner[count++] = name[v];
                }
            for (i64 e = 0; e < nets; e++) {
                if (h.count[2 * e + side] < 2)
                    continue;
                for (i64 at = net_ptr[e]; at < net_ptr[e + 1]; at++)
                    if (h.side[net[at]] == side)
                        inner_net[end++] = local[net[at]];
                inner_weight[kept++] = weight[e];
                inner_ptr[kept] = end;
            }
            answer = split(count, inner, kept, inner_ptr, inner_net, inner_weight, cost, rate,
                           side ? first : first + few, side ? few : team - few, assigned);
        }
        leave(&inside);
    }
    leave(&arena);
    return answer;
}

/* `order` sorts operands by rank; `cost` and `rate` as in assign.py. */
EXPORT i64 jm_bisect(i64 n, i64 p, const i64 *succ_ptr, const i64 *succ, const i64 *order, const i64 *size,
                     const double *cost, const double *rate, i64 *assigned)
{
    Arena arena = {0};
    i64 *local = TAKE(&arena, i64, n), *net_ptr = TAKE(&arena, i64, n + 1);
    i64 *net = TAKE(&arena, i64, n + succ_ptr[n]), *weight = TAKE(&arena, i64, n), nets = 0, end = 0;
    i64 answer = JM_NO_MEMORY;
    if (!arena.failed) {
        for (i64 k = 0; k < n; k++)
            local[order[k]] = k;
        for (i64 v = 0; v < n; v++) {
            if (succ_ptr[v] == succ_ptr[v + 1])
                continue;
            net[end++] = local[v];
            for (i64 e = succ_ptr[v]; e < succ_ptr[v + 1]; e++)
                net[end++] = local[succ[e]];
            weight[nets++] = size[v];
            net_ptr[nets] = end;
        }
        answer = split(n, order, nets, net_ptr, net, weight, cost, rate, 0, p, assigned);
    }
    leave(&arena);
    return answer;
}
