"""Assigns workers to initial operands, the operands without inputs.

Other operands follow their inputs when they become ready, so only initial operands are placed before a run.
`assign_initial` gives every worker its share of the initial operands and keeps neighbours together.
Source: docs/explanation/seeds.md, "Initial worker assignment", "Preparing the graph".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph.dag import Dag
from jmars.plan import c_planners
from jmars.plan.assign.bfs_v1 import assign_bfs_v1
from jmars.plan.graph_statistics import neighbours
from jmars.plan.partition.ncd import assign_ncd

__all__ = ["SEARCHES", "assign_initial", "shares"]

SEARCHES = ("bfs", "dfs", "random", "bfs-v1", "ncd")

_PASSES = 8  # times that an operand may be visited after it was counted; keeps the search linear


def assign_initial(
    dag: Dag, sources: ArrayLike, workers: Sequence[int], search: str = "bfs", seed: int = 0
) -> NDArray[np.int16]:
    """Assigns workers to `sources`.

    Parameters
    ----------
    dag
        The operands.
    sources
        The operands to place, without repetition: initial operands that are not pinned and not stored.
    workers
        Slots of each worker, 0 or more; a worker's share of `sources` is proportional.
    search
        "bfs", "dfs", "random", "bfs-v1" (see `bfs_v1`) or "ncd" (see `partition.ncd`, which gives no equal shares).
    seed
        For "random", and for ties of "bfs-v1"; the other searches are deterministic.

    Returns
    -------
    ndarray of int16, shape (dag.n,)
        Index into `workers`, -1 for operands that are not in `sources`.

    Raises
    ------
    GraphError
        If there is no slot to place an operand on, or no such search.

    Notes
    -----
    The five steps of the documents, made precise. (1) The worker with the largest share left, the first of equals,
    starts at the first operand of `sources` without a worker. (2, 3) From there the undirected graph is searched;
    an operand counts at its first visit by any search, and a visited operand of `sources` goes to the worker. (4)
    The worker's turn ends when more operands were counted than a worker's average, or when its share is full; a
    search that ends before restarts at the next operand of `sources`. (5) Turns go on until all shares are full.
    Depth first takes predecessors before successors, so siblings stay together.

    Examples
    --------
    >>> tree = Dag.from_edges(7, [0, 1, 2, 3, 4, 5], [4, 4, 5, 5, 6, 6])
    >>> assign_initial(tree, [0, 1, 2, 3], [1, 1]).tolist()
    [0, 0, 1, 1, -1, -1, -1]
    """
    if search not in SEARCHES:
        raise GraphError(f"no search {search!r} for first workers; choose one of {', '.join(SEARCHES)}")
    initial = np.asarray(sources, np.int64)
    assigned = np.full(dag.n, -1, np.int16)
    quota = shares(len(initial), workers)
    if search == "random":
        assigned[initial] = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(quota)), quota))
    elif search == "bfs-v1":
        return assign_bfs_v1(dag, initial, quota, seed=seed)
    elif search == "ncd" and len(initial):
        assigned[initial] = assign_ncd(dag, workers)[initial]
    elif len(initial):
        found = c_planners.search(dag, initial, quota, depth_first=search == "dfs")
        if found is None:
            _search(dag, initial.tolist(), quota, assigned, depth_first=search == "dfs")
        else:
            assigned[:] = found
    return assigned


def shares(count: int, workers: Sequence[int]) -> list[int]:
    """Divides `count` operands in proportion to slots; the largest shares get one of the remaining operands each.

    Examples
    --------
    >>> shares(10, [1, 3]), shares(5, [1, 1, 1])
    ([2, 8], [2, 2, 1])
    """
    total = sum(workers)
    if count and total <= 0:
        raise GraphError(f"{count} operands to place and no worker has a slot; start a worker first")
    quota = [count * slots // total for slots in workers] if count else [0] * len(workers)
    largest = sorted(range(len(quota)), key=lambda worker: (-quota[worker], -workers[worker], worker))
    for worker in [worker for worker in largest if workers[worker]][: count - sum(quota)]:
        quota[worker] += 1
    return quota


def _search(dag: Dag, sources: list[int], quota: list[int], assigned: NDArray[np.int16], depth_first: bool) -> None:
    """Runs the five steps; writes `assigned` and uses up `quota`."""
    near_by = neighbours(dag)
    limit = dag.n / len(quota)
    worker_of = [-1] * dag.n
    is_open = bytearray(dag.n)  # an operand of `sources` without a worker
    for source in sources:
        is_open[source] = 1
    passes = bytearray(dag.n)  # 0: not counted yet
    stamp = [0] * dag.n  # the last search that visited the operand
    searches = 0
    starts = iter(sources)
    while any(quota):
        worker = max(range(len(quota)), key=quota.__getitem__)  # the first of equals
        spread, left = 0, quota[worker]
        while left and spread <= limit:
            start = next(source for source in starts if is_open[source])
            searches += 1
            stamp[start] = searches
            line = deque([start])
            take = line.pop if depth_first else line.popleft
            while line:
                operand = take()
                if depth_first:
                    if stamp[operand] == -searches:
                        continue  # it was on the stack twice
                    stamp[operand] = -searches
                if passes[operand]:
                    if passes[operand] > _PASSES:
                        continue
                else:
                    spread += 1
                    if is_open[operand]:
                        is_open[operand] = 0
                        worker_of[operand] = worker
                        left -= 1
                    if spread > limit or not left:
                        passes[operand] = 1
                        break
                passes[operand] += 1
                around = near_by[operand]
                if depth_first:
                    line.extend(near for near in reversed(around) if stamp[near] != -searches)
                else:
                    for near in around:
                        if stamp[near] != searches:
                            stamp[near] = searches
                            line.append(near)
        quota[worker] = left
    assigned[:] = worker_of
