"""A structure is prepared once: its jobs share the plan, each has an instance of its own and gives it back."""

from __future__ import annotations

import asyncio

import cloudpickle
import pytest

import jmars.tensor as mt
from jmars.model.messages import (
    Failed,
    Failure,
    Finished,
    Interrupted,
    JobClosed,
    Refused,
    Started,
    Submission,
    WorkerMoved,
)
from jmars.model.status import JobState
from jmars.plan import Profile
from jmars.plan import Workers as PlanWorkers
from jmars.scheduler import EventLog, Machine, SessionActor
from jmars.scheduler import plans as plans_module
from jmars.scheduler.plans import Plans
from jmars.scheduler.prepare import Prepared, prepare
from jmars.scheduler.session_actor import PICTURES, SHOWN
from jmars.tensor.spawn import spawn
from jmars.tensor.structure import bindings, canonical, digest_of
from jmars.tensor.tensor_graph import TensorGraph
from tests.scheduler.answers import answer


class Workers:
    """A `WorkerPort` that notes its orders and runs nothing by itself."""

    def __init__(self):
        self.tables, self.queued, self.freed, self.stopped = {}, {}, [], []
        self.makespan = 0.0

    def open_job(self, table):
        self.tables[table.job] = table
        self.queued[table.job] = []

    def enqueue_graph(self, job, operands, workers):
        self.queued[job] += zip(operands, workers, strict=True)

    def stop_execution(self, job):
        self.stopped.append(job)

    def close_job(self, job):
        self.scheduler.report(JobClosed(job, {"makespan": self.makespan, "peak": 0, "spilled": 0, "moved": 0}))

    def free_chunks(self, chunks):
        self.freed += chunks

    def run(self, session, job):
        """Run one operand after another until nothing is ready."""
        while self.queued[job]:
            operand, worker = self.queued[job].pop()
            session.report(Started(job, [operand], worker))
            session.report(Finished(job, [operand], worker))


def session(budget=2**20):
    port, ended = Workers(), []
    port.scheduler = SessionActor(port, ["a", "b"], EventLog(), ended.append, budget)
    return port.scheduler, port, ended


def test_plans_for_other_machines_are_forgotten():
    async def story():
        one, port, _ = session()
        port.run(one, await submitted(one, mt.ones(4) + 1))
        assert len(one.plans) == 1
        one.report(WorkerMoved(2, "c", 0, "idle"))
        assert len(one.plans) == one.plans.size == 0 and one.plans.dropped == 1

    asyncio.run(story())


def wire(tensor):
    graph = TensorGraph.of([tensor.data])
    bound = bindings(graph.operands, [meta.key for meta in graph.metas])
    return cloudpickle.dumps(canonical(graph)), digest_of(graph, {}), bound


async def submitted(one, tensor, ticket=""):
    blob, structure, bound = wire(tensor)
    job = answer(one.submit(Submission(blob, "", {}, ticket, structure, bound)))
    await asyncio.gather(*one._tasks)
    return job


def again(one, tensor):
    """Submit only the structure."""
    _, structure, bound = wire(tensor)
    return answer(one.submit(Submission(b"", structure=structure, bindings=bound)))


def cell():
    return (mt.ones(8, chunk_size=2) + 1).sum()


def test_jobs_of_one_structure_share_the_plan_and_not_the_counters():
    async def story():
        one, port, ended = session()
        first = await submitted(one, cell())
        tensors = [cell() for _ in range(3)]
        others = [again(one, tensor) for tensor in tensors]
        tables = [port.tables[job] for job in (first, *others)]
        assert all(table.programs is tables[0].programs and table.inputs is tables[0].inputs for table in tables)
        assert len({id(table.rank) for table in tables}) == len(tables)  # another plan changes one run
        assert len({table.base for table in tables}) == len(tables)  # each has chunks of its own
        assert len({id(one.graphs[job].stage.operands.counters) for job in (first, *others)}) == 4
        for job in (others[1], first, others[2], others[0]):
            port.run(one, job)
        assert [report["state"] for report in ended] == [JobState.SUCCEEDED] * 4
        assert [report["results"] for report in ended][1:2] != [ended[0]["results"]]
        assert {report["results"][0] for report in ended} >= {tensor.data.key for tensor in tensors}

    asyncio.run(story())


@pytest.mark.parametrize("how", ["cancelled", "cancelled while it runs", "failed", "refused"])
def test_a_job_that_ends_badly_leaves_nothing_to_the_next(how):
    async def story():
        one, port, ended = session()
        job = await submitted(one, cell())
        if how != "cancelled":
            (operand, worker), (other, elsewhere) = port.queued[job][:2]
            one.report(Started(job, [operand], worker))
            one.report(Started(job, [other], elsewhere))
            one.report(Finished(job, [other], elsewhere))
        if how == "failed":
            one.report(Failed(job, operand, worker, Failure("ValueError", "no")))
        elif how == "refused":
            one.report(Refused(job, operand, Failure.of(ValueError("no"))))
            one.report(Interrupted(job, [operand], worker))
        else:
            answer(one.cancel(job))
            if how == "cancelled while it runs":
                assert not ended  # what runs may report still, so the job goes on
                one.report(Finished(job, [operand], worker))
        assert [report["state"] for report in ended] == [JobState.CANCELLED if "cancel" in how else JobState.FAILED]
        second = again(one, cell())
        port.run(one, second)
        assert ended[-1]["state"] == JobState.SUCCEEDED

    asyncio.run(story())


def test_what_was_dropped_is_asked_for_whole():
    async def story():
        one, _, _ = session(budget=0)
        await submitted(one, cell())
        assert again(one, cell()) == ""
        assert one.plans.counts() == {"plans": 0, "size": 0, "found": 0, "missed": 1, "dropped": 1, "refined": 0}

    asyncio.run(story())


class Sized:
    def __init__(self, size):
        self.size = size


def test_what_was_used_longest_ago_goes_first_and_the_bytes_are_counted():
    plans = Plans(budget=100)
    a, b, c = Sized(40), Sized(40), Sized(30)
    plans.keep(b"a", a)
    plans.keep(b"b", b)
    assert plans.find(b"a") is a
    plans.keep(b"c", c)
    assert plans.find(b"b") is None and plans.find(b"a") is a and plans.find(b"c") is c
    plans.keep(b"a", Sized(50))  # prepared twice at the same time
    assert plans.counts() == {"plans": 2, "size": 80, "found": 3, "missed": 1, "dropped": 1, "refined": 0}
    plans.keep(b"d", Sized(101))  # too large for itself: the others stay
    assert plans.size == 80 and len(plans) == 2 and plans.find(b"d") is None
    plans.keep(b"a", Sized(101))
    assert plans.size == 30 and plans.find(b"a") is None and plans.find(b"c") is c


def test_of_many_small_plans_the_newest_are_kept(monkeypatch):
    monkeypatch.setattr(plans_module, "KEPT", 3)

    async def story():
        one, port, _ = session(2**30)
        for n in range(5):
            port.run(one, await submitted(one, mt.ones(4 + n) + 1))
        assert len(one.plans) == 3 and one.plans.dropped == 2
        assert one.plans.size == sum(kept.size for kept in one.plans._kept.values())

    asyncio.run(story())


@pytest.mark.parametrize(
    "tensor",
    [
        lambda one: spawn(len, (one,)),
        lambda one: spawn(lambda: len(one)),
        lambda one: mt.map_blocks(lambda block: block + len(one), mt.ones(4), dtype=float),
    ],
)
def test_what_functions_bring_along_counts_in_the_size_of_a_plan(tensor):
    async def story():
        one, _, _ = session()
        await submitted(one, tensor(b"x" * 10**5))
        (prepared,) = one.plans._kept.values()
        assert 10**5 < prepared.size < 1.5 * 10**5

    asyncio.run(story())


def test_a_plan_that_cannot_be_made_again_leaves_the_one_that_is_there(monkeypatch, caplog):
    async def story():
        one, port, ended = session()
        one.context.machine = lambda: Machine(Profile(), 2**30)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
        job = await submitted(one, cell())
        (before,) = one.plans._kept.values()
        port.makespan = 5.0
        port.run(one, job)
        await asyncio.wait(one.context._refining)
        assert one.plans.find(wire(cell())[1]) is before and ended[0]["state"] == JobState.SUCCEEDED

    wrong = []
    monkeypatch.setattr(Prepared, "planned_again", lambda *args: 1 / 0)
    asyncio.run(story())
    assert not wrong and "ZeroDivisionError" in caplog.text


def test_what_an_ended_job_is_remembered_by_is_no_graph():
    async def story():
        one, port, _ = session()
        x = mt.arange(6, chunk_size=2)
        one.context.read_chunk = None
        blob = cloudpickle.dumps(TensorGraph.of([x[x > 1].data]))
        job = answer(one.submit(Submission(blob)))
        await asyncio.gather(*one._tasks)
        answer(one.cancel(job))
        while one.active:
            port.run(one, job)
        graph = one.graph(job)
        assert graph.settled == {} and graph._stages is None and graph.stage is None

    asyncio.run(story())


def test_jobs_that_ended_long_ago_take_no_byte_for_each_operand():
    async def story():
        one, port, _ = session()
        x = mt.ones(100, chunk_size=1)
        jobs = []
        for _ in range(PICTURES + 1):
            jobs.append(await submitted(one, x))
            port.run(one, jobs[-1])
        first, last = one.graph(jobs[0]), one.graph(jobs[-1])
        assert len(first._final_states) == 0 and len(last._final_states) >= 100
        assert len(first.standing()) == 2 < len(last.standing())
        assert first.describe()["operands"] == len(last._final_states)

    asyncio.run(story())


def test_of_large_jobs_that_ended_the_last_picture_is_kept_and_no_plan():
    async def story():
        one, port, _ = session()
        jobs = []
        for k in range(PICTURES):
            jobs.append(await submitted(one, mt.ones(100 + k, chunk_size=1)))
            budget = one.graph(jobs[-1]).newest.prepared.size * 3 // 2 if k < PICTURES - 1 else 10
            one.plans.budget = budget // SHOWN
            port.run(one, jobs[-1])
            assert len(one.graph(jobs[-1]).standing()) > 2
            assert [one.graph(job).newest is not None for job in jobs] == [False] * k + [k < PICTURES - 1]
            assert all(len(one.graph(job).standing()) == 2 for job in jobs[:-1])
        jobs.append(await submitted(one, mt.ones(99, chunk_size=1)))
        port.run(one, jobs[-1])
        assert [len(one.graph(job).standing()) > 2 for job in jobs] == [False] * PICTURES + [True]

    asyncio.run(story())


def test_many_questions_whether_a_job_has_ended_leave_nothing_behind():
    async def story():
        one, port, _ = session()
        job = await submitted(one, cell())
        for _ in range(3):
            await one.wait(job, 0)
        assert not one._waiting
        waiting = asyncio.ensure_future(one.wait(job))
        await asyncio.sleep(0)
        await one.wait(job, 0)
        port.run(one, job)
        await waiting
        assert not one._waiting

    asyncio.run(story())


def test_a_far_off_prediction_makes_the_next_run_plan_anew():
    async def story():
        one, port, ended = session()
        profile = Profile()
        one.context.machine = lambda: Machine(profile, 2**30)
        job = await submitted(one, cell())
        (before,) = one.plans._kept.values()
        assert before.picture["predicted"] is None  # nothing worth a plan, as far as was known
        port.makespan = 5.0
        port.run(one, job)
        await asyncio.gather(*one.context._refining)
        (after,) = one.plans._kept.values()
        assert after is not before and after.refined == 1 and after.flow is before.flow
        assert one.plans.refined == 1
        for _ in range(3):
            job = again(one, cell())
            assert sorted(port.tables[job].rank) == list(range(len(port.tables[job].rank)))
            port.run(one, job)
            await asyncio.gather(*one.context._refining)
        assert one.plans.refined == 2  # and no more
        assert [report["state"] for report in ended] == [JobState.SUCCEEDED] * 4

    asyncio.run(story())


def test_an_operand_in_words_says_which_chunk_it_makes():
    graph = canonical(TensorGraph.of([(mt.ones(8, chunk_size=2) + 1).data]))
    prepared = prepare(graph, {}, ["a"], lambda: None)
    bound = bindings(graph.operands, [meta.key for meta in graph.metas])
    words = [prepared.blame(operand, bound)[0] for operand in range(4)]
    assert [text.rpartition(", ")[2] for text in words] == [f"chunk {k} of 4" for k in (1, 2, 3, 4)]
    alone = prepare(canonical(TensorGraph.of([mt.ones(8).data])), {}, ["a"], lambda: None)
    assert "chunk" not in alone.blame(0, bound)[0]


def test_who_fell_behind_is_told_of_each_host_once():
    async def story():
        one, _, _ = session()
        for state in ("joined", "lost"):
            one.note("HostMoved", "", {"host": 3, "name": "a", "state": state, "why": ""})
        assert one.log.standing("") == [("HostMoved", "", {"host": 3, "name": "a", "state": "lost", "why": ""})]

    asyncio.run(story())


def test_plans_are_made_again_when_a_host_comes_or_goes():
    async def story():
        one, _, _ = session()
        graph = canonical(TensorGraph.of([(mt.ones(8, chunk_size=2) + 1).data]))
        for state, kept in (("suspect", 1), ("joined", 0), ("lost", 0)):
            one.plans.keep("digest", prepare(graph, {}, ["a"], lambda: None))
            one.note("HostMoved", "", {"host": 3, "name": "a", "state": state, "why": ""})
            assert len(one.plans) == kept

    asyncio.run(story())


def test_plans_are_made_again_for_other_links_and_new_readers_hear_of_them():
    async def story():
        one, _, _ = session()
        graph = canonical(TensorGraph.of([(mt.ones(8, chunk_size=2) + 1).data]))
        one.plans.keep("digest", prepare(graph, {}, ["a"], lambda: None))
        link = {"from": 1, "to": 2, "bandwidth": 1e8, "latency": 1e-3, "transport": "tls", "why": ""}
        one.note("LinkMeasured", "", link)
        assert not len(one.plans) and one.log.standing("") == [("LinkMeasured", "", link)]
        one.note("HostMoved", "", {"host": 2, "name": "a", "state": "lost", "why": ""})
        assert [kind for kind, _, _ in one.log.standing("")] == ["HostMoved"]

    asyncio.run(story())


def test_a_running_job_is_planned_again_for_a_new_and_a_lost_host():
    async def story():
        one, port, _ = session()
        here, x = [0, 2], mt.ones((4000, 4000), chunk_size=500)
        row = PlanWorkers.build
        one.context.machine = lambda: Machine(
            Profile(), 10**9, rows=row(len(here), cores=2, memory=10**9), numbers=here
        )
        for worker, name in enumerate(("a/worker-0", "a/worker-1", "b/worker-0", "b/worker-1")):
            one.report(WorkerMoved(worker, name, 0, "starting"))
        job = one.graph(await submitted(one, x @ x.T))
        assert set(job.stage.operands.assign) <= {-1, 0, 2}
        plans = []
        port.replan = lambda job, rank, workers, slow: plans.append(workers)

        async def changed(*moved):
            for report in moved:
                one.report(report)
            while len(plans) < 1:
                await asyncio.sleep(0)
                if job.stage._replanning._task is not None:
                    await job.stage._replanning._task
            return {worker for worker in plans.pop() if worker >= 0}

        here.append(4)
        came = [WorkerMoved(4, "c/worker-0", 0, "starting"), WorkerMoved(5, "c/worker-1", 0, "starting")]
        assert 4 in await changed(*came)
        here.remove(0)
        gone = [WorkerMoved(0, "a/worker-0", 0, "lost"), WorkerMoved(1, "a/worker-1", 0, "lost")]
        assert await changed(*gone) <= {2, 4}
        told = [event[4]["why"] for event in answer(one.read(0))[0] if event[2] == "Replanned"]
        assert told == ["c joined", "a is lost"]

    asyncio.run(story())
