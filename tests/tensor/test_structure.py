"""Graphs of one structure have one digest; whatever decides a plan or a value, but for the data, changes it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.structure import bindings, canonical, digest_of
from jmars.tensor.tensor_graph import Stored, TensorGraph

# One step of a computation: a name, and parameters that each change its meaning.
STEPS = {
    "add": lambda x, k: x + k,
    "multiply": lambda x, k: x * (k + 0.5),
    "power": lambda x, k: x**k,
    "typed": lambda x, k: x + np.dtype(("f4", "i2", "u8", "?", "c8")[k % 5]).type(1),
    "slice": lambda x, k: x[k:],
    "every": lambda x, k: x[:: k + 1],
    "take": lambda x, k: x[np.array([0, k % 3])],
    "rechunk": lambda x, k: x.rechunk(chunk_size=k + 1),
    "sum": lambda x, k: x.sum(axis=0, keepdims=True) + x[k:],
    "std": lambda x, k: x.std(ddof=k, keepdims=True) * x,
    "random": lambda x, k: x[:1] + mt.random.default_rng(1).uniform(0, k + 1, 9, chunk_size=3),
    "normal": lambda x, k: x[:1] + mt.random.default_rng(1).normal(k, 1.0, 9, chunk_size=3),
    "range": lambda x, k: x[:1] + mt.arange(k, k + 9, chunk_size=3),
    "map": lambda x, k: mt.map_blocks(lambda block: block + k, x, dtype=x.dtype),
    "kwargs": lambda x, k: mt.map_blocks(_shifted, x, dtype=x.dtype, by=k),
    "write": lambda x, k: _written(x, k),
}
step = st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 2))


def _shifted(block, by):
    return block + by


def _written(x, k):
    y = x.copy()
    y[k] = k
    return y


def built(steps, chunk_size=4, dtype="f8") -> TensorGraph:
    x = mt.ones(9, dtype=dtype, chunk_size=chunk_size)
    for name, k in steps:
        if x.shape[0] < 4:
            x = mt.concatenate([x, mt.zeros(9, chunk_size=chunk_size)])
        x = STEPS[name](x, k)
    return TensorGraph.of([x.data])


def digest(graph: TensorGraph, **settings) -> bytes:
    return digest_of(graph, settings)


@given(st.lists(step, min_size=1, max_size=6))
def test_the_same_computation_built_again_has_the_same_digest(steps):
    assert digest(built(steps)) == digest(built(steps))


@given(st.lists(step, min_size=1, max_size=6), st.data())
def test_one_parameter_more_or_less_is_another_digest(steps, data):
    at = data.draw(st.integers(0, len(steps) - 1))
    name, k = steps[at]
    other = data.draw(st.integers(0, 2).filter(lambda one: one != k))
    assert digest(built(steps)) != digest(built([*steps[:at], (name, other), *steps[at + 1 :]]))


@given(st.lists(step, min_size=1, max_size=4), st.lists(step, min_size=1, max_size=4))
def test_different_computations_never_share_a_digest(first, second):
    assert (digest(built(first)) == digest(built(second))) == (first == second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x + 0.0, lambda x: x + -0.0),
        (lambda x: x.astype("f4") * np.float32(2), lambda x: x.astype("f4") * np.float64(2)),
        (lambda x: mt.ones(4), lambda x: mt.zeros(4)),
        (lambda x: mt.ones(4), lambda x: mt.ones(4, dtype="f4")),
        (lambda x: mt.ones(4), lambda x: mt.ones(4, chunk_size=2)),
        (lambda x: mt.ones((4, 1)), lambda x: mt.ones((1, 4))),
        (lambda x: (x + 1) * (x + 2), lambda x: (x + 1) * (x + 1)),
        (lambda x: x - x[::-1], lambda x: x[::-1] - x),
        (lambda x: x[np.array([1, 0])], lambda x: x[np.array([0, 1])]),
        (lambda x: x[1:3], lambda x: x[1:4][:2]),
        (lambda x: mt.random.default_rng(1).random(4), lambda x: mt.random.default_rng(1).random(4, dtype="f4")),
        (lambda x: mt.random.default_rng(1).normal(0, 1, 4), lambda x: mt.random.default_rng(1).normal(0, 2, 4)),
        (lambda x: x.sum(), lambda x: x.prod()),
        (lambda x: x.var(ddof=0), lambda x: x.var(ddof=1)),
        (lambda x: x.astype("M8[s]"), lambda x: x.astype("M8[ms]")),
    ],
)
def test_what_looks_alike_and_is_not_differs(one, other):
    x = mt.arange(5.0, chunk_size=2)
    assert digest(TensorGraph.of([one(x).data])) != digest(TensorGraph.of([other(x).data]))


def test_settings_results_and_what_is_held_are_structure():
    x = mt.ones(4, chunk_size=2)
    y = x + 1
    plain = digest(TensorGraph.of([y.data]))
    assert digest(TensorGraph.of([y.data]), fuse_enabled=False) != plain
    assert digest(TensorGraph.of([y.data]), fuse_enabled=True) != digest(TensorGraph.of([y.data]), fuse_enabled=1)
    assert digest(TensorGraph.of([x.data, y.data])) != plain
    assert digest(TensorGraph.of([y.data, x.data])) != digest(TensorGraph.of([x.data, y.data]))
    assert digest(TensorGraph.of([y.data], held={x.data.key})) != plain


def test_data_keys_and_lines_are_no_structure():
    def cell(values, held=False):
        x = mt.asarray(values, chunk_size=2)
        return TensorGraph.of([(x * 2).data], held={x.data.key} if held else ())

    first, second = cell(np.arange(6.0)), cell(np.ones(6))
    third = TensorGraph.of([(mt.asarray(np.zeros(6), chunk_size=2) * 2).data])  # on another line
    assert digest(first) == digest(second) == digest(third) == digest(cell(np.ones(6), held=True))
    assert digest(first) != digest(cell(np.arange(7.0)))
    assert digest(first) != digest(cell(np.arange(6)))  # whole numbers


def test_a_random_stream_is_filled_in_by_its_begin_and_equality_is_not():
    def cell(*seeds):
        return TensorGraph.of([sum(mt.random.default_rng(seed).random(6, chunk_size=4) for seed in seeds).data])

    assert digest(cell(1, 2)) == digest(cell(3, 4)) == digest(cell(None, None)) == digest(cell(2**200, (1, 2, 3)))
    assert digest(cell(1, 1)) == digest(cell(2, 2)) != digest(cell(1, 2))  # equal ones are computed once
    generator = mt.random.default_rng(5)
    first, second = (TensorGraph.of([generator.normal(size=6).data]) for _ in range(2))
    assert digest(first) == digest(second)
    keys = [meta.key for meta in first.metas]
    assert bindings(first.operands, keys).values != bindings(second.operands, keys).values
    assert canonical(first).operands[0].stream == canonical(second).operands[0].stream


def test_a_function_is_its_code_and_what_it_closes_over():
    def cell(number, kind=1):
        def first(block):
            return block + number

        def second(block):
            return block - number

        return TensorGraph.of([mt.map_blocks(first if kind == 1 else second, mt.ones(4), dtype=float).data])

    assert digest(cell(1)) == digest(cell(1))
    assert len({digest(cell(1)), digest(cell(2)), digest(cell(1, 2)), digest(cell(1.0))}) == 4


@given(st.lists(step, min_size=1, max_size=5))
def test_canonical_graphs_of_one_structure_are_equal_to_the_last_byte(steps):
    first, second = canonical(built(steps)), canonical(built(steps))
    assert [meta.key for meta in first.metas] == [str(i) for i in range(len(first.metas))]
    assert first.metas == second.metas and first.inputs == second.inputs and first.results == second.results
    assert digest(first) == digest(built(steps))
    assert pickle.loads(pickle.dumps(first)).metas == first.metas


def test_bindings_give_keys_and_lines_back():
    x = mt.ones(4)
    graph = TensorGraph.of([(x + 1).data])
    bound = bindings(graph.operands, [meta.key for meta in graph.metas])
    plain = canonical(graph)
    assert [bound.key(meta.key) for meta in plain.metas] == [meta.key for meta in graph.metas]
    assert [bound.line(op.line) for op in plain.operands] == [op.line for op in graph.operands]
    assert bound.line(None) is None
    nowhere = bindings([replace(graph.operands[0], line=None)], ["k"])
    assert nowhere.line(plain.operands[0].line) is None


def test_a_leaf_is_a_leaf_whoever_stored_it():
    x = mt.asarray(np.arange(4.0), chunk_size=2)
    graph = TensorGraph.of([(x + 1).data])
    before = digest(graph)
    ((index, _, _),) = graph.arrays()
    graph.replace_by_stored(index, "there")
    assert isinstance(graph.operands[index], Stored) and digest(graph) == before


def test_unknown_lengths_are_told_apart_by_their_origins_alone():
    def filtered(same):
        x = mt.arange(20, chunk_size=6)
        mask = x > 3
        other = mask if same else x > 4
        return TensorGraph.of([x[mask].sum().data, x[other].prod().data])

    assert digest(filtered(True)) == digest(filtered(True)) != digest(filtered(False)) == digest(filtered(False))
