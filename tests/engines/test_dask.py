"""DaskEngine on a real Dask cluster of two worker processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
import pytest
from distributed import Client, LocalCluster

from jmars.engines.dask import DaskEngine
from jmars.engines.dask_worker import RESOURCE
from jmars.engines.engine import EngineWorker, GroupTask, Result
from jmars.engines.parts import versions
from jmars.errors import ChunkLostError, ClusterError, ClusterStartError
from tests.engines.dask_groups import Recorded, cluster_process, run_spec

Ask = Callable[[object], str]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with cluster_process(2) as ask:
        ask("")  # waits until the cluster is there
        yield ask


@pytest.fixture
def client(ask: Ask) -> Iterator[Client]:
    with Client(ask(""), set_as_default=False) as client:
        yield client


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[None]:
    """For clusters in this process: Dask's own thread ends with the test, and its files lie in a folder of the test."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1, thread_name_prefix="Dask-Offload") as executor:
        patch.setattr(distributed.utils, "_offload_executor", executor)
        with dask.config.set({"temporary-directory": str(tmp_path)}):
            yield


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[tuple[DaskEngine, Recorded, list[EngineWorker]]]:
    engine, events = DaskEngine(client, runner=run_spec), Recorded()
    workers = list(await engine.start(events))
    try:
        yield engine, events, workers
    finally:
        await engine.close()


def group(name: str, function: str, *args: Any, inputs: list[Result] = (), outputs: int = 1, **more: Any) -> GroupTask:  # type: ignore[assignment]
    told: dict[str, Any] = {"worker": "", "memory": 10**6, "priority": 0, "job": 1} | more
    spec = pickle.dumps((function, *args))
    return GroupTask(name=name, spec=spec, inputs=inputs, outputs=outputs, **told)


async def whole(engine: DaskEngine, result: Result) -> np.ndarray[Any, Any]:
    return np.frombuffer(await engine.read(result, 0, 8, (4, 4), (32, 8))).reshape(4, 4)


Test = Callable[[Client], Coroutine[Any, Any, None]]


def in_head(test: Test) -> Callable[[Client], None]:
    """Runs a test in a loop of its own, as the head's."""

    def run(client: Client) -> None:
        asyncio.run(test(client))

    run.__name__ = test.__name__
    return run


@in_head
async def test_groups_run_and_their_results_are_read_by_parts(client):
    async with started(client) as (engine, events, workers):
        assert len(workers) == 2 and {worker.cores for worker in workers} == {1}
        assert all(0 < worker.memory <= 0.6e9 for worker in workers)
        engine.submit(group("a", "fill", 1.0, worker=workers[1].key))
        engine.submit(group("b", "fill", 2.0, 3.0, outputs=2))
        engine.submit(group("c", "add", inputs=[Result("a", 0), Result("b", 1)]))
        engine.submit(group("d", "nap", 0.0, inputs=[Result("c", 0)], outputs=0))
        await events.until(lambda: len(events.ends) == 4)
        assert events.ends["a"][0].worker == workers[1].key == events.starts["a"]
        assert list(events.ends["b"][0].microseconds) == [5, 5]
        assert np.array_equal(await whole(engine, Result("c", 0)), np.full((4, 4), 4.0))
        assert np.array_equal(await whole(engine, Result("b", 0)), np.full((4, 4), 2.0))
        told = await engine.memory()
        assert all(told[worker.key]["pid"] > 1 and told[worker.key]["resident"] > 0 for worker in workers)


@in_head
async def test_arrays_that_were_put_are_read_with_strides(client):
    async with started(client) as (engine, _, workers):
        data = np.arange(24, dtype="<i4").reshape(4, 6)
        await engine.put("x", data.tobytes(), workers[0].key)
        part = data[1::2, 4:1:-2]
        got = await engine.read(Result("x", 0), 24 + 16, 4, part.shape, part.strides)
        assert np.array_equal(np.frombuffer(got, "<i4").reshape(part.shape), part)
        await engine.put("y", b"abc", "")
        assert await engine.read(Result("y", 0), 0, 1, (3,), (1,)) == b"abc"
        engine.release([Result("y", 0)])
        with pytest.raises(ChunkLostError, match="chunk 0 of y"):
            await engine.read(Result("y", 0), 0, 1, (3,), (1,))


@in_head
async def test_many_small_groups_beside_the_users_own_tasks(client):
    theirs = client.map(pow, range(20), [2] * 20, pure=False)
    async with started(client) as (engine, events, _):
        for number in range(450):
            inputs = [Result(str(number - 1), 0)] if number % 10 else []
            engine.submit(group(str(number), "add" if inputs else "fill", *([] if inputs else [1.0]), inputs=inputs))
        engine.release([Result("3", 0)])
        await events.until(lambda: len(events.ends) == 450)
        assert all(len(reports) == 1 and reports[0].microseconds for reports in events.ends.values())
        assert np.array_equal(await whole(engine, Result("449", 0)), np.ones((4, 4)))
        with pytest.raises(ChunkLostError):
            await whole(engine, Result("3", 0))
    assert await asyncio.to_thread(client.gather, theirs) == [number**2 for number in range(20)]


@in_head
async def test_stop_drops_what_is_queued_and_interrupts_what_runs(client):
    async with started(client) as (engine, events, _):
        names = [f"n{number}" for number in range(30)]
        for name in names:
            engine.submit(group(name, "nap", 20.0, job=7))
        engine.submit(group("after", "fill", 1.0, job=8, priority=5))
        await events.until(lambda: len(events.starts) == 2)
        begin = time.monotonic()
        engine.stop(7, names)
        await events.until(lambda: len(events.ends) == 31)
        assert time.monotonic() - begin < 2
        assert all(len(events.ends[name]) == 1 and events.ends[name][0].stopped for name in names)
        assert not events.ends["after"][0].stopped
        assert not engine.kill(names)


@in_head
async def test_no_task_waits_behind_a_long_task_while_a_worker_is_idle(client):
    async with started(client) as (engine, events, workers):
        busy = workers[0].key
        engine.submit(group("held", "fill", 3.0, worker=busy))
        await events.until(lambda: "held" in events.ends)
        engine.submit(group("long", "nap", 20.0, job=7, worker=busy))
        await events.until(lambda: "long" in events.starts)
        for number in range(20):
            engine.submit(group(f"a{number}", "fill", 1.0, 2.0, outputs=2, worker=busy))
            engine.submit(group(f"b{number}", "add", inputs=[Result(f"a{number}", 1)], worker=busy))
        engine.submit(group("c", "add", inputs=[Result(f"b{number}", 0) for number in range(20)], worker=busy))
        await events.until(lambda: "c" in events.ends)
        assert {events.ends[name][0].worker for name in ("a0", "b0", "c")} == {workers[1].key}
        assert np.array_equal(await whole(engine, Result("c", 0)), np.full((4, 4), 40.0))
        assert np.array_equal(await whole(engine, Result("held", 0)), np.full((4, 4), 3.0))
        assert "long" not in events.ends
        engine.stop(7, ["long"])
        await events.until(lambda: "long" in events.ends)


@in_head
async def test_errors_of_groups_and_of_the_worker(client):
    async with started(client) as (engine, events, _):
        engine.submit(group("fails", "fail"))
        engine.submit(group("misses", "miss"))
        engine.submit(group("orphan", "add", inputs=[Result("nothing", 0)]))
        await events.until(lambda: events.ends and events.failures and events.losses)
        failure = events.ends["fails"][0].failure
        assert failure is not None and failure.name == "ZeroDivisionError"
        assert (
            "'mine'" in events.failures["misses"].text and "install it on the workers" in events.failures["misses"].text
        )
        assert list(events.losses) == ["orphan"]


@in_head
async def test_a_lost_input_does_not_take_the_tasks_beside_it_along(client):
    async with started(client) as (engine, events, _):
        engine.submit(group("a", "fill", 1.0))
        await events.until(lambda: events.ends)
        key = f"jmars-run-{engine._name}-a"
        await asyncio.to_thread(client.run_on_scheduler, _forget_key, key, client.id)
        engine.submit(group("b", "add", inputs=[Result("a", 0)]))
        engine.submit(group("c", "fill", 2.0))
        await events.until(lambda: "c" in events.ends and "b" in events.losses)


def _forget_key(key: str, client: str, dask_scheduler: Any) -> None:
    dask_scheduler.client_releases_keys(keys=[key], client=client, stimulus_id="test")


@in_head
async def test_more_memory_than_any_worker_has_is_asked_for(client):
    async with started(client) as (engine, events, workers):
        engine.submit(group("big", "fill", 1.0, memory=10**12))
        engine.submit(group("bigger", "fill", 1.0, memory=10**13, worker=workers[0].key))
        await events.until(lambda: len(events.ends) == 2)


def test_nothing_is_left_after_close(client):
    async def run() -> None:
        async with started(client) as (engine, events, workers):
            await engine.put("x", b"abc", workers[0].key)
            engine.submit(group("a", "fill", 1.0, 2.0, outputs=2))
            engine.submit(group("b", "nap", 20.0))
            engine.submit(group("c", "add", inputs=[Result("b", 0)]))
            await events.until(lambda: "b" in events.starts)

    asyncio.run(run())
    left = client.run_on_scheduler(_left)
    assert left == {"keys": [], "plugins": [], "resources": [], "topics": []}
    end = time.monotonic() + 10
    while any(client.run(_left_on_worker).values()):
        assert time.monotonic() < end, client.run(_left_on_worker)
        time.sleep(0.1)


def _left(dask_scheduler: Any) -> dict[str, list[str]]:
    ours = {
        "keys": dask_scheduler.tasks,
        "plugins": dask_scheduler.worker_plugins,
        "resources": dask_scheduler.resources,
        "topics": dask_scheduler._broker._topics,
    }
    return {what: [str(one) for one in there if "jmars" in str(one)] for what, there in ours.items()}


def _left_on_worker(dask_worker: Any) -> list[str]:
    state = dask_worker.state
    names = [*dask_worker.plugins, *state.tasks, *state.total_resources, *state.available_resources, *dask_worker.data]
    running = ["running"] if state.executing_count else []
    return [str(name) for name in names if "jmars" in str(name)] + running


def test_two_clusters_share_the_memory_of_a_worker(client):
    async def run() -> None:
        async with started(client) as (first, events, _):
            async with started(client) as (second, _, _):
                assert first.address == second.address
            first.submit(group("a", "fill", 1.0))
            await events.until(lambda: events.ends)
            told = await asyncio.to_thread(client.scheduler_info)
            assert all(RESOURCE in worker["resources"] for worker in told["workers"].values())

    asyncio.run(run())


def test_an_async_client_in_the_same_loop(inside):
    async def run() -> None:
        options: dict[str, Any] = {"processes": False, "protocol": "tcp", "dashboard_address": ":0"}
        async with (
            LocalCluster(n_workers=1, threads_per_worker=2, asynchronous=True, **options) as cluster,
            Client(cluster, asynchronous=True) as client,
            started(client) as (engine, events, workers),
        ):
            assert workers[0].cores == 2
            engine.submit(group("a", "fill", 1.0))
            await events.until(lambda: events.ends)
            assert np.array_equal(await whole(engine, Result("a", 0)), np.ones((4, 4)))
            await engine.scale(2)
            await events.until(lambda: events.joined)
            await engine.adapt(1, 2)
            promises = engine.promises()
            assert "not encrypted" in promises.security and len(promises.missing) == 5

    asyncio.run(run())


@in_head
async def test_workers_with_other_versions_are_refused(client):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jmars.engines.dask_workers.versions", lambda: versions() | {"numpy": "1.0"})
        with pytest.raises(ClusterStartError, match=r"numpy .*, not 1\.0"):
            await DaskEngine(client).start(Recorded())


OTHER = """
import numpy
numpy.__version__ = "1.0"
from distributed.cli.dask_worker import main
main()
"""


@in_head
async def test_a_worker_with_other_versions_that_joins_late_gets_no_group(client):
    async with started(client) as (engine, events, workers):
        options = ["--no-nanny", "--no-dashboard", "--nthreads", "4", "--memory-limit", "1GB", "--local-directory"]
        with (
            tempfile.TemporaryDirectory() as folder,
            subprocess.Popen([sys.executable, "-c", OTHER, engine.address, *options, folder], stderr=-3) as process,
        ):
            try:
                await events.until(lambda: engine._workers.refused)
                (other,) = engine._workers.refused
                for number in range(12):
                    planned = ["tcp://127.0.0.1:9", other, workers[0].key][number % 3]
                    engine.submit(group(f"a{number}", "nap", 0.2, worker=planned))
                    engine.submit(group(f"b{number}", "add", inputs=[Result(f"a{number}", 0)], worker=planned))
                for number in range(8):
                    await engine.put(f"x{number}", b"abc", "")
                await events.until(lambda: len(events.ends) == 24)
                assert {ends[0].worker for ends in events.ends.values()} == {worker.key for worker in workers}
                assert not events.joined and not events.losses
                held = await asyncio.to_thread(client.has_what)
                assert not held[other]
            finally:
                process.terminate()
        await events.until(lambda: not engine._workers.refused)


@in_head
async def test_results_are_kept_for_readers_that_are_not_sent(client):
    async with started(client) as (engine, events, _):
        engine.submit(group("a", "fill", 1.0))
        await events.until(lambda: "a" in events.ends)
        engine.submit(group("b", "add", inputs=[Result("a", 0)]))
        engine.release([Result("a", 0)])
        await events.until(lambda: "b" in events.ends)
        with pytest.raises(ChunkLostError):
            await whole(engine, Result("a", 0))


def test_no_scheduler_answers(monkeypatch):
    monkeypatch.setattr("jmars.engines.dask.CONNECT", 0.2)
    with pytest.raises(ClusterStartError, match="no Dask scheduler answers"):
        asyncio.run(DaskEngine("tcp://127.0.0.1:9").start(Recorded()))


def test_workers_join_and_die_and_the_scheduler_too():
    async def run(ask: Ask) -> None:
        async with started(ask("")) as (engine, events, workers):
            with pytest.raises(ClusterError, match="cannot scale"):  # its client has no cluster
                await engine.scale(2)
            await _workers_join(ask, engine, events)
            await _a_worker_is_killed_between(engine, events, workers)
            await _a_task_kills_its_workers(engine, events)
            await _all_workers_die(engine, events)
            await asyncio.to_thread(ask, "close")
            await events.until(lambda: events.reasons)
            assert len(events.reasons) == 1

    with cluster_process(2) as ask:
        asyncio.run(run(ask))


async def _a_worker_is_killed_between(engine: DaskEngine, events: Recorded, workers: list[EngineWorker]) -> None:
    """Dask makes the results of the dead worker again; an array that was put there is lost."""
    told = await engine.memory()
    first, second = workers[0].key, workers[1].key
    await engine.put("gone", bytes(8), first)
    for number in range(6):
        engine.submit(group(f"k{number}", "fill", float(number), worker=first))
    engine.submit(group("pid", "nap", 0.0, worker=second))
    await events.until(lambda: len(events.ends) == 7)
    os.kill(told[first]["pid"], signal.SIGKILL)
    engine.submit(group("sum", "add", inputs=[Result(f"k{number}", 0) for number in range(6)], worker=second))
    await events.until(lambda: "sum" in events.ends and first in events.gone and "gone" in events.losses)
    assert np.array_equal(await whole(engine, Result("sum", 0)), np.full((4, 4), 15.0))
    assert len(events.ends["k0"]) == 1 and list(events.losses) == ["gone"]


async def _a_task_kills_its_workers(engine: DaskEngine, events: Recorded) -> None:
    engine.submit(group("killer", "die", outputs=2))
    engine.submit(group("reader", "add", inputs=[Result("killer", 1)]))
    await events.until(lambda: "killer" in events.losses and "reader" in events.losses)
    why, how = events.losses["killer"]
    assert "died" in why and how == "signal"


async def _workers_join(ask: Ask, engine: DaskEngine, events: Recorded) -> None:
    ask(3)
    before = len(events.joined)
    await events.until(lambda: len(engine._workers.present) == 3)
    assert len(events.joined) > before
    newest = events.joined[-1].key
    engine.submit(group("there", "fill", 1.0, worker=newest))
    await events.until(lambda: "there" in events.ends)
    assert events.ends["there"][0].worker == newest


async def _all_workers_die(engine: DaskEngine, events: Recorded) -> None:
    """A task waits for the next worker, though it was planned for a worker that is gone."""
    told = await engine.memory()
    for worker in told.values():
        os.kill(worker["pid"], signal.SIGKILL)
    await events.until(lambda: set(told) <= set(events.gone))
    engine.submit(group("waits", "fill", 1.0, worker=next(iter(told))))
    await events.until(lambda: "waits" in events.ends)
