import random

import numpy as np
import pytest

from jmars.model.status import OperandState as S
from jmars.scheduler.progress import Eta


def run(program, seconds, workers, planned=None, makespan=None, step=0.05, jitter=0.0, seed=0, begin=()):
    """(time, told) at each step of a run of independent operands in their order, and when it ended."""
    rng = random.Random(seed)
    n = len(program)
    eta = Eta(program, workers, planned, makespan)
    states = bytearray([S.READY] * n)
    free, begins = [0.0] * workers, [*begin, *[0.0] * workers]  # seconds that the first call of a worker takes more
    ends = []
    for one in range(n):
        at = free.index(min(free))
        took = seconds[program[one]] * (1 + jitter * (2 * rng.random() - 1)) + begins[at]
        begins[at] = 0.0
        ends.append((free[at], free[at] + took, one, took, at))
        free[at] += took
    told, now = [], 0.0
    starts, finishes = sorted(ends), sorted(ends, key=lambda row: row[1])
    while finishes:
        now += step
        while starts and starts[0][0] <= now:
            states[starts.pop(0)[2]] = S.RUNNING
        while finishes and finishes[0][1] <= now:
            _, _, one, took, at = finishes.pop(0)
            states[one] = S.FINISHED
            eta.ended([one], [int(took * 1e6)], at)
        told.append((now, eta.left(now, states)))
    return told, max(free)


@pytest.mark.parametrize("jitter", [0.0, 0.5])
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_on_a_steady_run_it_is_within_twice_the_truth(workers, jitter):
    told, end = run([0] * 200, [0.2], workers, jitter=jitter)
    checked = [(end - now, left) for now, left in told if left is not None and 0.1 * end < now < 0.95 * end]
    assert len(checked) > 20
    assert all(true / 2 <= left <= 2 * true for true, left in checked)


def test_programs_that_differ_count_by_what_they_cost():
    program = [0] * 100 + [1] * 100  # the second half takes nine times as long, which the plan knows
    planned = np.array([0.01] * 100 + [0.09] * 100)
    told, end = run(program, [0.02, 0.18], 2, planned=planned, makespan=5.0)
    for now, left in told:
        if 0.05 * end < now < 0.95 * end:
            assert (end - now) / 2 <= left <= 2 * (end - now)


@pytest.mark.parametrize("begin", [(4.0, 4.0), (1.0, 4.0)])
def test_a_slow_begin_counts_once(begin):
    """Processes import the libraries of a function at the first call, one process later than the other."""
    told, end = run([0] * 120, [0.1], 2, begin=begin)
    checked = [(end - now, left) for now, left in told if left is not None and max(begin) + 0.5 < now < 0.9 * end]
    assert len(checked) > 50
    assert all(true / 2 <= left <= 2 * true for true, left in checked)


def test_what_is_told_does_not_jump():
    told, _ = run([0] * 100, [0.3], 3, jitter=0.8)
    left = [one for _, one in told if one is not None][20:]
    jumps = [after - before for before, after in zip(left, left[1:])]
    assert max(jumps) < 0.1  # seconds that it grows within a twentieth of one
    assert sum(jump > 0 for jump in jumps) < 0.4 * len(jumps)


def test_before_anything_ended_the_plan_is_told_and_without_one_nothing():
    assert Eta([0, 0], 1).left(1.0, bytes([S.RUNNING, S.READY])) is None
    assert Eta([0, 0], 1, makespan=8.0).left(1.0, bytes([S.READY, S.READY])) == 7.0


def test_operands_that_run_tell_before_any_has_ended():
    eta = Eta([0, 0], 1, np.array([2.0, 2.0]))
    assert eta.left(1.0, bytes([S.RUNNING, S.READY])) == 3.0


def test_stored_chunks_cost_nothing_and_the_end_is_zero():
    eta = Eta([-1, 0, 0], 1)
    eta.ended([1], [1_000_000])
    assert eta.left(1.0, bytes([S.FINISHED, S.FINISHED, S.READY])) == pytest.approx(1.0)
    eta.ended([2], [1_000_000])
    assert eta.left(20.0, bytes([S.FINISHED] * 3)) == 0.0


def test_work_that_is_done_again_counts_again():
    eta = Eta([0] * 4, 1)
    eta.ended([0, 1], [1_000_000] * 2)
    assert eta.left(2.0, bytes([S.FINISHED] * 2 + [S.READY] * 2)) == pytest.approx(2.0)
    assert eta.left(100.0, bytes([S.UNSCHEDULED] + [S.FINISHED] + [S.READY] * 2)) > 200
