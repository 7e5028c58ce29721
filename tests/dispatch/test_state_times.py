"""Times of the four states, packed."""

from jmars.dispatch.ledger import StateTimes, pack_numbers


def numbers(packed):
    return [list(memoryview(one).cast("I")) for one in packed]


def test_what_found_its_memory_and_wrote_in_place_has_only_its_computing():
    assert numbers(StateTimes().packed(1, [3, 4], [10, 20], ())) == [[], [], [10, 20], []]


def test_waits_are_told_once_with_the_operand_that_waited():
    states = StateTimes()
    states.waited(1, 4, 0.001, 0.5)
    assert numbers(states.packed(1, [3, 4], [10, 20], ())) == [[0, 1000], [0, 500_000], [10, 20], []]
    assert numbers(states.packed(1, [4], [10], ())) == [[], [], [10], []]


def test_storing_is_taken_from_computing_as_far_as_that_counts_it():
    assert numbers(StateTimes().packed(1, [3, 4], [10, 20], [(1, 90, 5)])) == [[], [], [10, 15], [0, 90]]


def test_a_closed_job_is_forgotten_and_others_are_not():
    states = StateTimes()
    states.waited(1, 4, 1.0, 0.0)
    states.waited(2, 4, 1.0, 0.0)
    states.close_job(1)
    assert numbers(states.packed(1, [4], [1], ()))[0] == [] and numbers(states.packed(2, [4], [1], ()))[0] == [
        1_000_000
    ]


def test_more_than_seventy_minutes_are_as_many_as_fit():
    assert numbers([pack_numbers([2**40, -1, 7])]) == [[2**32 - 1, 0, 7]]
