"""Small results come with the report of their job's end, and stay in the client within bounds; `map` and `fetch`."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pytest

import jmars
import jmars.remote
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.client.arrays import BroughtValues, brought_value
from jmars.model.limits import SMALL_RESULT
from jmars.remote import spawn


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as made:
        yield made


@pytest.fixture
def asked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Methods of the cluster that were called and answered."""
    found: list[str] = []
    ask = cluster._connection.ask
    monkeypatch.setattr(cluster._connection, "ask", lambda *args, **kw: found.append(args[1]) or ask(*args, **kw))
    return found


def square(x):
    return x * x


def test_small_results_are_fetched_without_a_question(cluster: Cluster, asked: list[str]):
    calls = [spawn(square, (k,)) for k in range(50)]
    x = mt.arange(10, chunk_size=3)
    job = cluster.submit(*calls, x, x.sum())
    job.wait()
    asked.clear()
    *values, array, total = job.result()
    assert values == [k * k for k in range(50)] and array.tolist() == list(range(10)) and total == 45
    assert [one.fetch() for one in calls] == values and type(total) is np.int64
    assert jmars.fetch(*calls[:2], x) is not None and asked == []


def test_what_is_fetched_is_owned(cluster: Cluster):
    call, x = spawn(np.arange, (300,)), mt.arange(300)
    jmars.execute(call, x)
    for one in (call, x):
        one.fetch()[0] = 7
        assert one.fetch()[0] == 0


def test_a_value_that_another_cluster_computes_again_is_the_newer_one():
    call = spawn(time.time_ns)
    for _ in range(2):
        with Cluster(n_workers=1) as cluster:
            value = cluster.submit(call).result()
            assert value == call.fetch() == cluster.submit(spawn(int, (call,))).result()


def test_large_results_and_many_results_are_fetched(cluster: Cluster, asked: list[str]):
    large = spawn(bytes, (SMALL_RESULT,))
    many = jmars.remote.map(bytes, [SMALL_RESULT // 2] * 600)  # some five MiB
    some = [spawn(bytes, (SMALL_RESULT // 2,)) for _ in range(600)]
    for one in (large, many):
        assert cluster.submit(one).wait() and one.data.brought is None
    assert len(large.fetch()) == SMALL_RESULT and [len(one) for one in many.fetch()] == [SMALL_RESULT // 2] * 600
    assert [len(one) for one in cluster.submit(*some).result()] == [SMALL_RESULT // 2] * 600
    assert 0 < sum(one.data.brought is not None for one in some) < 600


def test_the_oldest_values_leave_where_there_are_too_many():
    kept = BroughtValues(most=100)
    nodes = [mt.zeros(4, "i8").data for _ in range(4)]
    for number, node in enumerate(nodes):
        kept.add([node], {node.key: [np.full(4, number, "i8").tobytes()]})
    assert [brought_value(node) is None for node in nodes] == [True, False, False, False]
    assert brought_value(nodes[3]).tolist() == [3] * 4 and not brought_value(nodes[3], copy=False).flags.writeable
    alive = weakref.ref(nodes[3])
    del nodes, node
    gc.collect()
    assert alive() is None, "values keep no node"


def test_reports_are_remembered_without_values(cluster: Cluster):
    job = cluster.submit(spawn(square, (4,)))
    job.wait()
    assert cluster.ask("session", "attach", job.id)["report"].keys().isdisjoint({"values"})


def test_a_function_is_called_for_many_items_by_one_node(cluster: Cluster):
    one = spawn(square, (3,))
    calls = jmars.remote.map(lambda a, b: (a, b), [1, one, mt.arange(3).sum()], ["x", "y", np.ones(2)])
    values = cluster.submit(calls).result()
    assert values[0] == (1, "x") and values[1] == (9, "y") and values[2][0] == 3 and values[2][1].tolist() == [1, 1]
    assert calls[1].fetch() == (9, "y") == calls[-2].fetch() and len(calls) == 3 and len(list(calls)) == 3
    assert spawn(len, (calls,)).fetch() == 3 and spawn(lambda x: x["k"], ({"k": calls[0]},)).fetch() == (1, "x")
    with pytest.raises(IndexError, match="called for 3 items"):
        calls[3]
    assert jmars.remote.map(square, []).fetch() == []
    with pytest.raises(TypeError, match="an iterable"):
        jmars.remote.map(square)


def test_an_error_of_one_item_names_the_line_and_the_item(cluster: Cluster):
    calls = jmars.remote.map(lambda x: 1 / x, [1, 2, 0, 4])
    with pytest.raises(ZeroDivisionError) as caught:
        calls.fetch()
    assert "chunk 3 of 4" in "\n".join(caught.value.__notes__)


def test_another_client_takes_the_values_of_a_map():
    with Cluster(n_workers=1) as cluster:
        job = cluster.submit(jmars.remote.map(square, range(5)))
        assert job.result() == [0, 1, 4, 9, 16]
        with jmars.connect(cluster.id) as other:
            assert other.job(job.id).result() == [0, 1, 4, 9, 16]
