"""What tilings share."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.tensor.ops.chunks import boxes, chunk_classes, chunk_starts, corners
from tests.tensor.cut import shapes


@given(st.data())
def test_boxes_cover_a_run_of_elements_in_order(data):
    shape = data.draw(shapes(1, 4, 5))
    size = math.prod(shape)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    array = np.arange(size).reshape(shape)
    found = [array[box].ravel() for box in boxes(shape, start, stop)]
    assert np.concatenate([[], *found]).tolist() == list(range(start, stop))
    assert len(found) <= 2 * len(shape) - 1


def test_chunks_of_one_kind_are_one_class():
    kinds, which = chunk_classes([(3, 3, 1), (2, 2)])
    assert kinds == [(3, 2), (1, 2)]
    assert which.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert chunk_classes([])[0] == [()] and chunk_classes([])[1].shape == ()


def test_corners_are_in_c_order():
    assert corners(((3, 3, 1), (2,))) == [((0, 0),), ((3, 0),), ((6, 0),)]
    assert corners(()) == [((),)]
    assert chunk_starts((5,)) == [0]
