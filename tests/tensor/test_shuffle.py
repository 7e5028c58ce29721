"""All to all by lines of pieces: any cut becomes any other one, from whole lines and from gathered ranges alike."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ops.chunks import join_pieces, shuffle
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import numbered, same, shapes, splits
from tests.tensor.engine import OneByOne, tiled


@st.composite
def cut_twice(draw):
    """An array, as a tensor, and another cut of it."""
    a = numbered(draw(shapes(1, 3, 6).filter(lambda shape: 0 not in shape)), draw(st.sampled_from(["f8", "i2"])))
    x = mt.asarray(a, chunks=tuple(draw(splits(n)) for n in a.shape))
    return a, x, tuple(draw(splits(n)) for n in a.shape)


@given(cut_twice())
def test_any_cut_becomes_any_other(given_):
    a, x, chunks = given_
    result = Tensor(shuffle(x.data, chunks))
    assert result.chunks == chunks
    same(result, a)


@given(cut_twice())
def test_ranges_gathered_into_one_line_give_the_same(given_):
    a, x, chunks = given_
    engine = OneByOne()
    result = shuffle(x.data, chunks)
    lines = result.op.inputs[0]
    engine.execute([lines])
    held = engine.chunks[lines.key]
    graph = TensorGraph.of([result], engine.chunks)
    built = tiled(graph)
    done = np.empty_like(a)
    for number, box in enumerate(np.ndindex(*map(len, chunks))):
        i = next(iter(built.results.values())).reshape(-1)[number]
        program, (arg,) = built.programs[built.program[i]], built.args[i]
        read = [held[built.stored[k][1]] for k in built.inputs(i).tolist()]
        pairs = np.frombuffer(arg[-1], np.int64).reshape(-1, 2).tolist()
        line = np.concatenate([one[start:stop] for one, (start, stop) in zip(read, pairs, strict=True)])
        out = np.empty(program.output.shape, program.output.dtype)
        join_pieces(out, [line, *(line[:0] for _ in read[1:])], program.steps[0].params, arg)
        there = tuple(slice(sum(axis[:k]), sum(axis[: k + 1])) for axis, k in zip(chunks, box))
        done[there] = out
    np.testing.assert_array_equal(done, a)
