"""Predicted seconds and bytes beside measured ones: python -m tests.benchmarks predictions [--check] [NAME ...].

The ten workloads of workloads.py on two executors. One session runs each of them twice and ends; the next session runs
them in interleaved rounds. Before each run the makespan and the most memory of each workload are predicted from what
all earlier runs taught the profile. Printed: predicted and measured (medians of the rounds) and how far off (median),
by workload; the median of all errors, and the rank correlation of predicted and measured. --memory sets the limit, so
that some workloads spill. `--check` fails when a median error is above 25 % or a correlation below 0.8.

With --operations the fifty operations of single_operations.py run instead, each alone: the predicted interval of the
peak, the measured peak, and how wide the interval is; `--check` fails when one peak is outside of its interval.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import jmars
from jmars.config import config
from jmars.optimize import compile_graph
from jmars.plan import Profile, predict
from jmars.tensor.tensor_graph import TensorGraph
from jmars.units import format_bytes, parse_bytes
from tests.benchmarks.machine import this_machine
from tests.benchmarks.single_operations import ELEMENTWISE, REDUCTIONS, SHAPES, measured
from tests.benchmarks.workloads import WORKLOADS, Tensor

ERROR_GOAL = 0.25
RANK_GOAL = 0.8


@dataclass
class Row:
    """One workload: by round what was predicted and what was measured."""

    predicted: list[dict[str, float]] = field(default_factory=list)
    measured: list[dict[str, float]] = field(default_factory=list)

    def middle(self, which: str, name: str) -> float:
        return statistics.median(one[name] for one in getattr(self, which))

    def off(self, name: str) -> list[float]:
        """How far off each round's prediction was, as a share of what was measured."""
        return [a[name] / b[name] - 1 for a, b in zip(self.predicted, self.measured, strict=True)]


def predicted(workload: Callable[[], Tensor], profile: Profile, executors: int, memory: int) -> dict[str, float]:
    """What a run should take, from what the profile knows."""
    compiled = compile_graph(TensorGraph.of([workload().data]), config.task)
    found = predict(compiled.after, compiled.dag, compiled.rank, profile, executors, memory)
    return {"makespan": found.makespan, "peak": found.peak[1], "spilled": found.spilled}


def run(cluster: jmars.Cluster, workload: Callable[[], Tensor]) -> tuple[dict[str, float] | None, dict[str, float]]:
    """One run: what the cluster predicted before it ran, if it did, and what the workers measured."""
    job = cluster.submit(workload())
    job.result()
    events = {event[2]: event[4] for event in job.events()}  # the last of each kind
    told = events["GraphBuilt"].get("predicted")
    return told and {**told, "peak": told["peak"][1]}, events["JobMoved"]["measured"]


def correlation(a: list[float], b: list[float]) -> float:
    """Spearman's rank correlation."""
    first, second = (np.argsort(np.argsort(x)) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def main() -> int:
    """Learn, predict, run, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--learn", type=int, default=2, help="rounds of the session that is learnt from")
    parser.add_argument("--scale", type=float, default=1.0, help="of all arrays")
    parser.add_argument("--memory", default="6GiB")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--operations", action="store_true", help="the peaks of single operations")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    if given.operations:
        return intervals(given.rounds, given.check)
    workloads = {name: lambda name=name: WORKLOADS[name](given.scale) for name in given.names}

    def session() -> jmars.Cluster:
        return jmars.Cluster(n_workers=2, threads_per_worker=1, memory_limit=parse_bytes(given.memory))

    with tempfile.TemporaryDirectory() as cache:
        os.environ["JMARS_CACHE_DIR"] = cache
        with session() as cluster:
            for _ in range(given.learn):
                for workload in workloads.values():
                    run(cluster, workload)
        rows = {name: Row() for name in workloads}
        with session() as cluster:
            memory = cluster.info()["memory"]["arena"]["capacity"]
            for number in range(given.rounds):
                profile = Profile.load()  # saved every few seconds
                for name, workload in workloads.items():
                    rows[name].predicted.append(predicted(workload, profile, 2, memory))
                for name, workload in workloads.items():
                    told, measured = run(cluster, workload)
                    rows[name].measured.append(measured)
                    if told:
                        rows[name].predicted[-1] = told
                for what in ("predicted", "measured"):
                    times = ", ".join(f"{getattr(row, what)[-1]['makespan']:.2f}" for row in rows.values())
                    print(f"round {number + 1}, {what}: {times} s", flush=True)
    return report(rows, given.check)


def intervals(rounds: int, check: bool) -> int:
    """Intervals of the peaks of single operations, on a machine without a profile at first."""
    outside, widths = 0, []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["JMARS_CACHE_DIR"] = cache
        with jmars.Cluster(n_workers=2, memory_limit="600MiB") as cluster:
            for number in range(rounds):
                print(f"\nround {number + 1:<16}{'predicted':>26}{'measured':>14}{'width':>8}")
                for name, one in measured(cluster, {**ELEMENTWISE, **SHAPES, **REDUCTIONS}):
                    ends = f"{format_bytes(one.low)} to {format_bytes(one.high)}"
                    told = "" if one.holds else "  OUTSIDE"
                    print(f"{name:20}{ends:>28}{format_bytes(one.held):>14}{one.width:8.1f}{told}")
                    outside += not one.holds
                    widths.append(one.width)
    width = f"{statistics.median(widths):.1f} (median), {max(widths):.1f} at most"
    print(f"\n{outside} of {len(widths)} outside; width {width}")
    return 1 if check and outside else 0


def report(rows: dict[str, Row], check: bool) -> int:
    """The table and the goals."""
    print(
        f"\n{'workload':16}{'predicted':>10}{'measured':>10}{'':16}{'off':>6}{'predicted':>12}{'measured':>12}{'off':>6}"
    )
    for name, row in rows.items():
        times = [one["makespan"] for one in row.measured]
        spilled = [format_bytes(int(row.middle(which, "spilled"))) for which in ("predicted", "measured")]
        print(
            f"{name:16}{row.middle('predicted', 'makespan'):8.2f} s{row.middle('measured', 'makespan'):8.2f} s"
            f"{f' ({min(times):.2f}–{max(times):.2f})':16}{statistics.median(row.off('makespan')):+6.0%}"
            f"{format_bytes(int(row.middle('predicted', 'peak'))):>12}"
            f"{format_bytes(int(row.middle('measured', 'peak'))):>12}{statistics.median(row.off('peak')):+6.0%}"
            + (f"  spilled {spilled[0]}, {spilled[1]}" if any(one["spilled"] for one in row.measured) else "")
        )
    met = True
    for what in ("makespan", "peak"):
        off = statistics.median(abs(one) for row in rows.values() for one in row.off(what))
        rank = correlation(*([row.middle(which, what) for row in rows.values()] for which in ("predicted", "measured")))
        met = met and off <= ERROR_GOAL and (rank >= RANK_GOAL or len(rows) < 2)  # one alone has no order
        print(f"{what}: median error {off:.0%}, rank correlation {rank:.2f}")
    print(f"goals (at most {ERROR_GOAL:.0%}, at least {RANK_GOAL}): {'met' if met else 'MISSED'}")
    return 1 if check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
