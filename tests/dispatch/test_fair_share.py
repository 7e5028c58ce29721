"""Whose turn it is: a short job need not wait for a long one, the earliest has half of the time, and each ends."""

from hypothesis import given
from hypothesis import strategies as st

from jmars.dispatch.task_queue import FairShare


def served(operands, seconds):
    """When each job ends, in seconds, where one worker runs operands one by one, all jobs there from the start."""
    turns, left, now, ends = FairShare(), dict(operands), 0.0, {}
    while left:
        number = turns.next(left.keys(), min(left), operands.__getitem__)
        turns.charge(number, seconds[number])
        now += seconds[number]
        left[number] -= 1
        if not left[number]:
            del left[number]
            ends[number] = now
    return ends


def test_a_short_job_behind_a_long_one_has_half_of_the_time():
    ends = served({1: 1000, 2: 10}, {1: 1.0, 2: 1.0})
    assert ends[2] == 20 and ends[1] == 1010


def test_time_is_shared_and_not_operands():
    ends = served({1: 100, 2: 1000}, {1: 10.0, 2: 0.01})
    assert ends[2] <= 30, "the short operands of ten seconds, beside as much of the long ones"


def test_of_the_later_jobs_the_shortest_goes_first():
    ends = served({1: 1000, 2: 500, 3: 5, 4: 50}, dict.fromkeys(range(1, 5), 1.0))
    assert ends[3] < ends[4] < ends[2]


def test_slots_of_later_jobs_stay_while_the_earliest_needs_none():
    turns, size_of = FairShare(), {1: 10, 2: 10}.__getitem__
    assert turns.next({2}, 1, size_of) == 2
    turns.charge(2, 100.0)
    assert turns.next({1, 2}, 1, size_of) == 1
    turns.charge(1, 0.5)
    assert turns.next({1, 2}, 1, size_of) == 2


@given(
    st.dictionaries(st.integers(1, 20), st.integers(1, 60), min_size=1, max_size=6),
    st.lists(st.floats(0.001, 10), min_size=20, max_size=20),
)
def test_the_earliest_is_at_most_twice_as_late_as_alone_and_every_job_ends(operands, each):
    seconds = dict(zip(range(1, 21), each))
    ends, first = served(operands, seconds), min(operands)
    longest = max(seconds[number] for number in operands)
    assert ends.keys() == operands.keys()
    assert ends[first] <= 2 * operands[first] * seconds[first] + longest + 1e-6
