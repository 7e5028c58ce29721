"""Slices that programs read in place, and values that programs compute where they are written."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.config import config
from jmars.kernels import compile_program
from jmars.kernels.fusing import sharing
from jmars.kernels.pipeline import flattened, never_raises
from jmars.kernels.program import Elementwise
from jmars.kernels.routines import llvm_there
from jmars.optimize import compile_graph
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine

BACKENDS = ["numpy", "numexpr", *["llvm"] * llvm_there()]
SHAPES = [(400,), (20_000,), (30, 20), (150, 150), (30, 31, 32), (1, 200, 200), (20_000, 3)]


@pytest.fixture(autouse=True)
def fused(monkeypatch):
    """Compute in this process, fused."""
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, config.task).after)
    before = current_engine()
    yield
    set_engine(before)


def heat(u, steps=3):
    for _ in range(steps):
        u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
    return u


def program_of(x):
    """The only program of a fused graph, apart from stored arrays."""
    (program,) = graph_of(x).programs
    return program


def graph_of(x, room=None):
    graph = TensorGraph.of([x.data])
    for number, _, _ in graph.arrays():
        graph.replace_by_stored(number, f"k{number}")
    return compile_graph(graph, config.task, room=room).after


@st.composite
def slices(draw, length, count):
    """A slice of `count` elements of an axis."""
    step = draw(st.sampled_from([1, 1, 1, 2, -1]))
    span = (count - 1) * abs(step) + 1
    if span > length:
        step, span = 1, count
    start = draw(st.integers(0, length - span))
    if step > 0:
        return slice(start, start + span, step)
    stop = start - 1
    return slice(start + span - 1, stop if stop >= 0 else None, step)


@st.composite
def statements(draw):
    shape = draw(st.sampled_from(SHAPES))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        counts = [draw(st.sampled_from([n, max(1, n - 2), max(1, n // 2)])) for n in shape]
        into, *read = (tuple(draw(slices(n, c)) for n, c in zip(shape, counts)) for _ in range(4))
        made.append((into, read, draw(st.sampled_from(["mean", "half", "root", "sum"]))))
    return shape, made


def run_on(u, made):
    for into, (a, b, c), kind in made:
        if kind == "mean":
            u[into] = (u[a] + u[b] + u[c]) / 3
        elif kind == "half":
            u[into] *= 0.5
        elif kind == "root":
            u[into] = np.sqrt(abs(u[a] - u[b])) + 1
        else:
            u[into] = u[a] + u[b].sum()
    return u


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=statements(), pieces=st.sampled_from([1, 1, 2]))
@settings(max_examples=40)
def test_statements_on_slices_give_numpys_elements(backend, case, pieces):
    shape, made = case
    set_engine(engine.OneByOne(backend=backend))
    a = np.random.default_rng(1).random(shape)
    u = mt.asarray(a.copy(), chunk_size=tuple(-(-n // pieces) for n in shape))
    # a sum is that of chunks and blocks, so its last bits are not NumPy's
    assert np.allclose(run_on(u, made).fetch(), run_on(a, made), rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stencil_is_one_operand_of_numpys_bits(backend):
    set_engine(engine.OneByOne(backend=backend))
    a = np.random.default_rng(2).random((200, 150))
    assert np.array_equal(heat(mt.asarray(a.copy())).fetch(), heat(a))
    assert program_of(heat(mt.asarray(a.copy()))).name.count("setitem") == 3


def test_slices_need_no_memory_and_values_are_computed_in_place():
    program = program_of(heat(mt.ones((300, 300), dtype="f4") * mt.ones((300, 300), chunk_size=300), steps=5))
    views, inside, _ = sharing(program.steps, len(program.inputs))
    assert len(views) == 5 * 4 and len(inside) == 5
    assert program.work <= 2 * 300 * 300 * 8  # two of the arrays between the statements


def test_a_slice_that_is_summed_or_given_to_a_function_is_copied():
    a = mt.asarray(np.ones((200, 200)))
    for x in (a[1:].sum(), np.linalg.norm(a[1:], "nuc"), np.sort(a[1:, 5:], axis=1)):
        program = program_of(x)
        assert not sharing(program.steps, len(program.inputs)).views


def test_copies_of_slices_keep_within_the_room_of_an_operand():
    a = mt.asarray(np.ones((1000, 1000)), chunk_size=1000)
    total = sum(a[i : 998 + i, j : 998 + j] for i in range(3) for j in range(3)).sum()
    room = 5 * 8_000_000
    for one in graph_of(total, room).programs:
        assert one.work + one.output.nbytes + sum(chunk.nbytes for chunk in one.inputs) <= room


def test_elements_between_rows_raise_nothing():
    for function, safe in ((np.add, True), (np.power, False)):
        b = mt.asarray(np.arange(90_000).reshape(300, 300))
        b[1:-1, 1:-1] = function(b[2:, 1:-1], b[:-2, 1:-1])
        steps = [step for step in program_of(b).steps if isinstance(step, Elementwise)]
        assert [never_raises(step.expression) for step in steps] == [safe]


def test_negative_powers_beside_the_slice_do_not_raise():
    set_engine(engine.OneByOne())
    a = np.full((200, 200), 2)
    a[:, [0, -1]] = -1
    expected = a.copy()
    for u in (b := mt.asarray(a), expected):
        u[1:-1, 1:-1] = u[1:-1, 1:-1] ** u[1:-1, 1:-1]
    assert np.array_equal(b.fetch(), expected)


def test_lines_are_of_equal_strides_with_few_elements_between():
    a, b = np.arange(60.0).reshape(6, 10), np.arange(60.0).reshape(10, 6)
    assert [len(line) for line in flattened([a[1:, 1:], a[:-1, :-1]])] == [49, 49]
    assert flattened([a[1:, 1:6], b[1:6, 1:]]) is None  # other strides
    assert flattened([a[:, ::2]]) is None
    assert flattened([a[::3]]) is None  # most elements lie between
    assert flattened([a[::-1]]) is None
    assert flattened([a[:0]]) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_column_is_computed_where_its_elements_lie(backend):
    set_engine(engine.OneByOne(backend=backend))
    a = np.random.default_rng(3).random((20_000, 3))
    u = mt.asarray(a.copy(), chunk_size=a.shape)
    for x in (u, a):
        x[:, 1:2] = x[:, :1] * 2 + x[:, 2:]
    assert np.array_equal(u.fetch(), a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_text_beside_a_slice_need_be_no_number(backend):
    set_engine(engine.OneByOne(backend=backend))
    a = np.full((200, 200), "1.5")
    a[:, 0] = "name"
    u = mt.zeros((200, 200), chunk_size=200)
    u[:, 1:] = mt.asarray(a, chunk_size=200)[:, 1:].astype(float)
    assert u.fetch().sum() == 1.5 * 200 * 199


def stepped(u):
    return u[::2, ::2] + u[1::2, ::2] * u[::2, ::-2]


def read_later(u):
    """The written array has a reader, and further arrays follow when the reader has run."""
    u = u + 1
    u[1:-1] = u[2:] + u[:-2]
    return (u.T + 1).T + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [heat, stepped, read_later])
def test_a_program_takes_no_more_memory_than_it_says(function, backend):
    graph = graph_of(function(mt.asarray(np.ones((1000, 1000)), chunk_size=1000)))
    (program,), args, inputs = graph.programs, graph.args[-1], [np.ones((1000, 1000))]
    kernel, out = compile_program(program, backend), np.empty(program.output.shape)
    kernel(out, inputs, args)  # makes what is kept: machine code, buffers of blocks
    tracemalloc.start()
    kernel(out, inputs, args)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most <= program.work + 2**20


@pytest.mark.parametrize("at", [slice(None, None, -1), (slice(None), 1), (slice(None, None, 2), slice(None, None, -2))])
@pytest.mark.parametrize("dtype", ["f2", "f8", "c8"])
def test_elements_that_lie_apart_have_the_bits_of_contiguous_ones(at, dtype):
    set_engine(engine.OneByOne())
    a = np.random.default_rng(4).random((20_000, 3)).astype(dtype)
    a = a[:, 0] if isinstance(at, slice) else a
    x = mt.asarray(a.copy(), chunk_size=a.shape)[at]
    assert np.array_equal(abs(np.exp(x)).fetch(), abs(np.exp(a[at].copy())))
