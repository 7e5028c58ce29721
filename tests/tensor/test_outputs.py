"""Functions with several results: a graph computes the results that it reads."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import same


def largest(*tensors):
    """Elements of the largest tensor that the graph of `tensors` computes from its leaves."""
    graph = TensorGraph.of([x.data for x in tensors])
    return max((math.prod(meta.shape) for meta, read in zip(graph.metas, graph.inputs, strict=True) if read), default=0)


def labels(*tensors):
    return [operand.label for operand in TensorGraph.of([x.data for x in tensors]).operands]


@pytest.mark.parametrize("shape", [(3000, 4), (4, 3000)])
@pytest.mark.parametrize("cut", [None, 700])
def test_singular_values_alone_need_no_vectors(shape, cut):
    a = np.random.default_rng(0).normal(size=shape)
    x = mt.asarray(a, chunk_size=cut)
    for full in (True, False):
        _, s, _ = np.linalg.svd(x, full_matrices=full)
        assert largest(s) <= a.size
        same(s, np.linalg.svd(a)[1], rtol=1e-9)
    _, s, short = np.linalg.svd(x) if shape[0] > shape[1] else np.linalg.svd(x.T)
    assert largest(s, short) < 3 * a.size  # without the square matrix of the other vectors


@pytest.mark.parametrize("shape", [(40, 4), (4, 40), (40, 40)])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("cut", [None, 11])
def test_vectors_that_are_read_one_by_one_fit_each_other(shape, full, cut):
    a = np.random.default_rng(1).normal(size=shape)
    u, s, vh = (part.fetch() for part in np.linalg.svd(mt.asarray(a, chunk_size=cut), full_matrices=full))
    k = min(shape)
    np.testing.assert_allclose((u[:, :k] * s) @ vh[:k], a, atol=1e-12)
    q, r = (part.fetch() for part in np.linalg.qr(mt.asarray(a, chunk_size=cut)))
    np.testing.assert_allclose(q @ r, a, atol=1e-12)


def test_r_alone_has_the_bits_of_r_beside_q(engine):
    a = np.random.default_rng(2).normal(size=(9000, 64))  # blocks in tiles
    x = mt.asarray(a, chunk_size=(4500, 64))
    q, r = np.linalg.qr(x)
    alone = r.fetch()
    assert largest(r) < a.size
    engine.execute([q.data, r.data])
    np.testing.assert_array_equal(alone, r.fetch())


def test_eigenvalues_alone_need_no_vectors():
    a = np.random.default_rng(3).normal(size=(50, 50))
    w, v = np.linalg.eigh(mt.asarray(a + a.T))
    assert largest(w) < 100
    same(w, np.linalg.eigvalsh(a + a.T), rtol=1e-9)
    same(np.abs(v), np.abs(np.linalg.eigh(a + a.T)[1]), rtol=1e-6)


def test_unique_finds_the_fields_that_are_read():
    a = np.random.default_rng(4).integers(0, 9, 100)
    x = mt.asarray(a, chunk_size=30)
    found = np.unique(x, True, True, True)
    expected = np.unique(a, True, True, True)

    def fields(*read):
        operands = TensorGraph.of([found[k].data for k in read]).operands
        return [operand.fields for operand in operands if hasattr(operand, "equal_nan")]

    assert fields(0) == fields(2) == fields(0, 2) == [(True, False, False)]
    assert fields(1) == fields(0, 1) == [(True, True, False)]
    assert fields(3) == [(True, False, True)]
    assert fields(0, 1, 2, 3) == [(True, True, True)]
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs)
    same((found[0] * found[3]).sum(), a.sum())


def test_outputs_of_outputs_are_chosen_too():
    a = np.random.default_rng(5).normal(size=(20, 20))
    _, s, vh = np.linalg.svd(mt.asarray(a))
    t = np.linalg.svd(vh)[1]
    assert labels(t).count("output") == 1  # the result itself
    same(t, np.ones(20), rtol=1e-9)
    same(np.linalg.svd(vh * s)[1], np.linalg.svd(np.linalg.svd(a)[2] * np.linalg.svd(a)[1])[1], rtol=1e-9)
