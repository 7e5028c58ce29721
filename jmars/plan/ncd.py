"""Cascade's scheduler: operands with a near common descendant share a worker.

The rule reads the graph only, no costs and no bytes. `NearestCommonDescendant` is the rule as a policy of the
simulator, `assign_ncd` the resulting assignment. Distances are between all pairs of operands, so graphs are limited in
size; cascade takes O(n³) too.
Source: ECMWF earthkit-workflows, `cascade/scheduler/graph.py` and `assign.py`; docs/explanation/seeds.md, "Cost-driven
graph partitioning".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.graph import Dag, topological
from jmars.plan.order import rows
from jmars.plan.plan_graph import PlanGraph, Workers, neighbours
from jmars.plan.simulation import Simulation, simulate

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
    """A `Policy`: each worker serves a component of the graph and takes the ready operand nearest to its chunks.

    A free worker takes the first ready operand to which no other worker is nearer; else the operand with fewest inputs
    missing on the worker, of equals the operand farthest from a sink. A worker whose component has no ready operand
    moves to the heaviest component with ready operands.
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
    """Steps from the farther one of two operands to their nearest common descendant, shape (n, n).

    An operand is its own descendant; the distance of operands without common descendant is the number of layers of
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
