"""Arrays that a function gives box by box."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import same, shapes, splits


@given(shapes(), st.data())
def test_each_chunk_is_one_call(shape, data):
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 0.5
    x = mt.from_blocks(lambda box: a[box], shape, float, chunks=tuple(data.draw(splits(n)) for n in shape))
    same(x, a)
    same(x.sum(), a.sum())


def test_what_is_not_as_promised_is_an_error():
    with pytest.raises(ValueError, match="was promised"):
        mt.from_blocks(lambda box: np.zeros(1), (4,), float).fetch()
    with pytest.raises(ValueError, match="int64"):
        mt.from_blocks(lambda box: np.zeros(4, int), (4,), float).fetch()


def test_what_cannot_be_called_is_named():
    with pytest.raises(TypeError, match="from_blocks takes a function first; 3 cannot be called"):
        mt.from_blocks(3, (3,), "f8")
