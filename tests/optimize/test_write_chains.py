"""Writes in a loop become few operands, with NumPy's values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize import compile_graph, passes
from jmars.optimize.passes import join_writes
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine as engines
from tests.tensor.cut import basic_indices, same


@pytest.fixture
def compiled(monkeypatch):
    """Computes compiled graphs in this process; chains of two to three writes are joined."""
    monkeypatch.setattr(engines, "tiled", lambda graph: compile_graph(graph, {}).after)
    monkeypatch.setattr(passes, "SHORTEST", 2)
    monkeypatch.setattr(passes, "MAX_WRITES", 3)
    before = current_engine()
    set_engine(engines.OneByOne())
    yield
    set_engine(before)


@given(st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_joined_writes_have_numpys_values(compiled, data):
    a = np.arange(30).reshape(6, 5)
    x = mt.asarray(a, chunk_size=data.draw(st.integers(1, 6)))
    a, seen = a.copy(), []
    for number in range(data.draw(st.integers(1, 8))):
        index = data.draw(basic_indices(a.shape))
        value = -number
        if data.draw(st.booleans()):
            shape = a[index].shape
            value = 100 * number + np.arange(np.prod(shape, dtype=int)).reshape(shape)
            value = value[:1] if shape and shape[0] and data.draw(st.booleans()) else value
        x[index] = value if isinstance(value, int) or data.draw(st.booleans()) else mt.asarray(value, chunk_size=2)
        a[index] = value
        if data.draw(st.integers(0, 3)) == 0:
            seen.append((x + 0, a + 0))
    same(x, a)
    for ours, theirs in seen:
        same(ours, theirs)


def test_operands_and_copies_do_not_grow_with_the_writes_before():
    x = mt.zeros((1000, 10), chunk_size=(250, 10))
    for k in range(1000):
        x[k] = float(k)
    graph = compile_graph(TensorGraph.of([x.data]), {}).after
    assert graph.n <= 12  # four chunks, in a few steps


def test_a_result_between_two_writes_is_kept():
    x = mt.zeros(30, chunk_size=10)
    for k in range(20):
        x[k] = k
        if k == 9:
            between = mt.array(x)
    graph = join_writes(TensorGraph.of([between.data, x.data]))
    assert [len(one.writes) for one in graph.operands if hasattr(one, "writes")] == [10, 10]
