"""Tiling calls each operand once, in order, as a stage of its own."""

import pytest

from jmars.optimize.passes import tile
from jmars.tensor.tensor_graph import TensorGraph
from tests.optimize.examples import labels, tensor


def test_each_operand_is_a_stage_and_reads_its_inputs_chunks():
    total = tensor("add", tensor("x", chunks=2), tensor("y", chunks=2), chunks=2)
    graph = tile(TensorGraph.of([total]))
    assert labels(graph) == ["x", "x", "y", "y", "add", "add"]
    assert [graph.layers[k].name for k in graph.layer.tolist()] == labels(graph)
    assert [graph.inputs(k).tolist() for k in (4, 5)] == [[0, 2], [1, 3]]
    assert {key: ids.tolist() for key, ids in graph.results.items()} == {total.key: [4, 5]}


def test_tensors_that_are_held_are_leaves():
    x = tensor("x", chunks=2)
    graph = tile(TensorGraph.of([tensor("add", x, chunks=2)], held={x.key}))
    assert labels(graph) == ["stored", "stored", "add", "add"]
    assert graph.stored == {0: (x.key, 0), 1: (x.key, 1)}


def test_tiling_can_be_stopped():
    def stop():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        tile(TensorGraph.of([tensor("x")]), stop)
