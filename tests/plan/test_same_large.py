"""C gives what Python gives on graphs of thousands of operands, where heaps grow and many chunks go to disk."""

import numpy as np
import pytest

from jmars.errors import MemoryLimitError
from jmars.graph import Dag
from jmars.native import backend, build, forced
from jmars.plan import PlanGraph, Workers, assign_bisect, assign_eft, assign_initial, rank_by, simulate, source_runs
from jmars.plan.order import rank_backwards
from tests.plan.examples import largest_need
from tests.plan.test_same import figures

pytestmark = pytest.mark.skipif(not build.LIBRARY.exists(), reason="built without a C compiler: there are no kernels")


def uneven(rng: np.random.Generator) -> PlanGraph:
    """A random graph, some of whose chunks many read."""
    n = int(rng.integers(300, 1200))
    src = rng.integers(0, n, n * 2)
    dst = np.minimum(n - 1, src + 1 + rng.geometric(rng.choice([0.3, 0.01, 0.001]), len(src)))
    src[: n // 8] = rng.integers(0, 4, n // 8)
    ahead = src < dst
    dag = Dag.from_edges(n, src[ahead], dst[ahead])
    size = rng.integers(0, rng.choice([10, 3_000_000]), n)
    result = (rng.random(n) < 0.05) | (dag.out_degree == 0)
    cost = rng.random(n) * rng.choice([0, 1, 1], n)
    return PlanGraph.build(dag, cost, size, work=rng.integers(0, 5, n), result=result)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 8))])
def test_every_kernel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, p = uneven(rng), int(rng.choice([1, 3, 16, 64, 100] if seed % 3 == 0 else [1, 4]))
    room = {} if seed % 3 == 0 else {"memory": int(largest_need(graph) * rng.uniform(1, 1.5))}
    bandwidth, disk = float(rng.choice([1e5, 1e8])), float(rng.choice([1e5, 1e8]))
    cores, speed = rng.integers(1, 4, p), rng.choice([0.5, 1.0, 1.3], p)
    workers = Workers.build(p, cores=cores, speed=speed, bandwidth=bandwidth, latency=0.01, disk=disk, **room)
    placed = None if seed % 2 else np.where(rng.random(graph.n) < 0.2, rng.integers(0, p, graph.n), -1)
    anywhere = rng.integers(0, p, graph.n)
    found = []
    for name in ("c", "python"):
        with forced(name):
            rank = rank_by("dfs", graph)
            assigned = [
                anywhere,
                assign_eft(graph, workers, rank_by("wave", graph, 1e-9), price=2.5, placed=placed),
                assign_bisect(graph, workers, rank),
            ]
            first = [assign_initial(graph.dag, graph.dag.sources(), [2] * p, search) for search in ("bfs", "dfs")]
            runs = []
            for assign in assigned:
                for evict in ("plan", "lru"):
                    try:
                        ran = simulate(graph, workers, assign, rank, evict=evict, placed=placed, trace=True)
                        runs.append(figures(ran))
                    except MemoryLimitError as error:
                        runs.append([str(error)])
            plain = [
                one.tolist()
                for one in (rank, rank_backwards(graph), *assigned, source_runs(graph, workers, rank), *first)
            ]
            found.append((plain, runs))
    assert found[0] == found[1]
    spilled = [run[2] for run in found[0][1] if len(run) > 1]
    assert not room or p > 1 or max(spilled) > 0


@pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler here")
def test_this_checkout_has_its_library() -> None:
    with forced("c"):  # raises, and says how to build it
        assert backend() == "c"
