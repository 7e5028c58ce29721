"""Cholesky factors tile by tile: NumPy's factors, both triangles, uneven tiles, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.ops import decompositions, matrix_operands
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.engine import tiled


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of small matrices, cut again into leaves of a few rows and strips of two."""
    monkeypatch.setattr(decompositions, "SMALLEST", 1)
    monkeypatch.setattr(matrix_operands, "SMALLEST_TILE", 4)
    for name, rows in (("FACTOR_LEAF", 3), ("SOLVE_LEAF", 2), ("STRIP", 2)):
        monkeypatch.setattr(matrix_operands, name, rows)


def positive(n: int, dtype: str) -> np.ndarray:
    draw = np.random.default_rng(n)
    x = draw.normal(size=(n, n))
    x = (x + 1j * draw.normal(size=(n, n)) if dtype[0] == "c" else x).astype(dtype)
    return (x @ x.conj().T + n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("chunks", [-1, 5, ((3, 1, 9, 4), (17,)), ((17,), (6, 11))], ids=str)
def test_the_factor_is_numpys(small: None, chunks, dtype: str, upper: bool) -> None:
    a = positive(17, dtype)
    found = np.linalg.cholesky(mt.asarray(a).rechunk(chunks), upper=upper)
    expected = np.linalg.cholesky(a, upper=upper)
    assert len(found.chunks[0]) > 1 and found.chunks[0] == found.chunks[1] and found.dtype == expected.dtype
    value = found.fetch()
    np.testing.assert_allclose(value, expected, rtol=0, atol=(1e-5 if dtype in ("f4", "c8") else 1e-13) * abs(a).max())
    assert not (np.tril(value, -1) if upper else np.triu(value, 1)).any()


@pytest.mark.parametrize("upper", [False, True])
def test_only_one_triangle_is_read(small: None, upper: bool) -> None:
    a = positive(12, "f8")
    given = np.triu(a) if upper else np.tril(a)
    found = np.linalg.cholesky(mt.asarray(given, chunk_size=4), upper=upper).fetch()
    np.testing.assert_allclose(found, np.linalg.cholesky(a, upper=upper), atol=1e-13)


def test_a_matrix_that_is_not_positive_definite_is_numpys_error(small: None) -> None:
    a = positive(12, "f8")
    a[7, 7] = -1
    with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite"):
        np.linalg.cholesky(mt.asarray(a, chunk_size=4)).fetch()


def test_large_matrices_have_tiles_and_small_ones_do_not() -> None:
    large, little = mt.ones((1100, 1100), chunk_size=-1), mt.ones((1000, 1000), chunk_size=500)
    cut = np.linalg.cholesky(large).chunks
    assert cut[0] == cut[1] and len(cut[0]) == 5 and max(cut[0]) <= matrix_operands.SMALLEST_TILE
    assert np.linalg.cholesky(little).chunks == ((1000,),) * 2
    graph = tiled(TensorGraph.of([np.linalg.cholesky(mt.ones((4096, 4096), chunk_size=1024)).data]))
    tiles = 4
    names = [graph.programs[row].name for row in graph.program if row >= 0]
    # ten tiles of the factor, and a product for each tile right of each column
    assert names.count("cholesky") == 10 + sum(k * (k + 1) // 2 for k in range(tiles))


@pytest.mark.parametrize("n", [1, 5, 8, 11, 17, 30])
@pytest.mark.parametrize("upper", [False, True])
def test_a_tile_reads_nothing_that_it_did_not_write(small: None, n: int, upper: bool) -> None:
    a = positive(n, "f8")
    out = np.full((n, n), 0x7FF0000000000001).view("f8")  # signalling: whatever computes with one is invalid
    with np.errstate(all="raise"):
        matrix_operands._factor(out, [np.triu(a) if upper else np.tril(a)], (upper,), None)
    np.testing.assert_allclose(out, np.linalg.cholesky(a, upper=upper), atol=1e-12)
