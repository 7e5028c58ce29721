"""OperandActor: seed 003's states, by the table, for any order of reports."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.model.status import OperandState as S
from jmars.scheduler.operand_rows import OperandActor
from jmars.scheduler.shards import Shards


def actor(n, edges, kept=(), given=(), workers=2, assign=None):
    dag = Dag.from_edges(n, [a for a, _ in edges], [b for _, b in edges])
    counters = Counters(FlowGraph(dag, given=list(given), kept=list(kept)))
    return OperandActor(counters, [10] * n, assign or [-1] * n, workers)


def test_a_chain_runs_one_after_another_and_frees_what_nobody_needs():
    chain = actor(3, [(0, 1), (1, 2)], kept=[2], assign=[1, -1, -1])
    assert chain.start() == ([0], [1])
    chain.started([0], 1)
    assert chain.finished([0], 1) == ([1], [1], [])
    chain.started([1], 1)
    assert chain.finished([1], 1) == ([2], [1], [0])
    chain.started([2], 1)
    assert chain.finished([2], 1) == ([], [], [1])
    assert chain.is_done
    assert list(chain.state) == [S.FREED, S.FREED, S.FINISHED]
    assert chain.load == [0, 0]
    assert chain.held == [0, 10]  # only the result's chunk is left


def test_an_operand_whose_worker_died_is_ready_again():
    one = actor(2, [], kept=[0, 1])
    one.start()
    one.started([0, 1], 0)
    assert one.died([0, 1], "signal") == []
    moved = one.dropped([0, 1])
    assert (moved.states, moved.ready, len(moved.workers)) == ({}, [0, 1], 2)
    assert one.dropped([0, 1]) == ({}, [], [])  # told twice
    assert one.running == 0 and sum(one.load) == 2


def test_what_depends_on_a_failed_operand_is_fatal_with_it():
    graph = actor(5, [(0, 1), (1, 2), (0, 3)], kept=[2, 3, 4])
    assert graph.descendants([1]) == [2]
    assert graph.descendants([0]) == [1, 2, 3]
    graph.start()
    graph.started([0], 0)
    assert graph.raised(0, most=1).ready == [0]
    graph.started([0], 0)
    assert graph.raised(0, most=1) == ({S.FATAL: [0, 1, 2, 3]}, [], [])
    assert graph.raised(0, most=1) == ({}, [], [])  # told twice
    assert graph.tries == {0: 2} and graph.running == 0 and sum(graph.load) == 1


def test_stopping_cancels_what_waits_and_leaves_what_runs_to_its_worker():
    graph = actor(4, [(0, 2), (1, 2), (2, 3)], kept=[3])
    graph.start()
    graph.started([0, 1], 0)
    assert graph.stop().states == {S.CANCELLING: [0, 1], S.CANCELLED: [2, 3]}
    assert graph.finished([0], 0) == ([], [], []) and graph.running == 1
    assert graph.dropped([1]).states == {S.CANCELLED: [1]} and graph.running == 0
    assert graph.finished([1], 0) == ([], [], []) and graph.stale == [1]  # too late
    assert graph.free() == [0] and graph.load == [0, 0]


@given(st.integers(1, 12), st.data())
def test_every_operand_runs_once_in_any_order_and_only_results_stay(n, data):
    edges = [(a, b) for b in range(n) for a in range(b) if data.draw(st.booleans())]
    kept = [i for i in range(n) if data.draw(st.booleans())] or [n - 1]
    graph = actor(n, edges, kept=kept, workers=3)
    waiting, _ = graph.start()
    waiting, seen = list(waiting), []
    while waiting:
        operand = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        worker = data.draw(st.integers(0, 2))
        seen.append(operand)
        graph.started([operand], worker)
        ready, workers, _ = graph.finished([operand], worker)
        assert len(ready) == len(workers)
        waiting += ready
        assert sum(np.bincount(list(graph.state), minlength=9)) == n
    assert sorted(seen) == list(range(n))
    assert graph.is_done and graph.load == [0, 0, 0]
    assert [i for i in range(n) if graph.state[i] == S.FINISHED] == sorted(set(kept))


def test_a_worker_that_comes_takes_operands_of_a_running_job():
    rows = actor(3, [(0, 2), (1, 2)], kept=[2])
    rows.start()
    rows.grow(4)
    rows.started([0, 1], 3)
    assert rows.finished([0, 1], 3) == ([2], [3], [])
    assert (rows.load, rows.held) == ([0, 0, 0, 1], [0, 0, 0, 20])


def test_all_shards_know_a_worker_that_comes():
    dag = Dag.from_edges(3, [0, 1], [2, 2])
    rows = Shards(Counters(FlowGraph(dag, given=[], kept=[2])), [10] * 3, [-1] * 3, 1, [0, 1, 0])
    rows.start()
    rows.grow(3)
    rows.started([0, 1], 2)
    rows.finished([0, 1], 2)
    assert rows.held == [0, 0, 20] and rows.load == [0, 0, 1]


def test_a_chunk_that_another_host_keeps_counts_there():
    graph = FlowGraph(Dag.from_edges(2, [0], [1]))
    rows = OperandActor(Counters(graph), [80, 8], [0, -1], 2)
    rows.start()
    rows.started([0], 0)
    rows.finished([0], 0)
    rows.kept([0, 1], 1)
    assert rows.owner == [1, -1] and rows.held == [0, 80]


def test_readers_that_go_along_with_their_inputs_run_once():
    chain = actor(3, [(0, 1), (1, 2)], kept=[2])
    chain.start()
    assert chain.started([0, 1, 2], 0) == [0, 1, 2] == chain.those_in(S.RUNNING)
    assert chain.finished([0, 1], 0) == ([], [], [0])
    assert chain.finished([2], 0) == ([], [], [1])
    assert chain.is_done and chain.load == [0, 0] and chain.running == 0


def test_readers_that_went_along_wait_again_for_inputs_that_were_dropped():
    chain = actor(4, [(0, 1), (1, 2), (2, 3)], kept=[3])
    chain.start()
    chain.started([0, 1, 2, 3], 0)
    chain.finished([0], 0)
    moved = chain.dropped([1, 2, 3])
    assert moved.ready == [1] and moved.states == {S.UNSCHEDULED: [2, 3]} and sum(chain.load) == 1
    chain.started([1], 1)
    assert chain.finished([1], 1)[0] == [2]


def test_a_reader_goes_along_only_with_inputs_that_run_or_are_there():
    chain = actor(3, [(0, 1), (1, 2)], kept=[2])
    chain.start()
    assert chain.started([1, 2], 0) == []
