"""Functions of lines, matrices and neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import ChunkSizeError
from tests.tensor.cut import cut, cut_arrays, same, shapes


@given(cut_arrays(low=1).filter(lambda pair: pair[0].size), st.data())
def test_along_an_axis(pair, data):
    a, x = pair
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    for function in (np.ptp, lambda v: v[::-1] * 2.5, lambda v: v[:1]):
        same(np.apply_along_axis(function, axis, x), np.apply_along_axis(function, axis, a))


@given(cut_arrays(low=1), st.data())
def test_over_axes(pair, data):
    a, x = pair
    axes = data.draw(st.lists(st.integers(0, a.ndim - 1), unique=True, max_size=2))
    same(np.apply_over_axes(np.sum, x, axes), np.apply_over_axes(np.sum, a, axes))


@given(st.data())
def test_functions_of_the_last_axes(data):
    batch = data.draw(shapes(0, 2, 4))
    a = np.random.default_rng(0).normal(size=(*batch, 3, 4))
    b = np.random.default_rng(1).normal(size=(*batch[len(batch) // 2 :], 4))
    x, y = data.draw(cut(a)), data.draw(cut(b))
    product = mt.apply_gufunc(lambda m, v: np.einsum("...ij,...j->...i", m, v), "(i,j),(j)->(i)", x, y)
    same(product, np.einsum("...ij,...j->...i", a, b), rtol=1e-12)
    same(mt.apply_gufunc(lambda m: m.sum((-2, -1)), "(i,j)->()", x), a.sum((-2, -1)), rtol=1e-12)
    each = np.vectorize(np.outer, otypes="d", signature="(i),(j)->(i,j)")
    if b.size:
        same(mt.apply_gufunc(np.outer, "(i),(j)->(i,j)", y, y, vectorize=True), each(b, b))
    doubled = mt.apply_gufunc(lambda v: np.concatenate([v, v], -1), "(i)->(k)", y, output_sizes={"k": 8})
    same(doubled, np.concatenate([b, b], -1))


@given(cut_arrays(), st.integers(-3, 3))
def test_functions_of_numbers(pair, n):
    a, x = pair

    def more(v, w):
        return v * 2 if v > w else w

    if a.size:
        same(mt.vectorize(more)(x, n), np.vectorize(more)(a, n))
    same(mt.vectorize(more, otypes=[float])(x, n), np.vectorize(more, otypes=[float])(a, n))


@given(st.data())
def test_neighbours(data):
    shape = data.draw(st.tuples(st.integers(4, 12), st.integers(4, 9)))
    a = np.random.default_rng(2).normal(size=shape)
    rows = data.draw(st.sampled_from([-1, 2, 3]))
    if rows > 0 and shape[0] % rows == 1:
        rows = -1
    x = mt.asarray(a, chunks=(rows, -1))
    boundary = data.draw(st.sampled_from(["reflect", "periodic", "nearest", 7.0]))

    def mean3(block):
        return (np.roll(block, 1, 0) + block + np.roll(block, -1, 0) + np.roll(block, 1, 1)) / 4

    mode = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}.get(boundary, "constant")
    wide = np.pad(a, 2, mode, **({"constant_values": boundary} if mode == "constant" else {}))
    same(mt.map_overlap(mean3, x, 2, boundary), mean3(wide)[2:-2, 2:-2], rtol=1e-12)
    ours = mt.map_overlap(mean3, x, {0: 1, 1: 1}, "none")
    np.testing.assert_allclose(ours.fetch()[1:-1, 1:-1], mean3(a)[1:-1, 1:-1])


def test_what_cannot_be_is_said():
    x = mt.ones((4, 4), chunk_size=1)
    with pytest.raises(ChunkSizeError, match="larger chunk_size"):
        mt.map_overlap(np.abs, x, 2)
    with pytest.raises(ValueError, match="boundary"):
        mt.map_overlap(np.abs, x, 1, "other")
    with pytest.raises(ValueError, match="signature"):
        mt.apply_gufunc(np.sum, "i->", x)
    with pytest.raises(ValueError, match="output_sizes"):
        mt.apply_gufunc(np.sum, "(i)->(k)", x)
    with pytest.raises(ValueError, match="promises"):
        mt.apply_gufunc(lambda v: v, "(i)->()", x).fetch()


@given(cut_arrays(low=1, high=2, longest=9).filter(lambda pair: min(pair[0].shape) > 1), st.data())
def test_windows(pair, data):
    a, x = pair
    axis = data.draw(st.integers(0, a.ndim - 1))
    size = data.draw(st.integers(1, a.shape[axis]))
    view = np.lib.stride_tricks.sliding_window_view
    same(view(x, size, axis), view(a, size, axis))
    if a.ndim == 2:
        same(view(x, (2, 2)), view(a, (2, 2)))
