"""Warnings of reductions that NumPy's Python code gives: too few elements; at the user's line."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt

FEW = {  # function, array, options
    "mean of nothing": (np.mean, np.zeros(0), {}),
    "mean of an empty axis": (np.mean, np.zeros((3, 0)), {"axis": 1}),
    "mean of axes that are there": (np.mean, np.zeros((3, 0)), {"axis": 0}),
    "average of nothing": (np.average, np.zeros(0), {}),
    "median of nothing": (np.median, np.zeros(0), {}),
    "nanmean of integers": (np.nanmean, np.zeros(0, int), {}),
    "var": (np.var, np.ones((2, 3)), {"axis": 0, "ddof": 2}),
    "std": (np.std, np.ones((2, 3)), {"axis": 1, "ddof": 2}),
    "std of all": (np.std, np.ones((2, 3)), {"ddof": 7}),
    "std by correction": (np.std, np.ones(2), {"correction": 2}),
    "var of nothing": (np.var, np.zeros(0), {}),
    "cov": (np.cov, np.ones((2, 1)), {}),
    "cov by ddof": (np.cov, np.ones((2, 5)), {"ddof": 9}),
    "corrcoef": (np.corrcoef, np.ones((2, 1)), {}),
}


def told(function: Any, x: Any, options: dict[str, Any]) -> list[tuple[str, type]]:
    with warnings.catch_warnings(record=True) as seen, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        result = function(x, **options)
        if isinstance(x, mt.Tensor):
            result.fetch()
            seen = [one for one in seen if one.filename == __file__]  # others are a worker's own
    return [(str(one.message).rstrip("."), one.category) for one in seen]


@pytest.mark.parametrize("kind", FEW)
def test_too_few_elements_warn_as_in_numpy(kind: str) -> None:
    function, x, options = FEW[kind]
    assert told(function, mt.as_tensor(x, chunk_size=2), options) == told(function, x, options)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_dtype_of_covariances(dtype: str) -> None:
    x = np.random.default_rng(0).random((3, 20))
    for function in (np.cov, np.corrcoef):
        ours, theirs = function(mt.as_tensor(x, chunk_size=2), dtype=dtype), function(x, dtype=dtype)
        assert ours.dtype == theirs.dtype == dtype
        np.testing.assert_allclose(ours.fetch(), theirs, rtol=1e-4)


@pytest.mark.parametrize("function", [np.cov, np.corrcoef])
def test_covariances_of_integers_are_refused(function: Any) -> None:
    for x in (np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3)):
        for t in (x, mt.as_tensor(x)):
            with pytest.raises(TypeError):
                function(t, dtype="i8")
