"""Distributed execution: tries of document 003."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.errors import JobCancelledError, MemoryLimitError
from jmars.model.status import OperandState as S
from jmars.remote import spawn
from tests.rows import drawn, fails, must, one_host, row, run, slow, states, told, two_hosts


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
