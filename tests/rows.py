"""Tries the rows of the five documents through the public product: python -m tests.rows [ROW ...].

Each row has a small run of its own, which gives a figure, or fails; rows of GPUs run on GPUs made of NumPy. Prints row,
verdict and figure, and rows that have no run here yet; the exit status is 1 if a row fails.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.client import TaskAPI, WebTaskAPI
from jmars.config import config, load_settings
from jmars.errors import GraphError, JobCancelledError, MemoryLimitError, NotReadyError, UnknownTaskError
from jmars.flow import GraphBuilder, GraphPool, GraphProcessor, ThreadPoolExecutor
from jmars.graph import Dag
from jmars.model.status import OperandState as S
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
from jmars.remote import load_tasks, spawn
from tests.seeds.rows import ROWS

TRIES: dict[str, Callable[[], Any]] = {}
OPEN = ExitStack()  # clusters that several rows use


def row(*names: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Notes a function as the try of rows: it returns a figure, or raises."""

    def note(run: Callable[[], Any]) -> Callable[[], Any]:
        TRIES.update(dict.fromkeys(names, run))
        return run

    return note


def must(true: Any, what: object) -> None:
    """Raise AssertionError, also where Python leaves `assert` out."""
    if not true:
        raise AssertionError(what)


@cache
def one_host() -> jmars.Cluster:
    """Two workers."""
    return OPEN.enter_context(jmars.Cluster(n_workers=2, memory_limit="400MiB"))


@cache
def two_hosts() -> jmars.Cluster:
    """Hosts of one worker and of three."""
    return OPEN.enter_context(jmars.Cluster.hosts(["local"] * 2, n_workers=[1, 3], memory_limit="200MiB"))


@cache
def gpus() -> jmars.Cluster:
    """A worker and two GPUs made of NumPy."""
    return OPEN.enter_context(jmars.Cluster(n_workers=1, gpus=["fake:8MiB", "fake:8MiB"], memory_limit="500MiB"))


def run(value: Any, on: jmars.Cluster | None = None, **switches: Any) -> Any:
    """The job of a value, ended."""
    with config.using(task=config.task | switches, local_seconds=0):
        job = (on or one_host()).submit(value)
        job.result(60)
    return job


def told(job: Any, kind: str) -> list[dict[str, Any]]:
    """Data of a job's events of a kind."""
    return [event[4] for event in job.events() if event[2] == kind]


def labels(job: Any) -> list[str]:
    """Names of the operands after fusion."""
    return [str(one) for one in told(job, "GraphBuilt")[0]["after_labels"]]


def states(job: Any) -> set[int]:
    """All states that operands had."""
    return {one["state"] for one in told(job, "OperandsMoved")}


def drawn(*shape: int, chunk: int = 50, seed: int = 0) -> Any:
    """A random tensor."""
    return mt.random.default_rng(seed).random(shape, chunk_size=chunk)


# -- graph preparation
@row("S0.1")
def chunks_from_chunk_size() -> str:
    x = mt.random.rand(100, chunk_size=30)
    must(x.nsplits == ((30, 30, 30, 10),), x.nsplits)
    return str(x.nsplits[0])


@row("S0.2")
def spellings_of_chunk_size() -> str:
    found = [mt.ones((6, 4), chunk_size=size).nsplits for size in (3, (3, 4), ((2, 4), (4,)))]
    must(found == [((3, 3), (3, 1)), ((3, 3), (4,)), ((2, 4), (4,))], found)
    whole = mt.ones(1000).nsplits
    must(whole == ((1000,),), whole)
    return "4 spellings"


@row("S0.3")
def dynamic_tiling() -> str:
    x = drawn(400)
    job = run(mt.sort(x[x > 0.5]).rechunk(100))
    numbers = [one["stage_number"] for one in told(job, "GraphBuilt")]
    must(len(numbers) >= 2, numbers)
    return f"stages {numbers}"


@row("S0.4")
def fusion_shrinks() -> str:
    x = drawn(400, 400, chunk=100)
    fused, apart = (run((x * 2 + 1).sum(), fuse_enabled=on).describe()["operands"] for on in (True, False))
    must(fused < apart, (fused, apart))
    return f"{apart} -> {fused}"


@row("S0.5")
def documented_fusion() -> str:
    a, b = (mt.random.rand(100, chunk_size=100) for _ in range(2))
    names = sorted(labels(run((a + b).sum(), fuse="chain")))
    must(len(names) == 3 and names[0].startswith("add") and "sum" in names[0], names)
    return ", ".join(names)


@row("S0.6")
def results_in_a_chain() -> str:
    x = drawn(100) + 1
    first, total = one_host().submit(x, x.sum()).result(60)
    must(first.shape == (100,) and np.isclose(first.sum(), total), total)
    return "both values"


@row("S0.7")
def numexpr_runs() -> str:
    x = drawn(200, 200, chunk=200)
    job = run(mt.where(x > 0.5, x * 2, x - 1), kernels="numexpr", jit="off")
    ran = {name for one in told(job, "OperandsTimed") for _, name in one["backends"]}
    must("numexpr" in ran, ran)
    return ", ".join(sorted(ran))


@row("S0.9")
def colour_fusion() -> str:
    x = drawn(200, chunk=50)
    counts = [run((x + 1).sum() * x, fuse=how).describe()["operands"] for how in ("chain", "color")]
    must(counts[1] <= counts[0], counts)
    return f"chain {counts[0]}, color {counts[1]}"


@row("S0.10")
def hints_are_not_fused() -> str:
    with jmars.annotate(worker=1):
        x = drawn(40, chunk=40)
    names = labels(run(x + 1)), labels(run(drawn(40, chunk=40) + 1))
    must(len(names[0]) == 2 and len(names[1]) == 1, names)
    return f"{names[0]} beside {names[1]}"


@row("S0.11")
def pinned() -> str:
    with jmars.annotate(worker=1):
        x = drawn(40, chunk=10)
    job = run((x + 1).sum())
    ran: dict[int, int] = {}
    for one in told(job, "OperandsMoved"):
        if one["state"] == S.RUNNING:
            ran |= dict.fromkeys(np.frombuffer(one["ids"], "<u4").tolist(), one["worker"])
    pinned = [ran[k] for k, name in enumerate(labels(job)) if "random" in name]
    must(pinned and set(pinned) == {1}, (pinned, labels(job)))
    return f"{len(pinned)} operands on worker 1"


def planned(search: str) -> tuple[Any, Any, int]:
    """Planned workers, initial operands, and bytes moved on two hosts."""
    x, y = (drawn(800, 800, chunk=100, seed=k) for k in (0, 1))
    job = run((x * y).sum(), two_hosts(), assigner=search, fuse_enabled=False)
    built = told(job, "GraphBuilt")[0]
    initial = ~np.isin(np.arange(built["n_after"]), np.frombuffer(built["after_dst"], "<u4"))
    return np.frombuffer(built["assigned"], "<i2"), initial, int(job.describe()["measured"]["moved"])


@row("S0.12", "S0.14")
def balanced_search() -> str:
    workers, initial, _ = planned("bfs")
    shares = sorted(np.unique(workers[initial], return_counts=True)[1].tolist())
    must(np.array_equal(workers >= 0, initial) and shares == [32, 96], shares)
    return f"1 and 3 workers: {shares}"


@row("S0.13")
def few_bytes() -> str:
    bfs, random = planned("bfs")[2], planned("random")[2]
    must(bfs < random, (bfs, random))
    return f"bfs {bfs / 1e6:.2f} MB, random {random / 1e6:.2f} MB"


@row("S4.24")
def cascades_assigner() -> str:
    workers, initial, _ = planned("ncd")
    must(np.array_equal(workers >= 0, initial), workers)
    return f"{int(initial.sum())} initial operands on {len(set(workers[initial].tolist()))} hosts"


@row("S0.15")
def task_config() -> str:
    text = "task:\n  default_config:\n    optimize_tileable_graph: true\n    fuse_enabled: false\n"
    found = load_settings(text)
    must(found == {"optimize_tileable_graph": True, "fuse_enabled": False}, found)
    return str(len(found))


@row("S0.16")
def task_api() -> str:
    api = TaskAPI(one_host().id, one_host())
    task = api.submit_tileable_graph([mt.ones(10, chunk_size=5).sum()], fuse_enabled=False)
    must(api.wait_task(task, 60).progress == 1.0, "progress")
    must(float(api.get_fetch_tileables(task)[0].fetch()) == 10.0, "value")
    try:
        api.get_task_result("no task")
    except UnknownTaskError:
        return "progress 1.0"
    raise AssertionError("an unknown task is no error")


@row("S0.17")
def web_task_api() -> str:
    with one_host().serve() as gateway, WebTaskAPI(None, gateway.url) as api:
        task = api.submit_tileable_graph([mt.arange(40, chunk_size=10)])
        must(api.wait_task(task, 60).error is None, "error")
        (found,) = [one.fetch() for one in api.get_fetch_tileables(task)]
    must(np.array_equal(found, np.arange(40)), found)
    return "40 elements by HTTP, the token from the session's file"


def asked(header: str, method: str, url: str, body: Any = None) -> bytes:
    """The answer to a request by HTTP, without jmars."""
    name, _, value = header.strip().partition(": ")
    data = None if body is None else json.dumps(body).encode()
    headers = {name: value, "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
        return bytes(answer.read())


@row("S3.3", "S3.5", "S3.9", "S3.13")
def rest() -> str:
    made = {"call": "random.default_rng.random", "kwargs": {"size": [4000, 4000], "seed": 7, "chunk_size": 100}}
    small = {"nodes": {"x": {"call": "arange", "args": [100], "kwargs": {"chunk_size": 10}}}, "results": ["x"]}
    large = {"nodes": {"x": made, "y": {"call": "sort", "args": [{"ref": "x"}]}}, "results": ["y"]}
    with one_host().serve() as gateway:
        header = gateway.header.read_text()
        session = json.loads(asked(header, "POST", f"{gateway.url}/api/session", {}))["id"]
        graphs = f"{gateway.url}/api/session/{session}/graph"
        graph = f"{graphs}/{json.loads(asked(header, 'POST', graphs, small))['id']}"
        while (state := json.loads(asked(header, "GET", graph))["state"]) in ("preparing", "running"):
            time.sleep(0.01)
        part = np.load(io.BytesIO(asked(header, "GET", f"{graph}/result/x?slice=5:95:10")))
        cancelled = f"{graphs}/{json.loads(asked(header, 'POST', graphs, large))['id']}"
        asked(header, "DELETE", cancelled)
        end = json.loads(asked(header, "GET", f"{cancelled}?wait=30"))["state"]
    must((state, end) == ("succeeded", "cancelled") and part.tolist() == list(range(5, 95, 10)), (state, end, part))
    return "submitted, polled, sliced, cancelled"


@row("S0.18")
def progress() -> str:
    job = one_host().submit(mt.sort(drawn(4000, chunk=100)))
    seen = [job.describe()["progress"]]
    while not job.wait(0.002):
        seen.append(job.describe()["progress"])
    seen.append(job.describe()["progress"])
    must(seen == sorted(seen) and seen[-1] == 1.0 and all(one < 1 for one in seen[:-2]), seen)
    return f"{len(set(seen))} values"


@row("S1.1")
def chunks_spelling() -> str:
    must(mt.random.rand(100, chunks=100).nsplits == mt.random.rand(100, chunk_size=100).nsplits, "splits")
    return "equal"


@row("S1.2")
def compose_off() -> str:
    fused, apart = (run(drawn(400, chunk=100) + 1, fuse_enabled=on).describe()["operands"] for on in (True, False))
    must(fused < apart, (fused, apart))
    return f"{apart} -> {fused}"


@row("S1.4")
def first_placement() -> str:
    workers, initial, _ = planned("bfs-v1")
    must(np.array_equal(workers >= 0, initial), workers)
    return f"{int(initial.sum())} operands"


# -- the dataflow engine
def flow() -> GraphBuilder:
    """c = a + b, d = c * 2, e = c - 1."""
    builder = GraphBuilder("three")
    builder.input("a", "b", type=int)
    builder.function(lambda a, b: a + b, ["a", "b"], "c")
    builder.function(lambda c: c * 2, ["c"], "d")
    builder.function(lambda c: c - 1, ["c"], "e")
    return builder


def fails(error: type[Exception], act: Callable[[], Any]) -> str:
    """The error's text; AssertionError where none comes."""
    try:
        act()
    except error as found:
        return str(found)
    raise AssertionError(f"no {error.__name__}")


@row("S2.1")
def joined_by_names() -> str:
    must(flow().finish().build().run("d", "e", given={"a": 1, "b": 2}).result() == (6, 2), "value")
    return "(6, 2)"


@row("S2.2")
def one_producer() -> str:
    builder = flow()
    builder.function(lambda a: a, ["a"], "d")
    return fails(GraphError, builder.finish)[:60]


@row("S2.3")
def variadic() -> str:
    found = []
    for count in (1, 20):
        builder = GraphBuilder()
        names = [f"x{k}" for k in range(count)]
        builder.input(*names)
        builder.function(lambda *values: sum(values), names, "y")
        found.append(builder.finish().build().run("y", given=dict.fromkeys(names, 1)).result())
    must(found == [1, 20], found)
    return str(found)


@row("S2.4")
def frozen() -> str:
    builder = flow()
    built = builder.finish()
    graphs = [built.build() for _ in range(100)]
    must(graphs[7].run("d", given={"a": 1, "b": 1}).result() == 4, "value")
    return fails(GraphError, lambda: builder.function(abs, ["c"], "f"))[:60]


@row("S2.5")
def reset_and_reused() -> str:
    graph = flow().finish().build()
    for k in range(1000):
        must(graph.run("e", given={"a": k, "b": 1}).result() == k, k)
        graph.reset()
    return "1000 runs"


@row("S2.6")
def pool() -> str:
    made = GraphPool(flow().finish(), 2)
    found = []

    def use() -> None:
        for _ in range(50):
            with made.lent() as graph:
                found.append(graph.run("d", given={"a": 1, "b": 2}).result())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    must(found == [6] * 200, len(found))
    return "200 runs, 4 threads, 2 instances"


@row("S2.7")
def only_what_is_asked_for() -> str:
    ran = []
    builder = GraphBuilder()
    builder.input("x")
    for name in ("y", "z"):
        builder.function(lambda x, name=name: ran.append(name), ["x"], name)
    builder.finish().build().run("y", given={"x": 1}).result()
    must(ran == ["y"], ran)
    return str(ran)


@row("S2.8")
def in_parallel() -> str:
    barrier = threading.Barrier(4, timeout=20)
    builder = GraphBuilder()
    builder.input("x")
    for k in range(4):
        builder.function(lambda x: barrier.wait() >= 0, ["x"], f"y{k}")
    with ThreadPoolExecutor(4) as threads:
        graph = builder.finish().build()
        found = graph.run(*(f"y{k}" for k in range(4)), given={"x": 1}, executor=threads).result()
    must(found == (True,) * 4, found)
    return "4 at once"


@row("S2.9")
def outlives_the_builder() -> str:
    graph = flow().finish().build()
    gc.collect()
    must(graph.run("e", given={"a": 1, "b": 2}).result() == 2, "value")
    return "2, builder gone"


class Counts(GraphProcessor):
    """Emits how many runs it has seen."""

    def setup(self, vertex: Any) -> None:
        """Of an instance."""
        self.runs = 0

    def process(self, vertex: Any) -> None:
        """Of a run."""
        self.runs += 1
        vertex.emit(self.runs)


@row("S2.10")
def state_of_an_instance() -> str:
    builder = GraphBuilder()
    builder.vertex(Counts).emit("n")
    built, found = builder.finish(), []
    for graph, runs in ((built.build(), 3), (built.build(), 1)):
        for _ in range(runs):
            found.append(graph.run("n").result())
            graph.reset()
    must(found == [1, 2, 3, 1], found)
    return str(found)


@row("S2.15")
def expressions() -> str:
    builder = GraphBuilder()
    builder.input(*"BCDE")
    builder.expression("B > C ? D + 4 : E * 5", "y")
    graph, found = builder.finish().build(), []
    for b in (1, 3):
        found.append(graph.run("y", given={"B": b, "C": 2, "D": 10, "E": 20}).result())
        graph.reset()
    must(found == [100, 14], found)
    return str(found)


@row("S2.14")
def lazy_branch() -> str:
    ran = []
    builder = GraphBuilder()
    builder.input("x", "flag")
    builder.function(lambda x: ran.append("a") or 1, ["x"], "a")
    vertex = builder.function(lambda a: a, {"a": "a"}, "y")
    vertex.dependency("a").on("flag")
    builder.finish().build().run("y", given={"x": 1, "flag": False}).result()
    must(not ran, ran)
    return "not run"


@row("S2.16")
def errors_end_a_run() -> str:
    builder = flow()
    builder.function(lambda c: 1 // 0, ["c"], "f")
    graph = builder.finish().build()
    fails(ZeroDivisionError, lambda: graph.run("f", given={"a": 1, "b": 2}).result())
    graph.reset()
    return fails((NotReadyError, GraphError), lambda: graph.run("d", given={"a": 1}).result())[:60]


# -- distributed execution
@row("S3.1")
def schedulers_apart() -> str:
    with jmars.Cluster(n_workers=1, schedulers=2, memory_limit="400MiB") as cluster:
        found = float(cluster.submit(mt.ones(100, chunk_size=10).sum()).result(60))
        processes = cluster.info()["scheduler"]["pid"], cluster.info()["workers"][0]["pid"], os.getpid()
    must(found == 100 and len(set(processes)) == 3, processes)
    return f"{len(set(processes))} processes"


@row("S3.4")
def a_job_for_each_submission() -> str:
    jobs = [one_host().submit(drawn(50, seed=k).sum()) for k in range(3)]
    for job in jobs:
        job.wait(60)
    must(len({job.id for job in jobs}) == 3 and {job.state for job in jobs} == {"succeeded"}, jobs)
    return "3 jobs"


@row("S3.6")
def phases() -> str:
    x = drawn(97, 61, chunk=13)
    (made,) = told(run((x @ x.T + 3).sum(axis=0)), "JobPrepared")
    names = [name for name, _ in made["phases"]]
    must(names == ["compile", "rank", "place", "rows"], names)
    return ", ".join(names)


@row("S3.8")
def topological() -> str:
    job = run((drawn(300, 300) @ drawn(300, 300, seed=1)).sum())
    built, ended, ran = told(job, "GraphBuilt")[0], {}, {}
    for turn, one in enumerate(told(job, "OperandsMoved")):
        for operand in np.frombuffer(one["ids"], "<u4").tolist():
            {S.RUNNING: ran, S.FINISHED: ended}.get(one["state"], {}).setdefault(operand, turn)
    edges = list(zip(*(np.frombuffer(built[one], "<u4").tolist() for one in ("after_src", "after_dst")), strict=True))
    wrong = [edge for edge in edges if edge[0] in ended and ended[edge[0]] > ran[edge[1]]]
    must(edges and not wrong, wrong)
    return f"{len(edges)} edges"


@row("S3.11", "S3.28")
def callbacks() -> str:
    heard, all_heard = list[Any](), threading.Semaphore(0)
    job = one_host().submit(drawn(50).sum())
    for _ in range(3):
        job.when_done(lambda one: all_heard.release())
    must(all(all_heard.acquire(timeout=60) for _ in range(3)), heard)
    job.when_done(heard.append)
    must(heard == [job], heard)
    return "3 and one late"


@row("S3.12")
def retries() -> str:
    with tempfile.TemporaryDirectory() as folder:

        def twice() -> int:
            path = Path(folder) / str(len(os.listdir(folder)))
            path.touch()
            if path.name < "2":
                raise OSError("not yet")
            return 42

        found = one_host().submit(spawn(twice)).result(60)
        tries = len(os.listdir(folder))
    must((found, tries) == (42, 3), (found, tries))
    return "42 at try 3"


@row("S3.14")
def cancel() -> str:
    job = one_host().submit(spawn(time.sleep, args=(60,)))
    while job.describe()["state"] == "preparing":
        time.sleep(0.01)
    begun = time.monotonic()
    job.cancel()
    fails(JobCancelledError, lambda: job.result(30))
    return f"{time.monotonic() - begun:.2f} s"


@row("S3.16")
def ended_operands_free() -> str:
    seen = states(run((drawn(200, 200) + 1).sum()))
    must({S.READY, S.RUNNING, S.FINISHED, S.FREED} <= seen, seen)
    return f"{len(seen)} states"


@row("S3.17")
def fatal_and_cancelled() -> str:
    bad = spawn(lambda: 1 / 0)
    job = one_host().submit(spawn(sum, ([spawn(abs, (bad,)), spawn(abs, (1,))],)))
    fails(Exception, lambda: job.result(60))
    counts = job.describe()["counts"]
    must(counts["fatal"] == 3 and counts["cancelled"] + counts["freed"] == 1, counts)
    return f"{counts['fatal']} fatal"


@row("S3.10")
def where_it_was_chosen() -> str:
    job = run(drawn(400, 400, chunk=50) + 1, fuse_enabled=False, replan=False)
    chosen, ran = np.frombuffer(told(job, "GraphBuilt")[0]["assigned"], "<i2"), dict[int, int]()
    for one in told(job, "OperandsMoved"):
        if one["state"] == S.RUNNING:
            ran |= dict.fromkeys(np.frombuffer(one["ids"], "<u4").tolist(), one["worker"])
    initial = np.flatnonzero(chosen >= 0).tolist()
    kept = sum(ran[one] == chosen[one] for one in initial)
    must(kept > len(initial) // 2, (kept, len(initial)))
    return f"{kept} of {len(initial)} on the chosen worker"


@row("S3.18")
def most_bytes() -> str:
    pairs = []
    for k in range(8):
        with jmars.annotate(worker=3 * (k % 2)):  # workers of both hosts
            large = spawn(bytes, args=(1_000_000 + k,))
        with jmars.annotate(worker=3 - 3 * (k % 2)):
            small = spawn(bytes, args=(100_000 + k,))
        pairs.append(spawn(lambda a, b: len(a) + len(b), args=(large, small)))
    job = run(spawn(lambda *v: sum(v), args=tuple(pairs)), two_hosts())
    moved = int(job.describe()["measured"]["moved"])
    must(moved < 1_000_000, moved)
    return f"{moved / 1e6:.1f} MB moved; 8 by the other choice"


@row("S3.19")
def late_binding() -> str:
    job = run(drawn(400, chunk=10).sum(), dispatch="late")
    return f"{job.describe()['operands']} operands"


@row("S3.23")
def push() -> str:
    def ahead(on: bool) -> int:
        with jmars.annotate(worker=0):
            made = [spawn(bytes, args=(50_000 + on,)) for _ in range(10)]
        with jmars.annotate(worker=3):
            added = spawn(int, args=(0,))
            for one in made:
                added = spawn(lambda before, more: before + len(more), args=(added, one))
        before = len(two_hosts().events()[0])
        run(added, two_hosts(), push=on)
        return sum(event[4]["ahead"] for event in two_hosts().events()[0][before:] if event[2] == "ChunksMoved")

    found = ahead(True), ahead(False)
    must(found[0] > 5 and not found[1], found)
    return f"{found[0]} of 10 chunks read ahead, {found[1]} without"


@row("S3.24")
def two_processes() -> str:
    with tempfile.TemporaryDirectory() as folder:

        def meet(block: Any) -> Any:
            Path(folder, str(block[0])).touch()
            while len(os.listdir(folder)) < 2:
                time.sleep(0.001)
            return np.array([os.getpid()])

        pids = one_host().submit(mt.map_blocks(meet, mt.arange(2, chunk_size=1), dtype=int)).result(60)
    must(len({*pids.tolist(), os.getpid()}) == 3, pids)
    return f"{len(set(pids.tolist()))} processes at once"


@row("S3.26")
def four_states() -> str:
    rows = [one["microseconds"] for one in told(run(drawn(500, 500).sum()), "OperandsTimed")]
    must(rows and all(len(one) == 4 for one in rows), rows)
    return f"{len(rows)} reports"


@row("S3.31")
def memory_is_estimated() -> str:
    with jmars.Cluster(n_workers=1, memory_limit="250MiB") as cluster:
        x = mt.ones((6000, 6000), chunk_size=6000)
        return fails(MemoryLimitError, lambda: cluster.submit(x + 1).result(60))[:70]


@row("S3.33")
def spilled() -> str:
    with jmars.Cluster(n_workers=2, memory_limit="200MiB") as cluster:
        x = mt.random.default_rng(0).random((5000, 5000), chunk_size=500)
        job = cluster.submit(x, x.sum())
        whole, total = job.result(120)
        spill = int(job.describe()["measured"]["spilled"])
    must(np.isclose(whole.sum(), total) and spill > 0, spill)
    return f"{spill / 1e6:.0f} MB spilled"


@row("S3.36")
def worker_killed() -> str:
    with jmars.Cluster(n_workers=2, memory_limit="300MiB") as cluster:
        x = mt.map_blocks(slow, mt.arange(60, chunk_size=1))
        job = cluster.submit(x.sum())
        while job.describe()["progress"] < 0.2:
            time.sleep(0.01)
        os.kill(cluster.info()["workers"][0]["pid"], signal.SIGKILL)
        must(int(job.result(60)) == sum(range(60)), "value")
        return f"{cluster.info()['workers'][0]['state']} again"


def slow(block: Any) -> Any:
    """The block, after 10 ms."""
    time.sleep(0.01)
    return block


@row("S3.37")
def shuffles() -> str:
    x = drawn(5000, chunk=500)
    found = run(mt.sort(x)).result(60)
    must(np.all(found[1:] >= found[:-1]), "order")
    return f"{len(found)} sorted"


@row("S3.38")
def scheduler_killed() -> str:
    with jmars.Cluster(n_workers=2, schedulers=2, memory_limit="300MiB") as cluster:
        job = cluster.submit(mt.map_blocks(slow, mt.arange(60, chunk_size=1)).sum())
        while job.describe()["progress"] < 0.2:
            time.sleep(0.01)
        os.kill(cluster.info()["scheduler"]["pid"], signal.SIGKILL)
        must(int(job.result(60)) == sum(range(60)), "value")
    return "value right"


@row("S3.39")
def time_left() -> str:
    job = one_host().submit(mt.map_blocks(slow, mt.arange(100, chunk_size=1)).sum())
    seen = []
    while not job.wait(0.02):
        seen.append(job.describe().get("eta"))
    must(any(one is not None for one in seen), seen)
    return f"{sum(one is not None for one in seen)} estimates"


# -- cascade
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


def verdicts(names: list[str]) -> Iterator[tuple[str, str, str]]:
    """Row, verdict ("yes", "no" or "not tried") and figure, or the reason of a "no"."""
    known: dict[Callable[[], Any], tuple[str, str]] = {}
    for name in names:
        attempt = TRIES.get(name)
        if attempt is None:
            yield name, "not tried", ""
            continue
        if attempt not in known:
            try:
                known[attempt] = "yes", str(attempt())
            except Exception as error:  # whatever it is, the row is not met
                known[attempt] = "no", f"{type(error).__name__}: {error}"[:300]
        yield name, *known[attempt]


def main() -> int:
    """Print the rows and their verdicts; 1 if one is "no"."""
    asked = sys.argv[1:] or list(ROWS)
    counts: dict[str, int] = {}
    with OPEN, contextlib.redirect_stderr(sys.stdout):
        for name, verdict, figure in verdicts(asked):
            counts[verdict] = counts.get(verdict, 0) + 1
            print(f"{name:6} {verdict:9} {ROWS[name].asks[:60]:60} {figure}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return int("no" in counts)


if __name__ == "__main__":
    sys.exit(main())
