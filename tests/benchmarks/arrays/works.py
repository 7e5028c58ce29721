"""The array works that engines race in: each written once, with the names that the engine gives `np`.

A work is two functions of an engine's `Tools`: `inputs` gives its arrays, `result` what is asked of them, which is
small. What an engine has no function for is written by hand in engines.py, or it does not run and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = Any
WINDOW = 1024  # samples that a spectrum is taken of


class Tools(Protocol):
    """What a work asks of an engine."""

    name: str
    np: Any  # the engine's NumPy

    def random(self, seed: int, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Array:
        """Doubles from 0 to 1."""

    def rechunk(self, x: Array, chunks: tuple[int, ...]) -> Array:
        """The same array cut differently."""

    def sort(self, x: Array) -> Array:
        """A line in order."""

    def map_overlap(self, function: Callable[[Any], Any], x: Array, depth: int) -> Array:
        """A function of blocks with borders, nothing beyond the array's edges."""

    def cut(self, chunks: tuple[int, ...]) -> dict[str, Any]:
        """The argument of functions that create arrays in chunks."""

    def cholesky(self, x: Array) -> Array:
        """The lower triangular factor."""

    def given(self, x: np.ndarray, chunks: tuple[int, ...]) -> Array:
        """An array of NumPy's as one of the engine's."""


class NoSuchFunctionError(Exception):
    """The engine has no function for this."""


@dataclass(frozen=True)
class Work:
    """One race."""

    name: str
    inputs: Callable[[Tools, float], Sequence[Array]]  # of a scale: 1 is half a gigabyte of doubles
    result: Callable[..., Array]  # of the tools and the inputs
    note: str = ""  # where an engine does less than the others
    tolerance: float = 0.01  # between two engines' values, relative: each draws other numbers
    plain: bool = False  # whether the inputs are arrays of NumPy, which are there for every engine
    whole: bool = False  # whether the result is a large array, whose sum is the value


def _side(scale: float, pieces: int = 8) -> int:
    """The side of a square of `scale` times 2^26 elements, a multiple of `pieces`."""
    return max(1, round(8192 * scale**0.5 / pieces)) * pieces


def _matrices(t: Tools, scale: float) -> Sequence[Array]:
    n = _side(scale)
    return t.random(1, (n, n), (n // 4, n // 4)), t.random(2, (n, n), (n // 4, n // 4))


def _matmul(t: Tools, a: Array, b: Array) -> Array:
    return (a @ b).sum() / a.shape[0] ** 3


def _rows(t: Tools, scale: float) -> Sequence[Array]:
    n = _side(scale, 16)
    return (t.random(1, (n, n), (n // 16, n)),)


def _columns(t: Tools, x: Array) -> Array:
    y = t.rechunk(x, (x.shape[0], x.shape[1] // 16))
    return y.max(axis=0).sum() / x.shape[1]


def _line(t: Tools, scale: float) -> Sequence[Array]:
    n = int(2**25 * scale) // 16
    return (t.random(1, (16 * n,), (n,)),)


def _sort(t: Tools, x: Array) -> Array:
    s = t.sort(x)
    return (s * s).sum() / x.size


def _percentile(t: Tools, x: Array) -> Array:
    return t.np.percentile(x, [5, 50, 95])


def _tall(t: Tools, scale: float) -> Sequence[Array]:
    n = int(2**20 * scale) // 16
    return (t.random(1, (16 * n, 64), (n, 64)),)


def _svd(t: Tools, x: Array) -> Array:
    u, s, v = t.np.linalg.svd(x) if t.name in ("dask", "distributed", "xorbits") else t.np.linalg.svd(x, False)
    return (u * u).sum() * (v * v).sum() * s[0] / x.shape[0] ** 0.5


def _months(t: Tools, scale: float) -> Sequence[Array]:
    n = _side(scale)
    return (t.random(1, (480, n, n // 480 or 1), (24, n // 4, n // 480 or 1)),)


def _anomaly(t: Tools, x: Array) -> Array:
    """How far months are from the mean of that month of all years, on the average."""
    years = x.reshape((40, 12, *x.shape[1:]))
    return abs(years - years.mean(axis=0)).mean()


def _winds(t: Tools, scale: float) -> Sequence[Array]:
    n = max(1, round(32 * scale)) * 2
    return tuple(t.random(seed, (n, 512, 1024), (n // 16 or 1, 256, 1024)) for seed in (1, 2))


def _vorticity(t: Tools, u: Array, v: Array) -> Array:
    """Central differences of two fields, the mean over time, then one number."""
    curl = (v[:, 1:-1, 2:] - v[:, 1:-1, :-2]) / 2 - (u[:, 2:, 1:-1] - u[:, :-2, 1:-1]) / 2
    return (curl.mean(axis=0) ** 2).mean() * u.shape[0]


def _field(t: Tools, scale: float) -> Sequence[Array]:
    n = _side(scale)
    return (t.random(1, (n, n), (n // 8, n // 8)),)


def smoothed(block: np.ndarray) -> np.ndarray:
    """Each element with its four neighbours, where it has all of them."""
    out = block.copy()
    out[1:-1, 1:-1] += block[:-2, 1:-1] + block[2:, 1:-1] + block[1:-1, :-2] + block[1:-1, 2:]
    return out


def _overlap(t: Tools, x: Array) -> Array:
    y = t.map_overlap(smoothed, x, 1)
    return (y * y).sum() / x.size


def _samples(t: Tools, scale: float) -> Sequence[Array]:
    n = max(1, int(2**26 * scale) // (16 * WINDOW)) * WINDOW
    return (t.random(1, (16 * n,), (n,)),)


def _spectrum(t: Tools, x: Array) -> Array:
    """Welch's power spectrum of a signal: the mean over windows of 1024 samples, then one number."""
    windows = x.reshape((-1, WINDOW)) * np.hanning(WINDOW)
    power = abs(t.np.fft.rfft(windows, axis=1)) ** 2
    return power.mean(axis=0).sum() / WINDOW**2


def _columns_of_a_table(t: Tools, scale: float) -> Sequence[Array]:
    n = int(2**25 * scale) // 16
    return tuple(t.random(seed, (16 * n,), (n,)) for seed in (1, 2))


def _selection(t: Tools, x: Array, y: Array) -> Array:
    """Mean and spread of a column, of the tenth of all rows in which another column is large."""
    chosen = y[x > 0.9]
    return t.np.stack([chosen.mean(), chosen.std()])


def _positive(t: Tools, scale: float) -> Sequence[Array]:
    n = max(4, round(6000 * scale**0.5 / 4) * 4)
    x = t.random(1, (n, n), (n // 4, n // 4))
    return (t.rechunk((x + x.T) / 2 + n * t.np.eye(n, **t.cut((n // 4, n // 4))), (n // 4, n // 4)),)


def _cholesky(t: Tools, a: Array) -> Array:
    factor = t.cholesky(a)
    return (factor * factor).sum() / a.shape[0] ** 2


def _columns_100(t: Tools, scale: float) -> Sequence[Array]:
    n = max(100, int(10**6 * scale) // 16)
    return (t.random(1, (16 * n, 100), (n, 100)),)


def _qr(t: Tools, x: Array) -> Array:
    q, r = t.np.linalg.qr(x)
    return (q * q).sum() * (r * r).sum() / x.size


def _square(t: Tools, scale: float) -> Sequence[Array]:
    n = max(2, round(3000 * scale**0.5 / 2) * 2)
    return (
        t.rechunk(t.random(1, (n, n), (n // 2, n // 2)) + n * t.np.eye(n, **t.cut((n // 2, n // 2))), (n // 2, n // 2)),
    )


def _inverse(t: Tools, x: Array) -> Array:
    y = t.np.linalg.inv(x)
    return abs(y).sum()


def _filtered(t: Tools, x: Array) -> Array:
    return x[x > 0.5].mean()


def _whole_numbers(t: Tools, scale: float) -> Sequence[Array]:
    n = int(2**25 * scale) // 16
    return ((t.random(1, (16 * n,), (n,)) * 100_000).astype("i8"),)


def _unique(t: Tools, x: Array) -> Array:
    return t.np.unique(x).sum()


def _of_numpy(t: Tools, scale: float) -> Sequence[Array]:
    return (np.random.default_rng(1).random(int(2**26 * scale) // 16 * 16),)


def _scatter(t: Tools, x: Array) -> Array:
    return t.given(x, (x.size // 16,)).sum() / x.size


def _fetch(t: Tools, x: Array) -> Array:
    return x


WORKS = [
    Work("matmul", _matrices, _matmul),
    Work("rechunk", _rows, _columns),
    Work("sort", _line, _sort),
    Work("percentile", _line, _percentile, "dask.array's percentile is an estimate, ours is exact", 0.05),
    Work("svd", _tall, _svd),
    Work("anomaly", _months, _anomaly),
    Work("vorticity", _winds, _vorticity, tolerance=0.05),
    Work("overlap", _field, _overlap),
    Work("spectrum", _samples, _spectrum),
    Work("selection", _columns_of_a_table, _selection),
]

FURTHER = [  # raced by races.py alone
    Work("cholesky", _positive, _cholesky),
    Work("qr", _columns_100, _qr),
    Work("inv", _square, _inverse),
    Work("filtered", _samples, _filtered),
    Work("unique", _whole_numbers, _unique),
    Work("scatter", _of_numpy, _scatter, "dask's threads read NumPy's array where it lies", plain=True),
    Work("fetch", _samples, _fetch, whole=True),
]
