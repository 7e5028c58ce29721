"""Offers: an operand stands in the queues of several workers, and the first that takes it has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.dispatch.task_queue import Offers, TaskQueue
from tests.worker.steps_host import Host, in_loop, program, table

WORKERS = 3
ACCEPT = (0, [], 0, 0, ("accepted",), [])
DONE = (1, [5], 0, 0, None, [])
sets = st.sets(st.integers(0, WORKERS - 1), min_size=1).map(sorted)


@given(st.lists(st.tuples(st.integers(0, 9), sets), max_size=20), st.lists(st.integers(0, WORKERS - 1), max_size=30))
def test_each_offer_is_taken_once_by_a_worker_that_has_it_lowest_first(offers, takers):
    book = Offers(WORKERS)
    model: dict[int, set[int]] = {}
    for key, to in offers:
        book.make(key, to)
        model.setdefault(key, set()).update(to)
    for worker in takers:
        mine = [key for key, to in model.items() if worker in to]
        assert book.best(worker) == min(mine, default=None)
        if not mine:
            with pytest.raises(LookupError):
                book.take(worker)
            continue
        assert book.take(worker) == min(mine)
        del model[min(mine)]
        if min(mine) % 3 == 0:  # it comes back, as after a death: to one worker now, though others have the old offer
            book.make(min(mine), [worker])
            model[min(mine)] = {worker}
        assert sorted(book) == sorted(model) and len(book) == len(model)
    assert sorted(key for key, _ in book.withdraw()) == sorted(model) and not len(book)


def test_a_worker_takes_of_a_late_job_only_when_it_is_about_to_run():
    queue = TaskQueue(2)
    queue.open_job(1, late=True, pinned={})
    for operand in range(3):
        queue.push(0, 1, operand, operand)
    queue.push(0, 2, 0, 7)
    assert queue.is_offered(1) and queue.pop(1, ready=False) == (2, 7), "another job's operand may wait there"
    assert queue.pop(1, ready=False) is None
    assert [queue.pop(worker) for worker in (1, 0, 1, 0)] == [(1, 0), (1, 1), (1, 2), None]
    assert not queue and not queue.is_offered(0)


def test_a_pinned_operand_goes_to_its_worker_also_where_memory_is_short():
    queue = TaskQueue(3)
    queue.open_job(1, late=False, pinned={5: 2})
    queue.push(0, 1, 0, 5)
    queue.push(0, 1, 1, 6)
    queue.push(0, 2, 0, 9)
    assert [queue.pop(1, strict=True) for _ in range(3)] == [(1, 6), (2, 9), None]
    assert queue.count() == {1: 1} and queue.waiting(1) == [5]
    queue.replan(1, [3] * 7, [0] * 7)
    assert queue.pop(0) is None and queue.pop(2, own=True) == (1, 5)
    queue.push(0, 1, 0, 5)
    assert queue.drop(1) == [5] and not queue
    queue.close_job(1)


def late(operands):
    return table(1, [program()], [0] * operands, [()] * operands, late=True)


@in_loop
def test_all_idle_workers_are_asked_and_the_first_that_answers_runs_it():
    with Host(workers=3) as host:
        host.run(late(1), 0)
        assert [len(host.batches(worker)) for worker in range(3)] == [0, 0, 0]
        assert all(host.children.sent[f"worker-{worker}"][-1] == ("offer",) for worker in range(3))
        host.say(*ACCEPT, worker=2)
        assert len(host.batches(2)) == 1 and host.execution.workers[2].running == 1
        host.say(*ACCEPT, worker=0)  # too late: refused
        host.say(*DONE, worker=2)
        assert [len(host.batches(worker)) for worker in range(3)] == [0, 0, 1]


@in_loop
def test_nothing_is_bound_to_a_running_worker_and_an_end_is_an_answer():
    with Host(workers=2) as host:
        host.run(late(4), 0, 1, 2, 3)
        host.say(*ACCEPT, worker=0)
        assert [len(batch.operands) for batch in host.execution.workers[0].batches] == [1], "one operand at a time"
        host.say(*DONE)
        host.say(*DONE)
        assert len(host.batches(0)) == 3 and len(host.batches(1)) == 0
        host.say(*ACCEPT, worker=1)  # it was asked at first, and was stopped until now
        assert len(host.batches(1)) == 1 and not len(host.execution.dispatch.queue)


@in_loop
def test_workers_that_get_nothing_are_not_asked_again_and_again():
    with Host(workers=2) as host:
        host.run(late(1), 0)
        for worker in (0, 1, 0, 1):
            host.say(*ACCEPT, worker=worker)
        orders = [one for worker in (0, 1) for one in host.children.sent[f"worker-{worker}"]]
        assert orders.count(("offer",)) == 2


@in_loop
def test_a_new_process_is_asked_again():
    with Host(workers=1) as host:
        host.run(late(1), 0)
        host.children.links["worker-0"].ended("signal")
        assert host.children.sent["worker-0"][-1] == ("offer",)
        host.say(*ACCEPT)
        assert len(host.batches()) == 1


@in_loop
def test_a_late_operand_has_no_copy():
    with Host(workers=2) as host:
        host.run(late(1), 0)
        host.say(*ACCEPT)
        host.execution.workers[0].state = "suspect"
        assert not host.execution.dispatch.speculation.look()
        assert not host.execution.workers[1].batches
