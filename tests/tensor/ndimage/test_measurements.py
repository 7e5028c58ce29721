"""Measurements of labelled elements over chunks are SciPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.numpy_modules import as_values
from tests.tensor.cut import cut, shapes

ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed (extra jmars[scipy])")

NAMES = ["sum_labels", "sum", "mean", "variance", "standard_deviation", "minimum", "maximum", "minimum_position",
         "maximum_position", "extrema", "center_of_mass", "histogram"]  # fmt: skip


@st.composite
def labelled(draw):
    shape = tuple(max(n, 1) for n in draw(shapes(1, 3, 9)))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    a = rng.permutation(np.prod(shape)).reshape(shape).astype(draw(st.sampled_from(["f8", "f4", "i4", "i8", "u2"])))
    labels = rng.integers(draw(st.integers(-2, 0)), draw(st.integers(2, 9)), shape)
    labels = labels.astype(draw(st.sampled_from(["i4", "i8", "f8", "i1"])))
    return a, labels, draw(cut(a)), draw(cut(labels))


@given(st.data())
def test_measurements_are_scipys(data):
    a, labels, x, y = data.draw(labelled())
    name = data.draw(st.sampled_from(NAMES))
    more = (0, 60, 5) if name == "histogram" else ()
    index = data.draw(
        st.sampled_from([None, 1, [2], [3, 1], [1, 1, 40], [[1, 2], [3, 4]], np.arange(1, 4), np.arange(999)])
    )
    if name in ("center_of_mass", "histogram") and np.ndim(index) > 1:
        index = [1, 2]
    if data.draw(st.booleans()):
        labels = y = index = None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        given = (a, *more) if labels is None else (a, *more, labels, index)
        try:
            theirs = getattr(ndimage, name)(*given)
        except ValueError as error:  # of no elements
            with pytest.raises(ValueError, match=str(error)):
                as_values(getattr(mt.ndimage, name)(x, y, index))
            return
        ours = as_values(getattr(mt.ndimage, name)(*((x, *more) if y is None else (x, *more, y, index))))
    check(ours, theirs, 1e-5 if a.dtype == "f4" else 1e-12)


def check(ours, theirs, rtol):
    if isinstance(theirs, tuple | list):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            check(one, other, rtol)
    elif isinstance(theirs, np.ndarray) and theirs.dtype == object:
        assert ours.shape == theirs.shape
        for one, other in zip(ours.flat, theirs.flat):
            check(one, other, rtol)
    elif theirs is None:
        assert ours is None
    else:
        assert np.shape(ours) == np.shape(theirs) and np.asarray(ours).dtype == np.asarray(theirs).dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol)


@given(st.data())
def test_boxes_are_scipys(data):
    shape = data.draw(shapes(1, 3, 9))
    a = np.random.default_rng(data.draw(st.integers(0, 2**16))).integers(-1, data.draw(st.integers(1, 9)), shape)
    most = data.draw(st.integers(0, 9)) if a.size else 3
    assert mt.ndimage.find_objects(data.draw(cut(a)), most) == ndimage.find_objects(a, most)


def test_nan_is_the_greatest_as_where_scipy_sorts():
    a, labels = np.array([1.0, np.nan, 0.5, np.nan, 3.0, 2.0]), np.array([1, 1, 1, 2, 3, 3])
    x = mt.asarray(a, chunk_size=2)
    for name in ("minimum", "maximum"):
        theirs = getattr(ndimage, name)(a, labels, [1, 2, 3])
        np.testing.assert_array_equal(getattr(mt.ndimage, name)(x, labels, [1, 2, 3]).fetch(), theirs)


@pytest.mark.parametrize("index", [None, 1])
@pytest.mark.parametrize("value", [np.nan, 0.5, np.inf])
def test_nan_is_the_extreme_of_one_group(index, value):
    a, labels = np.array([1.0, 3.0, value, 2.0, 5.0, np.inf]), np.array([1, 1, 1, 1, 1, 1])
    for length in (1, 2, 6):
        x = mt.asarray(a, chunk_size=length)
        for name in ("minimum", "maximum"):
            for more in ((), (labels, index)):
                theirs = getattr(ndimage, name)(a, *more)
                np.testing.assert_array_equal(getattr(mt.ndimage, name)(x, *more).fetch(), theirs)
    assert mt.ndimage.minimum_position(x, labels, index) == (0 if np.isinf(value) else 2,)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of SciPy
@pytest.mark.parametrize("name", [name for name in NAMES if name != "histogram"])
def test_no_labels_give_no_measurements(name):
    a, labels = np.arange(6.0).reshape(2, 3), np.ones((2, 3), int)
    theirs = getattr(ndimage, name)(a, labels, [])
    ours = as_values(getattr(mt.ndimage, name)(mt.asarray(a, chunk_size=2), labels, []))
    assert repr(ours) == repr(theirs)


def test_the_first_of_equal_elements_tells_the_place():
    x = mt.asarray(np.zeros((5, 5)), chunk_size=2)
    assert mt.ndimage.minimum_position(x) == (0, 0)
    assert mt.ndimage.maximum_position(x, mt.asarray(np.eye(5, dtype=int)), [1]) == [(0, 0)]
