"""Ways to plan a run, by name: the values of `what_if(policy=...)`.

"fast", "lean" and "memory" try several plans and take the best. Every other name is a way to choose workers, an order,
or both as in "halves/dfs", so that the planners of the five documents can be compared with the best plan.
Source: docs/explanation/seeds.md, "Initial worker assignment" and "Graph partitioning by merging".

Changes the machines of a plan for a what-if: other numbers of workers, other memory, other links.

Executors of a machine share its memory, so a planner sees each machine as one worker with several cores.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jmars import plan as planners
from jmars.deploy.memory import room_for_chunks
from jmars.errors import GraphError
from jmars.plan.assign import assign_bisect, assign_eft, assign_runs
from jmars.plan.best_plan import choose
from jmars.plan.choice import PREFERENCES, Candidate, choose_order
from jmars.plan.initial import SEARCHES, assign_initial, assign_ncd
from jmars.plan.order import RANKS, rank_by
from jmars.plan.partition import assign_km1, assign_metis
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.simulation import FollowInputs, Policy, SimResult, lower_bound, simulate
from jmars.units import parse_bytes

Rank = NDArray[np.int64]
Placed = NDArray[np.int16]

ORDERS = tuple(RANKS)


@dataclass(frozen=True, eq=False)
class PolicyPlan:
    """A plan by a named policy: machine and rank of each operand, and the plans tried."""

    name: str
    assign: NDArray[np.int16]  # machine of each operand; -1 where `follow` decides during the run
    rank: Rank
    placed: Placed  # machine that stores a chunk before the run, or -1
    follow: Callable[[], Policy] | None
    evict: str
    lower_bound: float  # seconds that no plan can beat
    tried: tuple[Candidate, ...] = ()

    def run(
        self, graph: PlanGraph, workers: Workers, noise: float = 0.0, seed: int = 0, trace: bool = False
    ) -> SimResult:
        """Simulates the plan."""
        policy = self.follow() if self.follow is not None else None
        return simulate(
            graph,
            workers,
            self.assign,
            self.rank,
            evict=self.evict,
            noise=noise,
            seed=seed,
            placed=self.placed,
            policy=policy,
            trace=trace,
        )


def _eft(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    return assign_eft(graph, workers, rank_by("blevel", graph, workers.seconds_per_byte), price=3.0, placed=placed)


def _halves(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    return assign_bisect(graph, workers, rank_by("dfs", graph))


def _runs(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    return assign_runs(graph, workers, rank_by("dfs", graph))


def _merge(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    parts = planners.merge(graph, workers, quota=graph.cost.sum() / len(workers), convex=True)
    return planners.as_assignment(parts, graph.n)


def _depth_first(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    return planners.as_assignment(planners.depth_first(graph, workers, quota=graph.cost.sum() / len(workers)), graph.n)


def _metis(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    return assign_metis(graph, workers, bands=4)


def _km1(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    return assign_km1(graph, workers)


def _ncd(graph: PlanGraph, workers: Workers, placed: Placed) -> NDArray[np.int16]:
    return assign_ncd(graph.dag, workers.cores.tolist())


# name: (workers of operands, the order that goes with it)
ASSIGNERS: dict[str, tuple[Callable[[PlanGraph, Workers, Placed], NDArray[np.int16]], str]] = {
    "eft": (_eft, "blevel"),
    "halves": (_halves, "dfs"),
    "runs": (_runs, "dfs"),
    "cascade-merge": (_merge, "dfs"),
    "cascade-dfe": (_depth_first, "dfs"),
    "metis": (_metis, "dfs"),
    "km1": (_km1, "dfs"),
    "ncd": (_ncd, "dfs"),
}


def spread_stored(held: NDArray[np.bool_], machines: int) -> Placed:
    """Spreads stored chunks over machines in order, an equal share each; -1 for chunks not stored.

    Examples
    --------
    >>> spread_stored(np.array([True, False, True]), 2).tolist()
    [0, -1, 1]
    """
    there = np.flatnonzero(held)
    placed = np.full(len(held), -1, np.int16)
    placed[there] = np.arange(len(there)) * machines // max(1, len(there))
    return placed


def policy_names() -> tuple[str, ...]:
    """All names that `plan_by` takes; an assigner and an order may be joined as "eft/dfs"."""
    return tuple(dict.fromkeys((*PREFERENCES, *SEARCHES, *ASSIGNERS, *ORDERS)))


def plan_by(name: str, graph: PlanGraph, workers: Workers, placed: Placed, budget: float | None = 0.3) -> PolicyPlan:
    """Plans a run by a named policy.

    Parameters
    ----------
    name
        A preference ("fast", "lean", "memory": the best of several plans), an assigner ("eft", "halves", "runs",
        "cascade-merge", "cascade-dfe", "metis", "km1", "ncd"; "bfs", "dfs", "random" assign initial operands as Mars
        does, and other operands follow their inputs), an order ("mars", "dfs", "blevel", "level", "wave"), or an
        assigner and an order as "halves/dfs". "dfs" alone is Mars's search; for the order write "eft/dfs".
    graph, workers
        The operands and the machines.
    placed
        Machine that already stores an operand's chunk, or -1, shape (n,).
    budget
        Seconds in which a preference may try plans; None tries all.

    Raises
    ------
    GraphError
        If there is no such name.
    MemoryLimitError
        If an operand alone does not fit.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> pair = PlanGraph.build(Dag.from_edges(3, [0, 1], [2, 2]), cost=1.0, nbytes=8)
    >>> planned = plan_by("halves/dfs", pair, Workers.build(2), np.full(3, -1, np.int16))
    >>> planned.name, sorted(planned.rank.tolist())
    ('halves/dfs', [0, 1, 2])
    """
    if name in PREFERENCES:
        if len(workers) == 1:  # as the scheduler does
            choice = choose_order(graph, workers, prefer=name, budget=budget, placed=placed.astype(np.int64))
        else:
            choice = choose(graph, workers, prefer=name, budget=budget, placed=placed)
        best, plan = choice.best, choice.plan
        made = f"{best.assigned_by}, {best.ranked_by}" if len(workers) > 1 else best.ranked_by
        return PolicyPlan(made, plan.assign, plan.rank, placed, None, "plan", choice.lower_bound, choice.tried)
    assigner, _, order = name.partition("/")
    if assigner in ORDERS and assigner not in SEARCHES and not order:
        assigner, order = "eft", assigner
    bound = lower_bound(graph, workers)
    if order and order not in ORDERS:
        raise GraphError(f"no order {order!r} in policy {name!r}; choose one of {', '.join(ORDERS)}")
    if assigner in SEARCHES and assigner not in ASSIGNERS:
        free = graph.dag.sources()
        free = free[placed[free] < 0]
        first = assign_initial(graph.dag, free, workers.cores.tolist(), assigner)
        rank = rank_by(order or "mars", graph, workers.seconds_per_byte)
        return PolicyPlan(name, first, rank, placed, FollowInputs, "lru", bound)
    if assigner not in ASSIGNERS:
        near = difflib.get_close_matches(assigner, policy_names(), 1)
        hint = f"did you mean {near[0]!r}? There are" if near else "there are"
        raise GraphError(f"no policy {name!r}; {hint} {', '.join(policy_names())}, and two joined as 'halves/dfs'")
    way, usual = ASSIGNERS[assigner]
    assign = np.where(placed >= 0, np.int16(-1), way(graph, workers, placed))
    rank = rank_by(order or usual, graph, workers.seconds_per_byte)
    name = name if len(workers) > 1 else order or usual  # one machine: only the order is chosen
    return PolicyPlan(name, assign, rank, placed, None, "plan", bound)


def change_machines(
    machines: Workers,
    *,
    workers: int | Sequence[int] | None = None,
    hosts: int | None = None,
    memory: str | int | None = None,
    bandwidth: str | float | None = None,
) -> Workers:
    """Copies machines with some of their properties changed.

    Parameters
    ----------
    workers
        Worker processes of each machine: a number, or a list with a number for each machine.
    hosts
        Number of machines; None means the length of `workers`, or the present number.
    memory
        Bytes for all processes of a machine, as `memory_limit` of a cluster; a text such as "2GiB" too.
    bandwidth
        Bytes a second between two machines; a text such as "100MiB" too.

    Raises
    ------
    ValueError
        If a number is below 1, a size cannot be read, or `hosts` contradicts `workers`.
    MemoryLimitError
        If `memory` leaves too little for arrays.

    Examples
    --------
    >>> pair = change_machines(Workers.build(1, cores=2), hosts=2, workers=4, bandwidth="100MiB")
    >>> pair.cores.tolist(), int(pair.bandwidth[0, 1])
    ([4, 4], 104857600)
    """
    try:
        one = None if workers is None or isinstance(workers, Sequence) else operator.index(workers)
        given = [operator.index(count) for count in workers] if isinstance(workers, Sequence) else None
        hosts = None if hosts is None else operator.index(hosts)
    except TypeError:
        raise TypeError(
            f"workers={workers!r} and hosts={hosts!r} cannot be counted; give whole numbers, or a list of workers, one "
            "for each machine"
        ) from None
    if given is not None and hosts not in (None, len(given)):
        raise ValueError(f"hosts={hosts} and workers={given} for {len(given)}; give one of them")
    now: list[int] = machines.cores.tolist()
    n = len(given) if given is not None else hosts if hosts is not None else len(now)
    if n < 1:
        raise ValueError(f"hosts must be 1 or more, not {n}")
    same = n == len(now)
    each = given or ([one] * n if one is not None else now if same else [max(now)] * n)
    if min(each) < 1:
        raise ValueError(f"workers must be 1 or more on each machine, not {min(each)}")
    limit = None if memory is None else parse_bytes(memory)
    rooms = machines.memory if same else np.full(n, machines.memory.max())
    links = machines.bandwidth if same else _mean_link(machines)
    return Workers.build(
        n,
        cores=each,
        speed=machines.speed if same else 1.0,
        memory=rooms if limit is None else [room_for_chunks(limit, count) for count in each],
        device=machines.device if same else int(machines.device[0]),
        bandwidth=links if bandwidth is None else float(parse_bytes(bandwidth)),
        latency=machines.latency,
        disk=machines.disk if same else float(machines.disk.mean()),
    )


def _mean_link(machines: Workers) -> float:
    """Mean bytes per second between two machines; 10 Gbit Ethernet for a single machine."""
    apart = ~np.eye(len(machines), dtype=bool)
    return float(machines.bandwidth[apart].mean()) if len(machines) > 1 else 1.25e9
