"""cond and while_loop: the right branch, the right number of rounds, nothing else computed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import ExecutionError
from tests.tensor.cut import cut_arrays, same


def raising(block):
    raise RuntimeError("this branch must not run")


def test_only_the_taken_branch_is_computed():
    x = mt.arange(6, chunk_size=4)
    forbidden = mt.map_blocks(raising, x, dtype=x.dtype)
    same(mt.cond(x.sum() > 0, x * 2, forbidden), np.arange(6) * 2)
    same(mt.cond(x.sum() < 0, lambda: forbidden, lambda: x + 1), np.arange(6) + 1)
    same(mt.cond(x.sum(), lambda a, b: a + b, lambda a, b: forbidden, (x, 1)), np.arange(6) + 1)
    with pytest.raises(RuntimeError, match="must not run"):
        mt.cond(x.sum() < 0, x, forbidden).fetch()


@given(cut_arrays(low=0, high=2), st.integers(-1, 1))
def test_a_condition_chooses_as_python_does(arrays, number):
    array, x = arrays
    y = mt.cond(mt.as_tensor(number), x * 1.5, x)
    same(y, array * 1.5 if number else array.astype(float))
    same(y + 1, (array * 1.5 if number else array) + 1.0)


def test_several_results_and_numbers_as_branches():
    x = mt.arange(4, chunk_size=3)
    a, b = mt.cond(x.max() > 2, (x, 1.5), (x + 1, 2))
    same(a, np.arange(4))
    same(b, np.float64(1.5))
    same(mt.cond(True, lambda: x, lambda: mt.map_blocks(raising, x, dtype=x.dtype)), np.arange(4))
    same(mt.cond(np.bool_(False), 1, 2), 2)


def test_a_condition_within_a_condition_and_on_its_result():
    x = mt.arange(5, chunk_size=2)
    inner = mt.cond(x.sum() > 100, lambda: mt.map_blocks(raising, x, dtype=x.dtype), lambda: x + 10)
    outer = mt.cond(inner.min() == 10, lambda: inner * 2, lambda: x)
    same(outer, (np.arange(5) + 10) * 2)


def test_branches_that_do_not_fit_are_refused_when_built():
    x = mt.arange(5)
    with pytest.raises(ValueError, match=r"shapes \(5,\) and \(4,\)"):
        mt.cond(x.sum() > 0, x, x[:4])
    with pytest.raises(ValueError, match="one element"):
        mt.cond(x > 0, x, x)
    with pytest.raises(ValueError, match="2 values and one value"):
        mt.cond(x.sum() > 0, (x, x), x)


def test_a_result_that_needs_no_condition_is_computed_in_the_first_stage(engine):
    x = mt.arange(6, chunk_size=4)
    other, chosen = x.prod(), mt.cond(x.sum() > 0, x + 1, x)
    engine.execute([other.data, chosen.data])
    assert len(engine.stages) == 2
    assert other.data.op.label in [op.label for op in engine.stages[0].graph.operands]
    same(chosen, np.arange(6) + 1)
    same(other, 0)


@given(cut_arrays(low=0, high=2, longest=4), st.integers(0, 5))
def test_a_loop_is_python_s(arrays, rounds):
    array, x = arrays
    last, count = mt.while_loop(lambda v, i: i < rounds, lambda v, i: (v * 2 + i, i + 1), (x, 0))
    expected = array.copy()
    for i in range(rounds):
        expected = expected * 2 + i
    same(last, expected)
    same(count, rounds)


def test_a_loop_calls_functions_once_and_outside_values_once(engine):
    calls = []
    outside = mt.ones(4, chunk_size=2) * 3
    total = outside.sum()

    def body(v):
        calls.append(1)
        return v + total

    same(mt.while_loop(lambda v: v.sum() < 1000, body, mt.zeros(4, chunk_size=3)), np.full(4, 252.0))
    assert calls == [1]
    assert len(engine.stages) == 22
    assert sum("ones" in [op.label for op in stage.graph.operands] for stage in engine.stages) == 1


def test_a_loop_holds_the_same_number_of_tensors_however_long_it_runs(engine):
    held = []
    for rounds in (3, 30):
        engine.most_held = 0
        mt.while_loop(lambda v, rounds=rounds: v.max() < rounds, lambda v: v + 1, mt.zeros(6, chunk_size=2)).fetch()
        held.append(engine.most_held)
        assert len(engine.stages) == rounds + 1
    assert held[0] == held[1] <= 4


def test_iterations_are_equal_stages_so_preparation_serves_again(engine):
    mt.while_loop(lambda v: v.max() < 5, lambda v: v + 1, mt.zeros(6, chunk_size=2)).fetch()
    graphs = [stage.graph for stage in engine.stages[1:]]
    assert len({(tuple(map(id, g.operands[1:])), tuple(g.inputs), tuple(g.results)) for g in graphs[1:]}) <= 2
    assert len({tuple(g.metas) for g in graphs[1:]}) == 1


def test_a_loop_with_a_limit_says_so():
    x = mt.zeros(3)
    same(mt.while_loop(lambda v: v.max() < 5, lambda v: v + 1, x, max_iterations=5), np.full(3, 5.0))
    with pytest.raises(ExecutionError, match="after 4 iterations"):
        mt.while_loop(lambda v: v.max() < 5, lambda v: v + 1, x, max_iterations=4).fetch()


def test_a_body_that_changes_the_state_s_kind_is_refused_when_built():
    x = mt.arange(3)
    with pytest.raises(TypeError, match="is int64 and its body gives float64"):
        mt.while_loop(lambda v: v.max() < 5, lambda v: v * 1.5, x)
    with pytest.raises(ValueError, match="has shape"):
        mt.while_loop(lambda v: v.max() < 5, lambda v: v[:2], x)
    with pytest.raises(TypeError, match="2 values and gives one value"):
        mt.while_loop(lambda a, b: a.max() < 5, lambda a, b: a, (x, x))
    with pytest.raises(ValueError, match="one element"):
        mt.while_loop(lambda v: v < 5, lambda v: v + 1, x)


def test_loops_and_conditions_nest():
    def collatz(v, steps):
        even = mt.cond(v % 2 == 0, lambda: v // 2, lambda: 3 * v + 1)
        return even, steps + 1

    value, steps = mt.while_loop(lambda v, steps: v != 1, collatz, (mt.as_tensor(6), 0))
    same(steps, 8)
    same(value, 1)

    def square(v):
        inner, _ = mt.while_loop(lambda w, i: i < 2, lambda w, i: (w + v, i + 1), (v, 0))
        return inner

    same(mt.while_loop(lambda v: v.max() < 50, square, mt.as_tensor([1, 2])), [27, 54])


def test_a_loop_that_never_runs_gives_what_it_began_with():
    x = mt.arange(5, chunk_size=2)
    same(mt.while_loop(lambda v: v.sum() < 0, lambda v: v + 1, x), np.arange(5))
