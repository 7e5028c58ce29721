"""A simulated run obeys the graph, the cores, the links and the memory, and is the same every time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError, MemoryLimitError
from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers, rank_by, rank_depth_first, simulate, volume, waiting
from jmars.plan.simulation import Trace
from tests.plan.examples import clusters, graphs, largest_need, tree, unit


def draw_plan(data, graph, workers):
    assign = data.draw(st.lists(st.integers(0, len(workers) - 1), min_size=graph.n, max_size=graph.n))
    return assign, rank_by(data.draw(st.sampled_from(["dfs", "blevel", "level", "mars"])), graph)


@given(graphs(), clusters(), st.data())
def test_without_a_limit_what_moves_is_the_volume_of_the_cut(graph, workers, data):
    assign, rank = draw_plan(data, graph, workers)
    run = simulate(graph, workers, assign, rank)
    assert run.moved == volume(graph, assign) and run.spilled == run.reloaded == 0
    assert run.assign.tolist() == assign


def test_an_output_waits_for_readers_on_other_workers_only():
    graph = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), cost=1.0, nbytes=10)
    ran = Trace(np.array([0.0, 2.0, 4.0]), np.array([1.0, 3.0, 5.0]), [])
    for assign, seconds in (([0, 0, 0], 0), ([0, 0, 1], 3), ([0, 1, 0], 1), ([-1, 0, 1], 0)):
        assert waiting(graph, assign, ran, 2).tolist() == [10.0 * seconds, 0.0]


@given(graphs(), clusters(), st.data())
def test_a_run_obeys_graph_and_cores(graph, workers, data):
    assign, rank = draw_plan(data, graph, workers)
    run = simulate(graph, workers, assign, rank, trace=True)
    start, end = run.trace.start, run.trace.end
    src, dst = graph.dag.edges()
    where = np.array(assign)
    far = (where[src] != where[dst]) * (graph.nbytes[src] / workers.bandwidth[where[src], where[dst]] + 0.125)
    assert np.all(start[dst] >= end[src] + far - 1e-9)
    assert end - start == pytest.approx(graph.cost / workers.speed[where])
    assert run.makespan == end.max()
    assert run.busy == pytest.approx(np.bincount(where, graph.cost / workers.speed[where], len(workers)))
    for w, cores in enumerate(workers.cores):
        for v in np.flatnonzero((where == w) & (end > start)):
            together = (where == w) & (start <= start[v]) & (end > start[v] + 1e-9)
            assert together.sum() <= cores


@pytest.mark.parametrize("evict", ["plan", "lru"])
@given(graphs(), clusters(), st.data())
def test_no_worker_holds_more_than_its_memory(evict, graph, workers, data):
    limit = largest_need(graph) + data.draw(st.integers(0, 20))
    tight = Workers.build(len(workers), cores=workers.cores, memory=limit, bandwidth=workers.bandwidth, disk=4.0)
    assign, rank = draw_plan(data, graph, workers)
    run = simulate(graph, tight, assign, rank, evict=evict)
    assert run.peak.max() <= limit
    assert run.moved == volume(graph, assign)
    assert run.reloaded <= run.spilled * max(1, graph.dag.out_degree.max(initial=0))


@given(graphs(), clusters(), st.data())
def test_the_same_plan_gives_the_same_run(graph, workers, data):
    assign, rank = draw_plan(data, graph, workers)
    once, again = (simulate(graph, workers, assign, rank, noise=0.5, seed=3) for _ in range(2))
    assert (once.makespan, once.moved, once.peak.tolist()) == (again.makespan, again.moved, again.peak.tolist())


def test_one_transfer_in_and_one_out_at_a_time():
    two = unit(Dag.from_edges(4, [0, 1], [2, 3]))
    workers = Workers.build(3, cores=2, bandwidth=1.0, latency=0.0)
    assert simulate(two, workers, [0, 0, 1, 1], range(4)).makespan == 4.0  # 1 + 1 + 1 to one worker, and run
    assert simulate(two, workers, [0, 0, 1, 2], range(4)).makespan == 4.0  # both leave by one port
    assert simulate(two, workers, [0, 2, 1, 1], range(4)).makespan == 4.0  # both come in by one port
    assert simulate(two, workers, [0, 1, 1, 2], range(4)).makespan == 3.0


def test_of_chunks_that_wait_for_the_link_the_urgent_one_goes_first():
    three = unit(Dag.from_edges(6, [0, 1, 2], [3, 4, 5]))
    workers = Workers.build(2, cores=3, bandwidth=0.1, latency=0.0)
    run = simulate(three, workers, [0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 5, 4], trace=True)
    assert run.trace.end[3:].tolist() == [12.0, 32.0, 22.0]  # 0 found the link free


def test_what_the_plan_reads_last_goes_to_disk_first():
    # 0, 1 and 2 are loaded, there is room for two; then they are read in the order 0, 2, 1
    graph = PlanGraph.build(Dag.from_edges(6, [0, 2, 1], [3, 4, 5]), 1.0, [10, 10, 10, 0, 0, 0])
    tight = Workers.build(1, memory=20, disk=10.0)
    plan, used = (simulate(graph, tight, [0] * 6, range(6), evict=how) for how in ("plan", "lru"))
    assert (plan.spilled, plan.reloaded) == (10, 10)  # 1 goes
    assert plan.makespan == pytest.approx(6 + 2)  # a second to write it, a second to read it
    assert (used.spilled, used.reloaded) == (20, 20)  # 0 goes, and 1 makes room for it


def test_an_operand_waits_until_it_fits_beside_those_that_run():
    graph = unit(Dag.from_edges(2, [], []))
    assert simulate(graph, Workers.build(1, cores=2, memory=2), [0, 0], [0, 1]).makespan == 1.0
    big = PlanGraph.build(graph.dag, 1.0, 1, work=1, result=False)
    assert simulate(big, Workers.build(1, cores=2, memory=2), [0, 0], [0, 1]).makespan == 2.0


def test_what_can_never_fit_is_an_error():
    graph = PlanGraph.build(tree(2), 1.0, 10)
    with pytest.raises(MemoryLimitError, match="operand 2 needs 30 bytes at once and worker 0 has 29"):
        simulate(graph, Workers.build(1, memory=29), [0, 0, 0], range(3))


def test_chunks_that_are_there_are_not_computed_again():
    graph = unit(tree(4))
    placed = np.array([0, 1, -1, -1, -1, -1, -1])
    run = simulate(graph, Workers.build(2), [0] * 7, rank_depth_first(graph), placed=placed)
    assert run.makespan == pytest.approx(5.0, abs=0.01) and run.moved == 1
    assert run.assign.tolist() == [-1, -1, 0, 0, 0, 0, 0]


def test_noise_has_mean_one():
    graph = unit(Dag.from_edges(4000, [], []))
    run = simulate(graph, Workers.build(1), [0] * 4000, range(4000), noise=0.3)
    assert run.makespan == pytest.approx(4000, rel=0.03) and run.makespan != 4000


def test_a_plan_that_cannot_run_is_an_error():
    graph, one = unit(tree(2)), Workers.build(1)
    with pytest.raises(GraphError, match="3 of 3 operands never ran"):
        simulate(graph, one, [-1] * 3, range(3))
    with pytest.raises(GraphError, match="give a worker below 1"):
        simulate(graph, one, [0, 0, 1], range(3))
    with pytest.raises(GraphError, match="choose plan or lru"):
        simulate(graph, one, [0, 0, 0], range(3), evict="fifo")
