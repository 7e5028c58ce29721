"""Calls the planners' C kernels on arrays; the Python function of the same task documents the result.

The functions check types, lengths and that all numbers fit into 64 bits; C cannot. Only graphs that `serves` accepts
may be given. None means that the kernel refused the input; the Python implementation then raises the error.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.graph import Dag
from jmars.native.loader import library
from jmars.plan.plan_graph import PlanGraph, Workers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NO_MEMORY, _REFUSED = -1, -2
_MOST_WORKERS = (
    2048  # the kernels keep a matrix of links between workers, 24 bytes each, and a bit each for every chunk
)
_LEVEL = np.dtype([("time", np.float64), ("worker", np.int64), ("used", np.int64)])

# i and n: numbers; I, F, B: arrays of int64, float64 and bytes; A: written by C
_KERNELS = {
    "jm_levels": "nIIII",
    "jm_b_level": "nIIIFF",
    "jm_t_level": "nIIIFF",
    "jm_liu": "nIIIIII",
    "jm_shares": "nIIIF",
    "jm_sequential_peak": "nIIIIBII",
    "jm_depth_first": "nIIIIIInII",
    "jm_backwards": "nIIIIIFI",
    "jm_eft": "nnIIIIFIIIIIIFFfffnI",
    "jm_bisect": "nnIIIIFFI",
    "jm_search": "nnIIIInInII",
    "jm_simulate": "nnIIIIFIIBIIIIIFIFFfnFFFIIIFAA",
}
_TYPES = {"I": np.dtype(np.int64), "F": np.dtype(np.float64), "B": np.dtype(np.uint8)}
_PLAIN = {"n": ctypes.c_int64, "f": ctypes.c_double}

_fits: weakref.WeakKeyDictionary[PlanGraph, bool] = weakref.WeakKeyDictionary()


def serves(graph: PlanGraph, workers: Workers | None = None) -> bool:
    """Whether the C kernels can plan a graph: the library is loaded, and all sums of bytes fit into 64 bits."""
    if library() is None or (workers is not None and len(workers) > _MOST_WORKERS):
        return False
    if graph not in _fits:
        most = float(graph.nbytes.max(initial=0)) + float(graph.work.max(initial=0))
        edges = 2.0 * graph.dag.m + graph.n
        _fits[graph] = edges < 2**31 and most * edges < 2**61
    return _fits[graph]


def levels(dag: Dag) -> tuple[Ints, Ints] | None:
    """Levels of the vertices, and the vertices by level and then index; None for a cycle or without the library."""
    if library() is None:
        return None
    level, order = np.empty(dag.n, np.int64), np.empty(dag.n, np.int64)
    seen = _call("jm_levels", dag.n, dag.succ_ptr, dag.succ_idx, level, order)
    return (level, order) if seen == dag.n else None


def b_level(graph: PlanGraph, order: Ints, edge: Floats) -> Floats:
    """Longest path to an end of the graph, in seconds; `edge` holds the seconds to move the operands' chunks."""
    level, dag = graph.cost.copy(), graph.dag
    _call("jm_b_level", dag.n, dag.succ_ptr, dag.succ_idx, order, edge, level)
    return level


def t_level(graph: PlanGraph, order: Ints, done: Floats) -> Floats:
    """Longest path from a source, in seconds; `done` holds the seconds to run the operands and move their chunks."""
    level, dag = np.empty(graph.n), graph.dag
    _call("jm_t_level", dag.n, dag.pred_ptr, dag.pred_idx, order, done, level)
    return level


def liu(graph: PlanGraph, order: Ints) -> Ints:
    """Liu's keys of operands, in bytes; see `order.ranks.liu_key`."""
    peak, dag = np.empty(graph.n, np.int64), graph.dag
    _call("jm_liu", dag.n, dag.pred_ptr, dag.pred_idx, dag.succ_ptr, order, graph.nbytes, peak)
    return peak


def shares(graph: PlanGraph, order: Ints) -> Floats:
    """Work behind an operand, the operand's own cost included; see `assign.contiguous`."""
    weight, dag = graph.cost.copy(), graph.dag
    _call("jm_shares", dag.n, dag.pred_ptr, dag.pred_idx, order, weight)
    return weight


def sequential_peak(graph: PlanGraph, order: Ints) -> int:
    """Most bytes held when a single core runs all operands in `order`."""
    dag, peak = graph.dag, np.zeros(1, np.int64)
    left, keep = dag.out_degree, graph.result.view(np.uint8)
    _call("jm_sequential_peak", dag.n, dag.pred_ptr, dag.pred_idx, order, graph.nbytes, keep, left, peak)
    return int(peak[0])


def depth_first(graph: PlanGraph, gain: Ints, sinks: Ints) -> Ints:
    """The depth-first rank; `sinks` are visited in the order given."""
    rank, dag = np.empty(graph.n, np.int64), graph.dag
    edges = dag.pred_ptr, dag.pred_idx, dag.succ_ptr, dag.succ_idx
    _call("jm_depth_first", dag.n, *edges, graph.nbytes, gain, len(sinks), sinks, rank)
    return rank


def backwards(graph: PlanGraph, late: Floats) -> Ints:
    """The rank of `order.min_memory.rank_backwards`; `late` is `t_level`."""
    rank, dag = np.empty(graph.n, np.int64), graph.dag
    edges = dag.pred_ptr, dag.pred_idx, dag.succ_ptr, dag.succ_idx
    _call("jm_backwards", dag.n, *edges, graph.nbytes, late, rank)
    return rank


def eft(
    graph: PlanGraph,
    workers: Workers,
    order: Ints,
    wish: Ints,
    where: Ints,
    price: float,
    pull: float,
    few: int,
) -> Ints | None:
    """Workers of operands, by earliest finish time; `where` holds the workers of stored chunks, else -1."""
    n, p, dag = graph.n, len(workers), graph.dag
    if len(order) != n or len(wish) != n or len(where) != n or few < 1 or _above(p, wish, where):
        return None
    team_of, teams = workers.teams(graph)
    team_ptr = np.cumsum([0, *map(len, teams)])
    team = np.array([w for members in teams for w in members], np.int64)
    found = np.array(where, np.int64)
    answer = _call(
        "jm_eft",
        *(n, p, dag.pred_ptr, dag.pred_idx, dag.succ_ptr, order, graph.cost, graph.nbytes, wish),
        *(team_of, team_ptr, team),
        *(workers.cores.astype(np.int64), workers.speed, 1 / workers.bandwidth, workers.latency, price, pull),
        *(few, found),
    )
    return None if answer else found


def bisect(graph: PlanGraph, order: Ints, cost: Floats, rate: Floats) -> Ints | None:
    """Workers of operands, by recursive bisection."""
    if len(order) != graph.n:
        return None
    assigned, dag = np.empty(graph.n, np.int64), graph.dag
    _call("jm_bisect", dag.n, len(rate), dag.succ_ptr, dag.succ_idx, order, graph.nbytes, cost, rate, assigned)
    return assigned


def search(dag: Dag, sources: Ints, quota: list[int], depth_first: bool) -> Ints | None:
    """Initial workers of `sources`, breadth or depth first; None without the library."""
    if library() is None:
        return None
    if len(sources) and (sources.min() < 0 or sources.max() >= dag.n):
        return None
    found, edges = np.empty(dag.n, np.int64), (dag.pred_ptr, dag.pred_idx, dag.succ_ptr, dag.succ_idx)
    left = np.array(quota, np.int64)
    answer = _call("jm_search", dag.n, len(quota), *edges, len(sources), sources, int(depth_first), left, found)
    return None if answer else found


@dataclass(frozen=True, eq=False)
class Run:
    """Result of `jm_simulate`: either `misfit` (operand, worker, bytes), or the numbers of the run."""

    misfit: tuple[int, int, int] | None
    makespan: float
    moved: int
    spilled: int
    reloaded: int
    peak_total: int
    done: int  # operands
    peak: Ints
    busy: Floats
    start: Floats
    end: Floats
    memory: list[tuple[float, int, int]]


def simulate(
    graph: PlanGraph,
    workers: Workers,
    cost: Floats,
    rank: Ints,
    assign: Ints,
    home: Ints,
    by_plan: bool,
    memory: bool,
) -> Run | None:
    """Simulates a run without a policy; `memory` asks for the bytes over time."""
    n, p, dag = graph.n, len(workers), graph.dag
    if not len(rank) == len(assign) == len(home) == n or _above(p, assign, home):
        return None
    start, end, busy, makespan = np.zeros(n), np.zeros(n), np.zeros(p), np.zeros(1)
    peak, totals, wrong = np.zeros(p, np.int64), np.zeros(5, np.int64), np.zeros(3, np.int64)
    levels, count = ctypes.c_void_p(), ctypes.c_int64()
    answer = _call(
        "jm_simulate",
        *(n, p, dag.pred_ptr, dag.pred_idx, dag.succ_ptr, dag.succ_idx, cost, graph.nbytes, graph.work),
        *(graph.result.view(np.uint8), rank, in_order(rank), assign, home),
        *(workers.cores.astype(np.int64), workers.speed, workers.memory, workers.disk, workers.bandwidth),
        *(workers.latency, int(by_plan), start, end, busy, peak, totals, wrong, makespan),
        *(ctypes.byref(levels) if memory else None, ctypes.byref(count)),
    )
    curve: list[tuple[float, int, int]] = []
    if levels.value:
        curve = np.frombuffer(ctypes.string_at(levels.value, count.value * _LEVEL.itemsize), _LEVEL).tolist()
        _free(levels)
    misfit = (int(wrong[0]), int(wrong[1]), int(wrong[2])) if answer else None
    moved, spilled, reloaded, peak_total, done = totals.tolist()
    return Run(misfit, float(makespan[0]), moved, spilled, reloaded, peak_total, done, peak, busy, start, end, curve)


def in_order(rank: Ints) -> Ints:
    """Operands sorted by rank, then by index; fast if the ranks are a permutation of 0..n-1, as usual."""
    n = len(rank)
    if n and rank.min() >= 0 and rank.max() < n:
        order = np.full(n, -1)
        order[rank] = np.arange(n)
        if order.min() >= 0:
            return order
    return np.argsort(rank, kind="stable")


def _above(p: int, *assignments: Ints) -> bool:
    """Whether an assignment names a worker beyond the last, p - 1."""
    return any(int(workers.max(initial=-1)) >= p for workers in assignments)


def _free(array: ctypes.c_void_p) -> None:
    loaded = library()
    assert loaded is not None
    loaded.jm_free.restype, loaded.jm_free.argtypes = None, (ctypes.c_void_p,)
    loaded.jm_free(array)


def _call(name: str, *given: Any) -> int:
    """Calls a kernel; arrays must have the kernel's types, and output arrays must be contiguous."""
    loaded = library()
    assert loaded is not None
    kernel = getattr(loaded, name)
    wanted = _KERNELS[name]
    assert len(given) == len(wanted), name
    kept: list[NDArray[Any]] = []
    passed: list[Any] = []
    for value, kind in zip(given, wanted):
        if kind in _TYPES:
            assert value.dtype == _TYPES[kind], f"{name}: {value.dtype} for {kind}"
            kept.append(np.ascontiguousarray(value))
            passed.append(ctypes.c_void_p(kept[-1].__array_interface__["data"][0]))
        else:
            passed.append(_PLAIN[kind](value) if kind in _PLAIN else value)
    kernel.restype = ctypes.c_int64
    answer: int = kernel(*passed)
    if answer == _NO_MEMORY:
        raise MemoryError(f"no memory to plan this graph ({name}); plan a smaller one, or with JMARS_NATIVE=0")
    return answer
