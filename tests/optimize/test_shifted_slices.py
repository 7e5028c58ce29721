"""Slices that begin at different places are read where the chunks of the array lie, and give NumPy's bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.config import config
from jmars.kernels.fusing import sharing
from jmars.kernels.program import Call
from jmars.kernels.routines import llvm_there
from jmars.optimize import compile_graph
from jmars.optimize.slices import cut_slices, push_down_rechunks
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.ops import chunks as chunk_parts
from jmars.tensor.tensor_graph import TensorGraph
from tests.optimize.examples import labels
from tests.tensor import engine

BACKENDS = ["numpy", "numexpr", *["llvm"] * llvm_there()]
SHAPES = [(600,), (60, 40), (300, 200), (40, 3), (12, 40, 30), (5, 200, 200)]


@pytest.fixture(autouse=True)
def fused(monkeypatch):
    """Compute in this process, fused."""
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, config.task).after)
    before = current_engine()
    yield
    set_engine(before)


def graph_of(*tensors):
    graph = TensorGraph.of([x.data for x in tensors])
    for number, _, _ in graph.arrays():
        graph.replace_by_stored(number, f"k{number}")
    return graph


def compiled(*tensors, **switches):
    return compile_graph(graph_of(*tensors), config.task | switches).after


def heat(u, steps=1):
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


def grid(n=300, parts=2):
    return mt.asarray(np.random.default_rng(1).random((n, n)), chunk_size=n // parts)


def test_a_step_of_a_stencil_is_an_operand_a_chunk_and_slivers():
    graph = compiled(heat(grid(), steps=3))
    computed = [k for k, name in enumerate(labels(graph)) if "setitem" in name]
    cut = [k for k, name in enumerate(labels(graph)) if name == "getitem"]
    assert len(computed) == 3 * 4 and len(cut) == 3 * 8
    assert len(computed) + len(cut) + 4 == graph.n  # and four stored chunks
    assert max(graph.nbytes[cut]) == 150 * 8
    for k in computed:
        program = graph.programs[graph.program[k]]
        shared = sharing(program.steps, len(program.inputs))
        assert (len(shared.views), len(shared.joined), program.work) == (3, 2, 0)


def test_neighbours_share_a_sliver_and_corners_are_read():
    u = grid(450, 3)
    graph = compiled(sum(u[1 + i : 449 + i, 1 + j : 449 + j] for i in (-1, 0, 1) for j in (-1, 0, 1)))
    names = labels(graph)
    assert names.count("getitem") == 4 * 6 + 4 * 4  # two a seam of two chunks, four a crossing
    assert len(names) == 9 + 40 + 9


def test_small_neighbours_are_read_whole():
    graph = compiled(heat(grid(200, 2)))
    assert labels(graph).count("getitem") == 0 and graph.n == 4 + 4


def test_rolls_are_read_in_place():
    u = grid()
    x = sum(np.roll(np.roll(u, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1))
    graph = compiled(x)
    assert (
        labels(graph).count("getitem") == 4 * 2 * 2 + 4 * 4
    )  # slivers and corners: both ends of a chunk, and a corner each
    assert graph.n == 4 + 32 + 4
    program = graph.programs[graph.program[-1]]
    assert program.work == 0 and len(sharing(program.steps, len(program.inputs)).joined) == 8
    whole = compiled(sum(np.roll(grid(300, 1), i, 0) for i in (-1, 1)))
    assert whole.n == 2  # the ends of a single chunk
    far = compiled(np.roll(grid(), 40, 0) + 1)
    assert labels(far).count("getitem") == 0


def test_only_a_few_elements_are_worth_it():
    u = grid()
    for x, kept in ((u[60:] + u[:-60], True), ((u[2:] + u[:-2]).rechunk(100), True), (u[2:] + u[:-2], False)):
        assert any("rechunk" in name for name in labels(compiled(x))) == kept


def test_a_result_keeps_its_cuts_and_so_does_what_others_read():
    u = grid()
    total = u[2:] + u[:-2]
    mean = (total[:, 1:-1] + u[1:-1, 2:]) / 2
    for results in ((total, mean), (mean, total.max())):
        graph = compiled(*results)
        assert [graph.results[x.data.key].shape for x in results] == [tuple(map(len, x.chunks)) for x in results]
    plain = graph_of(u + 1)
    assert push_down_rechunks(plain) is plain and cut_slices(plain) is plain


@st.composite
def programs(draw):
    """An array with chunks, and writes of expressions of shifted slices."""
    shape = draw(st.sampled_from(SHAPES))
    chunks = tuple(draw(st.sampled_from([n, -(-n // 2), -(-n // 3)])) for n in shape)
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        most = [draw(st.sampled_from([0, 1, 1, 2, 4])) if n > 8 else 0 for n in shape]
        starts = [tuple(draw(st.integers(0, m)) for m in most) for _ in range(5)]
        into, *read = [tuple(slice(s, n - m + s) for s, n, m in zip(at, shape, most)) for at in starts]
        lines.append((into, read, draw(st.sampled_from(["mean", "root", "sine", "whole", "random", "sum", "roll"]))))
    return shape, chunks, draw(st.sampled_from(["f8", "f4", "i4", "c16"])), lines


def run_on(u, lines, noise):
    for into, (a, b, c, d), kind in lines:
        if kind == "mean":
            u[into] = (u[a] + u[b] - u[c] * u[d]) / 4
        elif kind == "root":
            u[into] += np.sqrt(abs(u[a] - u[b])).astype(u.dtype)
        elif kind == "sine":
            u[into] = np.sin(u[a] / 2) * u[b][..., :1] + np.exp(-abs(u[c])) + u[d].max()
        elif kind == "whole":
            u = u + 1
            u[into] = u[a] + u[b]
        elif kind == "roll":
            u[into] = (np.roll(np.roll(u, 1, 0), -2, -1)[a] + np.roll(u, -1, 0)[b]) / 2 - np.roll(u, 3)[c]
        elif kind == "random":
            u[into] = u[a] + (u[b] + noise[c] * 2)
        else:
            u[into] = u[a] + ((u[b] + u[c]).sum() / u.size).astype(u.dtype)
    return u


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=programs(), whole=st.sampled_from([0, chunk_parts.WHOLE]))
@settings(max_examples=60)
def test_programs_of_shifted_slices_give_numpys_bits(backend, case, whole):
    shape, chunks, dtype, lines = case
    set_engine(engine.OneByOne(backend=backend))
    a = (np.random.default_rng(1).random(shape) * 100).astype(dtype)
    if dtype == "i4" and any(kind in ("mean", "sine", "roll") for _, _, kind in lines):
        a = a.astype("f8")
    noise = np.random.default_rng(2).integers(0, 9, shape).astype(a.dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_parts, "WHOLE", whole)
        found = run_on(mt.asarray(a.copy(), chunk_size=chunks), lines, mt.asarray(noise, chunk_size=chunks)).fetch()
    expected = run_on(a, lines, noise)
    if any(kind == "sum" for _, _, kind in lines):  # of chunks and blocks
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    else:
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_may_lie_alone_in_their_chunks(backend):
    set_engine(engine.OneByOne(backend=backend))
    a = np.random.default_rng(1).random((600, 2))
    for chunk_size in ((300, 2), (300, 1)):
        x = mt.asarray(a, chunk_size=chunk_size)
        assert (np.roll(x, 1, axis=1) * x - 1).fetch().tobytes() == (np.roll(a, 1, axis=1) * a - 1).tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_columns_are_computed_in_blocks(backend):
    set_engine(engine.OneByOne(backend=backend))
    a, scale, step = np.random.default_rng(1).random((20_000, 40)), np.arange(38.0), np.arange(20_000.0)[:, None]
    x = mt.asarray(a, chunk_size=(20_000, 20))
    for u in (found := mt.asarray(a.copy(), chunk_size=(20_000, 20)), a):
        u[:, 1:-1] = np.sin(u[:, 2:] * scale) + u[:, :-2] * step
    assert found.fetch().tobytes() == a.tobytes()
    graph = compiled(np.roll(x, 1, axis=1) * x)
    joined = [sharing(p.steps, len(p.inputs)).joined for p in graph.programs if p.name != "getitem"]
    assert all(joined)
    narrow = compiled(np.roll(x[:, :2].rechunk(20_000), 1, axis=1) * 2)  # half of the elements are no sliver
    assert not any(sharing(p.steps, len(p.inputs)).joined for p in narrow.programs)


def test_reductions_and_generators_read_them_whole():
    u, noise = grid(), mt.random.default_rng(1).random((298, 300), chunk_size=(149, 150))
    for x in ((u[2:] - u[:-2]).sum(axis=0), u[2:] + u[:-2] + noise, np.sort(u[1:-1] + u[2:], axis=1)):
        graph = compiled(x)
        for program in graph.programs:
            heads = [step for step in program.steps if isinstance(step, Call) and step.joins]
            assert not heads or not program.work or not sharing(program.steps, len(program.inputs)).joined
