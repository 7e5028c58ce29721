"""Distributed execution: tries of document 003."""

from __future__ import annotations

import asyncio
import json
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
from jmars.config import config
from jmars.deploy.memory import available, private_bytes
from jmars.dispatch.task_queue import TaskQueue
from jmars.errors import ActorNotFoundError, ClusterLostError, JobCancelledError, MemoryLimitError
from jmars.kernels import run_executable
from jmars.model.status import OperandState as S
from jmars.remote import spawn
from jmars.scheduler.lifecycle import IllegalMoveError, check
from jmars.scheduler.shards import highest
from tests.cluster.test_replan import cell as slowed_cell
from tests.rows import drawn, fails, must, one_host, row, run, slow, states, told, two_hosts
from tests.seeds.fold import Fold
from tests.seeds.test_s3_actors import over_two_processes


@row("S3.1")
def schedulers_apart() -> str:
    with jmars.Cluster(n_workers=1, schedulers=2, memory_limit="400MiB") as cluster:
        found = float(cluster.submit(mt.ones(100, chunk_size=10).sum()).result(60))
        processes = cluster.info()["scheduler"]["pid"], cluster.info()["workers"][0]["pid"], os.getpid()
    must(found == 100 and len(set(processes)) == 3, processes)
    return f"{len(set(processes))} processes"


@row("S3.2")
def actors() -> str:
    done = list[str]()

    async def acts(channel: Any, process: Any) -> None:
        await channel.create_actor("counter", "mine", 40)
        channel.tell("mine", "add", 1)
        channel.tell_later(0.01, "mine", "add", 1)
        while await channel.ask("mine", "add", 0) != 42:
            await asyncio.sleep(0.01)
        await channel.destroy_actor("mine")
        try:
            await channel.ask("mine", "add", 0)
        except ActorNotFoundError as error:
            done.append(str(error))
        waiting = asyncio.ensure_future(channel.ask("first", "after", 60))
        await channel.ask("first", "add", 0)
        os.kill(process.pid, signal.SIGKILL)
        try:
            await waiting
        except ClusterLostError as error:
            done.append(str(error))

    with tempfile.TemporaryDirectory() as folder:
        over_two_processes(Path(folder), acts)
    must(len(done) == 2, done)
    return done[0][:40]


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


@row("S3.7")
def over_schedulers() -> str:
    share = np.bincount(highest(np.arange(3000, dtype=np.uint64), ["a:1", "b:1", "c:1"]), minlength=3) / 3000
    must(share.min() >= 0.25 and share.max() <= 0.42, share)
    with jmars.Cluster(n_workers=2, schedulers=3, memory_limit="400MiB") as cluster:
        found: dict[str, Any] = {"operands": []}
        while len(found["operands"]) < 3:  # until all take connections
            job = cluster.submit(mt.map_blocks(abs, mt.arange(600, chunk_size=2), dtype="i8").sum())
            must(int(job.result(60)) == sum(range(600)), "value")
            found = (told(job, "OperandsSpread") or [found])[0]
        processes = set(cluster.info()["scheduler"]["processes"].values())
    must(len(processes) == 3 and min(found["operands"]) > 0, (processes, found))
    return f"{found['operands']} operands of a job in 3 processes; 3,000 keys: {share.min():.2f} to {share.max():.2f}"


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


@row("S3.15")
def eight_states() -> str:
    bad = spawn(sum, ([spawn(lambda: 1 / 0), spawn(lambda: 2)],))
    stopped = spawn(time.sleep, (60,))
    jobs = [one_host().submit(one) for one in (drawn(300).sum(), bad, spawn(len, ([stopped],)))]
    while not any(worker["running"] for worker in one_host().info()["workers"]):
        time.sleep(0.01)
    while not jobs[2].events() or S.RUNNING not in states(jobs[2]):
        time.sleep(0.01)
    jobs[2].cancel()
    seen = {S.UNSCHEDULED}
    for job in jobs:
        must(job.wait(60), "no end")
        fold, last = Fold(job.events()), dict[int, S]()
        for operand, state in fold.moves:
            if (before := last.get(operand, S.UNSCHEDULED)) != state:
                check(before, state)  # raises IllegalMoveError
            last[operand] = state
        counts = job.describe()["counts"]
        must(set(fold.sums) == {fold.n} and sum(counts.values()) == fold.n, counts)
        seen |= set(last.values()) | {state for _, state in fold.moves}
    must(len(seen - {S.SPILLED}) == 8, seen)
    fails(IllegalMoveError, lambda: check(S.RUNNING, S.FREED))
    return f"{len(seen - {S.SPILLED})} states, each move legal"


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


@row("S3.20")
def executable_graphs() -> str:
    x = mt.arange(12.0, chunk_size=4)
    job = run((x - 2 * x[::-1]) @ x)
    chunks, last = dict[int, Any](), -1
    for number in range(job.describe()["operands"]):
        graph = json.loads(json.dumps(job.operand(number)))
        *fetches, _ = graph["nodes"]
        must(all(node["op"] == "Fetch" for node in fetches), graph["nodes"])
        last = graph["about"]["operand"]
        chunks[last] = run_executable(graph, [chunks[node["operand"]] for node in fetches])
    must(float(chunks[last].reshape(())) == float(job.result()), chunks[last])
    return f"{len(chunks)} operands run apart, from JSON"


@row("S3.21")
def few_chunks_are_stored() -> str:
    most = {}
    for order in ("mars", "level"):
        line = [spawn(waits, (1,)) for _ in range(16)]
        while len(line) > 1:
            line = [spawn(waits, pair) for pair in zip(line[::2], line[1::2], strict=True)]
        job, stored, held = run(line[0], order=order), list[int](), set[int]()
        must(job.result() == 16, "value")
        for operand, state in Fold(job.events()).moves:
            held.add(operand) if state == S.FINISHED else held.discard(operand)
            stored.append(len(held))
        most[order] = max(stored)
    must(most["mars"] <= 10 and most["level"] >= 12, most)
    return f"mars {most['mars']} chunks, level by level {most['level']}"


def waits(*values: int) -> int:
    """Their sum, after 8 ms, so that the queue decides what is next."""
    time.sleep(0.008)
    return sum(values)


@row("S3.22")
def another_priority() -> str:
    queue = TaskQueue(1)
    for operand in range(100):
        queue.push(0, 1, operand, operand)
    first = [queue.pop(0) for _ in range(50)]
    queue.replan(1, list(range(100))[::-1], [-1] * 100)
    rest = [queue.pop(0) for _ in range(51)]
    must([*first, *rest] == [(1, k) for k in (*range(50), *range(99, 49, -1))] + [None], rest)
    with tempfile.TemporaryDirectory() as folder:
        job = run(slowed_cell(folder, 5.0), fuse_enabled=False)  # one of the two workers turns out slow
    must(told(job, "Replanned"), "no new ranks")
    return f"50 of 50 in the new order; {told(job, 'Replanned')[0]['why'][:50]}"


@row("S3.23")
def push() -> str:
    def ahead(on: bool) -> int:
        with jmars.annotate(worker=0):
            made = [spawn(bytes, args=(50_000 + on,)) for _ in range(10)]
        with jmars.annotate(worker=3):
            added = spawn(int, args=(0,))
            for one in made:
                added = spawn(lambda before, more: before + len(more), args=(added, one))
        job = run(added, two_hosts(), push=on)
        begun = next(event[0] for event in job.events() if event[3] == job.id)
        return sum(event[4]["ahead"] for event in job.events(begun) if event[2] == "ChunksMoved")

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


@row("S3.25")
def one_segment() -> str:
    def segments(pid: int) -> set[str]:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        return {line.split()[4] for line in lines if "memfd:" in line and "jmars" in line}

    run(mt.arange(2_000_000, chunk_size=500_000))
    pids = [worker["pid"] for worker in one_host().info()["workers"]]
    found = [segments(pid) for pid in (*pids, os.getpid())]
    must(found[0] and found[0] == found[1] and found[0] <= found[2], found)
    before = private_bytes(os.getpid())
    view = one_host().fetch(mt.arange(1_000_000).data, copy=False)
    must(not view.flags.writeable and int(view.sum()) == 499_999_500_000, view.flags)
    copied = private_bytes(os.getpid()) - before
    must(copied < view.nbytes // 2, copied)
    return f"one segment in 3 processes, {max(copied, 0) / 1e6:.1f} of {view.nbytes / 1e6:.0f} MB copied"


@row("S3.27")
def one_handler() -> str:
    with tempfile.TemporaryDirectory() as folder, small(folder) as cluster:
        before = cluster.info()["memory"]["arena"]["used"]
        steps = {
            "allocating": lambda: cluster.submit(mt.ones((6000, 6000), chunk_size=6000) + 1),
            "calculating": lambda: cluster.submit(mt.map_blocks(divided, mt.ones(200_000), dtype="f8")),
            "storing": lambda: cluster.submit(spawn(bytes, (300_000_000,))),
        }
        errors = []
        for step, submit in steps.items():
            heard, job = list[Any](), submit()
            job.when_done(heard.append)
            must(job.wait(60) and job.error is not None, step)
            errors.append(type(job.error).__name__)
            del job
            must(len(heard) == 1 and not held(cluster, before), (step, heard))
            heard.clear()
        kept = [drawn(1_000_000, chunk=200_000, seed=k).execute() for k in range(30)]  # 240 MB
        for path in Path(folder).glob("*/*"):
            path.unlink()  # no chunk on disk can be read
        job, heard = cluster.submit(*[one.sum() for one in kept]), list[Any]()
        job.when_done(heard.append)
        must(all(390_000 < float(one) < 610_000 for one in job.result(60)) and heard == [job], heard)
        lost = [one["error"] for one in cluster.jobs() if "cannot read a spilled chunk" in (one["error"] or "")]
        must(lost, "nothing was lost")
    return f"{', '.join(errors)}; preparing inputs: computed again"


def divided(block: Any) -> Any:
    """No value."""
    raise ZeroDivisionError(f"{block[0]} / 0")


def small(folder: str) -> jmars.Cluster:
    """Two workers with little memory."""
    return jmars.Cluster(n_workers=2, memory_limit="200MiB", spill_dir=folder)


def held(cluster: jmars.Cluster, before: int) -> int:
    """Bytes of shared memory that are still held after ten seconds, beyond those before."""
    end = time.monotonic() + 10
    while (used := cluster.info()["memory"]["arena"]["used"] - before) > 4096 and time.monotonic() < end:
        time.sleep(0.01)
    return used if used > 4096 else 0


@row("S3.29")
def queue_of_a_worker() -> str:
    ends = [spawn(waits, (k,), cost=0.01) for k in range(60)]
    for k in range(0, 60, 2):  # half of them have a longer path to the end, so a higher priority
        for _ in range(3):
            ends[k] = spawn(waits, (ends[k],), cost=0.01)
    with config.using(task=config.task | {"order": "blevel"}):
        job = one_host().submit(*ends)
    must(job.result(60) == list(range(60)), "values")
    built, fold = told(job, "GraphBuilt")[0], Fold(job.events())
    begun = [operand for operand, state in fold.moves if state == S.RUNNING and not fold.inputs[operand]]
    high = set(np.frombuffer(built["after_src"], "<u4").tolist())
    places = [[place for place, one in enumerate(begun) if (one in high) == first] for first in (True, False)]
    must(max(places[0]) < 40 and np.mean(places[0]) < np.mean(places[1]) - 20, places)
    long = one_host().submit(*[spawn(waits, (k,)) for k in range(400)])
    while not long.describe()["progress"]:
        time.sleep(0.005)
    begun_at = time.monotonic()
    must(int(run(spawn(waits, (7,))).result(60)) == 7, "value")
    took, done = time.monotonic() - begun_at, long.describe()["progress"]
    must(long.result(60) == list(range(400)) and done < 0.9, done)
    return f"30 urgent ones among the first {max(places[0]) + 1} of 60; a late job {took:.2f} s beside a queue of 400"


@row("S3.30")
def quota() -> str:
    with tempfile.TemporaryDirectory() as folder, small(folder) as cluster:
        x = drawn(1400, 1400, chunk=1400)  # 16 MB; a product needs three of them
        job = cluster.submit(*[((x + k) @ x).sum() for k in range(8)])
        must(all(float(one) > 0 for one in job.result(60)), "value")
        memory = cluster.info()["memory"]
        lines = [np.frombuffer(one["microseconds"][0], "<u4") for one in told(job, "OperandsTimed")]
        waited = sum(int((one > 0).sum()) for one in lines)
        must(waited, "no operand waited")
        must(memory["peak"] <= 1.1 * memory["limit"], memory)
        why = fails(MemoryLimitError, lambda: cluster.submit(drawn(5000, 5000, chunk=5000) + 1).result(60))
    size = why[why.index("needs") :][:20]
    return f"peak {memory['peak'] >> 20} of {memory['limit'] >> 20} MiB, {waited} operands waited; refused: {size}"


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


@row("S3.32")
def half_is_shared() -> str:
    with jmars.Cluster(n_workers=1) as cluster:
        memory = cluster.info()["memory"]
    share = memory["limit"] / available()
    must(0.3 < share < 0.7 and memory["arena"]["capacity"] > memory["limit"] / 2, memory)
    with jmars.Cluster(n_workers=1, memory_limit="300MiB") as cluster:
        limit = cluster.memory_limit
    must(limit == 300 * 2**20, limit)
    return f"{100 * share:.0f} % of what is available; 300 MiB where that is asked for"


@row("S3.34")
def private_loads() -> str:
    with tempfile.TemporaryDirectory() as folder, small(folder) as cluster:
        kept = drawn(50_000_000, chunk=1_000_000) + 1  # 400 MB: most of it lies on disk
        must(cluster.submit(kept).wait(60), "no end")
        before = cluster.info()["memory"]["levels"]
        must(float(cluster.submit(kept.sum()).result(60)) > 0, "value")
        after = cluster.info()["memory"]["levels"]
    private = after["private_total"] - before["private_total"]
    must(private >= before["disk"] / 2 > 0 and after["shared"] <= before["shared"] + 2**16, (before, after))
    return f"{private / 1e6:.0f} of {before['disk'] / 1e6:.0f} MB read into private memory, none into shared"


@row("S3.35")
def lost_inputs() -> str:
    with tempfile.TemporaryDirectory() as folder, small(folder) as cluster:
        x = drawn(40_000_000, chunk=500_000)  # 320 MB, read twice
        job, gone = cluster.submit((x - x.sum() / 4e7).sum()), 0
        with config.using(task=config.task | {"fuse_enabled": False, "redraw": False}):
            job = cluster.submit((x - x.sum() / 4e7).sum())
        while not job.wait(0.005):
            for path in list(Path(folder).glob("*/*"))[: 5 if gone < 5 else 0]:
                path.unlink(missing_ok=True)
                gone += 1
        must(abs(float(job.result())) < 1e-3, job.result())
        again = {one for event in told(job, "ChunksLost") for one in event["operands"]}
        back = {operand for operand, state in Fold(job.events()).moves if state == S.UNSCHEDULED}
    must(again and again <= back, (again, back))
    return f"{len(again)} chunks lost, {len(back)} operands back to unscheduled"


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
