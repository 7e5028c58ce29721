"""Random orders: choices, permutations and shuffles, of few and of many."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.ops.numpy_random import RandomState
from jmars.tensor.ops.random_generator import Generator
from jmars.tensor.ops.random_streams import permute
from tests.tensor.cut import same


def test_choice():
    rng = Generator(0)
    picked = rng.choice([1.5, 2.5, 4.0], 10_000, p=[0.2, 0.3, 0.5], chunk_size=3_000).fetch()
    assert np.allclose([(picked == v).mean() for v in (1.5, 2.5, 4.0)], [0.2, 0.3, 0.5], atol=0.02)
    assert sorted(rng.choice(5, 5, replace=False).fetch().tolist()) == [0, 1, 2, 3, 4]
    assert set(rng.choice(mt.arange(3), 100).fetch().tolist()) == {0, 1, 2}
    with pytest.raises(ValueError, match="do not sum to 1"):
        rng.choice(2, 3, p=[0.5, 0.6])
    for wrong in [(0, 3), (2, 3, False)]:
        with pytest.raises(ValueError):
            np.random.default_rng(0).choice(*wrong)
        with pytest.raises(ValueError):
            rng.choice(*wrong)


TABLE = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("make, theirs", [(Generator, np.random.default_rng), (RandomState, np.random.RandomState)])
@pytest.mark.parametrize(
    "what",
    [
        lambda rng: rng.choice(9, 4),
        lambda rng: rng.choice([3, 1, 4], (2, 3), p=[0.1, 0.2, 0.7]),
        lambda rng: rng.choice(9, 4, replace=False),
        lambda rng: rng.choice([2, 7, 8], 2, False, [0.2, 0.3, 0.5]),
        lambda rng: rng.permutation(10),
        lambda rng: rng.permutation(np.arange(7.0)),
        lambda rng: rng.permutation(TABLE),
        lambda rng: rng.multivariate_normal([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]], 5),
        lambda rng: rng.multivariate_normal([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]),
    ],
)
def test_choices_and_orders_are_numpys(make, theirs, what):
    ours, theirs = make(8), theirs(8)
    for _ in range(2):
        same(what(ours), what(theirs))


@pytest.mark.parametrize("axis", [0, 1])
def test_choices_and_orders_along_axes_are_numpys(axis):
    ours, theirs = Generator(8), np.random.default_rng(8)
    for _ in range(2):
        same(ours.choice(TABLE, 3, axis=axis), theirs.choice(TABLE, 3, axis=axis))
        same(ours.permutation(TABLE, axis), theirs.permutation(TABLE, axis))
        same(ours.permuted(TABLE, axis=axis), theirs.permuted(TABLE, axis=axis))
        x, y = mt.asarray(TABLE, chunk_size=2), TABLE.copy()
        ours.shuffle(x, axis)
        theirs.shuffle(y, axis)
        same(x, y)
    same(ours.permuted(TABLE), theirs.permuted(TABLE))


@pytest.mark.parametrize("make", [Generator, RandomState])
@pytest.mark.parametrize("n", [131_073, 262_144, 300_000])
def test_long_orders_are_orders(make, n):
    whole = make(4).permutation(n, chunk_size=n).fetch()
    assert np.array_equal(np.sort(whole), np.arange(n))
    assert abs(np.corrcoef(whole, np.arange(n))[0, 1]) < 0.01
    assert abs(np.corrcoef(whole[1:], whole[:-1])[0, 1]) < 0.01
    assert abs((np.diff(whole) > 0).mean() - 0.5) < 0.01
    same(make(4).permutation(n, chunk_size=40_000), whole)
    some = make(4).choice(n, 131_073, replace=False).fetch()
    assert len(set(some.tolist())) == some.size and some.min() >= 0 and some.max() < n
    assert not np.array_equal(make(5).permutation(n).fetch(), whole)


def test_orders_of_few_come_all_alike():
    """Each of the 24 orders of four things, by 6,000 keys: chi squared of 23 degrees."""
    rng, counts = np.random.default_rng(2), {}
    for _ in range(6000):
        order = tuple(permute(np.arange(4, dtype=np.uint64), 4, rng.integers(0, 2**64, 6, np.uint64)).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert sum((n - 250) ** 2 / 250 for n in counts.values()) < 49.7  # larger by chance once in a thousand


def test_large_tensors_are_shuffled():
    x = mt.arange(150_000, chunk_size=40_000)
    Generator(1).shuffle(x)
    assert x.chunks == ((40_000, 40_000, 40_000, 30_000),)
    value = x.fetch()
    assert np.array_equal(np.sort(value), np.arange(150_000)) and value[0] != 0
    lines = Generator(1).permuted(mt.arange(160_000, chunk_size=30_000).reshape(400, 400), axis=1).fetch()
    assert np.array_equal(np.sort(lines, 1), np.arange(160_000).reshape(400, 400))
    assert (np.diff(lines, axis=0) != 400).any()
