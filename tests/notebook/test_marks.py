"""What the boxes of a large graph open to."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.model.status import OperandState as S
from jmars.notebook.operand_table import Marks, notable
from jmars.notebook.view import MAX_DRAWN, MAX_MARKS


def shown(marks: Marks, states: list[int]) -> list[int]:
    return marks.shown(notable(np.array(states, np.uint8), np.zeros(len(states), np.int16)))[0].tolist()


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(6, 30))
def test_each_operand_is_behind_one_mark_of_its_box(box, most):
    marks = Marks(np.array(box, np.int64), 6, most)
    assert sum(marks.counts) <= most
    assert [n > 0 for n in marks.counts] == [at in box for at in range(6)]
    for operand, its in enumerate(box):
        states = [int(S.FREED)] * len(box)
        states[operand] = int(S.FATAL)
        at = shown(marks, states).index(S.FATAL)  # it is seen, and in its box
        assert sum(marks.counts[:its]) <= at < sum(marks.counts[: its + 1])
        assert shown(marks, states).count(S.FATAL) == 1


def test_small_boxes_show_all_and_large_ones_share_what_is_left():
    sizes = [1, 60, 3600, 3600, 100_000]
    counts = Marks(np.repeat(np.arange(5), sizes), 5).counts
    assert counts[:2] == [1, 60]
    assert counts[2] == counts[3] == counts[4] == (MAX_MARKS - 61) // 3
    assert Marks(np.zeros(10_000, np.int64), 1).counts == [MAX_DRAWN]


def test_a_mark_shows_what_tells_most_and_who_has_it():
    marks = Marks(np.zeros(4, np.int64), 1, most=1)
    states = np.array([S.FINISHED, S.RUNNING, S.READY, S.FREED], np.uint8)
    found, workers = marks.shown(notable(states, np.array([0, 2, -1, 1], np.int16)))
    assert (found.tolist(), workers.tolist()) == ([S.RUNNING], [3])
    assert shown(marks, [S.FREED, S.FREED, S.FINISHED, S.FREED]) == [S.FINISHED]


def test_no_operands_no_marks():
    marks = Marks(np.zeros(0, np.int64), 3)
    assert marks.counts == [0, 0, 0]
    assert shown(marks, []) == []
