"""Loops over all elements give what NumPy's give, and fetch them in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ops import nditer
from tests.tensor.cut import cut, shapes


@given(shapes(0, 3), st.sampled_from([1, 50, 10**6]), st.data())
def test_each_element_with_its_place(shape, piece, data):
    a = (
        np.random.default_rng(0)
        .integers(-9, 9, size=shape)
        .astype(data.draw(st.sampled_from(["i2", "f8", "c16", "?"])))
    )
    x = data.draw(cut(a))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nditer, "PIECE", piece)
        found = list(mt.ndenumerate(x))
    assert found == list(np.ndenumerate(a))
    assert [type(value) for _, value in found] == [type(value) for _, value in np.ndenumerate(a)]


def test_nothing_is_computed_before_the_first_is_asked_for(engine):
    x = mt.ones((3, 4), chunk_size=2)
    walk = mt.ndenumerate(x)
    assert engine.chunks == {}
    assert next(walk) == ((0, 0), 1.0)
    x += 1  # a piece that is there is no view of x
    assert next(walk) == ((0, 1), 1.0)


def test_of_unknown_length():
    x = mt.arange(6, chunk_size=4)
    assert list(mt.ndenumerate(x[x > 3])) == [((0,), 4), ((1,), 5)]
