"""Seed 002, "GraphBuilder & Graph": build time, run time, instances."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor as Threads

import pytest

from jmars.errors import GraphError, NotReadyError
from jmars.flow import GraphBuilder, GraphPool, GraphProcessor, ThreadPoolExecutor
from tests.annex.flow.graphs import Calls, counters, graph_of


def add(a, b):
    return a + b


def three():
    """c = a + b, d = c * 2, e = c - 1."""
    builder = GraphBuilder("three")
    builder.input("a", "b", type=int)
    builder.function(add, ["a", "b"], "c")
    builder.function(lambda c: c * 2, ["c"], "d")
    builder.function(lambda c: c - 1, ["c"], "e")
    return builder


def test_s2_1_data_and_compute_nodes_are_joined_by_names():
    graph = three().finish().build()
    assert graph.run("d", "e", given={"a": 1, "b": 2}).result() == (6, 2)


def test_s2_1_an_unknown_name_fails_at_finish():
    builder = three()
    builder.function(add, ["c", "dd"], "f")
    with pytest.raises(GraphError, match=r"'add_1' of graph 'three' reads 'dd', which no vertex emits.*is 'd' meant"):
        builder.finish()


def test_s2_1_a_type_clash_fails_at_finish():
    builder = three()
    builder.vertex(GraphProcessor, "upper").emit("f").depend("a", type=str)
    with pytest.raises(GraphError, match="takes 'a' as str and the input gives int"):
        builder.finish()


def test_s2_2_a_data_has_one_producer():
    builder = three()
    builder.function(add, ["a", "b"], "d")
    with pytest.raises(GraphError, match="'d' of graph 'three' is emitted by 'lambda' and 'add_1'"):
        builder.finish()


def test_s2_2_a_second_emit_is_refused():
    class Twice(GraphProcessor):
        def process(self, vertex):
            vertex.emit(1)
            vertex.emit(2)

    builder = GraphBuilder()
    builder.vertex(Twice).emit("a")
    with pytest.raises(GraphError, match="'a' was emitted before"):
        builder.finish().build().run("a").result()


def test_s2_2_a_run_without_an_input_is_an_error_and_no_hang():
    graph = three().finish().build()
    closure = graph.run("d", given={"a": 1})
    with pytest.raises(NotReadyError, match="'b' has no producer and was not given; vertex 'add' needs it for 'c'"):
        closure.result(timeout=60)
    assert closure.flushed


@pytest.mark.parametrize("n", [0, 1, 20])
def test_s2_3_a_vertex_has_any_number_of_anonymous_inputs(n):
    builder = GraphBuilder()
    builder.input(*(f"x{k}" for k in range(n)))
    builder.function(lambda *texts: "".join(texts), [f"x{k}" for k in range(n)], "joined")
    graph = builder.finish().build()
    given = {f"x{k}": chr(97 + k) for k in range(n)}
    assert graph.run("joined", given=given).result() == "abcdefghijklmnopqrst"[:n]


def test_s2_3_inputs_and_outputs_are_named_or_anonymous():
    class Divide(GraphProcessor):
        def process(self, vertex):
            (first,) = vertex.inputs
            quotient, rest = divmod(first, vertex.value("by"))
            vertex.emit(quotient)
            vertex.emit(rest, "rest")

    builder = GraphBuilder()
    builder.input("a", "b")
    vertex = builder.vertex(Divide).emit("q").emit("r", name="rest")
    vertex.depend("a")
    vertex.depend("b", "by")
    graph = builder.finish().build()
    assert graph.run("q", "r", given={"a": 17, "b": 5}).result() == (3, 2)


def test_s2_4_a_finished_graph_cannot_change():
    builder = three().finish()
    for change in (
        lambda: builder.input("x"),
        lambda: builder.vertex(GraphProcessor),
        lambda: builder.const("x", 1),
        lambda: builder.exclusive("c"),
        lambda: builder.expression("a + b", "x"),
    ):
        with pytest.raises(GraphError, match="is finished and cannot change"):
            change()
    open_builder = three()
    vertex = open_builder.vertex(GraphProcessor, "late").emit("late")
    dependency = vertex.depend("a")
    open_builder.finish()
    for change in (dependency.mutable, dependency.essential, vertex.trivial, lambda: dependency.on("b")):
        with pytest.raises(GraphError, match="is finished and cannot change"):
            change()


def test_s2_4_unfinished_builders_build_nothing():
    with pytest.raises(GraphError, match="is not finished"):
        three().build()


def test_s2_4_a_thousand_instances_are_equal_and_independent():
    configured = []

    class Scale(GraphProcessor):
        def config(self, vertex):
            configured.append(vertex.name)

        def process(self, vertex):
            vertex.emit(vertex.inputs[0] * 10)

    builder = three()
    builder.vertex(Scale).emit("f").depend("e")
    graphs = [builder.finish().build() for _ in range(1_000)]
    assert configured == ["Scale"]
    assert all(counters(graph) == counters(graphs[0]) for graph in graphs)
    results = [graph.run("f", given={"a": k, "b": 1}).result() for k, graph in enumerate(graphs)]
    assert results == [10 * k for k in range(1_000)]


def test_s2_5_two_runs_at_once_on_an_instance_are_refused():
    graph = three().finish().build()
    graph.run("d", given={"a": 1, "b": 2})
    with pytest.raises(GraphError, match="in use or was not reset"):
        graph.run("d", given={"a": 1, "b": 2})
    graph.reset()
    assert graph.run("d", given={"a": 2, "b": 2}).result() == 8


def test_s2_5_an_instance_that_runs_cannot_be_reset():
    started, go = threading.Event(), threading.Event()

    def slow():
        started.set()
        go.wait(60)
        return 1

    graph = graph_of((slow, [], "a"))
    with ThreadPoolExecutor(1) as threads:
        closure = graph.run("a", executor=threads)
        started.wait(60)
        with pytest.raises(GraphError, match=r"still runs: wait\(\)"):
            graph.reset()
        go.set()
        assert closure.wait(60)
        graph.reset()


def test_s2_5_a_thousand_runs_of_one_instance_are_equal_and_leave_nothing():
    builder = three()
    builder.expression("c > 5 ? d : e", "f")
    graph = builder.finish().build()
    fresh = counters(graph)
    live = []
    for k in range(1_000):
        expected = 2 * (k + 1) if k + 1 > 5 else k
        assert graph.run("f", given={"a": k, "b": 1}).result() == expected
        graph.reset()
        assert counters(graph) == fresh
        if k in (100, 999):
            gc.collect()
            live.append(len(gc.get_objects()))
    assert live[1] - live[0] < 50


def test_s2_6_a_pool_serves_8_threads_1000_runs_each_with_3_instances():
    pool = GraphPool(three().finish(), limit=3)

    def client(k):
        for n in range(1_000):
            with pool.lent() as graph:
                assert graph.run("d", given={"a": k, "b": n}).result() == 2 * (k + n)

    with Threads(8) as threads:
        list(threads.map(client, range(8)))
    assert pool.built <= 3


def test_s2_6_a_pool_lends_first_come_first_served():
    pool = GraphPool(three().finish(), limit=1)
    graph = pool.acquire()
    line = [pool.request() for _ in range(3)]
    for k in range(3):
        pool.release(graph)
        assert [future.done() for future in line] == [j <= k for j in range(3)]
        graph = line[k].result()


def test_s2_7_only_what_leads_to_the_requested_data_is_activated():
    calls = Calls()
    graph = graph_of(
        (calls("c", lambda: 3), [], "c"),
        (calls("left", lambda c: c + 1), ["c"], "left"),
        (calls("beside", lambda: 0), [], "beside"),
        (calls("right", lambda c, b: c + b), ["c", "beside"], "right"),
    )
    assert graph.run("left").result() == 4
    assert calls == ["c", "left"]
    assert not graph.data("right").active and not graph.data("beside").active and graph.data("c").ready


@pytest.mark.long
def test_s2_7_activation_of_a_very_deep_graph_needs_no_recursion():
    builder = GraphBuilder()
    builder.input("x0")
    for k in range(20_000):
        builder.function(lambda x: x + 1, [f"x{k}"], f"x{k + 1}", name=f"v{k}")
    assert builder.finish().build().run("x20000", given={"x0": 0}).result() == 20_000


def test_s2_8_independent_vertices_run_in_parallel():
    together = threading.Barrier(8)  # none passes before all eight are inside
    graph = graph_of(*((lambda k=k: together.wait(60) >= 0 and k, [], f"x{k}") for k in range(8)))
    with ThreadPoolExecutor(8) as threads:
        assert graph.run(*(f"x{k}" for k in range(8)), executor=threads).result(60) == tuple(range(8))


def test_s2_9_an_instance_outlives_its_builder():
    builder = three().finish()
    graph, gone = builder.build(), weakref.ref(builder)
    del builder
    gc.collect()
    assert gone() is None
    assert graph.run("d", given={"a": 1, "b": 2}).result() == 6


def test_s2_10_every_instance_has_processors_of_its_own():
    calls = []

    class Count(GraphProcessor):
        def setup(self, vertex):
            calls.append("setup")
            self.total = 0

        def process(self, vertex):
            calls.append("process")
            self.total += 1
            vertex.emit(self.total)

        def reset(self):
            calls.append("reset")

    builder = GraphBuilder()
    builder.vertex(Count).emit("total")
    one, two = builder.finish().build(), builder.build()
    totals = []
    for graph in (one, one, two, one, two):
        totals.append(graph.run("total").result())
        graph.reset()
    assert totals == [1, 2, 1, 3, 2]
    assert calls == ["setup"] * 2 + ["process", "reset"] * 5
