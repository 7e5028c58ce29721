"""Values of a job as they come: while it runs, once each, in any order or in order, and what it raises at the end."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import jmars
import jmars.remote
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.remote import spawn


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as made:
        yield made


def waits(number, folder):
    """Return when the file of the number is there."""
    while number >= 0 and not (Path(folder) / str(number)).exists():
        time.sleep(0.005)
    return number


def test_values_come_before_the_job_ends(cluster: Cluster, tmp_path: Path):
    job = cluster.submit(jmars.remote.map(waits, [-1, 1, -3, 3], [str(tmp_path)] * 4))
    coming = job.as_completed()
    first = next(coming)
    assert first in ((0, -1), (2, -3)) and not job.wait(0)
    (tmp_path / "1").touch()
    assert sorted([first, next(coming), next(coming)]) == [(0, -1), (1, 1), (2, -3)] and not job.wait(0)
    (tmp_path / "3").touch()
    assert list(coming) == [(3, 3)]


def test_they_come_in_order_too_and_tensors_with_all_their_chunks(cluster: Cluster, tmp_path: Path):
    x = mt.arange(12, chunk_size=5).reshape(3, 4)
    late = spawn(waits, (7, str(tmp_path)))
    job = cluster.submit(x * 2, late, spawn(divmod, (7, 3), n_outputs=2), x.sum(), x[x > 3])
    coming = job.as_completed()
    found = dict(next(coming) for _ in range(4))
    assert found[0].tolist() == (2 * np.arange(12).reshape(3, 4)).tolist() and found[2] == (2, 1)
    assert found[3] == 66 and type(found[3]) is np.int64 and found[4].tolist() == list(range(4, 12))
    (tmp_path / "7").touch()
    assert list(coming) == [(1, 7)]
    assert [type(one) for one in cluster.submit(x, late, x.sum())] == [np.ndarray, int, np.int64]
    assert list(cluster.submit(spawn(abs, (-2,)))) == [2]


def test_a_byte_order_that_is_not_the_machines_stays(cluster: Cluster):
    x = mt.asarray(np.arange(5, dtype=">f8"), chunk_size=2)
    ((_, value),) = cluster.submit(x).as_completed()
    assert value.dtype == x.dtype == ">f8" and value.tolist() == [0, 1, 2, 3, 4]


def test_what_a_call_raises_comes_behind_the_values(cluster: Cluster):
    first = spawn(abs, (-1,))
    job = cluster.submit(first, spawn(lambda x: 1 / (x - 1), (first,)))
    found = []
    with pytest.raises(ZeroDivisionError):
        for one in job.as_completed():
            found.append(one)
    assert found in ([(0, 1)], [])


@pytest.mark.parametrize("schedulers", [0, 1])
def test_large_values_and_an_ended_job(schedulers: int):
    with jmars.Cluster(n_workers=1, schedulers=schedulers) as cluster:
        job = cluster.submit(jmars.remote.map(np.ones, [200_000, 3]))
        assert [len(one) for one in job] == [200_000, 3] and job.wait()
        assert [len(one) for one in job] == [200_000, 3]
        assert sorted(len(one) for _, one in cluster.job(job.id).as_completed()) == [3, 200_000]
