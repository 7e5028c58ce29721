"""Trees of chunks give what NumPy gives for the whole: dtype, shape, values, NaN, ties, errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as jt
from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.optimize import compile_graph
from jmars.tensor.ops.reduction import Reduction
from jmars.tensor.tensor_graph import TensorGraph
from tests.cases import case
from tests.tensor.engine import tiled

NAMES = "sum prod min max mean var std any all argmin argmax nanmin nanmax".split()  # noqa: SIM905
DTYPES = "? i1 i4 i8 u1 u8 f2 f4 f8 c8 c16".split()  # noqa: SIM905


def close(ours, theirs) -> None:
    value = np.asarray(ours.fetch())
    theirs = np.asarray(theirs)
    assert ours.shape == value.shape == theirs.shape
    assert ours.dtype == value.dtype == theirs.dtype
    if theirs.dtype.kind in "fc":
        rtol = {2: 2e-3, 4: 1e-5, 8: 1e-12 if theirs.dtype.kind == "f" else 1e-5}.get(theirs.dtype.itemsize, 1e-12)
        np.testing.assert_allclose(value, theirs, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(value, theirs)


def sample(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    generator = np.random.default_rng(1)
    x = generator.integers(0, 5, shape) if dtype != "?" else generator.random(shape) > 0.3
    x = x.astype(dtype) + (np.array(0.5, dtype) if np.dtype(dtype).kind in "fc" else np.array(0, dtype))
    return x * np.array(1 + 1j, dtype) if np.dtype(dtype).kind == "c" else x


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_reduction(name, dtype):
    x = sample(dtype, (5, 6, 4))
    tensor = jt.as_tensor(x, chunk_size=(2, 4, 3))
    function = getattr(np, name)
    axes = [None, 0, 1, -1] if name.startswith("arg") else [None, 0, 1, -1, (0, 2), ()]
    for axis in axes:
        for keepdims in (False, True):
            with case("axis", axis, "keepdims", keepdims), np.errstate(all="ignore"):
                close(function(tensor, axis=axis, keepdims=keepdims), function(x, axis=axis, keepdims=keepdims))


@given(st.lists(st.integers(1, 9), max_size=3), st.integers(1, 4), st.integers(2, 5), st.data())
def test_any_shape_any_chunks_any_tree(shape, chunk_size, combine_size, data):
    x = np.random.default_rng(0).integers(-4, 4, tuple(shape)).astype(float)
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    name = data.draw(st.sampled_from(["sum", "max", "mean", "var", "argmin", "argmax", "any"]))
    with config.using(combine_size=combine_size):
        close(getattr(np, name)(jt.as_tensor(x, chunk_size=chunk_size), axis), getattr(np, name)(x, axis))


def test_a_tree_combines_four_at_a_time():
    x = jt.ones(17, chunk_size=1).sum()
    graph = tiled(TensorGraph.of([x.data]))
    degrees = np.diff(graph.input_ptr).tolist()
    assert degrees == [0] * 17 + [1] * 17 + [4, 4, 4, 4] + [4] + [2]  # 17 -> 5 -> 2 -> 1
    with config.using(combine_size=8):
        other = jt.ones(17, chunk_size=1).sum()
    assert isinstance(other.data.op, Reduction) and other.data.op.combine_size == 8


def test_one_chunk_needs_no_tree():
    graph = tiled(TensorGraph.of([jt.ones(10).mean().data]))
    assert graph.n == 2


@pytest.mark.parametrize(
    "name", ["sum", "min", "max", "mean", "var", "argmin", "argmax", "any", "all", "nanmin", "nanmax"]
)
@pytest.mark.parametrize("chunk", [1, 2, 10])
def test_nan_and_infinities(name, chunk):
    for values in ([1, np.nan, 3, -1, np.nan], [np.inf, 1, -np.inf, 2], [np.inf, np.inf], [np.nan], [-0.0, 0.0, -0.0]):
        x = np.array(values)
        with np.errstate(all="ignore"):
            if name.startswith("nan") and np.isnan(x).all():
                continue  # NumPy warns
            close(getattr(np, name)(jt.as_tensor(x, chunk_size=chunk)), getattr(np, name)(x))


def test_positions_are_the_first_of_equals_across_chunks():
    x = np.array([[3, 1, 1], [1, 3, 3], [3, 3, 1]])
    for chunk in (1, 2, 3):
        t = jt.as_tensor(x, chunk_size=chunk)
        for axis in (None, 0, 1):
            close(t.argmin(axis), x.argmin(axis))
            close(t.argmax(axis), x.argmax(axis))


def test_small_integers_do_not_overflow_and_wide_ones_wrap_as_numpy_s():
    close(jt.full(1000, 100, dtype="i1", chunk_size=7).sum(), np.full(1000, 100, "i1").sum())
    close(jt.full(1000, 200, dtype="u1", chunk_size=7).sum(), np.full(1000, 200, "u1").sum())
    big = np.full(4, 2**62)
    close(jt.as_tensor(big, chunk_size=1).sum(), big.sum())
    close(jt.as_tensor(big, chunk_size=1).sum(dtype="u8"), big.sum(dtype="u8"))
    close(jt.as_tensor(big, chunk_size=1).sum(dtype="f4"), big.sum(dtype="f4"))


def test_float32_sums_are_as_exact_as_numpy_s():
    x = np.random.default_rng(0).random(2_000_000, dtype="f4")
    exact = x.astype("f8").sum()
    assert abs(float(jt.as_tensor(x, chunk_size=70_000).sum()) / exact - 1) < 3e-7
    exact_var = x.astype("f8").var()
    assert abs(float(jt.as_tensor(x, chunk_size=70_000).var()) / exact_var - 1) < 3e-7


def test_variance_far_from_zero_keeps_its_digits():
    x = np.random.default_rng(0).random(10_000) + 1e8
    np.testing.assert_allclose(float(jt.as_tensor(x, chunk_size=99).var()), x.var(), rtol=1e-7)


@pytest.mark.parametrize("ddof", [0, 1, 2.5])
def test_ddof(ddof):
    x = np.arange(12.0).reshape(3, 4)
    t = jt.as_tensor(x, chunk_size=2)
    close(t.var(axis=1, ddof=ddof), x.var(axis=1, ddof=ddof))
    close(t.std(ddof=ddof), x.std(ddof=ddof))
    close(np.var(t, correction=1), np.var(x, correction=1))
    with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0 for slice"):
        np.testing.assert_array_equal(jt.ones(1).var(ddof=1).fetch(), np.nan)


def test_empty_arrays():
    x = jt.zeros((0, 3))
    close(x.sum(), np.zeros((0, 3)).sum())
    close(x.sum(axis=0), np.zeros((0, 3)).sum(axis=0))
    close(x.max(axis=1), np.zeros((0, 3)).max(axis=1))
    close(x.all(), np.True_)
    for name in ("min", "max", "argmin", "argmax", "nanmin"):
        with pytest.raises(ValueError, match=r"empty|zero-size"):
            getattr(x, name)() if name != "nanmin" else np.nanmin(x)
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(float(x.mean()))


def test_numbers_alone():
    for name in ("sum", "prod", "min", "mean", "std", "argmax", "any"):
        close(getattr(np, name)(jt.full((), 3.0)), getattr(np, name)(np.full((), 3.0)))


def test_out_and_keepdims():
    x = np.arange(12.0).reshape(3, 4)
    t, out = jt.as_tensor(x, chunk_size=2), jt.zeros(4)
    assert np.sum(t, axis=0, out=out) is out
    close(out, x.sum(axis=0))
    mine = np.zeros(3)
    np.max(t, axis=1, out=mine)
    assert mine.tolist() == [3, 7, 11]
    with pytest.raises(ValueError, match="does not match"):
        np.sum(t, axis=0, out=jt.zeros(3))


def test_ufuncs_reduce():
    x = np.arange(12.0).reshape(3, 4)
    t = jt.as_tensor(x, chunk_size=2)
    close(np.add.reduce(t), np.add.reduce(x))
    close(np.maximum.reduce(t, axis=None), np.maximum.reduce(x, axis=None))
    close(np.add.reduce(t, axis=(0, 1), dtype="f4"), np.add.reduce(x, axis=(0, 1), dtype="f4"))
    close(np.subtract.reduce(t, axis=1), np.subtract.reduce(x, axis=1))
    with pytest.raises(UnsupportedError, match="no identity"):
        np.floor_divide.reduce(t, where=x > 2, initial=5)


def test_wrong_axes_are_refused_at_once():
    with pytest.raises(np.exceptions.AxisError):
        jt.ones(3).sum(axis=1)
    with pytest.raises(ValueError, match="duplicate value"):
        jt.ones((3, 3)).sum(axis=(0, 0))


def test_what_does_not_count_and_where_it_begins():
    mask, x, out = np.array([True, False, True]), np.array([3.0, 4.0, 9.0]), jt.zeros(())
    t = jt.as_tensor(x, chunk_size=2)
    assert np.sum(t, where=jt.as_tensor(mask), initial=3, out=out) is out
    assert out.fetch() == 15
    close(np.var(t, where=mask, mean=5.0), np.var(x, where=mask, mean=5.0))
    assert np.min(t[:0], initial=7).fetch() == 7
    with pytest.raises(ValueError, match="initial"):
        np.max(t, where=mask)


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 20))
def test_sums_of_any_grid(n, m, chunk):
    x = np.random.default_rng(n).integers(-9, 9, (n, m))
    t = jt.as_tensor(x, chunk_size=chunk)
    for axis in (None, 0, 1):
        close((t * 2).sum(axis=axis), (x * 2).sum(axis=axis))


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_without_nan(name, axis):
    x = np.array([[1, np.nan, 3], [4, 5, np.nan], [0.5, 2, 9]])
    close(getattr(np, name)(jt.as_tensor(x, chunk_size=2), axis=axis), getattr(np, name)(x, axis=axis))
    i = np.arange(6).reshape(2, 3)
    if axis is None or axis == 0:
        close(getattr(np, name)(jt.as_tensor(i, chunk_size=2), axis=axis), getattr(np, name)(i, axis=axis))
    close(getattr(np, name)(jt.as_tensor(x.astype("f4")), axis=axis), getattr(np, name)(x.astype("f4"), axis=axis))


def test_a_mean_without_nan_reads_its_input_once():
    """The squares of a chunk are not stored for a sum and a count: a single operand has them."""
    x = jt.random.default_rng(0).random((40, 30), chunk_size=(10, 30))
    graph = compile_graph(TensorGraph.of([jt.nanmean(x**2, 0).data]), {}).after
    assert graph.nbytes.max() < 10 * 30 * 8
    a = np.array([[1, np.nan], [np.inf, np.nan], [np.nan, np.nan]] * 3, "f2")
    for where in (True, np.array([[True], [False], [True]] * 3)):
        with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
            ours = jt.nanmean(jt.asarray(a, chunk_size=2), 0, where=where)
            np.testing.assert_array_equal(ours, np.nanmean(a, 0, where=where), strict=True)


def test_times_are_added_and_averaged():
    x = np.array([[5, 3, -1], [4, 4, 7]], "m8[s]")
    t = jt.as_tensor(x, chunk_size=2)
    for name in ("sum", "mean", "cumsum"):
        for axis in (None, 0, 1):
            close(getattr(np, name)(t, axis=axis), getattr(np, name)(x, axis=axis))


def test_weights_of_any_axes():
    x = np.arange(24.0).reshape(2, 3, 4)
    t = jt.as_tensor(x, chunk_size=2)
    for axis, weights in ((0, [1, 2]), (1, [1, 2, 3]), ((2, 0), np.arange(8).reshape(4, 2)), (None, x)):
        for ours, theirs in zip(np.average(t, axis, weights, True), np.average(x, axis, weights, True)):
            close(ours, theirs)
    for ours, theirs in zip(np.average(t, 0, np.float32([1, 2]), True), np.average(x, 0, np.float32([1, 2]), True)):
        close(ours, theirs)
    with pytest.raises(TypeError, match="Axis must be specified"):
        np.average(t, weights=[1, 2])
    with pytest.raises(ValueError, match=r"\(2,\), not \(3,\)"):
        np.average(t, 1, weights=[1, 2])


def test_composed_ones():
    x = np.array([[1.0, 0, 3], [4, 5, 0]])
    t = jt.as_tensor(x, chunk_size=2)
    close(np.ptp(t, axis=0), np.ptp(x, axis=0))
    close(np.count_nonzero(t), np.count_nonzero(x))
    close(np.count_nonzero(t, axis=1), np.count_nonzero(x, axis=1))
    close(np.average(t, axis=0), np.average(x, axis=0))
    close(np.average(t, axis=1, weights=np.array([1, 2, 3])), np.average(x, axis=1, weights=np.array([1, 2, 3])))
    assert bool(np.allclose(t, x)) and not bool(np.allclose(t, x + 1))
    assert bool(np.array_equal(t, x)) and not np.array_equal(t, x[:1])
    close(np.linalg.norm(t), np.linalg.norm(x))
    close(np.linalg.norm(t, axis=1), np.linalg.norm(x, axis=1))
