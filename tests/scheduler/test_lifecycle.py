"""The life of an operand: the table is the seed's, reports that come too late change nothing, wrong decisions raise."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.model.status import OperandState as S
from jmars.scheduler.lifecycle import LEGAL, REPORTS, Happened, IllegalMoveError, check, step, taken_in

STATES = [state for state in S if state != S.SPILLED]  # a fact of storage, no state of its own


def test_the_table_of_legal_moves_is_the_seeds_with_fail_over():
    assert {S(before): {S(after) for after in states} for before, states in LEGAL.items()} == {
        S.UNSCHEDULED: {S.READY, S.CANCELLED, S.FATAL},
        S.READY: {S.RUNNING, S.UNSCHEDULED, S.CANCELLED, S.FATAL},
        S.RUNNING: {S.FINISHED, S.READY, S.UNSCHEDULED, S.CANCELLING, S.FATAL},
        S.FINISHED: {S.FREED, S.UNSCHEDULED},
        S.FREED: {S.UNSCHEDULED, S.FINISHED},
        S.CANCELLING: {S.CANCELLED, S.FINISHED},
        S.CANCELLED: set(),
        S.FATAL: set(),
    }


def test_each_state_has_a_row_of_moves():
    assert set(LEGAL) == set(STATES)
    assert step(S.UNSCHEDULED, Happened.INPUTS_THERE) == S.READY
    assert step(S.RUNNING, Happened.STORED) == S.FINISHED
    assert step(S.FINISHED, Happened.UNNEEDED) == S.FREED
    assert step(S.RUNNING, Happened.STOP) == S.CANCELLING
    assert step(S.READY, Happened.STOP) == S.CANCELLED
    assert step(S.RUNNING, Happened.RAISED) == S.FATAL
    assert step(S.RUNNING, Happened.RAISED, tries_left=1) == S.READY
    assert step(S.RUNNING, Happened.RAISED, tries_left=1, inputs_there=False) == S.UNSCHEDULED
    assert step(S.RUNNING, Happened.DROPPED, inputs_there=False) == S.UNSCHEDULED
    assert step(S.CANCELLED, Happened.STORED) == S.CANCELLED


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("what", sorted(REPORTS))
def test_a_report_that_is_told_twice_changes_nothing_the_second_time(state, what):
    """But that a worker misses inputs again, of an operand that was handed to it again."""
    for there, tries in itertools.product((True, False), (0, 1)):
        after = step(state, what, inputs_there=there, tries_left=tries)
        if (after, what) != (S.READY, Happened.MISSING):
            assert step(after, what, inputs_there=there, tries_left=tries) == after


@given(st.lists(st.tuples(st.sampled_from(sorted(Happened)), st.booleans(), st.integers(0, 1))))
def test_any_history_keeps_to_the_table_and_nothing_leaves_the_last_states(history):
    state = S.UNSCHEDULED
    for what, there, tries in history:
        try:
            after = step(state, what, inputs_there=there, tries_left=tries)
        except IllegalMoveError:
            assert what not in REPORTS
            continue
        if after != state:
            check(state, after)
        state = after


def test_wrong_decisions_raise():
    with pytest.raises(IllegalMoveError, match="an operand that is UNSCHEDULED cannot meet UNNEEDED"):
        step(S.UNSCHEDULED, Happened.UNNEEDED)
    with pytest.raises(IllegalMoveError, match="UNSCHEDULED to FINISHED"):
        check(S.UNSCHEDULED, S.FINISHED)


def test_what_is_tested_for_each_of_a_batch_is_made_from_the_table():
    assert [state for state in STATES if taken_in(Happened.STORED)[state]] == [S.RUNNING, S.CANCELLING]
    assert [state for state in STATES if taken_in(Happened.TAKEN)[state]] == [S.READY]
    assert [state for state in STATES if taken_in(Happened.UNNEEDED)[state]] == [S.FINISHED]
    assert [state for state in STATES if taken_in(Happened.MISSING)[state]] == [S.READY, S.RUNNING, S.CANCELLING]
