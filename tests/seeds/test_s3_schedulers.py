"""Seed 003, "准备执行图" and "Operand 选择策略": operands over all schedulers, and the order in a real run."""

import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.model import events
from jmars.model.status import OperandState as S
from jmars.remote import spawn
from jmars.scheduler.shards import highest
from tests.seeds.fold import Fold


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as one:
        yield one


def test_s3_7_three_schedulers_have_a_third_and_a_fourth_moves_a_quarter():
    operands = np.arange(3000, dtype=np.uint64)
    names = ["10.0.0.1:7101", "10.0.0.2:7101", "10.0.0.3:7101"]
    before = highest(operands, names)
    share = np.bincount(before, minlength=3) / 3000
    assert share.min() >= 0.25 and share.max() <= 0.42
    after = highest(operands, [*names, "10.0.0.4:7101"])
    assert (before != after).mean() < 0.35 and set(after[before != after]) == {3}


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_s3_7_operands_over_several_shards_give_what_one_gives(cluster, shards):
    a = (np.arange(300 * 300) * 7 % 1009).reshape(300, 300)

    def values():
        x = mt.asarray(a, chunk_size=100)
        y = (x @ x.T) % 1000
        return [y, mt.cumsum(y - x.sum(axis=0), axis=1), mt.sort(y.ravel())[::7], x[x % 5 == 0]]

    with config.using(task=config.task | {"shards": shards, "fuse_enabled": False}):
        asked = values()
        job = cluster.submit(*asked)
        spread = job.result()
        told = [data for _, _, kind, _, data in job.events() if kind == events.OPERANDS_SPREAD]
    assert told and all(len(one["operands"]) > 1 and min(one["operands"]) > 0 for one in told)
    y = (a @ a.T) % 1000
    for ours, theirs in zip(spread, [y, np.cumsum(y - a.sum(axis=0), axis=1), np.sort(y.ravel())[::7], a[a % 5 == 0]]):
        np.testing.assert_array_equal(ours, theirs)


def leaf(number):
    time.sleep(0.008)  # so that each goes alone, and the queue decides
    return number


def joined(left, right):
    time.sleep(0.008)
    return left + right


def stored(job):
    """Chunks that are stored after each move of an operand."""
    held, trace = set(), []
    for operand, state in Fold(job.events()).moves:
        held.add(operand) if state == S.FINISHED else held.discard(operand)
        trace.append(len(held))
    return trace


def test_s3_21_a_real_run_stores_few_chunks_unlike_level_by_level(cluster):
    most = {}
    for order in ("mars", "dfs", "level"):
        row = [spawn(leaf, (number,)) for number in range(32)]
        while len(row) > 1:
            row = [spawn(joined, pair) for pair in zip(row[::2], row[1::2])]
        with config.using(task=config.task | {"order": order}):
            job = cluster.submit(row[0])
            assert job.result() == sum(range(32))
        most[order] = max(stored(job))
    # all leaves before any is read, but for a few of a worker that the machine slows
    assert most["level"] >= 24, most
    assert most["mars"] <= 12 and most["dfs"] <= 12, most
