"""Functions whose arguments differ in dtype: values beside spacing, bins, edges, weights, limits or tolerances.

Each call is made for all pairs of `DTYPES`, and gives NumPy's value and dtype, or an error of NumPy's type.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.tensor import Tensor, as_tensor
from tests.tensor.engine import OneByOne
from tests.tensor.table.comparing import _family, outcome

DTYPES = ["?", "i1", "i8", "u8", "f2", "f4", "f8", "c8", "m8[s]", "M8[D]", "M8[ns]"]
PAIRS = list(itertools.product(DTYPES, DTYPES))
_ANY = {"b": [1, 0, 1, 1, 0, 1, 1, 0], "u": [3, 1, 4, 1, 5, 9, 2, 6], "f": [3.25, -1.5, 4, 1, -5.125, 9, 2, 0.1],
        "c": [3 + 1j, -1.5, 4j, 1, -5, 9 - 2j, 2, 0.1]}  # fmt: skip
_RISING = {"b": [0, 0, 0, 0, 1, 1, 1, 1], "f": [0.1, 0.5, 1.25, 2, 3, 4.5, 6, 7.7]}
_FINE = {"f2": 2e-3, "f4": 1e-6, "f8": 1e-12, "c8": 1e-6, "c16": 1e-12}
Array = np.ndarray[Any, Any]


def some(kind: str, n: int = 8) -> Array:
    """Values of a dtype, in no order."""
    dtype = np.dtype(kind)
    values = np.array(_ANY.get(dtype.kind, [3, -1, 4, 1, -5, 9, 2, 6]))
    return (values.astype(dtype) if dtype.kind not in "mM" else values.astype("i8").view(dtype))[:n]


def rising(kind: str, first: int = 0) -> Array:
    """Uneven coordinates; of wide dtypes far from zero, where a narrow dtype would lose them."""
    dtype = np.dtype(kind)
    if dtype.kind in "mM":
        day = 86_400 * 10**9 if kind == "M8[ns]" else 1
        return (np.array([1, 2, 4, 5, 7, 8, 11, 13]) * day + first).view(dtype)
    values = np.array(_RISING.get(dtype.kind, _RISING["f"] if dtype.kind == "c" else [1, 2, 4, 5, 7, 8, 11, 13]))
    return values.astype(dtype) + {"f8": 1_700_000_000, "i8": 2**40}.get(kind, 0)


def weights(kind: str) -> Array:
    """Values of a dtype, none below zero."""
    values = some(kind)
    return np.abs(values) if values.dtype.kind in "ifcm" else values


def holes(kind: str) -> Array:
    """Values with NaN and infinities, where the dtype has them."""
    inexact = np.dtype(kind).kind in "fc"
    return np.array([1, np.nan, np.inf, -np.inf]).astype(kind) if inexact else some(kind, 4)


MASK = some("?")
CALLS: dict[str, Callable[[Any, Any, str, str], Any]] = {
    "gradient, coordinates": lambda xp, w, a, b: xp.gradient(w(some(a)), w(rising(b))),
    "gradient, coordinates of NumPy": lambda xp, w, a, b: xp.gradient(w(some(a)), rising(b), edge_order=2),
    "gradient, list": lambda xp, w, a, b: xp.gradient(w(some(a)), rising(b).tolist()),
    "gradient, even coordinates": lambda xp, w, a, b: xp.gradient(w(some(a)), w(np.arange(8).astype(b))),
    "gradient, distance": lambda xp, w, a, b: xp.gradient(w(some(a)), some(b)[0], edge_order=2),
    "gradient, distance without axes": lambda xp, w, a, b: xp.gradient(w(some(a)), w(some(b)[:1].reshape(()))),
    "gradient, axes": lambda xp, w, a, b: xp.gradient(w(np.stack([some(a)] * 2)), some(b)[0], w(rising(b))),
    "interp": lambda xp, w, a, b: xp.interp(w(some(a)), w(rising(b)), w(some("f8"))),
    "interp, values": lambda xp, w, a, b: xp.interp(w(some("f4")), w(rising(a)), w(some(b))),
    "interp, left": lambda xp, w, a, b: xp.interp(w(some("f4")), w(rising("f4")), w(some(a)), left=some(b)[0]),
    "interp, period": lambda xp, w, a, b: xp.interp(w(some("f4")), w(rising("f4")), w(some(a)), period=some(b)[0]),
    "diff, ends": lambda xp, w, a, b: xp.diff(w(some(a)), prepend=some(b)[0], append=w(some(b))),
    "ediff1d, ends": lambda xp, w, a, b: xp.ediff1d(w(some(a)), w(some(b)), some(b)[0]),
    "trapezoid, coordinates": lambda xp, w, a, b: xp.trapezoid(w(some(a)), w(rising(b))),
    "trapezoid, distance": lambda xp, w, a, b: xp.trapezoid(w(some(a)), dx=some(b)[0]),
    "unwrap, period": lambda xp, w, a, b: xp.unwrap(w(some(a)), period=some(b)[0]),
    "digitize": lambda xp, w, a, b: xp.digitize(w(some(a)), w(rising(b))),
    "searchsorted": lambda xp, w, a, b: xp.searchsorted(w(rising(a)), w(some(b))),
    "histogram, edges": lambda xp, w, a, b: xp.histogram(w(some(a)), w(rising(b)), density=True),
    "histogram, range": lambda xp, w, a, b: xp.histogram(w(some(a)), 3, (rising(b)[0], rising(b)[3])),
    "histogram, weights": lambda xp, w, a, b: xp.histogram(w(some(a)), 3, weights=w(some(b))),
    "histogram_bin_edges, rule": lambda xp, w, a, b: xp.histogram_bin_edges(w(some(a)), "fd"),
    "histogram2d, weights": lambda xp, w, a, b: xp.histogram2d(w(some(a)), w(some(a)), 3, weights=w(some(b))),
    "histogramdd, range": lambda xp, w, a, b: xp.histogramdd(w(some(a)[:, None]), 3, [(rising(b)[0], rising(b)[3])]),
    "bincount, weights": lambda xp, w, a, b: xp.bincount(w(weights(a)), w(some(b))),
    "average": lambda xp, w, a, b: xp.average(w(some(a)), weights=w(some(b)), returned=True),
    "average, axis": lambda xp, w, a, b: xp.average(w(np.stack([some(a)] * 2)), 1, some(b)),
    "average, no weight": lambda xp, w, a, b: xp.average(w(some(a)), weights=w(some(b) * 0)),
    "quantile": lambda xp, w, a, b: xp.quantile(w(some(a)), np.array([0, 1]).astype(b)),
    "quantile, weights": lambda xp, w, a, b: xp.quantile(w(some(a)), 0.3, weights=w(weights(b)), method="inverted_cdf"),
    "cov": lambda xp, w, a, b: xp.cov(w(some(a)), w(some(b))),
    "cov, weights": lambda xp, w, a, b: xp.cov(w(some(a)), aweights=w(weights(b))),
    "polyfit": lambda xp, w, a, b: xp.polyfit(w(some(a)), w(some(b)), 2),
    "polyfit, weights": lambda xp, w, a, b: xp.polyfit(w(some(a)), w(some("f4")), 2, w=w(some(b))),
    "polyval": lambda xp, w, a, b: xp.polyval(some(a, 3), w(some(b))),
    "linspace": lambda xp, w, a, b: xp.linspace(some(a)[0], some(b)[1], 5, retstep=True),
    "linspace, dtype": lambda xp, w, a, b: xp.linspace(some(a)[0], 1, 5, dtype=b),
    "logspace, base": lambda xp, w, a, b: xp.logspace(0, some(a)[1], 5, base=some(b)[0]),
    "clip": lambda xp, w, a, b: xp.clip(w(some(a)), some(b)[1], w(some(b))),
    "isclose": lambda xp, w, a, b: xp.isclose(w(some(a)), w(some(b))),
    "isclose, tolerance": lambda xp, w, a, b: xp.isclose(w(some(a)), w(some(a)[::-1]), rtol=w(some(b))),
    "nan_to_num": lambda xp, w, a, b: xp.nan_to_num(w(holes(a)), nan=some(b)[0], posinf=w(some(b, 4))),
    "select": lambda xp, w, a, b: xp.select([w(MASK), w(~MASK)], [w(some(a)), w(some(b))], some(b)[0]),
    "choose": lambda xp, w, a, b: xp.choose(w(MASK.astype(int)), [w(some(a)), w(some(b))]),
    "where": lambda xp, w, a, b: xp.where(w(MASK), w(some(a)), some(b)[0]),
    "pad, ramp": lambda xp, w, a, b: xp.pad(w(some(a)), 2, "linear_ramp", end_values=some(b)[0]),
    "concatenate": lambda xp, w, a, b: xp.concatenate([w(some(a)), w(some(b))]),
    "intersect1d": lambda xp, w, a, b: xp.intersect1d(w(some(a)), w(some(b))),
    "array_equal": lambda xp, w, a, b: xp.array_equal(w(some(a)), w(some(b))),
    "cross": lambda xp, w, a, b: xp.cross(w(some(a, 3)), w(some(b, 3))),
    "lstsq": lambda xp, w, a, b: xp.linalg.lstsq(w(np.eye(3).astype(a)), w(some(b, 3)))[0],
    "norm": lambda xp, w, a, b: xp.linalg.norm(w(some(a)), some(b)[0]),
    "round": lambda xp, w, a, b: xp.round(w(some(a)), some(b)[1]),
    "take": lambda xp, w, a, b: xp.take(w(some(a)), w(some(b)), mode="wrap"),
    "repeat": lambda xp, w, a, b: xp.repeat(w(some(a)), w(weights(b))),
    "kaiser": lambda xp, w, a, b: xp.kaiser(5, some(a)[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_pairs_of_dtypes_are_as_numpy_s(name: str, engine: OneByOne) -> None:
    wrong = []
    for pair in PAIRS:
        theirs = outcome(CALLS[name], (np, np.copy, *pair), {})
        ours = outcome(CALLS[name], (mt, lambda x: as_tensor(x.copy(), chunks=3), *pair), {})
        if fault := _difference(ours, theirs):
            wrong.append(f"{' beside '.join(pair)}: {fault}")
        engine.chunks.clear()
    assert not wrong, "\n".join(wrong)


def _difference(ours: Any, theirs: Any) -> str | None:
    """How an outcome differs from NumPy's; None where it does not, or where an error says that jmars has no such
    function of these dtypes."""
    if isinstance(theirs, Exception):
        return None if isinstance(ours, _family(theirs)) else f"NumPy raises {theirs!r}, jmars gives {ours!r}"
    if isinstance(ours, Exception):
        return None if isinstance(ours, UnsupportedError | TypeError) else f"NumPy gives {theirs!r}, jmars {ours!r}"
    if isinstance(theirs, tuple | list):
        return next(filter(None, map(_difference, ours, theirs)), None)
    value, expected = np.asarray(ours), np.asarray(theirs)
    if (value.dtype, value.shape) != (expected.dtype, expected.shape):
        return f"{value!r} is not {expected!r}"
    fine = _FINE.get(value.dtype.str[1:], 0.0)
    if not fine:
        return None if np.array_equal(value, expected) or str(value) == str(expected) else f"{value!r} not {expected!r}"
    largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=0))
    same = np.allclose(value, expected, rtol=fine, atol=fine * largest, equal_nan=True)
    return None if same else f"{value!r} is not {expected!r}"


def test_gradient_of_float32_by_seconds_is_float32() -> None:
    seconds = 1_700_000_000 + np.cumsum([1.0, 2.0, 1.0, 3.0, 1.0, 0.5])
    f = np.array([1, 4, 9, 16, 25, 36], "f4")
    found = mt.gradient(as_tensor(f, chunks=2), seconds)
    assert isinstance(found, Tensor) and found.dtype == np.float32
    np.testing.assert_array_equal(found.fetch(), np.gradient(f, seconds))


def test_isclose_warns_of_tolerances_and_compares_python_numbers_weakly(engine):
    x = mt.asarray(np.array(1 - 2**-53, "f4"))
    assert mt.isclose(x, 2, atol=0, rtol=(1 - 2**-53) / 2)
    with pytest.warns(RuntimeWarning, match="One of rtol or atol is not valid"):
        mt.isclose(x, x, atol=np.nan)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="not valid"):
        mt.isclose(x, x, rtol=np.inf)
