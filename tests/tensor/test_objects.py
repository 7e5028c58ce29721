"""Arrays of Python objects are NumPy's own, in this process."""

from __future__ import annotations

import datetime
import decimal
import warnings
from fractions import Fraction

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import ObjectArrayError
from jmars.tensor.engine import with_placeholders

HALVES = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]


@pytest.mark.parametrize(
    "make",
    [
        lambda np_: np_.array([{}, None, "x"], dtype=object),
        lambda np_: np_.array(HALVES),
        lambda np_: np_.array([decimal.Decimal("1.1")]),
        lambda np_: np_.array([2**70, 1]),
        lambda np_: np_.array([[1, 2], [3]], dtype=object),
        lambda np_: np_.array([datetime.date(2020, 1, 1)]),
        lambda np_: np_.empty(3, object),
        lambda np_: np_.zeros((2, 2), dtype=object),
        lambda np_: np_.ones(2, "O"),
        lambda np_: np_.full(3, None),
        lambda np_: np_.asarray([(1, None)], "i4, O"),
        lambda np_: np_.array(["a", "bb"], dtype=np.dtypes.StringDType()),
        lambda np_: np_.arange(3).astype(object),
        lambda np_: np_.array(["2020-01-01"], "M8[D]").astype(object),
        lambda np_: np_.full_like(np_.arange(2), "x", dtype=object),
        lambda np_: np_.where([True, False], np_.arange(2), None),
        lambda np_: np_.concatenate([np_.arange(2), np_.array([None])]),
    ],
)
def test_an_array_of_objects_is_numpys(make):
    found, expected = make(mt), make(np)
    assert type(found) is np.ndarray and found.dtype == expected.dtype and found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "use",
    [
        lambda np_, a: np_.sum(a),
        lambda np_, a: np_.add.reduce(a),
        lambda np_, a: np_.add.outer(a, a),
        lambda np_, a: np_.multiply.accumulate(a),
        lambda np_, a: np_.dot(a, a),
        lambda np_, a: np_.cumsum(a),
        lambda np_, a: np_.sort(a),
        lambda np_, a: np_.argsort(a),
        lambda np_, a: np_.max(a),
        lambda np_, a: np_.mean(a),
        lambda np_, a: np_.unique(a),
        lambda np_, a: np_.isin(a, a[:1]),
        lambda np_, a: np_.stack([a, a]),
        lambda np_, a: np_.where(np_.arange(3) > 0, a, 0),
        lambda np_, a: a * np_.arange(3),
        lambda np_, a: np_.arange(3) * a,
        lambda np_, a: np_.arange(3) + Fraction(1, 2),
        lambda np_, a: Fraction(1, 2) - np_.arange(3),
        lambda np_, a: np_.arange(3) > Fraction(1, 2),
        lambda np_, a: np_.take(a, np_.arange(2)),
        lambda np_, a: a[np_.arange(3) > 0],
        lambda np_, a: np_.array2string(a),
        lambda np_, a: np_.array_equal(a, a),
        lambda np_, a: np_.vectorize(lambda v: {"a": v})(np_.arange(2)),
        lambda np_, a: np_.vectorize(lambda v: [v], otypes=[object])(np_.arange(2)),
        lambda np_, a: np_.ma.array([1, None], mask=[0, 1], dtype=object),
    ],
)
def test_functions_of_objects_give_what_numpy_gives(use):
    found, expected = use(mt, np.array(HALVES)), use(np, np.array(HALVES))
    assert np.asarray(found).tolist() == np.asarray(expected).tolist()
    assert np.asarray(found).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("kind", ["f8", "?", "M8[s]", "U2"])
def test_no_element_is_none(kind):
    x = mt.asarray(np.zeros(3, kind), chunk_size=2)
    assert isinstance(x == None, mt.Tensor)  # noqa: E711
    assert (x == None).tolist() == [False] * 3 and (x != None).tolist() == [True] * 3  # noqa: E711


def test_errors_of_objects_are_numpys():
    for call in (lambda np_: np_.sqrt(None), lambda np_: np_.sort(["a", None]), lambda np_: np_.sum([1, None])):
        with pytest.raises(TypeError) as expected:
            call(np)
        with pytest.raises(type(expected.value)) as found:
            call(mt)
        assert str(found.value) == str(expected.value)


def test_objects_are_not_written_into_a_copy_of_a_tensor():
    x = mt.zeros(3)
    for write in (lambda: np.add(np.array(HALVES), 1, out=x), lambda: mt.copyto(x, np.array([None] * 3)),
                  lambda: mt.add(np.array(HALVES), 1, x)):  # fmt: skip
        with pytest.raises((ObjectArrayError, TypeError)):
            write()
    assert x.tolist() == [0, 0, 0]


def test_a_large_tensor_beside_objects_is_told():
    with config.using(array_warning=100), pytest.warns(UserWarning, match="takes a tensor of shape"):
        mt.ones(100) + np.array([Fraction(1, 2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.ones(100) + np.array([Fraction(1, 2)])


def test_where_no_value_can_be_computed_objects_are_refused():
    with with_placeholders(), pytest.raises(ObjectArrayError, match="cannot be distributed"):
        mt.array([None])
    with pytest.raises(ObjectArrayError):
        mt.rechunk([None], 1)
    for chunks in ({"chunks": 1}, {"chunk_size": 1}):
        with pytest.raises(ObjectArrayError, match="cannot be distributed"):
            mt.asarray(np.array([None, "a"]), **chunks)
