"""Assigns workers to initial operands, the operands without inputs.

Other operands follow their inputs when they become ready, so only initial operands are placed before a run.
`assign_initial` gives every worker its share of the initial operands and keeps neighbours together.

"bfs-v1" is the search of Mars 0.1: the source with most descendants first, leftovers by majority vote. Two rules extend
it: an operand that reads only shuffles is initial too, and operands that the search has not placed take the worker of
most of their neighbours. Mars failed when candidates or placed neighbours ran out; here the worker with the largest
share left takes the rest.
Source: docs/explanation/seeds.md, "Initial worker assignment", "Preparing the graph"; Mars v0.1 `scheduler/graph.py`,
`place_initial_chunks`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import c_planners
from jmars.plan.ncd import assign_ncd
from jmars.plan.plan_graph import neighbours, statistics

SEARCHES = ("bfs", "dfs", "random", "bfs-v1", "ncd")

_MAX_VISITS = 8  # visits of an operand after it was counted; keeps the search linear


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
                        continue  # duplicate on the stack
                    stamp[operand] = -searches
                if passes[operand]:
                    if passes[operand] > _MAX_VISITS:
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


def initial_v1(dag: Dag, shuffles: ArrayLike | None = None) -> NDArray[np.int64]:
    """Operands without inputs or with shuffles as only inputs; `shuffles` are operands that only pass pieces on."""
    if shuffles is None:
        return dag.sources()
    src, dst = dag.edges()
    plain = ~_mask(dag.n, shuffles)[src]
    return np.flatnonzero(np.bincount(dst[plain], minlength=dag.n) == 0)


def assign_bfs_v1(
    dag: Dag, initial: ArrayLike, quota: Sequence[int], *, shuffles: ArrayLike | None = None, seed: int = 0
) -> NDArray[np.int16]:
    """Assigns workers to `initial`.

    Parameters
    ----------
    dag
        The operands.
    initial
        The operands to place, without repetition.
    quota
        Share of each worker; the shares sum to the number of `initial`.
    shuffles
        Operands that the search does not pass.
    seed
        For the order of operands with equally many descendants, and for tied votes.

    Returns
    -------
    ndarray of int16, shape (dag.n,)
        Index into `quota`, -1 for operands that are not in `initial`.

    Notes
    -----
    The worker with the largest share left takes the open operand with most descendants and searches breadth first
    the undirected graph from there. Visited operands without a worker count, and those without inputs go to the
    worker. The search stops after a placement if n / workers operands were counted or the share is full. Then all
    other operands take, breadth first from the initial operands, the worker of most of their neighbours.

    Examples
    --------
    >>> tree = Dag.from_edges(7, [0, 1, 2, 3, 4, 5], [4, 4, 5, 5, 6, 6])
    >>> found = assign_bfs_v1(tree, [0, 1, 2, 3], [2, 2])
    >>> int(found[0]) == int(found[1]) != int(found[2]) == int(found[3])
    True
    """
    rng = np.random.default_rng(seed)
    around, size = neighbours(dag), statistics(dag).descendant_size
    passed = _mask(dag.n, shuffles).tolist()
    first = np.asarray(initial, np.int64)
    line = rng.permutation(first)
    line = line[np.argsort(size[line], kind="stable")]
    may = np.zeros(dag.n, np.bool_)
    may[first] = True
    reads_nothing = ((dag.in_degree == 0) & may).tolist()
    left, worker_of = list(quota), [-1] * dag.n
    limit = dag.n / max(len(left), 1)
    todo = line.tolist()
    while todo and any(left):
        worker = max(range(len(left)), key=left.__getitem__)  # the first of equals
        start = todo.pop()
        if worker_of[start] >= 0:
            continue
        spread = placed = 0
        for v in _walk([start], around, passed):
            if worker_of[v] >= 0:
                continue
            spread += 1
            if reads_nothing[v]:
                worker_of[v] = worker
                placed += 1
                if spread >= limit or placed >= left[worker]:
                    break
        left[worker] -= placed
    if any(worker_of[v] < 0 for v in first.tolist()):
        _vote(around, passed, line.tolist(), worker_of, left, rng)
    assigned = np.full(dag.n, -1, np.int16)
    assigned[first] = np.array(worker_of, np.int16)[first]
    return assigned


def _walk(starts: list[int], around: list[tuple[int, ...]], passed: list[bool]) -> list[int]:
    """Operands in breadth-first order from `starts`, without shuffles."""
    met, order, queue = set(starts), [], deque(starts)
    while queue:
        v = queue.popleft()
        order.append(v)
        for u in around[v]:
            if u not in met and not passed[u]:
                met.add(u)
                queue.append(u)
    return order


def _vote(
    around: list[tuple[int, ...]],
    passed: list[bool],
    initial: list[int],
    worker_of: list[int],
    left: list[int],
    rng: np.random.Generator,
) -> None:
    """Gives unplaced operands the worker of most neighbours, repeatedly, then the worker with most share left."""
    order = _walk(initial, around, passed)
    wanted = set(initial)
    changed = True
    while changed:
        changed = False
        for v in order:
            votes = [worker_of[u] for u in around[v] if worker_of[u] >= 0]
            if worker_of[v] >= 0 or not votes:
                continue
            most = max(map(votes.count, votes))
            able = sorted({w for w in votes if votes.count(w) == most})
            worker_of[v] = able[int(rng.integers(len(able)))]
            left[worker_of[v]] -= v in wanted
            changed = True
    for v in initial:
        if worker_of[v] < 0:
            worker_of[v] = max(range(len(left)), key=left.__getitem__)
            left[worker_of[v]] -= 1


def _mask(n: int, operands: ArrayLike | None) -> NDArray[np.bool_]:
    mask = np.zeros(n, np.bool_)
    if operands is not None:
        mask[np.asarray(operands, np.int64)] = True
    return mask
