"""The dataflow engine: tries of document 002."""

from __future__ import annotations

import gc
import threading
from typing import Any

from jmars.errors import GraphError, NotReadyError
from jmars.flow import GraphBuilder, GraphPool, GraphProcessor, ThreadPoolExecutor
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
