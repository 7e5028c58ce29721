"""Cases of `test_ray.py`, run in a process of their own with a Ray that RayEngine starts: a line of JSON for each.

A process can have one Ray, and what a crashed Ray leaves behind would be joined by the next. Functions that run in
workers are pickled by value, since this module is `__main__`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.engines.engine import EngineWorker, GroupTask, Result
from jmars.engines.ray import RayEngine
from jmars.errors import ChunkLostError, ClusterError, ClusterStartError, JobCancelledError
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import Failure
from jmars.storage.chunks import ChunkElements
from tests.engines.dask_groups import Recorded

SMALL_RAY = {"num_cpus": 2, "object_store_memory": 200_000_000, "include_dashboard": False}


def run_spec(spec: bytes, inputs: Any, stop: Any, worker: str) -> Any:
    """Runs the function and arguments that `spec` holds."""
    function, args = cloudpickle.loads(spec)
    return function(inputs, stop, worker, *args)


def fill(inputs: Any, stop: Any, worker: str, *values: float) -> Any:
    return GroupReport(worker, [5] * len(values)), [np.full((4, 4), value) for value in values]


def large(inputs: Any, stop: Any, worker: str) -> Any:
    return GroupReport(worker, [5]), [np.arange(1_000_000.0)]


def add(inputs: Any, stop: Any, worker: str) -> Any:
    return GroupReport(worker, [7]), [sum(inputs)]


def nap(inputs: Any, stop: Any, worker: str, seconds: float, pid_file: str = "") -> Any:
    if pid_file:
        with open(pid_file, "a") as file:
            file.write(f"{os.getpid()}\n")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if stop():
            return GroupReport(worker, stopped=True), [None]
        time.sleep(0.01)
    return GroupReport(worker, [int(seconds * 1e6)]), [np.array([os.getpid()])]


def ignore(inputs: Any, stop: Any, worker: str) -> Any:
    time.sleep(60)


def die(inputs: Any, stop: Any, worker: str) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(inputs: Any, stop: Any, worker: str) -> Any:
    return GroupReport(worker, failure=Failure.of(ZeroDivisionError("by 0"))), [None]


def miss(inputs: Any, stop: Any, worker: str) -> Any:
    import no_such_module  # type: ignore[import-not-found]  # noqa: F401


def group(name: str, function: Any, *args: Any, inputs: Any = (), outputs: int = 1, **more: Any) -> GroupTask:
    told: dict[str, Any] = {"worker": "", "memory": 10**6, "priority": 0, "job": 1} | more
    return GroupTask(name=name, spec=cloudpickle.dumps((function, args)), inputs=inputs, outputs=outputs, **told)


async def whole(engine: RayEngine, result: Result) -> np.ndarray[Any, Any]:
    return np.frombuffer(await engine.read(result, ChunkElements(0, 0, 8, (4, 4), (32, 8)))).reshape(4, 4)


async def until(happened: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


@asynccontextmanager
async def started(**options: Any) -> AsyncIterator[tuple[RayEngine, Recorded, list[EngineWorker]]]:
    engine, events = RayEngine(runner=run_spec, **options), Recorded()
    workers = list(await engine.start(events))
    try:
        yield engine, events, workers
    finally:
        await engine.close()


Shared = tuple[RayEngine, Recorded, list[EngineWorker]]


async def groups_run_and_their_results_are_read_by_parts(shared: Shared) -> None:
    engine, events, workers = shared
    assert [worker.cores for worker in workers] == [2] and workers[0].name.startswith("node-")
    assert workers[0].memory > 10**8
    engine.submit(group("a", fill, 1.0, worker=workers[0].key))
    engine.submit(group("b", fill, 2.0, 3.0, outputs=2))
    engine.submit(group("c", add, inputs=[Result("a", 0), Result("b", 1)]))
    engine.submit(group("d", nap, 0.0, inputs=[Result("c", 0)], outputs=0, worker="a node that has left"))
    await events.until(lambda: set("abcd") <= events.ends.keys())
    assert events.ends["a"][0].worker == workers[0].key
    assert list(events.ends["b"][0].microseconds) == [5, 5]
    assert np.array_equal(await whole(engine, Result("c", 0)), np.full((4, 4), 4.0))
    assert np.array_equal(await whole(engine, Result("b", 0)), np.full((4, 4), 2.0))


async def a_part_of_a_large_chunk_is_cut_out_by_a_task(shared: Shared) -> None:
    engine, events, _ = shared
    engine.submit(group("large", large))
    await events.until(lambda: "large" in events.ends)
    with pytest.MonkeyPatch.context() as patch:
        for is_near in (True, False):
            patch.setattr("jmars.engines.ray._is_near", lambda *_, near=is_near: near)
            got = await engine.read(Result("large", 0), ChunkElements(0, 80, 8, (3,), (16,)))
            assert np.array_equal(np.frombuffer(got), [10.0, 12.0, 14.0])


async def arrays_that_were_put_are_read_with_strides(shared: Shared) -> None:
    engine, events, workers = shared
    data = np.arange(24, dtype="<i4").reshape(4, 6)
    await engine.put("x", data.tobytes(), workers[0].key)
    part = data[1::2, 4:1:-2]
    got = await engine.read(Result("x", 0), ChunkElements(0, 24 + 16, 4, part.shape, part.strides))
    assert np.array_equal(np.frombuffer(got, "<i4").reshape(part.shape), part)
    engine.submit(group("of x", add, inputs=[Result("x", 0)]))
    await engine.put("y", b"abc", "")
    assert await engine.read(Result("y", 0), ChunkElements(0, 0, 1, (3,), (1,))) == b"abc"
    engine.release([Result("y", 0), Result("x", 0)])
    await events.until(lambda: "of x" in events.ends)
    with pytest.raises(ChunkLostError, match="chunk 0 of y"):
        await engine.read(Result("y", 0), ChunkElements(0, 0, 1, (3,), (1,)))


async def many_small_groups_run_ahead(shared: Shared) -> None:
    engine, events, _ = shared
    for number in range(450):
        inputs = [Result(f"s{number - 1}", 0)] if number % 10 else []
        engine.submit(group(f"s{number}", add if inputs else fill, *([] if inputs else [1.0]), inputs=inputs))
    engine.release([Result("s3", 0)])
    await events.until(lambda: "s449" in events.ends and sum(name[0] == "s" for name in events.ends) == 450)
    assert all(len(reports) == 1 and reports[0].microseconds for reports in events.ends.values())
    assert np.array_equal(await whole(engine, Result("s449", 0)), np.ones((4, 4)))
    with pytest.raises(ChunkLostError):
        await whole(engine, Result("s3", 0))


async def stop_drops_what_is_queued_and_interrupts_what_runs(shared: Shared) -> None:
    engine, events, workers = shared
    names = [f"n{number}" for number in range(30)]
    for name in names:
        engine.submit(group(name, nap, 60.0, job=7))
    engine.submit(group("after", fill, 1.0, job=8, priority=5))
    await events.until(lambda: sum(name in events.starts for name in names) == 2)
    assert (await engine.memory())[workers[0].key]["resident"] > 10**7
    begin = time.monotonic()
    engine.stop(7, names)
    await events.until(lambda: {*names, "after"} <= events.ends.keys())
    assert time.monotonic() - begin < 30  # none napped to its end
    assert all(len(events.ends[name]) == 1 and events.ends[name][0].stopped for name in names)
    assert not events.ends["after"][0].stopped


async def a_task_that_does_not_stop_is_killed(shared: Shared) -> None:
    engine, events, _ = shared
    engine.submit(group("stuck", ignore, job=9))
    await events.until(lambda: "stuck" in events.starts)
    engine.stop(9, ["stuck"])
    await asyncio.sleep(0.2)
    assert "stuck" not in events.ends
    begin = time.monotonic()
    assert engine.kill(["stuck"])
    await events.until(lambda: "stuck" in events.ends)
    assert events.ends["stuck"][0].stopped and time.monotonic() - begin < 30  # of the sixty that it ignores


async def errors_of_groups_and_of_the_worker(shared: Shared) -> None:
    engine, events, _ = shared
    engine.submit(group("fails", fail))
    engine.submit(group("misses", miss))
    engine.submit(group("orphan", add, inputs=[Result("nothing", 0)]))
    await events.until(lambda: "fails" in events.ends and events.failures and events.losses)
    failure = events.ends["fails"][0].failure
    assert failure is not None and failure.name == "ZeroDivisionError"
    text = events.failures["misses"].text
    assert "'no_such_module'" in text and "install it on the nodes" in text
    assert list(events.losses) == ["orphan"]
    with pytest.raises(ClusterError, match="no autoscaler"):
        await engine.scale(3)


async def a_group_runs_again_when_its_process_is_killed(shared: Shared) -> None:
    engine, events, _ = shared
    pids = Path(os.environ["JMARS_CHILD_FOLDER"], "pids")
    engine.submit(group("victim", nap, 1.0, str(pids)))
    await until(lambda: pids.exists() and pids.read_text())
    os.kill(int(pids.read_text()), signal.SIGKILL)
    await events.until(lambda: "victim" in events.ends)
    first, second = map(int, pids.read_text().split())
    data = await engine.read(Result("victim", 0), ChunkElements(0, 0, 8, (1,), (8,)))
    assert first != second == np.frombuffer(data, np.int64)[0] and "victim" not in events.losses


async def a_group_that_kills_its_processes_is_lost(shared: Shared) -> None:
    engine, events, _ = shared
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jmars.engines.ray.RETRIES", 0)
        engine.submit(group("killer", die, outputs=2))
        engine.submit(group("reader", add, inputs=[Result("killer", 1)]))
        await events.until(lambda: "killer" in events.losses and "reader" in events.losses)
    why, how = events.losses["killer"]
    assert "WorkerCrashed" in why and how == "signal"


async def the_maker_of_a_lost_result_is_told(shared: Shared) -> None:
    from ray.exceptions import ObjectReconstructionFailedError

    engine, events, _ = shared
    engine.submit(group("made", fill, 1.0))
    await events.until(lambda: "made" in events.ends)
    lost = engine.results[Result("made", 0)].hex()
    engine.submit(group("reads", nap, 20.0, inputs=[Result("made", 0)], job=11))
    await events.until(lambda: "reads" in events.starts)
    answer: Future[Any] = Future()  # as if the node of the result were gone
    answer.set_exception(ObjectReconstructionFailedError(lost, "", ""))
    engine._done(engine._tasks["reads"], answer)
    await events.until(lambda: {"reads", "made"} <= events.losses.keys())
    engine.stop(11, ["reads"])


async def nothing_is_left_after_close(shared: Shared) -> None:
    import ray

    threads = {thread.name for thread in threading.enumerate()}
    async with started(name="leaves") as (engine, events, workers):
        await engine.put("x", b"abc", workers[0].key)
        engine.submit(group("a", fill, 1.0, 2.0, outputs=2))
        engine.submit(group("b", nap, 60.0))
        engine.submit(group("c", add, inputs=[Result("b", 0)]))
        engine.submit(group("d", ignore))
        await events.until(lambda: "b" in events.starts and "d" in events.starts)
        ray.get_actor("jmars-leaves")
    with pytest.raises(ValueError, match="jmars-leaves"):
        ray.get_actor("jmars-leaves")
    await until(lambda: ray.available_resources().get("CPU") == 2.0)
    assert {thread.name for thread in threading.enumerate()} <= threads


async def nothing_is_left_of_a_driver_that_is_killed(shared: Shared) -> None:
    import ray

    before = ray.available_resources()
    command = [sys.executable, "-m", "tests.engines.ray_child", shared[0].address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and await asyncio.to_thread(process.stdout.readline) == "runs\n"
            ray.get_actor("jmars-killed", "other")
            await until(lambda: ray.available_resources().get("CPU") == 1.0)
        finally:
            process.kill()
    await until(lambda: not any(one["name"] == "jmars-killed" for one in ray.util.list_named_actors(True)))
    await until(lambda: ray.available_resources() == before)


async def be_killed(address: str) -> None:
    import ray

    ray.init(address, namespace="other", log_to_driver=False)
    async with started(address=address, name="killed") as (engine, events, workers):
        await engine.put("x", bytes(10**6), workers[0].key)
        engine.submit(group("a", large))
        engine.submit(group("b", ignore))
        await events.until(lambda: "b" in events.starts and "a" in events.ends)
        print("runs", flush=True)
        await asyncio.sleep(100)


async def another_address_is_refused_and_security_is_told(shared: Shared) -> None:
    engine, *_ = shared
    with pytest.raises(ClusterStartError, match="one connection only"):
        await RayEngine("10.0.0.1:6379").start(Recorded())
    promises = engine.promises()
    assert "not encrypted" in promises.security and len(promises.missing) >= 5


def divides(block: Any) -> Any:
    return 1 // 0


def sleeps(block: Any) -> Any:
    time.sleep(60)


def programs_run_on_a_cluster() -> None:
    jmars.config.local_seconds = 0  # each value is a job
    rng = np.random.default_rng(0)
    with jmars.Cluster.ray() as cluster:
        (node,) = cluster.info()["workers"]
        assert "pid" not in node and node.get("memory") != 0  # no figure, or a true one
        ones = mt.ones((1000, 1000), chunk_size=250)
        asyncio.run(until(lambda: float(ones.sum()) == 1e6 and cluster.info()["workers"][0].get("memory", 0) > 10**7))
        a, b = rng.random((120, 80)), rng.random((80, 90))
        np.testing.assert_allclose((mt.asarray(a, chunk_size=60) @ mt.asarray(b, chunk_size=45)).fetch(), a @ b)
        values = rng.random(5000)
        x = mt.asarray(values, chunk_size=1700)
        np.testing.assert_array_equal(x[x > 0.5].fetch(), values[values > 0.5])
        np.testing.assert_array_equal(mt.sort(x).fetch(), np.sort(values))
        many = rng.random(3_000_000)
        np.testing.assert_array_equal((mt.asarray(many, chunk_size=1_000_000) * 2).fetch(), many * 2)
        job = cluster.submit(mt.map_blocks(divides, mt.ones(4, chunk_size=2), dtype=float).sum())
        with pytest.raises(ZeroDivisionError) as caught:
            job.result(60)
        notes = "\n".join(caught.value.__notes__)
        assert "ray_child.py" in notes and "divides" in notes
        job = cluster.submit(mt.map_blocks(sleeps, mt.ones(4, chunk_size=1), dtype=float).sum())
        time.sleep(1)
        begin = time.monotonic()
        job.cancel()
        with pytest.raises(JobCancelledError):
            job.result(50)
        assert time.monotonic() - begin < 30  # of the sixty that a block sleeps
        assert float(mt.ones(10, chunk_size=3).sum()) == 10


def say(case: str, error: str = "") -> None:
    print(json.dumps({"case": case, "error": error}), flush=True)


async def attempt(case: str, run: Callable[[], Awaitable[None]]) -> None:
    try:
        await run()
    except BaseException:
        say(case, traceback.format_exc())
    else:
        say(case)


CASES = [
    groups_run_and_their_results_are_read_by_parts,
    a_part_of_a_large_chunk_is_cut_out_by_a_task,
    arrays_that_were_put_are_read_with_strides,
    many_small_groups_run_ahead,
    stop_drops_what_is_queued_and_interrupts_what_runs,
    a_task_that_does_not_stop_is_killed,
    errors_of_groups_and_of_the_worker,
    a_group_runs_again_when_its_process_is_killed,
    a_group_that_kills_its_processes_is_lost,
    the_maker_of_a_lost_result_is_told,
    nothing_is_left_after_close,
    nothing_is_left_of_a_driver_that_is_killed,
    another_address_is_refused_and_security_is_told,
]
NAMES = [*(case.__name__ for case in CASES), programs_run_on_a_cluster.__name__, "a_ray_that_was_started_here_ends"]


async def main() -> None:
    async def programs() -> None:
        await asyncio.to_thread(programs_run_on_a_cluster)

    async def ends() -> None:
        assert not ray.is_initialized()
        _, left = psutil.wait_procs(children, 10)
        assert not left

    async with started(address="local", _temp_dir=os.environ["JMARS_CHILD_FOLDER"], **SMALL_RAY) as shared:
        import ray

        for case in CASES:
            await attempt(case.__name__, lambda case=case: case(shared))
        await attempt(programs_run_on_a_cluster.__name__, programs)
        children = psutil.Process().children(recursive=True)
        assert children
    await attempt("a_ray_that_was_started_here_ends", ends)


if __name__ == "__main__":
    asyncio.run(be_killed(sys.argv[1]) if sys.argv[1:] else main())
