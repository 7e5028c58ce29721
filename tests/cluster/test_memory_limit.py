"""A cluster never holds more than its limit and a tenth, whatever the graph of our operators."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config

LIMIT = 200 * 2**20
N = 3 * LIMIT // 8  # elements of an array of three times the limit
CHUNK = LIMIT // 8 // 32


def line(seed, n=N):
    return mt.random.default_rng(seed).random(n, chunk_size=CHUNK)


def table(seed, times=1.5):
    rows = int(times * LIMIT / 8 / 4096) // 256 * 256
    return mt.random.default_rng(seed).random((rows, 4096), chunk_size=(256, 2048))


def anomaly():
    x = table(1)
    return abs(x - x.mean(axis=0)).mean()


def transposed():
    side = int((1.2 * LIMIT / 8) ** 0.5) // 512 * 512
    x = mt.random.default_rng(2).random((side, side), chunk_size=512)
    return (x + x.T).sum(axis=0).max()


def normed():
    x = table(3)
    return ((x - x.mean(axis=0)) / x.std(axis=0)).max()


def product():
    x = mt.random.default_rng(4).random((32_768, 1024), chunk_size=(1024, 1024))
    y = x @ mt.random.default_rng(4).random((1024, 512), chunk_size=(1024, 512))
    return (y - y.mean(axis=0)).max() + x.min()


def recut():
    side = int((1.2 * LIMIT / 8) ** 0.5) // 512 * 512
    x = mt.random.default_rng(5).random((side, side), chunk_size=(128, side))
    return x.rechunk((side, 128)).sum(axis=0).max()


GRAPHS = {
    "sums": lambda: mt.stack([line(6).sum(), (line(7) * 2).max()]).sum(),
    "used twice": lambda: (lambda x: (x * x.mean() - x).std())(line(8)),
    "anomaly": anomaly,
    "transposed": transposed,
    "normed": normed,
    "product": product,
    "rechunk": recut,
    "sort": lambda: mt.sort(line(9, N // 2))[::1000].sum(),
    "running sum": lambda: mt.cumsum(line(10)).max(),
    "mask": lambda: (lambda x: x[x > 0.7].mean())(line(11)),
    "unique": lambda: mt.unique(mt.floor(line(12, N // 2) * 1000)).sum(),
    "neighbours": lambda: (lambda x: abs(x[1:] - x[:-1]).max())(line(13)),
    "joined": lambda: mt.concatenate([line(14, N // 2), line(15, N // 2)]).mean(),
    "percentiles": lambda: mt.percentile(line(16), [1, 50, 99]).sum(),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two workers and 200 MiB for all processes together."""
    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        yield cluster


@pytest.mark.long(beyond=4)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_limit_holds_whatever_the_graph(small, name):
    with config.using(task=config.task | {"redraw": False}):  # as arrays that are computed or read: they must be kept
        job = small.submit(GRAPHS[name]())
    assert job.wait(120) and job.error is None
    assert np.isfinite(job.result(60))
    told = [event[4] for event in job.events() if event[2] == "MemoryChanged"]
    most = max([one["resident"] for one in told] + [small.info()["memory"]["resident"]])
    assert most <= 1.1 * LIMIT, f"{most / LIMIT:.2f} of the limit"


def test_a_result_of_twice_the_limit_is_kept_and_read_in_parts(small):
    x = line(20, 2 * LIMIT // 8)
    y = x + 1
    job = small.submit(y)
    assert job.wait(120) and job.error is None
    for start in range(0, 2 * LIMIT // 8, LIMIT // 8):
        part = small.submit(y[start : start + LIMIT // 32]).result(60)
        assert part.min() >= 1 and part.max() < 2
    memory = small.info()["memory"]
    assert memory["spilled_total"] > LIMIT / 2 and memory["peak"] <= 1.1 * LIMIT
    assert job.result(60).shape == (2 * LIMIT // 8,)  # the notebook's own memory
    assert small.info()["memory"]["peak"] <= 1.1 * LIMIT


@pytest.mark.long
def test_thousands_of_small_chunks_are_kept_within_the_limit():
    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        x = mt.random.default_rng(21).random(15_000_000, chunk_size=500)
        job = cluster.submit(x + 1)  # 30,000 chunks of 4 KB
        assert job.wait(120) and job.error is None
        memory = cluster.info()["memory"]
        assert memory["spilled_total"] > 0 and memory["peak"] <= 1.1 * LIMIT


@pytest.mark.long
def test_large_graphs_one_after_another_leave_nothing_that_grows():
    with Cluster(n_workers=2, memory_limit=2 * LIMIT) as cluster:
        for k in range(4):
            total = mt.random.default_rng(k).random(1_000_000 + 10 * k, chunk_size=10).sum().fetch()
            assert abs(total / 1e6 - 0.5) < 0.01
        memory = cluster.info()["memory"]
        assert memory["peak"] <= 2.2 * LIMIT


@pytest.mark.long
def test_what_a_merge_of_parts_took_is_handed_back(small):
    small.submit(GRAPHS["percentiles"]()).result(60)
    assert max(worker["memory"] for worker in small.info()["workers"]) < 30 * 2**20  # 46 MiB where the parts stayed
