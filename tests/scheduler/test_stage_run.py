"""A stage on the workers: reports that cross orders, come twice or too late, and what is lost from outside."""

import asyncio

import cloudpickle
import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import ChunkLostError, ClusterError, MemoryLimitError, StorageError, WorkerLostError
from jmars.model.messages import (
    ChunksLost,
    Failed,
    Failure,
    Finished,
    InputsMissing,
    Interrupted,
    JobClosed,
    Refused,
    Spilled,
    Started,
    Submission,
    WorkerLost,
    WorkerMoved,
)
from jmars.model.status import JobState
from jmars.model.status import OperandState as S
from jmars.scheduler import EventLog, SessionActor, operand_rows, prepare
from jmars.scheduler.operand_rows import MOST_LOSSES
from jmars.tensor.tensor_graph import TensorGraph
from tests.scheduler.answers import answer
from tests.scheduler.test_plans import Workers

SETTINGS = {"fuse_enabled": False, "fuse_tileable": False}


class Apart(Workers):
    """Workers whose answer to `close_job` comes when it is asked for."""

    def __init__(self):
        super().__init__()
        self.closing = []

    def close_job(self, job):
        self.closing.append(job)


def told(story, port=None):
    """Run a story on a session with made-up workers."""

    async def run():
        workers, ended = port or Workers(), []
        workers.scheduler = one = SessionActor(workers, ["a", "b"], EventLog(), ended.append)
        await story(one, workers, ended)

    asyncio.run(run())


async def submitted(one, *tensors, held=(), shards=1):
    graph = TensorGraph.of([tensor.data for tensor in tensors], held)
    job = answer(one.submit(Submission(cloudpickle.dumps(graph), "", SETTINGS | {"shards": shards})))
    await asyncio.gather(*one._tasks)
    return job


def chain(n=3):
    x = mt.ones(4, chunk_size=4)
    for _ in range(n - 1):
        x = mt.cumsum(x)
    return x


def states(one, job):
    return [S(state) for state in one.graph(job).stage.operands.state]


def ran(one, port, job):
    """One operand that is ready runs to its end."""
    operand, worker = port.queued[job].pop(0)
    one.report(Started(job, [operand], worker))
    one.report(Finished(job, [operand], worker))
    return operand


def test_reports_of_jobs_that_have_ended_or_never_were_change_nothing():
    async def story(one, port, ended):
        job = await submitted(one, chain())
        port.run(one, job)
        for name in (job, "job-99"):
            one.report(Started(name, [0], 0))
            one.report(Finished(name, [0], 0))
            one.report(Failed(name, 0, 0, Failure("ValueError", "")))
            one.report(Interrupted(name, [0], 0))
            one.report(WorkerLost(name, [0], 0, "killed"))
            one.report(InputsMissing(name, [0], [0], "gone"))
            one.report(Refused(name, 0, Failure.of(ValueError())))
            one.report(Spilled(name, [0], True))
            one.report(JobClosed(name, {}))
        assert [report["state"] for report in ended] == [JobState.SUCCEEDED]

    told(story)


@pytest.mark.parametrize(("shards", "spread"), [(1, []), (2, [2])])
def test_an_event_tells_how_many_operands_each_shard_has(shards, spread):
    async def story(one, port, ended):
        job = await submitted(one, chain(), mt.zeros(4), shards=shards)
        told = [data["operands"] for _, _, kind, _, data in answer(one.read(0, job))[0] if kind == "OperandsSpread"]
        assert list(map(len, told)) == spread and all(sum(one) == 4 for one in told)
        port.run(one, job)

    told(story)


def test_a_job_ends_at_the_close_and_a_later_cancel_is_too_late():
    async def story(one, port, ended):
        job = await submitted(one, chain())
        port.run(one, job)
        assert port.closing == [job] and not ended and one.graph(job).state is JobState.RUNNING
        answer(one.cancel(job))
        one.report(JobClosed(job, {"makespan": 1.0, "peak": 5, "spilled": 0, "moved": 0}))
        one.report(JobClosed(job, {"makespan": 9.0, "peak": 5, "spilled": 0, "moved": 0}))  # told twice
        assert [report["state"] for report in ended] == [JobState.SUCCEEDED]
        assert one.graph(job).measured["makespan"] == 1.0

    told(story, Apart())


def test_a_worker_that_took_an_operand_before_the_cancel_leaves_no_chunk():
    async def story(one, port, ended):
        job = await submitted(one, chain())
        (operand, worker) = port.queued[job][0]
        answer(one.cancel(job))
        assert port.closing == [job] and not ended
        one.report(Started(job, [operand], worker))  # it was on its way
        one.report(Finished(job, [operand], worker))
        assert port.tables[job].chunk[operand] in port.freed
        one.report(JobClosed(job, {"makespan": 1.0, "peak": 5, "spilled": 0, "moved": 0}))
        assert [report["state"] for report in ended] == [JobState.CANCELLED]

    told(story, Apart())


def test_workers_that_cannot_open_a_job_are_not_asked_to_close_it():
    async def story(one, port, ended):
        job = await submitted(one, chain())
        one.report(Refused(job, -1, Failure.of(ClusterError("too many jobs"))))
        assert port.closing == [] and [report["state"] for report in ended] == [JobState.FAILED]
        assert str(ended[0]["error"]) == "ClusterError: too many jobs"
        assert one.graph(job).stage is None

    told(story, Apart())


def test_lost_operands_run_again_with_freed_inputs_and_nothing_else():
    async def story(one, port, ended):
        job = await submitted(one, chain(4))
        first, second = ran(one, port, job), ran(one, port, job)
        assert states(one, job)[first] == S.FREED
        chunk = port.tables[job].chunk[second]
        (reader,) = [operand for operand, _ in port.queued[job]]
        one.report(ChunksLost([chunk], "a bad file"))
        one.report(ChunksLost([chunk], "a bad file"))  # told twice
        assert [operand for operand, _ in port.queued[job]] == [reader, first]
        port.queued[job].pop(0)
        one.report(InputsMissing(job, [reader], [chunk], "a bad file"))
        assert states(one, job)[reader] == S.UNSCHEDULED
        port.run(one, job)
        assert ended[0]["state"] == JobState.SUCCEEDED
        (lost,) = [event[4] for event in answer(one.read(0, job))[0] if event[2] == "ChunksLost"]
        assert lost == {
            "chunks": [chunk, port.tables[job].chunk[first]],
            "operands": [second, first],
            "why": "a bad file",
        }

    told(story)


def test_bytes_of_a_source_count_again_where_an_operand_runs_again():
    async def story(one, port, ended):
        source = mt.from_blocks(np.ones, (4,), float, chunk_size=4)
        job = await submitted(one, mt.cumsum(mt.cumsum(source)))
        (reader, worker) = port.queued[job][0]
        first = ran(one, port, job)
        assert first == reader and one.graph(job).stage.read == 32
        one.report(Finished(job, [first], worker))  # told twice
        assert one.graph(job).stage.read == 32
        one.report(ChunksLost([port.tables[job].chunk[first]], "a bad file"))
        port.queued[job].reverse()
        assert ran(one, port, job) == first and one.graph(job).stage.read == 64

    told(story)


def test_a_stored_tensor_read_before_is_held_for_operands_that_run_again():
    async def story(one, port, ended):
        x = mt.ones(4, chunk_size=4)
        port.run(one, await submitted(one, x))
        y = mt.cumsum(mt.cumsum(x))
        job = await submitted(one, y, held={x.data.key})
        lost = ran(one, port, job)
        (source,) = one.graph(job).stage.table.stored
        assert states(one, job)[source] == S.FREED and not one.graph(job).stage.given
        one.report(ChunksLost([port.tables[job].chunk[lost]], "a bad file"))
        assert states(one, job)[source] == S.FINISHED and one.graph(job).stage.given
        one.drop([x.data.key])  # the client lets go of it now; the job reads it still
        assert not set(port.tables[job].chunk[source : source + 1]) & set(port.freed)
        port.queued[job] = [item for item in port.queued[job] if item[0] == lost]
        ran(one, port, job)
        assert set(port.tables[job].chunk[source : source + 1]) <= set(port.freed)

    told(story)


@pytest.mark.parametrize("when", ["before", "while it runs", "when it was let go of"])
def test_a_tensor_of_an_earlier_job_that_is_lost_is_told_by_its_key(when):
    async def story(one, port, ended):
        x = mt.ones(4, chunk_size=4)
        port.run(one, await submitted(one, x))
        ((chunk,),) = answer(one.chunks([x.data.key]))
        if when == "before":
            one.report(ChunksLost([chunk], "a bad file"))
        job = await submitted(one, mt.cumsum(mt.cumsum(x)), held={x.data.key})
        if when == "while it runs":
            one.report(ChunksLost([chunk], "a bad file"))
        elif when == "when it was let go of":
            lost = ran(one, port, job)
            one.drop([x.data.key])
            one.report(ChunksLost([port.tables[job].chunk[lost]], "a bad file"))
        if one.graph(job).stage is not None:
            one.report(Interrupted(job, [operand for operand, _ in port.queued[job]], -1))
        error = ended[-1]["error"].unpickled()
        assert isinstance(error, ChunkLostError) and ended[-1]["state"] == JobState.FAILED
        if when != "when it was let go of":
            assert error.keys == [x.data.key]
            with pytest.raises(ChunkLostError, match="was lost; compute it again"):
                answer(one.chunks([x.data.key]))
        one.drop([x.data.key])
        port.run(one, await submitted(one, x))
        assert answer(one.chunks([x.data.key])) != [[chunk]]

    told(story)


def test_a_stored_tensor_that_is_a_result_may_be_lost_in_mid_run():
    async def story(one, port, ended):
        x = mt.ones(4, chunk_size=4)
        port.run(one, await submitted(one, x))
        job = await submitted(one, x, chain(), held={x.data.key})
        one.report(ChunksLost(answer(one.chunks([x.data.key]))[0], "a bad file"))
        assert ended[-1]["state"] == JobState.FAILED and ended[-1]["job"] == job
        assert ended[-1]["error"].unpickled().keys == [x.data.key]

    told(story)


def test_a_chunk_that_is_lost_again_and_again_ends_the_job(monkeypatch):
    monkeypatch.setattr(operand_rows, "ONE_TROUBLE", 0.0)

    async def story(one, port, ended):
        job = await submitted(one, chain())
        for _ in range(MOST_LOSSES + 1):
            operand = ran(one, port, job)
            port.queued[job].clear()
            assert not ended
            one.report(ChunksLost([port.tables[job].chunk[operand]], "a bad disk"))
            one.report(Interrupted(job, [1], -1))
        error = ended[0]["error"].unpickled()
        assert type(error) is StorageError and f"was lost {MOST_LOSSES + 1} times" in str(error)

    told(story)


@pytest.mark.parametrize(("how", "kind", "says"), [
    ("signal", WorkerLostError, r"ended 3 workers, the last one killed"),
    ("memory", MemoryLimitError, r"took more memory than there is and was ended 3 times"),
])  # fmt: skip
def test_an_operand_that_ends_its_workers_is_fatal(how, kind, says):
    async def story(one, port, ended):
        job = await submitted(one, mt.ones(8, chunk_size=2) + 1)
        operands = sorted(operand for operand, _ in port.queued[job])
        first, beside = operands[0], operands[1]
        for batch in ([first], [first], [first, beside]):
            one.report(Started(job, batch, 0))
            one.report(WorkerLost(job, batch, 0, "killed", how))
        assert ended[0]["state"] == JobState.FAILED
        error = ended[0]["error"].unpickled()
        assert type(error) is kind
        with pytest.raises(kind, match=says):
            raise error
        counts = answer(one.describe(job))["counts"]
        assert counts["running"] == counts["cancelling"] == 0 and counts["fatal"] >= 1

    told(story)


@pytest.mark.parametrize("comes_back", [True, False])
def test_an_operand_that_raises_an_os_error_is_tried_four_times(monkeypatch, comes_back):
    monkeypatch.setattr(prepare, "FIRST_DELAY", 1e-9)

    async def story(one, port, ended):
        job = await submitted(one, chain())
        for tries in range(4):
            while not port.queued[job]:
                await asyncio.sleep(0)
            (operand, worker) = port.queued[job].pop()
            one.report(Started(job, [operand], worker))
            if tries == 3 and comes_back:
                one.report(Finished(job, [operand], worker))
                port.run(one, job)
            else:
                one.report(Failed(job, operand, worker, Failure("OSError", f"try {tries + 1}", is_transient=True)))
        assert ended[0]["state"] == (JobState.SUCCEEDED if comes_back else JobState.FAILED)
        assert comes_back or str(ended[0]["error"]) == "OSError: try 4"

    told(story)


def test_a_cancel_while_an_operand_waits_for_its_next_try_ends_at_once(monkeypatch):
    monkeypatch.setattr(prepare, "FIRST_DELAY", 1e-9)

    async def story(one, port, ended):
        job = await submitted(one, chain())
        (operand, worker) = port.queued[job].pop()
        one.report(Started(job, [operand], worker))
        one.report(Failed(job, operand, worker, Failure("OSError", "no", is_transient=True)))
        answer(one.cancel(job))
        assert ended[0]["state"] == JobState.CANCELLED
        for _ in range(3):
            await asyncio.sleep(0)  # the try that was planned finds nothing to do
        assert not port.queued[job]

    told(story)


def test_all_that_are_to_blame_for_a_death_are_fatal_and_named():
    async def story(one, port, ended):
        job = await submitted(one, mt.arange(12, chunk_size=4) * 2)
        operands = [operand for operand, _ in port.queued[job]]
        for lost in ([operands[0]], [operands[1]], [operands[0]], [operands[1]], operands):
            one.report(Started(job, lost, 0))
            one.report(WorkerLost(job, lost, 0, "ended by signal 11: worker-0 (pid 7)"))
        told_states = dict.fromkeys(operands)
        for _, _, kind, _, data in answer(one.read(0, job))[0]:
            if kind == "OperandsMoved":
                told_states |= dict.fromkeys(np.frombuffer(data["ids"], "<u4").tolist(), S(data["state"]))
        assert [told_states[operand] for operand in operands] == [S.FATAL, S.FATAL, S.CANCELLED]
        one.report(JobClosed(job, {}))
        (report,) = ended
        assert report["state"] == JobState.FAILED and report["error"].name == "WorkerLostError"
        assert "; so did " in report["error"].text

    told(story, Apart())


def test_a_worker_with_a_new_number_joins_running_jobs_and_later_plans():
    async def story(one, port, ended):
        job = await submitted(one, chain())
        one.report(WorkerMoved(3, "d", 7, "idle"))
        assert one.context.workers == ["a", "b", "worker-2", "d"]
        operand, _ = port.queued[job].pop(0)
        one.report(Started(job, [operand], 3))
        one.report(Finished(job, [operand], 3))
        assert +one.held() == {3: 32}
        one.report(WorkerMoved(3, "d", 0, "lost"))
        assert len(one.context.workers) == 4
        port.run(one, job)
        assert [report["state"] for report in ended] == [JobState.SUCCEEDED]

    told(story)


def test_a_result_lost_between_its_stage_and_the_end_fails_the_job():
    async def story(one, port, ended):
        async def true(chunk, size):
            return b"\x01"

        one.context.read_chunk = true
        x = mt.ones(4, chunk_size=4)
        job = await submitted(one, mt.cond(x.sum() > 3, x * 2, x))
        for last in (False, True):
            port.run(one, job)
            one.report(JobClosed(job, {"makespan": 1.0, "peak": 5, "spilled": 0, "moved": 0}))
            if last:  # a host is lost just now
                one.report(ChunksLost(list(port.tables[job].chunk), "the host is gone"))
            await one.graph(job)._going_on
            await asyncio.sleep(0)
        (report,) = ended
        assert report["state"] == JobState.FAILED and isinstance(report["error"].unpickled(), ChunkLostError)

    told(story, Apart())
