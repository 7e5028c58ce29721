"""Tiling that needs data: a job runs in stages, each with a graph of its own; an untaken branch is not computed."""

import numpy as np

import jmars.tensor as mt
from jmars.optimize.unfolding import Unfolding
from jmars.tensor.tensor_graph import TensorGraph


def stages_of(job):
    """The graphs that the view is told of: (number of the stage, operands)."""
    return [(e[4]["stage_number"], e[4]["n_after"]) for e in job.events() if e[2] == "GraphBuilt"]


def test_s0_3_a_filter_and_its_rechunk_are_two_stages_with_a_known_shape(cluster):
    array = np.sin(np.arange(1000))
    x = mt.as_tensor(array, chunk_size=300)
    y = x[x > 0].rechunk(100)
    assert y.data.has_unknown_lengths and "shape=(nan,)" in repr(y.data)
    job = cluster.submit(y)
    np.testing.assert_array_equal(job.result(60), array[array > 0])
    assert [number for number, _ in stages_of(job)] == [1, 2]
    assert all(operands for _, operands in stages_of(job))
    assert y.data.shape == (np.count_nonzero(array > 0),)
    assert y.chunks[0][:-1] == (100,) * (len(y.chunks[0]) - 1)


def test_s0_3_different_elements_and_what_is_computed_of_them(cluster):
    array = np.arange(1000) * 7 % 13
    x = mt.as_tensor(array, chunk_size=300)
    values, counts = np.unique(x, return_counts=True)
    assert values.data.has_unknown_lengths
    job = cluster.submit(values, counts, values[::-1])
    for ours, theirs in zip(job.result(60), [*np.unique(array, return_counts=True), np.arange(13)[::-1]], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert values.data.shape == counts.data.shape == (13,)
    assert [number for number, _ in stages_of(job)] == [1, 2]


def test_s0_3_what_depends_on_no_data_is_in_the_first_stage():
    x = mt.arange(100, chunk_size=30)
    graph = TensorGraph.of([x[x > 5].rechunk(10).data, x.prod().data])
    first = Unfolding(graph).next()
    assert first is not None
    assert [op.label for op in first.graph.operands].count("prod") == 1
    assert "rechunk" not in [op.label for op in first.graph.operands]


def test_s2_14_an_untaken_branch_is_not_tiled_and_not_run(cluster):
    def side(block):
        raise RuntimeError("this side must not run")

    x = mt.arange(100, chunk_size=30)
    job = cluster.submit(mt.cond(x.sum() > 0, lambda: x * 2, lambda: mt.map_blocks(side, x, dtype=x.dtype)))
    np.testing.assert_array_equal(job.result(60), np.arange(100) * 2)
    labels = [label for e in job.events() if e[2] == "GraphBuilt" for label in e[4]["after_labels"]]
    assert any("multiply" in label for label in labels) and not any("side" in label for label in labels)
