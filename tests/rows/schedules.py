"""Workers, tasks and schedules: tries of document 004."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import jmars.tensor as mt
from jmars.graph import Dag
from jmars.plan import (
    PlanGraph,
    Workers,
    anneal,
    as_assignment,
    choose,
    depth_first,
    duplicate,
    merge,
    rank_by,
    rank_min_memory,
    refine,
    simulate,
    steal,
)
from jmars.plan.order import sequential_peak
from jmars.remote import load_tasks
from tests.rows import drawn, gpus, must, one_host, row, run, slow, told, two_hosts


@row("S0.8", "S4.5")
def operands_on_gpus() -> str:
    x = mt.asarray(np.arange(160_000.0).reshape(400, 400), chunk_size=100)
    job = run((x * 2 + 1).sum(axis=0), gpus(), gpu="only")
    ran = {one["worker"] for one in told(job, "OperandsTimed")}
    names = {name for one in told(job, "OperandsTimed") for _, name in one["backends"]}
    must(ran == {1, 2} and names == {"fake"}, (ran, names))
    return f"workers {sorted(ran)}, fake"


@row("S4.6")
def marks_of_transfers() -> str:
    x = drawn(400, 400, chunk=100, seed=5).execute()
    run((x + x.T).sum(axis=0), two_hosts(), assigner="random")
    marks = [one for event in two_hosts().events()[0] if event[2] == "ChunksMoved" for one in event[4]["marks"]]
    must(marks and all(len(one) == 6 and list(one[1:]) == sorted(one[1:]) for one in marks), marks)
    return f"{len(marks)} transfers, 6 marks each"


@row("S4.7")
def ephemeral() -> str:
    pids = run(mt.map_blocks(lambda b: b * 0 + os.getpid(), mt.arange(6, chunk_size=1)), ephemeral=True).result(60)
    must(len(set(pids.tolist())) == 6, pids)
    return "6 operands, 6 processes"


@row("S4.8")
def manager() -> str:
    pids = run(mt.map_blocks(lambda b: slow(b) * 0 + os.getpid(), mt.arange(40, chunk_size=1))).result(60)
    must(len(set(pids.tolist())) == 2, pids)
    return "2 workers"


TASKS = {
    "tasks": {
        "task_A": {"function": "builtins:divmod", "args": [1234, 100], "outputs": ["output_1", "output_2"]},
        "task_B": {"function": "math:sqrt", "inputs": ["task_A.output_1"]},
        "task_C": {"function": "math:factorial", "inputs": ["task_A.output_2"]},
        "task_D": {"function": "builtins:max", "inputs": ["task_B", "task_C"]},
    }
}


@row("S4.9", "S4.10")
def task_files() -> str:
    one_host()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps(TASKS))
        tasks = load_tasks(path)
        parts = set(tasks.parts(workers=2, how="merge").values())
        found = tasks.fetch()
    must(found == {"task_D": 295232799039604140847618609643520000000}, found)
    return f"{len(parts)} parts"


def tree(leaves: int = 32) -> PlanGraph:
    """A reduction of pairs, chunks of 10 bytes."""
    src, dst, row_, top = list[int](), list[int](), list(range(leaves)), leaves
    while len(row_) > 1:
        for a, b in zip(row_[::2], row_[1::2], strict=True):
            src, dst = [*src, a, b], [*dst, top, top]
            row_.append(top)
            top += 1
        row_ = row_[len(row_) // 3 * 2 :]
    return PlanGraph.build(Dag.from_edges(top, src, dst), 1.0, 10)


@row("S4.12")
def merged_parts() -> str:
    workers = Workers.build(2, speed=[1.0, 2.0], memory=80)
    parts = merge(tree(), workers)
    must(max(part.nbytes for part in parts) <= 80, parts)
    must(sorted(v for part in parts for v in part.operands) == list(range(63)), parts)
    return f"{len(parts)} parts"


@row("S4.14")
def assigned_time() -> str:
    graph, workers = tree(), Workers.build(2, speed=[1.0, 2.0], memory=80)
    parts = merge(graph, workers)
    where, total = as_assignment(parts, 63), [0.0, 0.0]
    for part in parts:
        total[part.worker] += part.seconds
    must(np.allclose(total, [graph.cost[where == w].sum() / workers.speed[w] for w in (0, 1)]), total)
    return f"{total[0]:.1f} and {total[1]:.1f} s"


@row("S4.16")
def expanded_parts() -> str:
    parts = depth_first(tree(), Workers.build(3, memory=80))
    must(sorted(v for part in parts for v in part.operands) == list(range(63)), parts)
    must(max(part.nbytes for part in parts) <= 80, parts)
    return f"{len(parts)} parts"


@row("S4.21")
def least_memory() -> str:
    held = [sequential_peak(tree(), rank) for rank in (rank_min_memory(tree()), rank_by("level", tree()))]
    must(held[0] < held[1], held)
    return f"{held[0]} bytes, {held[1]} level by level"


@row("S4.22")
def refined() -> str:
    graph, workers, rank = tree(), Workers.build(2, latency=0.0), np.arange(63)
    start = np.arange(63) % 2
    better = refine(graph, workers, start, rank, tries=300).assign
    times = [simulate(graph, workers, one, rank) for one in (start, better)]
    cost = [one.makespan + one.moved for one in times]
    must(cost[1] < cost[0], cost)
    return f"{times[0].moved} -> {times[1].moved} bytes moved"


@row("S4.18")
def timeline() -> str:
    graph, workers = tree(), Workers.build(2, latency=0.0)
    found = simulate(graph, workers, np.zeros(63, int), np.arange(63)), choose(graph, workers).predicted
    must(found[1].makespan < found[0].makespan, found)
    return f"{found[0].makespan:.0f} s alone, {found[1].makespan:.0f} s on two"


@row("S4.19")
def stolen() -> str:
    graph, workers = tree(), Workers.build(2, latency=0.0)
    before = simulate(graph, workers, np.zeros(63, int), np.arange(63)).makespan
    after = simulate(graph, workers, steal(graph, workers, np.zeros(63, int), np.arange(63)), np.arange(63)).makespan
    must(after <= 0.8 * before, (before, after))
    return f"{before:.0f} -> {after:.0f} s"


@row("S4.20")
def duplicated() -> str:
    graph = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), [0.1, 1.0, 1.0], [10**9, 8, 8])
    workers, assign, rank = Workers.build(2), np.array([0, 0, 1], np.int16), np.arange(3)
    better = duplicate(graph, workers, assign, rank)
    times = [simulate(graph, workers, assign, rank), simulate(better.graph, workers, better.assign, better.rank)]
    must(better.copies == [(0, 1)] and times[1].makespan < times[0].makespan, times)
    return f"{times[0].makespan:.1f} -> {times[1].makespan:.1f} s"


@row("S4.23")
def annealed() -> str:
    graph, workers, rank = tree(), Workers.build(2, latency=0.0), np.arange(63)
    pressed = iter([False] * 200 + [True])
    found = anneal(graph, workers, np.zeros(63, np.int16), rank, stop=lambda: next(pressed))
    costs = [cost for _, cost in found.curve]
    must(found.tries == 201 and costs == sorted(costs, reverse=True) and costs[-1] < costs[0], costs)
    return f"{costs[0]:.0f} -> {costs[-1]:.0f} s, stopped after {found.tries} tries"


@row("S4.26")
def slurm() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "jmars", "slurm", "--nodes", "3", "sum.py"], capture_output=True, text=True, timeout=60
    )
    must(done.returncode == 0 and "#SBATCH" in done.stdout, done.stderr)
    return f"{len(done.stdout.splitlines())} lines of a script"
