"""Reductions, scans and products of float16: the intermediate types are NumPy's, also across chunks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jmars.tensor as mt
from tests.cases import case

ARRAYS = {
    "ones": np.ones(5000, "f2"),
    "quarters": np.full(200_000, 0.25, "f2"),
    "sums overflow": np.full(3000, 100, "f2"),
    "squares overflow": np.arange(300, dtype="f2"),
    "large": np.full(10, 60000, "f2"),
    "small": np.full(1000, 1e-4, "f2"),
    "NaN": np.where(np.arange(3000) % 7 == 0, np.nan, 100).astype("f2"),
    "signs": np.tile(np.array([300, -300], "f2"), 500),
    "infinity": np.array([1, np.inf, 2], "f2"),
}
NAMES = (
    "sum prod mean var std nansum nanprod nanmean nanvar nanstd cumsum cumprod nancumsum nancumprod median nanmedian "
    "average ptp linalg.norm linalg.vector_norm add.reduce add.accumulate"
)


def same(ours: mt.Tensor, theirs: np.ndarray) -> None:
    value = np.asarray(ours.fetch())
    assert value.dtype == np.asarray(theirs).dtype == ours.dtype
    np.testing.assert_allclose(value, theirs, rtol=2e-3)


@pytest.mark.parametrize("name", NAMES.split())
def test_partial_results_are_rounded_where_numpy_rounds(name: str) -> None:
    parts = name.split(".")
    function = getattr(np if len(parts) == 1 else getattr(np, parts[0]), parts[-1])
    for kind, x in ARRAYS.items():
        if "prod" in name and kind == "squares overflow":
            continue  # 0 * 1 * 2 * ... of parts is 0 * inf
        with case(kind), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            same(function(mt.as_tensor(x, chunk_size=x.size // 4 + 1)), function(x))


def test_products_of_vectors_add_in_float32() -> None:
    for kind, x in ARRAYS.items():
        t = mt.as_tensor(x, chunk_size=x.size // 4 + 1)
        with case(kind), np.errstate(all="ignore"):
            same(np.dot(t, t), np.dot(x, x))
            same(t @ t, x @ x)
            same(np.einsum("i,i", t, t), np.einsum("i,i", x, x))
            same(np.vecdot(t, t), np.vecdot(x, x))
            same(np.average(t, weights=abs(t) + 1), np.average(x, weights=abs(x) + 1))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_dtype_is_the_type_of_partial_results(dtype: str) -> None:
    x = ARRAYS["sums overflow"]
    for name in ("sum", "mean", "var", "std", "nansum", "nanmean", "nanvar", "cumsum"):
        with case(name), np.errstate(all="ignore"):
            same(getattr(np, name)(mt.as_tensor(x, chunk_size=700), dtype=dtype), getattr(np, name)(x, dtype=dtype))


def test_a_product_starts_from_its_initial_value() -> None:
    x = np.full(4, 6e4, "f2")
    same(np.prod(mt.as_tensor(x, chunk_size=2), initial=0), np.prod(x, initial=0))


@pytest.mark.parametrize("scale", [1e20, 1e-25])
def test_float32_squares_overflow_and_vanish_as_numpy_s(scale: float) -> None:
    x = (np.array([1, -1, 2, 5]) * scale).astype("f4")
    for name in ("var", "std", "nanvar", "nanstd"):
        with case(name), np.errstate(all="ignore"):
            same(getattr(np, name)(mt.as_tensor(x, chunk_size=2)), getattr(np, name)(x))
