"""Graphs that mean harm, or have bad luck: their own job ends in bounded time, the others never notice."""

import importlib
import os
import signal
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import JobCancelledError, OperandError, WorkerLostError
from jmars.tensor.spawn import spawn
from tests.cluster.operands import SlowToTile, apply, numbers, total


def works(cluster) -> bool:
    return cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


def one(out, inputs, number):
    out[...] = 1


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("I say nothing")


class Raises:
    """Raises where it is unpickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        return _raise, (self.error,)


def _raise(error):
    raise error


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), Silent(), ValueError("\ud800")])
def test_a_graph_whose_unpickling_raises_anything_fails_alone(error):
    bomb = Raises(error)

    def function(out, inputs, number):
        return bomb

    with Cluster(n_workers=1) as cluster:
        job = cluster.submit_data([apply(function, chunks=((10,),))])
        with pytest.raises((type(error), OperandError)):
            job.result(60)
        assert works(cluster)


def test_an_error_whose_text_cannot_be_encoded_travels():
    def function(out, inputs, number):
        raise ValueError("the file \udcff is not there")

    with Cluster(n_workers=1) as cluster:
        with pytest.raises(ValueError, match="is not there"):
            cluster.submit_data([apply(function, chunks=((10,),))]).result(30)
        assert cluster.events()[0] and works(cluster)


class PicklesOnce:
    """Fails when it is pickled the second time."""

    def __call__(self, out, inputs, number):
        out[...] = 1

    def __reduce__(self):
        return _no_more, ()


def _no_more():
    class Copy(PicklesOnce):
        def __reduce__(self):
            raise TypeError("not again")

    return Copy()


def test_a_function_that_pickles_only_once_fails_alone():
    with Cluster(n_workers=1) as cluster:
        good = cluster.submit_data([numbers(50)], single=True)
        with pytest.raises(TypeError, match="not again"):
            cluster.submit_data([apply(PicklesOnce(), chunks=((10,) * 5,))]).result(30)
        assert good.wait(30) and works(cluster)
        assert cluster.info()["memory"]["chunks"] == 50


def test_a_job_that_is_being_prepared_is_cancelled_at_once():
    with Cluster(n_workers=1) as cluster:
        node = numbers(3)
        object.__setattr__(node.op, "__class__", SlowToTile)
        job = cluster.submit_data([node])
        job.cancel()
        started = time.monotonic()
        with pytest.raises(JobCancelledError):
            job.result(60)
        assert time.monotonic() - started < 15  # of the half minute
        assert works(cluster)


def test_who_waits_behind_a_crashing_operand_is_not_to_blame():
    def die(out, inputs, number):
        time.sleep(0.05)  # lets the other job's operands come to wait in the same process
        os.kill(os.getpid(), signal.SIGKILL)

    with Cluster(n_workers=1) as cluster:
        guilty = cluster.submit_data([apply(die, chunks=((10,),))])
        other = cluster.submit_data([apply(one, chunks=((10,) * 3,))], single=True)
        with pytest.raises(WorkerLostError, match="ended 3 workers"):
            guilty.result(30)
        assert np.array_equal(other.result(30), np.ones(30))
        assert cluster.info()["workers"][0]["restarts"] == 3


def test_a_job_that_ends_workers_leaves_no_operand_in_between():
    def die(out, inputs, number):
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with Cluster(n_workers=1) as cluster:
        assert cluster.submit_data([apply(one, chunks=((10,) * 9,))]).wait(30)
        job = cluster.submit_data([apply(die, chunks=((10,) * 9,))])
        with pytest.raises(WorkerLostError):
            job.result(60)
        counts = {state: count for state, count in job.describe()["counts"].items() if count}
        assert set(counts) <= {"fatal", "cancelled"}, counts


def test_of_many_operands_sent_together_the_one_that_crashes_is_blamed():
    def fine(block):
        return block + 1

    def crash(block):
        if block[0] >= 3000:
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    for _ in range(3):
        with Cluster(n_workers=1) as cluster:
            x = mt.arange(4000, chunk_size=10)
            both = [mt.map_blocks(fine, x, dtype=int), mt.map_blocks(crash, x, dtype=int)]
            with pytest.raises(WorkerLostError, match=r"operand arange\+crash"):
                cluster.submit(*both).result(30)


def test_a_module_that_workers_do_not_have_is_named_with_what_to_do(tmp_path, monkeypatch):
    with Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        (tmp_path / "only_of_the_kernel.py").write_text("def more(block):\n    return block + 1\n")
        monkeypatch.syspath_prepend(tmp_path)
        more = importlib.import_module("only_of_the_kernel").more
        with pytest.raises(ModuleNotFoundError, match="only_of_the_kernel") as caught:
            mt.ones(4, chunk_size=2).map_blocks(more, dtype="f8").fetch()
        assert any("install the module on every host" in note for note in caught.value.__notes__)
        with pytest.raises(ModuleNotFoundError, match="only_of_the_kernel") as caught:
            spawn(callable, [more]).fetch()
        assert any("install the module on every host" in note for note in caught.value.__notes__)
        assert works(cluster)
