"""Seed 003, "Operand 状态" and "未来工作": states of operands, and what follows when chunks or workers are lost."""

import os
import signal
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.errors import OperandError
from jmars.model.limits import BATCH_OPERANDS
from jmars.model.status import OperandState as S
from jmars.remote import spawn
from jmars.scheduler.lifecycle import LEGAL, Happened, IllegalMoveError, check, step
from tests.cluster.operands import apply, numbers, total
from tests.seeds.fold import Fold

SHOWN = (S.SPILLED,)  # a fact of storage, shown like a state


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as one:
        yield one


def legal(fold):
    """Whether every move of every operand stands in the table."""
    for operand in range(fold.n):
        before = S.UNSCHEDULED
        for after in (state for one, state in fold.moves if one == operand and state not in SHOWN):
            if before != after and not (before == S.UNSCHEDULED and after == S.FINISHED):  # given, or back from disk
                check(before, after)
            before = after
    return True


def test_s3_15_the_table_of_moves_is_enforced_and_counts_add_up(cluster):
    assert set(LEGAL) == set(S) - set(SHOWN)
    with pytest.raises(IllegalMoveError, match="cannot meet UNNEEDED"):
        step(S.READY, Happened.UNNEEDED)
    with pytest.raises(IllegalMoveError, match="RUNNING to FREED"):
        check(S.RUNNING, S.FREED)
    good = cluster.submit_data([total(numbers(100))])
    bad = cluster.submit(spawn(sum, ([spawn(lambda: 1 / 0), spawn(lambda: 2)],)))
    stopped = cluster.submit_data([total(numbers(500, 1000))])
    stopped.cancel()
    for job in (good, bad, stopped):
        assert job.wait(60)
        told = job.describe()
        assert sum(told["counts"].values()) == told["operands"]
        if told["operands"]:
            fold = Fold(job.events())
            assert legal(fold) and set(fold.sums) == {fold.n}


def test_s3_16_a_chain_stores_two_chunks_and_results_stay(cluster):
    before = cluster.info()["memory"]["chunks"]
    with config.using(task=config.task | {"fuse_enabled": False, "fuse_tileable": False}):
        x = mt.ones(10, chunk_size=10)
        for _ in range(20):
            x = mt.cumsum(x)
        job = cluster.submit(x)
        assert job.wait(60) and job.error is None
    fold = Fold(job.events())
    assert fold.n >= 20
    stored, most = 0, 0
    for _, state in fold.moves:
        stored += (state == S.FINISHED) - (state == S.FREED)
        most = max(most, stored)
    assert most <= 2
    assert cluster.info()["memory"]["chunks"] == before + 1  # the result stays
    for operand, inputs in enumerate(fold.inputs):
        for source in inputs:  # what all have read is freed as they finish, and what has all it reads is ready then
            assert fold.first(operand, S.FINISHED) < fold.first(source, S.FREED)
            assert fold.first(source, S.FINISHED) < fold.first(operand, S.READY)
    del x, job
    deadline = time.monotonic() + 60
    while cluster.info()["memory"]["chunks"] != before:  # the Python object went, and with it the chunk
        assert time.monotonic() < deadline


def test_s3_17_after_a_run_every_operand_but_the_results_is_freed(cluster):
    before = cluster.info()["memory"]["arena"]["used"]
    job = cluster.submit_data([total(numbers(50, 1000))], single=True)
    assert job.result(60) == 1000 * sum(range(50))
    fold = Fold(job.events())
    assert sorted(fold.states).count(S.FINISHED) == 1 and fold.states.count(S.FREED) == fold.n - 1
    assert cluster.info()["memory"]["arena"]["used"] - before <= 4096  # one page for one number


def test_s3_17_a_failure_goes_to_all_dependents_and_the_rest_is_cancelled(cluster):
    bad = spawn(lambda: 1 / 0)
    job = cluster.submit(spawn(sum, ([spawn(abs, (bad,)), spawn(abs, (1,))],)))
    with pytest.raises((ZeroDivisionError, OperandError)):
        job.result(60)
    assert job.describe()["counts"]["fatal"] == 3
    assert job.describe()["counts"]["cancelled"] + job.describe()["counts"]["freed"] == 1


def read_twice():
    """A large array read once for its sum and once more for what is left of it then: its chunks wait, on disk."""

    def minus(out, inputs, number):
        out[...] = inputs[0] - inputs[1] / inputs[0].size

    node = numbers(COUNT, SIZE)
    whole = total(node)
    spread = apply(lambda out, inputs, number: out.fill(float(inputs[0])), whole, chunks=((1,) * COUNT,), gather=True)
    return total(apply(minus, node, spread))


COUNT, SIZE = 60, 2**20  # 480 MiB
VALUE = SIZE * sum(range(COUNT)) * (1 - COUNT)


def test_s3_35_an_operand_whose_input_is_lost_waits_for_it_again(tmp_path):
    with Cluster(n_workers=2, memory_limit="240MiB", spill_dir=tmp_path) as cluster:
        with config.using(task=config.task | {"fuse_enabled": False}):
            job = cluster.submit_data([read_twice()], single=True)
        gone = 0
        while not job.wait(0.01):
            for path in list(tmp_path.glob("*/*"))[: 5 if gone < 5 else 0]:
                path.unlink(missing_ok=True)
                gone += 1
        assert job.result() == VALUE
        fold = Fold(job.events())
        lost = [event[4] for event in job.events() if event[2] == "ChunksLost"]
        assert lost and legal(fold)
        again = {operand for one in lost for operand in one["operands"]}
        back = set(fold.times(S.UNSCHEDULED)) - again  # readers that a worker had
        assert all(fold.inputs[reader] & again for reader in back)
        ends = fold.times(S.FINISHED)
        reruns = sum(len(one["operands"]) for one in lost)
        assert set(fold.times(S.RUNNING)) == set(range(fold.n))
        assert sum(fold.times(S.RUNNING).values()) == fold.n + reruns  # what was lost, and nothing else
        assert all(ends[operand] >= 2 for operand in again)


def test_s3_36_a_worker_killed_in_the_middle_costs_only_what_it_had(tmp_path):
    with Cluster(n_workers=3) as cluster:

        def double(out, inputs, number):
            np.multiply(inputs[0], 2, out=out)
            np.sin(np.linspace(0, 1, 50_000))

        job = cluster.submit_data([total(apply(double, apply(double, numbers(300, 10_000))))], single=True)
        while job.describe()["counts"]["finished"] + job.describe()["counts"]["freed"] < 50:
            pass
        victim = cluster.info()["workers"][1]["pid"]
        os.kill(victim, signal.SIGKILL)
        assert job.result(30) == 4 * 10_000 * sum(range(300))
        fold = Fold(job.events())
        assert legal(fold) and set(fold.times(S.FINISHED).values()) == {1}  # what was finished is not done again
        assert sum(fold.times(S.RUNNING).values()) - fold.n <= 2 * BATCH_OPERANDS
        assert victim not in [worker["pid"] for worker in cluster.info()["workers"]]
