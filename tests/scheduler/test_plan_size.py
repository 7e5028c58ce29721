"""Bytes of a plan are known, at least, before the plan is made."""

from __future__ import annotations

import pytest

import jmars.tensor as mt
from jmars.scheduler.plans import Plans
from jmars.scheduler.prepare import OPERAND, least_plan_size
from jmars.tensor.spawn import spawn
from jmars.tensor.tensor_graph import TensorGraph


def test_no_digest_is_made_of_a_graph_whose_plan_is_too_large(monkeypatch):
    def refuse(graph, settings):
        raise AssertionError("a digest")

    monkeypatch.setattr("jmars.scheduler.plans.digest_of", refuse)
    graph, plans = TensorGraph.of([spawn(abs, args=(k,)).data for k in range(10)]), Plans(9 * 400)
    ready = plans.ready(graph, {}, ["w0"], lambda: None)
    assert ready.prepared.size > plans.budget and ready.bound.keys == [meta.key for meta in graph.metas]
    assert plans.counts() == {"plans": 0, "size": 0, "found": 0, "missed": 1, "dropped": 1, "refined": 0}
    with pytest.raises(AssertionError, match="a digest"):
        Plans(10 * 400).ready(graph, {}, ["w0"], lambda: None)


def test_operands_that_may_be_pruned_do_not_make_a_plan_too_large():
    vectors = [spawn(list, args=([k],)).to_tensor(1, int) for k in range(50)]
    few = TensorGraph.of([mt.concatenate(vectors)[:4].data])
    assert least_plan_size(few) == 0
    many = TensorGraph.of([spawn(sum, args=(vectors,)).data])
    assert least_plan_size(many) == OPERAND  # of the tensors between it and the other functions nothing is known
    chain = spawn(abs, args=(1,))
    for _ in range(9):
        chain = spawn(abs, args=(chain,))
    assert least_plan_size(TensorGraph.of([chain.data])) == 10 * OPERAND
