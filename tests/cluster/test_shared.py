"""Arrays go in and out through shared memory."""

import gc
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import ArrayChangedError
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import new_data
from tests.cluster.operands import apply, numbers, total


def outside(array, splits):
    return new_data(FromArray(array=array), array.shape, array.dtype, splits)


def test_a_view_pins_its_slot_and_stays_valid_after_close():
    with Cluster(n_workers=1) as cluster:
        node = numbers(1, 1000)
        cluster.submit_data([node]).wait(30)
        view = cluster.fetch(node, copy=False)
        part = view[10:20]
        del view
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1
        del node  # dropped on the cluster, but the slot is pinned
        cluster.submit_data([total(numbers(20, 1000))]).wait(30)
        assert np.array_equal(part, np.zeros(10))
    assert np.array_equal(part, np.zeros(10))
    del part
    gc.collect()


def test_an_outside_array_enters_with_the_value_of_its_submission():
    array = np.arange(60.0).reshape(6, 10)

    def same(out, inputs, number):
        out[...] = inputs[0]

    with Cluster(n_workers=1) as cluster:
        node = outside(array, ((4, 2), (3, 3, 3, 1)))
        for _ in range(3):
            job = cluster.submit_data([apply(same, node)], single=True)
            array += 1
            assert np.array_equal(job.result(30), array - 1)
        job = cluster.submit_data([node], single=True)
        assert np.array_equal(job.result(30), array)
        del node, job
        assert cluster.info()["memory"]["chunks"] == 0


def test_tensors_move_to_the_cluster_where_they_are_used():
    with Cluster(n_workers=1) as first, Cluster(n_workers=1) as second:
        node = numbers(4, 1000)
        first.submit_data([node]).wait(30)
        assert second.submit_data([total(node)], single=True).result(30) == 6000
        assert second.retains(node)


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("actor, method", [("store", "reserve"), ("store", "seal"), ("session", "keep")])
def test_an_upload_that_is_interrupted_leaves_nothing(actor, method, monkeypatch):
    with Cluster(n_workers=1) as cluster:
        ask = cluster._connection.ask
        asked = []

        def interrupted(*message, **how):
            answer = ask(*message, **how)
            if message[:2] == (actor, method):
                asked.append(message)
                if len(asked) == (2 if actor == "store" else 1):
                    raise KeyboardInterrupt  # the cluster has heard, we have not
            return answer

        monkeypatch.setattr(cluster._connection, "ask", interrupted)
        node = outside(np.arange(40.0), ((10, 10, 10, 10),))
        with pytest.raises(KeyboardInterrupt):
            cluster.submit_data([node])
        monkeypatch.undo()
        memory = cluster.info()["memory"]
        assert memory["chunks"] == 0 and memory["arena"]["used"] == 0
        assert np.array_equal(cluster.submit_data([node], single=True).result(30), np.arange(40.0))


def test_a_fetch_that_is_interrupted_holds_nothing(monkeypatch):
    with Cluster(n_workers=1) as cluster:
        node = numbers(4, 1000)
        job = cluster.submit_data([node], single=True)
        assert job.wait(30)
        monkeypatch.setattr(np, "empty", lambda *_: None)  # what is copied into cannot be written
        with pytest.raises(TypeError):
            job.result()
        monkeypatch.undo()
        assert np.array_equal(job.result(), np.repeat(np.arange(4.0), 1000))
        del node, job
        gc.collect()
        assert cluster.info()["memory"]["chunks"] == 0


def test_within_once_an_array_is_sent_once_and_goes_with_the_last_job(tmp_path):
    gate = tmp_path / "gate"

    def slowly(out, inputs, number):
        while not gate.exists():
            time.sleep(0.01)

    array = np.arange(200_000.0)
    with Cluster(n_workers=1) as cluster:
        node = outside(array, ((50_000,) * 4,))
        with cluster.uploads.once():
            for _ in range(3):
                job = cluster.submit_data([total(node)], single=True)
                assert job.result(30) == array.sum()
            assert cluster.retains(node)
            slow = cluster.submit_data([apply(slowly, node)])
        assert cluster.retains(node)  # a job still reads it
        gate.touch()
        assert slow.wait(30)
        del job, slow
        assert not cluster.retains(node)
        assert cluster.info()["memory"]["chunks"] == 0


def test_an_array_changed_before_it_was_sent_is_a_clear_error():
    array = np.zeros(4 * 2**20)
    with Cluster(n_workers=1) as cluster:
        lazy = mt.asarray(array) + 1
        array[5] = 7
        with pytest.raises(ArrayChangedError, match="changed before its values"):
            cluster.submit(lazy)
        small = mt.asarray(array[:10]) + 1
        array[:] = 0
        assert small.fetch().tolist() == [1, 1, 1, 1, 1, 8, 1, 1, 1, 1]
