"""EngineWorkers without an engine: what is reported, when, and what becomes of operands of broken groups."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from jmars.engines import engine as results_module
from jmars.engines import groups as groups_module
from jmars.engines import port as module
from jmars.engines.engine import EngineWorker, Kept, Result, Results
from jmars.engines.groups import GroupLimits
from jmars.errors import ChunkLostError, ClusterError
from jmars.kernels.group_run import GroupReport
from jmars.model.messages import (
    ChunksLost,
    Failed,
    Failure,
    Finished,
    InputsMissing,
    Interrupted,
    JobClosed,
    Refused,
    Started,
    Timed,
    WorkerLost,
    WorkerMoved,
)
from jmars.storage.chunks import ChunkElements
from tests.engines.noted_port import Port, chain, run


@pytest.fixture
def port(monkeypatch):
    """Groups of at most two operands."""

    def two(table, planned, seconds, kept, limits, *_):
        limits = GroupLimits(2.0, 2**30)
        return plan(table, planned, np.ones(len(table.program)), kept, limits)

    plan = groups_module.plan_groups
    monkeypatch.setattr(groups_module, "plan_groups", two)
    monkeypatch.setattr(module, "STOP_GRACE_SECONDS", 0.05)
    return Port()


@run
async def test_what_ran_ahead_is_kept_back_until_it_is_ready(port):
    port.open_job(chain((0, 1), (1, 2), (2, 3), n=4))
    first, second = port.task(0, 1), port.task(2, 3)
    assert port.engine.tasks[second].inputs == [Result(first, 0)]
    port.ended(first, GroupReport("k1", [5, 6]))
    port.ended(second, GroupReport("k0", [7, 8]))
    assert await port.told() == []
    port.enqueue_graph("job-1", [0], [0])
    started, timed, finished = await port.told()
    assert (started, finished) == (Started("job-1", [0], 1), Finished("job-1", [0], 1, None, [5]))
    assert isinstance(timed, Timed) and list(memoryview(timed.microseconds[2]).cast("I")) == [5]
    port.enqueue_graph("job-1", [1], [0])
    port.enqueue_graph("job-1", [2], [0])
    assert await port.told(Finished) == [
        Finished("job-1", [1], 1, None, [6]),
        Finished("job-1", [2], 0, None, [7]),
    ]


@run
async def test_operands_follow_their_group_level_by_level(port):
    table = chain((0, 1), (1, 2), (2, 3), n=4)

    def ready(report):
        if isinstance(report, Finished) and report.operands[-1] < 3:
            port.enqueue_graph("job-1", [report.operands[-1] + 1], [0])

    port.answer = ready
    port.open_job(table)
    port.enqueue_graph("job-1", [0], [0])
    port.started(port.task(0, 1), "k1")
    assert await port.told() == [Started("job-1", [0], 1)]
    port.ended(port.task(0, 1), GroupReport("k1", [1, 1]))
    port.ended(port.task(2, 3), GroupReport("k1", [1, 1]))
    assert [one.operands for one in await port.told(Finished)] == [[0], [1], [2], [3]]
    port.close_job("job-1")
    (closed,) = await port.told()
    assert isinstance(closed, JobClosed) and closed.measured["peak"] == 160 and closed.measured["moved"] == 0
    assert port.results.kept.get(103) is not None and port.workers.jobs == []
    port.free_chunks([101, 103, 100])
    assert port.results.used == 0


@run
async def test_a_failed_operand_leaves_its_group_and_is_retried_alone(port):
    port.open_job(chain((0, 1), (1, 2), (2, 3), n=4, results=[1, 3]))
    first, second = port.task(0, 1), port.task(2, 3)
    port.enqueue_graph("job-1", [0], [0])
    failure = Failure("OSError", "for a moment", is_transient=True)
    port.ended(first, GroupReport("k0", [5], failure=failure))
    assert await port.told(Finished) == [Finished("job-1", [0], 0, None, [5])]
    assert Result(second, 0) in port.engine.freed  # it read what never came
    port.enqueue_graph("job-1", [1], [1])
    assert await port.told() == [Started("job-1", [1], 0), Failed("job-1", 1, 0, failure)]
    port.enqueue_graph("job-1", [1], [1])
    assert await port.told() == [InputsMissing("job-1", [1], [100], "the task that had them is gone")]
    port.enqueue_graph("job-1", [0], [1])
    await port.told()
    again = port.engine.tasks[port.task(0)]
    assert again.worker == "k1"
    port.ended(again.name, GroupReport("k1", [1]))
    port.enqueue_graph("job-1", [1], [1])
    await port.told()
    assert port.engine.tasks[port.task(1)].inputs == [Result(again.name, 0)]


@run
async def test_a_task_under_which_workers_died_is_told_with_its_ready_operands(port):
    port.open_job(chain((0, 1), (1, 2), (2, 3), n=4))
    port.enqueue_graph("job-1", [0], [0])
    await port.told()
    port.lost([port.task(0, 1)], "killed by SIGKILL", "signal")
    assert await port.told() == [
        Started("job-1", [0], 0),
        WorkerLost("job-1", [0], 0, "killed by SIGKILL", "signal"),
    ]
    port.enqueue_graph("job-1", [0], [0])
    await port.told()
    assert port.engine.tasks[port.task(0)].inputs == []
    assert [group.plan.operands for group in port.workers.jobs[0].running.values()] == [(0,)]


@run
async def test_lost_results_are_told_once_and_only_if_they_were_told_before(port):
    port.open_job(chain((0, 1), n=2, results=[0, 1]))
    task = port.task(0, 1)
    port.ended(task, GroupReport("k0", [1, 1]))
    port.enqueue_graph("job-1", [0], [0])
    await port.told()
    port.lost([task], "it left", "exit")
    assert await port.told() == [ChunksLost([100], "it left")]
    port.lost([task], "it left", "exit")
    assert await port.told() == []
    port.enqueue_graph("job-1", [0], [0])
    await port.told()
    assert port.task(0)


@run
async def test_a_task_whose_inputs_are_gone_is_not_to_blame(port):
    await port.put(7, b"x" * 80)
    table = chain((0, 1), n=2, stored=[0])
    table.chunk[0] = 7
    port.open_job(table)
    port.enqueue_graph("job-1", [1], [0])
    port.started(port.task(1), "k0")
    await port.told()
    port.lost([port.results.kept.get(7).result.task, port.task(1)], "they left", "exit")
    assert await port.told() == [ChunksLost([7], "they left"), Interrupted("job-1", [1], -1)]
    port.enqueue_graph("job-1", [1], [0])
    assert await port.told() == [InputsMissing("job-1", [1], [7], "the task that had them is gone")]


@run
async def test_lost_results_of_ended_jobs_and_of_clients_are_told(port):
    await port.put(7, b"abc")
    kept = port.results.kept.get(7)
    port.lost([kept.result.task], "it left", "exit")
    assert await port.told() == [ChunksLost([7], "it left")]
    assert port.results.kept.get(7) is None and kept.result in port.engine.freed


@run
async def test_a_chunk_that_is_given_up_while_it_comes_is_freed(port):
    putting = asyncio.ensure_future(port.put(7, b"abc"))
    await asyncio.sleep(0)
    port.abandon([7])
    with pytest.raises(ClusterError, match="given up"):
        await putting
    assert port.results.kept.get(7) is None and len(port.engine.freed) == 1


@run
async def test_a_chunk_that_cannot_be_read_is_lost(port):
    await port.put(7, b"abc")
    with pytest.raises(ClusterError, match="no part of chunk 7"):
        await port.read(ChunkElements(7, 1, 1, (3,), (1,)))
    with pytest.raises(ChunkLostError):
        await port.read(ChunkElements(7, 0, 1, (3,), (1,)))
    assert await port.told() == [ChunksLost([7], "it is gone")]
    with pytest.raises(ChunkLostError, match="no longer"):
        await port.read(ChunkElements(7, 0, 1, (3,), (1,)))


@run
async def test_a_chunk_whose_bytes_were_reported_is_read_without_the_engine(port):
    port.open_job(chain((0, 1), n=2))
    told = bytes(range(80))
    port.ended(port.task(0, 1), GroupReport("k0", [1, 1], values={0: told}))
    assert await port.read(ChunkElements(101, 1, 1, (2, 3), (40, 2))) == bytes([1, 3, 5, 41, 43, 45])
    assert await port.read(ChunkElements(101, 0, 8, (10,), (8,))) == told
    with pytest.raises(ClusterError, match="no part of chunk 101"):
        await port.read(ChunkElements(101, 79, 2, (1,), (2,)))


def test_reported_bytes_are_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(results_module, "MOST_VALUES", 8)
    results = Results(lambda freed: None)
    for chunk in (1, 2):
        results.add(chunk, Kept(Result("a", chunk), 5, 0, b"12345"))
    assert [results.kept.get(chunk).value for chunk in (1, 2)] == [b"12345", None]
    results.free([1])
    results.add(3, Kept(Result("a", 3), 5, 0, b"12345"))
    assert results.kept.get(3).value == b"12345" and results.used == 10


@run
async def test_a_stopped_job_ends_with_its_tasks(port):
    port.open_job(chain((0, 1), (1, 2), (2, 3), n=4))
    first, second = port.task(0, 1), port.task(2, 3)
    port.enqueue_graph("job-1", [0], [0])
    port.started(first, "k0")
    await port.told()
    port.stop_execution("job-1")
    assert port.engine.stops == [(1, [first, second])]
    port.close_job("job-1")
    assert await port.told() == []
    port.ended(second, GroupReport("", stopped=True))
    port.ended(first, GroupReport("k0", stopped=True))
    interrupted, closed = await port.told()
    assert interrupted == Interrupted("job-1", [0], -1) and isinstance(closed, JobClosed)
    assert len(port.workers.rows) == 2
    await asyncio.sleep(0.1)
    assert port.engine.killed == []


@pytest.mark.parametrize("kills", [True, False])
def test_tasks_that_do_not_stop_are_killed_then_given_up(port, kills):
    @run
    async def test(port):
        port.engine.kills = kills
        port.open_job(chain((0, 1), n=2))
        task = port.task(0, 1)
        port.enqueue_graph("job-1", [0], [0])
        port.started(task, "k0")
        await port.told()
        port.stop_execution("job-1")
        port.close_job("job-1")
        await asyncio.sleep(0.15)
        assert port.engine.killed == [task]
        interrupted, closed = await port.told()
        assert interrupted == Interrupted("job-1", [0], -1) and isinstance(closed, JobClosed)
        port.ended(task, GroupReport("k0", [1, 1]))
        assert await port.told() == [] and len(port.results) == 0

    test(port)


@run
async def test_a_worker_has_a_number_of_its_own_for_ever(port):
    port.announce()
    assert [one.name for one in await port.told(WorkerMoved)] == ["w0", "w1"]
    port.came(EngineWorker("k2", "w1", "h", 1, 2**20))
    port.left("k0", "it was told to")
    port.came(EngineWorker("k0b", "w0", "h", 1, 2**20))
    assert [(one.worker, one.name, one.state) for one in await port.told(WorkerMoved)] == [
        (2, "w1 (2)", "idle"),
        (0, "w0", "lost"),
        (3, "w0 (3)", "idle"),
    ]
    assert [row.number for row in port.here] == [1, 2, 3]
    port.open_job(chain((0, 1), n=2))
    port.ended(port.task(0, 1), GroupReport("k9", [1, 1]))  # it speaks before it is told of
    port.enqueue_graph("job-1", [0], [0])
    reports = await port.told(WorkerMoved, Started)
    assert [one.worker for one in reports] == [4, 4]


@run
async def test_many_groups_are_submitted_some_at_a_time(port):
    module_ahead, module.MAX_SUBMITTED_TASKS = module.MAX_SUBMITTED_TASKS, 3
    try:
        port.open_job(chain(n=20, results=range(20)))
        assert len(port.engine.tasks) == 3
        for name in list(port.engine.tasks):
            port.ended(name, GroupReport("k0", [1, 1]))
        assert len(port.engine.tasks) == 6
    finally:
        module.MAX_SUBMITTED_TASKS = module_ahead


@run
async def test_a_task_that_cannot_run_at_all_fails_alone(port):
    port.open_job(chain((0, 1), n=2))
    failure = Failure("TypeError", "cannot be unpickled")
    port.failed(port.task(0, 1), failure)
    port.enqueue_graph("job-1", [0], [0])
    await port.told()
    port.failed(port.task(0), failure)
    assert await port.told() == [Started("job-1", [0], 0), Failed("job-1", 0, 0, failure)]


@run
async def test_what_the_engine_does_not_take_is_refused_operand_by_operand(port):
    def submit(task):
        raise TypeError("cannot pickle it")

    port.engine.submit = submit
    port.open_job(chain((0, 1), n=2))
    port.enqueue_graph("job-1", [0], [0])
    started, refused = await port.told()
    assert started == Started("job-1", [0], 0) and isinstance(refused, Refused)
    assert refused.operand == 0 and str(refused.failure) == "TypeError: cannot pickle it"


@run
async def test_the_end_of_the_engine_is_told(port):
    port.workers.closed("it is gone")
    assert port.closed == ["it is gone"]
