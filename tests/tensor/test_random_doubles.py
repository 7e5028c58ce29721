"""Doubles at their place in the sequence: C and NumPy write the same bits, whatever is asked for first."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.kernels.program import ChunkType
from jmars.native import backend, forced
from jmars.tensor.ops.random_streams import Stream, open_doubles

pytestmark = pytest.mark.skipif(backend() != "c", reason="there is no compiled library")


@st.composite
def boxes(draw):
    """(whole, corner, shape) of a box of an array of one to four axes."""
    whole = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=4)))
    corner = tuple(draw(st.integers(0, n - 1)) for n in whole)
    return whole, corner, tuple(draw(st.integers(1, n - c)) for n, c in zip(whole, corner))


@given(box=boxes(), seed=st.integers(0, 2**64), cuts=st.lists(st.floats(0, 1), max_size=3), scaled=st.booleans())
def test_c_writes_what_numpy_draws(box, seed, cuts, scaled):
    whole, corner, shape = box
    place = tuple(slice(c, c + n) for c, n in zip(corner, shape))
    expected = np.random.default_rng(seed).random(whole)[place].ravel()
    expected = expected * 3.7 + -1.3 if scaled else expected
    stream = Stream.of(np.random.default_rng(seed))
    ends = sorted({0, expected.size, *(int(cut * expected.size) for cut in cuts)})
    for name in ("c", "python"):
        with forced(name):
            fill = open_doubles(
                ((-1.3, 3.7) if scaled else None, whole), (stream, corner), ChunkType(shape, np.dtype("f8"))
            )
            out = np.full(expected.size, np.nan)
            for low, high in zip(ends, ends[1:]):
                fill(out[low:high], low)
        assert out.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("begin", [2**40 + 3, 2**62])
def test_numbers_far_down_the_sequence(begin):
    stream = Stream.of(np.random.default_rng(5))
    bits = np.random.PCG64(5).advance(begin)
    out = np.empty(1001)
    with forced("c"):
        open_doubles((None, (2**63 - 1,)), (stream, (begin,)), ChunkType((1001,), np.dtype("f8")))(out, 0)
    assert out.tobytes() == np.random.Generator(bits).random(1001).tobytes()


def test_a_number_alone():
    out = np.empty(1)
    open_doubles((None, ()), (Stream.of(np.random.default_rng(2)), ()), ChunkType((), np.dtype("f8")))(out, 0)
    assert math.isclose(out[0], np.random.default_rng(2).random(), rel_tol=0)
