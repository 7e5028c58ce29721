"""Workers of a real Dask cluster that are busy, too small, of other versions, that join, leave and die."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from jmars.engines.dask import DaskEngine, DaskWorkers, cross
from jmars.engines.dask_worker import inspect_worker
from jmars.engines.engine import EngineWorker, Result
from jmars.errors import ClusterError, ClusterStartError
from jmars.kernels.group_run import GroupReport
from jmars.model.versions import versions
from tests.engines.dask_groups import Ask, Recorded, cluster_process, group, in_head, started, whole


@in_head
async def test_no_task_waits_behind_a_long_task_while_a_worker_is_idle(client):
    async with started(client) as (engine, events, workers):
        busy = workers[0].key
        engine.submit(group("held", "fill", 3.0, worker=busy))
        await events.until(lambda: "held" in events.ends)
        engine.submit(group("long", "nap", 100.0, job=7, worker=busy))
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
async def test_more_memory_than_any_worker_has_is_asked_for(client):
    async with started(client) as (engine, events, workers):
        engine.submit(group("big", "fill", 1.0, memory=10**12))
        engine.submit(group("bigger", "fill", 1.0, memory=10**13, worker=workers[0].key))
        await events.until(lambda: len(events.ends) == 2)


@in_head
async def test_workers_with_other_versions_are_refused(client):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jmars.model.versions.versions", lambda: versions() | {"numpy": "1.0"})
        with pytest.raises(ClusterStartError, match=r"numpy .*, not 1\.0"):
            await DaskEngine(client).start(Recorded())


@in_head
async def test_a_new_worker_that_does_not_answer_holds_up_no_other_worker(client):
    silent, *others = await cross(client, client.nthreads)

    async def inspect(dask_worker):
        await asyncio.sleep(30 if dask_worker.address == silent else 0)
        return inspect_worker(dask_worker)

    table = DaskWorkers(client)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jmars.engines.dask.inspect_worker", inspect)
        patch.setattr("jmars.engines.dask.ANSWER", 3.0)  # in which the others answer
        assert await asyncio.wait_for(table.check(), 25) == []
    assert sorted(table._pids) == sorted(others) and not table.refused
    assert await table.check() == []
    assert sorted(table._pids) == sorted([silent, *others])


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


def test_workers_join_and_die_and_the_scheduler_too():
    async def run(ask: Ask) -> None:
        async with started(ask("")) as (engine, events, workers):
            with pytest.raises(ClusterError, match="cannot scale"):  # its client has no cluster
                await engine.scale(2)
            await _workers_join(ask, engine, events)
            await _a_worker_is_killed_between(engine, events, workers)
            await _a_task_kills_its_workers(engine, events)
            await _a_worker_dies_under_a_dropped_task(engine, events)
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
    await events.until(lambda: events.ends.keys() >= {"pid", *(f"k{number}" for number in range(6))})
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


async def _a_worker_dies_under_a_dropped_task(engine: DaskEngine, events: Recorded) -> None:
    """Its start is not heard before the stop, and it never ends."""
    said = engine._said
    held: list[str] = []
    engine._said = lambda name, _: held.append(name)  # type: ignore[method-assign]
    engine.submit(group("deaf", "deaf", 60.0, job=7))
    await events.until(lambda: "deaf" in held)
    engine.stop(7, ["deaf"])
    await events.until(lambda: engine._tasks["deaf"].worker)
    engine._said = said  # type: ignore[method-assign]
    worker = engine._tasks["deaf"].worker
    await events.until(lambda: worker in engine._workers.present)
    told = await engine.memory()
    os.kill(told[worker]["pid"], signal.SIGKILL)
    await events.until(lambda: "deaf" in events.ends and worker in events.gone)
    assert events.ends["deaf"] == [GroupReport(worker, stopped=True)]


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
    await events.until(lambda: engine._workers.present)
    told = await engine.memory()
    for worker in told.values():
        os.kill(worker["pid"], signal.SIGKILL)
    await events.until(lambda: set(told) <= set(events.gone))
    engine.submit(group("waits", "fill", 1.0, worker=next(iter(told))))
    await events.until(lambda: "waits" in events.ends)
