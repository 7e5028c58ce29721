"""A FlowGraph knows what every run starts from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import GraphError
from jmars.flow import FlowGraph
from jmars.graph import Dag
from tests.graph.examples import dags


@given(dags())
def test_rows_are_the_graphs(dag):
    graph = FlowGraph(dag)
    assert graph.preds == [tuple(dag.preds(v).tolist()) for v in range(dag.n)]
    assert graph.succs == [tuple(dag.succs(v).tolist()) for v in range(dag.n)]
    assert graph.initial == dag.sources().tolist()
    assert graph.to_run == dag.n


@given(dags(), st.data())
def test_given_chunks_count_as_finished_and_kept_ones_have_a_reader_more(dag, data):
    there = data.draw(st.sets(st.sampled_from(dag.sources().tolist())))
    kept = data.draw(st.sets(st.integers(0, dag.n - 1)))
    graph = FlowGraph(dag, given=sorted(there), kept=sorted(kept))
    for v in range(dag.n):
        assert graph.waiting[v] == len(set(graph.preds[v]) - there)
        assert graph.consumers[v] == len(graph.succs[v]) + (v in kept)
        assert graph.finished[v] == (v in there)
    assert graph.initial == [v for v in range(dag.n) if not graph.waiting[v] and v not in there]
    assert graph.to_run == dag.n - len(there)


def test_a_given_operand_that_reads_others_is_refused():
    with pytest.raises(GraphError, match="must read no other"):
        FlowGraph(Dag.from_edges(2, [0], [1]), given=[1])


def test_names_of_no_operand_are_refused():
    with pytest.raises(GraphError, match="kept names operands 2 to 2 and the graph has 0 to 1"):
        FlowGraph(Dag.from_edges(2, [0], [1]), kept=[2])
