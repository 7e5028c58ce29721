"""Which order a job runs in: what the settings say, or the best that was simulated in a share of the run's time."""

import numpy as np

import jmars.tensor as mt
from jmars.config import config
from jmars.optimize import compile_graph
from jmars.plan import Profile, annotate
from jmars.plan.order.ranks import rank_by
from jmars.scheduler.ranking import Machine, rank_operands
from jmars.tensor.tensor_graph import TensorGraph

MIB = 2**20


def compiled():
    z = mt.ones((4000, 4000), chunk_size=500) + 1
    return compile_graph(TensorGraph.of([(z + z.T).data]), config.task | {"fuse": "chain"})  # more to put in order


def test_auto_takes_the_best_and_tells_what_was_tried():
    graph, machine = compiled(), Machine(Profile(), 50 * MIB)
    ranked = rank_operands(graph, {"order": "auto"}, 2, machine)
    told = ranked.predicted
    assert told is not None and ranked.graph is not None
    assert told["chosen"] == told["tried"][0][0] == "dfs"
    assert {name for name, *_ in told["tried"]} <= {"dfs", "mars", "blevel", "level"}
    assert told["peak"][0] <= told["peak"][1] <= 50 * MIB
    assert told["makespan"] >= told["lower_bound"] > 0 and told["moved"] == 0
    assert np.array_equal(ranked.rank, rank_by("dfs", ranked.graph))


def test_an_order_that_is_asked_for_is_taken():
    graph, machine = compiled(), Machine(Profile(), 50 * MIB)
    costs = annotate(graph.after, graph.dag, machine.profile)
    for order in ("mars", "dfs", "blevel", "level"):
        ranked = rank_operands(graph, {"order": order}, 2, machine)
        assert np.array_equal(ranked.rank, rank_by(order, costs))
        assert ranked.predicted is not None and ranked.predicted["chosen"] == order


def test_a_small_graph_costs_no_planning():
    graph = compile_graph(TensorGraph.of([(mt.ones(40, chunk_size=10) + 1).sum().data]), config.task)
    ranked = rank_operands(graph, {"order": "auto"}, 2, Machine(Profile(), 2**30))
    assert ranked.predicted is None and ranked.rank is graph.rank
    assert rank_operands(graph, {}, 2, None).rank is graph.rank
    level = rank_operands(graph, {"order": "level"}, 2, Machine(Profile(), 2**30))
    assert sorted(level.rank.tolist()) == list(range(graph.after.n))


def test_an_operand_that_can_never_fit_is_told_when_its_turn_comes():
    assert rank_operands(compiled(), {"order": "auto"}, 2, Machine(Profile(), 2 * MIB)).predicted is None
