"""Graphs, workers and plans that Hypothesis draws for the planners' tests."""

import numpy as np
from hypothesis import strategies as st

from jmars.graph import Dag
from jmars.plan import UNLIMITED, PlanGraph, Workers
from tests.graph.examples import dags, tree


def unit(dag: Dag) -> PlanGraph:
    """Every operand takes a second and writes a byte."""
    return PlanGraph.build(dag, 1.0, 1)


def cascade() -> PlanGraph:
    """The worked example of cascade's partitions: A-E are 0-4, A -> B, A -> C, B -> D, C -> D, E -> D."""
    dag = Dag.from_edges(5, [0, 0, 1, 2, 4], [1, 2, 3, 3, 3])
    return PlanGraph.build(dag, [4.0, 6.0, 2.0, 4.0, 1.0], [10, 10, 10, 10, 5])


@st.composite
def graphs(draw, max_n=24):
    """A graph with uneven costs, sizes, scratch and results."""
    dag = draw(dags(max_n))

    def each(values):
        return np.array(draw(st.lists(values, min_size=dag.n, max_size=dag.n)))

    cost = each(st.integers(0, 8)) / 4
    result = each(st.booleans()) | (dag.out_degree == 0)
    return PlanGraph.build(dag, cost, each(st.integers(0, 9)), work=each(st.integers(0, 3)), result=result)


@st.composite
def clusters(draw, memory=UNLIMITED):
    """One to four unlike workers, quick or slow links between them."""
    p = draw(st.integers(1, 4))
    cores = draw(st.lists(st.integers(1, 3), min_size=p, max_size=p))
    speed = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=p, max_size=p))
    bandwidth = draw(st.sampled_from([1.0, 10.0, 1e9]))
    return Workers.build(p, cores=cores, speed=speed, memory=memory, bandwidth=bandwidth, latency=0.125, disk=4.0)


def largest_need(graph: PlanGraph) -> int:
    """Bytes that the operand with most of them needs at once."""
    src, dst = graph.dag.edges()
    inputs = np.bincount(dst, graph.nbytes[src], graph.n).astype(np.int64)
    return int((inputs + graph.nbytes + graph.work).max(initial=1))


__all__ = ["cascade", "clusters", "graphs", "largest_need", "tree", "unit"]
