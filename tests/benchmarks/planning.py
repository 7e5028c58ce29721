"""µs an operand of everything between tiling and the first ready operand, and of the counters during the run.

    python -m tests.benchmarks planning [--passes | --choose | --check] [OPERANDS]

--passes: three graphs of about OPERANDS (300,000) chunk operands: an unfused map under a tree sum, equal lines of three
and a wavefront. Best of three, beside a calibration loop: this machine's µs for one `x += 1` in Python.

--choose: the whole `jmars.plan.choose` as it is called by default, for 64 simulated cores, on 8 workers of 8, 64 of
one, and 8 whose memories hold 2 % of all chunks: an unfused map under a tree, a stencil, products of blocks. In C at
10⁵ and 10⁶ operands, in Python at 10⁴; with OPERANDS, both at that size. Time of one core (CPU) counts, also for the
time that is given to `choose`; that of the clock on the wall stands beside it.

--check: as --choose, and exits with 1 where C takes more than 15 µs an operand, Python more than 200, or fewer than
three plans were tried. Source: PLANNING 3.5.
"""

import argparse
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag, levels
from jmars.native import forced
from jmars.optimize.passes import depth_first, mars, prune
from jmars.optimize.regions import fuse_chains, fuse_regions
from jmars.plan import PlanGraph, Workers, assign_initial, choose
from tests.benchmarks.large_graphs import LARGE, costed, map_and_tree
from tests.benchmarks.machine import this_machine
from tests.graph.examples import wavefront
from tests.optimize.examples import chunk_graph


def best(work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """Seconds of the fastest of some rounds, and what it gave."""
    fastest, result = float("inf"), None
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest, result


def lines(n: int) -> Dag:
    """Lines of three, no two of them joined."""
    first = np.arange(0, n // 3 * 3, 3)
    return Dag.from_edges(n // 3 * 3, np.concatenate([first, first + 1]), np.concatenate([first + 1, first + 2]))


def run(counters: Counters) -> None:
    """Finish all operands, a hundred at a time, as reports come."""
    counters.reset()
    todo = [counters.graph.initial]
    while todo:
        ready = todo.pop()
        for k in range(0, len(ready), 100):
            newly, _ = counters.finish(ready[k : k + 100])
            if newly:
                todo.append(newly)
    assert counters.is_done


def measure(name: str, dag: Dag) -> None:
    """One line of figures for one graph."""
    n, nbytes = dag.n, np.full(dag.n, 8, np.int64)
    graph = chunk_graph(dag, ["op"] * n)
    half = chunk_graph(dag, ["op"] * n, results=[n // 2])
    plan = {
        "dag": best(lambda: Dag.from_inputs(dag.pred_ptr, dag.pred_idx))[0],
        "levels": best(lambda: levels(dag))[0],
        "prune": best(lambda: prune(half))[0],
        "chains": best(lambda: fuse_chains(graph))[0],
        "regions": best(lambda: fuse_regions(graph))[0],
        "mars": best(lambda: mars(dag, nbytes))[0],
        "dfs": best(lambda: depth_first(dag, nbytes))[0],
        "assign bfs": best(lambda: assign_initial(dag, dag.sources(), [1] * 8))[0],
    }

    def rows() -> FlowGraph:
        flow = FlowGraph(dag, kept=dag.sinks())
        assert flow.preds and flow.succs and flow.waiting and flow.consumers
        return flow

    plan["flow graph"], flow = best(rows)
    plan["instance"], counters = best(lambda: Counters(flow))
    plan["reset"] = best(counters.reset)[0]
    plan["finish"] = best(lambda: run(counters))[0]
    print(
        f"{name:14s} {n:8d} operands {dag.m:8d} edges  " + "  ".join(f"{k} {t / n * 1e6:.2f}" for k, t in plan.items())
    )


MOST = {"c": 15.0, "python": 200.0}  # µs an operand
PLANS = 3
SIZES = {"c": (100_000, 1_000_000), "python": (10_000,)}
CLUSTERS: dict[str, Callable[[PlanGraph], Workers]] = {
    "8 x 8": lambda graph: Workers.build(8, cores=8),
    "64 x 1": lambda graph: Workers.build(64),
    "8 x 8 2%": lambda graph: Workers.build(8, cores=8, memory=int(graph.nbytes.sum()) // 50 // 8),
}


def passes(n: int) -> None:
    """What is done with every graph, and its counters."""
    addition = min(timeit.repeat("x += 1", "x = 0", number=1_000_000, repeat=3))
    print(f"calibration {addition:.3f} µs an addition; below µs an operand")
    for name, dag in (
        ("map and tree", map_and_tree(n)),
        ("lines of 3", lines(n)),
        ("wavefront", wavefront(int(n**0.5))),
    ):
        measure(name, dag)


def planned(backend: str, n: int) -> int:
    """A row for each graph and cluster; how many break what is promised."""
    broken = 0
    for shape, make in LARGE.items():
        graph = costed(make(n))
        for cluster, make_workers in CLUSTERS.items():
            workers = make_workers(graph)
            with forced(backend):
                cpu, wall = time.process_time(), time.perf_counter()
                choice = choose(graph, workers, clock=time.process_time)
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            took, tried = cpu / graph.n * 1e6, len(choice.tried)
            is_kept = took <= MOST[backend] and tried >= PLANS
            broken += not is_kept
            figures = f"{took:8.2f} {wall / graph.n * 1e6:8.2f} {tried:6d}"
            best = f"{choice.predicted.makespan / choice.lower_bound:8.3f}  {choice.best.assigned_by}, "
            best += choice.best.ranked_by
            print(
                f"{backend:7s} {shape:13s}{graph.n:9d} {graph.dag.m:9d}  {cluster:9s}{figures}{best:46s}"
                f"{'ok' if is_kept else 'BROKEN'}",
                flush=True,
            )
    return broken


def main() -> int:
    """Print all, or what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, what in (("passes", "only the passes"), ("choose", "only the plans"), ("check", "hold the plans to it")):
        parser.add_argument(f"--{name}", action="store_true", help=what)
    parser.add_argument("operands", nargs="?", type=int)
    given = parser.parse_args()
    if not (given.choose or given.check):
        passes(given.operands or 300_000)
    if given.passes:
        return 0
    print(f"\n{this_machine()}; `choose` on 64 simulated cores, µs an operand")
    head = "backend graph         operands     edges  workers       CPU     wall  plans   mk/LB  chosen"
    print(head)
    sizes = {name: (given.operands,) if given.operands else those for name, those in SIZES.items()}
    broken = sum(planned(backend, n) for backend, those in sizes.items() for n in those)
    print(f"promised: C {MOST['c']:.0f} µs, Python {MOST['python']:.0f} µs, {PLANS} plans; broken: {broken}")
    return int(given.check and broken > 0)


if __name__ == "__main__":
    sys.exit(main())
