"""Workers, tasks and schedules: tries of document 004."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.client.plans import PlannedRun
from jmars.errors import UnsupportedError
from jmars.graph import Dag
from jmars.model.limits import PAGE
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
from jmars.storage.arena import Allocator
from jmars.storage.chunks import Chunks
from tests.benchmarks.plan_graphs import CHUNK, SMALL_ONES
from tests.rows import drawn, fails, gpus, must, one_host, row, run, told, two_hosts
from tests.seeds.test_s4_partitions import TIES


@row("S0.8", "S4.5")
def operands_on_gpus() -> str:
    x = mt.asarray(np.arange(160_000.0).reshape(400, 400), chunk_size=100)
    job = run((x * 2 + 1).sum(axis=0), gpus(), gpu="only")
    ran = {one["worker"] for one in told(job, "OperandsTimed")}
    names = {name for one in told(job, "OperandsTimed") for _, name in one["backends"]}
    must(ran == {1, 2} and names == {"fake"}, (ran, names))
    return f"workers {sorted(ran)}, fake"


def has_gpu() -> bool:
    """Whether CuPy finds a GPU here."""
    try:
        import cupy

        return bool(cupy.is_available())
    except Exception:  # not installed, or no driver
        return False


FAKE_CUPY = """
import types
import numpy
class NoError(Exception): pass
cuda = types.SimpleNamespace(
    runtime=types.SimpleNamespace(CUDARuntimeError=NoError), driver=types.SimpleNamespace(CUDADriverError=NoError),
    memory=types.SimpleNamespace(OutOfMemoryError=NoError),
)
class ndarray(numpy.ndarray): pass
def is_available(): return True
def asarray(value): return numpy.asarray(value).view(ndarray)
def asnumpy(value):
    assert type(value) is ndarray, type(value)
    return value.view(numpy.ndarray)
"""


@contextlib.contextmanager
def cupy_here() -> Iterator[str]:
    """The name of a GPU, with CuPy for this process and its clusters; without a GPU both are made of NumPy."""
    if has_gpu():
        yield "cuda:0"
        return
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "NUMBA_ENABLE_CUDASIM")}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cupy.py").write_text(FAKE_CUPY)
        sys.path.insert(0, folder)
        os.environ.update(PYTHONPATH=os.pathsep.join([folder, *sys.path[1:]]), NUMBA_ENABLE_CUDASIM="1")
        try:
            yield "fake:8MiB"
        finally:
            sys.path.remove(folder)
            sys.modules.pop("cupy", None)
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


@row("S4.1")
def arrays_without_copies() -> str:
    value = run(mt.arange(6, chunk_size=3) * 2.0).result()
    must(np.shares_memory(np.from_dlpack(value), value), "a copy")
    x = (mt.arange(6, chunk_size=3) * 2.0).execute()
    if not has_gpu():
        why = fails(UnsupportedError, lambda: x.fetch(device="cuda"))
        must("needs CuPy" in why or "CuPy finds none" in why, why)
    with cupy_here() as gpu:
        import cupy

        there = x.fetch(device="cuda")
        must(type(there) is cupy.ndarray and cupy.asnumpy(there).tolist() == value.tolist(), type(there))
        if gpu != "fake:8MiB":
            must(cupy.from_dlpack(there).data.ptr == there.data.ptr, "a copy on the GPU")
    return f"{type(there).__module__}.ndarray on {gpu}; DLPack keeps the pointer"


@row("S4.2")
def first_call() -> str:
    with cupy_here() as gpu, jmars.Cluster(n_workers=1, gpus=[gpu], memory_limit="500MiB") as cluster:
        run(mt.arange(1000, chunk_size=100) * 2.0, cluster, gpu="only")
        events = [event for event in cluster.events()[0] if event[4].get("worker") == 1]
    moves = {event[4]["state"]: event[1] for event in events[::-1] if event[2] == "WorkerMoved"}
    first = min(event[1] for event in events if event[2] == "OperandsTimed")
    must(moves["starting"] < moves["idle"] < first, (moves, first))
    return f"{moves['idle'] - moves['starting']:.2f} s of start and warm-up before the first operand, {gpu}"


KERNEL = """
def doubles(a, out):
    k = cuda.grid(1)
    if k < a.size:
        out[k] = 2 * a[k] + 1
"""


@row("S4.3")
def kernels_of_users() -> str:
    def kernel(block: Any) -> Any:
        from numba import cuda

        names = {"cuda": cuda}  # numba's simulator exchanges a global name
        exec(KERNEL, names)
        out = block * 0
        cuda.jit(names["doubles"])[1, 32](block + 0, out)
        return out

    with cupy_here() as gpu, jmars.Cluster(n_workers=1, gpus=[gpu], memory_limit="2GiB") as cluster:
        x = mt.map_blocks(kernel, mt.arange(60.0, chunk_size=20), dtype="f8", device="gpu")
        job = run(x, cluster)
        timed = told(job, "OperandsTimed")
        ran = {one["worker"] for one in timed if any(name == "function" for _, name in one["backends"])}
        must(job.result(60).tolist() == [2.0 * k + 1 for k in range(60)] and ran == {1}, ran)
    return f"a kernel of numba.cuda on gpu-0, {gpu}"


@row("S4.4")
def ucx() -> str:
    with jmars.Cluster.hosts(["local"] * 2, n_workers=1, memory_limit="200MiB", ucx=True) as cluster:
        links = measured_links(cluster)
    expected = "ucx" if find_spec("ucxx") else "tls"
    must(all(one["transport"] == expected for one in links), links)
    must(expected == "ucx" or all("ucxx" in one["why"] for one in links), links)
    return f"{expected}: {links[0]['why']}"


def measured_links(cluster: jmars.Cluster) -> list[dict[str, Any]]:
    """The links between hosts, as soon as chunks have moved without the head."""
    links: list[dict[str, Any]] = []
    while not links or any(one["transport"] == "head" for one in links):  # as long as carriers start
        x = mt.ones((1600, 1600), chunk_size=400)
        must(float(run((x @ x.T).sum(), cluster).result()) == 1600.0**3, "value")
        links = cluster.info()["links"]
    return links


@row("S4.6")
def marks_of_transfers() -> str:
    x = drawn(400, 400, chunk=100, seed=5).execute()
    job = run((x + x.T).sum(axis=0), two_hosts(), assigner="random")
    marks = [mark for one in told(job, "ChunksMoved") for mark in one["marks"]]
    must(marks and all(len(one) == 6 and list(one[1:]) == sorted(one[1:]) for one in marks), marks)
    return f"{len(marks)} transfers, 6 marks each"


@row("S4.7")
def ephemeral() -> str:
    pids = run(mt.map_blocks(lambda b: b * 0 + os.getpid(), mt.arange(6, chunk_size=1)), ephemeral=True).result(60)
    must(len(set(pids.tolist())) == 6, pids)
    return "6 operands, 6 processes"


TASKS = {
    "tasks": {
        "task_A": {"function": "builtins:divmod", "args": [1234, 100], "outputs": ["output_1", "output_2"]},
        "task_B": {"function": "math:sqrt", "inputs": ["task_A.output_1"]},
        "task_C": {"function": "math:factorial", "inputs": ["task_A.output_2"]},
        "task_D": {"function": "builtins:max", "inputs": ["task_B", "task_C"]},
    }
}
FOUND = {"task_D": 295232799039604140847618609643520000000}


@row("S4.9")
def task_files() -> str:
    one_host()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps(TASKS))
        found = load_tasks(path).fetch()
    must(found == FOUND, found)
    return "4 tasks"


@row("S4.8", "S4.10")
def subgraphs_by_processes() -> str:
    seen = []
    for how in ("merge", "depth-first"):
        tasks = load_tasks(TASKS, parts="processes")
        must(tasks.fetch(workers=2, how=how) == FOUND, how)
        planned = tasks.parts(workers=2, how=how)
        must({name: run.part for run in tasks.part_runs for name in run.tasks} == planned, tasks.report())
        processes = {run.process for run in tasks.part_runs}
        must(len(processes) == len(set(planned.values())) > 1 and os.getpid() not in processes, tasks.report())
        must(sum(run.sent for run in tasks.part_runs) == sum(run.received for run in tasks.part_runs) > 0, "bytes")
        seen.append(len(processes))
    return f"{seen[0]} and {seen[1]} parts, a process each"


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


@row("S4.11")
def breadth_within_memory() -> str:
    endless, needs, fit = Workers.build(2, cores=2), list[int](), 0
    for name in ("tree", "map reduce", "matmul", "stencil", "layered"):
        graph = SMALL_ONES[name]()
        for chunks in (8, 12, 20):
            workers = Workers.build(2, cores=2, memory=int(chunks * CHUNK))
            lean, fast = (choose(graph, workers, prefer=one, budget=None) for one in ("lean", "fast"))
            pure = as_assignment(depth_first(graph, workers, quota=graph.cost.sum() / 2), graph.n)
            depth = simulate(graph, workers, pure, rank_by("dfs", graph)).makespan
            must(fast.predicted.makespan <= depth, (name, chunks, fast.predicted.makespan, depth))

            def peak(rank: Any, plan: Any = lean.plan, graph: PlanGraph = graph) -> float:
                return float(simulate(graph, endless, plan.assign, rank).peak.max()) / CHUNK

            if peak(rank_by("dfs", graph)) <= chunks:
                must(peak(lean.plan.rank) <= chunks and not lean.predicted.spilled, (name, chunks))
                fit += 1
            if name == "tree":
                needs.append(round(peak(fast.plan.rank, fast.plan)))
    must(fit >= 8 and needs[0] <= 8 < needs[1] <= 12 < needs[2], (fit, needs))
    return f"{fit} of 15 fit, as depth first does; a tree takes {needs} chunks of 8, 12 and 20"


@row("S4.13")
def which_neighbour() -> str:
    for rule, (src, dst, cost, nbytes, device, joins) in TIES.items():
        graph = PlanGraph.build(Dag.from_edges(len(cost), src, dst), cost, nbytes, device=device)
        workers = Workers.build(2, speed=[2.0, 1.0], memory=30, device=[1, 2])
        first, again = (merge(graph, workers, quota=cost[0] + 0.5)[0] for _ in range(2))
        must(first == again and first.operands[:2] == (0, joins), rule)
    return f"{len(TIES)} rules"


@row("S4.15")
def waiting_outputs() -> str:
    plan = run((drawn(1024, 1024, chunk=256) + 1).rechunk((1024, 64)).sum(axis=1)).plan()
    near, far = (plan.what_if(hosts=2, bandwidth=speed, policy="cascade-merge").waiting for speed in ("1GiB", "1MiB"))
    must(plan.waiting == 0 < near < far, (plan.waiting, near, far))
    return f"{plan.waiting:.0f}, {near:.0f} and {far:.0f} byte-seconds"


PLAN = {
    "format": "jmars-plan-1",
    "tasks": [{"name": "a", "seconds": 4, "bytes": 100}, {"name": "b", "seconds": 2, "inputs": [0], "machine": 1}],
    "machines": [{"speed": 1.0}, {"speed": 2.0}],
    "links": {"latency": 0.0, "bandwidth": [[1, 50], [10, 1]]},
}


@row("S4.17")
def two_graphs() -> str:
    tasks = PLAN["tasks"]
    found = PlannedRun.from_json(json.dumps(PLAN | {"tasks": [tasks[0] | {"machine": 0}, tasks[1]]})).makespan
    must(found == 4 + 100 / 50 + 2 / 2.0, found)
    plan = (drawn(400, 400, chunk=100) + 1).sum().plan()
    data = json.loads(plan.to_json())
    for task in data["tasks"]:
        task["seconds"] *= 3
    again = PlannedRun.from_json(json.dumps(data))
    must(np.isclose(again.lower_bound, 3 * plan.lower_bound), (again.lower_bound, plan.lower_bound))
    links = measured_links(two_hosts())
    must(all(one["bandwidth"] > 0 for one in links), links)
    return f"{found} s = 4 + 100/50 + 2/2; {len(links)} links measured by runs"


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


@row("S4.25")
def paged_out() -> str:
    with tempfile.TemporaryDirectory() as folder, jmars.Cluster(2, memory_limit="200MiB", spill_dir=folder) as cluster:
        x = mt.arange(30_000_000, chunk_size=1_000_000)  # 240 MB, all of it kept
        cluster.submit(x).wait(60)
        for shift in range(3):
            must(
                cluster.submit(((x + shift) - mt.arange(30_000_000, chunk_size=1_000_000) == shift).all()).result(60),
                shift,
            )
        memory = cluster.info()["memory"]
    must(memory["spilled_total"] > 0 and memory["reloaded_total"] > 0, memory)
    chunks = Chunks(Allocator(4 * PAGE), next_use=[2, 0, 1, 10**9].__getitem__)
    for chunk in range(4):
        chunks.memory[chunk] = chunks.allocator.allocate(PAGE)
    must(chunks.victims(4 * PAGE, in_use=()) == [3, 0, 2, 1], "the chunk read last is paged out first")
    return f"{memory['spilled_total'] / 1e6:.0f} MB out, {memory['reloaded_total'] / 1e6:.0f} MB in"


@row("S4.26")
def slurm() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "jmars", "slurm", "--nodes", "3", "sum.py"], capture_output=True, text=True, timeout=60
    )
    must(done.returncode == 0 and "#SBATCH" in done.stdout, done.stderr)
    return f"{len(done.stdout.splitlines())} lines of a script"
