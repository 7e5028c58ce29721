"""Tensors where NumPy's functions take arrays as parameters beside their first argument: used, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt

TABLE, LINE, FEW = np.arange(12.0).reshape(3, 4), np.array([1.0, 3.0, 5.0]), np.array([1, 2, 0])
# (NumPy or ours, what makes an array of it): the call
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda m, w: m.clip(w(TABLE), w(2.0), w(5.0)),
    "interp": lambda m, w: m.interp(w(LINE), w(LINE), w(LINE * 2)),
    "digitize": lambda m, w: m.digitize(w(TABLE), w(LINE)),
    "histogram": lambda m, w: m.histogram(w(TABLE), w(LINE))[0],
    "histogram2d": lambda m, w: m.histogram2d(w(LINE), w(LINE), bins=[w(LINE), w(LINE)])[0],
    "polyval": lambda m, w: m.polyval(w(LINE), w(TABLE)),
    "polyfit": lambda m, w: m.polyfit(w(LINE), w(LINE), 1, w=w(LINE)),
    "repeat": lambda m, w: m.repeat(w(LINE), w(FEW)),
    "roll": lambda m, w: m.roll(w(TABLE), w(2)),
    "insert a value": lambda m, w: m.insert(w(LINE), 1, w(7.0)),
    "insert values": lambda m, w: m.insert(w(LINE), w([0, 2]), w([7.0, 8.0])),
    "delete": lambda m, w: m.delete(w(LINE), w([0])),
    "pad": lambda m, w: m.pad(w(LINE), 2, constant_values=w(3.0)),
    "full": lambda m, w: m.full((3,), w(3.0)),
    "full_like": lambda m, w: m.full_like(w(LINE), w(3.0)),
    "linspace": lambda m, w: m.linspace(w(0.0), w(3.0), 5),
    "logspace": lambda m, w: m.logspace(w(0.0), 2, 4),
    "arange": lambda m, w: m.arange(w(3)),
    "take": lambda m, w: m.take(w(TABLE), w([0, 2]), axis=1),
    "take_along_axis": lambda m, w: m.take_along_axis(w(TABLE), w([[0], [1], [2]]), 1),
    "choose": lambda m, w: m.choose(w([0, 1, 0]), [w(LINE), w(-LINE)]),
    "where": lambda m, w: m.where(w(LINE) > 2, w(LINE), w(0.0)),
    "select": lambda m, w: m.select([w(LINE) > 2], [w(LINE)], w(9.0)),
    "isin": lambda m, w: m.isin(w(TABLE), w(LINE)),
    "searchsorted": lambda m, w: m.searchsorted(w(LINE), w(TABLE)),
    "average": lambda m, w: m.average(w(TABLE), weights=w(LINE), axis=0),
    "quantile": lambda m, w: m.quantile(w(TABLE), w([0.2, 0.5]), axis=0),
    "percentile": lambda m, w: m.percentile(w(TABLE), w(30.0), 1, weights=w(np.arange(4.0)), method="inverted_cdf"),
    "cov": lambda m, w: m.cov(w(TABLE), aweights=w(np.arange(1.0, 5))),
    "trapezoid": lambda m, w: m.trapezoid(w(TABLE), w(np.arange(4.0)), axis=1),
    "gradient": lambda m, w: m.gradient(w(LINE), w(LINE)),
    "diff": lambda m, w: m.diff(w(LINE), prepend=w([0.0])),
    "ediff1d": lambda m, w: m.ediff1d(w(LINE), to_end=w([9.0])),
    "bincount": lambda m, w: m.bincount(w([0, 1, 1]), w(LINE)),
    "unwrap": lambda m, w: m.unwrap(w(TABLE), period=w(6.0)),
    "piecewise": lambda m, w: m.piecewise(w(LINE), [w(LINE) > 2], [w(1.0), 2.0]),
    "sum where": lambda m, w: m.sum(w(TABLE), where=w(TABLE > 3)),
    "sum from": lambda m, w: m.sum(w(TABLE), initial=w(3.0)),
    "matrix_rank": lambda m, w: m.linalg.matrix_rank(w(TABLE), w(0.1)),
    "lstsq": lambda m, w: m.linalg.lstsq(w(TABLE), w(LINE), rcond=w(0.1))[0],
    "pinv": lambda m, w: m.linalg.pinv(w(TABLE), w(0.1)),
    "reshape": lambda m, w: m.reshape(w(TABLE), w([4, 3])),
    "tile": lambda m, w: m.tile(w(LINE), w([2, 2])),
    "rot90": lambda m, w: m.rot90(w(TABLE), w(1)),
    "round": lambda m, w: m.round(w(TABLE) / 3, w(1)),
    "split": lambda m, w: m.split(w(np.arange(6.0)), w([2, 4]))[1],
    "unravel_index": lambda m, w: m.unravel_index(w([1, 5]), (3, 4))[0],
    "ravel_multi_index": lambda m, w: m.ravel_multi_index((w([1, 2]), w([1, 2])), (3, 4)),
    "an index": lambda m, w: w(TABLE)[w([0, 2]), w([1, 1])],
    "random.poisson": lambda m, w: m.random.default_rng(0).poisson(w(LINE), size=3) * 0,
    "random.choice": lambda m, w: m.random.default_rng(0).choice(w(LINE), 3, p=w([0.2, 0.3, 0.5])),
    "roots": lambda m, w: m.roots(w(LINE)),
    "polymul": lambda m, w: m.polymul(w(LINE), w([1.0, 2.0])),
}


@pytest.mark.parametrize("name", CALLS)
def test_parameters_may_be_tensors(name):
    expected = CALLS[name](np, np.asarray)
    found = CALLS[name](mt, lambda array: mt.asarray(np.asarray(array), chunk_size=2))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-12)
    assert found.dtype == expected.dtype
