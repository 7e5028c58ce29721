"""Bits packed and unpacked chunk by chunk: NumPy's bytes for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut, same, shapes


@given(shapes(), st.data())
@pytest.mark.parametrize("order", ["big", "little"])
def test_bits_of_any_cut(order, shape, data):
    a = np.random.default_rng(0).integers(0, 255, shape).astype("u1")
    axis = data.draw(st.sampled_from([None, *range(a.ndim)]))
    same(np.packbits(data.draw(cut(a > 99)), axis, order), np.packbits(a > 99, axis, order))
    n = 8 * (a.size if axis is None else a.shape[axis])
    count = data.draw(st.sampled_from([None, 0, 5, -3, n, n + 9])) if n else None
    same(np.unpackbits(data.draw(cut(a)), axis, count, order), np.unpackbits(a, axis, count, order))


def test_long_lines_keep_chunks(engine):
    x = mt.zeros(1000, "u1", chunk_size=100)
    assert len(np.packbits(x).chunks[0]) == 11 and max(np.unpackbits(x).chunks[0]) <= 104
