"""Factorisations, inverses and solutions: what they promise, and NumPy's values where those are unique."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.ops import decompositions
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut, same
from tests.tensor.engine import tiled

DTYPES = ["f4", "f8", "c16", "i8"]


def values(shape, dtype, seed=0):
    draw = np.random.default_rng(seed)
    found = draw.normal(size=shape) * 3
    return (found + 1j * draw.normal(size=shape) if dtype == "c16" else found).astype(dtype)


@st.composite
def stacks(draw, square=False):
    """Stacks of well conditioned matrices, cut anyhow."""
    batch = draw(st.sampled_from([(), (3,), (2, 2)]))
    m = draw(st.integers(1, 5))
    n = m if square else draw(st.integers(1, 5))
    a = values((*batch, m, n), draw(st.sampled_from(DTYPES)), draw(st.integers(0, 5)))
    a = a + (16 * np.eye(m, n)).astype(a.dtype)
    return a, draw(cut(a))


def tolerance(dtype):
    return 2e-3 if np.dtype(dtype).char in "fF" else 1e-8


@given(stacks(square=True))
def test_one_result_for_each_square_matrix(pair):
    a, x = pair
    rtol = tolerance(np.linalg.inv(a).dtype)
    for name in ("inv", "det"):
        same(getattr(np.linalg, name)(x), getattr(np.linalg, name)(a), rtol=rtol)
    for ours, theirs in zip(np.linalg.slogdet(x), np.linalg.slogdet(a)):
        same(ours, theirs, rtol=rtol)
    power = np.linalg.matrix_power(x, 3)
    same(power, np.linalg.matrix_power(a, 3), rtol=rtol * 100)


@given(stacks(square=True))
def test_symmetric_matrices(pair):
    a, _ = pair
    s = a @ np.swapaxes(a, -1, -2).conj() + np.eye(a.shape[-1], dtype=a.dtype)
    x = mt.asarray(s, chunk_size=2)
    rtol = tolerance(np.linalg.inv(a).dtype)
    same(np.linalg.cholesky(x), np.linalg.cholesky(s), rtol=rtol * 10)
    same(np.linalg.eigvalsh(x), np.linalg.eigvalsh(s), rtol=rtol * 100)
    w, v = np.linalg.eigh(x)
    assert w.dtype == np.linalg.eigh(s).eigenvalues.dtype
    w, v = w.fetch(), v.fetch()
    np.testing.assert_allclose(s @ v, v * w[..., None, :], rtol=0, atol=rtol * 100 * abs(s).max())


@given(stacks(), st.booleans())
def test_qr_and_svd_of_stacks_and_of_tall_matrices(pair, full):
    a, x = pair
    rtol, kind = tolerance(np.linalg.pinv(a).dtype), np.linalg.pinv(a).dtype
    q, r = np.linalg.qr(x, mode="complete" if full else "reduced")
    expected = np.linalg.qr(a, mode="complete" if full else "reduced")
    assert (q.shape, r.shape, q.dtype, r.dtype) == (expected.Q.shape, expected.R.shape, kind, kind)
    np.testing.assert_allclose(q.fetch() @ r.fetch(), a, rtol=0, atol=rtol * 30)
    np.testing.assert_array_equal(np.tril(r.fetch(), -1), 0)
    same(np.abs(np.linalg.qr(x, mode="r")), np.abs(np.linalg.qr(a, mode="r")), rtol=rtol * 100)
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    theirs = np.linalg.svd(a, full_matrices=full)
    assert [part.shape for part in (u, s, vh)] == [part.shape for part in theirs]
    same(s, theirs.S, rtol=rtol * 30)
    same(np.linalg.svd(x, compute_uv=False), theirs.S, rtol=rtol * 30)
    k = s.shape[-1]
    back = (u.fetch()[..., :k] * s.fetch()[..., None, :]) @ vh.fetch()[..., :k, :]
    np.testing.assert_allclose(back, a, rtol=0, atol=rtol * 30)
    same(np.linalg.pinv(x), np.linalg.pinv(a), rtol=rtol * 100)


@given(st.data())
def test_a_pseudo_inverse_may_have_a_tolerance_for_each_matrix(data):
    a = np.random.default_rng(0).normal(size=(4, 3, 3, 5))
    x = data.draw(cut(a))
    least = np.random.default_rng(1).uniform(0, 0.9, data.draw(st.sampled_from([(4, 3), (3,), (4, 1), (1,), ()])))
    for one in (least, data.draw(cut(least))):
        same(np.linalg.pinv(x, one), np.linalg.pinv(a, least), rtol=1e-9)
        same(np.linalg.pinv(x, rtol=one), np.linalg.pinv(a, rtol=least), rtol=1e-9)
    assert np.linalg.pinv(x, least).chunks[:2] == x.chunks[:2]
    same(np.linalg.pinv(mt.zeros((0, 2, 2)), mt.zeros(0)), np.zeros((0, 2, 2)))
    with pytest.raises(ValueError, match="both"):
        np.linalg.pinv(x, least, rtol=0.1)


@given(st.integers(1, 4), st.lists(st.integers(1, 6), min_size=2, max_size=5))
def test_a_tall_matrix_is_never_in_one_chunk(n, rows):
    if sum(rows) < n:
        rows = [*rows, n]
    a = values((sum(rows), n), "f8")
    q, r = np.linalg.qr(mt.asarray(a, chunks=(tuple(rows), (n,))))
    assert q.chunks == (tuple(rows), (n,))
    np.testing.assert_allclose(q.fetch() @ r.fetch(), a, atol=1e-12)
    np.testing.assert_allclose(q.fetch().T @ q.fetch(), np.eye(n), atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_a_tall_block_is_decomposed_in_tiles_that_fit_the_cache(monkeypatch, dtype):
    monkeypatch.setattr(decompositions, "TILE_BYTES", 2**12)
    calls = []
    plain = np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda a: calls.append(a.shape) or plain(a))
    for rows in (4095, 4096, 4097):
        block, calls[:] = values((rows, 3), dtype), []
        out = np.full((rows + 3, 3), np.nan, dtype)
        decompositions._stacked_qr(out, block)
        q, r = out[:rows], out[rows:]
        atol = 300 * np.finfo(dtype).eps
        np.testing.assert_allclose(q @ r, block, rtol=0, atol=atol * abs(block).max())
        np.testing.assert_allclose(q.conj().T @ q, np.eye(3), rtol=0, atol=atol)
        np.testing.assert_array_equal(np.tril(r, -1), 0)
        assert all(math.prod(shape[-2:]) * block.itemsize <= 2 * 2**12 for shape in calls)
        assert sum(shape[0] * shape[1] for shape in calls if len(shape) == 3) > 0.5 * rows


@given(stacks(square=True), st.data())
def test_solutions(pair, data):
    a, x = pair
    batch = data.draw(st.sampled_from([(), a.shape[:-2]]))
    b = values((*batch, a.shape[-1], data.draw(st.integers(1, 4))), data.draw(st.sampled_from(DTYPES)), 1)
    rtol = tolerance(np.linalg.inv(a).dtype if b.dtype != np.float32 else b.dtype)
    same(np.linalg.solve(x, data.draw(cut(b))), np.linalg.solve(a, b), rtol=rtol * 10)
    if a.ndim == 2:
        same(np.linalg.solve(x, b[..., 0].reshape(-1)[: a.shape[0]]),
             np.linalg.solve(a, b[..., 0].reshape(-1)[: a.shape[0]]), rtol=rtol * 10)  # fmt: skip


@pytest.mark.parametrize("chunks", [-1, 7, (5, 2)])
def test_least_squares(chunks):
    a, b = values((30, 4), "f8"), values((30, 3), "f8", 1)
    for right in (b, b[:, 0]):
        theirs = np.linalg.lstsq(a, right)
        solution, residues, rank, s = np.linalg.lstsq(mt.asarray(a, chunk_size=chunks), right)
        same(solution, theirs[0], rtol=1e-10)
        np.testing.assert_allclose(np.atleast_1d(residues.fetch()), theirs[1], rtol=1e-10)
        assert rank == theirs[2]
        same(s, theirs[3], rtol=1e-10)


def test_what_cannot_be_is_said():
    with pytest.raises(np.linalg.LinAlgError, match="two-dimensional"):
        np.linalg.inv(mt.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        np.linalg.inv(mt.ones((3, 4)))
    with pytest.raises(ValueError, match="Unrecognized mode 'bad'"):
        np.linalg.qr(mt.ones((3, 4)), mode="bad")
    with pytest.raises(UnsupportedError, match="economic"):
        np.linalg.qr(mt.ones((3, 4)), mode="economic")
    with pytest.raises(ValueError, match="rows"):
        np.linalg.solve(mt.ones((3, 3)), mt.ones((4, 1)))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        np.linalg.inv(mt.zeros((3, 3))).fetch()


def test_the_vectors_of_a_tall_matrix_are_made_at_once():
    x = mt.ones((64, 3), chunk_size=(16, 3))
    u, _, _ = mt.linalg.svd(x, full_matrices=False)
    graph = tiled(TensorGraph.of([u.data]))
    shapes = [graph.programs[graph.program[i]].output.shape for i in range(graph.n)]
    assert shapes.count((16, 3)) == 4 + 4, "x and U: there is no Q beside them"


@pytest.mark.parametrize("kind", ["f8", "f4", "c16"])
@pytest.mark.parametrize("limits", [{}, {"rcond": 1e-3}, {"rtol": 1e-4}, {"rtol": None}])
def test_pseudo_inverse_of_a_tall_matrix_keeps_chunks(engine, kind, limits):
    a = np.random.default_rng(1).random((300, 7))
    a[:, 6] = a[:, 5]
    a = (a + 1j * a[::-1]).astype(kind) if kind == "c16" else a.astype(kind)
    found = np.linalg.pinv(mt.tensor(a, chunk_size=(20, 7)), **limits)
    assert len(found.chunks[1]) == 15
    rtol = 1e-3 if kind == "f4" else 1e-9
    np.testing.assert_allclose(found.fetch(), np.linalg.pinv(a, **limits), rtol=rtol, atol=rtol * 0.01)
