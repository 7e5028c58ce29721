"""A tensor graph is flat, pickles whatever its depth, and knows what is held and what comes from outside."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import jmars.tensor as jt
from jmars.errors import ArrayChangedError, GraphError, UnsupportedError
from jmars.tensor.tensor_graph import Stored, TensorGraph
from tests.tensor.engine import tiled


def labels(graph: TensorGraph) -> list[str]:
    return [op.label for op in graph.operands]


def test_operands_stand_in_topological_order_without_links():
    x = jt.ones(4)
    graph = TensorGraph.of([((x + 1) * (x - 1)).data, x.data])
    assert labels(graph) == ["ones", "add", "subtract", "multiply"]
    assert graph.inputs == [(), (0,), (0,), (1, 2)]
    assert graph.results == [3, 0]
    assert all(op.inputs == () for op in graph.operands)


def test_what_is_held_is_a_leaf_and_hides_what_led_to_it():
    x = jt.ones(10, chunk_size=4) + 1
    graph = TensorGraph.of([(x * 2).data], held={x.data.key})
    assert labels(graph) == ["stored", "multiply"]
    chunks = tiled(graph)
    assert chunks.stored == {0: (x.data.key, 0), 1: (x.data.key, 1), 2: (x.data.key, 2)}
    assert chunks.nbytes[:3].tolist() == [32, 32, 16]


@pytest.mark.long
def test_a_chain_of_100_000_operands_pickles():
    x = jt.ones(4)
    for _ in range(100_000):
        x = x + 1
    graph = pickle.loads(pickle.dumps(TensorGraph.of([x.data])))
    assert len(graph.operands) == 100_001 and graph.inputs[-1] == (99_999,)


def test_arrays_from_outside_are_named_once_and_replaced(monkeypatch):
    monkeypatch.setattr("jmars.tensor.from_array.COPIED", 0)  # a large array is not copied
    a = np.arange(6.0)
    x = jt.ones(6)
    graph = TensorGraph.of([(x + a).data, (x * a).data])
    ((index, array, chunks),) = graph.arrays()
    assert array is a and chunks == ((6,),)
    with pytest.raises(GraphError, match="replace_by_stored"):
        tiled(graph)
    graph.replace_by_stored(index, "here")
    assert isinstance(graph.operands[index], Stored)
    assert graph.arrays() == []
    assert tiled(graph).stored == {1: ("here", 0)}


def test_a_node_does_not_pickle_but_says_why():
    with pytest.raises(UnsupportedError, match="TensorGraph"):
        pickle.dumps(jt.ones(3).data)


def test_a_small_array_enters_with_the_value_that_it_had_when_it_was_used():
    a = np.arange(6.0)
    graph = TensorGraph.of([(jt.ones(6) + a).data])
    a += 1
    ((_, array, _),) = graph.arrays()
    assert np.array_equal(array, np.arange(6.0))


@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 1, 3)])
def test_a_large_array_that_was_changed_is_a_clear_error(monkeypatch, shape):
    monkeypatch.setattr("jmars.tensor.from_array.COPIED", -1)
    a = np.ones(shape)
    graph = TensorGraph.of([(jt.ones(shape) + a).data])
    ((index, _, _),) = graph.arrays()
    graph.operands[index].check()
    a[...] = 2
    with pytest.raises(ArrayChangedError, match=r"changed before its values.* x\.copy\(\)"):
        graph.operands[index].check()


def test_two_results_of_one_array_keep_a_key_each():
    a = np.arange(6.0)
    x, y = jt.asarray(a), jt.asarray(a)
    graph = TensorGraph.of([x.data, y.data])
    assert [graph.metas[i].key for i in graph.results] == [x.data.key, y.data.key]
