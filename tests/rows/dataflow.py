"""The dataflow engine: tries of document 002."""

from __future__ import annotations

import gc
import sys
import threading
import timeit
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from typing import Any

from jmars.errors import GraphError, NotReadyError
from jmars.flow import GraphBuilder, GraphPool, GraphProcessor, ThreadPoolExecutor
from tests.benchmarks.flow import Locked, cells
from tests.benchmarks.flow import builder as wavefront_graph
from tests.rows import fails, must, row


def flow() -> GraphBuilder:
    """c = a + b, d = c * 2, e = c - 1."""
    builder = GraphBuilder("three")
    builder.input("a", "b", type=int)
    builder.function(lambda a, b: a + b, ["a", "b"], "c")
    builder.function(lambda c: c * 2, ["c"], "d")
    builder.function(lambda c: c - 1, ["c"], "e")
    return builder


@row("S2.1")
def joined_by_names() -> str:
    must(flow().finish().build().run("d", "e", given={"a": 1, "b": 2}).result() == (6, 2), "value")
    return "(6, 2)"


@row("S2.2")
def one_producer() -> str:
    builder = flow()
    builder.function(lambda a: a, ["a"], "d")
    return fails(GraphError, builder.finish)[:60]


@row("S2.3")
def variadic() -> str:
    found = []
    for count in (1, 20):
        builder = GraphBuilder()
        names = [f"x{k}" for k in range(count)]
        builder.input(*names)
        builder.function(lambda *values: sum(values), names, "y")
        found.append(builder.finish().build().run("y", given=dict.fromkeys(names, 1)).result())
    must(found == [1, 20], found)
    return str(found)


@row("S2.4")
def frozen() -> str:
    builder = flow()
    built = builder.finish()
    graphs = [built.build() for _ in range(100)]
    must(graphs[7].run("d", given={"a": 1, "b": 1}).result() == 4, "value")
    return fails(GraphError, lambda: builder.function(abs, ["c"], "f"))[:60]


@row("S2.5")
def reset_and_reused() -> str:
    graph = flow().finish().build()
    for k in range(1000):
        must(graph.run("e", given={"a": k, "b": 1}).result() == k, k)
        graph.reset()
    return "1000 runs"


@row("S2.6")
def pool() -> str:
    made = GraphPool(flow().finish(), 2)
    found = []

    def use() -> None:
        for _ in range(50):
            with made.lent() as graph:
                found.append(graph.run("d", given={"a": 1, "b": 2}).result())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    must(found == [6] * 200, len(found))
    return "200 runs, 4 threads, 2 instances"


@row("S2.7")
def only_what_is_asked_for() -> str:
    ran = []
    builder = GraphBuilder()
    builder.input("x")
    for name in ("y", "z"):
        builder.function(lambda x, name=name: ran.append(name), ["x"], name)
    builder.finish().build().run("y", given={"x": 1}).result()
    must(ran == ["y"], ran)
    return str(ran)


@row("S2.8")
def in_parallel() -> str:
    barrier = threading.Barrier(4, timeout=20)
    builder = GraphBuilder()
    builder.input("x")
    for k in range(4):
        builder.function(lambda x: barrier.wait() >= 0, ["x"], f"y{k}")
    with ThreadPoolExecutor(4) as threads:
        graph = builder.finish().build()
        found = graph.run(*(f"y{k}" for k in range(4)), given={"x": 1}, executor=threads).result()
    must(found == (True,) * 4, found)
    return "4 at once"


@row("S2.9")
def outlives_the_builder() -> str:
    graph = flow().finish().build()
    gc.collect()
    must(graph.run("e", given={"a": 1, "b": 2}).result() == 2, "value")
    return "2, builder gone"


class Counts(GraphProcessor):
    """Emits how many runs it has seen."""

    def setup(self, vertex: Any) -> None:
        """Of an instance."""
        self.runs = 0

    def process(self, vertex: Any) -> None:
        """Of a run."""
        self.runs += 1
        vertex.emit(self.runs)


@row("S2.10")
def state_of_an_instance() -> str:
    builder = GraphBuilder()
    builder.vertex(Counts).emit("n")
    built, found = builder.finish(), []
    for graph, runs in ((built.build(), 3), (built.build(), 1)):
        for _ in range(runs):
            found.append(graph.run("n").result())
            graph.reset()
    must(found == [1, 2, 3, 1], found)
    return str(found)


@row("S2.11")
def threads_without_a_lock() -> str:
    ran: Counter[tuple[int, int]] = Counter()
    builder, width, depth = GraphBuilder(), 12, 10
    builder.input("x")
    for d in range(depth):
        for w in range(width):
            before = [f"{d - 1},{w}", f"{d - 1},{(w * 7 + d) % width}"] if d else ["x"]
            builder.function(lambda *v, key=(d, w): ran.update([key]) or sum(v) % 1000, before, f"{d},{w}")
    last, graph, found = [f"{depth - 1},{w}" for w in range(width)], builder.finish().build(), set()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as can be
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in range(20):
                closure = graph.run(*last, given={"x": 3}, executor=threads)
                found.add(closure.result(60))
                must(closure.wait(60), "not flushed")
                graph.reset()
    finally:
        sys.setswitchinterval(interval)
    must(len(found) == 1 and set(ran.values()) == {20} and len(ran) == width * depth, ran.most_common(3))
    return f"{width * depth} vertices once in each of 20 runs on 8 threads"


class Held:
    """An executor whose vertices run when they are asked to."""

    def __init__(self) -> None:
        self.ready: dict[int, Callable[[int], None]] = {}

    def submit(self, work: Callable[[int], None], vertex: int, /) -> None:
        """Keeps the vertex."""
        self.ready[vertex] = work


def played(order: str) -> tuple[int, Any, bool]:
    """Steps in an order: A asks, T gives the target, C or F the condition; what comes before A is given to the run.

    Returns the step after which the reader was ready, counted from 0, what it read, and whether the target was made.
    """
    builder, before, after = GraphBuilder(), *order.split("A")
    makes = {"T": ("target", "value"), "C": ("flag", True), "F": ("flag", False)}
    for step in "TCF" if set("CF") & set(order) else "T":
        name, value = makes[step]
        if step in before:
            builder.input(name)
        elif step in after or (step == "T" and "T" not in order):
            builder.function(lambda value=value: value, [], name, name=name)
    reader = builder.function(lambda target: ("read", target), {"target": "target"}, "out", name="reader")
    if set("CF") & set(order):
        reader.dependency("target").on("flag")
    graph, held = builder.finish().build(), Held()
    numbers = {name: k for k, name in enumerate(graph.structure.vertices)}
    wanted = ["out", *(makes[step][0] for step in after)]
    closure = graph.run(*wanted, given={makes[one][0]: makes[one][1] for one in before}, executor=held)
    fired = [len(before)] if numbers["reader"] in held.ready else []
    for place, step in enumerate(after, len(before) + 1):
        vertex = numbers[makes[step][0]]
        held.ready.pop(vertex)(vertex)
        if numbers["reader"] in held.ready and not fired:
            fired.append(place)
    must(len(fired) == 1, (order, "the reader is not ready"))
    held.ready.pop(numbers["reader"])(numbers["reader"])
    must(not held.ready, (order, held.ready))
    found = closure.result(60)
    return fired[0], (found[0] if len(wanted) > 1 else found)[1], graph.data("target").ready


@row("S2.12")
def two_orders() -> str:
    found = {order: played(order) for order in ("AT", "TA")}
    must(found == {"AT": (1, "value", True), "TA": (1, "value", True)}, found)
    return ", ".join(found)


@row("S2.13")
def orders_of_a_condition() -> str:
    orders = ["".join(one) for steps in ("ATC", "ATF", "AF") for one in permutations(steps)]
    for order in orders:
        place, value, made = played(order)
        known = 1 + max(order.index("A"), order.index(flag)) if (flag := "C" if "C" in order else "F") else 0
        expected = max(known, 1 + order.index("T")) if flag == "C" else known
        must((place, value) == (expected - 1, "value" if flag == "C" else None), (order, place, value))
        must(made == ("T" in order), (order, "an untaken target was made"))
    return f"{len(orders)} orders, each fires once at the step that decides"


@row("S2.17")
def less_than_a_lock() -> str:
    wavefront = cells(1000)
    finished, locked, last = wavefront_graph(wavefront), Locked(wavefront), wavefront[-1][0]
    pool = GraphPool(finished, 1)

    def pooled() -> None:
        with pool.lent() as graph:
            must(graph.run(last).result() == 1, "value")

    ways = {"pooled": pooled, "rebuilt": lambda: wavefront_graph(wavefront).build().run(last), "lock": locked.run}
    took = {name: min(timeit.repeat(way, number=1, repeat=9)) / len(wavefront) for name, way in ways.items()}
    must(took["pooled"] < took["rebuilt"] / 2 and took["pooled"] < 1.1 * took["lock"], took)
    return ", ".join(f"{name} {1e6 * seconds:.1f} µs" for name, seconds in took.items()) + " a vertex"


@row("S2.15")
def expressions() -> str:
    builder = GraphBuilder()
    builder.input(*"BCDE")
    builder.expression("B > C ? D + 4 : E * 5", "y")
    graph, found = builder.finish().build(), []
    for b in (1, 3):
        found.append(graph.run("y", given={"B": b, "C": 2, "D": 10, "E": 20}).result())
        graph.reset()
    must(found == [100, 14], found)
    return str(found)


@row("S2.14")
def lazy_branch() -> str:
    ran = []
    builder = GraphBuilder()
    builder.input("x", "flag")
    builder.function(lambda x: ran.append("a") or 1, ["x"], "a")
    vertex = builder.function(lambda a: a, {"a": "a"}, "y")
    vertex.dependency("a").on("flag")
    builder.finish().build().run("y", given={"x": 1, "flag": False}).result()
    must(not ran, ran)
    return "not run"


@row("S2.16")
def errors_end_a_run() -> str:
    builder = flow()
    builder.function(lambda c: 1 // 0, ["c"], "f")
    graph = builder.finish().build()
    fails(ZeroDivisionError, lambda: graph.run("f", given={"a": 1, "b": 2}).result())
    graph.reset()
    return fails((NotReadyError, GraphError), lambda: graph.run("d", given={"a": 1}).result())[:60]
