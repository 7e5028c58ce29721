"""Operands over schedulers: evenly, and moving little when one joins or leaves."""

import numpy as np
import pytest

from jmars.graph import Dag
from jmars.scheduler.shards import highest, subgraphs

KEYS = np.arange(30_000, dtype=np.uint64)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_each_scheduler_has_about_its_share(n):
    count = np.bincount(highest(KEYS, [f"s{i}" for i in range(n)]), minlength=n)
    assert count.min() > 0.95 * len(KEYS) / n and count.max() < 1.05 * len(KEYS) / n


def test_who_joins_takes_from_all_and_nothing_else_moves():
    before, after = highest(KEYS, ["a", "b", "c"]), highest(KEYS, ["a", "b", "c", "d"])
    moved = before != after
    assert set(after[moved]) == {3} and set(before[moved]) == {0, 1, 2}
    assert 0.23 < moved.mean() < 0.27


def test_names_decide_not_their_order():
    names = ["a", "b", "c"]
    turned = ["c", "a", "b"]
    same = [names[i] for i in highest(KEYS[:100], names)] == [turned[i] for i in highest(KEYS[:100], turned)]
    assert same


def test_no_key_at_all():
    assert highest(KEYS[:0], ["a", "b"]).tolist() == []
    assert subgraphs(Dag.from_edges(0, [], [])).tolist() == []


def test_a_chain_stays_together_and_a_vertex_follows_its_first_input():
    n = 1000
    chain = Dag.from_edges(n, np.arange(n - 1), np.arange(1, n))
    assert set(subgraphs(chain).tolist()) == {0}
    forest = Dag.from_edges(6, [0, 1, 2, 3, 4], [2, 3, 4, 4, 5])
    assert subgraphs(forest).tolist() == [0, 1, 0, 1, 0, 0]
