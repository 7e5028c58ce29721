"""A mask with a single chunk is read in parts, one for each worker: the elements are NumPy's, in NumPy's order."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.ops import getitem


@pytest.fixture
def arrays(cluster, monkeypatch):
    """Two arrays as NumPy's and as tensors of a single chunk, and a mask of their rows."""
    monkeypatch.setattr(getitem, "MASK_PART_ELEMENTS", 2)
    rng = np.random.default_rng(0)
    a, b = rng.random(23), rng.random((23, 2))
    return a, b, a > 0.4, mt.asarray(a), mt.asarray(b), mt.asarray(a) > 0.4


def test_each_worker_selects_from_a_part(cluster, arrays):
    a, b, m, x, y, k = arrays
    assert len(x[k].data.chunks[0]) == cluster.n_workers > 1
    np.testing.assert_array_equal(x[k].fetch(), a[m])
    np.testing.assert_array_equal(y[k].fetch(), b[m])
    np.testing.assert_array_equal(mt.compress(k, y.T, axis=1).fetch(), b.T[:, m])
    np.testing.assert_array_equal(mt.nonzero(k)[0].fetch(), np.nonzero(m)[0])
    np.testing.assert_array_equal(mt.sort(x[k])[1:].fetch(), np.sort(a[m])[1:])
    np.testing.assert_array_equal(y[y > 0.5].fetch(), b[b > 0.5])  # of both axes


def test_arrays_selected_by_one_mask_have_equal_lengths(arrays):
    a, b, m, x, y, k = arrays
    both = x[k] + y[k][:, 0]
    assert both.data.has_unknown_lengths  # nothing had to be computed
    np.testing.assert_array_equal(both.fetch(), a[m] + b[m][:, 0])


def test_lengths_that_are_known_by_now_are_kept(arrays):
    a, _, m, x, _, k = arrays
    x[k].execute()
    np.testing.assert_array_equal((x[k] * 2).fetch(), a[m] * 2)


def test_values_are_written_back_part_by_part(arrays):
    a, b, m, x, y, k = arrays
    x[k] *= 2
    y[k] = y[k] - 1
    a[m] *= 2
    b[m] -= 1
    np.testing.assert_array_equal(x.fetch(), a)
    np.testing.assert_array_equal(y.fetch(), b)
