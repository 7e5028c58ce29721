"""Dask's collections on jmars give what Dask gives."""

from __future__ import annotations

import numpy as np
import pytest

import jmars
from jmars.client.dask_graphs import dask_scheduler, get
from jmars.errors import GraphError

dask = pytest.importorskip("dask", reason="dask is not installed (extra jmars[dask])")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


def test_delayed_functions_run_in_worker_processes(cluster):
    import os

    with dask_scheduler():
        pids = dask.compute(*(dask.delayed(os.getpid, pure=False)() for _ in range(4)))
    assert os.getpid() not in pids
    squares = [dask.delayed(pow)(n, 2) for n in range(10)]
    assert dask.delayed(sum)(squares).compute(scheduler=get) == 285


def test_arrays(cluster):
    da = pytest.importorskip("dask.array")
    a = np.random.default_rng(0).normal(size=(60, 40))
    x = da.from_array(a, chunks=(20, 15))
    with dask_scheduler():
        np.testing.assert_allclose(x.mean(axis=0).compute(), a.mean(axis=0))
        np.testing.assert_allclose((x.T @ x).compute(), a.T @ a)
        np.testing.assert_array_equal(x.rechunk((7, 40))[::-1].compute(), a[::-1])
        one, other = dask.compute(x.sum(), x.max())
    assert (one, other) == (pytest.approx(a.sum()), a.max())


def test_bags(cluster):
    db = pytest.importorskip("dask.bag")
    with dask_scheduler():
        thirds = db.from_sequence(range(20), npartitions=4).filter(lambda n: n % 3 == 0)
        found = thirds.map(lambda n: n * n).sum().compute()
    assert found == sum(n * n for n in range(0, 20, 3))


def test_data_frames(cluster):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"kind": list("abcab") * 6, "value": np.arange(30.0)})
    lazy = dd.from_pandas(frame, npartitions=3).groupby("kind").value.mean()
    with dask_scheduler():
        found = lazy.compute()
    pd.testing.assert_series_equal(found, lazy.compute(scheduler="sync"))
    assert found.to_dict() == frame.groupby("kind").value.mean().to_dict()


def test_errors_of_tasks_come_back(cluster):
    def fails():
        raise ArithmeticError("as it was")

    with dask_scheduler(), pytest.raises(ArithmeticError, match="as it was"):
        dask.delayed(fails)().compute()
    with pytest.raises(GraphError, match="missing"):
        get({}, ["missing"])
    with dask_scheduler():
        assert dask.delayed(len)("next").compute() == 4
