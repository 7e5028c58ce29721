"""Sliding windows: NumPy's values and bits, from views of the chunks; slices of windows read what they show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize import compile_graph
from jmars.optimize.parts import push_down_parts
from jmars.optimize.passes import window_later
from jmars.tensor.ops import apply
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine as engines
from tests.tensor.cut import cut, same

view = np.lib.stride_tricks.sliding_window_view
REDUCTIONS = [np.sum, np.max, np.std, np.mean, np.argmax, np.median, lambda w, axis: np.nansum(w * 2 - 1, axis),
              lambda w, axis: (w > 2).any(axis)]  # fmt: skip


@pytest.fixture(params=["tiled", "region", "chain", "color"])
def way(request, engine, monkeypatch):
    """Runs chunk graphs with and without fusion, and cuts chunks of windows at 300 bytes."""
    if request.param != "tiled":
        monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {"fuse": request.param}).after)
    monkeypatch.setattr(apply, "chunk_bytes", lambda: 300)


@given(st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reductions_and_slices_have_numpys_values(way, data):
    a = np.random.default_rng(0).integers(0, 9, (9, 7)).astype("f8")
    x = data.draw(cut(a))
    axes = data.draw(st.sampled_from([(0,), (1,), (0, 1), (1, 0), (0, 0)]))
    sizes = tuple(data.draw(st.integers(0, 4)) for _ in axes)
    ours, theirs = view(x, sizes, axes), view(a, sizes, axes)
    assert ours.shape == theirs.shape
    if data.draw(st.booleans()):
        step = st.sampled_from([1, 2, 3, -1, -2])
        index = tuple(
            data.draw(st.one_of(st.integers(-n, n - 1), st.builds(slice, st.integers(0, n), st.none(), step)))
            for n in theirs.shape[:2]
        )
        ours, theirs = ours[index], theirs[index]
    same(ours, theirs)
    reduce = data.draw(st.sampled_from(REDUCTIONS))
    if theirs.size and 0 not in sizes:
        same(reduce(ours, axis=-1), reduce(theirs, axis=-1))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_keep_numpys_bits(engine, monkeypatch, axis):
    monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
    monkeypatch.setattr(apply, "chunk_bytes", lambda: 2**17)
    a = np.random.default_rng(1).random((20, 30, 40))
    x = mt.asarray(a, chunk_size=(11, 30, 40))
    np.testing.assert_array_equal(view(x, 9, axis).sum(-1).fetch(), view(a, 9, axis).sum(-1))
    np.testing.assert_array_equal(view(x, 9, axis).mean(-1).fetch(), view(a, 9, axis).mean(-1))


@pytest.mark.parametrize("function", [np.sum, np.max, np.std, lambda w, axis: np.sqrt(w + 1).sum(axis)])
def test_reductions_hold_no_windows(function):
    x = mt.zeros((10_000, 20), chunk_size=(2_500, 20))
    graph = compile_graph(TensorGraph.of([function(view(x, 1_000, 0), axis=-1).data]), {}).after
    held = graph.nbytes.max() + max(program.work for program in graph.programs)
    assert held < 4 * 2_500 * 20 * 8 < 1_000 * 20 * 9_001 * 8


def test_chunks_of_windows_are_cut_to_the_size_of_chunks():
    line = mt.zeros(4_000_000)
    windows = view(line, 1_000)
    assert max(windows.chunks[0]) * 8_000 <= 2**27
    box = view(mt.zeros((2_000, 100, 100)), 365, 0)
    assert math.prod(map(max, box.chunks)) * 8 <= 2**27
    assert min(box.chunks[0]) > 365 / 2  # chunks along the windows overlap by their length


def test_a_part_of_windows_reads_a_part_of_the_array(engine):
    line = mt.arange(4_000_000.0)
    for part, most in ((view(line, 1_000)[5].sum(), 1_000), (view(line, 1_000)[100:200:10, 3], 91)):
        graph = push_down_parts(TensorGraph.of([part.data]))
        assert max(math.prod(meta.shape) for meta in graph.metas) == most
    few = view(mt.arange(4_000.0), 1_000)[[7, 3]].max(-1)
    assert max(math.prod(meta.shape) for meta in push_down_parts(TensorGraph.of([few.data])).metas) <= 5_000
    same(few, [1_006.0, 1_002.0])


@pytest.mark.parametrize(
    "function",
    [
        np.nanstd,
        np.nanmean,
        np.var,
        lambda w, axis: (w - w.mean(axis)[..., None]).max(),
        lambda w, axis: (lambda twice: twice.mean(axis) + twice.max(axis))(
            w * 2
        ),  # two operands read twice the windows
    ],
)
def test_reductions_in_several_passes_hold_no_windows(engine, monkeypatch, function):
    a = np.random.default_rng(0).random((2_000, 5))
    a[a < 0.1] = np.nan
    x = mt.asarray(a, chunk_size=(1_000, 5))
    monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
    same(function(view(x, 50, 0), axis=-1), function(view(a, 50, 0), axis=-1), rtol=1e-9)
    zeros = mt.zeros((10_000, 20), chunk_size=(2_500, 20))
    graph = compile_graph(TensorGraph.of([function(view(zeros, 100, 0), axis=-1).data]), {}).after
    assert graph.nbytes.max() + max(program.work for program in graph.programs) < 6 * 2_500 * 20 * 8


def test_products_of_windows_hold_no_windows(engine, monkeypatch):
    def average(windows, weights):
        there = ~np.isnan(windows)
        whole = np.einsum("ijw,w->j", np.where(there, windows, 0), weights)
        return whole / np.einsum("ijw,w->j", there.astype("f8"), weights)

    a = np.random.default_rng(0).random((2_000, 5), "f4")
    a[a < 0.1] = np.nan
    weights = np.random.default_rng(1).random(50)
    monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
    x = mt.asarray(a, chunk_size=(900, 5))
    same(average(view(x, 50, 0), mt.asarray(weights)), average(view(a, 50, 0), weights), rtol=1e-9)
    zeros = mt.zeros((10_000, 20), "f4", chunk_size=(2_500, 20))
    graph = compile_graph(TensorGraph.of([average(view(zeros, 100, 0), mt.ones(100)).data]), {}).after
    assert graph.nbytes.max() + max(program.work for program in graph.programs) < 4 * 2_500 * 20 * 8


def test_functions_of_windows_are_computed_of_the_elements(engine, monkeypatch):
    a = np.random.default_rng(0).random((40, 6))
    monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
    windows = view(mt.asarray(a, chunk_size=(15, 6)), 8, 0)
    twice = np.sqrt(windows * 2 + windows).rechunk((40, 3, 8))
    same(twice, np.sqrt(view(a, 8, 0) * 2 + view(a, 8, 0)))
    large = np.sqrt(view(mt.zeros((400, 6)), 8, 0) * 2)
    graph = window_later(TensorGraph.of([large.data]))
    sizes = {op.label: math.prod(meta.shape) for op, meta in zip(graph.operands, graph.metas)}
    assert sizes == {"zeros": 2_400, "multiply": 2_400, "sqrt": 2_400, "windows": 393 * 6 * 8}


def test_functions_of_windows_and_other_arrays_are_computed_of_the_windows(engine, monkeypatch):
    monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
    a = np.arange(9.0).reshape(3, 3)
    x = mt.asarray(a, chunk_size=3)
    same(view(x, 3, 0) - x, view(a, 3, 0) - a)
    same(view(x[0], 1, 0) - x[0] - x[0], view(a[0], 1, 0) - a[0] - a[0])


def test_sums_of_functions_of_windows_keep_their_bits(engine, monkeypatch):
    a = np.random.default_rng(0).random((4, 300))
    found = []
    for later in (window_later, lambda graph: graph):
        monkeypatch.setattr("jmars.optimize.passes.window_later", later)
        monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
        x = mt.asarray(a, chunk_size=(4, 100))
        found.append(np.sqrt(np.exp(view(x, 61, 1))).sum(axis=(0, 2)).fetch().tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "labels, other, in_place", [("jw,w->j", 8, True), ("jw,wk->jk", (8, 4), False), ("jw,jk->wk", (33, 4), False)]
)
def test_products_that_use_an_element_several_times_make_matrices(engine, monkeypatch, labels, other, in_place):
    monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
    a, b = np.random.default_rng(0).random(40), np.random.default_rng(1).random(other)
    made = np.einsum(labels, view(mt.asarray(a, chunk_size=15), 8, 0), mt.asarray(b))
    same(made, np.einsum(labels, view(a, 8, 0), b), rtol=1e-12)
    assert made.data.op.reads_in_place == in_place
