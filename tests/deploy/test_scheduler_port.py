"""The scheduler in this process and the one in another answer alike."""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import sys

import cloudpickle
import pytest

import jmars.tensor as mt
from jmars.deploy.head import InProcessScheduler
from jmars.deploy.scheduler_process import SchedulerProcess
from jmars.deploy.scheduler_subprocess import SchedulerSubprocess
from jmars.errors import ChunkLostError, UnknownTaskError
from jmars.model.messages import Finished, JobClosed, Started, Submission, WorkerMoved
from jmars.plan import Profile, Workers
from jmars.scheduler import Machine
from jmars.tensor.tensor_graph import TensorGraph

MEASURED = {"makespan": 1.0, "peak": 1, "spilled": 0, "moved": 0}
STATUS = {"workers": [], "line": [], "reading": [], "deaths": [], "queued": {}, "memory": {}}


class Execution:
    """Workers that run each operand as soon as it is enqueued."""

    def __init__(self):
        self.here = set()
        self.scheduler = None

    def held(self):
        return {0: self.here}

    def standing(self):
        return ["w0"], []

    def connect(self, scheduler):
        self.scheduler = scheduler

    def open_job(self, table):
        self.base = table.base

    def enqueue_graph(self, job, operands, workers):
        for operand, worker in zip(operands, workers, strict=True):
            self.here.add(self.base + operand)
            asyncio.get_running_loop().call_soon(self._run, job, operand, worker)

    def _run(self, job, operand, worker):
        self.scheduler.report(Started(job, [operand], worker))
        self.scheduler.report(Finished(job, [operand], worker, None, [10]))

    def replan(self, job, rank, workers, slow):
        pass

    def stop_execution(self, job):
        pass

    def close_job(self, job):
        asyncio.get_running_loop().call_soon(lambda: self.scheduler.report(JobClosed(job, MEASURED)))

    def free_chunks(self, chunks):
        self.here.difference_update(chunks)


def made(kind, tmp_path, ended):
    execution = Execution()

    def machine():
        return Machine(Profile(), 2**30, 2**30)

    async def read_chunk(chunk, size):
        return b""

    if kind is InProcessScheduler:
        return InProcessScheduler(execution, ["w0"], 2**22, ended.append, machine, read_chunk)
    orders = {"limit": 2**30, "workers": 1, "path": sys.path, "schedulers": 1}
    journal = str(tmp_path / "journal")
    more = machine, read_chunk, lambda: [], ended.append
    return SchedulerSubprocess(orders, journal, execution, 2**22, ended.append, *more)


def test_both_schedulers_have_the_same_methods(tmp_path):
    def public(one):
        return {name: getattr(one, name) for name in {*dir(one)} if not name.startswith("_")}

    async def test():
        here, apart = (public(made(kind, tmp_path, [])) for kind in (InProcessScheduler, SchedulerSubprocess))
        assert here.keys() <= apart.keys()
        for name in (name for name, call in here.items() if inspect.ismethod(call)):
            assert inspect.iscoroutinefunction(here[name]) == inspect.iscoroutinefunction(apart[name]), name
            one, other = (list(inspect.signature(made[name]).parameters) for made in (here, apart))
            assert one == other[: len(one)], name

    asyncio.run(test())


@pytest.mark.parametrize("kind", [InProcessScheduler, SchedulerSubprocess], ids=lambda kind: kind.__name__)
def test_a_job_runs_and_every_question_is_answered(kind, tmp_path):
    async def test():
        ended = []
        one = made(kind, tmp_path, ended)
        one.start()
        try:
            tensor = mt.ones(4, chunk_size=2) + 1
            settings = {"combine_size": 4}
            blob = cloudpickle.dumps(TensorGraph.of([tensor.data]))
            job = await one.session.submit(Submission(blob, "tree", settings, "ticket"))
            assert one.submitted.is_set() and job == "job-1"
            await one.session.wait(job, 10)
            while not ended:
                await asyncio.sleep(0.01)
            assert ended[0]["state"] == "succeeded" and ended[0]["error"] is None
            assert (await one.session.describe(job))["state"] == "succeeded"
            assert [told["name"] for told in await one.session.jobs()] == ["tree"]
            assert len((await one.session.chunks([tensor.data.key]))[0]) == 2
            found, last = await one.session.read(0, job)
            assert found and last == found[-1][0]
            first = await one.session.take_chunks(3)
            await one.session.keep("kept", first, 3)
            assert list((await one.session.chunks(["kept"]))[0]) == [first, first + 1, first + 2]
            one.session.drop(["kept"])
            await one.session.cancel(job)  # no effect: it has ended
            with pytest.raises(UnknownTaskError):
                await one.session.describe("job-9")
            assert (await one.tasks.result(job))["state"] == "succeeded"
            assert (await one.tasks.result(job))["progress"] == 1.0 and await one.tasks.last_idle_time() is not None
            assert (await one.reasons.job(job, STATUS))["kind"] == "done"
            assert await one.reasons.pulses() == {} and await one.reasons.expect() is None
            assert (await one.plans())["plans"] >= 0 and one.pid and not one.active and one.state == "running"
            one.note("WorkerMoved", "", {"worker": 0, "name": "w0", "pid": 1, "state": "idle"})
            one.session.withdraw("ticket")
            with pytest.raises(ChunkLostError):  # what it left is dropped
                while True:
                    await one.session.chunks([tensor.data.key])
                    await asyncio.sleep(0.01)
        finally:
            one.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_new_scheduler_hears_of_workers_and_machine_before_anything_else(tmp_path):
    class Channel:
        def __init__(self):
            self.heard = []

        def tell(self, actor, method, *args):
            self.heard.append(method)

        async def ask(self, actor, method, *args):
            self.heard.append(method)
            return []

    async def test():
        port, channel = made(SchedulerSubprocess, tmp_path, []), Channel()
        asyncio.get_running_loop().call_soon(port.note, "MemoryChanged", "", {"workers": [{}]})  # one of w0
        await port._resume(channel)
        assert channel.heard[:2] == ["workers", "machine"] and set(channel.heard[2:]) == {"note", "resume"}

    asyncio.run(test())


def test_a_new_host_is_planned_for_when_reports_have_named_its_workers(tmp_path):
    async def test():
        orders = {"journal": str(tmp_path / "journal"), "incarnation": 1, "plan_bytes": 2**20}
        process = SchedulerProcess(orders)
        profile, session = Profile().as_data(), process._session

        def tell(hosts):
            rows = Workers.build(hosts, cores=[1] * hosts, memory=[2**20] * hosts)
            process.machine(profile, 2**20, 0, [], pickle.dumps((rows, list(range(hosts)), list(range(hosts)))))
            return list(session.context.machine().numbers)

        process.workers(["a/worker-0"], [])
        assert tell(1) == [0] and tell(2) == [0]
        session.report(WorkerMoved(1, "b/worker-0", 7, "starting"))
        assert list(session.context.machine().numbers) == [0, 1]
        os.close(process._journal._fd)

    asyncio.run(test())


def test_a_scheduler_that_ends_at_once_is_not_the_last_one(tmp_path):
    class Answers:
        closed = False

        async def ask(self, actor, method):
            return {"kept": 1}

    async def test():
        port = made(SchedulerSubprocess, tmp_path, [])
        asked = asyncio.ensure_future(port.plans())
        await asyncio.sleep(0)
        port._channel = Answers()
        port._up.set()
        port._lost(asyncio.Event())  # before who asked goes on
        await asyncio.sleep(0)
        assert not asked.done()
        port._channel = Answers()
        port._up.set()
        assert await asked == {"kept": 1}

    asyncio.run(test())
