"""Lines of operands become one operand; shapes that are no line, results and stored chunks stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.graph import Dag
from jmars.kernels.fusing import compose
from jmars.optimize import fuse_groups
from jmars.optimize.regions import fuse_chains
from tests.graph.examples import dags
from tests.optimize.examples import chunk_graph, labels, values


def by_definition(dag, kept, stored):
    """Maximal paths of the seeds' rule, walked from their heads."""
    follows = {}
    for u in range(dag.n):
        if len(dag.succs(u)) == 1 and u not in kept and u not in stored:
            (v,) = dag.succs(u).tolist()
            if len(dag.preds(v)) == 1:
                follows[u] = v
    groups = []
    for head in sorted(set(range(dag.n)) - set(follows.values())):
        line = [head]
        while line[-1] in follows:
            line.append(follows[line[-1]])
        groups.append(line)
    return sorted(groups, key=lambda line: line[-1])


@given(dags(), st.data())
def test_groups_are_the_maximal_lines_and_values_stay(dag, data):
    results = sorted({dag.n - 1, *data.draw(st.sets(st.integers(0, dag.n - 1)))})
    stored = data.draw(st.sets(st.sampled_from(dag.sources().tolist())))
    args = data.draw(st.none() | st.just([(float(k),) if k % 3 else () for k in range(dag.n)]))
    if args is not None:
        args = [() if k in stored else arg for k, arg in enumerate(args)]
    before = chunk_graph(dag, results=results, stored=sorted(stored), args=args)
    joined = fuse_chains(before)
    after, group = joined.graph, joined.group
    lines = by_definition(dag, set(results), stored)
    assert [np.flatnonzero(group == row).tolist() for row in range(after.n)] == lines
    assert labels(after) == ["stored" if k[0] in stored else "+".join(f"op{i}" for i in k) for k in lines]
    assert values(after) == values(before)
    assert [after.layers[k].name for k in after.layer.tolist()] == [f"op{k[-1]}" for k in lines]
    users = np.repeat(np.arange(after.n), np.diff(after.input_ptr))
    assert np.all(after.input_idx < users)  # still in topological order


def test_the_documented_example():
    dag = Dag.from_edges(4, [0, 1, 2], [2, 2, 3])
    joined = fuse_chains(chunk_graph(dag, ["rand", "rand", "add", "sum"]))
    assert labels(joined.graph) == ["rand", "rand", "add+sum"]
    assert joined.group.tolist() == [0, 1, 2, 2]


def test_equal_lines_are_fused_once(monkeypatch):
    calls = []
    monkeypatch.setattr(fuse_groups, "compose", lambda programs, reads: calls.append(reads) or compose(programs, reads))
    first = np.arange(0, 3_000, 3)
    dag = Dag.from_edges(3_000, np.concatenate([first, first + 1]), np.concatenate([first + 1, first + 2]))
    after = fuse_chains(chunk_graph(dag, ["rand", "add", "sum"] * 1_000)).graph
    assert calls == [((), (-1,), (-2,))]
    assert after.n == 1_000 and len(after.programs) == 1


@pytest.mark.parametrize(("n", "lengths"), [(10, [4, 4, 2]), (9, [4, 4, 1]), (8, [4, 4]), (4, [4])])
def test_a_long_line_is_cut(n, lengths):
    before = chunk_graph(Dag.from_edges(n, range(n - 1), range(1, n)), ["add"] * n)
    joined = fuse_chains(before, longest=4)
    after, group = joined.graph, joined.group
    assert np.bincount(group).tolist() == lengths
    assert values(after) == values(before)


def test_a_graph_without_lines_is_passed_on():
    before = chunk_graph(Dag.from_edges(4, [0, 0, 1, 1], [2, 3, 2, 3]))
    joined = fuse_chains(before)
    after, group = joined.graph, joined.group
    assert after is before and group.tolist() == [0, 1, 2, 3]
