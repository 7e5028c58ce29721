"""Norms, ranks and conditions: NumPy's values for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut, same


@st.composite
def stacks(draw, square=False):
    batch = draw(st.sampled_from([(), (2,)]))
    m = draw(st.integers(1, 4))
    n = m if square else draw(st.integers(1, 4))
    a = np.random.default_rng(draw(st.integers(0, 5))).normal(size=(*batch, m, n))
    if draw(st.booleans()):
        a = a + 0.5j * a[..., ::-1, :]
    return a, draw(cut(a))


@given(stacks(), st.booleans())
def test_norms(pair, keepdims):
    a, x = pair
    for kind in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        same(np.linalg.matrix_norm(x, ord=kind, keepdims=keepdims),
             np.linalg.matrix_norm(a, ord=kind, keepdims=keepdims), rtol=1e-10)  # fmt: skip
    for kind in (0, 1, 2, 3.5, np.inf, -np.inf):
        same(np.linalg.vector_norm(x, axis=-1, ord=kind, keepdims=keepdims),
             np.linalg.vector_norm(a, axis=-1, ord=kind, keepdims=keepdims), rtol=1e-10)  # fmt: skip
    same(np.linalg.vector_norm(x), np.linalg.vector_norm(a), rtol=1e-10)


@given(stacks(), st.booleans())
def test_a_norm_of_two_axes_is_that_of_matrices(pair, keepdims):
    a, x = pair
    for kind in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for axes in ((-2, -1), (-1, -2), *[(0, 2), (2, 0)][: 2 * (a.ndim == 3)]):
            same(np.linalg.norm(x, kind, axes, keepdims), np.linalg.norm(a, kind, axes, keepdims), rtol=1e-10)
    for kind in (None, 0, 1, 3.5, np.inf):
        same(np.linalg.norm(x, kind, 0, keepdims), np.linalg.norm(a, kind, 0, keepdims), rtol=1e-10)
    same(np.linalg.norm(x, keepdims=keepdims), np.linalg.norm(a, keepdims=keepdims), rtol=1e-10)


@given(stacks(square=True))
def test_ranks_and_conditions(pair):
    a, x = pair
    same(np.linalg.matrix_rank(x), np.linalg.matrix_rank(a))
    same(np.linalg.matrix_rank(x, tol=1.0), np.linalg.matrix_rank(a, tol=1.0))
    for p in (None, 1, "fro", -2):
        same(np.linalg.cond(x, p), np.linalg.cond(a, p), rtol=1e-6)


@given(st.lists(st.integers(1, 5), min_size=4, max_size=6), st.data())
def test_a_product_of_many_matrices(sizes, data):
    arrays = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(zip(sizes, sizes[1:]))]
    tensors = [data.draw(cut(a)) for a in arrays]
    same(np.linalg.multi_dot(tensors), np.linalg.multi_dot(arrays), rtol=1e-9)
    arrays[0], tensors[0] = arrays[0][0], tensors[0][0]
    same(np.linalg.multi_dot(tensors), np.linalg.multi_dot(arrays), rtol=1e-9)


def test_matrices_times_vectors_and_eigenvalues():
    m, v = np.random.default_rng(0).normal(size=(3, 4, 4)), np.arange(12.0).reshape(3, 4) * (1 + 1j)
    x, y = mt.asarray(m, chunk_size=2), mt.asarray(v, chunk_size=2)
    same(mt.matvec(x, y), np.matvec(m, v), rtol=1e-12)
    same(mt.vecmat(y, x), np.vecmat(v, m), rtol=1e-12)
    same(np.linalg.eigvals(x[0]), np.linalg.eigvals(m[0]))
    w, u = np.linalg.eig(x[0])
    np.testing.assert_allclose(m[0] @ u.fetch(), u.fetch() * w.fetch())


def test_what_cannot_be_is_said():
    with pytest.raises(ValueError, match="norm order"):
        np.linalg.matrix_norm(mt.ones((2, 2)), ord=7)
    with pytest.raises(ValueError, match="'fro' for vectors"):
        np.linalg.norm(mt.ones(3), "fro")
    with pytest.raises(ValueError, match="number of dimensions"):
        np.linalg.norm(mt.ones((2, 2, 2)), 2)
    with pytest.raises(ValueError, match="two arrays"):
        np.linalg.multi_dot([mt.ones((2, 2))])
