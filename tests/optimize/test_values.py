"""Real tensors, compiled with every switch on and off: NumPy's values each time."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine

MODES = [(mode, early) for mode in ("chain", "region", "color") for early in (True, False)]
CONFIGS = [
    {"optimize_tileable_graph": equal, "optimize_chunk_graph": needed, "fuse": mode, "fuse_tileable": early}
    for equal, needed, (mode, early) in itertools.product([True, False], [True, False], MODES)
]
CONFIGS.append({"fuse_enabled": False})

UNARY = [lambda np, x: -x, lambda np, x: np.sqrt(np.abs(x)), lambda np, x: x * 2, lambda np, x: x.sum(0, keepdims=True)]
BINARY = [lambda np, x, y: x + y, lambda np, x, y: np.maximum(x, y), lambda np, x, y: x * x - y]


@st.composite
def expressions(draw):
    """(steps, results): each step a function and the numbers of the values that it reads; 0 and 1 are the inputs."""
    steps = []
    for n in range(2, 2 + draw(st.integers(1, 8))):
        value = st.integers(0, n - 1)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(UNARY)), (draw(value),)))
        else:
            steps.append((draw(st.sampled_from(BINARY)), (draw(value), draw(value))))
    return steps, draw(st.lists(st.integers(2, len(steps) + 1), min_size=1, max_size=3, unique=True))


def evaluate(numpy, steps, results, x, y):
    values = [x, y]
    for function, read in steps:
        values.append(function(numpy, *(values[k] for k in read)))
    return [values[k] for k in results]


@pytest.mark.long(beyond=8)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values())))
@given(expression=expressions(), chunk_size=st.sampled_from([2, 3, 7]))
@settings(max_examples=12, deadline=None)
def test_every_way_gives_numpys_values(config, expression, chunk_size):
    x, y = np.arange(28.0).reshape(7, 4) - 5, np.linspace(-1, 1, 28).reshape(7, 4)
    steps, results = expression
    expected = evaluate(np, steps, results, x, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "tiled", lambda graph: compile_graph(graph, config).after)
        compiled = engine.OneByOne()
        tensors = evaluate(mt, steps, results, *(mt.array(a, chunk_size=chunk_size) for a in (x, y)))
        compiled.execute([tensor.data for tensor in tensors])
        for tensor, value in zip(tensors, expected, strict=True):
            got = compiled.fetch(tensor.data)
            assert got.dtype == value.dtype and got.shape == value.shape
            np.testing.assert_allclose(got, value, rtol=1e-12)


def test_a_tensor_that_is_held_is_read_and_not_computed_again():
    x = mt.ones(10, chunk_size=5) + 1
    graph = TensorGraph.of([(x * x).sum().data], held={x.data.key})
    compiled = compile_graph(graph, {})
    assert (compiled.after.program < 0).sum() == 2
    assert compiled.dag.sources().tolist() == sorted(compiled.after.stored)


def add_in_place(block):
    block += 100
    return block


def added(block):
    try:
        return add_in_place(block)
    except ValueError:  # read-only, as documented
        return block + 100


SHARED = {
    "elements": lambda x: x * 2,
    "reversed": lambda x: x[::-1],
    "a function": lambda x: mt.cumsum(x),
    "a sum": lambda x: x.sum(keepdims=True),
}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values())))
@pytest.mark.parametrize("shared", SHARED)
def test_a_function_never_writes_into_what_others_read(config, shared, monkeypatch):
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, config).after)
    for function, fails in ((added, False), (add_in_place, True)):
        x = SHARED[shared](mt.arange(8.0, chunk_size=8))
        y, compiled = x.map_blocks(function, dtype="f8") + x, engine.OneByOne()
        if fails:
            with pytest.raises(ValueError, match="read-only"):
                compiled.execute([y.data])
            continue
        np.testing.assert_array_equal(compiled.fetch(y.data), 2 * compiled.fetch(x.data) + 100)


SELECTIONS = [
    lambda np, x: x[x > 0].sum(),
    lambda np, x: x[x > 9].mean() if np is mt else np.float64("nan"),  # of no elements
    lambda np, x: np.sqrt(x[(x > 0) & (x < 3)] + 1).std(),
    lambda np, x: (x[x[:, 0] > 0] * 2).sum(axis=0),
    lambda np, x: x[x > 0] + x[x > 0],
    lambda np, x: np.unique(x[x > 0] // 1).sum(),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values())))
@pytest.mark.parametrize("number", range(len(SELECTIONS)))
def test_selections_have_the_same_bits_fused_and_apart(config, number, monkeypatch):
    x = np.linspace(-3, 3, 28).reshape(7, 4)
    found = []
    for one in (config, CONFIGS[-1]):
        monkeypatch.setattr(engine, "tiled", lambda graph, one=one: compile_graph(graph, one).after)
        run = engine.OneByOne()
        with np.errstate(invalid="ignore", divide="ignore"):
            tensor = SELECTIONS[number](mt, mt.array(x, chunk_size=3))
            run.execute([tensor.data])
            found.append(run.fetch(tensor.data))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], SELECTIONS[number](np, x), rtol=1e-12)


def test_a_selection_and_its_mask_run_in_the_operand_that_reduces_them():
    x = mt.array(np.arange(12.0), chunk_size=4)
    chosen = x[x > 2]
    compiled = compile_graph(TensorGraph.of([np.sqrt(chosen).sum().data], held={x.data.key}), {})
    names = [compiled.after.programs[row].name for row in compiled.after.program if row >= 0]
    assert names == ["greater+mask+sqrt+sum"] * 3 + ["sum"]
    leaf = compiled.after.programs[compiled.after.program[3]]
    assert leaf.work == 32 + 32  # selection and roots, each perhaps as long as the chunk
    both = compile_graph(TensorGraph.of([chosen.sum().data, chosen.data], held={x.data.key}), {})
    names = [both.after.programs[row].name for row in both.after.program if row >= 0]
    assert names.count("greater+mask") == 3  # a result stays a chunk


def test_parts_of_a_selection_and_users_functions_on_it_stay_apart():
    x = mt.array(np.arange(12.0), chunk_size=4)
    mapped = mt.map_blocks(np.negative, x[x > 2], dtype=float)
    compiled = compile_graph(TensorGraph.of([mapped.sum().data], held={x.data.key}), {})
    names = {compiled.after.programs[row].name for row in compiled.after.program if row >= 0}
    assert "greater+mask" in names


def compiled_names(tensor, *held, room=None):
    graph = TensorGraph.of([tensor.data], held={one.data.key for one in held})
    compiled = compile_graph(graph, {}, room=room)
    return {compiled.after.programs[row].name for row in compiled.after.program if row >= 0}


def test_a_mask_that_selects_from_itself_stays_apart():
    mask = mt.array(np.arange(12) % 3 > 0, chunk_size=4)
    assert compiled_names(mask[mask].sum(), mask) == {"mask+sum", "sum"}
    x = mt.array(np.arange(12.0), chunk_size=4) > 3
    run = engine.OneByOne()
    total = x[x].sum()
    run.execute([total.data])
    assert run.fetch(total.data) == 8


def test_a_bound_beyond_the_inputs_or_the_room_is_no_scratch_memory():
    x = mt.array(np.arange(1000.0), chunk_size=1000)
    column, row = x.reshape((-1, 1)), x.reshape((1, -1))
    table = column[column[:, 0] > 990] - row[:, row[0] > 990]  # at most a million elements, and really 81
    names = compiled_names(table.sum(), x)
    assert not any("subtract+sum" in name for name in names)
    assert "greater+mask+sum" in compiled_names(x[x > 3].sum(), x, room=17_000)
    assert "greater+mask+sum" not in compiled_names(x[x > 3].sum(), x, room=16_999)
