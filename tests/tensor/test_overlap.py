"""Chunks with borders: what `np.pad` and slices give, for any cut, depth and edge."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.ops.apply import add_halos, halo_widths
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import numbered, same
from tests.tensor.engine import tiled

MODES = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}


@st.composite
def cuts(draw, depth):
    """Lengths of chunks along an axis, none shorter than the depth."""
    return tuple(draw(st.lists(st.integers(max(depth, 1), max(depth, 1) + 3), min_size=1, max_size=4)))


@given(st.data())
def test_blocks_are_slices_of_the_padded_array(data):
    ndim = data.draw(st.integers(1, 3))
    depths = tuple(data.draw(st.integers(0, 2)) for _ in range(ndim))
    edges = tuple(data.draw(st.sampled_from([*MODES, "none", 7, -0.0])) for _ in range(ndim))
    chunks = tuple(data.draw(cuts(depth)) for depth in depths)
    a = numbered(tuple(map(sum, chunks)), data.draw(st.sampled_from(["f8", "i4"])))
    x = mt.asarray(a, chunks=chunks)
    wide = a
    for axis, (depth, edge) in enumerate(zip(depths, edges)):
        if edge != "none":
            around = [(depth, depth) if i == axis else (0, 0) for i in range(ndim)]
            more = {} if edge in MODES else {"constant_values": edge}
            wide = np.pad(wide, around, MODES.get(edge, "constant"), **more)
    blocks = []
    for place in np.ndindex(*map(len, chunks)):
        box = []
        for axis, i in enumerate(place):
            start = sum(chunks[axis][:i]) + (depths[axis] if edges[axis] != "none" else 0)
            low, high = halo_widths(x, depths, edges)[axis][i]
            box.append(slice(start - low, start + chunks[axis][i] + high))
        blocks.append(wide[tuple(box)])
    result = add_halos(x, depths, edges)
    assert result.chunks == tuple(
        tuple(n + sum(around) for n, around in zip(axis, sides))
        for axis, sides in zip(chunks, halo_widths(x, depths, edges))
    )
    edges_of = [[0, *itertools.accumulate(axis)] for axis in result.chunks]
    value = result.fetch()
    boxes = itertools.product(*([slice(a, b) for a, b in itertools.pairwise(line)] for line in edges_of))
    for box, block in zip(boxes, blocks, strict=True):
        np.testing.assert_array_equal(value[box], block)


def test_no_block_reads_a_neighbour_as_a_whole():
    x = mt.ones((40, 40), chunk_size=10)
    graph = tiled(TensorGraph.of([add_halos(x, (1, 1), ("none", "none")).data]))
    blocks = [i for i in range(graph.n) if graph.programs[graph.program[i]].name == "halo"]
    assert len(blocks) == 16
    for i in blocks:
        sizes = sorted(graph.nbytes[graph.inputs(i)].tolist())
        assert sizes[-1] == 800 and all(n == 4 * 80 for n in sizes[:-1]), "one chunk, and rims of four sides"


def test_the_only_chunk_is_its_own_neighbour():
    x = mt.asarray(np.arange(6))
    same(add_halos(x, (2,), ("periodic",)), [4, 5, 0, 1, 2, 3, 4, 5, 0, 1])


def test_an_unknown_edge_is_said():
    with pytest.raises(ValueError, match="no boundary"):
        add_halos(mt.ones(4), (1,), ("other",))
    assert add_halos(mt.ones(4), (0,), ("other",)).shape == (4,)


@given(st.data())
def test_any_depth_has_the_neighbours_that_padding_gives(data):
    ndim = data.draw(st.integers(1, 2))
    a = numbered(tuple(data.draw(st.integers(1, 7)) for _ in range(ndim)), "f8")
    x = mt.asarray(a, chunk_size=data.draw(st.integers(1, 4)))
    depths = tuple(data.draw(st.integers(0, 9)) for _ in range(ndim))
    edges = tuple(data.draw(st.sampled_from([*MODES, 7])) for _ in range(ndim))
    wide = a
    for axis, (depth, edge) in enumerate(zip(depths, edges)):
        around = [(depth, depth) if i == axis else (0, 0) for i in range(ndim)]
        more = {} if edge in MODES else {"constant_values": edge}
        wide = np.pad(wide, around, MODES.get(edge, "constant"), **more)
    window = tuple(2 * depth + 1 for depth in depths)

    def sums(block):
        inside = np.lib.stride_tricks.sliding_window_view(block, window).sum(tuple(range(ndim, 2 * ndim)))
        return np.pad(inside, [(depth, depth) for depth in depths])

    expected = np.lib.stride_tricks.sliding_window_view(wide, window).sum(tuple(range(ndim, 2 * ndim)))
    same(mt.map_overlap(sums, x, depths, dict(enumerate(edges)), dtype="f8"), expected, rtol=1e-12)


def test_a_depth_beyond_the_chunks_joins_them():
    x = mt.arange(10, chunk_size=3)
    found = mt.map_overlap(lambda block: block, x, depth=5)
    assert found.chunks == ((10,),) and found.fetch().tolist() == list(range(10))
    assert mt.map_overlap(lambda block: block, x, depth=4).chunks == ((6, 4),)
    assert mt.map_overlap(lambda block: block, x, 20, "none").fetch().tolist() == list(range(10))
    assert (
        mt.map_overlap(lambda block: block, mt.arange(2), 3, 9, trim=False).fetch().tolist()
        == [9] * 3 + [0, 1] + [9] * 3
    )
