"""Seed 002: dependency counters and instances that are used again."""

import itertools

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from tests.graph.examples import wavefront


def test_s2_12_activation_adds_one_readiness_takes_one_and_zero_fires_once():
    for order in itertools.permutations((+1, -1)):
        assert [value == 0 for value in itertools.accumulate(order)] == [False, True]
    # here all dependencies of a run are activated as it starts, and a vertex has their sum
    dag = Dag.from_edges(2, [0], [1])
    later, before = Counters(FlowGraph(dag)), Counters(FlowGraph(dag, given=[0]))
    assert later.waiting[1] == 1 and later.finish([0])[0] == [1]  # activated, then ready: fires at 0
    assert before.waiting[1] == 0 and before.graph.initial == [1]  # ready, then activated: fires at 0
    assert later.finish([0])[0] == before.finish([0])[0] == []  # and not again


def test_s2_5_a_reset_instance_runs_like_a_new_one_1000_times():
    graph = FlowGraph(wavefront(5))
    run, fresh = Counters(graph), Counters(graph)

    def history(run):
        ready, told = list(graph.initial), []
        while ready:
            ready, released = run.finish(ready)
            told.append((ready, released))
        return told

    expected = history(fresh)
    for _ in range(1_000):
        assert history(run) == expected and run.is_done
        assert not any(run.waiting) and not any(run.consumers)
        run.reset()
