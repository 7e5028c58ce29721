"""Masked arrays on a cluster: computed together with others, planned, fetched."""

from __future__ import annotations

import numpy as np

import jmars
import jmars.tensor as mt


def test_masked_arrays_are_run_executed_fetched_and_planned_like_tensors():
    with jmars.Cluster(n_workers=2) as cluster:
        session = jmars.Session(cluster)
        x = mt.ma.masked_greater(mt.arange(100, chunk_size=30), 50)
        total, ones = session.run(x.sum(), mt.ones(3).sum())
        assert (int(total), float(ones)) == (1275, 3.0)
        assert session.execute(x) is x and all(cluster.retains(part.data) for part in x.parts())
        value, mean = session.fetch(x, x.mean())
        np.testing.assert_array_equal(value.mask, np.arange(100) > 50)
        assert mean == 25.0 and session.fetch(x[99]) is np.ma.masked
        assert jmars.plan_of(x * 2, x.data).spilled == 0
