"""The same elements cut differently, by few programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import ChunkSizeError
from jmars.tensor.engine import set_engine
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut_arrays, same, splits
from tests.tensor.engine import OneByOne, tiled


@given(st.data())
def test_any_cut_to_any_cut(data):
    array, x = data.draw(cut_arrays())
    chunks = tuple(data.draw(splits(n)) for n in array.shape)
    cut = x.rechunk(chunks=chunks)
    assert cut.chunks == chunks
    same(cut, array)


def test_chunks_that_stay_whole_are_passed_on():
    x = mt.ones(100, chunk_size=10)
    assert tiled(TensorGraph.of([x.rechunk((10, 10, 20, *[10] * 6)).data])).n == 11


@pytest.mark.parametrize("chunk_size", [7, 40, 5, 1000])
def test_equal_places_share_a_program(chunk_size):
    graph = tiled(TensorGraph.of([mt.ones((1000, 1000), chunk_size=10).rechunk(chunk_size).data]))
    assert len(graph.programs) <= 100


def test_a_cut_that_does_not_fit_is_refused():
    with pytest.raises(ChunkSizeError):
        mt.rechunk(np.ones(4), (3, 3))


def test_rows_that_become_columns_are_shuffled_where_memory_is_short():
    set_engine(OneByOne(limit=64_000))
    a = np.arange(120 * 130.0).reshape(120, 130)
    columns = mt.asarray(a).rechunk((10, 130)).rechunk((120, 10))
    same(columns, a)
    assert columns.data.op.name == "rechunk"
    assert columns.data.op.inputs[0].op.name == "shuffle"
    graph = tiled(TensorGraph.of([mt.ones((120, 130), chunk_size=(10, 130)).rechunk((120, 10)).data]))
    assert graph.n == 12 + 12 + 13, "as many as chunks, not as many as pieces"
    set_engine(OneByOne())
    columns = mt.asarray(a).rechunk((10, 130)).rechunk((120, 10))
    assert columns.data.op.inputs[0].op.name != "shuffle", "there is room for all of it"
