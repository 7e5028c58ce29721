"""`np.errstate` counts on workers of all kinds; their floating point errors are Python's warnings, once a line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster, connect
from tests.contract.engine.kinds import Kind

X = np.tile([0.0, 1.0, -1.0, 2.0], 30)
I = np.tile([3, 0, -1, 2], 30)  # noqa: E741


def lines(np: Any, x: Any, i: Any) -> Any:
    a = 1 / x + np.log(x - 5)
    b = np.sqrt(x) * 1e300 * 1e300
    c = 7 // i
    with np.errstate(divide="ignore", over="ignore"):
        d = 5 / x + np.exp(x * 1e4)
    return a + b + c + d


def told(program: Callable[[], Any]) -> list[tuple[str, str, int]]:
    """Texts, files and lines of the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        program()
    return sorted((str(one.message), one.filename, one.lineno) for one in seen if one.category is RuntimeWarning)


def tensors(size: int = 40) -> tuple[Any, Any]:
    return mt.asarray(X, chunk_size=size), mt.asarray(I, chunk_size=size)


def test_warnings_are_numpys_once_a_line(cluster: Cluster) -> None:
    theirs = told(lambda: lines(np, X, I))
    job = cluster.submit(lines(mt, *tensors()))
    assert told(lambda: job.result(60)) == sorted(set(theirs)) and len(theirs) > 3
    assert told(job.result) == told(job.wait) == []  # told once


EMPTY = np.array([[1.0, np.nan, 2.0, 3.0], [np.nan] * 4, [1.0, 2.0, np.nan, np.nan]])
SLICES: list[tuple[str, Callable[[Any], Any]]] = [
    ("Mean of empty slice", lambda x: np.nanmean(x, axis=1)),
    ("Mean of empty slice", lambda x: np.mean(x, axis=1, where=~np.isnan(x))),
    ("All-NaN slice encountered", lambda x: np.nanmin(x, axis=1) + np.nanmax(x, axis=1)),
    ("All-NaN slice encountered", lambda x: np.nanmedian(x, axis=1) + np.nanquantile(x, 0.3, axis=1)),
    ("Degrees of freedom <= 0 for slice.", lambda x: np.nanvar(x, axis=1, ddof=1) + np.nanstd(x, axis=1, ddof=1)),
    ("Degrees of freedom <= 0 for slice", lambda x: np.var(x, axis=1, ddof=1, where=~np.isnan(x))),
]


def test_slices_without_elements_warn_at_the_line(cluster: Cluster) -> None:
    for text, function in SLICES:
        x = mt.asarray(EMPTY, chunk_size=2)
        line = function.__code__.co_firstlineno
        assert told(lambda f=function, x=x: cluster.submit(f(x)).result(60)) == [(text, __file__, line)]
        assert not told(lambda f=function, x=x: cluster.submit(f(x[:1])).result(60))


def test_an_error_that_errstate_asks_for_is_raised(cluster: Cluster) -> None:
    x, _ = tensors()
    with np.errstate(divide="raise"):
        value = 1 / x + 0.5
    with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
        cluster.submit(value).result(60)


def test_a_warning_that_a_filter_makes_an_error_is_raised_at_the_line(cluster: Cluster) -> None:
    x, _ = tensors(30)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        job = cluster.submit(2 / x)
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
            job.result(60)


def test_a_client_that_connects_is_warned(kind: Kind) -> None:
    with kind.cluster() as cluster, connect(cluster.name) as other:
        assert told(lambda: cluster.submit(mt.log(tensors()[0] - 7)).result(60))
        theirs = told(lambda: lines(np, X, I))
        assert told(lambda: other.submit(lines(mt, *tensors(50))).result(60)) == sorted(set(theirs))
