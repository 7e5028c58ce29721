"""Plans of jmars's own array workloads, compared by simulation: seconds beside a bound that none beats, bytes moved.

    python -m tests.benchmarks recorded [--scale S] [POLICY ...]
    python -m tests.benchmarks recorded --check

The ten workloads of workloads.py run in a tenth of their size on two executors of this machine, so that the profile
learns what their operands cost here. Then each is compiled S (4) times as large, its costs are annotated, and the graph
is planned for 8 workers of 2 cores with 10 Gbit Ethernet: by `choose`, by every policy of the seeds, and by a model of
dask.distributed's (plans.py). One more workload, rows cut into columns, is shown and not counted: there every worker
needs every chunk, so that the network decides, of which the bound knows nothing. --check says whether the geometric
mean of "jmars fast" is at most 1.07 times the bound, and exits with 1 where it is not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.optimize import compile_graph
from jmars.plan import PlanGraph, Profile, Workers, annotate, lower_bound
from jmars.tensor.tensor_graph import TensorGraph
from tests.benchmarks.machine import this_machine
from tests.benchmarks.plans import LARGEST, NEEDS, POLICIES, Setting, mean
from tests.benchmarks.workloads import WORKLOADS

GOAL = 1.07
JUDGED = "jmars fast"
SMALLER = {"tall tree": 0.05}  # its operands are so many
NOT_COUNTED = "rows to columns"


def rows_to_columns(scale: float = 1.0) -> mt.Tensor:
    """Every chunk that is read is needed for every one that is made."""
    n = int(12_800 * scale**0.5) // 400 * 400
    x = mt.random.default_rng(10).random((n, n), chunk_size=(400, n))
    return mt.sqrt(x.rechunk((n, 400))).sum(axis=0).max()


ALL = {**WORKLOADS, NOT_COUNTED: rows_to_columns}


def learnt() -> Profile:
    """What operands of the workloads cost on this machine."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["JMARS_CACHE_DIR"] = cache
        with jmars.Cluster(n_workers=2, threads_per_worker=1, memory_limit="2GiB") as cluster:
            for _ in range(3):
                for workload in ALL.values():
                    cluster.submit(workload(0.1)).result()
        profile = Profile.load()
    profile.busy = 1.0  # of a machine that has nothing else to do
    return profile


def recorded(profile: Profile, scale: float) -> dict[str, PlanGraph]:
    """The graphs of the workloads with their costs."""
    graphs = {}
    for name, workload in ALL.items():
        tensor = workload(scale * SMALLER.get(name, 1.0))
        compiled = compile_graph(TensorGraph.of([tensor.data]), config.task)
        graphs[name] = annotate(compiled.after, compiled.dag, profile)
    return graphs


def main() -> int:
    """Learn, plan, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when the goal is missed")
    parser.add_argument("--scale", type=float, default=4.0)
    parser.add_argument("policy", nargs="*", help=f"of {', '.join(POLICIES)}")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    graphs = recorded(learnt(), given.scale)
    workers = Workers.build(8, cores=2)
    bound = {name: lower_bound(graph, workers) for name, graph in graphs.items()}
    for name, graph in graphs.items():
        print(
            f"{name:16s}{graph.n:7d} operands of {1e3 * graph.cost.mean():6.2f} ms and "
            f"{graph.nbytes.mean() / 1e6:6.2f} MB on average, bound {bound[name]:.2f} s"
        )
    print(f"\nmakespan / lower bound, GB moved\n{'':20s}{'mean':>7s}{'s':>6s}" + "".join(f"{n:>16s}" for n in graphs))
    reached = {}
    there = [name for name in POLICIES if name not in NEEDS or NEEDS[name]()]
    for name in given.policy or ([JUDGED, "dask model"] if given.check else there):
        start = time.perf_counter()
        found = {
            key: POLICIES[name](graph, Setting(workers, workers))
            for key, graph in graphs.items()
            if graph.n <= LARGEST.get(name, graph.n)
        }
        ratio = {key: result.makespan / bound[key] for key, result in found.items()}
        reached[name] = mean([one for key, one in ratio.items() if key != NOT_COUNTED])
        cells = "".join(
            f"{ratio[key]:9.2f}{found[key].moved / 1e9:7.1f}" if key in found else f"{'gives up':>16}" for key in graphs
        )
        print(f"{name:20s}{reached[name]:7.3f}{time.perf_counter() - start:6.1f}{cells}", flush=True)
    if not given.check:
        return 0
    print(f"{JUDGED}: {reached[JUDGED]:.3f}, at most {GOAL}: {'ok' if reached[JUDGED] <= GOAL else 'BROKEN'}")
    return int(reached[JUDGED] > GOAL)


if __name__ == "__main__":
    sys.exit(main())
