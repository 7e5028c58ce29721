"""Two hosts as one port: operands go to the host of their worker; a lost host costs what only it had."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from jmars.errors import ClusterLostError, MemoryLimitError
from jmars.kernels.program import Program
from jmars.model.messages import (
    ChunksCopied,
    ChunksKept,
    ChunksLost,
    CloseJob,
    EnqueueGraph,
    Failure,
    Finished,
    FreeChunks,
    InputsMissing,
    JobBroken,
    JobClosed,
    JobTable,
    KeepChunks,
    LocateChunks,
    OpenJob,
    OperandsReturned,
    Order,
    Refused,
    Report,
    Rerank,
    Started,
    StopExecution,
    TakeBack,
    WorkerLost,
    WorkerMoved,
    from_int_planes,
)
from jmars.scheduler.hosts import Hosts


class Link:
    """Notes orders."""

    def __init__(self) -> None:
        self.told: list[Order] = []

    def order(self, orders: Any) -> None:
        self.told += orders

    def take(self) -> list[Order]:
        told, self.told = self.told, []
        return told


class Scheduler:
    """Notes reports."""

    def __init__(self) -> None:
        self.heard: list[Report] = []

    def report(self, report: Report) -> None:
        self.heard.append(report)

    def take(self) -> list[Report]:
        heard, self.heard = self.heard, []
        return heard


def _table(kept: int = 0) -> JobTable:
    """Operands 0 and 1 are read by 2; operand 3 reads 0 too."""
    readers = [[2, 3], [2], [], []]
    return JobTable(
        "job-1", 1, [], [0, 0, 0, 0], [[], [], [0, 1], [0]], None, 100, [100, 101, 102, 103], [80] * 4,
        [0] * 4, [0, 1, 2, 3], kept, [], readers,
    )  # fmt: skip


@pytest.fixture
def room() -> tuple[Hosts, list[Link], Scheduler]:
    hosts, links, scheduler = Hosts(), [Link(), Link()], Scheduler()
    hosts.connect(scheduler)
    for number, link in enumerate(links):
        hosts.add(number, "ab"[number], link.order, workers=2, memory=1000, room=1000)
    scheduler.take()
    hosts.open_job(_table())
    assert [[type(order) for order in link.take()] for link in links] == [[OpenJob], [OpenJob]]
    return hosts, links, scheduler


def test_operands_go_to_the_host_of_their_worker_and_take_turns_there(room: Any) -> None:
    hosts, (a, b), _ = room
    hosts.enqueue_graph("job-1", [0, 1, 3], [0, 0, 2])
    assert a.take() == [EnqueueGraph("job-1", [0, 1], [0, 1])]
    assert b.take() == [EnqueueGraph("job-1", [3], [0])]


def test_a_host_hears_once_where_an_input_lies(room: Any) -> None:
    hosts, (_, b), scheduler = room
    hosts.enqueue_graph("job-1", [0, 1], [0, 2])
    hosts.take(0, [Started("job-1", [0], 1), Finished("job-1", [0], 1)])
    hosts.take(1, [Finished("job-1", [1], 0)])
    assert scheduler.take() == [
        Started("job-1", [0], 1),
        Finished("job-1", [0], 1),
        Finished("job-1", [1], 2),
    ]
    b.take()
    hosts.enqueue_graph("job-1", [2], [3])
    assert b.take() == [LocateChunks([100], [80], [[0]]), EnqueueGraph("job-1", [2], [1])]
    hosts.enqueue_graph("job-1", [3], [3])
    assert b.take() == [EnqueueGraph("job-1", [3], [0])]


def test_the_shape_of_a_chunk_goes_where_the_chunk_is_read(room: Any) -> None:
    hosts, (_, b), _ = room
    table = hosts.jobs["job-1"].table
    table.programs.append(_Sized())
    hosts.enqueue_graph("job-1", [0], [0])
    hosts.take(0, [Finished("job-1", [0], 0, {0: (3, 2)})])
    hosts.enqueue_graph("job-1", [3], [2])
    assert b.take() == [LocateChunks([100], [48], [[0]], {100: (3, 2)}), EnqueueGraph("job-1", [3], [0])]


def _placed_by_bytes(room: Any, planned: list[int], readers: list[list[int]]) -> list[list[Order]]:
    """Orders after hosts made chunks of 8 and 800 bytes, which the plan took for equal, and 2 reads both."""
    hosts, links, _ = room
    table = replace(_table(), job="job-2", planned=planned, readers=readers, programs=[_Sized()])
    hosts.open_job(table)
    hosts.enqueue_graph("job-2", [0, 1], [0, 2])
    hosts.take(0, [Finished("job-2", [0], 0, {0: (1,)})])
    hosts.take(1, [Finished("job-2", [1], 0, {1: (100,)})])
    [link.take() for link in links]
    hosts.enqueue_graph("job-2", [2], [0])
    return [[type(order) for order in link.take()] for link in links]


def test_s3_18_an_operand_without_a_plan_goes_to_most_bytes(room: Any) -> None:
    assert _placed_by_bytes(room, [0, 2, -1, 0], [[2, 3], [2], [], []]) == [[], [LocateChunks, EnqueueGraph]]


def test_s3_18_sizes_that_only_the_run_told_override_the_plan(room: Any) -> None:
    assert _placed_by_bytes(room, [0, 2, 0, 0], [[2], [2], [], []]) == [[], [LocateChunks, EnqueueGraph]]


def test_s3_18_inputs_that_others_read_leave_the_plan_as_it_is(room: Any) -> None:
    assert _placed_by_bytes(room, [0, 2, 0, 0], [[2, 3], [2], [], []]) == [[LocateChunks, EnqueueGraph], []]


def test_s3_18_of_hosts_with_equal_bytes_the_idler_gets_the_operand(room: Any) -> None:
    hosts, (a, b), _ = room
    hosts.open_job(replace(_table(), job="job-2", planned=[0, 2, -1, -1]))
    hosts.enqueue_graph("job-2", [0, 1], [0, 2])
    hosts.take(0, [Finished("job-2", [0], 0)])
    hosts.take(1, [Finished("job-2", [1], 0)])
    hosts.enqueue_graph("job-1", [0, 1], [0, 0])  # host 0 is busy now
    a.take(), b.take()
    hosts.enqueue_graph("job-2", [2], [0])
    assert not a.take() and EnqueueGraph("job-2", [2], [1]) in b.take()


def test_s3_23_what_bytes_of_the_run_may_send_elsewhere_is_not_pushed(room: Any) -> None:
    hosts, (_, b), _ = room
    readers: list[list[int]] = [[2], [2], [], []]
    hosts.open_job(
        replace(_table(), job="job-2", planned=[0, 2, 2, 0], push=True, programs=[_Sized()], readers=readers)
    )
    hosts.enqueue_graph("job-2", [0], [0])
    b.take()
    hosts.take(0, [Finished("job-2", [0], 0, {0: (100,)})])  # 800 bytes: its reader may follow them
    assert not b.take()


@pytest.mark.parametrize("push", [True, False])
def test_s3_23_the_host_of_a_planned_reader_hears_of_a_chunk_at_once(room: Any, push: bool) -> None:
    hosts, (a, b), _ = room
    hosts.open_job(replace(_table(), job="job-2", planned=[0, 2, 2, 0], push=push, programs=[_Sized()]))
    hosts.enqueue_graph("job-2", [0], [0])
    a.take(), b.take()
    hosts.take(0, [Finished("job-2", [0], 0)])  # its reader 2 waits for 1 still
    assert not a.take() and b.take() == [LocateChunks([100], [80], [[0]], ahead=True)] * push
    hosts.enqueue_graph("job-2", [2], [2])
    assert [type(order) for order in b.take()] == [EnqueueGraph] if push else [LocateChunks, EnqueueGraph]


class _Sized(Program):
    def __init__(self) -> None:
        class Output:
            dtype = np.dtype("f8")

        object.__setattr__(self, "output", Output)
        object.__setattr__(self, "steps", ())


def test_chunks_are_freed_where_they_are_and_where_they_may_be(room: Any) -> None:
    hosts, (a, b), _ = room
    hosts.enqueue_graph("job-1", [0], [0])
    hosts.take(0, [Finished("job-1", [0], 0)])
    hosts.enqueue_graph("job-1", [3], [2])
    a.take(), b.take()
    hosts.free_chunks([100, 103])
    assert a.take() == [FreeChunks([100])] and b.take() == [FreeChunks([100])]


def test_a_lost_host_costs_what_only_it_had(room: Any) -> None:
    hosts, (a, b), scheduler = room
    hosts.enqueue_graph("job-1", [0, 1], [0, 0])
    hosts.take(0, [Finished("job-1", [0, 1], 0)])
    hosts.enqueue_graph("job-1", [2, 3], [0, 2])
    hosts.take(1, [ChunksCopied([100])])  # of chunk 100 host b has a copy
    scheduler.take(), b.take()
    hosts.lost(0, "unplugged")
    assert scheduler.take() == [
        ChunksLost([101], "unplugged"),
        InputsMissing("job-1", [2], [], "unplugged"),
        WorkerMoved(0, "a/worker-0", 0, "lost"),
        WorkerMoved(1, "a/worker-1", 0, "lost"),
    ]
    hosts.take(0, [Finished("job-1", [2], 0)])  # of one that counts as gone
    assert scheduler.take() == []
    hosts.enqueue_graph("job-1", [1], [0])  # planned for the host that is gone
    assert b.take() == [KeepChunks([100]), EnqueueGraph("job-1", [1], [1])]  # the copy is all that is left
    hosts.free_chunks([100])
    assert b.take() == [FreeChunks([100])] and not a.told[2:]


def test_chunks_that_count_as_lost_may_still_be_read_where_a_copy_has_come(room: Any) -> None:
    hosts, (_, b), _ = room
    hosts.enqueue_graph("job-1", [0], [0])
    hosts.take(0, [Finished("job-1", [0], 0)])
    hosts.enqueue_graph("job-1", [3], [2])  # host b reads the chunk, and has not said whether it came
    b.take()
    hosts.lost(0, "unplugged")
    assert b.take() == [FreeChunks([100], lost=True)]


def test_a_job_is_closed_when_all_hosts_have_closed_it(room: Any) -> None:
    hosts, (a, b), scheduler = room
    hosts.close_job("job-1")
    assert a.take() == b.take() == [CloseJob("job-1")]
    hosts.take(0, [JobClosed("job-1", {"makespan": 2.0, "peak": 5, "spilled": 1, "moved": 0})])
    assert scheduler.take() == []
    hosts.take(1, [JobClosed("job-1", {"makespan": 3.0, "peak": 7, "spilled": 0, "moved": 9})])
    assert scheduler.take() == [JobClosed("job-1", {"makespan": 3.0, "peak": 12, "spilled": 1, "moved": 9})]


def test_a_host_that_is_lost_while_a_job_closes_counts_as_closed(room: Any) -> None:
    hosts, _, scheduler = room
    hosts.close_job("job-1")
    hosts.take(0, [JobClosed("job-1", {"makespan": 2.0, "peak": 5, "spilled": 1, "moved": 0})])
    hosts.lost(1, "unplugged")
    assert scheduler.take()[-1] == JobClosed("job-1", {"makespan": 2.0, "peak": 5, "spilled": 1, "moved": 0})


def test_a_job_refused_by_one_host_is_closed_on_the_others(room: Any) -> None:
    hosts, (a, b), scheduler = room
    failure = Failure("ClusterError", "too many jobs")
    hosts.take(0, [Refused("job-1", -1, failure)])
    assert b.take() == [CloseJob("job-1")] and not a.take() and not scheduler.take()
    hosts.take(1, [JobClosed("job-1", {})])
    assert scheduler.take() == [Refused("job-1", -1, failure)]


def test_a_missing_input_that_another_host_has_is_told_again_some_times(room: Any) -> None:
    hosts, (_, b), scheduler = room
    hosts.enqueue_graph("job-1", [0], [0])
    hosts.take(0, [Finished("job-1", [0], 0)])
    hosts.enqueue_graph("job-1", [3], [2])
    scheduler.take()
    for _ in range(3):
        b.take()
        hosts.take(1, [InputsMissing("job-1", [3], [100], "the link broke")])
        located, again = b.take()
        assert located == LocateChunks([100], [80], [[0]]) and isinstance(again, EnqueueGraph)
        assert scheduler.take() == []
    b.take()
    hosts.take(1, [InputsMissing("job-1", [3], [100], "the link broke")])
    assert scheduler.take() == [InputsMissing("job-1", [3], [100], "the link broke")]
    assert not hosts.places.has(100, 0)  # it is computed again
    (forget,) = b.take()
    assert forget.chunks == [100]  # where it lay


def test_a_damaged_original_is_no_loss_while_a_copy_is_left(room: Any) -> None:
    hosts, (_, b), scheduler = room
    hosts.enqueue_graph("job-1", [0], [0])
    hosts.take(0, [Finished("job-1", [0], 0)])
    hosts.enqueue_graph("job-1", [3], [2])
    hosts.take(1, [ChunksCopied([100])])
    scheduler.take(), b.take()
    hosts.take(0, [ChunksLost([100], "damaged")])
    assert scheduler.take() == [] and b.take() == [KeepChunks([100])]
    hosts.take(1, [ChunksLost([100], "damaged")])
    assert scheduler.take() == [ChunksLost([100], "damaged")]


def test_workers_are_numbered_over_all_hosts(room: Any) -> None:
    hosts, _, scheduler = room
    hosts.enqueue_graph("job-1", [0], [2])
    hosts.take(1, [WorkerLost("job-1", [0], 1, "killed"), WorkerMoved(1, "worker-1", 77, "idle")])
    assert scheduler.take() == [WorkerLost("job-1", [0], 3, "killed"), WorkerMoved(3, "b/worker-1", 77, "idle")]
    assert hosts.names == ["a/worker-0", "a/worker-1", "b/worker-0", "b/worker-1"]


def test_a_host_that_comes_opens_the_jobs_that_run(room: Any) -> None:
    hosts, _, _ = room
    late = Link()
    row = hosts.add(5, "c", late.order, workers=1, memory=1000, room=1000)
    (order,) = late.take()
    assert isinstance(order, OpenJob) and pickle.loads(order.table).job == "job-1" and row.first == 4
    hosts.stop_execution("job-1")
    assert late.take() == [StopExecution("job-1")]


def test_results_beyond_all_hosts_are_refused(room: Any) -> None:
    hosts, _, _ = room
    with pytest.raises(MemoryLimitError, match="all hosts together"):
        hosts.open_job(_table(kept=2001))


def test_a_cluster_without_hosts_says_so(room: Any) -> None:
    hosts, _, _ = room
    hosts.lost(0, "unplugged")
    hosts.lost(1, "unplugged")
    with pytest.raises(ClusterLostError, match="all hosts"):
        hosts.open_job(_table())


def test_waiting_operands_of_a_host_that_is_behind_go_to_an_idle_one(room: Any) -> None:
    hosts, (a, b), scheduler = room
    hosts.enqueue_graph("job-1", [0, 1, 3], [0, 0, 0])
    hosts.take(0, [Started("job-1", [0], 0)])
    assert hosts.balance(0.0) == []
    assert [shift.count for shift in hosts.balance(1.0)] == [1]
    assert a.take()[-1] == TakeBack("job-1", [3])  # the last by rank
    scheduler.take(), b.take()
    hosts.take(0, [OperandsReturned("job-1", [3])])
    assert b.take() == [EnqueueGraph("job-1", [3], [0])] and scheduler.take() == []


def test_an_operand_that_runs_already_is_not_called_back_twice_and_stays(room: Any) -> None:
    hosts, (a, b), _ = room
    hosts.enqueue_graph("job-1", [0, 1], [0, 0])
    hosts.balance(0.0)
    hosts.balance(1.0)
    a.take()
    assert not [one for one in hosts.balance(2.0) if one.source == 1]
    hosts.take(0, [OperandsReturned("job-1", []), Finished("job-1", [1], 0)])
    assert not [order for order in b.take() if isinstance(order, EnqueueGraph)]


def test_a_new_plan_moves_what_waits(room: Any) -> None:
    hosts, (a, b), _ = room
    hosts.enqueue_graph("job-1", [0, 1], [0, 0])
    hosts.take(0, [Started("job-1", [0], 0)])
    a.take()
    hosts.replan("job-1", [3, 2, 1, 0], [2, 3, -1, -1], [])
    ranks, back = a.take()
    assert back == TakeBack("job-1", [1]) and hosts.jobs["job-1"].table.rank == [3, 2, 1, 0]
    assert isinstance(ranks, Rerank) and from_int_planes(ranks.rank) == [3, 2, 1, 0]
    hosts.take(0, [OperandsReturned("job-1", [1])])
    assert b.take()[-1] == EnqueueGraph("job-1", [1], [0])


def test_an_operand_that_is_pinned_goes_to_its_worker_and_nowhere_else() -> None:
    hosts, link = Hosts(), Link()
    hosts.add(0, "a", Link().order, workers=2, memory=1000, room=1000)
    hosts.add(1, "b", link.order, workers=2, memory=1000, room=1000)
    table = _table()
    hosts.open_job(replace(table, pinned={0: 3}))
    (order,) = link.take()
    assert isinstance(order, OpenJob) and pickle.loads(order.table).pinned == {0: 1}
    hosts.enqueue_graph("job-1", [0], [0])
    assert isinstance(link.take()[0], EnqueueGraph)
    hosts.balance(0.0)
    assert hosts.balance(1.0) == []


def test_a_host_that_joins_late_opens_the_jobs_that_run_and_gets_work(room: Any) -> None:
    hosts, _, scheduler = room
    late = Link()
    hosts.add(7, "c", late.order, workers=2, memory=1000, room=1000)
    assert scheduler.take() == [
        WorkerMoved(4, "c/worker-0", 0, "starting"),
        WorkerMoved(5, "c/worker-1", 0, "starting"),
    ]
    assert [type(order) for order in late.take()] == [OpenJob]
    hosts.enqueue_graph("job-1", [0], [5])
    assert late.take() == [EnqueueGraph("job-1", [0], [0])]


def test_a_host_that_is_back_is_empty_and_its_workers_keep_their_numbers(room: Any) -> None:
    hosts, (_, b), scheduler = room
    hosts.enqueue_graph("job-1", [0], [2])
    hosts.take(1, [Finished("job-1", [0], 0)])
    with pytest.raises(ValueError, match="is here already"):
        hosts.add(1, "b", b.order, workers=2, memory=1000, room=1000)
    hosts.lost(1, "silent")
    scheduler.take()
    with pytest.raises(ValueError, match=r"had 2 workers \(0 GPUs\) and is back with 3 workers"):
        hosts.add(1, "b", b.order, workers=3, memory=1000, room=1000)
    again = Link()
    hosts.add(1, "b", again.order, workers=2, memory=1000, room=1000)
    assert hosts.places.holders(100) == []
    assert scheduler.take() == [
        WorkerMoved(2, "b/worker-0", 0, "starting"),
        WorkerMoved(3, "b/worker-1", 0, "starting"),
    ]
    b.take()
    hosts.enqueue_graph("job-1", [1], [3])
    assert [type(order) for order in again.take()] == [OpenJob, EnqueueGraph] and b.take() == []
    hosts.take(1, [Finished("job-1", [1], 1)])
    assert scheduler.take() == [Finished("job-1", [1], 3)]


def test_a_host_that_leaves_ends_what_runs_and_the_rest_goes_elsewhere(room: Any) -> None:
    hosts, (a, b), scheduler = room
    hosts.enqueue_graph("job-1", [0, 1], [0, 0])
    hosts.take(0, [Started("job-1", [0], 0)])
    scheduler.take(), a.take()
    hosts.leave(0)
    assert a.take() == [TakeBack("job-1", [1])]
    assert scheduler.take() == [
        WorkerMoved(0, "a/worker-0", 0, "leaving"),
        WorkerMoved(1, "a/worker-1", 0, "leaving"),
    ]
    hosts.take(0, [OperandsReturned("job-1", [1])])
    assert b.take() == [EnqueueGraph("job-1", [1], [0])] and hosts.is_busy(0)
    hosts.enqueue_graph("job-1", [3], [1])  # planned for the host that leaves
    assert b.take() == [EnqueueGraph("job-1", [3], [1])] and not a.take()
    hosts.take(0, [Finished("job-1", [0], 0)])
    hosts.kept(1, [100])
    assert not hosts.is_busy(0) and scheduler.take()[-1] == ChunksKept([100], 2)
    assert not hosts.close_at(0) and a.take() == [CloseJob("job-1")]
    assert not hosts.close_at(0) and not a.take()
    hosts.stop_execution("job-1")
    assert not a.take()  # it knows nothing of the job any more
    hosts.take(0, [JobClosed("job-1", {"makespan": 2.0, "peak": 5, "spilled": 1, "moved": 0})])
    assert hosts.close_at(0)
    hosts.lost(0, "evacuated")
    assert [type(report) for report in scheduler.take()] == [WorkerMoved] * 2  # no chunk, no operand
    hosts.close_job("job-1")
    hosts.take(1, [JobClosed("job-1", {"makespan": 3.0, "peak": 7, "spilled": 0, "moved": 9})])
    assert scheduler.take() == [JobClosed("job-1", {"makespan": 3.0, "peak": 12, "spilled": 1, "moved": 9})]


def test_a_host_that_stays_after_all_opens_what_came_meanwhile(room: Any) -> None:
    hosts, (a, _), scheduler = room
    hosts.leave(0)
    hosts.open_job(replace(_table(), job="job-2"))
    a.take(), scheduler.take()
    hosts.stay(0)
    (order,) = a.take()
    assert isinstance(order, OpenJob) and order.job == "job-2"
    assert [report.state for report in scheduler.take()] == ["idle", "idle"]  # type: ignore[union-attr]
    hosts.enqueue_graph("job-2", [0], [0])
    assert a.take() == [EnqueueGraph("job-2", [0], [0])]


def test_a_fault_at_a_report_ends_its_job_alone(room: Any, monkeypatch: Any) -> None:
    hosts, _, scheduler = room
    hosts.enqueue_graph("job-1", [0], [0])
    monkeypatch.setattr(hosts.places, "stored", lambda *_: 1 // 0)
    hosts.take(0, [Finished("job-1", [0], 0), WorkerMoved(0, "worker-0", 7, "idle")])
    broken, moved = scheduler.take()
    assert isinstance(broken, JobBroken) and broken.job == "job-1" and "ZeroDivisionError" in broken.why
    assert moved == WorkerMoved(0, "a/worker-0", 7, "idle")
    monkeypatch.setattr(hosts.places, "copied", lambda *_: 1 // 0)
    hosts.take(0, [ChunksCopied([100])])  # of no job: it may be any
    assert [(type(one), one.job) for one in scheduler.take()] == [(JobBroken, "job-1")]


def test_orders_for_closed_jobs_and_reports_of_unknown_hosts_do_nothing(room: Any) -> None:
    hosts, links, scheduler = room
    hosts.close_job("job-1")
    for number in (0, 1):
        hosts.take(number, [JobClosed("job-1", {})])
    for link in links:
        link.take()
    scheduler.take()
    hosts.enqueue_graph("job-1", [0], [0])
    hosts.replan("job-1", [0] * 4, [0] * 4, [])
    hosts.stop_execution("job-1")
    hosts.close_job("job-1")
    hosts.suspect(7, True)
    hosts.take(7, [Started("job-1", [0], 0)])
    assert [link.take() for link in links] == [[], []] and scheduler.take() == []
