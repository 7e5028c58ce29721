"""DaskEngine on a real Dask cluster of two worker processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import distributed
import numpy as np
import pytest
from distributed import Client, LocalCluster

from jmars.engines.dask_worker import RESOURCE
from jmars.engines.engine import Result
from jmars.errors import ChunkLostError
from jmars.kernels.group_run import GroupReport
from jmars.storage.chunks import ChunkElements
from tests.engines.dask_groups import group, in_head, started, whole


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[None]:
    """For clusters in this process: Dask's own thread ends with the test, and its files lie in a folder of the test."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1, thread_name_prefix="Dask-Offload") as executor:
        patch.setattr(distributed.utils, "_offload_executor", executor)
        with dask.config.set({"temporary-directory": str(tmp_path)}):
            yield


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
async def test_chunks_of_a_bundle_are_a_single_key_and_are_freed_one_by_one(client):
    async with started(client) as (engine, events, workers):
        for turn, bundles in enumerate([((0, 1, 2),), ((0, 2), (1,)), ((2,), (0, 1))]):
            a, b, c = (f"{name}{turn}" for name in "abc")
            engine.submit(group(a, "fill", 1.0, 2.0, 3.0, outputs=3, bundles=bundles, worker=workers[0].key))
            engine.submit(group(b, "add", inputs=[Result(a, 0), Result(a, 1)], worker=workers[1].key))
            await events.until(lambda b=b: b in events.ends)
            engine.submit(group(c, "add", inputs=[Result(a, 2), Result(b, 0)]))
            await events.until(lambda c=c: c in events.ends)
            assert np.array_equal(await whole(engine, Result(c, 0)), np.full((4, 4), 6.0))
            for number in range(3):
                assert np.array_equal(await whole(engine, Result(a, number)), np.full((4, 4), 1.0 + number))
                engine.release([Result(a, number)])
            engine.release([Result(b, 0), Result(c, 0)])
            await events.until(
                lambda: not [key for key in client.futures if key.startswith(("jmars-run", "jmars-item"))]
            )


@in_head
async def test_arrays_that_were_put_are_read_with_strides(client):
    async with started(client) as (engine, _, workers):
        data = np.arange(24, dtype="<i4").reshape(4, 6)
        await engine.put("x", data.tobytes(), workers[0].key)
        part = data[1::2, 4:1:-2]
        got = await engine.read(Result("x", 0), ChunkElements(0, 24 + 16, 4, part.shape, part.strides))
        assert np.array_equal(np.frombuffer(got, "<i4").reshape(part.shape), part)
        await engine.put("y", b"abc", "")
        assert await engine.read(Result("y", 0), ChunkElements.first(0, 3)) == b"abc"
        engine.release([Result("y", 0)])
        with pytest.raises(ChunkLostError, match="chunk 0 of y"):
            await engine.read(Result("y", 0), ChunkElements.first(0, 3))


@in_head
async def test_the_speed_between_workers_is_measured_after_enough_bytes(client):
    async with started(client) as (engine, events, (here, there)):
        assert engine.bandwidth() is None
        engine.submit(group("a", "large", worker=here.key))
        engine.submit(group("b", "large", worker=there.key))
        await events.until(lambda: "a" in events.ends and "b" in events.ends)
        assert engine.bandwidth() is None
        engine.submit(group("c", "add", inputs=[Result("a", 0)], worker=there.key))
        await events.until(lambda: "c" in events.ends and events.ends["c"][0].worker == there.key)
        await events.until(engine.bandwidth)
        assert 1e6 <= engine.bandwidth() <= 1e11
        assert engine._links.nbytes < 2 * 1500 * 1500 * 8  # each transfer counts once


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
            engine.submit(group(name, "nap", 100.0, job=7))
        engine.submit(group("after", "fill", 1.0, job=8, priority=5))
        await events.until(lambda: len(events.starts) == 2)
        begin = time.monotonic()
        engine.stop(7, names)
        await events.until(lambda: len(events.ends) == 31)
        assert time.monotonic() - begin < 50  # none napped to its end
        assert all(len(events.ends[name]) == 1 and events.ends[name][0].stopped for name in names)
        assert not events.ends["after"][0].stopped
        assert not engine.kill(names)


@in_head
async def test_a_task_that_started_unheard_ends_once_when_it_has_ended(client):
    with TemporaryDirectory() as folder:
        gate = Path(folder) / "gate"
        async with started(client) as (engine, events, _):
            held, said = [], engine._said
            engine._said = lambda *message: held.append(message)
            engine.submit(group("deaf", "gated", str(gate), job=7))
            engine.submit(group("after", "add", inputs=[Result("deaf", 0)], job=7))
            await events.until(lambda: held)
            engine.stop(7, ["deaf", "after"])
            await events.until(lambda: "after" in events.ends)  # the workers have told what runs
            assert events.ends == {"after": [GroupReport("", stopped=True)]}
            gate.touch()
            engine._said = said
            for message in held:
                said(*message)
            await events.until(lambda: "deaf" in events.ends)
            (report,) = events.ends["deaf"]
            assert report == GroupReport(events.starts["deaf"], stopped=True)
            assert not engine._tasks and not engine.results


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


def test_nothing_is_left_after_close(client):
    async def run() -> None:
        async with started(client) as (engine, events, workers):
            await engine.put("x", b"abc", workers[0].key)
            engine.submit(group("a", "fill", 1.0, 2.0, outputs=2))
            engine.submit(group("b", "nap", 20.0))
            engine.submit(group("c", "add", inputs=[Result("b", 0)]))
            await events.until(lambda: "b" in events.starts)

    asyncio.run(run())
    _until_nothing_is_left(client)


def _until_nothing_is_left(client: Any) -> None:
    end = time.monotonic() + 60
    while left := client.run_on_scheduler(_left) + [
        one for some in client.run(_left_on_worker).values() for one in some
    ]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


KILLED = """
import asyncio, sys
from jmars.engines.engine import Result
from tests.engines.dask_groups import group, started

async def run():
    async with started(sys.argv[1]) as (engine, events, workers):
        await engine.put("x", b"abc", workers[0].key)
        engine.submit(group("a", "fill", 1.0, 2.0, outputs=2))
        engine.submit(group("b", "nap", 100.0))
        engine.submit(group("c", "add", inputs=[Result("b", 0)]))
        await events.until(lambda: "b" in events.starts and "a" in events.ends)
        print("runs", flush=True)
        await asyncio.sleep(100)

asyncio.run(run())
"""


def test_nothing_is_left_of_a_kernel_that_is_killed(client):
    theirs = client.submit(pow, 3, 2, pure=False)
    command = [sys.executable, "-c", KILLED, client.scheduler.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "runs\n"
        assert client.run_on_scheduler(_left)
        process.kill()
    _until_nothing_is_left(client)
    assert theirs.result() == 9


def _left(dask_scheduler: Any) -> list[str]:
    state = dask_scheduler
    names = [*state.tasks, *state.worker_plugins, *state.plugins, *state.resources, *state._broker._topics]
    names = [str(one) for one in names if "jmars" in str(one)]
    return [one for one in names if not one.startswith("Client-")]  # Dask's log of clients


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
async def test_results_are_kept_for_readers_that_are_not_sent(client):
    async with started(client) as (engine, events, _):
        engine.submit(group("a", "fill", 1.0))
        await events.until(lambda: "a" in events.ends)
        engine.submit(group("b", "add", inputs=[Result("a", 0)]))
        engine.release([Result("a", 0)])
        await events.until(lambda: "b" in events.ends)
        with pytest.raises(ChunkLostError):
            await whole(engine, Result("a", 0))
