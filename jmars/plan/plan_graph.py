"""The planners' input: `PlanGraph`, operands with their costs, and `Workers`, the machines as numbers.

An operand has seconds on a core of speed 1, output bytes, scratch bytes, devices and pins. No planner changes a
`PlanGraph`. `Workers` are cores, speed, memory, links and disks: the scheduler describes the cluster, a user describes
other machines for a what-if plan.

Mars 0.1 scheduled by depth, number of readers and number of descendants of an operand. A descendant counts once per
path to the descendant, so `descendant_size` is exact for trees and an overestimate for other graphs. The size is a
float, since the number of paths grows exponentially.
Source: docs/explanation/seeds.md, "Graph thoughts", "Initial worker assignment"; Mars v0.1 `scheduler/graph.py`,
`scan_node`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph import Dag, levels

ANY, CPU, GPU = 0, 1, 2  # devices
GPU_ONLY = 3  # in a `JobTable`: an operand that may run on no core; plans count it as GPU


def is_for_gpu(device: bytes, operand: int) -> bool:
    """Whether an operand is planned for a GPU, by the devices of a `JobTable`.

    Examples
    --------
    >>> is_for_gpu(bytes([CPU, GPU, GPU_ONLY]), 1), is_for_gpu(b"", 1)
    (True, False)
    """
    return bool(device) and device[operand] in (GPU, GPU_ONLY)


@dataclass(frozen=True, eq=False)
class PlanGraph:
    """Operands 0..n-1 with costs, sizes and placement constraints; the arrays have shape (n,) and are read-only.

    Attributes
    ----------
    dag
        The operands; an edge leads from an operand to a reader of its chunk.
    cost
        Seconds on a core of speed 1.
    nbytes
        Bytes of the output chunk.
    work
        Bytes of scratch while the operand runs.
    result
        Whether the chunk is kept after the run.
    device
        `ANY`, `CPU` or `GPU`.
    pin
        The only worker that may run the operand, or -1.
    op
        Row in the caller's table of operations, or -1; operands of the same row cost the same.

    `PlanGraph.build` makes a graph from numbers or arrays.
    """

    dag: Dag
    cost: NDArray[np.float64]
    nbytes: NDArray[np.int64]
    work: NDArray[np.int64]
    result: NDArray[np.bool_]
    device: NDArray[np.uint8]
    pin: NDArray[np.int16]
    op: NDArray[np.int32]

    def __post_init__(self) -> None:
        for name in ("cost", "nbytes", "work", "result", "device", "pin", "op"):
            array = getattr(self, name)
            if array.shape != (self.dag.n,):
                raise GraphError(f"{name} has shape {array.shape}; give one entry for each of {self.dag.n} operands")
            array.flags.writeable = False
        for name in ("cost", "nbytes", "work"):
            array = getattr(self, name)
            if self.dag.n and not (array.min() >= 0 and np.isfinite(array.max())):  # NaN is caught by the first
                raise GraphError(f"{name} must be 0 or more for each operand; the smallest given is {array.min()}")

    @classmethod
    def build(
        cls,
        dag: Dag,
        cost: ArrayLike,
        nbytes: ArrayLike,
        *,
        work: ArrayLike = 0,
        result: ArrayLike | None = None,
        device: ArrayLike = ANY,
        pin: ArrayLike = -1,
        op: ArrayLike = -1,
    ) -> PlanGraph:
        """Makes a graph from numbers or arrays; a number holds for every operand. `result` None: the sinks.

        Raises
        ------
        GraphError
            If an array has the wrong length, or a cost or size is negative or no number.

        Examples
        --------
        >>> graph = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), cost=1.0, nbytes=[8, 8, 16])
        >>> graph.n, graph.result.tolist(), graph.cost.tolist()
        (3, [False, False, True], [1.0, 1.0, 1.0])
        """
        kept = (dag.out_degree == 0) if result is None else result
        return cls(
            dag,
            filled(cost, np.float64, dag.n),
            filled(nbytes, np.int64, dag.n),
            filled(work, np.int64, dag.n),
            filled(kept, np.bool_, dag.n),
            filled(device, np.uint8, dag.n),
            filled(pin, np.int16, dag.n),
            filled(op, np.int32, dag.n),
        )

    @property
    def n(self) -> int:
        """Number of operands."""
        return self.dag.n

    def digest(self) -> bytes:
        """16 bytes, equal for graphs that may share a plan: a hash of all fields but the costs."""
        state = xxhash.xxh3_128()
        structure: tuple[NDArray[Any], ...] = (self.dag.pred_ptr, self.dag.pred_idx)
        for array in (*structure, self.nbytes, self.work, self.result, self.device, self.pin, self.op):
            state.update(array.data)
        return state.digest()


def contract(graph: PlanGraph, label: ArrayLike) -> PlanGraph:
    """Contracts groups of operands: the graph with groups of `graph`'s operands as operands.

    Parameters
    ----------
    graph
        The operands.
    label
        Group of each operand, shape (n,), from 0 on without a gap.

    Returns
    -------
    PlanGraph
        A group costs the sum of its members' costs and writes the chunks that leave the group or are results; chunks
        that stay inside count as scratch.

    Raises
    ------
    GraphError
        If a group's members are pinned to different workers or devices. A cycle of groups is not detected here but by
        `graph.order.levels`.

    Examples
    --------
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=8)
    >>> both = contract(line, [0, 0, 1])
    >>> both.cost.tolist(), both.nbytes.tolist(), both.work.tolist()
    ([2.0, 1.0], [8, 8], [8, 0])
    """
    group = np.asarray(label, np.int64)
    k = int(group.max()) + 1 if len(group) else 0
    src, dst = graph.dag.edges()
    crosses = group[src] != group[dst]
    leaves = graph.result.copy()
    leaves[src[crosses]] = True
    leaves[graph.dag.sinks()] = True
    work = np.zeros(k, np.int64)
    np.maximum.at(work, group, graph.work)
    return PlanGraph.build(
        Dag.from_edges(k, group[src[crosses]], group[dst[crosses]]),
        np.bincount(group, graph.cost, k),
        _sum(group[leaves], graph.nbytes[leaves], k),
        work=work + _sum(group[~leaves], graph.nbytes[~leaves], k),
        result=np.bincount(group[graph.result], minlength=k) > 0,
        device=_common(group, graph.device, ANY, k, "devices"),
        pin=_common(group, graph.pin, -1, k, "workers"),
    )


def volume(graph: PlanGraph, assign: ArrayLike) -> int:
    """Bytes moved between workers when every chunk goes once to all other workers with a reader.

    Examples
    --------
    >>> fan = PlanGraph.build(Dag.from_edges(4, [0, 0, 0], [1, 2, 3]), cost=1.0, nbytes=8)
    >>> volume(fan, [0, 1, 1, 2])
    16
    """
    worker = np.asarray(assign, np.int64)
    src, dst = graph.dag.edges()
    apart = worker[src] != worker[dst]
    width = int(worker.max(initial=0)) + 1
    return int(graph.nbytes[np.unique(src[apart] * width + worker[dst[apart]]) // width].sum())


def filled(given: ArrayLike, dtype: type[np.generic], *shape: int) -> NDArray[Any]:
    """A copy of `given`, or an array of `shape` filled with the number `given`."""
    array: NDArray[Any] = np.array(given, dtype)
    return np.full(shape, array) if array.ndim == 0 else array


def _sum(group: NDArray[np.int64], values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Sum of whole numbers by group, exact above 2⁵³."""
    total = np.zeros(k, np.int64)
    np.add.at(total, group, values)
    return total


def _common(group: NDArray[np.int64], wish: NDArray[Any], free: int, k: int, what: str) -> NDArray[np.int64]:
    """The common constraints of the groups' members; `free` for groups without constraint."""
    some = wish != free
    wished = np.full(k, free, np.int64)
    wished[group[some]] = wish[some]
    if np.any(torn := wished[group[some]] != wish[some]):
        raise GraphError(f"group {group[some][torn][0]} holds operands that want different {what}; split it")
    return wished


UNLIMITED = int(np.iinfo(np.int64).max)  # bytes; no plan fills so much memory


@dataclass(frozen=True, eq=False)
class Workers:
    """P workers; the arrays have shape (P,) unless stated otherwise and are read-only.

    Attributes
    ----------
    cores
        Operands that run at once, 1 or more.
    speed
        Relative to the core that `PlanGraph.cost` was measured on; 0.5 takes twice as long.
    memory
        Bytes for chunks and scratch; with `UNLIMITED` no chunk is spilled.
    device
        `CPU` or `GPU`.
    bandwidth
        Bytes a second from worker i to worker j, shape (P, P); the diagonal is not used.
    latency
        Seconds until the first byte of a transfer.
    disk
        Bytes a second, written or read.
    """

    cores: NDArray[np.int32]
    speed: NDArray[np.float64]
    memory: NDArray[np.int64]
    device: NDArray[np.uint8]
    bandwidth: NDArray[np.float64]
    latency: float
    disk: NDArray[np.float64]

    def __post_init__(self) -> None:
        p = len(self.bandwidth)
        if not p:
            raise GraphError("no worker to plan for; start a worker first")
        for name in ("cores", "speed", "memory", "device", "bandwidth", "disk"):
            array = getattr(self, name)
            if array.shape != ((p, p) if name == "bandwidth" else (p,)):
                raise GraphError(f"{name} has shape {array.shape} and there are {p} workers; give one entry for each")
            if name != "device" and not array.min() > 0:
                raise GraphError(f"{name} must be above 0 for each worker; the smallest given is {array.min()}")
            array.flags.writeable = False

    @classmethod
    def build(
        cls,
        n: int,
        *,
        cores: ArrayLike = 1,
        speed: ArrayLike = 1.0,
        memory: ArrayLike = UNLIMITED,
        device: ArrayLike = CPU,
        bandwidth: ArrayLike = 1.25e9,
        latency: float = 5e-4,
        disk: ArrayLike = 1e9,
    ) -> Workers:
        """Makes `n` workers from numbers or arrays; a number holds for every worker, or every pair of workers.

        Default links are 10 Gbit Ethernet and default disks write 1 GB/s.

        Raises
        ------
        GraphError
            If there is no worker, an array has the wrong shape, or an entry is 0 or less.

        Examples
        --------
        >>> pair = Workers.build(2, cores=[4, 8])
        >>> len(pair), pair.cores.tolist(), pair.rate
        (2, [4, 8], 12.0)
        """
        return cls(
            filled(cores, np.int32, n),
            filled(speed, np.float64, n),
            filled(memory, np.int64, n),
            filled(device, np.uint8, n),
            filled(bandwidth, np.float64, n, n),
            float(latency),
            filled(disk, np.float64, n),
        )

    def __len__(self) -> int:
        return len(self.cores)

    def first(self, n: int) -> Workers:
        """The first `n` workers, and the links between them.

        Examples
        --------
        >>> Workers.build(3, cores=[4, 8, 1]).first(2).cores.tolist()
        [4, 8]
        """
        rows = {name: getattr(self, name)[:n] for name in ("cores", "speed", "memory", "device", "disk")}
        return replace(self, bandwidth=self.bandwidth[:n, :n], **rows)

    @property
    def rate(self) -> float:
        """Seconds of `PlanGraph.cost` computed per second by all cores together."""
        return float((self.cores * self.speed).sum())

    @property
    def seconds_per_byte(self) -> float:
        """Mean over the links between different workers; 0 with a single worker."""
        apart = ~np.eye(len(self), dtype=bool)
        return float((1 / self.bandwidth[apart]).mean()) if len(self) > 1 else 0.0

    def able(self, graph: PlanGraph) -> list[tuple[int, ...]]:
        """Workers that may run the operands, by pin and device; operands with equal constraints share a tuple.

        Raises
        ------
        GraphError
            If an operand is pinned to a worker that is not here, or no worker has its device.
        """
        team_of, teams = self.teams(graph)
        return [teams[k] for k in team_of.tolist()]

    def teams(self, graph: PlanGraph) -> tuple[NDArray[np.int64], list[tuple[int, ...]]]:
        """`able` as a table: the operands' rows, shape (n,), and per row the workers, ascending.

        Raises
        ------
        GraphError
            As `able`.
        """
        wish = (graph.pin.astype(np.int64) + 1) * 256 + graph.device
        rows = np.flatnonzero(np.bincount(wish)) if graph.n and wish.min() >= 0 else np.unique(wish)
        teams = []
        for pin, device in zip((rows // 256 - 1).tolist(), (rows % 256).tolist(), strict=True):
            fit = tuple(w for w in range(len(self)) if pin in (-1, w) and device in (ANY, int(self.device[w])))
            if not fit:
                raise GraphError(
                    f"an operand wants worker {pin} and device {device} (-1 and {ANY}: any) and none of "
                    f"{len(self)} workers is that; add such a worker or remove the pin or device"
                )
            teams.append(fit)
        return np.searchsorted(rows, wish), teams


def allowed(
    graph: PlanGraph, workers: Workers, assigned: NDArray[np.int16], operands: NDArray[np.int64]
) -> NDArray[np.int16]:
    """Replaces, for `operands`, workers that may not run them by the first worker that may; returns `assigned`."""
    if np.any(graph.pin >= 0) or np.any(graph.device):
        team_of, teams = workers.teams(graph)
        for row, team in enumerate(teams):
            mine = operands[team_of[operands] == row]
            assigned[mine[~np.isin(assigned[mine], team)]] = team[0]
    return assigned


@dataclass(frozen=True, eq=False)
class GraphStatistics:
    """Depth (operands on the longest path from a source), readers, and descendants with the operand itself, by operand;
    shape (n,).
    """

    depth: NDArray[np.int64]
    successor_size: NDArray[np.int64]
    descendant_size: NDArray[np.float64]


def statistics(dag: Dag) -> GraphStatistics:
    """Depths, successors and descendants of operands.

    An operand that reads the same chunk twice counts as a single reader.

    Raises
    ------
    GraphError
        If the graph has a cycle.

    Examples
    --------
    >>> found = statistics(Dag.from_edges(4, [0, 1, 2], [2, 2, 3]))
    >>> found.depth.tolist(), found.successor_size.tolist(), found.descendant_size.tolist()
    ([0, 0, 1, 2], [1, 1, 1, 0], [3.0, 3.0, 2.0, 1.0])
    """
    depth = levels(dag)
    src, dst = dag.edges()
    src, dst = np.divmod(np.unique(src * dag.n + dst), dag.n) if dag.n else (src, dst)
    size = np.ones(dag.n)
    order = np.argsort(-depth[src], kind="stable")  # readers are deeper, so they are complete before they are added
    ends = np.flatnonzero(np.diff(depth[src[order]], append=-1)) + 1
    with np.errstate(over="ignore"):  # more paths than a float can count
        for a, b in pairwise([0, *ends.tolist()]):
            edges = order[a:b]
            np.add.at(size, src[edges], size[dst[edges]])
    return GraphStatistics(depth, np.bincount(src, minlength=dag.n), size)


def neighbours(dag: Dag) -> list[tuple[int, ...]]:
    """Neighbours of all operands: predecessors in input order, then successors ascending."""
    found = []
    preds, succs = tuple(dag.pred_idx.tolist()), tuple(dag.succ_idx.tolist())
    for (a, b), (c, d) in zip(pairwise(dag.pred_ptr.tolist()), pairwise(dag.succ_ptr.tolist()), strict=True):
        found.append(preds[a:b] + succs[c:d])
    return found
