"""`PlanGraph`: the planners' input, a graph of operands with seconds, output bytes, scratch bytes, devices and pins.

Costs are seconds on a core of speed 1, sizes are bytes. No planner changes a `PlanGraph`.
Source: docs/explanation/seeds.md, "Graph thoughts".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph.dag import Dag

__all__ = ["ANY", "CPU", "GPU", "GPU_ONLY", "PlanGraph", "contract", "filled", "is_for_gpu", "volume"]

ANY, CPU, GPU = 0, 1, 2  # devices
GPU_ONLY = 3  # in a `JobTable`: an operand that may run on no core; in a plan it counts as GPU


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
    """Contracts groups of operands: the graph whose operands are groups of `graph`'s operands.

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
    """Bytes moved between workers when every chunk goes once to each other worker with a reader.

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
    """The common constraint of each group's members; `free` for groups without constraint."""
    some = wish != free
    wished = np.full(k, free, np.int64)
    wished[group[some]] = wish[some]
    if np.any(torn := wished[group[some]] != wish[some]):
        raise GraphError(f"group {group[some][torn][0]} holds operands that want different {what}; split it")
    return wished
