import re
import threading
from typing import Any

import numpy as np

from jmars.scheduler.graph_actor import Phases


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
        assert re.fullmatch(r"it is begun \(in __call__, line 1\d of test_phases.py\), for .*s", phases.text())
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
    try:
        assert phases.text().startswith("tensors are cut into chunks (in __call__, line 1")
    finally:
        stuck.go_on.set()
        thread.join()


def test_what_is_raised_is_returned():
    error = Phases().run(lambda: 1 / 0)
    assert isinstance(error, ZeroDivisionError)
