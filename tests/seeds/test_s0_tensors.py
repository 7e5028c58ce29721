"""Seed 000, "Graph Preparation": tileables become chunks sized by `chunk_size`; fused nodes run as one expression."""

import numpy as np

import jmars.tensor as jt
from jmars.kernels import compile_program
from jmars.optimize import compile_graph
from jmars.tensor.graph import TensorGraph
from tests.tensor.engine import tiled


def test_s0_1_one_tileable_of_a_hundred_becomes_four_chunks():
    x = jt.ones(100, chunk_size=30)
    graph = TensorGraph.of([x.data])
    chunks = tiled(graph)
    assert len(graph.operands) == 1 and chunks.n == 4
    assert x.chunks == ((30, 30, 30, 10),)
    assert [chunks.programs[p].output.shape for p in chunks.program] == [(30,), (30,), (30,), (10,)]


def test_s0_2_four_spellings_of_a_chunk_size():
    assert jt.ones((10, 8), chunk_size=4).chunks == ((4, 4, 2), (4, 4))
    assert jt.ones((10, 8), chunk_size=(4, 8)).chunks == ((4, 4, 2), (8,))
    assert jt.ones((10, 8), chunk_size=((1, 9), (3, 5))).chunks == ((1, 9), (3, 5))
    assert jt.ones((10, 8)).chunks == ((10,), (8,))
    large = jt.ones((100_000, 10_000))
    assert max(large.chunks[0]) * max(large.chunks[1]) * 8 <= 128 * 2**20


def test_s0_7_fused_nodes_are_one_expression_and_the_view_can_show_it():
    a = np.linspace(0, 1, 50_000)
    x = (jt.as_tensor(a) * 2 + 1).sum()
    graph = TensorGraph.of([x.data])
    for index, _, _ in graph.arrays():
        graph.replace_by_stored(index, f"array-{index}")
    after = compile_graph(graph, {}).after
    (program,) = [after.programs[row] for row in after.program if row >= 0]
    assert program.name == "multiply+add+sum"
    out = np.empty(())
    for backend in ("numpy", "numexpr"):
        kernel = compile_program(program, backend)
        kernel(out, [a], ())
        assert kernel.text == "add((x0 * 2.0) + 1.0)"
        assert kernel.backend.startswith(backend)
        np.testing.assert_allclose(out, (a * 2 + 1).sum(), rtol=1e-14)
