"""Resuming: a scheduler that reads the journal of a dead one orders what is left, and nothing else."""

import asyncio

import cloudpickle
import numpy as np
import pytest

import jmars.tensor as mt
from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.messages import (
    CloseJob,
    EnqueueGraph,
    Failed,
    Failure,
    Finished,
    FreeChunks,
    Interrupted,
    JobClosed,
    OpenJob,
    Started,
    StopExecution,
    Submission,
    WorkerLost,
)
from jmars.scheduler import EventLog, SessionActor
from jmars.scheduler.journal import Journal, JournaledSession, read_journal
from jmars.scheduler.resuming import RemoteWorkers, Resuming
from jmars.switches import TASK_DEFAULTS
from jmars.tensor.structure import bindings, canonical, digest
from jmars.tensor.tensor_graph import LinkedGraph, TensorGraph

MEASURED = {"makespan": 1.0, "peak": 1, "spilled": 0, "moved": 0}


class Life:
    """One scheduler with its journal, and a host that is only a list of orders."""

    def __init__(self, path, incarnation):
        self.orders, self.reports, self.given_up = [], [], []
        self.workers = RemoteWorkers(self.orders.extend)
        self.session = SessionActor(self.workers, ["w0", "w1"], EventLog(), self.ended)
        self.session.begin_chunks(incarnation * 1000)
        self.records = list(read_journal(path))
        loop = asyncio.get_running_loop()
        self.journal = Journal(path, loop.call_soon, loop.call_later)
        self.noted = JournaledSession(self.session, self.journal)
        self.workers.opening = self.noted.opening

    def ended(self, report):
        self.noted.ended(report, lambda: self.reports.append(report))

    async def give_up(self, job, free):
        self.given_up.append(job)

    async def resume(self, host):
        resuming = Resuming(self.session, self.noted, self.workers, self.give_up)
        await resuming.run(self.records, host)
        return resuming.reports

    async def submit(self, data, name="", ticket="t"):
        """Submit as a client does; returns the job's table as the host got it."""
        settings = {**TASK_DEFAULTS, "combine_size": 4, "fuse_enabled": False}
        linked = LinkedGraph.of([data])
        keys = [node.key for node in linked.nodes]
        structure = digest(linked.operands, linked.nodes, linked.inputs, linked.results, settings)
        blob = cloudpickle.dumps(canonical(TensorGraph.from_linked(linked, keys)))
        bound = list(bindings(linked.operands, keys))
        sent = Submission(blob, name, settings, ticket, structure, bound)
        self.submitting = asyncio.ensure_future(self.noted.submit(sent))  # answered once it is written
        return await self.opened()

    async def opened(self):
        """The table of the job that is opened next."""
        while not any(isinstance(order, OpenJob) for order in self.orders):
            await asyncio.sleep(0.001)  # a thread prepares it
        await asyncio.sleep(0)
        return cloudpickle.loads(next(order.table for order in self.orders if isinstance(order, OpenJob)))

    def enqueued(self):
        return sorted(one for order in self.orders if isinstance(order, EnqueueGraph) for one in order.operands)

    def ran(self, table, operands):
        self.noted.report(Started(table.job, operands, 0))
        self.noted.report(Finished(table.job, operands, 0, None, [10] * len(operands)))


def ids(operands, kind="<u4"):
    return np.array(operands, kind).tobytes()


def standing(tables=(), chunks=(), closed=(), **job):
    """What a host announces of the jobs of these tables."""
    nothing = {"queued": b"", "running": [], "stored": [], "sizes": {}}
    jobs = {one.job: {"number": one.number, "base": one.base, **nothing, **job} for one in tables}
    return {"jobs": jobs, "closed": dict(closed), "chunks": [(0, ids(sorted(chunks), "<i8"))], "besides": []}


def lives(tmp_path, test):
    """Run `test(life)`, where `life()` begins the next scheduler on the same journal."""
    path, made = str(tmp_path / "journal"), []

    def life():
        if made:
            made[-1].journal.flush()
        made.append(Life(path, len(made)))
        return made[-1]

    async def run():
        try:
            await test(life)
        finally:
            for one in made:
                one.journal.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def tree():
    return (mt.arange(64, chunk_size=8) * 2).sum().data


def test_what_had_finished_is_not_ordered_again_and_the_rest_is(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree(), "tree")
        initial = first.enqueued()
        first.ran(table, initial[:3])
        second = life()
        chunks = [table.chunk[one] for one in initial[:3]]
        host = standing([table], chunks, queued=ids(initial[3:5]), running=[(initial[5], 1)])
        assert await second.resume(host) == []
        assert not [order for order in second.orders if isinstance(order, OpenJob)]
        again = set(second.enqueued())
        assert not again & set(initial[:6])
        assert again >= set(initial[6:])
        assert second.session.graph("job-1").describe()["name"] == "tree"
        assert not [order for order in second.orders if isinstance(order, FreeChunks)]

    lives(tmp_path, test)


def test_what_the_host_did_meanwhile_counts(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        initial = first.enqueued()
        second = life()
        stored = [(0, ids(initial[:4])), (1, ids(initial[4:]))]
        await second.resume(standing([table], [table.chunk[one] for one in initial], stored=stored))
        again = second.enqueued()
        assert again and not set(again) & set(initial)
        readers = {reader for one in initial for reader in table.readers[one]}
        assert set(again) <= readers

    lives(tmp_path, test)


def test_unneeded_chunks_are_freed_and_lost_ones_made_again(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        initial = first.enqueued()
        first.ran(table, initial[:3])
        second = life()
        await second.resume(standing([table], [table.chunk[initial[0]], table.chunk[initial[1]], 77]))
        assert FreeChunks([77]) in second.orders
        assert second.enqueued().count(initial[2]) == 1, "it would run twice, into two slots"
        assert not set(initial[:2]) & set(second.enqueued())

    lives(tmp_path, test)


def test_a_job_that_was_over_on_the_host_ends(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree(), "tree")
        done = set()
        while len(done) < len(table.program):
            now = [one for one in first.enqueued() if one not in done]
            first.ran(table, now)
            done.update(now)
        assert first.orders[-1] == CloseJob(table.job)
        result = table.chunk[-1]
        second = life()
        (_, key) = "", first.session.graph("job-1").results[0]
        await second.resume(standing([], [result], closed=[("job-1", MEASURED)]))
        assert [report["state"] for report in second.reports] == ["succeeded"]
        assert await second.session.chunks([key]) == [[result]]
        third = life()  # and now it is written that it has
        assert [report["job"] for report in await third.resume(standing([], [result]))] == ["job-1"]
        assert await third.session.chunks([key]) == [[result]]
        third.noted.drop([key])
        assert FreeChunks([result]) in third.orders

    lives(tmp_path, test)


def test_a_graph_that_is_compiled_otherwise_begins_anew(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        initial = first.enqueued()
        first.ran(table, initial[:3])
        second = life()
        second.records = [(*one[:5], b"another digest..") if one[0] == "open" else one for one in second.records]
        await second.resume(standing([table], [table.chunk[0]]))
        assert second.given_up == ["job-1"]
        fresh = await second.opened()
        assert fresh.job == "job-1" and fresh.number == 2
        assert second.enqueued() == initial
        states = [event[4]["state"] for event in second.session.log.read(0)[0] if event[2] == "JobMoved"]
        assert states == ["preparing", "preparing", "running"]  # it has not failed
        third = life()  # which finds the job as it began the second time
        await third.resume(standing([fresh]))
        assert third.given_up == [] and third.enqueued() == initial

    lives(tmp_path, test)


def test_a_job_that_never_came_to_the_host_begins_anew(tmp_path):
    async def test(life):
        await life().submit(tree(), "tree")
        second = life()
        await second.resume(standing())
        table = await second.opened()
        assert second.given_up == [] and table.job == "job-1"

    lives(tmp_path, test)


def test_memory_of_workers_that_no_report_has_named_yet_is_logged(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        first.ran(table, first.enqueued()[:1])
        first.session.note("MemoryChanged", "", {"workers": [{}, {}, {}]})  # the third is a new host's
        told = first.session.log.read(0)[0][-1][4]
        assert told == {"workers": [{"bytes": table.nbytes[first.enqueued()[0]]}, {"bytes": 0}, {"bytes": 0}]}

    lives(tmp_path, test)


def test_asks_that_come_twice_are_one(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree(), ticket="mine")
        assert await first.noted.submit(Submission(b"bad", "", {}, "mine", b"s", [])) == "job-1"
        second = life()
        await second.resume(standing([table]))
        assert await second.noted.submit(Submission(b"bad", "", {}, "mine", b"s", [])) == "job-1"
        assert await second.noted.submit(Submission(b"", "", {}, "mine", b"s", [])) == "job-1"
        first_chunk = second.session.fresh_chunks(2)
        await second.noted.keep("key", first_chunk, 2)
        await second.noted.keep("key", first_chunk, 2)
        assert await second.session.chunks(["key"]) == [[first_chunk, first_chunk + 1]]
        assert not [order for order in second.orders if isinstance(order, FreeChunks)]

    lives(tmp_path, test)


def test_a_cancel_is_not_forgotten(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        await first.noted.cancel("job-1")
        second = life()
        await second.resume(standing([table]))
        assert StopExecution("job-1") in second.orders

    lives(tmp_path, test)


def test_a_long_journal_is_made_short_when_nothing_runs(tmp_path):
    async def test(life):
        first = life()
        first.noted.longest = 1
        table = await first.submit(tree(), "tree")
        first.noted.compact()
        assert len(list(read_journal(str(tmp_path / "journal")))) > 2  # a job runs
        await first.noted.cancel("job-1")
        first.noted.report(Interrupted("job-1", first.enqueued(), -1))
        first.noted.report(JobClosed("job-1", MEASURED))
        await first.noted.keep("key", 500, 2)
        first.noted.compact()
        assert [one[0] for one in read_journal(str(tmp_path / "journal"))] == ["job", "end", "tensors"]
        assert await first.noted.submit(Submission(b"", structure=b"s", bindings=[])) == ""
        second = life()
        await second.resume(standing([], [500, 501]))
        assert second.session.graph("job-1").describe()["state"] == "cancelled"
        assert await second.session.chunks(["key"]) == [[500, 501]]
        assert table.job == "job-1"

    lives(tmp_path, test)


def test_a_record_of_another_version_is_refused_by_name(tmp_path):
    async def test(life):
        life().journal.note("novelty", 1)
        with pytest.raises(Exception, match="record 'novelty'"):
            await life().resume(standing())

    lives(tmp_path, test)


def test_a_job_that_outlives_many_others_is_told_and_remembered(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree(), "long")
        for number in range(REMEMBERED_JOBS + 2):
            await first.noted.cancel(await first.noted.submit(Submission(b"bad", ticket=f"t{number}")))
        await first.noted.cancel("job-1")
        first.noted.report(Interrupted("job-1", first.enqueued(), -1))
        first.noted.report(JobClosed("job-1", MEASURED))
        assert first.reports[-1]["job"] == table.job == "job-1"
        assert first.session.graph("job-1").describe()["state"] == "cancelled"
        second = life()
        reports = await second.resume(standing())
        assert len(reports) == REMEMBERED_JOBS and reports[-1]["job"] == "job-1"
        assert len(await second.session.jobs()) == REMEMBERED_JOBS and second.session.idle_since is not None

    lives(tmp_path, test)


def test_a_job_that_ended_as_it_began_does_not_run_again(tmp_path):
    async def test(life):
        first = life()
        await first.noted.cancel(await first.noted.submit(Submission(b"bad", ticket="t")))
        second = life()
        second.records.sort(key=lambda record: record[0] != "end")  # so it is written where a structure runs again
        assert [report["job"] for report in await second.resume(standing())] == ["job-1"]
        assert second.session.graph("job-1").describe()["state"] == "cancelled"

    lives(tmp_path, test)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_job_that_was_stopped_for_an_error_runs_again_for_it(tmp_path, cancelled):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        if cancelled:
            await first.noted.cancel("job-1")
        second = life()
        await second.resume(standing([table], stopped=True))
        assert second.given_up == ([] if cancelled else ["job-1"])
        if not cancelled:
            assert (await second.opened()).number == 2

    lives(tmp_path, test)


RAISED = Failure("OSError", "no such file", member=0, is_transient=True)  # transient: tried four times in all


def test_an_operand_that_raised_has_no_more_tries_after_a_failover(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        one = first.enqueued()[0]
        for _ in range(3):
            first.noted.report(Started("job-1", [one], 0))
            first.noted.report(Failed("job-1", one, 0, RAISED))
        second = life()
        await second.resume(standing([table]))
        assert one in second.enqueued() and second.session.graph("job-1").stage.operands.tries == {one: 3}
        second.noted.report(Started("job-1", [one], 0))
        second.noted.report(Failed("job-1", one, 0, RAISED))
        assert StopExecution("job-1") in second.orders
        assert second.session.graph("job-1").describe()["error"] == "no such file"

    lives(tmp_path, test)


@pytest.mark.parametrize("closed", [False, True])
def test_a_job_that_had_failed_ends_with_its_error_and_does_not_run_again(tmp_path, closed):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        initial = first.enqueued()
        first.noted.report(Started("job-1", initial, 0))
        first.noted.report(Failed("job-1", initial[0], 0, Failure("ZeroDivisionError", "the user's own", member=0)))
        second = life()
        if closed:
            await second.resume(standing([], closed=[("job-1", MEASURED)]))
        else:
            await second.resume(standing([table], [table.chunk[initial[1]]], stopped=True, running=[(initial[2], 1)]))
            assert second.given_up == [] and second.enqueued() == []
            assert {type(order) for order in second.orders} >= {StopExecution, CloseJob, FreeChunks}
            second.noted.report(JobClosed("job-1", MEASURED))
        (report,) = second.reports
        assert report["state"] == "failed" and str(report["error"]) == "ZeroDivisionError: the user's own"
        third = life()
        assert [one["error"].name for one in await third.resume(standing())] == ["ZeroDivisionError"]

    lives(tmp_path, test)


def test_workers_that_an_operand_ended_count_for_the_next_scheduler_too(tmp_path):
    async def test(life):
        first = life()
        table = await first.submit(tree())
        one, other = first.enqueued()[:2]
        for operands in ([one, other], [one]):
            first.noted.report(Started("job-1", operands, 0))
            first.noted.report(WorkerLost("job-1", operands, 0, "ended by signal 11: worker-0 (pid 7)", "signal"))
        second = life()
        await second.resume(standing([table]))
        assert {one, other} <= set(second.enqueued())
        second.noted.report(Started("job-1", [one], 1))
        second.noted.report(WorkerLost("job-1", [one], 1, "ended by signal 11: worker-1 (pid 8)", "signal"))
        assert "ended 3 workers" in second.session.graph("job-1").describe()["error"]

    lives(tmp_path, test)
