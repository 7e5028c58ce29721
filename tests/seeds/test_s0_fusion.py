"""Seed 000, "Graph fusion"; seed 001, "Graph Compose"; seed 003, "图压缩": which operands become one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars
import jmars.tensor as mt
from jmars.config import Config
from jmars.errors import ChunkSizeError
from jmars.graph import Dag, levels
from jmars.optimize import colors, compile_graph, fuse_chains, fuse_colors, fuse_regions
from jmars.switches import with_extra
from jmars.tensor.tensor_graph import TensorGraph
from tests.graph.examples import dags
from tests.optimize.examples import labels, last_chunk, tensor
from tests.optimize.examples import values as chunk_values
from tests.optimize.kinds import graphs, values
from tests.tensor import engine


def rand():
    return tensor("rand", equal=False)


def a_plus_b():
    return tensor("add", rand(), rand())


def fused(*results, **config):
    """Names of what runs, as the documented rule fuses it where nothing else is said."""
    config = {"fuse": "chain"} | config
    return labels(compile_graph(TensorGraph.of(results), config).after)


def test_s0_5_the_documented_example():
    # c = (a + b).sum(): ADD and SUM compose, RAND does not form a line with them
    assert fused(tensor("sum", a_plus_b())) == ["rand", "rand", "add+sum"]


def test_s0_5_one_line_includes_its_source():
    # (rand + 1).sum(): what kept RAND out above is the shape, not its kind
    assert fused(tensor("sum", tensor("add", rand()))) == ["rand+add+sum"]


def test_s0_5_a_value_read_twice_ends_a_line():
    x = a_plus_b()
    assert fused(tensor("sum", x), tensor("max", x)) == ["rand", "rand", "add", "sum", "max"]
    y = tensor("add", rand())
    assert fused(tensor("sum", y), tensor("max", y)) == ["rand+add", "sum", "max"]


def test_s0_5_a_diamond_fuses_its_straight_arms_only():
    x = a_plus_b()
    left, right = tensor("sqrt", tensor("abs", x)), tensor("exp", x)
    assert fused(tensor("sum", tensor("sub", left, right))) == ["rand", "rand", "add", "abs+sqrt", "exp", "sub+sum"]


def test_s0_6_a_result_is_never_inside_a_line():
    x = tensor("add", rand())
    compiled = compile_graph(TensorGraph.of([x, tensor("sum", x)]), {})
    assert labels(compiled.after) == ["rand+add", "sum"]
    assert compiled.after.results[x.key].tolist() == [0]


@pytest.mark.parametrize("fuse", ["chain", "region", "color"])
def test_s0_6_both_are_given_where_one_is_computed_from_the_other(fuse, monkeypatch):
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, {"fuse": fuse}).after)
    x = mt.arange(20.0, chunk_size=6) + 1
    run = engine.OneByOne()
    run.execute([x.data, x.sum().data])
    assert run.fetch(x.data).tolist() == list(range(1, 21)) and run.held(x.data)
    assert sorted(float(chunks[0]) for chunks in run.chunks.values() if chunks[0].shape == ()) == [210.0]


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [
        (lambda: tensor("sum", a_plus_b()), 4, 3),
        (lambda: tensor("sum", tensor("add", rand())), 3, 1),
        (a_plus_b, 3, 3),
        (lambda: tensor("exp", tensor("sum", a_plus_b())), 5, 3),
        (lambda: tensor("add", tensor("abs", rand()), tensor("abs", rand())), 5, 3),
    ],
)
def test_s0_4_nodes_before_and_after_are_counted_by_hand(make, before, after):
    compiled = compile_graph(TensorGraph.of([make()]), {"fuse": "chain"})
    assert (compiled.before.n, compiled.after.n) == (before, after)


def test_s1_2_composing_can_be_switched_off():
    assert fused(tensor("sum", a_plus_b()), fuse_enabled=False) == ["rand", "rand", "add", "sum"]
    make = tensor("make")
    graph = TensorGraph.of([tensor("sum", tensor("add", tensor("rand"), make)), tensor("max", make)])
    composed, plain = (compile_graph(graph, {"fuse_enabled": fuse}).after for fuse in (True, False))
    assert composed.n < plain.n and chunk_values(composed) == chunk_values(plain)


def test_s0_15_each_switch_changes_the_graph_as_it_says():
    x = tensor("x")
    unequal = tensor("pair", tensor("add", x), tensor("add", x))  # twice the same
    part = last_chunk(tensor("x", chunks=2))  # one of two chunks

    def operands(result, **switches):
        config = Config()
        config.load({"task": {"default_config": switches}})
        return fused(result, **config.task)

    assert operands(unequal) == ["x+add+pair"]
    assert operands(unequal, optimize_tileable_graph=False) == ["x", "add", "add", "pair"]
    assert operands(unequal, fuse_enabled=False) == ["x", "add", "pair"]
    assert operands(part) == ["x"] and operands(part, optimize_chunk_graph=False) == ["x", "x"]


SEED = """
task:
  default_config:
    optimize_tileable_graph: true
    optimize_chunk_graph: true
    fuse_enabled: true
"""


@pytest.mark.parametrize("text", [SEED, SEED.replace("  ", "")], ids=["as meant", "as the seed's text stands"])
def test_s0_15_the_yaml_of_the_seed_loads_and_a_task_may_override_it(text):
    config = Config()
    config.load(text)
    assert config.task == Config().task  # what the seed says is what there is
    x = tensor("sum", tensor("add", rand()))
    assert fused(x, **with_extra(config.task, {"fuse": "chain"})) == ["rand+add+sum"]
    assert fused(x, **with_extra(config.task, {"fuse_enabled": False})) == ["rand", "add", "sum"]
    assert fused(x, **with_extra(config.task, fuse_enabled=False)) == ["rand", "add", "sum"]
    assert config.task == Config().task


@given(graphs(), st.data())
def test_s0_10_results_stored_chunks_and_what_runs_elsewhere_are_not_fused(drawn, data):
    before, dag, _, results, stored = drawn
    place = np.array(data.draw(st.lists(st.integers(0, 1), min_size=dag.n, max_size=dag.n)))
    for fuse in (fuse_chains, fuse_regions, fuse_colors):
        joined = fuse(before, apart=place)
        for row in range(joined.graph.n):
            members = np.flatnonzero(joined.group == row)
            assert len(set(place[members].tolist())) == 1
            assert not (results | stored) & set(members[:-1].tolist())
            assert len(members) == 1 or not stored & set(members.tolist())
        assert values(joined.graph) == values(before)


@pytest.mark.parametrize("other", [{"worker": 1}, {"gpu": True}, {"fuse": False}], ids=str)
@pytest.mark.parametrize("mode", ["chain", "region", "color"])
def test_s0_10_gpu_flag_worker_and_hint_keep_an_operand_apart(mode, other):
    with jmars.annotate(worker=0):
        x = mt.random.default_rng(1).random(12, chunk_size=6) + 1
    with jmars.annotate(**({"worker": 0} | other)):
        y = mt.exp(x)
    after = compile_graph(TensorGraph.of([y.data]), {"fuse": mode}).after
    assert sorted(after.programs[k].name for k in after.program.tolist()) == ["exp"] * 2 + ["random+add"] * 2


def test_s0_10_a_result_of_unknown_size_ends_what_is_fused():
    x = mt.asarray(np.arange(12.0), chunk_size=6)
    graph = TensorGraph.of([(x * 2)[x > 3].data])
    for number, _, _ in graph.arrays():
        graph.replace_by_stored(number, f"array-{number}")
    for mode in ("chain", "region", "color"):
        after = compile_graph(graph, {"fuse": mode}).after
        assert after.unsized.any()
        for row in np.flatnonzero(after.unsized).tolist():
            assert row not in after.input_idx  # nothing that waits for the size runs with it


def test_s0_9_the_graph_of_issue_2435_gives_the_proposed_subtasks():
    # 13 chunks, placed on two bands: 0 to 7 begin on the first, 8 to 11 on the second, 12 reads both
    pairs = [(0, 2), (1, 2), (8, 10), (9, 10), (2, 3), (3, 4), (2, 5), (10, 5), (5, 6), (4, 7), (6, 7), (10, 11)]
    pairs += [(6, 12), (11, 12)]
    number = [0, 1, 4, 5, 6, 7, 9, 11, 2, 3, 8, 10, 12]
    dag = Dag.from_edges(13, [number[a] for a, _ in pairs], [number[b] for _, b in pairs])
    color = colors(dag, bands=[0, 0, 1, 1])
    subtasks = [sorted(number.index(v) for v in np.flatnonzero(color == c).tolist()) for c in set(color.tolist())]
    assert sorted(subtasks) == [[0, 1, 2], [3, 4], [5, 6], [7], [8, 9, 10], [11], [12]]


@given(dags(), st.integers(1, 3), st.integers(1, 9))
def test_s0_9_no_colour_makes_a_cycle(dag, same, broadcaster):
    _, color = np.unique(colors(dag, same=same, broadcaster=broadcaster), return_inverse=True)
    src, dst = dag.edges()
    between = color[src] != color[dst]
    levels(Dag.from_edges(int(color.max()) + 1, color[src[between]], color[dst[between]]))  # raises if there is one


def test_s1_1_chunks_is_another_name_of_chunk_size():
    assert mt.random.rand(100, chunks=100).chunks == mt.random.rand(100, chunk_size=100).chunks == ((100,),)
    assert mt.ones((10, 8), chunks=(4, 8)).chunks == mt.ones((10, 8), chunk_size=(4, 8)).chunks
    for make in (mt.random.rand, mt.ones, mt.zeros, mt.arange):
        with pytest.raises(ChunkSizeError, match="give only one"):
            make(100, chunks=100, chunk_size=100)
