"""Which order a job runs in: what the settings say, or the best that was simulated in a share of the run's time."""

from dataclasses import replace

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.optimize import Compiled, compile_graph
from jmars.plan import Profile, Workers, annotate, signature
from jmars.plan.choice import are_brief
from jmars.plan.order import rank_by
from jmars.remote import spawn
from jmars.scheduler.prepare import prepare
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


def a_grid(rows: int = 20) -> tuple[Compiled, Profile]:
    """Two thousand spawned functions, and a profile that has seen them."""
    row = [spawn(abs, args=(k,)) for k in range(100)]
    for _ in range(rows):
        row = [spawn(max, args=(row[k - 1], row[k])) for k in range(100)]
    graph, profile = compile_graph(TensorGraph.of([one.data for one in row]), config.task), Profile()
    for program in graph.after.programs:
        profile.observe(signature(program).key, 0, 30e-6)
        profile.observe_result(signature(program).key, 64)
    return graph, profile


def test_brief_operands_run_in_an_order_with_many_that_are_ready():
    graph, profile = a_grid()
    costs = annotate(graph.after, graph.dag, profile)
    ranked = rank_operands(graph, {"order": "auto"}, 2, Machine(profile, 2**30))
    assert np.array_equal(ranked.rank, rank_by("blevel", costs))
    profile.dispatch = 1e-3  # so that it pays to plan
    ranked = rank_operands(graph, {"order": "auto"}, 2, Machine(profile, 2**30))
    assert ranked.predicted is not None and ranked.predicted["chosen"] == "blevel"
    asked = rank_operands(graph, {"order": "mars"}, 2, Machine(profile, 2**30))
    assert asked.predicted is not None and asked.predicted["chosen"] == "mars"


@pytest.mark.parametrize("why", ["few", "slow", "large", "unseen", "tight"])
def test_operands_that_are_not_brief_run_in_the_usual_order(why):
    graph, profile = a_grid(rows=5 if why == "few" else 20)
    for program in graph.after.programs:
        if why == "slow":
            profile.costs.forget_oldest(0)
            profile.observe(signature(program).key, 0, 300e-6)
        if why == "large":
            profile.observe_result(signature(program).key, 10_000)
        if why == "unseen":
            profile.results.pop(signature(program).key, None)
    costs = annotate(graph.after, graph.dag, profile)
    assert not are_brief(graph.after, costs, profile, 2**18 if why == "tight" else 2**30)


def test_an_operand_that_can_never_fit_is_told_when_its_turn_comes():
    assert rank_operands(compiled(), {"order": "auto"}, 2, Machine(Profile(), 2 * MIB)).predicted is None


def apart(*numbers, memory=50 * MIB):
    rows = Workers.build(len(numbers), memory=memory)
    return Machine(Profile(), memory * len(numbers), rows=rows, numbers=numbers)


def test_machines_without_common_memory_get_each_operand_planned():
    graph = compiled()
    ranked = rank_operands(graph, {"order": "auto"}, 5, apart(1, 4))
    assert ranked.assign is not None and ranked.predicted is not None
    planned = ranked.assign[graph.after.program >= 0]
    assert set(planned.tolist()) == {1, 4}
    assert sorted(ranked.rank.tolist()) == list(range(graph.after.n))
    assert ranked.predicted["tried"] and ranked.predicted["makespan"] >= ranked.predicted["lower_bound"]
    names = [one[0] for one in ranked.predicted["tried"]]
    assert len(set(names)) == len(names) and ranked.predicted["chosen"] == names[0]
    costs = annotate(graph.after, graph.dag, Profile())
    dfs = rank_operands(graph, {"order": "dfs"}, 5, apart(1, 4))
    assert np.array_equal(dfs.rank, rank_by("dfs", costs))
    assert rank_operands(graph, {"order": "auto"}, 5, apart(1, 4, memory=MIB)).assign is None


def test_a_job_knows_its_planned_workers_only_without_shared_memory():
    graph, names = TensorGraph.of([(mt.ones((800, 800), chunk_size=200) + 1).sum().data]), ["a", "b", "c"]
    prepared = prepare(graph, config.task, names, lambda: None, apart(0, 2))
    assert set(prepared.table.planned) <= {0, 2} and prepared.assign == prepared.table.planned
    assert prepared.watched is not None and prepared.watched.hosts is not None
    engine = prepare(graph, config.task, names, lambda: None, replace(apart(0, 2), balances=True))
    assert engine.watched is None  # an engine balances its workers by itself
    assert prepared.table.results == [len(prepared.table.program) - 1]
    again = prepared.planned_again(3, apart(1))
    assert set(again.table.planned) == {1} == set(again.assign)
    here = prepare(graph, config.task, names, lambda: None, Machine(Profile(), 2**30))
    assert here.table.planned == [] and here.table.results == prepared.table.results


def test_an_operand_fits_on_the_largest_machine():
    machine = apart(0, 1, memory=np.array([10 * MIB, 30 * MIB]).max())
    assert machine.largest == 30 * MIB and machine.share(7) == 30 * MIB
    assert Machine(Profile(), 100).largest == 100 and Machine(Profile(), 100).share(4) == 25


def test_a_wish_for_a_host_is_planned_unless_the_host_is_gone():
    with jmars.annotate(prefer="b"):
        x = mt.ones(64, chunk_size=8)
    with jmars.annotate(prefer="z"):
        y = mt.ones(64, chunk_size=8)
    names = ["a/worker-0", "a/worker-1", "b/worker-0"]
    rows = Workers.build(2, cores=[2, 1], memory=2**30)
    machine = Machine(Profile(), 2**31, rows=rows, numbers=[0, 2])
    graph = TensorGraph.of([x.data, y.data])
    prepared = prepare(graph, {}, names, lambda: None, machine)
    wish = [i for i, worker in enumerate(prepared.assign) if worker == 2]
    assert len(wish) >= 8 and not prepared.table.pinned and set(prepared.wanted.values()) == {2}
    again = prepared.planned_again(3, machine)
    assert all(again.assign[i] == 2 for i in prepared.wanted)


def test_a_plan_made_again_finds_chunks_on_the_hosts_that_are_left():
    """The rows of hosts are others where a host has left: chunks of the last row of three, and of one that is gone."""
    graph = TensorGraph.of([(mt.ones(64, chunk_size=8) + 1).data])
    prepared = prepare(graph, config.task, ["a", "b", "c"], lambda: None, apart(0, 1, 2))
    assert prepared.numbers == (0, 1, 2)
    found = replace(prepared, places={("x", 0): 2, ("x", 1): 1, ("x", 2): -1})
    again = found.planned_again(3, apart(0, 2))
    assert again.places == {("x", 0): 1, ("x", 1): -1, ("x", 2): -1} and again.numbers == (0, 2)
