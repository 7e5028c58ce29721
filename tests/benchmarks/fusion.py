"""What each way to fuse does to array workloads: wall and CPU time, operands, peak memory; and what planning costs.

    python -m tests.benchmarks fusion [--rounds 7] [--workers 2] [--scale 1.0] [--only NAME] [--planning]

Every workload runs with every way, one after the other in each round, in another order each round, on one cluster; the
figures are medians over the rounds and checked to be one value. `cpu` is that of all processes, from `submit` to the
value, and less blurred by a busy machine than `wall`. `operands` ran; `peak` is the most bytes of chunks.
At the end the geometric means relative to no fusion: the default of `fuse` is the best of them. `--planning`: only the
µs per operand of compiling ten elementwise operations on 1,000 chunks, before and after.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from jmars.units import format_bytes
from tests.benchmarks.machine import this_machine

WAYS: dict[str, dict[str, Any]] = {
    "off": {"fuse_enabled": False},
    "chain": {"fuse": "chain", "fuse_tileable": False},
    "chain+tileable": {"fuse": "chain", "fuse_tileable": True},
    "region": {"fuse": "region", "fuse_tileable": False},
    "region+tileable": {"fuse": "region", "fuse_tileable": True},
    "color": {"fuse": "color", "fuse_tileable": False},
    "color+tileable": {"fuse": "color", "fuse_tileable": True},
}


def rand(*shape: int, seed: int, chunk_size: Any) -> Any:
    return mt.random.default_rng(seed).random(shape, chunk_size=chunk_size)


def long_expression(scale: float, held: dict[str, Any]) -> Any:
    x, y = held["x"], held["y"]
    return (mt.sqrt(x * x + y * y) + mt.sin(x)).sum()


def long_expression_drawn(scale: float, held: dict[str, Any]) -> Any:
    n = int(16e6 * scale)
    x, y = rand(n, seed=1, chunk_size=n // 16), rand(n, seed=2, chunk_size=n // 16)
    return (mt.sqrt(x * x + y * y) + mt.sin(x)).sum()


def anomaly_mean(scale: float, held: dict[str, Any]) -> Any:
    t = held["grid"]
    anomaly = t - t.mean(0)
    return (anomaly * anomaly).mean()


def vorticity(scale: float, held: dict[str, Any]) -> Any:
    u, v = held["grid"], held["grid2"]
    curl = (v[1:-1, 2:] - v[1:-1, :-2]) / 2 - (u[2:, 1:-1] - u[:-2, 1:-1]) / 2
    return (curl * curl).mean()


def diamond(scale: float, held: dict[str, Any]) -> Any:
    x = held["x"] + held["y"]
    return (x * x - mt.exp(x)).sum()


def matmul_bias(scale: float, held: dict[str, Any]) -> Any:
    w, bias = held["weights"], held["bias"]
    return mt.maximum(w @ w + bias, 0).sum()


def symmetric(scale: float, held: dict[str, Any]) -> Any:
    z = held["square"]
    return (z + z.T).sum()


def many_small(scale: float, held: dict[str, Any]) -> Any:
    """Chunks of a thousand elements: what an operand costs beside its work."""
    n = int(1e6 * scale)
    x, y = rand(n, seed=1, chunk_size=1000), rand(n, seed=2, chunk_size=1000)
    z = x * y + 1
    return (mt.sqrt(z) + z * x - y / 3).sum()


def one_chunk(scale: float, held: dict[str, Any]) -> Any:
    """A chunk of each only: fewer operands than workers."""
    n = int(4e6 * scale)
    x, y = rand(n, seed=1, chunk_size=n), rand(n, seed=2, chunk_size=n)
    return (x * y).sum()


WORKLOADS: dict[str, Callable[[float, dict[str, Any]], Any]] = {
    f.__name__: f
    for f in (
        *(long_expression, long_expression_drawn, anomaly_mean, vorticity, diamond, matmul_bias, symmetric),
        *(many_small, one_chunk),
    )
}


def held_arrays(cluster: jmars.Cluster, scale: float) -> dict[str, Any]:
    """Tensors whose chunks lie in the cluster before anything is measured."""
    n, side = int(16e6 * scale), int(3000 * math.sqrt(scale))
    tensors = {
        "x": rand(n, seed=1, chunk_size=n // 16),
        "y": rand(n, seed=2, chunk_size=n // 16),
        "grid": rand(side, side, seed=3, chunk_size=side // 4),
        "grid2": rand(side, side, seed=4, chunk_size=side // 4),
        "square": rand(side, side, seed=5, chunk_size=side // 4),
        "weights": rand(side // 3, side // 3, seed=6, chunk_size=side // 12),
        "bias": rand(side // 3, seed=7, chunk_size=side // 12),
    }
    cluster.submit(*tensors.values()).wait()
    return tensors


@dataclass(frozen=True)
class Run:
    """One run of one workload."""

    wall: float  # seconds
    cpu: float  # seconds, of all processes
    operands: int
    peak: int  # bytes of chunks
    value: float


def run(cluster: jmars.Cluster, work: Callable[[], Any], way: dict[str, Any]) -> Run:
    """Submit, wait, read the events."""
    with config.using(task=config.task | way):
        tensor = work()
        pids = _tree(cluster)
        before, start = _on_cpu(pids), time.perf_counter()
        job = cluster.submit(tensor)
        value = float(job.result())
        wall, cpu = time.perf_counter() - start, _on_cpu(pids) - before
    events = job.events()
    built = next(event[4] for event in events if event[2] == "GraphBuilt")
    measured = next(event[4]["measured"] for event in reversed(events) if event[4].get("measured"))
    return Run(wall, cpu, int(built["n_after"]), int(measured["peak"]), value)


def _tree(cluster: jmars.Cluster) -> list[int]:
    """This process and those of the cluster."""
    control = psutil.Process(cluster.info()["scheduler"]["pid"])
    return [os.getpid(), control.pid, *(child.pid for child in control.children(recursive=True))]


def _on_cpu(pids: list[int]) -> float:
    """Seconds that all threads of these processes have had of a CPU; the ticks of `cpu_times` are too coarse here."""
    nanoseconds = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def execution(rounds: int, workers: int, scale: float, only: str | None) -> None:
    """All workloads in all ways."""
    relative: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    order = random.Random(0)
    with jmars.Cluster(n_workers=workers) as cluster:
        held = held_arrays(cluster, scale)
        for name, workload in WORKLOADS.items():
            if only not in (None, name):
                continue
            found: dict[str, list[Run]] = {way: [] for way in WAYS}
            for number in range(rounds + 1):  # the first one warms: kernels are compiled
                ways = list(WAYS)
                order.shuffle(ways)
                for way in ways:
                    one = run(cluster, lambda workload=workload: workload(scale, held), WAYS[way])
                    if number:
                        found[way].append(one)
            values = [one.value for runs in found.values() for one in runs]
            assert max(values) - min(values) <= 1e-9 * abs(values[0]), (name, min(values), max(values))
            print(f"\n{name:24}{'wall ms':>8} {'(least':>7}-{'most)':7}{'cpu ms':>8} {'operands':>9} {'peak':>10}")
            base = _middle(found["off"])
            for way, runs in found.items():
                walls = [1e3 * one.wall for one in runs]
                wall, cpu, peak = middle = _middle(runs)
                relative[way].append((wall / base[0], cpu / base[1], max(peak, 1) / max(base[2], 1)))
                print(
                    f"  {way:22}{1e3 * wall:8.1f} {min(walls):7.1f}-{max(walls):7.1f}{1e3 * cpu:8.1f} "
                    f"{runs[0].operands:9} {format_bytes(int(middle[2])):>10}"
                )
    print(f"\nrelative to no fusion   {'wall':>8} {'cpu':>8} {'peak':>8}   geometric means")
    for way, found_means in relative.items():
        means = [math.exp(statistics.fmean(math.log(one[k]) for one in found_means)) for k in range(3)]
        print(f"  {way:22}" + " ".join(f"{mean:8.3f}" for mean in means))


def _middle(runs: list[Run]) -> tuple[float, float, float]:
    """Medians of wall time and CPU time, and the highest peak."""
    return (
        statistics.median(one.wall for one in runs),
        statistics.median(one.cpu for one in runs),
        max(one.peak for one in runs),
    )


def planning() -> None:
    """µs per operand before fusion, to compile."""
    x, y = rand(10_000, seed=1, chunk_size=10), rand(10_000, seed=2, chunk_size=10)
    z = x
    for _ in range(5):
        z = (z + y) * 0.5
    graph = TensorGraph.of([z.data])
    print(f"\nplanning, {len(graph.operands) - 2} operations on 1,000 chunks: µs per operand as written")
    for way, switches in WAYS.items():
        times = []
        for _ in range(7):
            start = time.perf_counter()
            compiled = compile_graph(graph, switches)
            times.append(time.perf_counter() - start)
        n = compiled.before.n
        print(f"{way:>16} {min(times) / n * 1e6:6.2f}   {n} -> {compiled.after.n} operands")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=[*WORKLOADS])
    parser.add_argument("--planning", action="store_true", help="planning only")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    planning()
    if not given.planning:
        execution(given.rounds, given.workers, given.scale, given.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
