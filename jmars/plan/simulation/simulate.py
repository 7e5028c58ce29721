"""Simulates a plan in virtual time to predict its cost.

`simulate` is a pure function: the same plan gives the same result to the last bit. `choose` scores candidate plans by
simulation.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.event_loop import Policy, Simulation, misfit, never_ran
from jmars.plan.simulation.sim_result import SimResult, Trace
from jmars.plan.workers import Workers

__all__ = ["simulate"]


def simulate(
    graph: PlanGraph,
    workers: Workers,
    assign: ArrayLike,
    rank: ArrayLike,
    *,
    evict: str = "plan",
    noise: float = 0.0,
    seed: int = 0,
    placed: ArrayLike | None = None,
    policy: Policy | None = None,
    trace: bool | Literal["times"] = False,
) -> SimResult:
    """Runs a plan in virtual time.

    A worker runs the ready operand of lowest rank as soon as a core is free and the operand's inputs, output and
    scratch fit beside the chunks that running operands hold. A chunk is sent to each worker with a reader as soon as
    the chunk exists and both ends of the link are free; the chunk is freed after its last reader. Chunks that do not
    fit are spilled to disk.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    assign
        Worker of each operand, shape (n,); -1 leaves it to `policy`.
    rank
        Lower ranks run first, shape (n,), all different.
    evict
        "plan": the chunk that the plan reads last is spilled first; "lru": the least recently used chunk.
    noise
        Spread of the costs: every cost is multiplied by a lognormal number of mean 1 and this sigma, drawn with `seed`.
    placed
        Worker that stores an operand's chunk before the run, so that the operand does not run; -1: none. Shape (n,).
    policy
        Places operands without a worker during the run.
    trace
        Whether to keep the times of all operands and the bytes over time; "times": only the former.

    Raises
    ------
    GraphError
        If an operand has no worker and no policy places it, or a worker does not exist, or the graph has a cycle.
    MemoryLimitError
        If one operand alone does not fit in its worker's memory.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(2, [0], [1]), cost=[1.0, 2.0], nbytes=10**9)
    >>> pair = Workers.build(2, bandwidth=1e9, latency=0.0)
    >>> simulate(line, pair, [0, 0], [0, 1]).makespan, simulate(line, pair, [0, 1], [0, 1]).makespan
    (3.0, 4.0)
    """
    if evict not in ("plan", "lru"):
        raise GraphError(f"no eviction {evict!r}; choose plan or lru")
    costs = graph.cost
    if noise:
        costs = costs * np.random.default_rng(seed).lognormal(-(noise**2) / 2, noise, graph.n)
    ranks, wanted = np.asarray(rank, np.int64), np.asarray(assign, np.int64)
    home = np.full(graph.n, -1) if placed is None else np.asarray(placed, np.int64)
    if policy is None and serves(graph, workers):
        ran = c_planners.simulate(graph, workers, costs, ranks, wanted, home, evict == "plan", trace is True)
        if ran is not None:
            return _result(ran, workers, np.where((home < 0) & (wanted >= 0), wanted, -1), bool(trace))
    run = Simulation(graph, workers, costs, ranks, evict == "plan", policy, bool(trace), trace is True)
    return run.run(wanted.tolist(), home.tolist())


def _result(ran: c_planners.Run, workers: Workers, assign: NDArray[np.int64], trace: bool) -> SimResult:
    """Converts the C kernel's result to a `SimResult`; raises the kernel's errors."""
    if ran.misfit is not None:
        operand, worker, nbytes = ran.misfit
        raise misfit(operand, nbytes, worker, int(workers.memory[worker]))
    if ran.done != len(assign):
        raise never_ran(len(assign) - ran.done, len(assign))
    return SimResult(
        makespan=ran.makespan,
        moved=ran.moved,
        spilled=ran.spilled,
        reloaded=ran.reloaded,
        peak=ran.peak,
        peak_total=ran.peak_total,
        busy=ran.busy,
        assign=assign.astype(np.int16),
        trace=Trace(ran.start, ran.end, ran.memory) if trace else None,
    )
