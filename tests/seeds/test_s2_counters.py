"""Seed 002: dependency counters and instances that are used again."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from jmars.errors import GraphError
from jmars.flow import Counters, FlowGraph, Pool
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


def test_s2_5_an_instance_is_used_by_one_run_at_a_time():
    pool = Pool(FlowGraph(wavefront(2)), limit=1)
    run = pool.acquire()
    with pytest.raises(TimeoutError):
        pool.acquire(timeout=0)
    pool.release(run)
    with pytest.raises(GraphError, match="went back to its pool"):
        run.finish([0])


def test_s2_6_a_pool_serves_8_threads_1000_runs_within_its_limit():
    pool = Pool(FlowGraph(wavefront(3)), limit=3)

    def client(_):
        for _ in range(1_000):
            with pool.lent() as run:
                ready = run.graph.initial
                while ready:
                    ready, _released = run.finish(ready)
                assert run.is_done

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(client, range(8)))
    assert pool.built <= 3
