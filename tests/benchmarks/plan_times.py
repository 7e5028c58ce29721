"""µs an operand of each step of planning, in C and in Python, on 16 workers of 4 cores.

    python -m tests.benchmarks plan_times [OPERANDS]

Three shapes of about OPERANDS (10,000): a map under a tree, a stencil, and products of blocks. `choose` is what a
plan costs with the time that it gives itself; "one plan" is the least: an order, an assignment and its simulation.
Best of three by CPU time, beside a calibration loop: this machine's µs for one `x += 1` in Python.
Source: PLANNING 3.5.
"""

import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

from jmars.native import backend, forced
from jmars.plan import PlanGraph, Workers, assign_bisect, assign_eft, assign_runs, choose, simulate
from jmars.plan.order import liu_key, rank_b_level, rank_depth_first
from tests.benchmarks.large_graphs import LARGE, costed


def best(work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """Seconds of the fastest of some rounds, and what it gave."""
    fastest, result = float("inf"), None
    for _ in range(rounds):
        start = time.process_time()
        result = work()
        fastest = min(fastest, time.process_time() - start)
    return fastest, result


def measure(name: str, graph: PlanGraph, workers: Workers) -> None:
    """One line of figures for one graph."""
    took: dict[str, float] = {}

    def step(what: str, work: Callable[[], Any], rounds: int = 3) -> Any:
        took[what], result = best(work, rounds)
        return result

    step("liu", lambda: liu_key(graph))
    rank = step("blevel", lambda: rank_b_level(graph, workers.seconds_per_byte))
    lean = step("dfs", lambda: rank_depth_first(graph))
    assign = step("eft", lambda: assign_eft(graph, workers, rank))
    step("halves", lambda: assign_bisect(graph, workers, lean))
    step("runs", lambda: assign_runs(graph, workers, lean))
    step("simulate", lambda: simulate(graph, workers, assign, rank))
    step("one plan", lambda: choose(graph, workers, budget=0.0, clock=time.process_time))
    choice = step("choose", lambda: choose(graph, workers, clock=time.process_time), 1)
    figures = "  ".join(f"{what} {seconds / graph.n * 1e6:.1f}" for what, seconds in took.items())
    head = f"{backend():6s} {name:12s} {graph.n:7d} operands {graph.dag.m:7d} edges"
    print(f"{head}  {figures}  ({len(choice.tried)} plans)")


def main() -> None:
    """Print all."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    workers = Workers.build(16, cores=4)
    addition = min(timeit.repeat("x += 1", "x = 0", number=1_000_000, repeat=3))
    print(f"calibration {addition:.3f} µs an addition; below µs an operand")
    for shape, make in LARGE.items():
        graph = costed(make(n))
        for name in ("c", "python"):
            with forced(name):
                measure(shape, graph, workers)


if __name__ == "__main__":
    main()
