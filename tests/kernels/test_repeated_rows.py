"""Inputs that all rows of a block share: NumPy's values, with and without a sum behind."""

import numpy as np
import pytest

from jmars.kernels import pipeline as module
from jmars.kernels.expression import Expression, Node
from jmars.kernels.pipeline import pipeline
from jmars.kernels.program import ChunkType, Elementwise, Reduce
from jmars.kernels.reducers import UfuncReducer

F8 = np.dtype("f8")
SHAPES = [  # of the result, of a whole input, of the shared one
    ((9_001, 8), (9_001, 8), (8,)),
    ((9_001, 8), (9_001, 1), (1, 8)),
    ((3_001, 5, 8), (3_001, 1, 8), (1, 5, 8)),
    ((3_001, 5, 8), (3_001, 5, 8), (5, 1)),
    ((7, 3_001, 3), (7, 3_001, 3), (3,)),
    ((900, 129), (900, 129), (129,)),
    ((3, 40_000), (3, 40_000), (40_000,)),
]


def minus(squared: bool) -> Expression:
    nodes = [Node("subtract", (0, 1), F8)]
    return Expression((F8, F8), (*nodes, Node("multiply", (2, 2), F8)) if squared else tuple(nodes))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize(("shape", "whole", "shared"), SHAPES)
def test_values_are_numpys(shape, whole, shared, summed, squared):
    rng = np.random.default_rng(len(shape))
    x, row = rng.random(whole), rng.random(shared)
    types = [ChunkType(one, F8) for one in (whole, shared, shape)]
    last = (len(shape) - 1,)
    tail = Reduce(UfuncReducer("add", F8), last, (2,), ChunkType(shape[:-1], F8), True) if summed else None
    out = np.empty(shape[:-1] if summed else shape)
    for _ in range(2):  # the second run finds the rows of the first in its buffer
        pipeline((), Elementwise(minus(squared), (0, 1), types[2]), tail, types)(out, [x, row])
        expected = np.square(x - row) if squared else x - row
        if summed:  # rows that are longer than a block are summed in parts
            np.testing.assert_allclose(out, expected.sum(axis=last), rtol=1e-14)
        else:
            np.testing.assert_array_equal(out, expected)
        row = row + 1


def test_rows_are_repeated_where_they_are_short(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "_repeated", lambda row, *_: asked.append(row.shape) or row)
    for shape, whole, shared in (SHAPES[0], SHAPES[5], SHAPES[6]):
        types = [ChunkType(one, F8) for one in (whole, shared, shape)]
        pipeline((), Elementwise(minus(False), (0, 1), types[2]), None, types)(
            np.empty(shape), [np.ones(whole), np.ones(shared)]
        )
    assert asked == [(1, 8)]


def test_a_number_is_not_repeated(monkeypatch):
    """NumPy's loop over one long axis is faster than a loop over rows."""
    asked = []
    monkeypatch.setattr(module, "_repeated", lambda row, *_: asked.append(row.shape) or row)
    types = [ChunkType(one, F8) for one in ((9_001, 8), (8,), (), (9_001, 8))]
    nodes = (Node("subtract", (0, 1), F8), Node("multiply", (3, 2), F8))
    step = Elementwise(Expression((F8, F8, F8), nodes), (0, 1, 2), types[3])
    pipeline((), step, None, types)(np.empty((9_001, 8)), [np.ones((9_001, 8)), np.ones(8), np.ones(())])
    assert asked == [(1, 8)]
