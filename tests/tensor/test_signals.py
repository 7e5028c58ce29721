"""Signals: NumPy's values for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.kernels.program import Call
from jmars.optimize import compile_graph
from jmars.tensor.ops.blockwise import call_block
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut, same

DTYPES = ["f8", "f4", "i4", "c16"]


@st.composite
def lines(draw, low=1, high=14, dtypes=DTYPES):
    a = np.random.default_rng(draw(st.integers(0, 9))).integers(-4, 5, draw(st.integers(low, high)))
    a = a.astype(draw(st.sampled_from(dtypes)))
    a = a * np.array(1 + 0.5j, a.dtype) if a.dtype.kind == "c" else a
    return a, draw(cut(a))


@given(lines(), lines(), st.sampled_from(["full", "same", "valid"]))
def test_convolution(one, other, mode):
    (a, x), (b, y) = one, other
    same(np.convolve(x, y, mode), np.convolve(a, b, mode), rtol=1e-6)
    same(np.convolve(x, b, mode), np.convolve(a, b, mode), rtol=1e-6)
    same(np.correlate(x, y, mode), np.correlate(a, b, mode), rtol=1e-6)


@given(lines(dtypes=["f8", "i4"]), st.sampled_from([{}, {"left": -9, "right": 9}, {"period": 3}]))
def test_interpolation(pair, options):
    a, x = pair
    xp, fp = np.array([-2.0, 0.5, 3.0]), np.array([1.0, -1.0, 4.0])
    same(np.interp(x, xp, fp, **options), np.interp(a, xp, fp, **options))
    same(np.interp(x, xp, fp + 1j, **options), np.interp(a, xp, fp + 1j, **options))


def interp_scratch(x, xp, fp):
    """Bytes that a call of `np.interp` on a chunk of `x` allocates."""
    graph = compile_graph(TensorGraph.of([np.interp(x, xp, fp).data]), {}).after
    steps = [step for program in graph.programs for step in program.steps if isinstance(step, Call)]
    return max(step.work for step in steps if step.function is call_block)


@pytest.mark.parametrize("kind", ["f8", "f4", "i4"])
def test_interpolation_between_many_points_counts_no_copies_of_them(kind):
    xp, fp = (mt.ones(10_000, dtype=kind, chunk_size=1_000) for _ in range(2))
    assert interp_scratch(mt.zeros(1_000, dtype=kind, chunk_size=500), xp, fp) == 500 * 8


def test_interpolation_at_more_places_than_points_counts_the_slopes():
    xp, fp = (mt.ones(500, chunk_size=100) for _ in range(2))
    assert interp_scratch(mt.zeros(1_000), xp, fp) == (1_000 + 500) * 8


@pytest.mark.parametrize("kinds", ["fff", "iii", "dfi", "fdF", "idD"])
@pytest.mark.parametrize("period", [None, 3])
def test_interpolation_of_other_dtypes_along_cut_points(engine, kinds, period):
    x, xp, fp = (np.arange(n).astype(kind) for n, kind in zip((9, 5, 5), kinds, strict=True))
    ours = np.interp(*(mt.asarray(one, chunk_size=2) for one in (x, xp, fp)), period=period)
    theirs = np.interp(x, xp, fp, period=period)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours.fetch(), theirs)


@given(st.data())
def test_slopes_and_areas(data):
    shape = data.draw(st.tuples(st.integers(3, 7), st.integers(3, 7)))
    a = np.random.default_rng(0).normal(size=shape)
    x = data.draw(cut(a))
    order = data.draw(st.sampled_from([1, 2]))
    points = np.cumsum(np.random.default_rng(1).uniform(0.5, 2, shape[1]))
    for options in ((), (0.5,), (2.0, 3.0)):
        for ours, theirs in zip(np.gradient(x, *options, edge_order=order), np.gradient(a, *options, edge_order=order)):
            same(ours, theirs, rtol=1e-12)
    same(np.gradient(x, points, axis=1, edge_order=order), np.gradient(a, points, axis=1, edge_order=order), rtol=1e-12)
    assert np.gradient(x, axis=0).chunks == x.chunks
    same(np.trapezoid(x, dx=0.5, axis=0), np.trapezoid(a, dx=0.5, axis=0), rtol=1e-12)
    same(np.trapezoid(x, points), np.trapezoid(a, points), rtol=1e-12)


@given(st.data())
def test_phases(data):
    a = np.random.default_rng(data.draw(st.integers(0, 5))).uniform(-9, 9, (3, 6))
    x = data.draw(cut(a))
    for axis in (0, 1):
        same(np.unwrap(x, axis=axis), np.unwrap(a, axis=axis), rtol=1e-12)
    whole = (a * 3).astype(int)
    same(np.unwrap(data.draw(cut(whole)), period=7), np.unwrap(whole, period=7))


@given(st.integers(0, 9))
def test_windows(n):
    for name in ("hanning", "hamming", "blackman", "bartlett"):
        same(getattr(mt, name)(n), getattr(np, name)(n), rtol=1e-12)
    same(mt.kaiser(n, 5.0), np.kaiser(n, 5.0), rtol=1e-12)


@given(lines(dtypes=["f8", "f4", "i4"]))
def test_functions(pair):
    a, x = pair
    same(np.sinc(x), np.sinc(a), rtol=1e-6)
    same(np.i0(x), np.i0(a), rtol=1e-6)


@given(st.data())
def test_what_varies_together(data):
    a = np.random.default_rng(3).normal(size=(data.draw(st.integers(1, 4)), 6))
    x = data.draw(cut(a))
    for options in ({}, {"rowvar": len(a) < 2}, {"bias": True}, {"ddof": 0}):
        same(np.cov(x, **options), np.cov(a, **options), rtol=1e-10)
    same(np.cov(x, x * 2), np.cov(a, a * 2), rtol=1e-10)
    same(np.corrcoef(x), np.corrcoef(a), rtol=1e-10)


@given(st.data())
def test_vector_products(data):
    a, b = np.random.default_rng(3).normal(size=(2, 4, 3))
    x, y = data.draw(cut(a)), data.draw(cut(b))
    same(np.cross(x, y), np.cross(a, b), rtol=1e-12)
    same(np.cross(x.T, y, axisa=0, axisc=0), np.cross(a.T, b, axisa=0, axisc=0), rtol=1e-12)


def test_what_cannot_be_is_said():
    x = mt.ones(3)
    with pytest.raises(ValueError, match="empty"):
        np.convolve(x, [])
    with pytest.raises(ValueError, match="mode"):
        np.convolve(x, x, "other")
    with pytest.raises(ValueError, match="too small"):
        np.gradient(mt.ones(1))
    with pytest.raises(TypeError, match="integer"):
        np.cov(x, fweights=[1, 2.5, 3])
    with pytest.raises(RuntimeError, match="numbers of samples"):
        np.cov(x, aweights=[1, 2])
