"""METIS's parts: in range, balanced, with their share of each band, and the same each time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import CPU, GPU, PlanGraph, Workers, rank_by, simulate, volume
from jmars.plan.order import t_level
from jmars.plan.partition import assign_metis, has_metis, metis_groups, suits_metis
from tests.benchmarks.plan_graphs import SMALL_ONES, layered, stencil
from tests.plan.examples import clusters, graphs

pytestmark = pytest.mark.skipif(not has_metis(), reason="needs pymetis: pip install jmars[plan]")


@settings(max_examples=40)
@given(graphs(), clusters(), st.integers(1, 4), st.booleans())
def test_every_operand_has_a_worker(graph, workers, bands, memory):
    assign = assign_metis(graph, workers, bands=bands, memory=memory)
    assert assign.shape == (graph.n,) and assign.dtype == np.int16
    assert np.all((assign >= 0) & (assign < len(workers)))
    assert simulate(graph, workers, assign, rank_by("dfs", graph)).moved == volume(graph, assign)
    assert np.array_equal(assign, assign_metis(graph, workers, bands=bands, memory=memory))


def test_parts_have_their_share_of_the_work():
    graph = stencil(32, 8)
    for rates in ([1.0, 1.0, 1.0, 1.0], [1.0, 3.0]):
        workers = Workers.build(len(rates), speed=rates)
        load = np.bincount(assign_metis(graph, workers), graph.cost, len(rates))
        assert load / load.sum() == pytest.approx(np.array(rates) / sum(rates), rel=0.1)


def test_with_bands_each_part_has_its_share_of_every_stretch():
    graph, workers = layered(12, 24), Workers.build(4)
    early = np.array(t_level(graph)) < np.median(t_level(graph))
    share = {}
    for bands in (1, 4):
        load = np.bincount(assign_metis(graph, workers, bands=bands)[early], graph.cost[early], 4)
        share[bands] = load.max() / load.mean()
    assert share[4] < share[1] and share[4] < 1.3


def test_with_memory_each_part_has_its_share_of_the_bytes():
    # 16 dear operands that write nothing, 16 cheap ones that write all
    graph = PlanGraph.build(Dag.from_edges(32, [], []), [1.0] * 16 + [0.01] * 16, [1] * 16 + [100] * 16)
    assign = assign_metis(graph, Workers.build(2), memory=True, slack=1.05)
    assert np.bincount(assign, graph.nbytes).tolist() == pytest.approx([808, 808], rel=0.15)
    assert np.bincount(assign, graph.cost).tolist() == pytest.approx([8.08, 8.08], rel=0.15)


def test_less_is_cut_than_at_random():
    for name in ("tree", "stencil", "matmul"):
        graph = SMALL_ONES[name]()
        drawn = np.random.default_rng(0).integers(0, 3, graph.n)
        assert volume(graph, assign_metis(graph, Workers.build(3))) < 0.6 * volume(graph, drawn)


def test_pins_and_devices_are_kept():
    graph = PlanGraph.build(Dag.from_edges(8, [0, 1, 2, 3], [4, 5, 6, 7]), 1.0, 8, device=[GPU] * 4 + [CPU] * 4)
    workers = Workers.build(3, device=[CPU, GPU, CPU])
    assign = assign_metis(graph, workers)
    assert set(assign[:4].tolist()) == {1} and 1 not in assign[4:].tolist()


def test_few_operands_and_one_part_need_no_metis():
    graph = PlanGraph.build(Dag.from_edges(3, [0], [1]), 1.0, 8)
    assert metis_groups(graph, 1).tolist() == [0, 0, 0]
    assert metis_groups(graph, 4).tolist() == [0, 1, 2]
    with pytest.raises(GraphError, match="METIS"):
        metis_groups(SMALL_ONES["tree"](), 2, slack=-1.0)


def test_where_an_operand_outweighs_a_part_metis_is_not_asked(capfd):
    even = PlanGraph.build(Dag.from_edges(64, range(63), range(1, 64)), 1.0, 8)
    assert suits_metis(even, 4) and suits_metis(even, 2, bands=4) and not suits_metis(even, 16)
    heavy = PlanGraph.build(even.dag, [100.0] + [1.0] * 63, 8)
    assert not suits_metis(heavy, 4) and suits_metis(heavy, 1)
    for make in SMALL_ONES.values():
        for k in (2, 4, 8):
            if suits_metis(make(), k, memory=True):
                metis_groups(make(), k, memory=True, slack=1.1)
    assert "annot bisect" not in capfd.readouterr().out
