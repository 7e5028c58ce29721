"""Seed 002's engine: essential and mutable dependencies, executors, closures, channels, formulas, errors, cost."""

import asyncio
import sys
import threading
from collections import Counter
from contextlib import nullcontext

import pytest

from jmars.errors import GraphError, NotReadyError
from jmars.flow import AsyncioExecutor, GraphBuilder, GraphPool, GraphProcessor, ThreadPoolExecutor
from tests.annex.flow.graphs import FORMULA, Calls, graph_of


def test_s2_15_on_and_unless_are_opposites():
    builder = GraphBuilder()
    builder.input("x", "flag")
    builder.function(lambda on, unless: (on, unless), {"on": "x", "unless": "x"}, "y")
    vertex = builder.function(lambda on, unless: (on, unless), {"on": "x", "unless": "x"}, "z")
    vertex.dependency("on").on("flag")
    vertex.dependency("unless").unless("flag")
    graph = builder.finish().build()
    for flag, seen in ((True, (1, None)), (False, (None, 1)), (None, (None, 1))):
        assert graph.run("y", "z", given={"x": 1, "flag": flag}).result() == ((1, 1), seen)
        graph.reset()


def test_s2_15_a_vertex_with_an_empty_essential_input_is_skipped():
    calls = Calls()
    builder = GraphBuilder()
    builder.input("x")
    builder.function(calls("a", lambda x: x), ["x"], "a").dependency(0).essential()
    builder.function(calls("b", lambda a: a), ["a"], "b").dependency(0).essential()
    builder.function(calls("c", lambda b: ("end", b)), ["b"], "c")
    graph = builder.finish().build()
    closure = graph.run("c", given={"x": None})
    assert closure.result() == ("end", None) and closure.error is None
    assert calls == ["c"] and graph.data("a").empty and graph.data("b").empty
    graph.reset()
    assert graph.run("c", given={"x": 1}).result() == ("end", 1)


@pytest.mark.parametrize(("when_taken", "runs"), [(False, False), (True, True)])
def test_s2_15_essential_may_count_only_where_the_condition_held(when_taken, runs):
    calls = Calls()
    builder = GraphBuilder()
    builder.input("x", "flag")
    builder.function(calls("a", lambda x: 1), ["x"], "a").dependency(0).on("flag").essential(when_taken)
    graph = builder.finish().build()
    assert graph.run("a", given={"x": 1, "flag": False}).result() == (1 if runs else None)
    assert bool(calls) == runs


def test_s2_15_a_mutable_value_has_one_reader_in_a_run():
    def graph(condition_of_other):
        builder = GraphBuilder()
        builder.input("flag")
        builder.function(list, [], "a")
        builder.function(lambda a: a.append(1) or a, ["a"], "changed").dependency(0).mutable()
        other = builder.function(lambda a: a, ["a"], "read")
        if condition_of_other:
            other.dependency(0).on("flag")
        return builder.finish().build()

    assert graph(False).run("changed").result() == [1]
    with pytest.raises(GraphError, match=r"'a' is read by vertex 'lambda' and vertex 'lambda_1'.*mutable"):
        graph(False).run("changed", "read").result()
    with pytest.raises(GraphError, match=r"'a' is read by the caller of the run and vertex 'lambda'"):
        graph(False).run("changed", "a").result()
    # what counts is the run and not the build: a reader whose condition does not hold reads nothing
    assert graph(True).run("changed", "read", given={"flag": False}).result() == ([1], None)


def test_s2_15_an_alias_of_a_mutable_value_is_refused_at_finish():
    builder = GraphBuilder()
    builder.function(list, [], "a")
    builder.alias("same", "a")
    builder.function(lambda a: a.append(1) or a, ["same"], "changed").dependency(0).mutable()
    with pytest.raises(GraphError, match="'same' as mutable, and its value belongs to another data"):
        builder.finish()


def test_s2_15_the_inline_executor_keeps_program_order():
    calls = Calls()
    builder = GraphBuilder()
    builder.input("x")
    for k in range(10):
        builder.function(calls(k, lambda x: x), ["x"], f"a{k}", name=f"a{k}")
    for k in range(10):
        builder.function(calls(10 + k, lambda x: x), [f"a{k}"], f"b{k}", name=f"b{k}")
    assert builder.finish().build().run(*(f"b{k}" for k in range(10)), given={"x": 1}).finished
    assert calls == list(range(20))


def test_s2_15_trivial_vertices_run_in_the_thread_that_finds_them_ready():
    where = {}
    builder = GraphBuilder()
    builder.function(lambda: where.setdefault("a", threading.get_ident()), [], "a")
    for k in range(5):
        source = "a" if k == 0 else f"t{k - 1}"
        builder.function(lambda a, k=k: where.setdefault(k, threading.get_ident()), [source], f"t{k}").trivial()
    with ThreadPoolExecutor(4) as threads:
        builder.finish().build().run("t4", executor=threads).result(60)
    assert len(set(where.values())) == 1 and where["a"] != threading.get_ident()


def test_s2_15_a_closure_is_finished_before_it_is_flushed():
    """The requested data is there while its producer still works: result() comes at once, wait() after that."""
    go = threading.Event()

    class Residual(GraphProcessor):
        def process(self, vertex):
            vertex.emit("early")
            go.wait(60)

    builder = GraphBuilder()
    builder.vertex(Residual).emit("a")
    graph = builder.finish().build()
    with ThreadPoolExecutor(1) as threads:
        closure = graph.run("a", executor=threads)
        assert closure.result(60) == "early"
        assert closure.finished and not closure.flushed and not closure.wait(timeout=0.01)
        go.set()
        assert closure.wait(60) and closure.flushed


def test_s2_15_a_streaming_reader_sees_the_first_item_early():
    first_seen = threading.Event()

    class Numbers(GraphProcessor):
        def process(self, vertex):
            channel = vertex.open()
            channel.publish(0)
            assert first_seen.wait(60)  # the reader has started
            for k in range(1, 5):
                channel.publish(k)

    def total(numbers):
        result = 0
        for number in numbers:
            first_seen.set()
            result += number
        return result

    builder = GraphBuilder()
    builder.vertex(Numbers).emit("numbers")
    builder.function(total, ["numbers"], "total")
    with ThreadPoolExecutor(2) as threads:
        assert builder.finish().build().run("total", executor=threads).result(60) == 10


def test_s2_15_coroutines_take_turns_in_an_event_loop():
    order = []

    async def main():
        ping, pong = asyncio.Event(), asyncio.Event()

        async def left():
            order.append("left")
            ping.set()
            await pong.wait()
            order.append("left again")
            return 1

        async def right():
            await ping.wait()
            order.append("right")
            pong.set()
            return 2

        graph = graph_of((left, [], "a"), (right, [], "b"), (lambda a, b: a + b, ["a", "b"], "c"))
        return await graph.run("c", executor=AsyncioExecutor())

    assert asyncio.run(main()) == 3
    assert order == ["left", "right", "left again"]


@pytest.mark.parametrize(("b", "needs", "value"), [(3, "D", 14), (1, "E", 50)])
def test_s2_15_a_formula_computes_its_taken_branch_only(b, needs, value):
    builder = GraphBuilder()
    builder.input("B", "C", "D", "E")
    builder.expression(FORMULA, "A")
    graph = builder.finish().build()
    assert graph.run("A", given={"B": b, "C": 2, needs: 10}).result() == value  # the other one is not even given


def test_s2_15_const_and_alias():
    builder = GraphBuilder()
    builder.const("five", 5)
    builder.alias("also five", "five")
    assert builder.finish().build().run("also five").result() == 5


def test_s2_16_an_exception_in_a_vertex_is_that_of_the_run():
    error = LookupError("mine")

    def fails():
        raise error

    for threads in (0, 2):
        graph = graph_of((fails, [], "a"), (lambda a: a, ["a"], "b"))
        executor = ThreadPoolExecutor(threads) if threads else None
        closure = graph.run("b", executor=executor)
        with pytest.raises(LookupError) as caught:
            closure.result(60)
        assert caught.value is error and closure.wait(60)


def test_s2_16_why_not_ready_names_the_blocking_data():
    builder = GraphBuilder()
    builder.input("a", "b")
    builder.function(lambda a, b: a + b, ["a", "b"], "c")
    builder.function(lambda c: c, ["c"], "d")
    closure = builder.finish().build().run("d", given={"a": 1})
    with pytest.raises(NotReadyError, match=r"'b' has no producer and was not given; vertex 'lambda' needs it for 'c'"):
        closure.result(60)


def test_s2_16_an_executor_that_refuses_ends_the_run():
    calls, threads = Calls(), ThreadPoolExecutor(1)
    threads.close()
    graph = graph_of((calls("a", lambda: 1), [], "a"), (calls("b", lambda a: a), ["a"], "b"))
    closure = graph.run("b", executor=threads)
    with pytest.raises(RuntimeError, match="shutdown"):
        closure.result(60)
    assert closure.flushed and calls == []


def built_in_runs(lent, runs=5):
    """Processors that are made in some runs of a graph of three vertices, by `lent(builder)` in each run."""
    made = []

    class Vertex(GraphProcessor):
        def __init__(self):
            super().__init__()
            made.append(self)

        def process(self, vertex):
            vertex.emit(1)

    builder = GraphBuilder()
    for name in "abc":
        builder.vertex(Vertex, name).emit(name)
    lend = lent(builder.finish())
    before = len(made)
    for _ in range(runs):
        with lend() as graph:
            assert graph.run(*"abc").result(60) == (1, 1, 1)
    return len(made) - before


def test_s2_17_a_pooled_instance_is_built_once():
    """How much that saves, and what a lock costs: `python -m tests.benchmarks flow`."""
    assert built_in_runs(lambda builder: GraphPool(builder, 1).lent) == 3
    assert built_in_runs(lambda builder: lambda: nullcontext(builder.build())) == 15  # so the test fails without a pool


def test_s2_17_a_plain_vertex_costs_one_call():
    """Nothing is called for a lock, an event or a message; seconds: `python -m tests.benchmarks flow`."""
    builder, count = GraphBuilder(), 300
    builder.input("x0")
    for k in range(count):
        builder.function(lambda x: x + 1, [f"x{k}"], f"x{k + 1}", f"v{k}")
    pool, calls = GraphPool(builder.finish(), 1), Counter()
    for _ in range(2):  # the second run finds what the first one activated
        calls.clear()
        with pool.lent() as graph:
            sys.setprofile(lambda frame, event, arg: calls.update([event]))
            try:
                closure = graph.run(f"x{count}", given={"x0": 0})
            finally:
                sys.setprofile(None)
            assert closure.result() == count
    assert count < calls["call"] < count + 50
