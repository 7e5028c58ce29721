"""Which part of a graph can run now: what is asked for, nothing twice, and nothing kept longer than it is read."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import GraphError
from jmars.optimize.unfolding import Unfolding, reported_splits
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.operand import Origin, TensorData, new_data
from jmars.tensor.tensor_graph import Dynamic, TensorGraph, fragment, new_group, placeholders
from tests.tensor.engine import OneByOne


@pytest.fixture
def engine() -> Iterator[OneByOne]:
    before = current_engine()
    here = OneByOne()
    set_engine(here)
    yield here
    set_engine(before)


@dataclass(frozen=True, eq=False, kw_only=True)
class Later(Dynamic):
    """The sum of all inputs, once the values of some of them are known."""

    name: ClassVar[str] = "later"
    seen: tuple[int, ...] = ()
    wrong: bool = False

    def wants(self, inputs):
        return (), self.seen

    def expand(self, inputs, values):
        assert set(values) >= set(self.seen)
        total, *rest = (mt.Tensor(leaf) for leaf in placeholders(inputs))
        for one in rest:
            total = total + one
        return fragment([(total.astype("f4") if self.wrong else total).data])


def later(*inputs, seen=(), wrong=False):
    op = Later(group=new_group(), seen=tuple(seen), wrong=wrong, inputs=tuple(inputs))
    return new_data(op, inputs[0].shape, inputs[0].dtype, inputs[0].chunks)


def number(value):
    return mt.as_tensor(np.float64(value)).data


def labels(stage):
    return [op.label for op in stage.graph.operands]


def run_all(graph):
    """The stages; every value is 1."""
    run, stages = Unfolding(graph), []
    while (stage := run.next()) is not None:
        stages.append(stage)
        run.ran({}, {node: np.float64(1) for node in stage.wanted})
    return run, stages


def test_a_graph_without_dynamic_operands_is_one_stage():
    _, stages = run_all(TensorGraph.of([(mt.ones(4) + 1).data, mt.ones(3).sum().data]))
    assert len(stages) == 1 and len(stages[0].kept) == 2 and not stages[0].wanted


def test_only_what_is_wanted_and_what_waits_for_nothing_runs_first():
    x = mt.zeros(()) + 3
    heavy, free = (x * 5).data, (x - 7).data
    _, (first, second) = run_all(TensorGraph.of([later(heavy, x.data, seen=[1]), free]))
    assert sorted(labels(first)) == ["add", "subtract", "zeros"]
    assert "multiply" in labels(second) and "add" in labels(second)
    assert len(first.wanted) == 1


def test_constants_are_made_again_instead_of_being_kept():
    x = mt.ones((1000,), chunk_size=100)
    decides = (x.sum() * 2).data
    waits = later((x * 3).sum().data, decides, seen=[1])
    _, (first, second) = run_all(TensorGraph.of([waits]))
    assert set(first.kept.values()) == set(first.wanted)
    assert "ones" in labels(first) and "ones" in labels(second)


def test_what_is_read_no_more_is_dropped():
    node = (mt.zeros(()) + 1).data
    for _ in range(5):
        node = later(node, seen=[0]) if not isinstance(node.op, Later) else later((mt.Tensor(node) + 1).data, seen=[0])
    run, stages = run_all(TensorGraph.of([node]))
    held = set()
    for stage in stages:
        assert set(stage.given.values()) <= held
        held -= set(stage.dropped)
        held |= set(stage.kept.values())
        assert len(held) <= 2
    ((_, result),) = run.results()
    assert result in held


def test_a_dynamic_operand_that_wants_nothing_is_replaced_at_once():
    node = later(number(1), number(2))
    graph = TensorGraph.of([later(node, node)])
    for row, _, _ in graph.arrays():
        graph.replace_by_stored(row, f"outside-{row}")
    _, stages = run_all(graph)
    assert [sorted(labels(stage)) for stage in stages] == [["add", "add", "stored", "stored"]]


def test_an_operand_that_gives_what_it_did_not_promise_is_an_error():
    with pytest.raises(GraphError, match="later was to give 0 axes of float64 and gives 0 of float32"):
        run_all(TensorGraph.of([later((mt.zeros(()) + 1).data, wrong=True)]))


@st.composite
def graphs(draw):
    """Chains and joins of ordinary and dynamic operands on numbers."""
    nodes: list[TensorData] = [(mt.zeros(()) + 1).data]
    for _ in range(draw(st.integers(1, 10))):
        picked = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))
        if draw(st.booleans()):
            seen = draw(st.sets(st.integers(0, len(picked) - 1)))
            nodes.append(later(*picked, seen=seen))
        else:
            nodes.append((mt.Tensor(picked[0]) * 1.5).data)
    return draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=4, unique_by=id))


@given(graphs())
def test_every_stage_can_run_and_no_operand_runs_twice(results):
    run, stages = run_all(TensorGraph.of(results))
    held: set[int] = set()
    ran: list[int] = []
    for stage in stages:
        graph = stage.graph
        assert all(one < row for row, inputs in enumerate(graph.inputs) for one in inputs)
        assert set(stage.given.values()) <= held
        assert not any(op.dynamic for op in graph.operands)
        ran += [id(op) for op in graph.operands if op.label not in ("stored", "zeros")]
        held = held - set(stage.dropped) | set(stage.kept.values())
    assert len(ran) == len(set(ran))
    assert {node for _, node in run.results()} <= held
    assert [key for key, _ in run.results()] == [one.key for one in results]


def test_lengths_are_told_along_the_axes_that_were_unknown():
    axis = Origin.of("somewhere").axis([4, 4])
    assert reported_splits(((2, 2), axis), [(2, 1), (2, 0), (2, 1), (2, 0)]) == ((2, 2), (1, 0))


def test_a_loop_takes_no_more_memory_the_longer_it_runs():
    x = mt.zeros(6, chunk_size=2)
    loop = mt.while_loop(lambda v: v.max() < 5, lambda v: mt.cond(v.sum() > 3, v + 1, v + 2), x)
    run = Unfolding(TensorGraph.of([loop.data]))
    sizes = []
    for _ in range(60):
        stage = run.next()
        assert stage is not None
        run.ran({}, {node: np.float64(1) for node in stage.wanted})
        sizes.append(len(pickle.dumps([run.operands, run.metas, run._known, run._groups, run._values])))
    assert max(sizes[20:]) <= max(sizes[:20]) + 100  # numbers have more digits


def test_loops_within_loops_have_lengths_of_their_own(engine):
    array = np.arange(12)
    x = mt.as_tensor(array, chunk_size=5)

    def outer(total, i):
        y = x[x > i]
        inner, _ = mt.while_loop(lambda t, k: k < 2, lambda t, k: (t + (y + k).sum(), k + 1), (total, 0))
        return inner, i + 4

    ours, _ = mt.while_loop(lambda total, i: i < 9, outer, (mt.as_tensor(0), 0))
    expected = sum((array[array > i] + k).sum() for i in (0, 4, 8) for k in (0, 1))
    assert int(ours) == expected
