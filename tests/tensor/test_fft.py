"""Transforms: NumPy's shapes, dtypes and values for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.ops.fft import FourierTransform, _largest_prime, _scratch
from tests.tensor.cut import cut, same, shapes
from tests.tensor.engine import OneByOne

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
MANY = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]
NORMS = [None, "backward", "ortho", "forward"]


def signal(shape, dtype):
    values = np.random.default_rng(3).normal(size=shape)
    return (values + 1j * values[..., ::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else values.astype(dtype)


@given(st.data())
def test_one_axis(data):
    name = data.draw(st.sampled_from(ONE))
    kinds = ["f4", "f8", "i4"] if name in ("rfft", "ihfft") else ["f4", "f8", "i4", "c8", "c16"]
    a = signal(data.draw(shapes(1, 3).filter(lambda s: min(s) > 1)), data.draw(st.sampled_from(kinds)))
    x = data.draw(cut(a))
    options = {
        "n": data.draw(st.none() | st.integers(1, 9)),
        "axis": data.draw(st.integers(-a.ndim, a.ndim - 1)),
        "norm": data.draw(st.sampled_from(NORMS)),
    }
    same(getattr(mt.fft, name)(x, **options), getattr(np.fft, name)(a, **options), rtol=1e-5)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16", "i2", "?"])
def test_lines_beyond_a_process_are_cut(name, dtype):
    if dtype == "c16" and name in ("rfft", "ihfft"):
        pytest.skip("of real values")
    a, before = signal((2, 361), dtype), current_engine()
    coarse = {"f2": 0.1, "f4": 1e-3}.get(dtype, 1e-8)
    set_engine(OneByOne(limit=8 * 800))
    try:
        for shape, axis, n, norm in [
            ((2, 361), 1, None, None),
            ((361, 2), 0, 350, "ortho"),
            ((722,), 0, 725, "forward"),
            ((722,), 0, 720, "backward"),
        ]:
            x = mt.tensor(a.reshape(shape), chunk_size=90)
            found = getattr(mt.fft, name)(x, n, axis, norm)
            assert max(found.chunks[axis]) <= 200 or dtype == "f2"  # whose lines are shorter
            wanted = getattr(np.fft, name)(a.reshape(shape), n, axis, norm)
            same(found, wanted, rtol=coarse / 10)
        prime = a.reshape(-1)[:719]
        same(
            getattr(mt.fft, name)(mt.tensor(prime, chunk_size=90), 719),
            getattr(np.fft, name)(prime, 719),
            rtol=coarse,
        )
    finally:
        set_engine(before)


def test_of_a_long_real_line_half_of_the_rows_are_transformed():
    before = current_engine()
    set_engine(OneByOne(limit=8 * 800))
    try:
        for name in ("rfft", "fft"):
            nodes = [getattr(mt.fft, name)(mt.ones(720, chunk_size=90)).data]
            found = {}
            while nodes:
                node = nodes.pop()
                nodes += node.op.inputs
                if isinstance(node.op, FourierTransform):
                    found[node.op.function] = node.shape
            assert found == {"rfft": (16, 24), "fft": (16, 24)}  # of 30 rows
    finally:
        set_engine(before)


@given(st.data())
def test_many_axes(data):
    name = data.draw(st.sampled_from(MANY))
    a = signal(data.draw(shapes(2, 3).filter(lambda s: min(s) > 1)), "f8" if name.startswith("rfft") else "c16")
    x = data.draw(cut(a))
    axes = data.draw(st.permutations(range(a.ndim)))[:2]
    s = data.draw(st.none() | st.tuples(st.integers(2, 8), st.integers(2, 8)))
    same(getattr(mt.fft, name)(x, s, axes), getattr(np.fft, name)(a, s, axes), rtol=1e-9)
    same(getattr(np.fft, name)(x), getattr(np.fft, name)(a), rtol=1e-9)


@given(st.integers(1, 12), st.sampled_from([1.0, 0.25, 3]))
def test_frequencies(n, d):
    same(mt.fft.fftfreq(n, d), np.fft.fftfreq(n, d))
    same(mt.fft.rfftfreq(n, d), np.fft.rfftfreq(n, d))


@given(st.data())
def test_shifts_keep_the_cut(data):
    a = signal(data.draw(shapes(1, 3)), "f8")
    x = data.draw(cut(a))
    axes = data.draw(st.none() | st.integers(0, a.ndim - 1) | st.just(tuple(range(a.ndim))))
    for ours, theirs in ((mt.fft.fftshift, np.fft.fftshift), (mt.fft.ifftshift, np.fft.ifftshift)):
        same(ours(x, axes), theirs(a, axes))
        assert ours(x, axes).chunks == x.chunks


def test_axes_that_are_not_transformed_keep_their_cut():
    x = mt.ones((6, 8, 4), chunk_size=(2, 3, 2))
    assert mt.fft.fft(x, axis=1).chunks == ((2, 2, 2), (8,), (2, 2))
    assert mt.fft.rfft(x, axis=1).chunks == ((2, 2, 2), (5,), (2, 2))


def test_what_cannot_be_is_said():
    x = mt.ones(4)
    with pytest.raises(ValueError, match="data points"):
        mt.fft.fft(x, n=0)
    with pytest.raises(ValueError, match="norm"):
        mt.fft.fft(x, norm="other")
    with pytest.raises(IndexError):
        mt.fft.fft(mt.asarray(1.0))
    with pytest.raises(AttributeError, match="nothing_such"):
        mt.fft.nothing_such


def test_an_operand_calls_transforms_of_numpy_alone():
    with pytest.raises(ValueError, match="has no transform '_pocketfft'"):
        FourierTransform("_pocketfft", 4, 0, None)


@pytest.mark.parametrize(
    ("n", "largest"), [(1, 1), (2, 2), (2**20, 2), (360, 5), (7 * 11 * 779_221, 779_221), (97, 97)]
)
def test_a_large_prime_factor_takes_more_scratch(n, largest):
    assert _largest_prime(n) == largest
    assert _scratch("fft", n, 16) == (9 if largest > 64 else 2) * 16 * n
