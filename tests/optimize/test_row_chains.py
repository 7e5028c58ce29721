"""Transforms of rows in compiled graphs: one pass over the chunks, and NumPy's values."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.kernels.fusing import lifetimes
from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, {}).after)


def values(*tensors):
    one_by_one = engine.OneByOne()
    one_by_one.execute([tensor.data for tensor in tensors])
    return [one_by_one.fetch(tensor.data) for tensor in tensors]


def chains(tensor):
    """Chains of all programs, by their number in each region."""
    graph = compile_graph(TensorGraph.of([tensor.data]), {}).after
    found = [one for program in graph.programs for one, _ in lifetimes(program.steps, len(program.inputs))]
    return [len(one.chains) for one in found if one.chains]


def test_a_spectrum_is_one_pass_over_its_chunks():
    signal, window = np.random.default_rng(0).random(2**18), np.hanning(256)
    x, w = mt.array(signal, chunk_size=2**17), mt.array(window)
    (found,) = values((abs(mt.fft.rfft(x.reshape(-1, 256) * w, axis=1)) ** 2).mean(axis=0))
    expected = (abs(np.fft.rfft(signal.reshape(-1, 256) * window, axis=1)) ** 2).mean(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    drawn = mt.random.rand(2**18, chunk_size=2**17).reshape(-1, 256) * mt.random.rand(256)
    assert chains((abs(mt.fft.rfft(drawn, axis=1)) ** 2).mean(axis=0)) == [1]


def test_two_chains_of_a_region_keep_their_own_elements():
    x, y = np.random.default_rng(0).random((2, 900, 77))
    a, b = (mt.array(one, chunk_size=900) for one in (x, y))
    (found,) = values(mt.fft.rfft(a * 2 + 1, axis=1) * mt.fft.rfft(b - 1, axis=1))
    expected = np.fft.rfft(x * 2 + 1, axis=1) * np.fft.rfft(y - 1, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    a, b = (mt.random.rand(900, 77, chunk_size=900) for _ in range(2))
    assert chains(mt.fft.rfft(a, axis=1) * mt.fft.rfft(b, axis=1)) == [2]


@pytest.mark.parametrize("window", [False, True])
def test_generators_stay_with_the_expression_that_reads_them(window):
    def drawn(seed):
        return mt.random.default_rng(seed).random((1000, 256), chunk_size=(500, 256))

    y = drawn(5) * (drawn(6) if window else 2.0) + 1
    (given,) = values(y)
    power, spectrum = values(abs(mt.fft.rfft(y, axis=1)).sum(axis=0), mt.fft.rfft(y, axis=1))
    np.testing.assert_allclose(power, abs(np.fft.rfft(given, axis=1)).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(spectrum, np.fft.rfft(given, axis=1), rtol=1e-12, atol=1e-12)
    (alone,) = values(abs(mt.fft.rfft(y, axis=1)).sum(axis=0))
    np.testing.assert_allclose(alone, power, rtol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft", "ihfft"])
def test_all_transforms_of_rows(name):
    x = np.random.default_rng(1).random((500, 100))
    a = mt.array(x, chunk_size=(250, 100))
    (found,) = values(abs(getattr(mt.fft, name)(a * 3 - 1, axis=1)).sum(axis=1))
    np.testing.assert_allclose(found, abs(getattr(np.fft, name)(x * 3 - 1, axis=1)).sum(axis=1), rtol=1e-12)


def test_transforms_of_columns_are_whole():
    assert chains(mt.fft.fft(mt.ones((200, 200), chunk_size=(200, 100)) * 2, axis=0)) == []
