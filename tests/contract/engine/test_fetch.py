"""Values go in and out: more than a worker may hold, parts, views."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from tests.contract.engine.kinds import until


def test_an_array_goes_in_and_out_in_odd_chunks(cluster):
    values = np.random.default_rng(2).random((700, 301))
    x = mt.asarray(values, chunk_size=(256, 77))
    for wanted, lazy in [(values, x), (values.T, x.T), (values[5:600:7, ::-1], x[5:600:7, ::-1])]:
        np.testing.assert_array_equal(cluster.submit(lazy).result(30), wanted)
    np.testing.assert_array_equal(cluster.submit(x * 1).result(30), values)


def test_parts_of_a_result_are_read_where_it_lies(cluster):
    x = mt.arange(600_000, chunk_size=170_000) * 2
    jmars.Session(cluster).execute(x)
    assert cluster.retains(x.data)
    assert x[1234].fetch() == 2468
    np.testing.assert_array_equal(x[100_000:500_000:50_000].fetch(), np.arange(200_000, 1_000_000, 100_000))
    assert x[3:3].fetch().shape == (0,)
    assert [int(value) for value in x[-3:]] == [1_199_994, 1_199_996, 1_199_998]


def test_values_are_owned_and_views_are_read_only(cluster):
    x = mt.arange(100_000) + 1
    jmars.Session(cluster).execute(x)
    owned = cluster.fetch(x.data)
    owned[0] = 5
    view = cluster.fetch(x.data, copy=False)
    assert view[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 7
    zero = (x.sum() * 0).fetch()
    assert zero == 0 and zero.shape == ()


def test_results_are_gone_with_their_last_name(cluster):
    gc.collect()
    until(lambda: cluster.info()["memory"]["chunks"] == 0)
    x = mt.arange(1000, chunk_size=300) * 2
    jmars.Session(cluster).execute(x)
    assert cluster.info()["memory"]["chunks"] == 4
    del x
    gc.collect()
    until(lambda: cluster.info()["memory"]["chunks"] == 0)


@pytest.mark.long
def test_a_result_larger_than_the_share_of_a_worker(cluster, kind):
    size = int(kind.share * 1.1)
    x = mt.arange(size, chunk_size=kind.share // 2**13 * 2**10, dtype="u4").astype("u1")
    value = cluster.submit(x).result(60)
    assert value.shape == (size,) and value.dtype == np.uint8
    assert (value[:1024] == np.arange(1024).astype("u1")).all() and value[-1] == (size - 1) % 256
    assert all((value[start : start + 256] == value[:256]).all() for start in range(0, size - 256, 2**22))
