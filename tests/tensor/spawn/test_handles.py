"""Handles of spawned functions: what is refused at once, and what becomes an input."""

from __future__ import annotations

import gc
import pickle

import cloudpickle
import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.optimize import compile_graph
from jmars.plan import Profile, annotate
from jmars.tensor.spawn import map_items, spawn
from jmars.tensor.tensor_graph import TensorGraph


def test_handles_and_tensors_in_arguments_become_inputs_once_each():
    first = spawn(len, ("abc",))
    x = mt.arange(10, chunk_size=3)
    task = spawn(print, ([first, {"k": (first, x)}], x), {"again": first})
    assert task.data.op.objects == (True, False)
    assert task.data.op.inputs[0] is first.data and task.data.op.inputs[1].chunks == ((10,),)
    assert [op.label for op in TensorGraph.of([task.data]).operands] == ["len", "arange", "rechunk", "print"]


def test_large_arrays_travel_in_shared_memory_and_small_ones_with_the_call():
    large, small = np.ones(10_000), np.ones(10)
    task = spawn(print, (large, small))
    (data,) = task.data.op.inputs
    assert np.array_equal(data.op.array, large) and data.op.line.text == "task = spawn(print, (large, small))"
    assert len(task.data.op.call) < 1000


def test_outputs_are_handles_of_their_own():
    task = spawn(divmod, (7, 2), n_outputs=2)
    assert [task[0].number, task[1].number, len(task)] == [0, 1, 2] and task[0].data is task.data
    named = spawn(divmod, (7, 2), outputs=["quotient", "rest"])
    assert named.output["rest"].number == 1 and named["rest"] is named.output["rest"] and named[1] is named["rest"]
    with pytest.raises(LookupError, match=r"has no output 'other': its outputs are \['quotient', 'rest'\]"):
        named["other"]
    with pytest.raises(LookupError, match="spawned with one result; pass n_outputs="):
        spawn(len, ("a",))[0]


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"function": 3}, TypeError, "cannot be called"),
        ({"args": "text"}, TypeError, "args is a str; give a tuple"),
        ({"args": 5}, TypeError, "args is a int; give a tuple"),
        ({"kwargs": [1]}, TypeError, "kwargs is a list; give a dict"),
        ({"cost": -1}, ValueError, "cost is -1"),
        ({"cost": float("nan")}, ValueError, "cost is nan"),
        ({"n_outputs": 0}, ValueError, "n_outputs is 0"),
        ({"n_outputs": 2.5}, TypeError, r"n_outputs is 2\.5; give a whole number"),
        ({"outputs": ["a", "a"]}, ValueError, "all different"),
        ({"outputs": ["a"], "n_outputs": 2}, ValueError, "give 2 names"),
        ({"memory": "much"}, ValueError, "much"),
        ({"environment": "A=1"}, TypeError, "environment is 'A=1'; give a dict"),
        ({"environment": {"A": 1}}, TypeError, "environment has 'A': 1; names and values are texts, such as '1'"),
        ({"environment": {"B": "1", 2: "x"}}, TypeError, "environment has 2: 'x'; names and values are texts"),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_call(wrong, error, text):
    with pytest.raises(error, match=text):
        spawn(**({"function": len} | wrong))


def test_a_handle_in_a_closure_is_refused_with_what_to_do():
    task = spawn(len, ("abc",))
    with pytest.raises(UnsupportedError, match="as an argument to spawn"):
        spawn(lambda: task)
    with pytest.raises(UnsupportedError):
        cloudpickle.dumps(task)


HANDLES = [spawn(len, ("abc",)), spawn(divmod, (5, 2), n_outputs=2), spawn(divmod, (5, 2), n_outputs=2)[1],
           map_items(len, ["a", "b"])[0]]  # fmt: skip
MAPPED = map_items(len, ["a", "b"])


@pytest.mark.parametrize("handle", [*HANDLES, MAPPED], ids=str)
def test_a_handle_is_refused_as_numbers_with_what_to_do(handle):
    uses = [
        np.sum,
        np.sqrt,
        lambda x: np.asarray(x, float),
        lambda x: mt.asarray(x, dtype=float),
        lambda x: np.array([x, x], float),
        lambda x: np.sum([x, x]),
        lambda x: np.ones(2) * x,
        lambda x: x - np.ones(2),
        lambda x: np.dot(np.ones(2), x),
        lambda x: mt.ones(2) + x,
        lambda x: x / mt.ones(2),
        lambda x: 2 * x,
    ]
    for use in uses:
        with pytest.raises(UnsupportedError, match=r"is the handle of a value, not an array; take the value, x\.fetch"):
            use(handle)


@pytest.mark.parametrize("handle", HANDLES, ids=str)
def test_a_handle_is_an_object_in_arrays_and_tables(handle):
    pandas = pytest.importorskip("pandas")
    both = np.empty(2, object)
    both[:] = [handle, handle]
    made = [both, np.array([handle, handle]), np.array([handle, handle], object), np.full(2, handle)]
    made += [mt.asarray([handle, handle]), np.where([True, True], handle, None), pandas.Series([handle, handle])]
    assert all(len(one) == 2 and all(kept is handle for kept in one) for one in made)
    assert np.asarray(handle).shape == () and np.asarray(handle)[()] is handle
    assert not pandas.isna(handle) and pandas.DataFrame({"a": [handle, None]}).isna()["a"].tolist() == [False, True]
    assert (both == handle).all() and not (both != handle).any() and handle != 1


def test_the_handle_of_a_map_is_a_sequence_in_arrays():
    both = np.empty(2, object)
    both[:] = MAPPED
    for made in (both, np.asarray(MAPPED), np.array([MAPPED])[0]):
        assert made.shape == (2,) and [str(one) for one in made] == ["<Item 0 of len>", "<Item 1 of len>"]


def test_a_call_makes_few_objects_that_are_collected():
    """Collections visit them, here and in the head: a third of the time of thousands of calls."""
    spawn(len, ("a",))
    before = {id(one) for one in gc.get_objects()}
    tasks = [spawn(len, ("a",)) for _ in range(100)]
    assert len([one for one in gc.get_objects() if id(one) not in before]) < 720
    graph = pickle.loads(pickle.dumps(TensorGraph.of([tasks[0].data])))
    for node in (tasks[0].data, graph.metas[0]):
        assert node.shape is node.chunks[0]


def test_a_spawned_function_is_never_equal_to_another_call_of_it():
    assert spawn(len, ("a",)).data.op.token() is None


def test_a_call_is_joined_with_nothing_and_its_hints_reach_the_plan():
    x = mt.ones(10, chunk_size=10) + 1
    task = spawn(len, (x,), cost=3.5, memory=1000)
    last = spawn(abs, (task,), cost=0.25)
    compiled = compile_graph(TensorGraph.of([last.data]), {})
    names = [compiled.after.programs[row].name for row in compiled.after.program]
    assert names[-2:] == ["len", "abs"] and not any("len" in name for name in names[:-2])
    graph = annotate(compiled.after, compiled.dag, Profile())
    assert graph.cost[-2:].tolist() == pytest.approx([3.5, 0.25], abs=0.01) and graph.work[-2:].tolist() == [1000, 0]
