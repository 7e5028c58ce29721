"""C gives what Python gives, to the last bit: each kernel, on drawn graphs, workers, memories, wishes, chunks held."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import JmarsError
from jmars.graph import Dag
from jmars.native import backend, forced
from jmars.native.build import LIBRARY
from jmars.plan import (
    CPU,
    GPU,
    PlanGraph,
    Workers,
    assign_bisect,
    assign_eft,
    assign_initial,
    assign_runs,
    choose,
    rank_by,
    simulate,
    source_runs,
)
from jmars.plan.order import b_level, levels, liu_key, rank_backwards, sequential_peak, t_level, topological
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.graph.examples import dags
from tests.plan.examples import largest_need

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="built without a C compiler: there are no kernels")

ODD = st.one_of(st.integers(0, 8).map(lambda k: k / 4), st.floats(0.0, 3.0))  # ties, and digits that round


@st.composite
def odd_graphs(draw, workers: Workers, max_n: int = 40) -> PlanGraph:
    """Uneven costs and sizes; some operands are pinned or want a device, if such a worker is there."""
    dag = draw(dags(max_n))

    def each(values):
        return np.array(draw(st.lists(values, min_size=dag.n, max_size=dag.n)))

    wishes: dict[str, Any] = {}
    if draw(st.booleans()):
        pin = each(st.integers(-1, len(workers) - 1))
        device = each(st.sampled_from([0, 0, *set(workers.device.tolist())]))
        wishes = {"pin": pin, "device": np.where(pin < 0, device, 0)}
    size = each(st.sampled_from([0, 1, 3, 8, 999_999, 1_000_000]) if draw(st.booleans()) else st.integers(0, 9))
    result = each(st.booleans()) | (dag.out_degree == 0)
    return PlanGraph.build(dag, each(ODD), size, work=each(st.integers(0, 3)), result=result, **wishes)


@st.composite
def odd_clusters(draw, max_p: int = 5) -> Workers:
    """Unlike workers and links; sometimes more than one machine word has bits for."""
    p = draw(st.one_of(st.integers(1, max_p), st.sampled_from([12, 64, 70])))

    def each(values):
        return draw(st.lists(values, min_size=p, max_size=p))

    speed = each(st.sampled_from([0.3, 0.5, 1.0, 2.0]))
    links = np.array(draw(st.lists(st.sampled_from([1.0, 3.0, 1e9]), min_size=7, max_size=7)))
    bandwidth = links[np.add.outer(np.arange(p), np.arange(p) * 3) % 7]
    device = each(st.sampled_from([CPU, CPU, GPU]))
    cores = each(st.integers(1, 3))
    return Workers.build(p, cores=cores, speed=speed, device=device, bandwidth=bandwidth, latency=0.1, disk=3.7)


def held(data: st.DataObject, graph: PlanGraph, workers: Workers) -> np.ndarray | None:
    """Where chunks are that are there, if any."""
    if data.draw(st.booleans()):
        return None
    some = st.one_of(st.just(-1), st.just(-1), st.integers(0, len(workers) - 1))
    return np.array(data.draw(st.lists(some, min_size=graph.n, max_size=graph.n)))


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """What C gives and what Python gives; an error of ours counts by its text."""
    found = []
    for name in ("c", "python"):
        with forced(name):
            assert backend() == name
            try:
                found.append(work())
            except JmarsError as error:
                found.append(f"{type(error).__name__}: {error}")
    return found[0], found[1]


def same(work: Callable[[], Any]) -> Any:
    """Both are alike; returns it."""
    ours, pure = both(work)
    assert type(ours) is type(pure), (ours, pure)
    if isinstance(ours, np.ndarray):
        assert ours.dtype == pure.dtype and ours.tolist() == pure.tolist()
    else:
        assert ours == pure
    return ours


class Nobody:
    """A policy that places nothing: chunks that go to disk are looked for each time, not kept in order."""

    def ready(self, run, operands):
        pass

    def idle(self, run, worker):
        return False


def figures(run) -> list[Any]:
    """All that a simulation tells."""
    told = [run.makespan, run.moved, run.spilled, run.reloaded, run.peak_total]
    told += [run.peak.tolist(), run.busy.tolist(), run.assign.tolist()]
    return told + ([] if run.trace is None else [run.trace.start.tolist(), run.trace.end.tolist(), run.trace.memory])


@given(st.data(), odd_clusters())
def test_orders_and_paths(data, workers):
    graph = data.draw(odd_graphs(workers))
    same(lambda: levels(graph.dag))
    same(lambda: topological(graph.dag))
    for pace in (0.0, 0.3):
        same(lambda pace=pace: b_level(graph, pace))
        same(lambda pace=pace: t_level(graph, pace))
        for name in ("dfs", "blevel", "level", "wave"):
            same(lambda name=name, pace=pace: rank_by(name, graph, pace))
    same(lambda: liu_key(graph))
    same(lambda: rank_backwards(graph))
    same(lambda: sequential_peak(graph, rank_by("dfs", graph)))


def test_a_cycle_is_the_same_error():
    torn = Dag.from_edges(4, [0, 1, 2, 2], [1, 2, 1, 3])
    assert "3 of 4 vertices wait for each other" in same(lambda: levels(torn))


@given(st.data(), odd_clusters())
def test_earliest_finish(data, workers):
    graph = data.draw(odd_graphs(workers))
    rank = rank_by(data.draw(st.sampled_from(["dfs", "blevel", "wave", "mars"])), graph, 0.1)  # mars: not topological
    price, pull = data.draw(st.sampled_from([(0.0, 0.0), (3.0, np.inf), (1.7, 0.6)]))
    home = data.draw(st.lists(st.integers(-1, len(workers) - 1), min_size=graph.n, max_size=graph.n))
    placed, few = held(data, graph, workers), data.draw(st.integers(1, 5))
    given_ = {"price": price, "pull": pull, "affinity": home if pull else None, "placed": placed, "few": few}
    same(lambda: assign_eft(graph, workers, rank, **given_))


@given(st.data(), odd_clusters())
def test_halves_and_runs(data, workers):
    graph = data.draw(odd_graphs(workers, 60))
    rank = rank_by(data.draw(st.sampled_from(["dfs", "wave"])), graph)
    same(lambda: assign_bisect(graph, workers, rank))
    same(lambda: assign_runs(graph, workers, rank))
    same(lambda: source_runs(graph, workers, rank))


@given(dags(40), st.lists(st.integers(0, 5), min_size=1, max_size=5), st.sampled_from(["bfs", "dfs"]))
def test_first_workers(dag, slots, search):
    same(lambda: assign_initial(dag, dag.sources()[::-1], slots, search))


@pytest.mark.parametrize("evict", ["plan", "lru"])
@given(st.data(), odd_clusters())
def test_simulated_runs(evict, data, workers):
    graph = data.draw(odd_graphs(workers))
    if data.draw(st.booleans()):
        room = max(1, largest_need(graph) + data.draw(st.integers(-3, 12)))
        links = {"bandwidth": workers.bandwidth, "latency": 0.1, "disk": 3.7}
        workers = Workers.build(len(workers), cores=workers.cores, speed=workers.speed, memory=room, **links)
    assign = np.array(data.draw(st.lists(st.integers(0, len(workers) - 1), min_size=graph.n, max_size=graph.n)))
    if graph.n and data.draw(st.integers(0, 9)) == 0:
        assign[data.draw(st.integers(0, graph.n - 1))] = -1  # it never runs
    rank = rank_by(data.draw(st.sampled_from(["dfs", "blevel", "level", "mars"])), graph)
    how = {"evict": evict, "noise": data.draw(st.sampled_from([0.0, 0.4])), "placed": held(data, graph, workers)}
    trace = data.draw(st.sampled_from([False, True, "times"]))

    def run(policy=None):
        return figures(simulate(graph, workers, assign, rank, trace=trace, policy=policy, **how))

    assert same(run) == same(lambda: run(Nobody()))


@pytest.mark.parametrize("chunks", [None, 8])
@pytest.mark.parametrize("name", SMALL_ONES)
def test_the_whole_choice_on_array_programs(name, chunks):
    graph = SMALL_ONES[name]()
    limit = {} if chunks is None else {"memory": chunks * 100_000_000}
    workers = Workers.build(5, cores=2, speed=[1.0, 1.0, 0.7, 1.0, 1.0], **limit)

    def run():
        choice = choose(graph, workers, budget=None)
        tried = [(one.assigned_by, one.ranked_by, one.score, figures(one.result)) for one in choice.tried]
        return tried, choice.plan.assign.tolist(), choice.plan.rank.tolist(), choice.lower_bound

    same(run)
