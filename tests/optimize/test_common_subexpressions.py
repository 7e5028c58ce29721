"""Equal tensors are computed once, results keep their keys, and what may differ stays apart."""

from hypothesis import given
from hypothesis import strategies as st

from jmars.optimize.passes import merge_equal, tile
from jmars.tensor.tensor_graph import TensorGraph
from tests.optimize.examples import tensor, values


def labels(graph):
    return [operand.label for operand in graph.operands]


def test_what_is_written_twice_is_computed_once():
    x = tensor("x")
    y = tensor("multiply", tensor("add", x), tensor("add", x))
    merged = merge_equal(TensorGraph.of([y]))
    assert labels(merged) == ["x", "add", "multiply"]
    assert merged.inputs == [(), (0,), (1, 1)]
    assert [merged.metas[k].key for k in merged.results] == [y.key]


def test_equality_goes_up_the_graph():
    def expression():
        return tensor("sqrt", tensor("add", tensor("x"), tensor("y")))

    assert labels(merge_equal(TensorGraph.of([tensor("pair", expression(), expression())]))) == [
        *["x", "y", "add", "sqrt", "pair"]
    ]


def test_the_order_of_inputs_and_the_chunks_make_a_difference():
    x, y = tensor("x"), tensor("y")
    graph = TensorGraph.of([tensor("sub", x, y), tensor("sub", y, x), tensor("x", chunks=2)])
    assert merge_equal(graph) is graph


def test_what_has_no_token_equals_nothing():
    graph = TensorGraph.of([tensor("pair", tensor("rand", equal=False), tensor("rand", equal=False))])
    assert merge_equal(graph) is graph


def test_two_equal_results_stay_two_and_their_readers_share_one():
    x = tensor("x")
    a, b = tensor("add", x), tensor("add", x)
    c, d = tensor("sum", a), tensor("sum", b)
    merged = merge_equal(TensorGraph.of([a, b, tensor("pair", c, d)]))
    assert labels(merged) == ["x", "add", "add", "sum", "pair"]
    assert [merged.metas[k].key for k in merged.results[:2]] == [a.key, b.key]
    assert merged.inputs[3] == (1,)


def test_a_result_equal_to_an_earlier_step_gives_that_step_its_key():
    x = tensor("x")
    inner, result = tensor("add", x), tensor("add", x)
    last = tensor("sum", inner)
    merged = merge_equal(TensorGraph.of([last, result]))
    assert labels(merged) == ["x", "add", "sum"]
    assert [merged.metas[k].key for k in merged.results] == [last.key, result.key]


@given(st.data())
def test_values_and_keys_of_results_stay(data):
    nodes = [tensor("x"), tensor("y")]
    for _ in range(data.draw(st.integers(1, 12))):
        read = data.draw(st.lists(st.sampled_from(nodes), min_size=0, max_size=2))
        nodes.append(tensor(data.draw(st.sampled_from("abx")), *read, equal=data.draw(st.booleans())))
    graph = TensorGraph.of(data.draw(st.lists(st.sampled_from(nodes), min_size=1)))
    merged = merge_equal(graph)
    assert [merged.metas[k].key for k in merged.results] == [graph.metas[k].key for k in graph.results]
    assert values(tile(merged)) == values(tile(graph))
    apart = [
        (op.token(), inputs)
        for k, (op, inputs) in enumerate(zip(merged.operands, merged.inputs, strict=True))
        if op.token() is not None and k not in merged.results
    ]
    assert len(set(apart)) == len(apart)
