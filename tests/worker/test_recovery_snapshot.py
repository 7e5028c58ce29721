"""RecoverySnapshot: a new scheduler is told what became of every operand, whoever was told before."""

import asyncio
import pickle
from types import SimpleNamespace

import numpy as np

from jmars.errors import MemoryLimitError, StorageError
from jmars.model.messages import (
    ChunksKept,
    ChunksLost,
    CloseJob,
    EnqueueGraph,
    Failure,
    Finished,
    FreeChunks,
    Interrupted,
    JobClosed,
    KeepChunks,
    OpenJob,
    Refused,
    Replan,
    Started,
    StopExecution,
    WorkerLost,
)
from jmars.worker.remote_scheduler import HostOrders, RecoverySnapshot, RemoteScheduler


class Workers:
    """A WorkerPort that only remembers what was ordered."""

    def __init__(self, refuses=False):
        self.ordered, self.refuses = [], refuses

    def open_job(self, table):
        if self.refuses:
            raise MemoryLimitError("too large; use less")
        self.ordered.append("open_job")

    def __getattr__(self, method):
        return lambda *args: self.ordered.append((method, *args))


def host(refuses=False):
    """RecoverySnapshot, what was sent, the ports of both directions, and the workers."""
    here = [8, 7, 100]
    known, sent = RecoverySnapshot(lambda: {0: here}), []
    reports = RemoteScheduler(sent.append, known)
    workers = Workers(refuses)
    return known, sent, reports, HostOrders(workers, reports, known), workers


def table(job="job-1", number=1, base=5):
    return pickle.dumps(SimpleNamespace(job=job, number=number, base=base, program=[0] * 6))


def unpacked(data):
    return np.frombuffer(data, "<u4").tolist()


def test_the_announcement_tells_where_each_operand_stands():
    known, sent, reports, orders, _ = host()
    orders.take([OpenJob("job-1", table())])
    orders.take([EnqueueGraph("job-1", [0, 1, 2, 3], [0, 0, 1, 1])])
    reports.report(Started("job-1", [0, 1], 0))
    reports.report(Started("job-1", [2], 1))
    reports.report(Finished("job-1", [0], 0, {0: (3,)}, [10]))
    reports.report(Finished("job-1", [2], 1))
    reports.report(WorkerLost("job-1", [1], 0, "killed"))
    told = known.as_data([])["jobs"]["job-1"]
    assert (told["number"], told["base"]) == (1, 5)
    assert unpacked(told["queued"]) == [3]
    assert told["running"] == []
    assert [(worker, unpacked(ids)) for worker, ids in told["stored"]] == [(0, [0]), (1, [2])]
    assert told["sizes"] == {0: (3,)}
    assert [type(report) for report in sent] == [Started, Started, Finished, Finished, WorkerLost]


def test_lost_chunks_are_not_announced_and_uploads_are_named():
    known, _, reports, orders, _ = host()
    orders.take([OpenJob("job-1", table())])
    reports.report(Finished("job-1", [2, 3], 0))
    reports.report(ChunksLost([5 + 2], "a bad checksum"))
    told = known.as_data([(100, 1)])
    assert [unpacked(ids) for _, ids in told["jobs"]["job-1"]["stored"]] == [[3]]
    ((worker, here),) = told["chunks"]
    assert worker == 0 and np.frombuffer(here, "<i8").tolist() == [7, 8, 100]
    assert told["besides"] == [(100, 1)]  # kept perhaps, though nobody was told: neither free nor gone


def test_an_order_that_cannot_be_acted_on_ends_its_job_alone():
    _, sent, _, orders, workers = host()
    orders.take([OpenJob("job-1", table())])

    def fails(job, *args):
        raise KeyError("injected")

    workers.enqueue_graph = workers.replan = workers.keep_chunks = fails
    orders.take([OpenJob("job-2", table("job-2", 2))])
    orders.take([EnqueueGraph("job-1", [0], [0]), Replan("job-1", [0], [0], []), FreeChunks([7])])
    assert [report.job for report in sent] == ["job-1"] * 2 and "KeyError: 'injected'" in sent[0].why
    assert workers.ordered[-1] == ("free_chunks", [7])
    orders.take([KeepChunks([7]), FreeChunks([8])])  # of no job: it may be any
    assert [report.job for report in sent[2:]] == ["job-1", "job-2"]
    assert workers.ordered[-1] == ("free_chunks", [8])


def test_an_order_without_a_job_that_cannot_be_carried_out_breaks_no_job():
    _, sent, _, orders, workers = host()
    orders.take([OpenJob("job-1", table())])

    def no_folder(chunks):
        raise StorageError("no folder for spilled chunks")

    workers.keep_chunks = no_folder
    orders.take([KeepChunks([7]), FreeChunks([8])])
    assert sent == [] and workers.ordered[-1] == ("free_chunks", [8])


def test_orders_about_jobs_that_were_refused_change_nothing():
    known, sent, _, orders, workers = host(refuses=True)
    orders.take([OpenJob("job-1", table())])
    orders.take([EnqueueGraph("job-1", [0], [0])])
    orders.take([StopExecution("job-1")])
    orders.take([Replan("job-1", [], [], [])])
    orders.take([CloseJob("job-1")])
    (refused,) = sent
    assert (type(refused), refused.job, refused.operand) == (Refused, "job-1", -1)
    assert isinstance(refused.failure.unpickled(), MemoryLimitError)
    assert workers.ordered == [] and known.jobs == {}


def test_what_closed_jobs_took_is_told_to_a_scheduler_that_may_not_know():
    known, sent, reports, orders, _ = host()
    orders.take([OpenJob("job-1", table())])
    orders.take([CloseJob("job-1")])
    reports.report(JobClosed("job-1", {"makespan": 1.0}))
    assert known.as_data([])["closed"] == {"job-1": {"makespan": 1.0}}
    assert sent[-1] == JobClosed("job-1", {"makespan": 1.0})
    orders.take([OpenJob("job-1", table(number=2))])
    assert known.as_data([])["closed"] == {}


def test_an_abandoned_job_goes_with_all_chunks_and_without_a_report():
    async def test():
        known, sent, reports, orders, workers = host()
        orders.take([OpenJob("job-1", table())])
        waiting = asyncio.ensure_future(orders.give_up("job-1"))
        await asyncio.sleep(0)
        assert [one[0] for one in workers.ordered[1:]] == ["stop_execution", "close_job"]
        assert not waiting.done()
        reports.report(JobClosed("job-1", {}))
        await waiting
        assert workers.ordered[-1] == ("free_chunks", range(5, 11))
        assert sent == [] and known.jobs == {}
        await orders.give_up("job-1")

    asyncio.run(test())


def test_a_job_that_was_stopped_is_announced_as_such():
    known, _, _, orders, workers = host()
    orders.take([OpenJob("job-1", table())])
    assert not known.as_data([])["jobs"]["job-1"]["stopped"]
    orders.take([StopExecution("job-1")])
    assert known.as_data([])["jobs"]["job-1"]["stopped"]
    assert workers.ordered[-1] == ("stop_execution", "job-1")


def test_a_job_that_cannot_be_unpickled_here_is_refused_with_the_reason():
    known, sent, _, orders, workers = host()
    orders.take([OpenJob("job-1", b"cno_such_module\nf\n.")])
    (refused,) = sent
    assert (refused.job, refused.operand) == ("job-1", -1) and "no_such_module" in refused.failure.text
    assert not known.jobs and not workers.ordered


def test_operands_that_come_after_a_stop_of_their_job_do_not_run():
    known, sent, _, orders, workers = host()
    orders.take([OpenJob("job-1", table())])
    orders.take([StopExecution("job-1")])
    orders.take([EnqueueGraph("job-1", [0, 1], [0, 0])])
    assert sent == [Interrupted("job-1", [0, 1], -1)] and workers.ordered == ["open_job", ("stop_execution", "job-1")]
    assert unpacked(known.as_data([])["jobs"]["job-1"]["queued"]) == []


def test_a_job_that_a_further_host_refuses_is_forgotten():
    async def test():
        known, sent, reports, orders, _ = host()
        orders.take([OpenJob("job-1", table())])
        refused = Refused("job-1", -1, Failure.of(MemoryLimitError("too large; use less")))
        reports.report(refused)
        assert sent == [refused] and known.jobs == {}
        orders.take([OpenJob("job-1", table())])
        waiting = asyncio.ensure_future(orders.give_up("job-1"))
        await asyncio.sleep(0)
        reports.report(refused)
        await waiting
        assert sent == [refused]  # the scheduler has given the job up

    asyncio.run(test())


def test_a_report_about_a_closed_job_is_sent_and_changes_nothing():
    known, sent, reports, orders, _ = host()
    orders.take([OpenJob("job-1", table())])
    reports.report(JobClosed("job-1", {}))
    late = [Started("job-1", [0], 0), Finished("job-1", [0], 0), JobClosed("job-1", {"makespan": 1.0})]
    for report in late:
        reports.report(report)
    assert sent[1:] == late and known.as_data([])["jobs"] == {} and known.as_data([])["closed"] == {"job-1": {}}


def test_a_chunk_that_moved_is_told_under_the_worker_of_its_new_host():
    known, _, reports, orders, _ = host()
    orders.take([OpenJob("job-1", table())])
    reports.report(Finished("job-1", [2, 3], 0))
    reports.report(ChunksKept([5 + 3], 4))
    told = known.as_data([])["jobs"]["job-1"]
    assert [(worker, unpacked(ids)) for worker, ids in told["stored"]] == [(0, [2]), (4, [3])]
