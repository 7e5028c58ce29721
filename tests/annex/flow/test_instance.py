"""The shell around the counters: errors end runs, threads meet nowhere, nothing is left behind."""

import asyncio
import random
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor as Threads

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.errors import GraphError, NotReadyError
from jmars.flow import AsyncioExecutor, GraphBuilder, GraphPool, GraphProcessor, InlineExecutor, ThreadPoolExecutor
from tests.annex.flow.graphs import Calls, counters, graph_of
from tests.annex.flow.steps import Tokens, in_every_order


def lattice(n):
    """x[i, j] = x[i-1, j] + x[i, j-1], where they are; x[0, 0] is an input."""
    builder = GraphBuilder("lattice")
    builder.input("0,0")
    for i in range(n):
        for j in range(n):
            before = [f"{i - 1},{j}"] * (i > 0) + [f"{i},{j - 1}"] * (j > 0)
            if before:
                builder.function(lambda *values: sum(values), before, f"{i},{j}", name=f"v{i},{j}")
    return builder.finish()


class Later:
    """An executor that runs what it was given when told, in any order."""

    def __init__(self):
        self.waiting = []

    def submit(self, work, vertex):
        self.waiting.append((work, vertex))

    def run(self, rng):
        while self.waiting:
            work, vertex = self.waiting.pop(rng.randrange(len(self.waiting)))
            work(vertex)


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_order_of_execution_gives_the_same(rng):
    graph, later = lattice(5).build(), Later()
    closure = graph.run("4,4", given={"0,0": 1}, executor=later)
    assert not closure.finished
    later.run(rng)
    assert closure.result(0) == 70 and closure.flushed  # 8 choose 4


def test_threads_that_finish_together_lose_nothing_and_do_nothing_twice():
    """Many small runs with the interpreter switching threads as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    calls = Counter()
    builder = GraphBuilder()
    width = 24
    builder.input("x")
    for k in range(width):
        builder.function(lambda x, k=k: calls.update([k]) or x + k, ["x"], f"a{k}", name=f"a{k}")
        builder.function(lambda a: a % 2, [f"a{k}"], f"odd{k}", name=f"odd{k}")
        builder.function(lambda a: -a, [f"a{k}"], f"b{k}", name=f"b{k}")
        builder.select(f"c{k}", f"odd{k}", f"a{k}", f"b{k}")
    builder.function(lambda *values: sum(values), [f"c{k}" for k in range(width)], "total")
    pool = GraphPool(builder.finish(), 3)
    fresh = counters(builder.build())
    try:
        with ThreadPoolExecutor(6) as threads, Threads(4) as clients:

            def client(_):
                for x in range(40):
                    with pool.lent() as graph:
                        values = [x + k for k in range(width)]
                        expected = sum(v if v % 2 else -v for v in values)
                        assert graph.run("total", given={"x": x}, executor=threads).result(60) == expected

            list(clients.map(client, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert set(calls.values()) == {4 * 40}
    for _ in range(pool.built):
        assert counters(pool.acquire()) == fresh


def drawn_graph(rng, n):
    """Functions of earlier data, choices, and functions that read on a condition; and a plain evaluation."""
    builder, names, steps = GraphBuilder(), ["x"], []
    builder.input("x")
    for k in range(n):
        kind, sources = rng.choice(["function", "select", "on"]), tuple(rng.choice(names) for _ in range(3))
        if kind == "function":
            builder.function(lambda *v, k=k: (sum(v) * 7 + k) % 11, sources, f"d{k}", f"v{k}")
        elif kind == "select":
            builder.select(f"d{k}", *sources)
        else:
            vertex = builder.function(lambda v, k=k: (-1 if v is None else v) + k, sources[:1], f"d{k}", f"v{k}")
            vertex.dependency(0).on(sources[1])
        names.append(f"d{k}")
        steps.append((kind, sources))

    def plain(x):
        values = {"x": x}
        for k, (kind, sources) in enumerate(steps):
            a, b, c = (values[source] for source in sources)
            found = {"function": (a + b + c) * 7 % 11, "select": b if a else c, "on": (a if b else -1) + k}
            values[f"d{k}"] = (found["function"] + k) % 11 if kind == "function" else found[kind]
        return values

    return builder.finish(), names, plain


def test_drawn_graphs_on_threads_give_the_values_of_a_plain_evaluation():
    rng, interval = random.Random(4), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(60):
                builder, names, plain = drawn_graph(rng, rng.randint(5, 50))
                graph = builder.build()
                for x in range(4):
                    targets = rng.sample(names, 3)
                    closure = graph.run(*targets, given={"x": x}, executor=threads)
                    assert closure.result(60) == tuple(plain(x)[name] for name in targets)
                    assert closure.wait(60)
                    graph.reset()
    finally:
        sys.setswitchinterval(interval)


def test_threads_that_leave_a_run_at_once_flush_it_once():
    """Every order of the steps by which two vertices end, of which one makes a third ready."""
    orders = 0

    def acts(steps):
        graph, later = graph_of((lambda: 1, [], "a"), (lambda: 2, [], "b"), (lambda b: b, ["b"], "c")), Later()
        closure = graph.run("a", "c", executor=later)
        closure._tokens, closure._ends = Tokens(closure._tokens, steps), Tokens(closure._ends, steps)
        told.clear()
        flush, closure._flush = closure._flush, lambda error: told.append(closure.finished) or flush(error)
        (work, a), (_, b) = later.waiting
        later.waiting.clear()

        def third():
            work(b)
            later.run(random.Random(0))

        return [lambda: work(a), third]

    told = []
    for _ in in_every_order(acts):
        assert told == [True]
        orders += 1
    assert orders > 10


@pytest.mark.parametrize("make", [lambda: None, InlineExecutor, lambda: ThreadPoolExecutor(2)])
def test_an_error_in_a_vertex_is_the_error_of_the_run(make):
    calls = Calls()
    graph = graph_of(
        (lambda: 1 / 0, [], "a"), (calls("b", lambda a: a), ["a"], "b"), (calls("c", lambda b: b), ["b"], "c")
    )
    closure = graph.run("c", executor=make())
    with pytest.raises(ZeroDivisionError):
        closure.result(60)
    assert closure.wait(60) and isinstance(closure.error, ZeroDivisionError) and calls == []
    graph.reset()
    with pytest.raises(ZeroDivisionError):
        graph.run("a").result()


def test_the_first_error_is_told_once_and_the_run_waits_for_the_rest():
    go, told = threading.Event(), []
    graph = graph_of((lambda: go.wait(60) and 1 / 0, [], "late"), (lambda: [][0], [], "early"))
    with ThreadPoolExecutor(2) as threads:
        closure = graph.run("late", "early", executor=threads)
        closure.on_finish(lambda c: told.append(type(c.error)))
        with pytest.raises(IndexError):
            closure.result(60)
        assert not closure.flushed and not closure.wait(0)
        go.set()
        assert closure.wait(60)
    assert told == [IndexError] and isinstance(closure.error, IndexError)


def test_a_refusing_executor_ends_the_run():
    graph = graph_of((lambda: 1, [], "a"), (lambda a: a, ["a"], "b"))
    threads = ThreadPoolExecutor(1)
    threads.close()
    closure = graph.run("b", executor=threads)
    with pytest.raises(RuntimeError, match="shutdown"):
        closure.result(60)
    assert closure.flushed


def test_an_executor_that_refuses_half_way_ends_the_run():
    class Tired(Later):
        def submit(self, work, vertex):
            if self.waiting == ["tired"]:
                raise RuntimeError("no more")
            super().submit(work, vertex)

    graph, tired = graph_of((lambda: 1, [], "a"), (lambda a: a, ["a"], "b")), Tired()
    closure = graph.run("b", executor=tired)
    ((work, vertex),) = tired.waiting
    tired.waiting = ["tired"]
    work(vertex)
    with pytest.raises(RuntimeError, match="no more"):
        closure.result(0)
    assert closure.flushed


def test_a_given_value_is_not_computed_nor_overwritten():
    calls = Calls()

    class Both(GraphProcessor):
        def process(self, vertex):
            calls.append("both")
            vertex.emit(1, "a")
            vertex.emit(2, "b")

    builder = GraphBuilder()
    builder.vertex(Both).emit("a").emit("b")
    builder.function(lambda a, b: (a, b), ["a", "b"], "c")
    graph = builder.finish().build()
    assert graph.run("c", given={"a": 10, "b": 20}).result() == (10, 20) and calls == []
    graph.reset()
    assert graph.run("c", given={"a": 10}).result() == (10, 2) and calls == ["both"]


def test_what_is_not_emitted_is_empty():
    class Silent(GraphProcessor):
        def process(self, vertex):
            pass

    builder = GraphBuilder()
    builder.vertex(Silent).emit("a")
    builder.function(lambda a: a is None, ["a"], "b")
    graph = builder.finish().build()
    assert graph.run("b").result() is True and graph.data("a").empty


def test_emitting_after_the_end_is_refused():
    kept = []

    class Keeps(GraphProcessor):
        def process(self, vertex):
            kept.append(vertex)

    builder = GraphBuilder()
    builder.vertex(Keeps).emit("a")
    graph = builder.finish().build()
    assert graph.run("a").result() is None
    with pytest.raises(GraphError, match="'Keeps' is not running"):
        kept[0].emit(1)


def test_a_reader_may_run_before_its_producer_returns():
    seen = threading.Event()

    class Early(GraphProcessor):
        def process(self, vertex):
            vertex.emit(1)
            assert seen.wait(60)

    builder = GraphBuilder()
    builder.vertex(Early).emit("a")
    builder.function(lambda a: seen.set() or a + 1, ["a"], "b")
    with ThreadPoolExecutor(2) as threads:
        assert builder.finish().build().run("b", executor=threads).result(60) == 2


def test_a_graph_may_run_within_a_vertex_of_another():
    inner = graph_of((lambda: 20, [], "x"), (lambda x: x + 1, ["x"], "y"))
    outer = graph_of((lambda: inner.run("y").result(60), [], "a"), (lambda a: a * 2, ["a"], "b"))
    assert outer.run("b").result() == 42


def test_several_producers_of_an_exclusive_data():
    class IfTrue(GraphProcessor):
        def process(self, vertex):
            if vertex.inputs[0]:
                vertex.emit("yes")

    class IfFalse(GraphProcessor):
        def process(self, vertex):
            if not vertex.inputs[0]:
                vertex.emit("no")

    builder = GraphBuilder()
    builder.input("flag")
    builder.exclusive("a")
    builder.vertex(IfTrue).emit("a").depend("flag")
    builder.vertex(IfFalse).emit("a").depend("flag")
    graph = builder.finish().build()
    for flag, answer in ((True, "yes"), (False, "no")):
        assert graph.run("a", given={"flag": flag}).result() == answer
        graph.reset()


def test_an_exclusive_data_emitted_twice_is_an_error_and_never_is_empty():
    def graph(value):
        builder = GraphBuilder()
        builder.exclusive("a")
        builder.function(lambda: value, [], "a")
        builder.function(lambda: value, [], "a")
        return builder.finish().build()

    closure = graph(1).run("a")
    assert closure.result() == 1 and "emitted before" in str(closure.late_error)  # the run had its result by then
    assert graph(None).run("a").result() is None


def test_unknown_names_are_told_before_the_run():
    graph = graph_of((lambda a: a, ["a"], "b"), inputs=["a"])
    for call in (lambda: graph.run("c"), lambda: graph.run("b", given={"c": 1}), lambda: graph.data("c")):
        with pytest.raises(GraphError, match="has no data 'c'; it has 'a', 'b'"):
            call()
    assert graph.run("b", given={"a": 1}).result() == 1  # and the instance is as good as new
    with pytest.raises(GraphError, match="has no vertex 'x'"):
        graph.vertex("x")


def test_why_not_ready_names_what_blocks():
    graph, later = graph_of((lambda: 1, [], "a"), (lambda a: a, ["a"], "b"), (lambda b: b, ["b"], "c")), Later()
    assert graph.why_not_ready("c") == "data 'c' was not asked for"
    closure = graph.run("c", executor=later)
    why = graph.why_not_ready("c")
    assert "'c' is made by vertex 'lambda_2', which waits for 'b'" in why
    assert "'a' is made by vertex 'lambda', which has all that it needs and has not ended" in why
    with pytest.raises(TimeoutError, match="'a' is made by vertex 'lambda'"):
        closure.result(0)
    later.run(random.Random(0))
    assert graph.why_not_ready("c") == "data 'c' is ready"


def test_a_condition_without_truth_ends_the_run():
    class Neither:
        def __bool__(self):
            raise ValueError("neither")

    builder = GraphBuilder()
    builder.input("x")
    builder.function(Neither, [], "flag")
    builder.select("y", "flag", "x", "x")
    closure = builder.finish().build().run("y", given={"x": 1})
    with pytest.raises(ValueError, match="neither"):
        closure.result(60)


def test_the_message_of_a_missing_input_leads_to_the_request():
    builder = GraphBuilder()
    builder.input("x", "flag")
    builder.select("y", "flag", "x", "x")
    builder.function(lambda y: y, ["y"], "z")
    with pytest.raises(
        NotReadyError, match=r"'flag' has no producer .* vertex 'select y' needs it for 'y', .* for 'z'"
    ):
        builder.finish().build().run("z", given={"x": 1}).result()


def test_coroutines_need_an_event_loop():
    async def one():
        await asyncio.sleep(0)
        return 1

    graph = graph_of((one, [], "a"), (lambda a: a + 1, ["a"], "b"))
    with pytest.raises(GraphError, match="'one' is an `async def`; run with an AsyncioExecutor"):
        graph.run("b").result()
    graph.reset()

    async def main():
        closure = graph.run("b", executor=AsyncioExecutor())
        with pytest.raises(GraphError, match="`await` the closure instead"):
            closure.result()
        return await closure

    assert asyncio.run(main()) == 2
