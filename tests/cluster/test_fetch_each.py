"""Several values are fetched together: few messages, the right values, also of lost and of large tensors."""

from __future__ import annotations

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.client.job import SMALL
from jmars.errors import ChunkLostError
from jmars.remote import spawn


def double(number: int) -> int:
    return 2 * number


def test_values_of_many_calls_come_with_few_pins(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    ask = cluster._connection.ask
    monkeypatch.setattr(cluster._connection, "ask", lambda *args, **kw: asked.append(args[1]) or ask(*args, **kw))
    assert cluster.submit(*(spawn(double, args=(i,)) for i in range(50))).result() == [2 * i for i in range(50)]
    assert asked.count("pin") <= 1  # none where no memory is shared


def test_small_and_large_values_keep_their_order(cluster: Cluster):
    large = mt.arange(SMALL, chunk_size=5000)
    several = [mt.arange(12, chunk_size=5).reshape(3, 4), large, mt.asarray("text"), mt.zeros((0, 3)), large.sum()]
    values = cluster.submit(*several).result()
    for value, one in zip(values, several, strict=True):
        assert type(value) is type(one.fetch())
        np.testing.assert_array_equal(value, one.fetch())


def test_a_value_that_is_asked_twice_is_owned_twice(cluster: Cluster):
    x = mt.ones(4).execute()
    first, second = jmars.Session(cluster).fetch(x, x)
    first[0] = 7
    assert second.tolist() == x.fetch().tolist() == [1, 1, 1, 1]


def test_chunks_of_objects_are_refused(cluster: Cluster):
    with pytest.raises(TypeError):
        cluster.shared.fetch_each([("no matter", np.dtype(object), ((1,),))])


def test_a_lost_chunk_costs_no_value(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    x, y = (mt.ones(4) * k for k in (2, 3))
    jmars.execute(x, y)
    cluster.tell("session", "drop", [y.data.key])  # its chunks are gone behind the client's back
    with pytest.raises(ChunkLostError):
        cluster.shared.fetch_each([(y.data.key, y.data.dtype, y.data.chunks)])
    assert [one.tolist() for one in cluster.fetch_each([x.data, y.data])] == [[2] * 4, [3] * 4]
