"""Chains of any operands, those with arguments of their own among them: fused or not, NumPy's values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.optimize import compile_graph
from tests.tensor import engine

ROWS, COLUMNS = 9, 6


def written(x):
    x = x.copy()
    x[2:5, ::2] = -3
    return x


def masked(x):
    x = x.copy()
    x[x > 20] = 20
    return x


def shifted(x):
    x = x.copy()
    x[1:] = x[:-1].copy()
    return x


STEPS = {  # each gives an array of the same shape
    "add": lambda np, x: x + 1.5,
    "slice": lambda np, x: np.concatenate([x[3:], x[:3]]),
    "reverse": lambda np, x: x[::-1, ::-1],
    "transpose": lambda np, x: x.T.reshape(x.shape),
    "reshape": lambda np, x: x.reshape(2, -1).reshape(x.shape),
    "write": lambda np, x: written(x),
    "mask": lambda np, x: masked(x),
    "shift": lambda np, x: shifted(x),
    "take": lambda np, x: x[[4, 1, 1, 8, 0, 3, 2, 2, 5]],
    "roll": lambda np, x: np.roll(x, 2, 1),
    "cumsum": lambda np, x: np.cumsum(x, 0),
    "product": lambda np, x: x @ (np.eye(COLUMNS, k=1) + 1),
    "row": lambda np, x: x - x[4],
    "mean": lambda np, x: x - x.mean(0, keepdims=True),
    "double": lambda np, x: x * x,
    "pad": lambda np, x: np.pad(x[:, 1:-1], ((0, 0), (1, 1))),
}
CHUNK_SIZES = [2, 4, 7, (5, 6), (2, 6)]
SOURCES = ["range", "random", "file", "array", "ones"]


def source(name, path, chunk_size):
    """(a tensor, its value), at most 54 in size."""
    shape = (ROWS, COLUMNS)
    match name:
        case "range":
            return mt.arange(54.0, chunk_size=11).reshape(shape), np.arange(54.0).reshape(shape)
        case "random":
            return mt.random.default_rng(3).random(shape, chunk_size=chunk_size), np.random.default_rng(3).random(shape)
        case "file":
            np.save(path / "a.npy", np.linspace(0, 9, 54).reshape(shape))
            return mt.load(path / "a.npy", chunk_size=chunk_size), np.load(path / "a.npy")
        case "array":
            array = np.random.default_rng(0).integers(-9, 30, shape).astype(float)
            return mt.asarray(array, chunk_size=chunk_size), array
    return mt.ones(shape, chunk_size=chunk_size), np.ones(shape)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("fuse", [None, "chain", "region", "color"])
@given(data=st.data())
@settings(max_examples=40)
def test_chains_of_operands(folder, fuse, data):
    chunk_size = data.draw(st.sampled_from(CHUNK_SIZES))
    x, value = source(data.draw(st.sampled_from(SOURCES)), folder, chunk_size)
    results = []
    for name in data.draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6)):
        x, value = STEPS[name](mt, x), STEPS[name](np, value)
        if data.draw(st.integers(0, 3)) == 0:
            results.append((x, value))
    results.append((x.sum(axis=1), value.sum(axis=1)) if data.draw(st.booleans()) else (x, value))
    with pytest.MonkeyPatch.context() as patch:
        config = {"fuse_enabled": fuse is not None} | ({"fuse": fuse} if fuse else {})
        patch.setattr(engine, "tiled", lambda graph: compile_graph(graph, config).after)
        compiled = engine.OneByOne()
        compiled.execute([tensor.data for tensor, _ in results])
        for tensor, expected in results:
            got = compiled.fetch(tensor.data)
            assert got.dtype == expected.dtype and got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-6 * max(1.0, float(np.abs(expected).max())))
