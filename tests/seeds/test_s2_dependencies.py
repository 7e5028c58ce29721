"""Seed 002, "Dependency Counting": what makes a vertex run exactly once, and only if it is needed."""

import itertools
import random
import sys
import threading
from collections import Counter

import pytest

from jmars.annex.flow.instance import Activation
from jmars.annex.flow.vertex import Edge, Structure
from jmars.flow import GraphBuilder, ThreadPoolExecutor
from tests.annex.flow.graphs import Calls


def reader(condition: bool) -> Structure:
    """Vertex 0 reads data 1, under the condition of data 2 or none, and emits data 0; vertices 1 and 2 emit those."""
    edge = Edge(0, 1, 2 if condition else -1)
    return Structure(("out", "target", "condition"), ("reader", "makes", "decides"), (edge,), ((0,), (1,), (2,)))


STEPS = {
    "A": lambda run: run.request([0]),
    "T": lambda run: run.release(1, "value"),
    "C": lambda run: run.release(2, True),
    "F": lambda run: run.release(2, False),
}


def play(condition, order):
    """Values of the counter after each step, and the step at which the reader was told of."""
    run, values, fired = Activation(reader(condition)), [], []
    for place, step in enumerate(order):
        if 0 in STEPS[step](run):
            fired.append(place)
        values.append(run.count[0] if condition else run.waiting[0])
    return run, values, fired


@pytest.mark.long
def test_s2_11_100_000_random_interleavings_fire_exactly_once():
    rng = random.Random(0)
    fired = Counter()
    for _ in range(100_000):
        condition = rng.random() < 0.7
        order = ["A", "T", rng.choice("CF")] if condition else ["A", "T"]
        rng.shuffle(order)
        fired[len(play(condition, order)[2])] += 1
    assert fired == {1: 100_000}


def test_s2_11_threads_that_race_run_every_vertex_once():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # switch threads as often as can be
    runs = Counter()
    builder = GraphBuilder()
    builder.input("x")
    width, depth = 20, 12
    for d in range(depth):
        for w in range(width):
            sources = ["x"] if d == 0 else [f"{d - 1},{w}", f"{d - 1},{(w * 7 + d) % width}"]
            builder.function(
                lambda *values, key=(d, w): runs.update([key]) or sum(values) % 1000, sources, f"{d},{w}", f"v{d},{w}"
            )
    graph = builder.finish().build()
    last = [f"{depth - 1},{w}" for w in range(width)]
    try:
        expected = graph.run(*last, given={"x": 3}).result()
        with ThreadPoolExecutor(8) as threads:
            for _ in range(20):
                graph.reset()
                closure = graph.run(*last, given={"x": 3}, executor=threads)
                assert closure.result(60) == expected and closure.wait(60)
    finally:
        sys.setswitchinterval(interval)
    assert set(runs.values()) == {21} and len(runs) == width * depth


def test_s2_11_no_thread_waits_for_changes_of_counters_by_another():
    """The truth of a condition is asked while its counters change: here this takes until readers elsewhere have run."""
    ran = threading.Event()

    class Slow:
        def __bool__(self):
            return ran.wait(60)

    builder = GraphBuilder()
    builder.function(Slow, [], "flag")
    builder.function(lambda: 1, [], "a")
    builder.function(lambda a: a + 1, ["a"], "b")
    builder.function(lambda b: ran.set() or b * 10, ["b"], "c")
    builder.select("y", "flag", "c", "a")
    with ThreadPoolExecutor(2) as threads:
        assert builder.finish().build().run("y", "c", executor=threads).result(60) == (20, 20)
    assert ran.is_set()


def test_s2_12_the_two_orders_of_an_unconditional_dependency():
    assert play(False, "AT")[1:] == ([1, 0], [1])
    assert play(False, "TA")[1:] == ([-1, 0], [1])


@pytest.mark.parametrize(
    ("order", "values", "fires"),
    [
        ("ATC", [2, 1, 0], 2),
        ("ACT", [2, 1, 0], 2),
        ("TAC", [-1, 1, 0], 2),
        ("TCA", [-1, -2, 0], 2),
        ("CAT", [-1, 1, 0], 2),
        ("CTA", [-1, -2, 0], 2),
        ("ATF", [2, 1, -1], 2),
        ("AFT", [2, 0, -1], 1),
        ("TAF", [-1, 1, -1], 2),
        ("TFA", [-1, -3, -1], 2),
        ("FAT", [-2, 0, -1], 1),
        ("FTA", [-2, -3, -1], 2),
        ("AF", [2, 0], 1),
        ("FA", [-2, 0], 1),
    ],
)
def test_s2_13_every_order_of_a_conditional_dependency(order, values, fires):
    run, counter, fired = play(True, order)
    assert counter == values and fired == [fires]  # exactly once, by the step that makes it ready or not needed
    assert run.taken(0) == ("C" in order)  # established right
    assert run.value(0) == ("value" if "C" in order else None)
    assert counter[-1] in (0, -1)  # never -3 at rest


def test_s2_13_the_table_above_is_complete():
    orders = {"".join(o) for steps in ("ATC", "ATF", "AF") for o in itertools.permutations(steps)}
    (mark,) = test_s2_13_every_order_of_a_conditional_dependency.pytestmark
    assert {order for order, *_ in mark.args[1]} == orders


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("threads", [0, 4])
def test_s2_14_an_untaken_branch_is_not_computed(flag, threads):
    calls = Calls()
    builder = GraphBuilder()
    builder.input("x")
    builder.function(calls("flag", lambda x: x > 0), ["x"], "flag")
    builder.function(calls("far a", lambda x: x + 1), ["x"], "far a")
    builder.function(calls("a", lambda a: a * 2), ["far a"], "a")
    builder.function(calls("far b", lambda x: x - 1), ["x"], "far b")
    builder.function(calls("b", lambda b: b * 2), ["far b"], "b")
    builder.select("y", "flag", "a", "b")
    graph = builder.finish().build()
    x = 5 if flag else -5
    if threads:
        with ThreadPoolExecutor(threads) as executor:
            assert graph.run("y", given={"x": x}, executor=executor).result(60) == (12 if flag else -12)
    else:
        assert graph.run("y", given={"x": x}).result() == (12 if flag else -12)
    assert calls == (["flag", "far a", "a"] if flag else ["flag", "far b", "b"])
    assert not graph.data("b" if flag else "a").active


def test_s2_14_a_false_condition_hides_a_target_that_is_there():
    builder = GraphBuilder()
    builder.input("x", "flag")
    builder.function(lambda x: ("saw", x), ["x"], "y").dependency(0).on("flag")
    graph = builder.finish().build()
    assert graph.run("y", given={"x": 1, "flag": False}).result() == ("saw", None)
