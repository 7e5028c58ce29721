"""Seed 003, "作业提交", "取消作业" and "执行控制": jobs from submission to their end, on real clusters."""

import random
import threading
import time

import cloudpickle
import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.errors import JobCancelledError
from jmars.model.status import OperandState as S
from jmars.remote import spawn
from tests.cluster.operands import SlowToTile, apply, numbers, total
from tests.seeds.fold import Fold


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as one:
        yield one


@pytest.fixture
def gate(tmp_path):
    """A file for which operands wait, and what opens it."""
    path = tmp_path / "open"

    def wait():
        while not path.exists():
            time.sleep(0.002)  # in a worker, for this test's word

    yield wait, path.touch
    path.touch()


def behind(gate):
    """An operand that waits for the gate, and one that reads it."""
    wait, _ = gate

    def slow(number):
        wait()
        return number

    return spawn(lambda one: one + 1, (spawn(slow, (5,)),))


def until(condition, seconds=60):
    """Wait for a condition; another process brings it about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.002)


def running(job, at_least=1):
    return lambda: job.describe()["counts"]["running"] >= at_least


def test_s3_4_a_session_makes_a_graph_actor_for_each_job(cluster, gate):
    slow = cluster.submit(behind(gate))
    until(running(slow))
    quick = cluster.submit(mt.arange(10, chunk_size=2).sum())
    wrong = cluster.submit(spawn(lambda: 1 / 0))
    assert quick.result(60) == 45  # beside the other, on a worker that has room
    assert wrong.wait(60) and isinstance(wrong.error, ZeroDivisionError)
    assert [job.describe()["state"] for job in (slow, quick, wrong)] == ["running", "succeeded", "failed"]
    gate[1]()
    assert slow.result(60) == 6
    assert len({slow.id, quick.id, wrong.id}) == 3


def test_s3_5_every_state_of_a_job_is_seen_until_its_end(cluster, gate):
    node = numbers(3)
    object.__setattr__(node.op, "__class__", SlowToTile)
    preparing = cluster.submit_data([node])
    until(lambda: preparing.state == "preparing")
    preparing.cancel()
    good, stopped, bad = (
        cluster.submit(behind(gate)),
        cluster.submit(behind(gate)),
        cluster.submit(spawn(lambda: 1 / 0)),
    )
    until(lambda: good.state == stopped.state == "running")
    stopped.cancel()
    assert stopped.wait(60) and bad.wait(60) and preparing.wait(60)
    gate[1]()
    assert good.wait(60)
    seen = {job.name: Fold(job.events()).job_states if job is not preparing else None for job in (good, stopped, bad)}
    assert seen[good.name] == ["preparing", "running", "succeeded"]
    assert seen[stopped.name][0] == "preparing" and seen[stopped.name][-2:] == ["cancelling", "cancelled"]
    assert seen[bad.name] == ["preparing", "running", "cancelling", "failed"]
    assert preparing.state == "cancelled"


def test_s3_6_the_four_phases_of_preparation_are_logged_in_order(cluster):
    x = mt.ones((40, 40), chunk_size=7)
    job = cluster.submit(((x + 1) @ x).sum(axis=0))
    job.result(60)
    kinds = [event[2] for event in job.events()]
    (prepared,) = [event[4]["phases"] for event in job.events() if event[2] == "JobPrepared"]
    assert [name for name, _ in prepared] == ["compile", "rank", "place", "rows"]
    assert all(0 <= seconds < 20 for _, seconds in prepared) and sum(seconds for _, seconds in prepared) > 0
    first = kinds.index("OperandsMoved")
    assert kinds.index("JobSubmitted") < kinds.index("JobPrepared") < kinds.index("GraphBuilt") < first


def test_s3_6_a_cancel_is_looked_for_between_the_phases():
    from jmars.scheduler.prepare import PHASES, prepare
    from jmars.tensor.structure import canonical
    from jmars.tensor.tensor_graph import TensorGraph

    asked = []
    graph = canonical(TensorGraph.of([(mt.ones(10, chunk_size=3) + 1).sum().data]))
    prepare(cloudpickle.loads(cloudpickle.dumps(graph)), {}, ["a"], lambda: asked.append(1))
    assert len(asked) >= len(PHASES) - 1
    for nth in range(len(asked)):
        left = iter(range(nth))
        with pytest.raises(StopIteration):
            prepare(graph, {}, ["a"], lambda left=left: next(left))


def test_s3_8_no_operand_starts_before_its_inputs(cluster):
    chance = random.Random(8)
    with config.using(task=config.task | {"fuse_enabled": False}):
        jobs = []
        for _ in range(200):
            tasks = []
            for _ in range(chance.randint(1, 10)):
                tasks.append(spawn(add, (1, *chance.sample(tasks, min(len(tasks), chance.randint(0, 3))))))
            jobs.append((cluster.submit(tasks[-1]), tasks))
        for job, _ in jobs:
            assert job.wait(60) and job.error is None
    checked = 0
    for job, _ in jobs[-40:]:  # the log is bounded
        fold = Fold(job.events())
        for operand, inputs in enumerate(fold.inputs):
            for source in inputs:
                assert fold.first(operand, S.READY) < fold.first(operand, S.RUNNING)
                if fold.first(source, S.FINISHED) > fold.first(operand, S.READY):  # in one batch, the source first
                    assert fold.worker(operand) == fold.worker(source)
                    assert fold.first(source, S.RUNNING) < fold.first(operand, S.RUNNING)
                    assert fold.first(source, S.FINISHED) < fold.first(operand, S.FINISHED)
                checked += 1
        assert set(fold.times(S.FINISHED).values()) == {1}
        assert fold.job_states.count("succeeded") == 1
    assert checked > 40


def add(*parts):
    return sum(parts)


def failing(folder, times, error=OSError):
    """A function that raises so many times, counted by files, and then gives how often it was called."""

    def once():
        calls = len(list(folder.iterdir())) + 1
        (folder / str(calls)).touch()
        if calls <= times:
            raise error(f"no answer, call {calls}")
        return calls

    return once


@pytest.mark.parametrize("error", [OSError, EOFError, ConnectionResetError])
def test_s3_12_an_operand_that_fails_twice_and_then_succeeds_passes(cluster, tmp_path, error):
    assert cluster.submit(spawn(failing(tmp_path, 2, error))).result(60) == 3


@pytest.mark.parametrize("error", [OSError, EOFError])
def test_s3_12_an_operand_that_always_fails_is_fatal_after_four_tries(cluster, tmp_path, error):
    other = spawn(add, (1, 2))
    first = spawn(failing(tmp_path, 99, error))
    job = cluster.submit(spawn(add, (spawn(add, (first, 1)), other)))
    with pytest.raises(error, match="no answer, call 4") as caught:  # the operand's own text
        job.result(60)
    assert len(list(tmp_path.iterdir())) == 4
    assert "tried 4 times" in "".join(caught.value.__notes__)
    counts = job.describe()["counts"]
    assert (counts["fatal"], counts["freed"] + counts["cancelled"], job.state) == (3, 1, "failed")  # as it was in time


def test_s3_12_an_operand_without_memory_is_tried_again_alone(cluster, tmp_path):
    assert cluster.submit(spawn(failing(tmp_path, 1, MemoryError))).result(60) == 2


def test_s3_12_an_error_that_comes_again_is_raised_after_one_try(cluster, tmp_path):
    with pytest.raises(ValueError, match="no answer, call 1") as caught:
        cluster.submit(spawn(failing(tmp_path, 1, ValueError))).result(60)
    assert len(list(tmp_path.iterdir())) == 1
    assert "tried once; retries=n asks for more" in "".join(caught.value.__notes__)


def test_s3_12_a_user_says_how_often(cluster, tmp_path):
    def wrong(folder):
        (folder / f"{time.monotonic_ns()}").touch()
        raise ValueError("never")

    folders = [tmp_path / name for name in "abc"]
    for folder, retries in zip(folders, (0, 1, 2)):
        folder.mkdir()
        with pytest.raises(ValueError, match="never"):
            cluster.submit(spawn(wrong, (folder,), retries=retries)).result(60)
        assert len(list(folder.iterdir())) == 1 + retries
    with config.using(task=config.task | {"retries": 1}):
        job = cluster.submit(spawn(wrong, (tmp_path,)))
    with pytest.raises(ValueError, match="never"):
        job.result(60)
    assert len(list(tmp_path.iterdir())) == 3 + 2
    with pytest.raises(ValueError, match=r"retries is -1; give a number from 0 to 100"):
        spawn(add, retries=-1)
    with pytest.raises(TypeError, match=r"retries is 2\.5; give a whole number"):
        spawn(add, retries=2.5)


def test_s3_12_errors_of_numpy_are_not_retried_without_the_setting(cluster):
    def tries():
        job = cluster.submit(mt.linalg.inv(mt.zeros((3, 3))))
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            job.result(60)
        return Fold(job.events()).times(S.RUNNING)

    assert set(tries().values()) == {1}
    with config.using(task=config.task | {"retries": 2}):
        assert max(tries().values()) == 3


def test_s3_14_cancel_of_operands_by_their_state(gate):
    with Cluster(n_workers=2) as cluster:
        wait, opened = gate

        def slow(out, inputs, number):
            wait()
            out[...] = number

        node = apply(slow, chunks=((10,) * 40,))
        job = cluster.submit_data([total(node)])
        until(running(job))
        before = cluster.info()["memory"]["chunks"]
        job.cancel()
        assert job.wait(60)
        with pytest.raises(JobCancelledError):
            job.result(1)
        fold = Fold(job.events())
        ran = set(fold.times(S.RUNNING))
        assert set(fold.times(S.CANCELLING)) <= ran  # only what ran is told to stop
        assert set(fold.states) <= {S.CANCELLED, S.FREED}
        for operand in set(range(fold.n)) - ran:
            moves = [state for one, state in fold.moves if one == operand]
            assert moves in ([S.CANCELLED], [S.READY, S.CANCELLED])  # at once
        assert before == cluster.info()["memory"]["chunks"] == 0  # nothing is left in any store
        opened()
        assert cluster.submit_data([total(numbers(3))], single=True).result(60) == 30


def test_s3_14_cancel_in_every_phase_leaves_nothing_and_the_next_job_runs(cluster):
    held = cluster.info()["memory"]["chunks"]
    for number in range(12):
        job = cluster.submit_data([total(numbers(200, 100))])
        threading.Event().wait(0.002 * number)
        job.cancel()
        assert job.wait(60)
    del job
    assert (cluster.submit(mt.arange(9, chunk_size=2) * 2).result(60) == 2 * np.arange(9)).all()
    until(lambda: cluster.info()["memory"]["chunks"] <= held + 5)
