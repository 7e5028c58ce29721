"""TaskQueue: by job, then by rank; an idle worker takes from the longest queue of the job whose turn it is."""

from hypothesis import given
from hypothesis import strategies as st

from jmars.dispatch.task_queue import TaskQueue


def test_lower_ranks_go_first_and_earlier_jobs_before_later_ones():
    queue = TaskQueue(1)
    for number, rank, operand in [(2, 0, 7), (1, 5, 3), (1, 2, 9)]:
        queue.push(0, number, rank, operand)
    assert [queue.pop(0) for _ in range(4)] == [(1, 9), (1, 3), (2, 7), None]


def test_an_idle_worker_takes_from_the_longest_queue():
    queue = TaskQueue(3)
    queue.push(0, 1, 0, 10)
    queue.push(1, 1, 1, 11)
    queue.push(1, 1, 2, 12)
    assert queue.pop(2) == (1, 11)


def test_a_worker_takes_anothers_queue_before_its_own_of_a_later_job():
    queue = TaskQueue(3)
    for worker, number, rank in [(0, 2, 0), (1, 1, 5), (1, 1, 6), (2, 1, 4)]:
        queue.push(worker, number, rank, rank)
    assert queue.pop(0) == (1, 5), "of the earliest job from the longest queue"
    assert [queue.pop(0) for _ in range(4)] == [(1, 6), (1, 4), (2, 0), None]


def test_the_job_whose_turn_it_is_goes_first_and_else_the_earliest():
    queue = TaskQueue(2)
    for worker, number, rank in [(0, 1, 0), (1, 2, 7), (1, 2, 5)]:
        queue.push(worker, number, rank, rank)
    assert queue.pop(0, number=2) == (2, 5), "wherever it waits"
    assert queue.pop(0, number=3) == (1, 0), "of that one nothing waits"
    assert queue.pop(0, own=True, number=2) is None
    assert queue.pop(1, own=True, number=1) == (2, 7) and not queue


def test_only_the_job_that_is_asked_for_is_taken_from():
    queue = TaskQueue(1)
    queue.push(0, 1, 0, 10)
    queue.push(0, 2, 0, 20)
    assert [queue.pop(0, only=2), queue.pop(0, only=2), queue.pop(0)] == [(2, 20), None, (1, 10)]


def test_a_dropped_job_leaves_the_others_in_order():
    queue = TaskQueue(2)
    for operand in range(10):
        queue.push(operand % 2, 1 + operand % 3, 10 - operand, operand)
    assert sorted(queue.drop(2)) == [1, 4, 7]
    assert len(queue) == 7
    assert sorted(queue.pop(worker)[1] for worker in (0, 1) for _ in range(2)) == [0, 3, 6, 9]  # job 1 goes first


@given(st.lists(st.tuples(st.integers(1, 2**20), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=50))
def test_keys_compare_as_job_rank_operand(items):
    queue = TaskQueue(1)
    for number, rank, operand in items:
        queue.push(0, number, rank, operand)
    assert [queue.pop(0) for _ in items] == [(number, operand) for number, _, operand in sorted(items)]


def test_where_memory_is_short_rank_goes_before_place():
    queue = TaskQueue(2)
    for worker, rank in [(0, 5), (0, 7), (1, 2), (1, 6)]:
        queue.push(worker, 1, rank, 10 + rank)
    assert [queue.pop(0, strict=True) for _ in range(4)] == [(1, 12), (1, 15), (1, 16), (1, 17)]
    assert queue.pop(0, strict=True) is None


def test_only_what_comes_before_is_taken_where_that_is_asked():
    queue = TaskQueue(1)
    for number, rank in [(1, 5), (1, 8), (2, 0)]:
        queue.push(0, number, rank, rank)
    assert queue.pop(0, before=(1, 5)) is None
    assert queue.pop(0, before=(1, 6)) == (1, 5)
    assert queue.pop(0, before=(1, 8)) is None
    assert queue.pop(0, before=(2, 0)) == (1, 8)
    assert queue.pop(0, before=(2, 0)) is None and len(queue) == 1


def test_another_plan_moves_what_waits_and_leaves_other_jobs():
    queue = TaskQueue(2)
    for worker, number, rank, operand in [(0, 1, 0, 0), (0, 1, 1, 1), (1, 1, 2, 2), (1, 2, 0, 0)]:
        queue.push(worker, number, rank, operand)
    queue.replan(1, rank=[9, 8, 7], workers=[1, -1, 0])
    assert [queue.pop(0, own=True) for _ in range(3)] == [(1, 2), (1, 1), None]
    assert [queue.pop(1, own=True) for _ in range(3)] == [(1, 0), (2, 0), None]
