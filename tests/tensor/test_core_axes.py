"""`axes=`, `axis=` and `keepdims=` of products along axes, and `np.cross` of two components, are NumPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jmars.tensor as mt

A, B = np.random.default_rng(0).random((2, 3, 4)), np.arange(24.0).reshape(4, 3, 2)
V, U = np.arange(4.0), np.ones((5, 2))
W = np.arange(15.0).reshape(5, 3)
CALLS = {
    "matmul axes": lambda np, a: np.matmul(a(A), a(B), axes=[(1, 2), (0, 1), (0, 2)]),
    "matmul of a vector": lambda np, a: np.matmul(a(A), a(V), axes=[(-2, -1), 0, 0]),
    "matvec axes": lambda np, a: np.matvec(a(A), a(V), axes=[(-2, -1), -1, 0]),
    "vecmat axis": lambda np, a: np.vecmat(a(V), a(B), axis=0),
    "vecdot axis": lambda np, a: np.vecdot(a(A), a(A), axis=1),
    "vecdot keepdims": lambda np, a: np.vecdot(a(A), a(A), axis=1, keepdims=True),
    "vecdot axes": lambda np, a: np.vecdot(a(A), a(A), axes=[1, 1, ()]),
    "two axes of three": lambda np, a: np.vecdot(a(A), a(A), axes=[1, 1]),
    "axis out of bounds": lambda np, a: np.vecdot(a(A), a(A), axes=[1, 5]),
    "matmul axis": lambda np, a: np.matmul(a(A), a(V), axis=0),
    "matmul keepdims": lambda np, a: np.matmul(a(A), a(V), keepdims=True),
    "cross 2 2": lambda np, a: np.cross(a(U), a(U[::-1] * 2)),
    "cross 2 3": lambda np, a: np.cross(a(U), a(W)),
    "cross 3 2": lambda np, a: np.cross(a(W), a(U)),
    "cross axisa": lambda np, a: np.cross(a(W.T), a(W), axisa=0),
    "cross 1 3": lambda np, a: np.cross(a(W[:, :1]), a(W)),
    "cross of a number": lambda np, a: np.cross(a(V[1]), a(W)),
    "linalg.cross 2 3": lambda np, a: np.linalg.cross(a(U), a(W)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_calls_give_numpys_values_or_errors(engine, name):
    try:
        expected = CALLS[name](np, lambda x: x)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            CALLS[name](mt, lambda x: mt.asarray(x, chunk_size=2)).fetch()
    else:
        found = CALLS[name](mt, lambda x: mt.asarray(x, chunk_size=2)).fetch()
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected)


def test_cross_of_two_components_warns(engine):
    with warnings.catch_warnings(), pytest.warns(DeprecationWarning, match="2-dimensional"):
        mt.cross(mt.asarray(U), mt.asarray(U))
