"""µs an operand of everything between tiling and the first ready operand, and of the counters during the run.

    python tests/benchmarks/planning.py [OPERANDS]

Three graphs of about OPERANDS (300,000) chunk operands: an unfused map under a tree sum, equal lines of three, and a
wavefront. Best of three, beside a calibration loop: this machine's µs for one `x += 1` in Python.
"""

import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag, levels
from jmars.optimize.chains import fuse_chains
from jmars.optimize.priority import depth_first, mars
from jmars.optimize.prune import prune
from jmars.optimize.regions import fuse_regions
from jmars.plan import assign_initial
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


def map_and_tree(n: int) -> Dag:
    """A source, and a map on it that is shared and so not fused, under a tree that sums four at a time."""
    leaves = n * 3 // 7
    src, dst, below, start, end = [np.arange(leaves)], [np.arange(leaves, 2 * leaves)], leaves, leaves, 2 * leaves
    while below > 1:
        above = (below + 3) // 4
        src.append(np.arange(start, start + below))
        dst.append(end + np.arange(below) // 4)
        start, end, below = end, end + above, above
    return Dag.from_edges(end, np.concatenate(src), np.concatenate(dst))


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


def main() -> None:
    """Print all."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000

    addition = min(timeit.repeat("x += 1", "x = 0", number=1_000_000, repeat=3))
    print(f"calibration {addition:.3f} µs an addition; below µs an operand")
    for name, dag in (
        ("map and tree", map_and_tree(n)),
        ("lines of 3", lines(n)),
        ("wavefront", wavefront(int(n**0.5))),
    ):
        measure(name, dag)


if __name__ == "__main__":
    main()
