"""Graph preparation: tries of documents 000 and 001."""

from __future__ import annotations

import io
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.client import TaskAPI, WebTaskAPI
from jmars.config import load_settings
from jmars.errors import UnknownTaskError, UnsupportedError
from jmars.graph import Dag
from jmars.model.status import OperandState as S
from jmars.optimize import compile_graph
from jmars.optimize.fuse_groups import decompose
from jmars.optimize.regions import fuse_chains, fuse_colors, fuse_regions
from jmars.plan import statistics
from jmars.tensor.tensor_graph import TensorGraph
from tests.rows import drawn, fails, labels, must, one_host, row, run, told, two_hosts


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
    x = mt.arange(40, chunk_size=10)
    tensors = {"plain": x, "function": x.map_blocks(lambda block: block * 2)}
    found, refused = dict[str, Any](), ""
    for allowed in (False, True):
        with one_host().serve(allow_functions=allowed) as gateway, WebTaskAPI(None, gateway.url) as api:
            for name, tensor in tensors.items():
                if name == "function" and not allowed:
                    refused = fails(UnsupportedError, lambda api=api, one=tensor: api.submit_tileable_graph([one]))
                    continue
                task = api.submit_tileable_graph([tensor])
                must(api.wait_task(task, 60).error is None, "error")
                (found[name],) = [one.fetch() for one in api.get_fetch_tileables(task)]
    must(np.array_equal(found["plain"], np.arange(40)) and np.array_equal(found["function"], 2 * np.arange(40)), found)
    must("allow_functions=True" in refused, refused)
    return "by HTTP, the token from the session's file; a function only with allow_functions=True"


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


def program(rng: np.random.Generator) -> Any:
    """A random tensor of several operations on two sources."""
    x, y = (drawn(60, 40, chunk=20, seed=int(rng.integers(100))) for _ in range(2))
    steps: tuple[Callable[[Any], Any], ...] = (
        lambda a: a + 1,
        lambda a: a * y,
        lambda a: mt.sqrt(abs(a)),
        lambda a: a - a.mean(axis=0),
        lambda a: (a.T * 2).T,
    )
    for _ in range(int(rng.integers(2, 8))):
        x = steps[int(rng.integers(len(steps)))](x)
    return x.sum(axis=int(rng.integers(2)))


def rows_of(graph: Any) -> list[Any]:
    """All that is known of each operand."""
    args = graph.args if graph.args is not None else [()] * graph.n
    made = [graph.programs[one] if one >= 0 else graph.stored[k] for k, one in enumerate(graph.program)]
    return [(made[k], graph.inputs(k).tolist(), args[k], int(graph.nbytes[k])) for k in range(graph.n)]


@row("S1.3")
def decomposed() -> str:
    rng, smaller, whole = np.random.default_rng(0), 0, 0
    for _ in range(20):
        graph = compile_graph(TensorGraph.of([program(rng).data]), {"fuse_enabled": False}).after
        for fuse in (fuse_chains, fuse_regions, fuse_colors):
            fused = fuse(graph)
            must(rows_of(decompose(fused)) == rows_of(graph), fuse)
            smaller, whole = smaller + (fused.graph.n < graph.n), whole + 1
    must(smaller > whole // 2, smaller)
    return f"{whole} graphs come back, {smaller} of them were smaller"


@row("S1.5")
def statistics_of_operands() -> str:
    built = told(run(drawn(600, chunk=20).sum(), fuse_enabled=False), "GraphBuilt")[0]
    src, dst = (np.frombuffer(built[one], "<u4").tolist() for one in ("after_src", "after_dst"))
    readers, inputs = ([[] for _ in range(built["n_after"])] for _ in range(2))
    for a, b in zip(src, dst, strict=True):
        readers[a].append(b)
        inputs[b].append(a)

    def follows(operand: int) -> int:
        return 1 + sum(map(follows, readers[operand]))

    def depth(operand: int) -> int:
        return max((1 + depth(one) for one in inputs[operand]), default=0)

    found = statistics(Dag.from_edges(built["n_after"], src, dst))
    for k in range(built["n_after"]):
        told_ = (int(found.depth[k]), int(found.successor_size[k]), int(found.descendant_size[k]))
        must(told_ == (depth(k), len(readers[k]), follows(k)), (k, told_))
    return f"{built['n_after']} operands of a run, at most {int(found.descendant_size.max())} on a path to the end"
