"""Loops over the elements of a tensor with a single axis: NumPy's scalars, from few jobs."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.tensor.small_parts import FETCHED_BYTES


@pytest.fixture
def jobs(cluster: Cluster):
    """Jobs since the test began."""
    before = {job["id"] for job in cluster.jobs()}
    return lambda: len({job["id"] for job in cluster.jobs()} - before)


def test_a_loop_over_elements_is_one_job(cluster, jobs, only_jobs):
    values = np.random.default_rng(0).integers(0, 9, 500)
    x = mt.asarray(values, chunk_size=100)
    assert not any(x > 100) and jobs() == 1
    assert (max(x), sum(x), sorted(x)[:3]) == (max(values), sum(values), sorted(values)[:3])
    assert jobs() <= 2  # x itself is computed once


def test_elements_hash_and_format_as_numpys(cluster):
    labels = mt.asarray([3, 1, 3, 3], chunk_size=2)
    assert dict(zip(*np.unique(labels, return_counts=True), strict=True)) == {1: 1, 3: 3}
    (one, *_), number = mt.asarray([0.5, 1.0]), mt.asarray(np.float32([2]))
    assert type(one) is np.float64 and [f"{v:.1f} {v!r}" for v in number] == ["2.0 np.float32(2.0)"]


@pytest.mark.parametrize("dtype", ["?", "u1", "f2", "c16", "S3", "U2", "M8[s]", "m8[D]"])
def test_elements_are_those_of_numpy(cluster, dtype):
    values = np.arange(4).astype(dtype)
    for one, other in zip(mt.asarray(values, chunk_size=3), values, strict=True):
        assert type(one) is type(other) and one == other


def test_more_than_a_block_is_fetched_in_blocks(cluster, jobs):
    n = 2 * FETCHED_BYTES // 8 + 3
    seen = [v for v in mt.arange(n, chunk_size=10**5) + 1 if v % 10**5 == 0]
    assert seen == list(range(10**5, n + 1, 10**5))
    assert jobs() <= 4  # the tensor, and its blocks


def test_elements_that_the_loop_writes_are_read_again(cluster):
    def run(x):
        for i, v in enumerate(x):
            if i < len(x) - 1:
                x[i + 1] += v
        return x

    assert run(mt.arange(6, chunk_size=4)).fetch().tolist() == run(np.arange(6)).tolist()
    x, y = mt.arange(5), np.arange(5)
    for u, v in zip(x[1:], y[1:], strict=True):  # elements of views too
        x *= 2
        y *= 2
        assert float(u) == float(v)


def test_rows_and_records_stay_tensors_that_share_memory(cluster):
    x = mt.zeros((3, 2))
    for row in x:
        row += 1
    assert x.fetch().tolist() == [[1, 1]] * 3
    records = mt.asarray(np.zeros(2, [("a", "i4"), ("b", "f8")]))
    assert all(isinstance(one, mt.Tensor) for one in records)


def test_nothing_is_fetched_where_no_value_can_be(cluster):
    def body(state):
        a, b = state  # of a graph that is only built here
        return mt.stack([a + 1, b * 2])

    assert mt.while_loop(lambda state: state.sum() < 30, body, mt.asarray([1, 1])).fetch().sum() >= 30


@pytest.mark.parametrize("n", [5, 3000])
@pytest.mark.parametrize("at", [0, 2, -1])
def test_a_loop_sees_writes_by_other_names_from_the_next_element_on(cluster, n, at):
    def run(whole):
        part = whole[1:]
        seen = []
        for i, v in enumerate(part):
            seen.append(float(v))
            if i == at % n:
                whole[:] = whole * 2
                del whole  # the part is the only name left
                part += 1
            if i > at % n + 2:
                break
        return seen

    assert run(mt.arange(n + 1, chunk_size=n)) == run(np.arange(n + 1))


def test_a_loop_that_ends_early_is_forgotten(cluster):
    x = mt.arange(5)
    assert any(x) and next(iter(x)) == 0
    assert not x.state().place.buffer.loops
