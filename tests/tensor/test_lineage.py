"""A computed node remembers how it was made, and keeps no value that nobody else refers to."""

from __future__ import annotations

import gc
import weakref

import jmars.tensor as mt
from jmars.tensor.operand import TensorData
from jmars.tensor.structure import detach
from jmars.tensor.tensor_graph import LinkedGraph, Stored


def leads_to(node):
    """All below a node."""
    found, stack = [], [*node.op.inputs]
    while stack:
        one = stack.pop()
        found.append(one)
        stack += one.op.inputs
    return found


def computed(held, *tensors):
    """As a run does at its end."""
    held |= {one.data.key for one in tensors}
    detach([one.data for one in tensors])


def test_what_a_loop_leaves_behind_is_let_go():
    held, x, seen = set(), mt.ones(4), []
    for _ in range(5):
        x = mt.sqrt(x + 1)
        computed(held, x)
        seen.append(weakref.ref(x.data))
    gc.collect()
    assert [one() is None for one in seen] == [True] * 4 + [False]


def test_the_way_down_is_there_as_it_was():
    held, x = set(), mt.ones(4) + 1
    y = mt.sqrt(x) * 2
    keys, labels = ([f(one) for one in leads_to(y.data)] for f in (lambda n: n.key, lambda n: n.op.label))
    computed(held, x)
    computed(held, y)
    assert [one.key for one in leads_to(y.data)] == keys
    assert [one.op.label for one in leads_to(y.data)] == labels
    assert all(one is not x.data for one in leads_to(y.data))


def test_results_of_one_run_do_not_keep_each_other():
    x = mt.ones(4) + 1
    y = x * 2
    z = y + x
    gone = weakref.ref(x.data), weakref.ref(y.data)
    computed(set(), z, x, y)
    del x, y
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_who_has_not_been_computed_keeps_what_it_is_made_of():
    held, x = set(), mt.ones(4) + 1
    computed(held, x)
    lazy, done = x * 3, x * 2
    computed(held, done)
    value = weakref.ref(x.data)
    del x
    gc.collect()
    assert value() is lazy.data.op.inputs[0]


def test_what_was_not_kept_is_passed_through():
    held, x = set(), mt.ones(4)
    computed(held, x)
    between = x + 1
    y = between * 2
    computed(held, y)
    assert between.data.op.inputs[0] is x.data  # it is lazy still
    (lineage_copy,) = y.data.op.inputs
    assert lineage_copy is not between.data
    assert lineage_copy.key == between.data.key


def test_a_graph_takes_a_node_and_its_twin_for_one():
    held, x = set(), mt.ones(4) + 1
    y = x * 2
    computed(held, x, y)
    both = (y + x).data
    lost = LinkedGraph.of([both], held - {y.data.key})  # y is computed again, from what is there
    assert [type(op) is Stored for op in lost.operands].count(True) == 1
    nothing = LinkedGraph.of([both])
    assert [op.label for op in nothing.operands] == ["ones", "add", "multiply", "add"]


def test_a_result_does_not_keep_what_it_was_made_of_that_is_computed_later():
    x = mt.ones(4) + 1
    total = x.sum()
    computed(set(), total)
    computed(set(), x)
    gone = weakref.ref(x.data)
    del x
    gc.collect()
    assert gone() is None


def test_many_results_of_one_graph_share_its_history():
    x = mt.ones(4)
    for _ in range(50):
        x = mt.sqrt(x + 1)
    totals = [x + k for k in range(20)]
    for one in totals:
        computed(set(), one)
    below = {id(node) for one in totals for node in leads_to(one.data)}
    assert len(below) == 101


def test_what_another_client_computed_is_kept_by_what_is_made_of_it():
    x = mt.ones(4)
    theirs = type(x)(TensorData(Stored(), x.shape, x.dtype, x.chunks))
    mine = (theirs + 1) * 2
    computed(set(), mine)
    value = weakref.ref(theirs.data)
    del theirs
    gc.collect()
    assert value() is not None
