"""Assigns operands to the worker of earliest finish time (HEFT), with a price on bytes moved.

For clusters of several hosts. `assign_eft` visits operands by rank and keeps a clock for every core and network port.
A `price` of 0 is HEFT; 3 gives up a few per cent of time to move several times fewer bytes.
Source: Topcuoglu, Hariri and Wu 2002.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.order.ranks import rows
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers

__all__ = ["assign_eft"]


def assign_eft(
    graph: PlanGraph,
    workers: Workers,
    rank: NDArray[np.int64],
    *,
    price: float = 3.0,
    affinity: ArrayLike | None = None,
    pull: float = 0.0,
    placed: ArrayLike | None = None,
    few: int = 4,
) -> NDArray[np.int16]:
    """Assigns workers to operands by earliest finish time.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    rank
        Order in which operands are placed, topological, shape (n,).
    price
        Cost of a second of transfer beside the delay that the transfer causes, in seconds.
    affinity, pull
        Preferred worker of each operand, shape (n,), -1: none; and the cost of any other worker, in seconds.
    placed
        Worker that holds an operand's chunk already, shape (n,), -1: none.
    few
        Number of workers to try beside those that hold an input, the least busy first.

    Returns
    -------
    ndarray of int16, shape (n,)
        -1 for operands in `placed`.

    Raises
    ------
    GraphError
        If `rank` puts an operand before its input, or no worker may run an operand.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> pair = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), cost=1.0, nbytes=[10, 10, 10])
    >>> assign_eft(pair, Workers.build(2), np.arange(3)).tolist()
    [0, 1, 0]
    """
    order = c_planners.in_order(rank)
    wishes = np.full(graph.n, -1) if affinity is None else np.asarray(affinity).astype(np.int64)
    held = np.full(graph.n, -1) if placed is None else np.asarray(placed).astype(np.int64)
    where = c_planners.eft(graph, workers, order, wishes, held, price, pull, few) if serves(graph, workers) else None
    if where is None:
        where = _place(graph, workers, order, wishes.tolist(), held.tolist(), price, pull, few)
    assigned = where.astype(np.int16)
    assigned[held >= 0] = -1
    return assigned


def _place(
    graph: PlanGraph,
    workers: Workers,
    order: NDArray[np.int64],
    wish: list[int],
    there: list[int],
    price: float,
    pull: float,
    few: int,
) -> NDArray[np.int64]:
    """Worker that runs each operand or stores its chunk already."""
    n, p = graph.n, len(workers)
    cost, size = graph.cost.tolist(), graph.nbytes.tolist()
    inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
    able = workers.able(graph)
    speed, latency = workers.speed.tolist(), workers.latency
    per_byte = (1 / workers.bandwidth).tolist()  # [from][to]
    cores = [[0.0] * c for c in workers.cores.tolist()]  # heaps: when each core is free
    port_in, port_out = [0.0] * p, [0.0] * p
    end, where = [0.0] * n, list(there)
    copies: list[dict[int, float]] = [{} for _ in range(n)]  # per chunk: worker, and the time of the chunk's arrival
    for v, w in enumerate(there):
        if w >= 0:
            copies[v][w] = 0.0
    everyone, busy = range(p), [0.0] * p  # time until which the worker's cores or port are busy
    for v in order.tolist():
        if where[v] >= 0:
            continue
        needs, seconds, prefers = inputs[v], cost[v], wish[v]
        if min([where[i] for i in needs], default=0) < 0:
            raise GraphError(f"the rank puts operand {v} before its input; give a topological one")
        tried: list[int] | tuple[int, ...] = able[v]
        if len(tried) > few + 4:
            owners = {w for i in needs for w in copies[i]}
            if len(owners) > few + 4:  # holders of the largest input only: some inputs are on most workers
                owners = set(copies[max(needs, key=size.__getitem__)])
            idle = sorted(everyone if len(tried) == p else tried, key=busy.__getitem__)[:few]
            owners.update(idle)
            if prefers >= 0:
                owners.add(prefers)
            tried = sorted(owners) if len(able[v]) == p else [w for w in sorted(owners) if w in able[v]] or idle
        best = (np.inf, np.inf, -1)
        for w in tried:
            ready, port, moving = 0.0, port_in[w], 0.0
            for i in needs:
                arrives = copies[i].get(w)
                if arrives is None:
                    source = where[i]
                    takes = size[i] * per_byte[source][w]
                    port = max(end[i], port, port_out[source]) + takes
                    arrives = port + latency
                    moving += takes
                if arrives > ready:
                    ready = arrives
            ends = max(ready, cores[w][0]) + seconds / speed[w]
            score = ends + price * moving + (pull if 0 <= prefers != w else 0.0)
            if (score, ends, w) < best:
                best = (score, ends, w)
        _, ends, w = best
        port = port_in[w]
        for i in needs:
            if w not in copies[i]:
                source = where[i]
                port = max(end[i], port, port_out[source]) + size[i] * per_byte[source][w]
                port_out[source] = port
                copies[i][w] = port + latency
        port_in[w] = port
        heapq.heapreplace(cores[w], ends)
        busy[w] = max(cores[w][0], port)
        end[v], where[v] = ends, w
        copies[v][w] = ends
    return np.array(where, np.int64)
