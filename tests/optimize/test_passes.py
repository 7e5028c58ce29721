"""A compiled graph computes the same values in fewer operands, and every switch only changes how."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from tests.graph.examples import is_topological
from tests.optimize.examples import labels, last_chunk, tensor, values

SWITCHES = ("optimize_tileable_graph", "optimize_chunk_graph", "fuse_enabled")


def documented(chunks=1):
    a, b = (tensor("rand", chunks=chunks, equal=False) for _ in "ab")
    return tensor("sum", tensor("add", a, b, chunks=chunks), chunks=chunks)


def test_the_documented_example_goes_from_four_operands_to_three():
    compiled = compile_graph(TensorGraph.of([documented()]), {})
    assert labels(compiled.before) == ["rand", "rand", "add", "sum"]
    assert labels(compiled.after) == ["rand", "rand", "add+sum"]
    assert compiled.group.tolist() == [0, 1, 2, 2]
    assert compiled.dag.preds(2).tolist() == [0, 1]


@given(st.data())
def test_no_switch_changes_a_value(data):
    nodes = [tensor("x", chunks=2), tensor("y", chunks=2)]
    for _ in range(data.draw(st.integers(1, 12))):
        read = data.draw(st.lists(st.sampled_from(nodes), max_size=2))
        nodes.append(tensor(data.draw(st.sampled_from("abx")), *read, chunks=2))
    chosen = data.draw(st.lists(st.sampled_from(nodes), min_size=1))
    graph = TensorGraph.of(chosen)
    expected = None
    for on in itertools.product([False, True], repeat=3):
        config = dict(zip(SWITCHES, on, strict=True)) | {"order": data.draw(st.sampled_from(["mars", "dfs"]))}
        compiled = compile_graph(graph, config)
        assert set(compiled.after.results) == {node.key for node in chosen}
        got = values(compiled.after)
        assert expected is None or got == expected
        expected = got
        assert sorted(compiled.rank.tolist()) == list(range(compiled.after.n))
        if config["order"] == "dfs":
            assert is_topological(compiled.dag, np.argsort(compiled.rank))
        kept = compiled.group >= 0
        assert set(compiled.group[kept].tolist()) == set(range(compiled.after.n))
        for key, ids in compiled.before.results.items():
            assert compiled.group[ids].tolist() == compiled.after.results[key].tolist()


def test_each_switch_changes_what_it_names():
    x = tensor("x")
    graph = TensorGraph.of([tensor("sum", tensor("pair", tensor("add", x), tensor("add", x)))])

    def operands(**config):
        return labels(compile_graph(graph, config).after)

    assert operands() == ["x+add+pair+sum"]
    assert operands(fuse_enabled=False) == ["x", "add", "pair", "sum"]
    assert operands(optimize_tileable_graph=False) == ["x", "add", "add", "pair+sum"]


def test_what_is_pruned_is_mapped_to_nothing():
    compiled = compile_graph(TensorGraph.of([last_chunk(tensor("add", tensor("x", chunks=3), chunks=3))]), {})
    assert labels(compiled.before) == ["x"] * 3 + ["add"] * 3
    assert labels(compiled.after) == ["x+add"]
    assert compiled.group.tolist() == [-1, -1, 0, -1, -1, 0]


def test_a_cancelled_job_stops_between_passes():
    for passes in range(6):
        left = iter(range(passes))

        def check(left=left):
            if next(left, None) is None:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            compile_graph(TensorGraph.of([tensor("x"), tensor("y")]), {}, check)


def test_100_000_equal_lines_are_compiled_in_a_moment():
    compiled = compile_graph(TensorGraph.of([documented(chunks=100_000)]), {})
    assert compiled.before.n == 400_000 and compiled.after.n == 300_000
    assert len(compiled.after.programs) == 2
