"""Progress never falls and is 1 only at the end, whatever happens to operands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jmars.model.status import OperandState as S
from jmars.scheduler.progress import ALMOST, Progress

STATES = st.lists(st.lists(st.sampled_from(list(S)), min_size=4, max_size=4), min_size=1, max_size=6)


@given(st.lists(STATES, min_size=1, max_size=5))
def test_it_never_falls_and_stays_below_1_until_the_end(stages):
    progress = Progress()
    told = [progress.now(b"", ended=False)]
    for number, moments in enumerate(stages):
        progress.begin(given=0, last=number == len(stages) - 1)
        told += [progress.now(bytes(states), ended=False) for states in moments]
        progress.close(bytes([S.FREED] * 4))
        told.append(progress.now(b"", ended=False))
    assert told[0] == 0 and told == sorted(told) and told[-1] == ALMOST < 1
    assert progress.now(b"", ended=True) == 1.0


def test_what_was_there_before_is_no_progress():
    progress = Progress()
    progress.begin(given=2, last=True)
    assert progress.now(bytes([S.FINISHED, S.FINISHED, S.READY, S.READY]), ended=False) == 0
    assert progress.now(bytes([S.FINISHED, S.FREED, S.FINISHED, S.READY]), ended=False) == 0.5


def test_a_stage_that_others_may_follow_has_half_of_what_is_left():
    progress = Progress()
    for number in range(3):
        progress.begin(given=0, last=False)
        progress.close(bytes([S.FINISHED]))
        assert progress.now(b"", ended=False) == 1 - 0.5 ** (number + 1)
    progress.begin(given=0, last=True)
    assert progress.now(bytes([S.FINISHED, S.READY]), ended=False) == 1 - 0.5**4


def test_a_stage_without_anything_to_do_is_done():
    progress = Progress()
    progress.begin(given=1, last=True)
    assert progress.now(bytes([S.FINISHED]), ended=False) == ALMOST
