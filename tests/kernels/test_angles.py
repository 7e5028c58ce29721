"""Sine and cosine of our own: near the true value, NumPy's where it matters, the same however an array lies."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.kernels import ChunkType, compile_program
from jmars.kernels.angles import own_loop
from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import Elementwise, single
from jmars.native import library

if own_loop("sin") is None:
    pytest.skip("no C library, or a processor without fused multiply-add", allow_module_level=True)

F8 = np.dtype("f8")
ULPS = 0.75  # from the true value, as the module says
HOW = [by for by in (1, 2) if by <= library().jm_angles_by()]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, -5e-324, 2.2e-308, 1e300, 2.0**46, -(2.0**45) - 0.5]


def arguments() -> np.ndarray:
    """Of all sizes, and as near to multiples of a quarter turn as doubles are."""
    rng = np.random.default_rng(7)
    n = 50_000
    quarters = rng.integers(-(2**40), 2**40, n) * (np.pi / 2)
    quarters[::2] = np.arange(n // 2) * (np.pi / 2)
    return np.concatenate(
        [rng.uniform(-4, 4, 4 * n), rng.uniform(-1e6, 1e6, n), 2.0 ** rng.uniform(-1074, 45, n), quarters]
    )


@pytest.mark.parametrize("by", HOW)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_values_are_near_the_true_ones(name, by):
    x = arguments()
    out = np.empty_like(x)
    assert library().jm_angles(by, name == "cos", x.size, x.ctypes.data, out.ctypes.data) == 0
    true = getattr(np, name)(x.astype(np.longdouble))
    off = np.abs(out - true) / np.spacing(np.abs(true.astype(F8)))
    assert off.max() <= ULPS, x[off.argmax()]
    assert (out == getattr(np, name)(x)).mean() > 0.97


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_all_processors_give_the_same_bits(name):
    x, given = arguments(), []
    for by in HOW:
        given.append(np.empty_like(x))
        library().jm_angles(by, name == "cos", x.size, x.ctypes.data, given[-1].ctypes.data)
    assert all(np.array_equal(one, given[0]) for one in given)


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("at", [0, 255, 300])
def test_special_values_are_numpys(name, at):
    x = np.insert(np.linspace(1, 2, 600), at, SPECIAL)
    with np.errstate(invalid="ignore"):
        want = getattr(np, name)(x)[at : at + len(SPECIAL)]
    got = own_loop(name)(x)[at : at + len(SPECIAL)]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_how_an_array_lies_does_not_matter(name):
    run = own_loop(name)
    x = np.linspace(-50, 50, 3 * 5 * 7).reshape(3, 5, 7)
    want = run(x)
    np.testing.assert_array_equal(run(x.T), want.T)
    np.testing.assert_array_equal(run(x[:, ::2, 1:]), want[:, ::2, 1:])
    np.testing.assert_array_equal(run(x.astype(">f8")), want)
    np.testing.assert_array_equal(run(np.broadcast_to(x[:1], x.shape)), np.broadcast_to(want[:1], x.shape))
    out = np.zeros((3, 5, 14))
    assert run(x, out[..., ::2]).base is out
    np.testing.assert_array_equal(out[..., ::2], want)
    np.testing.assert_array_equal(out[..., 1::2], 0)
    part = np.empty(x.shape)
    np.testing.assert_array_equal(run(x[:1], part), np.broadcast_to(want[:1], x.shape))
    np.testing.assert_array_equal(run(part := x.copy(), part), want)
    np.testing.assert_array_equal([run(one) for one in x.ravel()], want.ravel())
    assert run(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8"])
def test_whole_numbers_are_converted_as_numpy_does(dtype):
    x = np.arange(100).astype(dtype)
    np.testing.assert_array_almost_equal_nulp(own_loop("sin")(x), np.sin(x.astype(F8)))


def test_chunks_of_any_size_give_the_same():
    x = np.linspace(-100, 100, 3 * BLOCK_SIZE + 5)
    nodes = (Node("sin", (0,), F8), Node("cos", (1,), F8), Node("multiply", (1, 2), F8))

    def run(part: np.ndarray) -> np.ndarray:
        chunk = ChunkType(part.shape, F8)
        out = np.empty(part.shape)
        compile_program(single("f", (chunk,), Elementwise(Expression((F8,), nodes), (0,), chunk)))(out, [part])
        return out

    whole = run(x)
    np.testing.assert_array_equal(np.concatenate([run(x[:10]), run(x[10:BLOCK_SIZE]), run(x[BLOCK_SIZE:])]), whole)
    np.testing.assert_array_equal(whole, own_loop("sin")(x) * own_loop("cos")(own_loop("sin")(x)))
    np.testing.assert_allclose(whole, np.sin(x) * np.cos(np.sin(x)), rtol=1e-15, atol=1e-18)


def test_other_dtypes_are_numpys():
    x = np.linspace(0, 9, 100, dtype="f4")
    chunk = ChunkType(x.shape, x.dtype)
    out = np.empty_like(x)
    middle = Elementwise(Expression((x.dtype,), (Node("sin", (0,), x.dtype),)), (0,), chunk)
    compile_program(single("sin", (chunk,), middle))(out, [x])
    np.testing.assert_array_equal(out, np.sin(x))
