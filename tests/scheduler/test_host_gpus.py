"""Hosts with GPUs as one port: which host gets an operand for a GPU, and what of it counts as work of cores."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jmars.model.messages import (
    ChunksLost,
    EnqueueGraph,
    Finished,
    InputsMissing,
    JobClosed,
    JobTable,
    OperandsReturned,
    Order,
    Started,
    TakeBack,
    WorkerMoved,
)
from jmars.plan import CPU, GPU
from jmars.plan.plan_graph import GPU_ONLY
from jmars.scheduler.host_jobs import HostRow
from jmars.scheduler.hosts import Hosts, Shift


class Link:
    """Notes orders to run operands."""

    def __init__(self) -> None:
        self.told: list[Order] = []

    def order(self, orders: Any) -> None:
        self.told += [one for one in orders if isinstance(one, EnqueueGraph | TakeBack)]

    def take(self) -> list[Any]:
        told, self.told = self.told, []
        return [(one.operands, one.workers) if isinstance(one, EnqueueGraph) else one for one in told]


def _table(device: list[int]) -> JobTable:
    """Operands that read nothing, of 80 bytes and 20 bytes of scratch each."""
    n = len(device)
    return JobTable(
        "job-1", 1, [], [0] * n, [[]] * n, None, 100, list(range(100, 100 + n)), [80] * n,
        [20] * n, list(range(n)), 0, [], [[]] * n, device=bytes(device),
    )  # fmt: skip


def _hosts(*gpus: list[int]) -> tuple[Hosts, list[Link], list[HostRow], list[Any]]:
    """Hosts with two cores each, and GPUs of so many bytes."""
    hosts, links, heard = Hosts(), [Link() for _ in gpus], []

    class Scheduler:
        def report(self, report: Any) -> None:
            heard.append(report)

    hosts.connect(Scheduler())
    for number, (link, sizes) in enumerate(zip(links, gpus, strict=True)):
        hosts.add(number, "abc"[number], link.order, 2 + len(sizes), 1000, 1000, len(sizes))
        warm = [WorkerMoved(2 + one, f"gpu-{one}", 7, "idle", size) for one, size in enumerate(sizes)]
        hosts.take(number, warm)
    heard.clear()
    return hosts, links, [hosts.rows[number] for number in range(len(gpus))], heard


def test_gpus_are_the_last_workers_of_a_host_and_planned_ones_are_kept() -> None:
    hosts, links, (a, b), _ = _hosts([], [1000, 1000])
    assert hosts.names == ["a/worker-0", "a/worker-1", "b/worker-0", "b/worker-1", "b/gpu-0", "b/gpu-1"]
    assert (a.cores, b.cores, b.warm_gpus()) == (2, 2, [(4, 1000), (5, 1000)])
    hosts.open_job(_table([CPU, CPU, CPU, GPU, GPU]))
    hosts.enqueue_graph("job-1", [0, 1, 2, 3, 4], [0, 2, 2, 5, 5])
    assert links[0].take() == [([0], [0])] and links[1].take() == [([1, 2, 3, 4], [0, 1, 3, 3])]


def test_an_operand_for_a_gpu_goes_to_a_host_whose_gpu_has_room_for_it() -> None:
    hosts, links, _, _ = _hosts([50], [], [1000, 1000])
    hosts.open_job(_table([GPU, GPU_ONLY, GPU]))
    hosts.enqueue_graph("job-1", [0, 1, 2], [2, 3, 4])
    assert links[2].take() == [([0, 1, 2], [2, 3, 2])] and not links[0].take() + links[1].take()


def test_without_a_warm_gpu_cores_run_it_and_pinned_operands_wait() -> None:
    hosts, links, (_, b), _ = _hosts([], [0])
    b.gpus[0] = -1
    hosts.open_job(_table([GPU, GPU_ONLY]))
    hosts.enqueue_graph("job-1", [0, 1], [0, 0])
    assert links[0].take() == [([0], [0])] and links[1].take() == [([1], [2])]


def test_a_gpu_that_is_given_up_gets_nothing() -> None:
    hosts, links, (a, _), heard = _hosts([1000], [1000])
    hosts.take(0, [WorkerMoved(2, "gpu-0", 7, "given up", -1)])
    assert a.gpus == [0] and heard == [WorkerMoved(2, "a/gpu-0", 7, "given up", -1)]
    hosts.open_job(_table([GPU]))
    hosts.enqueue_graph("job-1", [0], [2])
    assert links[1].take() == [([0], [2])]


def test_operands_of_a_lost_host_go_to_the_gpu_of_another_one() -> None:
    hosts, links, _, heard = _hosts([1000], [], [1000])
    hosts.open_job(_table([GPU, GPU]))
    hosts.enqueue_graph("job-1", [0, 1], [2, 2])
    hosts.take(0, [Started("job-1", [0], 2), Finished("job-1", [0], 2)])
    hosts.lost(0, "unplugged")
    again = next(one for one in heard if isinstance(one, InputsMissing))
    assert again.operands == [1] and any(isinstance(one, ChunksLost) for one in heard)
    hosts.enqueue_graph("job-1", [1], [2])
    assert links[2].take() == [([1], [2])] and not links[1].take()


def test_operands_for_gpus_stay_while_cores_are_balanced() -> None:
    hosts, _, (a, _), _ = _hosts([1000], [1000])
    hosts.open_job(_table([GPU] * 4 + [CPU] * 8))
    hosts.enqueue_graph("job-1", list(range(12)), [2] * 4 + [0] * 8)
    hosts.take(0, [Started("job-1", [0, 1], 2), Started("job-1", [4, 5], 0)])
    job = hosts.jobs["job-1"]
    assert job.runs == {0: 2} and job.for_gpus == {0: 4} and job.waiting(0) == [11, 10, 9, 8, 7, 6]
    assert hosts.balance(0.0) == []
    hosts.take(0, [Finished("job-1", [0, 1], 2)])
    assert a.done == 0
    assert hosts.balance(1.0) == [Shift(0, 1, 3)] and set(job.called_back) == {11, 10, 9}
    hosts.take(0, [OperandsReturned("job-1", [11, 10, 9])])
    hosts.take(0, [Finished("job-1", [2, 3], 2), Finished("job-1", [4], 0)])
    assert job.for_gpus == {0: 0} and job.runs == {0: 1} and a.done == 1


def test_a_host_that_leaves_gives_up_what_waits_for_its_gpu() -> None:
    hosts, links, _, _ = _hosts([1000], [1000])
    hosts.open_job(_table([GPU, GPU_ONLY]))
    hosts.enqueue_graph("job-1", [0, 1], [2, 2])
    links[0].take()
    hosts.leave(0)
    assert links[0].take() == [TakeBack("job-1", [0, 1])]
    hosts.take(0, [OperandsReturned("job-1", [0, 1])])
    assert links[1].take() == [([0, 1], [2, 2])]


def test_the_only_host_with_a_gpu_stays_until_its_jobs_have_ended() -> None:
    hosts, links, (a, _), _ = _hosts([1000], [])
    hosts.open_job(_table([GPU_ONLY, GPU_ONLY, CPU, CPU]))
    hosts.enqueue_graph("job-1", [0, 2], [2, 0])
    links[0].take()
    hosts.leave(0)
    assert links[0].take() == [TakeBack("job-1", [2])], "what a core can run goes elsewhere"
    hosts.take(0, [OperandsReturned("job-1", [2])])
    hosts.enqueue_graph("job-1", [1, 3], [2, 0])
    assert links[0].take() == [([1], [2])] and links[1].take() == [([2], [0]), ([3], [1])]
    hosts.take(0, [Finished("job-1", [0, 1], 2)])
    assert hosts.is_busy(0), "what a lost host had may have to be computed again"
    hosts.open_job(replace(_table([GPU_ONLY]), job="job-2"))
    hosts.close_job("job-1")
    assert not hosts.is_busy(0), "jobs that began later are not open there"
    hosts.take(0, [JobClosed("job-1", {})])
    assert hosts.close_at(0) and a.leaving


def test_a_leaving_host_is_not_kept_where_another_gpu_will_do_or_cores() -> None:
    for others, device in (([1000], GPU_ONLY), ([-1], GPU_ONLY), ([], GPU)):
        hosts, links, rows, _ = _hosts([1000], [abs(size) for size in others])
        rows[1].gpus[:] = others
        hosts.open_job(_table([device]))
        hosts.leave(0)
        assert not hosts.is_busy(0)
        hosts.enqueue_graph("job-1", [0], [2])
        assert not links[0].take() and len(links[1].take()) == 1


def test_a_gpu_that_is_too_small_does_not_replace_that_of_a_leaving_host() -> None:
    hosts, links, (a, _), _ = _hosts([1000], [50])
    hosts.open_job(_table([GPU_ONLY]))
    hosts.leave(0)
    hosts.enqueue_graph("job-1", [0], [2])
    assert links[0].take() == [([0], [2])] and not links[1].take() and hosts.is_busy(0)
    hosts.take(0, [Finished("job-1", [0], 2)])
    a.gpus[0] = 0  # its GPU is given up
    assert not hosts.is_busy(0)


def test_a_leaving_host_that_has_closed_a_job_gets_nothing_of_it() -> None:
    hosts, links, _, _ = _hosts([1000], [1000])
    hosts.open_job(_table([GPU_ONLY]))
    hosts.leave(0)
    assert not hosts.close_at(0)
    hosts.lost(1, "unplugged")
    hosts.add(1, "b", links[1].order, 3, 1000, 1000, 1).gpus[0] = 0
    hosts.enqueue_graph("job-1", [0], [5])
    assert not links[0].take() and links[1].take() == [([0], [2])], "where it is refused"
    assert not hosts.is_busy(0)


def test_a_host_that_is_back_has_the_same_gpus() -> None:
    hosts, links, _, _ = _hosts([1000], [])
    hosts.lost(0, "silent")
    with pytest.raises(ValueError, match=r"had 3 workers \(1 GPUs\) and is back with 3 workers \(0 GPUs\)"):
        hosts.add(0, "a", links[0].order, 3, 1000, 1000)
    assert hosts.add(0, "a", links[0].order, 3, 1000, 1000, 1).gpus == [-1], "it warms up"
