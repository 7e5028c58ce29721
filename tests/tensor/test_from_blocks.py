"""Arrays that a function gives box by box."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize import compile_graph
from jmars.tensor.ops.npy import AHEAD, AHEAD_BYTES
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import same, shapes, splits


@given(shapes(), st.data())
def test_each_chunk_is_one_call(shape, data):
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 0.5
    x = mt.from_blocks(lambda box: a[box], shape, float, chunks=tuple(data.draw(splits(n)) for n in shape))
    same(x, a)
    same(x.sum(), a.sum())


def test_what_is_not_as_promised_is_an_error():
    with pytest.raises(ValueError, match="was promised"):
        mt.from_blocks(lambda box: np.zeros(1), (4,), float).fetch()
    with pytest.raises(ValueError, match="int64"):
        mt.from_blocks(lambda box: np.zeros(4, int), (4,), float).fetch()


def test_what_cannot_be_called_is_named():
    with pytest.raises(TypeError, match="from_blocks takes a function first; 3 cannot be called"):
        mt.from_blocks(3, (3,), "f8")


def promised(x):
    """The most bytes that a chunk of a tensor is promised, in eighths of the bytes of a piece of 8000."""
    return compile_graph(TensorGraph.of([x.data]), {}).after.work.max() / 1000


def blocks(**how):
    return mt.from_blocks(lambda box: None, (40, 100), "f8", takes="steps", **how)


def test_readers_are_promised_memory_for_pieces_stored_and_decoded():
    assert promised(blocks(chunks=(10, 100))) == 8
    assert promised(blocks(chunks=(10, 100), pieces=(10, 100))) == 8 * 3
    assert promised(blocks(chunks=(20, 100), pieces=(10, 100))) == 8 * (2 + 2)
    assert promised(blocks(chunks=(20, 100), pieces=(10, 100), holds=(8, 8, 64))) == 8 * (2 + 2 + 2)
    assert promised(blocks(chunks=(40, 100), pieces=(1, 100), holds=(8, 8, 10))) == 8 * 4 + (10 + 4) * 0.8
    assert promised(blocks(chunks=(10, 100), pieces=(10, 100))[3:4, 4:6]) == 8 * 2 + 0.016
    assert promised(blocks(chunks=(10, 100), pieces=(1, 100), holds=(8, 8, 64))[:10:5, :10]) == (6 + 4) * 0.8 + 0.16


class Writes:
    """Writes boxes of an array to arrays, and notes how it was called."""

    notes: list[str] = []  # noqa: RUF012

    def __init__(self, array):
        self.array = array

    def __call__(self, box):
        self.notes.append("called")
        return self.array[box]

    def into(self, box, out):
        self.notes.append("into")
        out[...] = self.array[box]


@pytest.mark.parametrize("takes", ["steps", "boxes"])
@pytest.mark.parametrize(
    "index", [..., np.s_[5:33], np.s_[::-1, 3:70], np.s_[3:30:4], np.s_[[1, 2, 30]], np.s_[7, ::3]]
)
def test_a_function_that_writes_into_chunks_gives_the_same(takes, index):
    a = np.arange(4000.0).reshape(40, 100)
    Writes.notes.clear()
    x = mt.from_blocks(Writes(a), a.shape, a.dtype, chunks=(13, 60), takes=takes)[index]
    same(x, a[index])
    assert "into" in Writes.notes


def test_what_is_written_into_chunks_needs_memory_for_pieces_alone():
    x = mt.from_blocks(Writes(None), (40, 100), "f8", takes="steps", chunks=(20, 100), pieces=(10, 100))
    assert promised(x) == promised(x[:20]) == 8 * 2
    assert promised(x[[0, 5, 19]]) > 8 * 2


def test_decoders_are_promised_memory_for_elements_before_and_after():
    assert promised(blocks(chunks=(10, 100), holds=(4, 17, 1))) == 17
    assert promised(blocks(chunks=(10, 100), pieces=(10, 100), holds=(4, 9, 1))) == 4 + 9


@pytest.mark.parametrize("rows, ahead", [(10, AHEAD), (AHEAD_BYTES // 24 // 800, 8), (AHEAD_BYTES // 800, 0)])
def test_calls_that_wait_are_promised_their_own_memory_and_begun_ahead(rows, ahead):
    x = mt.from_blocks(
        lambda box: None, (4 * rows, 100), "f8", takes="steps", chunks=(rows, 100), pieces=(rows, 100), waits=True
    )
    (program,) = compile_graph(TensorGraph.of([x.data]), {}).after.programs
    assert program.waits == ahead and program.work == 3 * 800 * rows
