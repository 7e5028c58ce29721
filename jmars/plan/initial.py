"""Assigns workers to initial operands, the operands without inputs.

Other operands follow their inputs when they become ready, so only initial operands are placed before a run.
`assign_initial` gives every worker an equal share of the initial operands and keeps neighbours together.

"bfs-v1" is the search of Mars 0.1: the source with most descendants first, leftovers by majority vote. Two rules extend
the assignment: an operand that reads only shuffles is initial too, and operands that the search has not placed take the
worker of most of their neighbours. Mars failed when candidates or placed neighbours ran out; here the worker with the
largest share left takes the rest.

"ncd" is cascade's rule: operands with a near common descendant share a worker. The rule reads the graph only, no costs
and no bytes. `NearestCommonDescendant` is the rule as a policy of the simulator, `assign_ncd` the resulting assignment.
Distances are between all pairs of operands, so graphs are limited in size; cascade takes O(n³) too.
Source: docs/explanation/seeds.md, "Initial worker assignment", "Preparing the graph", "Cost-driven graph partitioning";
Mars v0.1 `scheduler/graph.py`, `place_initial_chunks`; ECMWF earthkit-workflows, `cascade/scheduler/graph.py` and
`assign.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph import Dag, topological
from jmars.plan import c_planners
from jmars.plan.order import rows
from jmars.plan.plan_graph import PlanGraph, Workers, neighbours, statistics
from jmars.plan.simulation import Simulation, simulate

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
    """Divides `count` operands in proportion to slots; the largest shares get a remaining operand each.

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


_MAX_NCD_OPERANDS = 4000  # operands; the distances take 2 n² bytes, and n³ steps in the worst case
_ABSENT = 100  # cost of an input that is not at the worker; an input on its way costs 1 in cascade


def assign_ncd(dag: Dag, slots: Sequence[int]) -> NDArray[np.int16]:
    """Assigns workers to operands as cascade does, with operands of equal cost.

    Parameters
    ----------
    dag
        The operands.
    slots
        Operands that each worker runs at a time; a worker with 0 gets none.

    Raises
    ------
    GraphError
        If no worker has a slot, or the graph is too large for distances between all pairs.

    Examples
    --------
    >>> assign_ncd(Dag.from_edges(6, [0, 1, 2, 3], [4, 4, 5, 5]), [1, 1]).tolist()
    [0, 0, 1, 1, 0, 1]
    """
    able = np.flatnonzero(np.asarray(slots) > 0)
    if not len(able):
        raise GraphError(f"{dag.n} operands to place and no worker has a slot; start a worker first")
    graph = PlanGraph.build(dag, 1.0, 1)
    workers = Workers.build(len(able), cores=np.asarray(slots)[able], latency=0.0)
    run = simulate(graph, workers, np.full(dag.n, -1), np.arange(dag.n), policy=NearestCommonDescendant(dag))
    return able[run.assign].astype(np.int16)


class NearestCommonDescendant:
    """A `Policy`: a worker serves a component of the graph and takes the ready operand nearest to its chunks.

    A free worker takes the first ready operand without a nearer worker; else the operand with fewest inputs missing on
    the worker, of equals the operand farthest from a sink. A worker without ready operands in the component moves to
    the heaviest component with ready operands.
    """

    def __init__(self, dag: Dag) -> None:
        self.component, self.value = components(dag), values(dag).tolist()
        self._between = distances(dag)
        self._weight = np.bincount(self.component, minlength=1).tolist()  # operands not placed yet
        self._open: list[dict[int, None]] = [{} for _ in self._weight]  # ready operands, oldest first
        self._near: NDArray[np.int32] | None = None  # from each worker to each operand
        self._serves: list[int] = []

    def ready(self, run: Simulation, operands: list[int]) -> None:
        """Adds ready operands to the queues of their components."""
        if self._near is None:
            self._near = np.full((run.p, run.n), np.iinfo(np.int32).max, np.int32)
            heaviest = np.argsort([-weight for weight in self._weight], kind="stable")
            self._serves = [int(heaviest[w % len(heaviest)]) for w in range(run.p)]
        for operand in operands:
            self._open[self.component[operand]][operand] = None

    def idle(self, run: Simulation, worker: int) -> bool:
        """Places a ready operand on `worker`, if there is any."""
        assert self._near is not None
        here = self._open[self._serves[worker]]
        if not here:
            waiting = [c for c, line in enumerate(self._open) if line]
            if not waiting:
                return False
            self._serves[worker] = max(waiting, key=lambda c: (self._weight[c], -c))
            here = self._open[self._serves[worker]]
        near = self._near[:, list(here)]
        best = np.flatnonzero((near[worker] == near.min(axis=0)) & (near[worker] < np.iinfo(np.int32).max))
        operand = list(here)[int(best[0])] if len(best) else min(here, key=lambda v: self._overhead(run, v, worker))
        del here[operand]
        self._weight[self._serves[worker]] -= 1
        for chunk in (operand, *run.inputs[operand]):
            np.minimum(self._near[worker], self._between[chunk], out=self._near[worker])
        run.place(operand, worker)
        return run.state[operand] == 1

    def _overhead(self, run: Simulation, operand: int, worker: int) -> tuple[int, int, int]:
        """Sort key: cost of missing inputs, then value, then index."""
        missing = sum([_ABSENT for chunk in run.inputs[operand] if not run.held[chunk] >> worker & 1])
        return missing, self.value[operand], operand


def components(dag: Dag) -> NDArray[np.int64]:
    """Numbers of the operands' connected components, shape (n,)."""
    around, found, count = neighbours(dag), np.full(dag.n, -1, np.int64), 0
    for start in range(dag.n):
        if found[start] >= 0:
            continue
        found[start], stack = count, [start]
        while stack:
            for u in around[stack.pop()]:
                if found[u] < 0:
                    found[u] = count
                    stack.append(u)
        count += 1
    return found


def values(dag: Dag) -> NDArray[np.int64]:
    """Values of operands, shape (n,): layers of the component minus the shortest path to a sink."""
    depth, near = _layers(dag), np.full(dag.n, np.iinfo(np.int64).max // 2)
    readers = rows(dag.succ_ptr, dag.succ_idx)
    for v in reversed(topological(dag).tolist()):
        near[v] = 1 + min([near[r] for r in readers[v]]) if readers[v] else 0
    return depth[components(dag)] - near if dag.n else near


def distances(dag: Dag) -> NDArray[np.int16]:
    """Steps from the farther of two operands to their nearest common descendant, shape (n, n).

    An operand is a descendant of itself; the distance of operands without common descendant is the number of layers of
    their component.

    Raises
    ------
    GraphError
        If the graph is too large.
    """
    if dag.n > _MAX_NCD_OPERANDS:
        raise GraphError(
            f"distances between all pairs of {dag.n} operands take {2 * dag.n**2 // 10**6} MB and long to find; "
            "use larger chunks, or another assigner"
        )
    far = _layers(dag)[components(dag)].astype(np.int16)
    ways = np.repeat(far[:, None], dag.n, axis=1)  # [from, to] along edges
    readers = rows(dag.succ_ptr, dag.succ_idx)
    for v in reversed(topological(dag).tolist()):
        for r in readers[v]:
            np.minimum(ways[v], ways[r] + 1, out=ways[v])
        ways[v, v] = 0
    between = np.repeat(far[:, None], dag.n, axis=1)
    for v in range(dag.n):
        met = np.flatnonzero(ways[v] < far[v])
        np.minimum(between[v], np.maximum(ways[v, met], ways[:, met]).min(axis=1), out=between[v])
    return between


def _layers(dag: Dag) -> NDArray[np.int64]:
    """Layers of components, counted from their sinks."""
    readers, level = rows(dag.succ_ptr, dag.succ_idx), np.ones(dag.n, np.int64)
    for v in reversed(topological(dag).tolist()):
        if readers[v]:
            level[v] = 1 + max([level[r] for r in readers[v]])
    found = components(dag)
    depth = np.zeros(int(found.max(initial=-1)) + 1, np.int64)
    np.maximum.at(depth, found, level)
    return depth
