"""Seed 000, "Graph Preparation": tileables become chunks sized by `chunk_size`; fused nodes run as one expression."""

import json

import numpy as np
import pytest

import jmars.tensor as jt
from jmars.client.plans import plan_for
from jmars.kernels import compile_program, numpy_backend
from jmars.optimize import compile_graph
from jmars.plan import Profile
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine
from tests.tensor.engine import tiled


def test_s0_1_one_tileable_of_a_hundred_becomes_four_chunks():
    x = jt.random.rand(100, chunk_size=30)
    graph = TensorGraph.of([x.data])
    chunks = tiled(graph)
    assert len(graph.operands) == 1 and chunks.n == 4
    assert x.chunks == ((30, 30, 30, 10),)
    assert [chunks.programs[p].output.shape for p in chunks.program] == [(30,), (30,), (30,), (10,)]


def test_s0_1_the_plan_says_so_as_json_before_anything_runs():
    x = jt.random.rand(100, chunk_size=30)
    plan = plan_for([x.data], 2, 2**29, known=Profile().as_data())
    tasks = json.loads(plan.to_json())["tasks"]
    assert [(task["name"], task["bytes"]) for task in tasks] == [("rand", 8 * n) for n in (30, 30, 30, 10)]
    assert all(task["kept"] for task in tasks)


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
    out = np.empty(())
    for backend in ("numpy", "numexpr"):
        after = compile_graph(graph, {"kernels": backend}).after
        (program,) = [after.programs[row] for row in after.program if row >= 0]
        assert program.name == "multiply+add+sum"
        kernel = compile_program(program)
        kernel(out, [a], ())
        assert kernel.text == "add((x0 * 2.0) + 1.0)"
        assert kernel.backend.startswith(backend)
        np.testing.assert_allclose(out, (a * 2 + 1).sum(), rtol=1e-14)


def test_s0_7_without_numexpr_the_same_code_runs_and_says_numpy(monkeypatch):
    a = np.linspace(0, 1, 50_000)
    graph = TensorGraph.of([(jt.asarray(a) * 2 + 1).sum().data])
    graph.replace_by_stored(graph.arrays()[0][0], "array")
    after = compile_graph(graph, {}).after
    (program,) = [after.programs[row] for row in after.program if row >= 0]
    there = compile_program(program, "numexpr")
    monkeypatch.setattr(numpy_backend, "numexpr_there", lambda: False)
    alone = compile_program.__wrapped__(program, "numexpr")  # what was compiled is kept
    assert there.backend == "numexpr" and alone.backend.startswith("numpy") and alone.text == there.text
    first, second = np.empty(()), np.empty(())
    there(first, [a], ())
    alone(second, [a], ())
    assert first == second


STEPS = [
    lambda np, x, y: x + y,
    lambda np, x, y: x * 2 - y,
    lambda np, x, y: np.sqrt(np.abs(x)),
    lambda np, x, y: np.where(x > y, x, -y),
    lambda np, x, y: np.maximum(x, y) / 3,
    lambda np, x, y: x.sum(axis=0, keepdims=True) + y,
]


@pytest.mark.parametrize("backend", ["numpy", "numexpr"])
@pytest.mark.parametrize("seed", range(20))
def test_s0_7_random_expressions_give_numpys_values(backend, seed, monkeypatch):
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, {}).after)
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(9, 7)).astype(kind) for kind in ("f8", "f8", "i8")]
    ours, theirs = [jt.asarray(a, chunk_size=4) for a in arrays], list(arrays)
    for _ in range(6):
        step, (i, j) = STEPS[rng.integers(len(STEPS))], rng.integers(0, len(ours), 2)
        ours.append(step(jt, ours[i], ours[j]))
        theirs.append(step(np, theirs[i], theirs[j]))
    run = engine.OneByOne(backend=backend)
    run.execute([x.data for x in ours[3:]])
    for x, value in zip(ours[3:], theirs[3:], strict=True):
        got = run.fetch(x.data)
        assert got.dtype == value.dtype
        np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-12)
