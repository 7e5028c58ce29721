"""Basic indices give NumPy's parts and read only the chunks that hold them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize.passes import prune
from jmars.tensor.ops.chunks import local_slice
from jmars.tensor.ops.indexing import axis_slices
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import basic_indices, cut_arrays, same, slices, splits
from tests.tensor.engine import tiled


@given(st.data())
def test_any_basic_index_is_numpys(data):
    array, x = data.draw(cut_arrays())
    index = data.draw(basic_indices(array.shape))
    same(x[index], array[index])


@given(st.data())
def test_parts_of_an_axis_follow_one_another(data):
    length = data.draw(st.integers(1, 12))
    lengths, entry = data.draw(splits(length)), data.draw(slices(length))
    chunks = np.split(np.arange(length), np.cumsum(lengths)[:-1])
    step = entry.step or 1
    parts = axis_slices(lengths, entry)
    taken = [chunks[p.chunk][local_slice(p.start, p.taken, step)] for p in parts]
    np.testing.assert_array_equal(np.concatenate(taken), np.arange(length)[entry])
    assert all(p.taken for p in parts) or len(parts) == 1


def test_chunks_that_stay_whole_are_passed_on_and_others_are_not_computed():
    x = mt.ones((100, 100), chunk_size=10)
    part = x[15:40]
    assert part.chunks == ((5, 10, 10), (10,) * 10)
    graph, _ = prune(tiled(TensorGraph.of([part.data])))
    assert graph.n == 40  # 30 chunks are made and 10 of them cut


def test_chunks_of_one_kind_share_a_program():
    part = mt.ones((1000, 1000), chunk_size=10)[::3, 5:-5]
    assert len(tiled(TensorGraph.of([part.data])).programs) <= 7


def test_an_index_out_of_bounds_is_refused_as_numpy_does():
    x = mt.arange(6, chunk_size=4)
    for index in (6, -7, (0, 0), (0, slice(None))):
        with np.testing.assert_raises(IndexError):
            x[index]
        with np.testing.assert_raises(IndexError):
            np.arange(6)[index]


def test_a_slice_of_all_elements_is_no_operand():
    x = mt.ones((4, 5), chunk_size=2)
    assert x[::1, 0:5].data is x.data and x[:9].data is x.data
    assert x[None, ::1].data is not x.data and x[::-1].data is not x.data and x[:, :4].data is not x.data
