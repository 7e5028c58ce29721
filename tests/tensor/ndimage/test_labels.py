"""`label` numbers components over chunks as SciPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut, same, shapes

ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed (extra jmars[scipy])")


@given(st.data())
def test_components_have_scipys_numbers(data):
    shape = data.draw(shapes(1, 3, 12))
    a = np.random.default_rng(data.draw(st.integers(0, 2**16))).random(shape) < data.draw(st.floats(0.2, 0.8))
    x = data.draw(cut(a))
    structure = data.draw(
        st.sampled_from([None, *(ndimage.generate_binary_structure(a.ndim, k) for k in (0, 1, 2, 3))])
    )
    output = data.draw(st.sampled_from([None, None, "i8", "f4"]))
    theirs, count = ndimage.label(a, structure, output)
    numbers, found = mt.ndimage.label(x, structure, output)
    same(numbers, theirs)
    assert int(found) == count


@given(st.data())
def test_any_symmetric_structure(data):
    a = np.random.default_rng(data.draw(st.integers(0, 2**16))).random((9, 11)) < 0.4
    near = np.array(data.draw(st.lists(st.booleans(), min_size=9, max_size=9))).reshape(3, 3)
    near |= near[::-1, ::-1]
    theirs, count = ndimage.label(a, near)
    numbers, found = mt.ndimage.label(data.draw(cut(a)), near)
    same(numbers, theirs)
    assert int(found) == count


def test_a_snake_through_all_chunks_is_one():
    a = np.zeros((40, 40), bool)
    a[::4] = True
    a[2::4, ::39] = a[1::8, -1] = a[3::8, -1] = a[5::8, 0] = a[7::8, 0] = True
    same(mt.ndimage.label(mt.asarray(a, chunk_size=7))[0], ndimage.label(a)[0])


def test_outputs_are_written_and_refused_where_too_narrow():
    a = np.arange(600) % 2
    x, out = mt.asarray(a, chunk_size=100), mt.zeros(600, dtype="i8")
    assert int(mt.ndimage.label(x, output=out)) == 300
    same(out, ndimage.label(a, output="i8")[0])
    with pytest.raises(RuntimeError, match="insufficient bit-depth"):
        mt.ndimage.label(x, output="u1")[0].fetch()
    with pytest.raises(ValueError, match="output shape"):
        mt.ndimage.label(x, output=mt.zeros(3))
    with pytest.raises(RuntimeError, match="equal rank"):
        mt.ndimage.label(x, np.ones((3, 3)))


def test_a_selection_of_nothing_has_no_components():
    x = mt.arange(100.0, chunk_size=10)
    none, count = mt.ndimage.label(x[x > 200])
    assert none.fetch().tolist() == [] and none.dtype == np.int32 and int(count) == 0
    with pytest.raises(ValueError, match="zero-size array to reduction operation minimum which has no identity"):
        mt.ndimage.minimum(x[x > 200]).fetch()
