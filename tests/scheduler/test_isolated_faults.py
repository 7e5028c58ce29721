"""A fault of ours in one job's handling: that job fails with it, gives everything back, and the others go on."""

import asyncio
from contextlib import suppress

import pytest

import jmars.tensor as mt
from jmars.errors import ClusterError, InternalError
from jmars.model.messages import (
    Failed,
    Failure,
    Finished,
    InputsMissing,
    Interrupted,
    JobBroken,
    JobClosed,
    Refused,
    Spilled,
    Started,
    WorkerLost,
)
from jmars.scheduler import graph_actor, prepare
from jmars.scheduler.graph_actor import GraphActor
from jmars.scheduler.operand_rows import OperandActor
from jmars.scheduler.stage_run import StageRun
from tests.scheduler.answers import answer
from tests.scheduler.test_stage_run import Apart, chain, ran, submitted, told


def fails_once(monkeypatch, kind, name):
    """The next call of a method does half of nothing and raises."""
    real, calls = getattr(kind, name), []

    def method(self, *args, **named):
        calls.append(name)
        if len(calls) == 1:
            raise KeyError("injected")
        return real(self, *args, **named)

    monkeypatch.setattr(kind, name, method)
    return calls


def is_ours(report):
    failure = report["error"]
    is_internal = failure.name == InternalError.__name__ and "KeyError: 'injected'" in failure.text
    return report["state"] == "failed" and is_internal


REPORTS = {
    "started": lambda *where: Started(*where),
    "finished": lambda *where: Finished(*where),
    "interrupted": lambda *where: Interrupted(*where),
    "lost": lambda *where: WorkerLost(*where, "killed"),
    "spilled": lambda job, operands, worker: Spilled(job, operands, True),
    "missing": lambda job, operands, worker: InputsMissing(job, operands, [0], "gone"),
}


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_that_cannot_be_acted_on_fails_its_job_alone(monkeypatch, report):
    async def story(one, port, ended):
        job, other = await submitted(one, chain()), await submitted(one, chain(4))
        operand, worker = port.queued[job].pop(0)
        calls = fails_once(monkeypatch, StageRun, report)
        one.report(REPORTS[report](job, [operand], worker))
        assert calls and port.stopped == [job] and [told["job"] for told in ended] == [job] and is_ours(ended[0])
        table = port.tables[job]
        assert set(table.chunk) <= set(port.freed), "every chunk that it may have made is given back"
        assert one.graph(job).stage is None and one.graph(job).describe()["state"] == "failed"
        port.run(one, other)
        assert ended[1]["job"] == other and ended[1]["state"] == "succeeded"

    told(story)


def test_a_broken_job_ends_when_the_workers_have_forgotten_it(monkeypatch):
    async def story(one, port, ended):
        job = await submitted(one, chain())
        fails_once(monkeypatch, StageRun, "finished")
        operand = ran(one, port, job)
        assert port.stopped == port.closing == [job] and ended == [] and port.freed == [], "it may still run"
        one.report(Finished(job, [operand], 0))
        answer(one.cancel(job))
        one.report(Interrupted(job, [1], -1))
        assert ended == [] and port.closing == [job]
        one.report(JobClosed(job, {}))
        assert is_ours(ended[0]) and port.tables[job].chunk[operand] in port.freed
        one.report(JobClosed(job, {}))
        assert len(ended) == 1

    told(story, Apart())


@pytest.mark.parametrize("fault", [(StageRun, "finished"), (GraphActor, "closed"), (GraphActor, "_never_opened")])
def test_its_rows_are_closed_once_wherever_the_fault_is(monkeypatch, fault):
    """Rows that stay open keep the shards of the job in other processes."""

    async def story(one, port, ended):
        job = await submitted(one, chain())
        fails_once(monkeypatch, *fault)
        closed, real = [], OperandActor.close
        monkeypatch.setattr(OperandActor, "close", lambda rows: closed.append(rows) or real(rows))
        if fault[1] == "_never_opened":
            one.report(Refused(job, -1, Failure.of(ClusterError("too many jobs"))))
        else:
            port.run(one, job)
        assert [is_ours(report) for report in ended] == [True] and len(closed) == 1

    told(story)


@pytest.mark.parametrize("name", ["closed", "keep"])
def test_a_fault_at_its_end_leaves_no_result(monkeypatch, name):
    async def story(one, port, ended):
        job = await submitted(one, chain())
        fails_once(monkeypatch, GraphActor, name)
        port.run(one, job)
        assert [is_ours(report) for report in ended] == [True] and ended[0]["results"] == []
        assert one.meta.tensors == {} and one.meta.held() == [] and set(port.tables[job].chunk) <= set(port.freed)

    told(story)


def test_workers_that_refused_a_stage_are_not_asked_to_close_it(monkeypatch):
    """They do not know the job, so they would never report its end."""

    async def story(one, port, ended):
        job = await submitted(one, chain())
        monkeypatch.setattr(graph_actor, "blame_operand", lambda *_: {}["injected"])
        one.report(Refused(job, -1, Failure.of(ClusterError("too many jobs"))))
        assert is_ours(ended[0]) and port.stopped == port.closing == [] and one.meta.held() == []

    told(story, Apart())


@pytest.mark.parametrize("name", ["run", "_begin", "cancel"])
def test_a_fault_before_it_runs_is_told_too(monkeypatch, name):
    async def story(one, port, ended):
        fails_once(monkeypatch, GraphActor, name)
        with suppress(KeyError):  # the task of its preparation ends with it
            await submitted(one, chain())
        await asyncio.sleep(0)
        if name == "cancel":
            answer(one.cancel("job-1"))
        assert [is_ours(report) for report in ended] == [True] and not one.active
        again = await submitted(one, chain())
        port.run(one, again)
        assert ended[1]["state"] == "succeeded"

    told(story)


def test_chunks_of_others_that_it_read_stay_and_are_let_go_of(monkeypatch):
    async def story(one, port, ended):
        x = chain()
        first = await submitted(one, x)
        port.run(one, first)
        (chunk,) = one.meta.held()
        second = await submitted(one, mt.cumsum(x), held=[x.data.key])
        fails_once(monkeypatch, StageRun, "started")
        ran(one, port, second)
        assert is_ours(ended[1]) and one.meta.held() == [chunk] and chunk not in port.freed
        one.drop([x.data.key])
        assert chunk in port.freed

    told(story)


def test_what_the_workers_fail_at_ends_the_job_as_well():
    async def story(one, port, ended):
        job = await submitted(one, chain())
        one.report(JobBroken(job, "KeyError: 'injected' in crew.py, line 20"))
        one.report(JobBroken(job, "twice"))
        one.report(JobBroken("job-99", "never was"))
        assert [is_ours(report) for report in ended] == [True] and "crew.py, line 20" in ended[0]["error"].text

    told(story)


def test_a_try_that_was_planned_before_finds_nothing_to_do(monkeypatch):
    monkeypatch.setattr(prepare, "FIRST_DELAY", 1e-9)

    async def story(one, port, ended):
        job = await submitted(one, chain())
        operand, worker = port.queued[job].pop()
        one.report(Started(job, [operand], worker))
        one.report(Failed(job, operand, worker, Failure("OSError", "no", is_transient=True)))
        fails_once(monkeypatch, StageRun, "spilled")
        one.report(Spilled(job, [operand], True))
        assert is_ours(ended[0])
        raised = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not raised and not port.queued[job]

    told(story)


def test_what_fails_on_the_way_to_its_end_is_raised(monkeypatch):
    """The control process ends then, with that reason: nothing is known any more."""

    async def story(one, port, ended):
        job = await submitted(one, chain())
        fails_once(monkeypatch, StageRun, "finished")
        fails_once(monkeypatch, Apart, "stop_execution")
        with pytest.raises(KeyError, match="injected"):
            ran(one, port, job)

    port = Apart()
    told(story, port)
