"""Cheap sources are drawn by each of their readers, and nothing else changes: not one bit of a result."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.kernels import ChunkType
from jmars.kernels.program import Call, Generate, single
from jmars.optimize import compile_graph
from jmars.optimize.rematerialise import generation_seconds
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.ops.create import open_arange
from jmars.tensor.tensor_graph import TensorGraph
from tests.optimize.examples import labels
from tests.tensor import engine

MIB = 2**20


def compiled(*tensors, room=None, **config):
    return compile_graph(TensorGraph.of([one.data for one in tensors]), config, room=room)


def uniform(shape=(512, 512), chunk_size=(128, 512), seed=1):
    return mt.random.default_rng(seed).random(shape, chunk_size=chunk_size)


def anomaly(x):
    return abs(x - x.mean(axis=0)).mean()


# -- the rule
def test_a_source_with_two_readers_is_drawn_by_both_and_never_stored():
    x = uniform()
    assert "random" not in labels(compiled(anomaly(x)).after)
    assert labels(compiled(anomaly(x)).after).count("random+mean") == 4
    assert labels(compiled(anomaly(x), redraw=False).after).count("random") == 4


def test_what_was_asked_for_or_is_held_is_read():
    x = uniform()
    assert labels(compiled(x, anomaly(x)).after).count("random") == 4
    held = compile_graph(TensorGraph.of([anomaly(x).data], held={x.data.key}), {})
    assert labels(held.after).count("stored") == 4 and not any("random" in one for one in labels(held.after))


def test_many_readers_read_what_is_stored():
    a, b = uniform((1024, 1024), 128), uniform((1024, 1024), 128, 2)
    assert labels(compiled(a @ b).after).count("random") == 128


DEAR = {
    "normal": lambda rng, **cut: rng.normal(size=(1024, 1024), **cut),
    "poisson": lambda rng, **cut: rng.poisson(3, (1024, 1024), **cut),
    "permutation": lambda rng, **cut: rng.permutation(1024 * 1024, **cut).reshape(1024, 1024),
}


@pytest.mark.parametrize(("name", "spilled"), [("normal", True), ("poisson", False), ("permutation", False)])
def test_what_is_dear_is_stored_unless_storing_is_dearer(name, spilled):
    x = DEAR[name](mt.random.default_rng(1), chunk_size=512 * 1024 if name == "permutation" else 512)
    assert not any("+mean" in one for one in labels(compiled(anomaly(x)).after) if one.startswith(name))
    little = labels(compiled(anomaly(x), room=3 * MIB).after)  # 8 MiB are drawn, and 6 are there
    assert any(one.startswith(f"{name}+mean") for one in little) == spilled


def test_the_smallest_chunks_are_stored_since_opening_a_stream_costs_more():
    assert "random" in labels(compiled(anomaly(uniform((2000, 50), (50, 50)))).after)


def test_short_runs_of_doubles_are_dear_where_numpy_goes_to_each(monkeypatch):
    x = uniform((200_000, 60), (20_000, 30))  # runs of 30 of a row of 60: 0.9 ns a double in C, 70 with NumPy
    for name, stored in (("c", False), ("python", True)):
        monkeypatch.setattr("jmars.optimize.rematerialise.backend", lambda name=name: name)
        generation_seconds.cache_clear()
        assert ("random" in labels(compiled(anomaly(x)).after)) == stored
        narrow = uniform((200_000, 60), (20_000, 60))[100:, 5:25]
        assert any("random[...]" in one for one in labels(compiled(narrow.max()).after)) != stored
    generation_seconds.cache_clear()


def test_files_and_functions_have_no_known_cost():
    chunk = ChunkType((1000,), np.dtype("f8"))
    assert generation_seconds(single("arange", (), Generate(open_arange, (0.0, 1.0), chunk, True))) == pytest.approx(
        8e-7
    )
    assert generation_seconds(single("load", (), Generate(print, (), chunk))) is None


def test_each_operand_knows_all_that_it_is_made_of():
    x = uniform()
    done = compiled(anomaly(x))
    for row, name in enumerate(labels(done.after)):
        members = [done.tiled.programs[done.tiled.program[k]].name for k in done.members(row)]
        assert "+".join(members) == name
    assert set(done.tiled_group.tolist()) == set(range(done.after.n))
    plain = compiled(anomaly(x), redraw=False)
    assert plain.members(0) == np.flatnonzero(plain.tiled_group == 0).tolist()


def test_who_raises_in_what_is_fused_twice_is_named():
    x = mt.random.default_rng(1).random(1024 * 1024, chunk_size=512 * 1024).reshape(1024, 1024)
    called = mt.map_blocks(np.negative, x, dtype=float)
    done = compiled(called - x.max())
    row = next(k for k, name in enumerate(labels(done.after)) if name == "random+reshape+negative+subtract")
    program, members = done.after.programs[done.after.program[row]], done.members(row)
    (step,) = (k for k, step in enumerate(program.steps) if isinstance(step, Call))
    assert done.tiled.programs[done.tiled.program[members[program.members[step]]]].name == "negative"


# -- values
SOURCES = [
    lambda rng: rng.random((60, 40), chunk_size=(20, 40)),
    lambda rng: rng.uniform(-1, 1, (60, 40), chunk_size=(25, 13)),
    lambda rng: rng.random((60, 40), chunk_size=(20, 20)) * 2 - 1,
    lambda rng: rng.normal(size=(60, 40), chunk_size=(30, 40)),
    lambda rng: rng.random((60, 40), dtype="f4", chunk_size=(20, 40)),
    lambda rng: rng.integers(0, 9, (60, 40), chunk_size=(20, 40)),
    lambda rng: mt.arange(2400.0, chunk_size=500).reshape(60, 40),
    lambda rng: mt.linspace(0, 1, 40, chunk_size=13) + mt.zeros((60, 40), chunk_size=(20, 13)),
    lambda rng: mt.full((60, 40), 0.1, chunk_size=(20, 40)),
    lambda rng: mt.eye(60, 40, chunk_size=20),
    lambda rng: mt.random.RandomState(rng.integers(9)).rand(60, 40),
]
STEPS = [
    lambda x: x + x[::-1],
    lambda x: x - x.mean(axis=0),
    lambda x: x[1:-1, 2:],
    lambda x: x[1:] - x[:-1],
    lambda x: (x[2:, 1:-1] - x[:-2, 1:-1]) / 2 - (x[1:-1, 2:] - x[1:-1, :-2]) / 2,
    lambda x: x.rechunk((7, 9)),
    lambda x: x.T,
    lambda x: x.reshape(x.shape[1], x.shape[0]),
    lambda x: x.std(axis=-1, keepdims=True) * x,
    lambda x: mt.cumsum(x, axis=0),
    lambda x: mt.where(x > x.mean(), x, -x),
    lambda x: x.map_blocks(np.negative, dtype=x.dtype),
    lambda x: x[x > 0.3],
]
ENDS = [
    lambda x: x,
    lambda x: x.sum(),
    lambda x: x.mean(axis=0),
    lambda x: x.var(),
    lambda x: x.max(initial=0),
    lambda x: x.prod(),
]


@pytest.fixture
def values(monkeypatch):
    """Values of tensors with redrawing or without, where it is cheap even for small chunks; and the graphs that ran."""
    monkeypatch.setattr("jmars.optimize.rematerialise.STORED", 1e-6)
    monkeypatch.setattr("jmars.optimize.parts.STORED", 1e-6)
    graphs = []

    def run(wanted, on):
        def tiled(graph):
            graphs.append(compile_graph(graph, {"redraw": on}).after)
            return graphs[-1]

        monkeypatch.setattr(engine, "tiled", tiled)
        one_by_one = engine.OneByOne()
        one_by_one.execute([one.data for one in wanted])
        return [one_by_one.fetch(one.data) for one in wanted]

    run.graphs = graphs
    before = current_engine()
    set_engine(engine.OneByOne())  # for lengths that are asked for while a graph is made
    yield run
    set_engine(before)


@given(
    which=st.lists(st.sampled_from(SOURCES), min_size=1, max_size=2),
    roads=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.lists(st.sampled_from(STEPS[:-1]), max_size=2),
            st.sampled_from(STEPS),
            st.sampled_from(ENDS),
        ),
        min_size=2,
        max_size=4,
    ),
    asked=st.booleans(),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_not_one_bit_depends_on_who_draws(values, which, roads, asked, seed):
    rng = np.random.default_rng(seed)
    sources = [make(mt.random.default_rng(rng.integers(99))) for make in which]
    wanted = sources[:1] if asked else []
    for k, steps, step, end in roads:
        x = sources[k % len(sources)]
        for one in (*steps, step):
            x = one(x)
        wanted.append(end(x))
    for one, other in zip(values(wanted, True), values(wanted, False), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def curl(u, v):
    return (v[:, 1:-1, 2:] - v[:, 1:-1, :-2]) / 2 - (u[:, 2:, 1:-1] - u[:, :-2, 1:-1]) / 2


def test_slices_that_begin_at_different_places_are_drawn_apart_in_one_pass(values):
    u, v = (uniform((4, 200, 300), (2, 100, 300), seed) for seed in (1, 2))
    wanted = [curl(u, v).mean(axis=0), (u[:, 30:60].rechunk((4, 7, 90)) - 1).sum()]
    drawn, stored = ([one.tobytes() for one in values(wanted, on)] for on in (True, False))
    assert drawn == stored
    graph = values.graphs[0]
    assert not any("getitem" in name or "rechunk" in name for name in labels(graph))
    leaves = [k for k in range(graph.n) if not len(graph.inputs(k))]
    assert all(graph.programs[graph.program[k]].work == 0 for k in leaves)  # nothing is held whole


def test_parts_of_a_result_and_many_windows_are_not_drawn_again():
    x = uniform()
    assert labels(compiled(x, x[10:20].sum()).after).count("random[...]") == 0
    windows = sum(x[k : k + 400].sum() for k in range(20))
    assert sum("random" in name for name in labels(compiled(windows).after)) == 4
    assert any("random[...]" in name for name in labels(compiled(x[10:20].sum()).after))


def test_a_part_has_the_line_of_who_cut_it_out():
    x = uniform()
    part = x[10:20]
    (layer,) = compiled(part).before.layers
    assert layer.name == "random[...]" and layer.line == part.data.op.line


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("shape", [(700, 600), (3, 200_000), (300_000, 2)])
def test_large_sums_are_the_same_to_the_last_bit(values, shape, axis):
    x = mt.random.default_rng(3).random(shape, chunk_size=shape)
    wanted = [x.sum(axis=axis), x.mean(axis=axis), abs(x - 0.5).sum(axis=axis), x.std(axis=axis)]
    drawn, stored = ([one.tobytes() for one in values(wanted, on)] for on in (True, False))
    assert drawn == stored
    assert ["random" in labels(graph) for graph in values.graphs] == [False, True]
