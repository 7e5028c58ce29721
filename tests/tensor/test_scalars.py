"""A result without axes is a scalar in NumPy: `s += 1` rebinds the name; arrays without axes are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt


def scalar_is_rebound(np: Any, x: Any) -> Any:
    s = x.sum()
    t = s
    s += 0.5
    return t, s


def array_is_written(np: Any, x: Any) -> Any:
    z = np.zeros(())
    w, v, u = z, z[...], np.asarray(3.0)
    z += 2
    t = u.copy()
    s = t
    t *= 3
    return w, v, z, s, t


def element_is_written(np: Any, x: Any) -> Any:
    y = x.copy()
    e = y[1, 2]
    e += 100
    y[0, 0] += 7
    return y, e


def copies_in_another_order(np: Any, x: Any) -> Any:
    y = x.copy()
    c, f = np.ascontiguousarray(y.T), np.asfortranarray(y)
    c[0, 0], f[1, 1] = 99, 77
    same = np.ascontiguousarray(y)
    same[2, 2] = 55
    return y, c, f, x.copy("F"), np.copy(f), np.ascontiguousarray(3.0)


@pytest.mark.parametrize("run", [scalar_is_rebound, array_is_written, element_is_written, copies_in_another_order])
def test_names_and_values_are_numpys(run: Any) -> None:
    a = np.arange(12).reshape(3, 4)
    for ours, theirs in zip(run(mt, mt.asarray(a)), run(np, a), strict=True):
        assert (ours.dtype, ours.shape, ours.strides) == (theirs.dtype, theirs.shape, theirs.strides)
        np.testing.assert_array_equal(ours.fetch(), theirs)
