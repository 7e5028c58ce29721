import ast
import linecache
import pickle
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jmars
from jmars.scheduler.graph_actor import _PHASES, Phases
from jmars.scheduler.prepare import graph_built
from jmars.scheduler.stages import compile_submission


class Stuck:
    """Unpickled, or tiled, it waits until told to go on."""

    def __init__(self) -> None:
        self.here, self.go_on = threading.Event(), threading.Event()

    def __call__(self, *_: Any) -> None:
        self.here.set()
        self.go_on.wait(60)


def test_code_of_a_user_is_named_by_its_line():
    phases, stuck = Phases(), Stuck()
    thread = threading.Thread(target=phases.run, args=(stuck,))
    thread.start()
    stuck.here.wait(60)
    try:
        assert re.fullmatch(r"it is begun \(in __call__, line 2\d of test_phases.py\), for .*s", phases.text())
    finally:
        stuck.go_on.set()
        thread.join()
    assert phases.text() == ""


def test_the_phase_is_the_innermost_that_is_known():
    import jmars.tensor as mt
    from jmars.optimize import tile
    from jmars.tensor.tensor_graph import TensorGraph

    phases, stuck = Phases(), Stuck()
    graph = TensorGraph.of([(mt.ones(10, chunk_size=5) + np.float64(1)).data], set())
    thread = threading.Thread(target=phases.run, args=(tile, graph, stuck))
    thread.start()
    stuck.here.wait(60)
    linecache.clearcache()
    try:
        assert phases.text().startswith("tensors are cut into chunks (in __call__, line 2")
        assert not linecache.cache, "a control process would keep the text of two MiB of source"
    finally:
        stuck.go_on.set()
        thread.join()


STUCK = Stuck()


class Graph:
    """Its unpickling waits."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _wait, ()


class Compiled:
    """A compiled graph that waits when it is looked at."""

    before = property(lambda self: _wait())


def _wait() -> None:
    STUCK()


@pytest.mark.parametrize(
    ("call", "phase"),
    [
        (
            (compile_submission, None, "", SimpleNamespace(graph=pickle.dumps(Graph()), settings={}), None),
            "the graph is read",
        ),
        ((graph_built, Compiled(), None, []), "its picture is drawn"),
    ],
)
def test_functions_of_one_file_may_be_phases_of_their_own(call, phase, monkeypatch):
    monkeypatch.setitem(globals(), "STUCK", stuck := Stuck())
    phases = Phases()
    thread = threading.Thread(target=phases.run, args=call)
    thread.start()
    stuck.here.wait(60)
    try:
        assert phases.text().startswith(f"{phase} (in ")
    finally:
        stuck.go_on.set()
        thread.join()


def test_every_place_that_the_table_names_is_there():
    for place in _PHASES:
        file, _, function = place.partition(":")
        nodes = ast.walk(ast.parse((Path(jmars.__file__).parent / file).read_text()))
        assert not function or function in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}, place


def test_what_is_raised_is_returned():
    error = Phases().run(lambda: 1 / 0)
    assert isinstance(error, ZeroDivisionError)
