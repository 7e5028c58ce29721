"""Elements in C order in another shape, for any cut, with chunks that stay small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ops import shape as module
from tests.tensor.cut import cut, numbered, same


@st.composite
def factored(draw, size: int) -> tuple[int, ...]:
    """A shape of `size` elements."""
    shape = []
    while size > 1 and draw(st.booleans()):
        shape.append(draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])))
        size //= shape[-1]
    return (*shape, size)


@given(st.data())
def test_any_shape_to_any_shape(data):
    size = data.draw(st.sampled_from([1, 6, 24, 60, 210]))
    before, after = data.draw(factored(size)), data.draw(factored(size))
    array = numbered(before)
    x = data.draw(cut(array))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GROWN_ELEMENTS", data.draw(st.sampled_from([1, 10, 2**16])))
        same(x.reshape(after), array.reshape(after))
        same(x.reshape(*after, order="F"), array.reshape(*after, order="F"))
        same(np.ravel(x), array.ravel())
        same(x.flatten(), array.flatten())
        same(x.reshape(-1, after[-1]), array.reshape(-1, after[-1]))


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0, 2)])
def test_arrays_without_elements(shape):
    same(mt.zeros(shape).reshape(2, 0, 5), np.zeros((2, 0, 5)))
    same(mt.zeros((0, 5)).reshape(shape), np.zeros(shape))


def test_rows_that_are_whole_are_not_cut_anew():
    x = mt.ones((1000, 20), chunk_size=(100, 20))
    assert x.reshape(-1).chunks == ((2000,) * 10,)
    assert x.reshape(1000, 4, 5).chunks == ((100,) * 10, (4,), (5,))
    assert x.reshape(-1).reshape(1000, 20).chunks == x.chunks


def test_axes_beside_keep_their_cut():
    x = mt.ones((4, 6, 100), chunk_size=(4, 6, 10))
    assert x.reshape(24, 100).chunks == ((24,), (10,) * 10)


def test_chunks_stay_near_to_their_size(monkeypatch):
    monkeypatch.setattr(module, "GROWN_ELEMENTS", 1)
    x = mt.ones((1000, 1000), chunk_size=100)
    for shape in [(-1,), (10, -1), (500, 40, 50), (8, 125, 8, 125)]:
        assert max(math.prod(map(max, x.reshape(shape).chunks)), 1) <= 10_000
    y = mt.ones((60, 60, 60, 60), chunk_size=10)
    assert math.prod(map(max, y.reshape(3600, 3600).chunks)) <= 10_000


def test_chunk_size_says_how_the_result_is_cut():
    assert mt.reshape(mt.ones(12), (3, 4), chunk_size=2).chunks == ((2, 1), (2, 2))


@pytest.mark.parametrize("shape", [(5,), (-1, 5), (-1, -1), (4, -3, 2)])
def test_other_sizes_are_refused_as_numpy_does(shape):
    for array in (np.ones(12), mt.ones(12)):
        with pytest.raises(ValueError):
            array.reshape(shape)


def _layouts(np_):
    x = np_.arange(60).reshape(3, 4, 5)
    f = np_.copy(x.T, order="F")
    return [x, x.T, f, x.transpose(1, 0, 2), x[:, ::-1], x[::-1].T, x[:, :1], x.T[:, None], x[1:, 2:], x.T + 1,
            np_.broadcast_to(x[0], (2, 4, 5))]  # fmt: skip


@pytest.mark.parametrize("number", range(11))
def test_order_in_memory_is_followed(number):
    ours, theirs = _layouts(mt)[number], _layouts(np)[number]
    assert ours.flags.f_contiguous == theirs.flags.f_contiguous
    for order in "CFAK":
        same(ours.ravel(order), theirs.ravel(order))
        same(np.ravel(ours, order), np.ravel(theirs, order))
        same(ours.flatten(order), theirs.flatten(order))
        if order != "K":
            same(ours.reshape(-1, order=order), theirs.reshape(-1, order=order))
        assert np.shares_memory(ours.ravel(order), ours) == np.shares_memory(theirs.ravel(order), theirs)
