"""Filters and morphology of scipy.ndimage on chunks have SciPy's bits, dtypes and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut, same, shapes

ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed (extra jmars[notebooks])")

MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]
LINES = ["correlate1d", "convolve1d", "uniform_filter1d", "minimum_filter1d", "maximum_filter1d"]
WINDOWS = ["minimum_filter", "maximum_filter", "median_filter", "rank_filter", "percentile_filter", "generic_filter",
           "grey_erosion", "grey_dilation", "grey_opening", "grey_closing", "morphological_gradient",
           "morphological_laplace", "white_tophat", "black_tophat"]  # fmt: skip
RANKS = ["median_filter", "rank_filter", "percentile_filter"]
BINARY = ["binary_erosion", "binary_dilation", "binary_opening", "binary_closing"]


@st.composite
def arrays(draw, low=1, dtypes=("f8", "f4", "u1", "i4", "i8", "?")):
    shape = tuple(max(n, 1) for n in draw(shapes(low, 3, 9)))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    array = (rng.normal(size=shape) * 100).astype(draw(st.sampled_from(dtypes)))
    return array, draw(cut(array))


def check(name, a, x, *args, **options):
    """Compare bits, or the errors."""
    try:
        with np.errstate(all="ignore"):
            theirs = getattr(ndimage, name)(a, *args, **options)
    except (RuntimeError, ValueError, TypeError) as error:
        with pytest.raises(type(error)):
            getattr(mt.ndimage, name)(x, *args, **options).fetch()
    else:
        ours = getattr(mt.ndimage, name)(x, *args, **options)
        same(ours, theirs)
        assert theirs.dtype.kind != "f" or (np.signbit(ours.fetch()) == np.signbit(theirs)).all()


@given(st.data())
def test_filters_of_lines(data):
    a, x = data.draw(arrays())
    name, axis, size = (
        data.draw(st.sampled_from(LINES)),
        data.draw(st.integers(-1, a.ndim - 1)),
        data.draw(st.integers(1, 7)),
    )
    given = {"weights": np.linspace(-1, 2, size) ** 3} if "rel" in name or "conv" in name else {"size": size}
    origin = data.draw(st.integers(-(size // 2), (size - 1) // 2))
    mode, cval = data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from([0.0, 3.0, 0.3]))
    output = data.draw(st.sampled_from([None, None, "f4", "f8", "i2"]))
    check(name, a, x, axis=axis, origin=origin, mode=mode, cval=cval, output=output, **given)


@given(st.data())
def test_filters_of_windows(data):
    a, x = data.draw(arrays())
    name = data.draw(st.sampled_from(WINDOWS))
    axes = data.draw(st.none() | st.sets(st.integers(0, a.ndim - 1), min_size=1).map(tuple))
    count = a.ndim if axes is None else len(axes)
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)))
    origin = tuple(data.draw(st.integers(-((n - 1) // 2), (n - 1) // 2)) for n in sizes)
    options = {"size": data.draw(st.sampled_from([sizes, sizes[0]]))}
    if data.draw(st.booleans()):
        options = {"footprint": np.random.default_rng(len(sizes)).random(sizes) > 0.3}
        options["footprint"].flat[0] = True  # SciPy crashes on none with a structure
    if not name.endswith("filter") and data.draw(st.booleans()):
        options["structure"] = np.random.default_rng(7).integers(0, 9, sizes)
    if np.shape(options.get("size", ())) == ():
        origin = 0
    assume(a.ndim > 1 or len(a) > 4 or name not in RANKS)  # SciPy reads beyond short lines
    more = {"rank_filter": {"rank": 0}, "percentile_filter": {"percentile": 40}, "generic_filter": {"function": np.ptp}}
    options |= {"mode": data.draw(st.sampled_from(MODES)), "cval": data.draw(st.sampled_from([0.0, 0.3]))}
    check(name, a, x, origin=origin, axes=axes, **options, **more.get(name, {}))


@given(st.data())
def test_filters_by_correlation(data):
    a, x = data.draw(arrays(dtypes=("f8", "f4", "u1", "i8", "c16")))
    mode, name = data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from(["correlate", "convolve"]))
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=a.ndim, max_size=a.ndim)))
    weights = np.random.default_rng(3).normal(size=sizes)
    check(name, a, x, weights, mode=mode, origin=data.draw(st.sampled_from([0, [(n - 1) // 2 for n in sizes]])))
    for name in ("sobel", "prewitt"):
        check(name, a, x, axis=data.draw(st.integers(0, a.ndim - 1)), mode=mode)
    check("laplace", a, x, mode=mode, output=data.draw(st.sampled_from([None, "f4"])))


@given(st.data())
def test_filters_of_gauss(data):
    a, x = data.draw(arrays(dtypes=("f8", "f4", "u1", "i8")))
    sigma = data.draw(st.sampled_from([0.4, 1.2, [0.3, 0.0, 1.1][: a.ndim]]))
    options = {"mode": data.draw(st.sampled_from([*MODES, MODES[: a.ndim], MODES[4:][: a.ndim]]))}
    options |= data.draw(st.sampled_from([{}, {"truncate": 1.5}, {"radius": 2}]))
    check("gaussian_filter", a, x, sigma, order=data.draw(st.integers(0, 2)), **options)
    for name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
        check(name, a, x, sigma, **options)
    if np.ndim(sigma) == 0 and isinstance(options["mode"], str):
        check("gaussian_filter1d", a, x, sigma, axis=0, **options)


@given(st.data())
def test_uniform_filters(data):
    a, x = data.draw(arrays())
    options = {"size": data.draw(st.integers(1, 5)), "mode": data.draw(st.sampled_from([*MODES, MODES[: a.ndim]]))}
    check("uniform_filter", a, x, **options, output=data.draw(st.sampled_from([None, "f8", "u1"])))


@given(st.data())
def test_uniform_filters_along_an_axis_of_many_chunks(data):
    n = data.draw(st.integers(20, 60))
    a = np.random.default_rng(n).normal(size=(n, 3)) * 10.0 ** (np.arange(n)[:, None] % 12)
    a[data.draw(st.integers(0, n - 1))] = data.draw(st.sampled_from([0.0, -0.0, np.inf, np.nan]))
    a = a.astype(data.draw(st.sampled_from(["f8", "f4"])), copy=False)
    size = data.draw(st.integers(1, 6))
    options = {"origin": data.draw(st.integers(-(size // 2), (size - 1) // 2)), "cval": 0.3, "axis": 0}
    x = mt.tensor(a, chunk_size=(data.draw(st.integers(1, 15)), 2))
    for mode in MODES:
        check("uniform_filter1d", a, x, size, mode=mode, **options)


def test_a_uniform_filter_leaves_chunks_as_they_are():
    x = mt.ones((40, 30), chunk_size=10)
    assert mt.ndimage.uniform_filter(x, 5).chunks == x.chunks
    assert len(mt.ndimage.uniform_filter1d(mt.ones(100, chunk_size=30), 5).chunks[0]) == 4


@given(st.data())
def test_binary_morphology(data):
    a, x = data.draw(arrays())
    a, x = a > 0, x > 0
    name = data.draw(st.sampled_from(BINARY))
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=a.ndim, max_size=a.ndim)))
    structure = data.draw(st.sampled_from([None, np.random.default_rng(4).random(sizes) > 0.2]))
    options = {"iterations": data.draw(st.integers(1, 3)), "brute_force": data.draw(st.booleans())}
    options["origin"] = (
        0 if structure is None else [data.draw(st.integers(-((n - 1) // 2), (n - 1) // 2)) for n in sizes]
    )
    options["border_value"] = data.draw(st.integers(0, 1))
    mask = data.draw(st.none() | st.just(np.random.default_rng(5).random(a.shape) > 0.2))
    theirs = getattr(ndimage, name)(a, structure, mask=mask, **options)
    if mask is not None:
        mask = data.draw(cut(mask))
    same(getattr(mt.ndimage, name)(x, structure, mask=mask, **options), theirs)
    check("binary_hit_or_miss", a, x, structure, origin1=options["origin"])


def test_what_looks_at_any_distance_runs_on_the_value():
    a = np.random.default_rng(0).random((9, 9)) > 0.4
    x = mt.asarray(a, chunk_size=4)
    same(mt.ndimage.binary_dilation(x, iterations=0), ndimage.binary_dilation(a, iterations=0))
    assert (mt.ndimage.binary_fill_holes(x) == ndimage.binary_fill_holes(a)).all()


def test_an_output_is_written_and_given():
    x = mt.arange(12.0, chunk_size=5)
    out = mt.zeros(12, dtype="i4")
    assert mt.ndimage.maximum_filter1d(x, 3, output=out) is out
    same(out, ndimage.maximum_filter1d(np.arange(12.0), 3, output="i4"))
    assert mt.ndimage.uniform_filter(x, 3, output=out) is out
    same(out, ndimage.uniform_filter(np.arange(12.0), 3, output="i4"))
    with pytest.raises(RuntimeError, match="output shape"):
        mt.ndimage.sobel(x, output=mt.zeros(3))


def test_arguments_are_refused_in_scipys_words():
    x = mt.ones((8, 8), chunk_size=3)
    for call, words in (
        (lambda: mt.ndimage.median_filter(x, size=3, mode="other"), "boundary mode not supported"),
        (lambda: mt.ndimage.correlate(x, np.ones(3)), "weights"),
        (lambda: mt.ndimage.binary_erosion(x, mask=mt.ones((3, 3))), "mask and input must have equal sizes"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
