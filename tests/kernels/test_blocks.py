"""Blocks cover a chunk without gaps, whatever is broadcast to it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.kernels.blocks import Blocks, scratch


def test_arrays_of_one_shape_become_one_axis():
    assert Blocks.of((4, 5, 6), [(4, 5, 6), ()]).shape == (120,)
    assert Blocks.of((4, 5, 6), [(4, 5, 6), (6,)]).shape == (20, 6)
    assert Blocks.of((4, 5, 6), [(4, 1, 1), (5, 6)]).shape == (4, 30)
    assert Blocks.of((1, 1), [(1, 1)]).shape == (1,)


def test_a_long_row_is_cut_and_short_rows_are_taken_together():
    rows = [(shape, index) for _, shape, index, _ in Blocks.of((3, 10), [(10,)]).cut(4)]
    assert [shape for shape, _ in rows[:3]] == [(4,), (4,), (2,)]
    assert rows[3][1] == (1, slice(0, 4))
    assert [shape for _, shape, _, _ in Blocks.of((5, 2), [(2,)]).cut(4)] == [(2, 2), (2, 2), (1, 2)]


def test_scratch_grows_by_a_few_bytes():
    for count in (8, 200, 201, 264, 1):
        assert scratch(99, (count,), np.dtype("u1")).shape == (count,)


@given(st.lists(st.integers(1, 5), max_size=4), st.data(), st.integers(1, 20))
def test_every_element_is_met_once_and_in_order(shape, data, block_size):
    operand = tuple(data.draw(st.sampled_from([1, n])) for n in shape)
    operand = operand[data.draw(st.integers(0, len(operand))) :]
    blocks = Blocks.of(tuple(shape), [operand])
    x = np.arange(np.prod(operand, dtype=int)).reshape(operand)
    out = np.full(tuple(shape), -1)
    met = 0
    for start, block, index, (at,) in blocks.cut(block_size):
        assert start == met and 0 < np.prod(block) <= block_size
        met += int(np.prod(block))
        out.reshape(blocks.shape)[index] = x.reshape(blocks.operands[0])[at]
    assert met == out.size
    np.testing.assert_array_equal(out, np.broadcast_to(x, tuple(shape)))
