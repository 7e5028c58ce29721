"""Ten array workloads as users write them, each between a third of a second and three on two executors.

`WORKLOADS` maps a name to a function that gives a lazy tensor of few elements; `scale` makes all arrays that much
longer. Used by predictions.py (predicted beside measured) and recorded.py (graphs for planners).
Source: the shapes of Dask's array benchmarks (coiled/benchmarks, tests/benchmarks/test_array.py) and of seed 000.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import jmars.tensor as mt

__all__ = ["WORKLOADS"]

Tensor = mt.Tensor


def sqrt_sum(scale: float = 1.0) -> Tensor:
    """One fused pass over random numbers, reduced by a tree."""
    x = mt.random.default_rng(1).random(int(400e6 * scale), chunk_size=2_000_000)
    return mt.sqrt(x * 2 + 1).sum()


def anomaly_mean(scale: float = 1.0) -> Tensor:
    """Everything waits for a mean, then is read once more: all of it is held."""
    x = mt.random.default_rng(2).random((int(8000 * scale), 20_000), chunk_size=(200, 5000))
    return (abs(x - x.mean(axis=0))).mean(axis=1).max()


def quadratic_mean(scale: float = 1.0) -> Tensor:
    """Two arrays that are used twice each."""
    shape = (int(300e6 * scale),)
    u = mt.random.default_rng(3).random(shape, chunk_size=1_000_000)
    v = mt.random.default_rng(4).random(shape, chunk_size=1_000_000)
    return mt.stack([(u**2).mean(), (v**2).mean(), (u * v).mean()]).sum()


def transpose_sum(scale: float = 1.0) -> Tensor:
    """Each chunk meets its mirror image."""
    n = int(14_400 * scale**0.5) // 800 * 800
    z = mt.random.default_rng(5).random((n, n), chunk_size=800)
    return (z + z.T).sum(axis=0).max()


def matmul(scale: float = 1.0) -> Tensor:
    """A product of square matrices in blocks."""
    n = int(4800 * scale ** (1 / 3)) // 600 * 600
    a = mt.random.default_rng(6).random((n, n), chunk_size=600)
    b = mt.random.default_rng(7).random((n, n), chunk_size=600)
    return (a @ b).sum()


def tall_tree(scale: float = 1.0) -> Tensor:
    """Many small chunks, so that it is dispatching that takes the time."""
    x = mt.random.default_rng(8).random(int(120_000 * scale) * 500, chunk_size=500)
    return x.sum()


def cumulative(scale: float = 1.0) -> Tensor:
    """A sum carried from chunk to chunk."""
    x = mt.random.default_rng(9).random((int(16_000 * scale), 8000), chunk_size=(250, 2000))
    return mt.cumsum(x, axis=0).max()


def rechunked(scale: float = 1.0) -> Tensor:
    """Cut in rows, then in blocks of other sizes."""
    n = int(12_800 * scale**0.5) // 3200 * 3200
    x = mt.random.default_rng(10).random((n, n), chunk_size=(200, n))
    return mt.sqrt(x.rechunk((800, 3200))).sum(axis=0).max()


def vorticity(scale: float = 1.0) -> Tensor:
    """Differences of neighbours, across the borders of chunks."""
    shape, cut = (int(10_000 * scale), 6000), (500, 1000)
    u = mt.random.default_rng(11).random(shape, chunk_size=cut)
    v = mt.random.default_rng(12).random(shape, chunk_size=cut)
    dudy, dvdx = u[1:, :-1] - u[:-1, :-1], v[:-1, 1:] - v[:-1, :-1]
    return abs(dvdx - dudy).max()


def _work_of(block: np.ndarray, block_id: tuple[int, ...]) -> np.ndarray:
    for _ in range(1 + block_id[0] % 8):  # some blocks take eight times as long as others
        block = np.sin(block)
    return block


def unequal_blocks(scale: float = 1.0) -> Tensor:
    """A function of the user's, that takes longer on some blocks."""
    x = mt.random.default_rng(13).random(int(80e6 * scale), chunk_size=250_000)
    return mt.map_blocks(_work_of, x, dtype="f8").sum()


WORKLOADS: dict[str, Callable[[float], Tensor]] = {
    "sqrt sum": sqrt_sum,
    "anomaly mean": anomaly_mean,
    "quadratic mean": quadratic_mean,
    "transpose sum": transpose_sum,
    "matmul": matmul,
    "tall tree": tall_tree,
    "cumulative sum": cumulative,
    "rechunk": rechunked,
    "vorticity": vorticity,
    "unequal blocks": unequal_blocks,
}
