"""Initial workers as Mars 0.1 assigned them: the source with most descendants first, leftovers by majority vote.

Two rules extend `assign_initial`: an operand that reads only shuffles is initial too, and operands that the search has
not placed take the worker of most of their neighbours. `assign_initial` offers this search as "bfs-v1". Mars failed
when candidates or placed neighbours ran out; here the worker with the largest share left takes the rest.
Source: docs/explanation/seeds.md, "Initial worker assignment"; Mars v0.1 `scheduler/graph.py`, `place_initial_chunks`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.graph.dag import Dag
from jmars.plan.graph_statistics import neighbours, statistics

__all__ = ["assign_bfs_v1", "initial_v1"]


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
