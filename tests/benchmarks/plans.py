"""Plans compared by simulation: seconds beside a bound that none beats, bytes moved and spilled, and bytes held.

    python tests/benchmarks/plans.py [--memory CHUNKS] [--noise SIGMA] [--slow SPEED] [POLICY ...]
    python tests/benchmarks/plans.py --check

Nine graphs (`plan_graphs.py`) on 8 workers of 2 cores with 10 Gbit Ethernet. --memory gives each worker room for that
many chunks of 100 MB, --noise spreads the costs after planning, --slow makes one worker slower, which plans know.
--check says whether "jmars lean" keeps its promises, and exits with 1 where it does not.
Source: PLANNING 3.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jmars.plan import (
    FollowInputs,
    Part,
    PlanGraph,
    SimResult,
    Workers,
    as_assignment,
    assign_bisect,
    assign_eft,
    assign_initial,
    choose,
    depth_first,
    lower_bound,
    merge,
    rank_by,
    simulate,
)
from jmars.plan.choose import PREFERENCES
from jmars.plan.order import sequential_peak
from tests.benchmarks.plan_graphs import CHUNK, NINE
from tests.benchmarks.plan_policies import AtRandom, DaskModel

Run = Callable[[PlanGraph, Workers, float], SimResult]


def follow(search: str, noise_seed: int = 1) -> Run:
    """Seeds 000, 001 and 003: initial operands by a search, the others after their inputs."""

    def run(graph: PlanGraph, workers: Workers, noise: float) -> SimResult:
        first = assign_initial(graph.dag, graph.dag.sources(), workers.cores.tolist(), search)
        rank = rank_by("mars", graph)
        return simulate(graph, workers, first, rank, policy=FollowInputs(), noise=noise, seed=noise_seed, evict="lru")

    return run


def dynamic(make: Callable[[], object]) -> Run:
    """Everything is placed while it runs."""

    def run(graph: PlanGraph, workers: Workers, noise: float) -> SimResult:
        nobody = np.full(graph.n, -1)
        return simulate(graph, workers, nobody, rank_by("dfs", graph), policy=make(), noise=noise, seed=1, evict="lru")

    return run


def cascade(partition: Callable[..., list[Part]], **options: bool) -> Run:
    """Seed 004: parts of at most a worker's share of the work."""

    def run(graph: PlanGraph, workers: Workers, noise: float) -> SimResult:
        parts = partition(graph, workers, quota=graph.cost.sum() / len(workers), **options)
        rank = rank_by("dfs", graph)
        return simulate(graph, workers, as_assignment(parts, graph.n), rank, noise=noise, seed=1)

    return run


def eft(price: float, order: str) -> Run:
    def run(graph: PlanGraph, workers: Workers, noise: float) -> SimResult:
        assign = assign_eft(graph, workers, rank_by("blevel", graph, workers.seconds_per_byte), price=price)
        rank = rank_by(order, graph, workers.seconds_per_byte)
        return simulate(graph, workers, assign, rank, noise=noise, seed=1)

    return run


def halves(order: str) -> Run:
    def run(graph: PlanGraph, workers: Workers, noise: float) -> SimResult:
        assign = assign_bisect(graph, workers, rank_by("dfs", graph))
        rank = rank_by(order, graph, workers.seconds_per_byte)
        return simulate(graph, workers, assign, rank, noise=noise, seed=1)

    return run


def chosen(prefer: str) -> Run:
    def run(graph: PlanGraph, workers: Workers, noise: float) -> SimResult:
        plan = choose(graph, workers, prefer=prefer, budget=None).plan
        return simulate(graph, workers, plan.assign, plan.rank, noise=noise, seed=1)

    return run


POLICIES: dict[str, Run] = {
    "random, dynamic": dynamic(AtRandom),
    "seeds 000/001: bfs": follow("bfs"),
    "seed 003: dfs": follow("dfs"),
    "cascade merge": cascade(merge, convex=False),
    "cascade, convex": cascade(merge, convex=True),
    "cascade depth first": cascade(depth_first),
    "eft 0 + blevel": eft(0.0, "blevel"),
    "eft 3 + blevel": eft(3.0, "blevel"),
    "eft 3 + dfs": eft(3.0, "dfs"),
    "halves + blevel": halves("blevel"),
    "halves + dfs": halves("dfs"),
    "dask model, steals": dynamic(lambda: DaskModel(steal=True)),
    "dask model": dynamic(lambda: DaskModel(steal=False)),
    **{f"jmars {prefer}": chosen(prefer) for prefer in PREFERENCES},
}


@dataclass
class Row:
    """What one policy reached on each graph."""

    ratio: list[float]  # makespan / lower bound
    moved: list[float]  # GB
    spilled: list[float]  # GB
    held: list[float]  # peak of all workers together / peak of one core that runs depth first
    seconds: float  # to plan and simulate


def measure(names: list[str], workers: Workers, noise: float) -> dict[str, Row]:
    """All policies on all graphs."""
    graphs = {name: make() for name, make in NINE.items()}
    lean = {name: sequential_peak(graph, rank_by("dfs", graph)) for name, graph in graphs.items()}
    bound = {name: lower_bound(graph, workers) for name, graph in graphs.items()}
    rows = {}
    for name in names:
        row = Row([], [], [], [], 0.0)
        start = time.perf_counter()
        for key, graph in graphs.items():
            result = POLICIES[name](graph, workers, noise)
            row.ratio.append(result.makespan / bound[key])
            row.moved.append(result.moved / 1e9)
            row.spilled.append(result.spilled / 1e9)
            row.held.append(result.peak_total / lean[key])
        row.seconds = time.perf_counter() - start
        rows[name] = row
    return rows


def mean(values: list[float]) -> float:
    """Geometric."""
    return float(np.exp(np.log(values).mean()))


def check() -> int:
    """Print each promise with what is measured; how many are broken."""
    names = ["jmars lean", "dask model"]
    plain = measure(names, Workers.build(8, cores=2), 0.0)
    tight = measure(names, Workers.build(8, cores=2, memory=int(20 * CHUNK)), 0.0)
    noisy = measure(names[:1], Workers.build(8, cores=2), 0.3)
    slow = measure(names[:1], Workers.build(8, cores=2, speed=[0.5] + [1.0] * 7), 0.0)
    ours, model = plain["jmars lean"], plain["dask model"]
    promises = [
        ("makespan / lower bound, mean", mean(ours.ratio), 1.10),
        ("makespan / lower bound, worst", max(ours.ratio), 1.35),
        ("bytes moved / dask model's", sum(ours.moved) / sum(model.moved), 0.4),
        ("20 chunks a worker: makespan / lower bound", mean(tight["jmars lean"].ratio), 1.20),
        (
            "20 chunks a worker: spilled / dask model's",
            sum(tight["jmars lean"].spilled) / sum(tight["dask model"].spilled),
            0.5,
        ),
        ("noise 0.3: makespan / lower bound", mean(noisy["jmars lean"].ratio), 1.15),
        ("one worker known to run at half speed", mean(slow["jmars lean"].ratio), 1.25),
    ]
    for what, measured, most in promises:
        print(f"{what:45s} {measured:7.3f}  at most {most:.2f}  {'ok' if measured <= most else 'BROKEN'}")
    return sum(measured > most for _, measured, most in promises)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="whether the promises are kept")
    parser.add_argument("--memory", type=float, help="chunks of 100 MB that fit a worker")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--slow", type=float, default=1.0, help="speed of the first worker")
    parser.add_argument("policy", nargs="*", help=f"of {', '.join(POLICIES)}")
    given = parser.parse_args()
    if given.check:
        return int(check() > 0)
    limit = {} if given.memory is None else {"memory": int(given.memory * CHUNK)}
    workers = Workers.build(8, cores=2, speed=[given.slow] + [1.0] * 7, **limit)
    rows = measure(given.policy or list(POLICIES), workers, given.noise)
    print("makespan / lower bound, GB moved")
    print(f"{'':20s}" + "".join(f"{name:>13s}" for name in NINE))
    for name, row in rows.items():
        print(f"{name:20s}" + "".join(f"{r:7.2f}{m:6.1f}" for r, m in zip(row.ratio, row.moved, strict=True)))
    print(f"\n{'all nine':20s}{'mean':>8s}{'worst':>8s}{'GB moved':>10s}{'spilled':>9s}{'held':>7s}{'s':>7s}")
    for name, row in rows.items():
        figures = f"{mean(row.ratio):8.3f}{max(row.ratio):8.2f}{sum(row.moved):10.1f}{sum(row.spilled):9.1f}"
        print(f"{name:20s}{figures}{mean(row.held):7.1f}{row.seconds:7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
