"""Plans compared by simulation: seconds beside a bound that none beats, bytes moved and spilled, and bytes held.

    python -m tests.benchmarks plans [--memory CHUNKS] [--noise SIGMA] [--slow SPEED] [--no-extras] [POLICY ...]
    python -m tests.benchmarks plans --all
    python -m tests.benchmarks plans --check

Nine graphs (`plan_graphs.py`) on 8 workers of 2 cores with 10 Gbit Ethernet. --memory gives each worker room for that
many chunks of 100 MB, --noise spreads the costs after planning, --slow makes one worker slower, which no plan knows;
"jmars, replans" finds out while it runs (`plan_drift.py`). --no-extras plans as without pymetis and mtkahypar. --all
prints the summary of four settings. --check says whether "jmars lean" keeps its promises, and exits with 1 where not.
Source: PLANNING 3.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
    best_plan,
    choose,
    depth_first,
    lower_bound,
    merge,
    rank_by,
    simulate,
)
from jmars.plan.choice import PREFERENCES
from jmars.plan.initial import NearestCommonDescendant
from jmars.plan.order import sequential_peak
from jmars.plan.partition import assign_km1, assign_metis, has_km1, has_metis
from tests.benchmarks.plan_drift import run_and_see
from tests.benchmarks.plan_graphs import CHUNK, NINE
from tests.benchmarks.plan_policies import AtRandom, DaskModel


@dataclass(frozen=True)
class Setting:
    """What plans are made for, and what they then run on."""

    workers: Workers
    really: Workers
    noise: float = 0.0


@dataclass
class Outcome:
    """Of one run: seconds, and bytes."""

    makespan: float
    moved: int
    spilled: int
    peak_total: float


Run = Callable[[PlanGraph, Setting], SimResult | Outcome]


def follow(search: str) -> Run:
    """Seeds 000, 001 and 003: initial operands by a search, the others after their inputs."""

    def run(graph: PlanGraph, given: Setting) -> SimResult:
        first = assign_initial(graph.dag, graph.dag.sources(), given.workers.cores.tolist(), search)
        return go(graph, given, first, rank_by("mars", graph), policy=FollowInputs(), evict="lru")

    return run


def dynamic(make: Callable[[PlanGraph], object]) -> Run:
    """Everything is placed while it runs."""

    def run(graph: PlanGraph, given: Setting) -> SimResult:
        nobody = np.full(graph.n, -1)
        return go(graph, given, nobody, rank_by("dfs", graph), policy=make(graph), evict="lru")

    return run


def cascade(partition: Callable[..., list[Part]], **options: bool) -> Run:
    """Seed 004: parts of at most a worker's share of the work."""

    def run(graph: PlanGraph, given: Setting) -> SimResult:
        parts = partition(graph, given.workers, quota=graph.cost.sum() / len(given.workers), **options)
        return go(graph, given, as_assignment(parts, graph.n), rank_by("dfs", graph))

    return run


def assigned(assign: Callable[[PlanGraph, Workers], np.ndarray], order: str) -> Run:
    """An assignment and an order."""

    def run(graph: PlanGraph, given: Setting) -> SimResult:
        rank = rank_by(order, graph, given.workers.seconds_per_byte)
        return go(graph, given, assign(graph, given.workers), rank)

    return run


def eft(price: float, order: str) -> Run:
    """Earliest finish time with a price on bytes moved."""
    return assigned(lambda g, w: assign_eft(g, w, rank_by("blevel", g, w.seconds_per_byte), price=price), order)


def halves(order: str) -> Run:
    return assigned(lambda g, w: assign_bisect(g, w, rank_by("dfs", g)), order)


def chosen(prefer: str, **options: Any) -> Run:
    """What `choose` takes; by default of all that it knows to try."""

    def run(graph: PlanGraph, given: Setting) -> SimResult:
        plan = choose(graph, given.workers, prefer=prefer, **{"budget": None} | options).plan
        return go(graph, given, plan.assign, plan.rank)

    return run


def replanned(graph: PlanGraph, given: Setting) -> Outcome:
    """The lean plan, made anew when a worker turns out to be slow; what it spills and holds is not followed."""
    found = run_and_see(graph, given.workers, given.really, noise=given.noise)
    return Outcome(found.makespan, found.moved, 0, np.nan)


def go(graph: PlanGraph, given: Setting, assign: np.ndarray, rank: np.ndarray, **options: object) -> SimResult:
    return simulate(graph, given.really, assign, rank, noise=given.noise, seed=1, **options)


POLICIES: dict[str, Run] = {
    "random, dynamic": dynamic(lambda graph: AtRandom()),
    "seeds 000/001: bfs": follow("bfs"),
    "seed 003: dfs": follow("dfs"),
    "seed 001: bfs-v1": follow("bfs-v1"),
    "cascade merge": cascade(merge, convex=False),
    "cascade, convex": cascade(merge, convex=True),
    "cascade depth first": cascade(depth_first),
    "cascade today: ncd": dynamic(lambda graph: NearestCommonDescendant(graph.dag)),
    "eft 0 + blevel": eft(0.0, "blevel"),
    "eft 3 + blevel": eft(3.0, "blevel"),
    "eft 3 + dfs": eft(3.0, "dfs"),
    "halves + blevel": halves("blevel"),
    "halves + dfs": halves("dfs"),
    "metis + dfs": assigned(assign_metis, "dfs"),
    "metis, 4 bands + dfs": assigned(lambda g, w: assign_metis(g, w, bands=4), "dfs"),
    "km1 + blevel": assigned(assign_km1, "blevel"),
    "km1 + dfs": assigned(assign_km1, "dfs"),
    "dask model, steals": dynamic(lambda graph: DaskModel(steal=True)),
    "dask model": dynamic(lambda graph: DaskModel(steal=False)),
    **{f"jmars {prefer}": chosen(prefer) for prefer in PREFERENCES},
    "jmars lean, in time": chosen("lean", budget="auto"),
    "jmars lean, improved": chosen("lean", improve=1.0),
    "jmars, replans": replanned,
}
NEEDS = {name: has_km1 if "km1" in name else has_metis for name in POLICIES if "km1" in name or "metis" in name}
LARGEST = {"cascade today: ncd": 4000}  # operands


@dataclass
class Row:
    """What one policy reached on each graph; NaN where it gives up."""

    ratio: list[float]  # makespan / lower bound
    moved: list[float]  # GB
    spilled: list[float]  # GB
    held: list[float]  # peak of all workers together / peak of one core that runs depth first
    seconds: float  # to plan and simulate


def setting(memory: float | None = None, noise: float = 0.0, slow: float = 1.0) -> Setting:
    """8 workers of 2 cores; room for `memory` chunks each; `slow`: real speed of the first."""
    limit = {} if memory is None else {"memory": int(memory * CHUNK)}
    really = Workers.build(8, cores=2, speed=[slow] + [1.0] * 7, **limit)
    return Setting(Workers.build(8, cores=2, **limit), really, noise)


def measure(names: list[str], given: Setting) -> dict[str, Row]:
    """All policies on all graphs."""
    graphs = {name: make() for name, make in NINE.items()}
    lean = {name: sequential_peak(graph, rank_by("dfs", graph)) for name, graph in graphs.items()}
    bound = {name: lower_bound(graph, given.really) for name, graph in graphs.items()}
    rows = {}
    for name in names:
        row = Row([], [], [], [], 0.0)
        start = time.perf_counter()
        for key, graph in graphs.items():
            if graph.n > LARGEST.get(name, graph.n):
                result: SimResult | Outcome = Outcome(np.nan, 0, 0, np.nan)
            else:
                result = POLICIES[name](graph, given)
            row.ratio.append(result.makespan / bound[key])
            row.moved.append(result.moved / 1e9)
            row.spilled.append(result.spilled / 1e9)
            row.held.append(result.peak_total / lean[key])
        row.seconds = time.perf_counter() - start
        rows[name] = row
    return rows


def mean(values: list[float]) -> float:
    """Geometric, of those that are known."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.exp(np.mean(np.log(known)))) if known else np.nan


def check() -> int:
    """Print each promise with what is measured; how many are broken."""
    plain = measure(["jmars lean", "dask model"], setting())
    tight = measure(["jmars lean", "dask model"], setting(memory=20))
    noisy = measure(["jmars lean"], setting(noise=0.3))
    slow = measure(["jmars, replans"], setting(slow=0.5))
    ours, model = plain["jmars lean"], plain["dask model"]
    spilled, theirs = sum(tight["jmars lean"].spilled), sum(tight["dask model"].spilled)
    promises = [
        ("makespan / lower bound, mean", mean(ours.ratio), 1.10),
        ("makespan / lower bound, worst", max(ours.ratio), 1.35),
        ("bytes moved / dask model's", sum(ours.moved) / sum(model.moved), 0.4),
        ("20 chunks a worker: makespan / lower bound", mean(tight["jmars lean"].ratio), 1.20),
        ("20 chunks a worker: spilled / dask model's", spilled / theirs, 0.5),
        ("noise 0.3: makespan / lower bound", mean(noisy["jmars lean"].ratio), 1.15),
        ("a worker found at half speed: / lower bound", mean(slow["jmars, replans"].ratio), 1.25),
    ]
    for what, measured, most in promises:
        print(f"{what:45s} {measured:7.3f}  at most {most:.2f}  {'ok' if measured <= most else 'BROKEN'}")
    return sum(not measured <= most for _, measured, most in promises)  # what is no number breaks it too


def details(rows: dict[str, Row]) -> None:
    """A line for each policy with its figures on each graph."""
    print("makespan / lower bound, GB moved")
    print(f"{'':20s}" + "".join(f"{name:>13s}" for name in NINE))
    for name, row in rows.items():
        print(f"{name:20s}" + "".join(f"{r:7.2f}{m:6.1f}" for r, m in zip(row.ratio, row.moved, strict=True)))


def summary(rows: dict[str, Row], title: str) -> None:
    """A line for each policy with its means and sums."""
    print(f"\n{title:20s}{'mean':>8s}{'worst':>8s}{'GB moved':>10s}{'spilled':>9s}{'held':>7s}{'s':>7s}")
    for name, row in rows.items():
        figures = f"{mean(row.ratio):8.3f}{np.nanmax(row.ratio):8.2f}{sum(row.moved):10.1f}{sum(row.spilled):9.1f}"
        print(f"{name:20s}{figures}{mean(row.held):7.1f}{row.seconds:7.1f}", flush=True)


@contextmanager
def without_extras(wanted: bool) -> Iterator[None]:
    """The portfolio as where pymetis and mtkahypar are not installed."""
    module = best_plan
    before = module.suits_metis, module.has_km1
    if wanted:
        module.suits_metis, module.has_km1 = lambda *_, **__: False, lambda: False
    yield
    module.suits_metis, module.has_km1 = before


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="whether the promises are kept")
    parser.add_argument("--all", action="store_true", help="the summary of four settings")
    parser.add_argument("--memory", type=float, help="chunks of 100 MB that fit a worker")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--slow", type=float, default=1.0, help="speed of the first worker, which no plan knows")
    parser.add_argument("--no-extras", action="store_true", help="as without pymetis and mtkahypar")
    parser.add_argument("policy", nargs="*", help=f"of {', '.join(POLICIES)}")
    given = parser.parse_args()
    with without_extras(given.no_extras):
        if given.check:
            return int(check() > 0)
        able = [name for name in POLICIES if NEEDS.get(name, lambda: True)()]
        for name in sorted(set(POLICIES) - set(able)):
            print(f"{name}: left out, because its package is not installed (pip install jmars[plan])")
        if given.all:
            for title, one in {
                "all nine": setting(),
                "20 chunks a worker": setting(memory=20),
                "noise 0.3": setting(noise=0.3),
                "one at half speed": setting(slow=0.5),
            }.items():
                names = [name for name in able if name != "jmars, replans" or title == "one at half speed"]
                summary(measure(given.policy or names, one), title)
            return 0
        rows = measure(given.policy or able, setting(given.memory, given.noise, given.slow))
        details(rows)
        summary(rows, "all nine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
