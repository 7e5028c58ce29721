from hypothesis import given
from hypothesis import strategies as st

from jmars.scheduler.why import Watchdog


def test_nothing_is_said_of_a_job_that_moves():
    dog = Watchdog(patience=5)
    for now in range(100):
        assert dog.look(now, {"job-1": now // 4}) == ({}, [])


def test_a_job_that_stands_still_is_told_of_less_and_less_often():
    dog = Watchdog(patience=5)
    said = [now for now in range(100) if dog.look(now, {"job-1": "same"})[0]]
    assert said == [5, 10, 20, 40, 80]


def test_that_it_moves_again_is_said_once_and_only_if_something_was_said():
    dog = Watchdog(patience=5)
    dog.look(0, {"a": 1, "b": 1})
    assert dog.look(6, {"a": 1, "b": 2}) == ({"a": 6}, [])
    assert dog.look(7, {"a": 2, "b": 3}) == ({}, ["a"])
    assert dog.look(8, {"a": 3, "b": 4}) == ({}, [])


def test_a_job_that_has_ended_is_forgotten():
    dog = Watchdog(patience=5)
    dog.look(0, {"a": 1})
    assert dog.look(6, {}) == ({}, [])
    assert dog.look(7, {"a": 1}) == ({}, [])  # another life: its time begins anew


@given(st.lists(st.tuples(st.integers(1, 7), st.sampled_from("xy")), max_size=60))
def test_who_hears_that_it_moves_has_heard_that_it_did_not(steps):
    dog, now, told = Watchdog(patience=5), 0, False
    last, since = None, 0
    for step, pulse in steps:
        now += step
        still, moving = dog.look(now, {"a": pulse})
        if pulse != last:
            last, since = pulse, now
        assert bool(moving) <= told
        assert not still or (still["a"] == now - since >= 5)
        told = bool(still) or (told and not moving and now != since)
