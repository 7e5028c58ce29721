"""`np.poly1d` and `np.polynomial.Polynomial` of tensors: NumPy's classes, lazy where a tensor is put in."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ops.signal import poly1d
from jmars.tensor.polynomial import Polynomial
from tests.tensor.cut import cut, same

POINTS = np.linspace(-3.0, 5.0, 40)
VALUES = 2 * POINTS**3 - POINTS + np.sin(9 * POINTS)


def test_poly1d_is_numpys_with_the_values_of_a_tensor():
    p = poly1d(mt.asarray([1.0, -6, 11, -6]))
    assert type(p) is np.poly1d and isinstance(p, poly1d)
    assert (p, str(p)) == (np.poly1d([1.0, -6, 11, -6]), str(np.poly1d([1.0, -6, 11, -6])))
    assert poly1d(mt.asarray([1, 2]), True, "t") == np.poly1d([1, 2], True, "t")
    assert np.allclose(np.sort(p.roots), [1, 2, 3])


def test_a_class_of_the_user_may_inherit_from_poly1d():
    class Mine(poly1d):
        pass

    assert Mine([1, 2])(3) == 5 and not isinstance(np.poly1d([1]), Mine)


@given(st.data())
def test_values_at_a_tensor_are_lazy(data):
    x = data.draw(cut(POINTS))
    for ours, theirs in ((poly1d([1, 2, 3]), np.poly1d([1, 2, 3])),
                         (Polynomial([1, 2, 3], [0, 2]), np.polynomial.Polynomial([1, 2, 3], [0, 2]))):  # fmt: skip
        assert isinstance(ours(x), mt.Tensor)
        same(ours(x), theirs(POINTS), rtol=1e-12)
        assert np.array_equal(ours(POINTS), theirs(POINTS))


@given(st.data())
def test_fits(data):
    x, y = data.draw(cut(POINTS)), data.draw(cut(VALUES))
    for more in ({}, {"domain": [0, 1]}, {"domain": []}, {"window": [0, 2], "w": POINTS + 4, "symbol": "t"}):
        ours = Polynomial.fit(x, y, 3, **more)
        theirs = np.polynomial.Polynomial.fit(POINTS, VALUES, 3, **more)
        assert np.allclose(ours.coef, theirs.coef, rtol=1e-8)
        assert (ours.domain == theirs.domain).all() and (ours.window == theirs.window).all()
        assert ours.symbol == theirs.symbol
        assert np.allclose(ours.deriv().convert().coef, theirs.deriv().convert().coef, rtol=1e-7)
    assert repr(Polynomial.fit(POINTS, VALUES, 1)) == repr(np.polynomial.Polynomial.fit(POINTS, VALUES, 1))


def test_a_fit_at_a_single_point_has_numpys_domain():
    ours, theirs = Polynomial.fit(mt.ones(3), [1, 2, 3], 0), np.polynomial.Polynomial.fit(np.ones(3), [1, 2, 3], 0)
    assert ours.domain.tolist() == theirs.domain.tolist() == [0, 2]
    assert np.allclose(ours.coef, theirs.coef)


def test_polynomials_go_with_numpys():
    ours, theirs = Polynomial(mt.asarray([1, 2])), np.polynomial.Polynomial([3, 4])
    assert (ours + theirs).coef.tolist() == (theirs + ours).coef.tolist() == [4, 6]
    assert isinstance(theirs, Polynomial) and isinstance(ours, np.polynomial.Polynomial)
    assert pickle.loads(pickle.dumps(ours)) == ours
    assert str(ours) == str(np.polynomial.Polynomial([1, 2]))


def test_fits_of_several_degrees_and_with_their_diagnostics_are_numpys():
    for more in ({"deg": [0, 2]}, {"deg": 1, "full": True}):
        ours = Polynomial.fit(mt.asarray(POINTS), VALUES, **more)
        theirs = np.polynomial.Polynomial.fit(POINTS, VALUES, **more)
        assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", ["Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"])
def test_other_series(name):
    ours, theirs = getattr(mt.polynomial, name), getattr(np.polynomial, name)
    series, expected = ours(mt.asarray([1.0, 2, 3]), [0, 2]), theirs([1.0, 2, 3], [0, 2])
    assert series == expected and isinstance(expected, ours) and not isinstance(expected, Polynomial)
    x = mt.asarray(POINTS, chunk_size=7)
    assert isinstance(series(x), mt.Tensor)
    same(series(x), expected(POINTS), rtol=1e-12)
    fitted = ours.fit(x, VALUES, 3)
    assert fitted == theirs.fit(POINTS, VALUES, 3)
    assert pickle.loads(pickle.dumps(series)) == expected


@pytest.mark.parametrize(
    "name", ["polynomial.polyval", "chebyshev.chebval", "legendre.legval", "hermite.hermval", "hermite_e.hermeval",
             "laguerre.lagval"]
)  # fmt: skip
def test_series_are_evaluated_lazily_at_a_tensor(name, engine):
    module, name = name.split(".")
    ours, theirs = (getattr(getattr(np_.polynomial, module), name) for np_ in (mt, np))
    x = mt.asarray(POINTS.reshape(8, 5), chunk_size=3)
    c = np.arange(6.0).reshape(3, 2)
    for coefficients in ([1, 2, 3], [2.5], 4, c):
        found = ours(x, coefficients)
        assert isinstance(found, mt.Tensor)
        same(found, theirs(POINTS.reshape(8, 5), coefficients), rtol=1e-12)
    same(ours(x[0, :2], c, tensor=False), theirs(POINTS[:2], c, tensor=False), rtol=1e-12)
    assert ours(2.0, mt.asarray([1, 2])) == theirs(2.0, [1, 2])
