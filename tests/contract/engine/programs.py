"""Forty programs that have the same bits however their operands are run.

A program takes a module, `jmars.tensor` or NumPy, and a function that gives it an array in chunks, and returns its
results. `EXACT` are also bit-equal to NumPy; of the others jmars promises the same bits wherever they run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jmars.tensor as mt
from jmars.remote import spawn

Program = Callable[[Any, Callable[..., Any]], Any]  # module, array in chunks: a value or a tuple of values

EXACT: dict[str, Program] = {}
CHUNKED: dict[str, Program] = {}  # sums and products by chunk, random numbers, functions on the cluster only

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16", "G"]
OTHERS = ["M8[s]", "M8[ns]", "m8[ms]", "S4", "U3", ">i4", ">f8", [("a", "f8"), ("b", "U3"), ("c", "i2", (2,))]]


def exact(program: Program) -> Program:
    """A program with NumPy's bits."""
    EXACT[program.__name__] = program
    return program


def chunked(program: Program) -> Program:
    """A program whose bits depend on the chunks, or that NumPy cannot run."""
    CHUNKED[program.__name__] = program
    return program


def numbers(n: int, dtype: Any = "f8", seed: int = 1) -> Any:
    """Values of any dtype, of about 50 kinds."""
    drawn = np.random.default_rng(seed).integers(0, 50, n)
    kind = np.dtype(dtype)
    if kind.names:
        made = np.zeros(n, kind)
        made["a"], made["b"], made["c"] = drawn / 7, drawn.astype("U3"), drawn[:, None]
        return made
    return drawn.astype(kind)


def square(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((n, n))


# -- bits of NumPy


@exact
def dtypes_of_numbers(xp, cut):
    return tuple(abs(cut(numbers(500, dtype), 170)) + cut(numbers(500, dtype, 2), 170) for dtype in NUMBERS)


@exact
def dtypes_of_others(xp, cut):
    return tuple(xp.concatenate([cut(numbers(90, dtype), 40)[::3], cut(numbers(9, dtype), 4)]) for dtype in OTHERS)


@exact
def casts(xp, cut):
    x = cut(numbers(300, "f8") - 20.5, 110)
    return tuple(x.astype(dtype) for dtype in ("i1", "i4", "f2", "f4", "c8", "?", "g", ">f8", "U8"))


@exact
def text_and_times(xp, cut):
    days = cut(np.datetime64("2020-01-01") + numbers(100, "m8[D]"), 33)
    return days + np.timedelta64(3, "D"), days.max(), cut(numbers(60, "U5"), 25) == "7"


@exact
def structured(xp, cut):
    table = cut(numbers(200, OTHERS[-1]), 60)
    return table["a"] * 2, table["c"].sum(axis=1), table[table["a"] > 3]["b"]


@exact
def bits(xp, cut):
    x = cut(numbers(400, "u1"), 130)
    return x & 7, x ^ (x << 2), ~x, xp.packbits(x > 20), x * np.uint8(17), xp.left_shift(x, 3), xp.bitwise_or.reduce(x)


@exact
def empty_arrays(xp, cut):
    x = cut(np.empty((0, 5)), (1, 2))
    return x + 1, x.sum(axis=0), x.sum(), x.T, xp.concatenate([x, cut(np.ones((2, 5)), 2)])


@exact
def arrays_without_dimensions(xp, cut):
    x = cut(np.array(7, "i2"), 1)
    return x, x + 1, xp.stack([x, x * 2]), cut(np.array("text"), 1), cut(numbers(3), 2)[1]


@exact
def strides(xp, cut):
    x = cut(numbers(60 * 40).reshape(60, 40), (32, 17))
    return x[::-1, ::3], x.T[5:30:4, 7], x[None, 10:50, ..., None], xp.flip(x)[3:9]


@exact
def masks(xp, cut):
    x = cut(numbers(3000), 700)
    return x[x > 25], x[(x > 10) & (x < 12)], x[x < 0], xp.nonzero(x == 3)[0]


@exact
def picks(xp, cut):
    x, rows = cut(numbers(900).reshape(90, 10), (50, 6)), numbers(200, "i8", 3)
    return x[rows], xp.take(x, rows % 10, axis=1), x[rows, rows % 10], xp.where(x > 20, x, -1)


@exact
def sorts(xp, cut):
    x = cut(numbers(4000, "i8") * 37 % 1009, 900)
    return xp.sort(x), xp.argsort(x, kind="stable"), xp.unique(x), xp.partition(x, 5)[:5].max()


@exact
def percentiles(xp, cut):
    x = cut(np.random.default_rng(5).random(5000), 1200)
    return xp.percentile(x, [1, 50, 99]), xp.median(x), xp.quantile(x, 0.25)


@exact
def running_sums(xp, cut):
    x = cut(numbers(2000, "i4"), 450)
    return xp.cumsum(x), xp.cumprod(cut(numbers(30, "u8"), 7)), xp.diff(x, 2), xp.cumsum(x.reshape(40, 50), axis=0)


@exact
def reductions(xp, cut):
    x = cut(numbers(2400, "i4").reshape(60, 40), (35, 17))
    return x.sum(), x.max(axis=0), x.argmin(axis=1), x.any(), (x > 3).all(axis=1), xp.ptp(x), x.prod(dtype="u8")


@exact
def shapes(xp, cut):
    x = cut(numbers(2400).reshape(4, 60, 10), (3, 35, 6))
    return x.reshape(240, 10), xp.moveaxis(x, 0, 2), x.swapaxes(0, 1).ravel(), xp.pad(x[0], 2, mode="edge")


@exact
def joins(xp, cut):
    x, y = cut(numbers(600).reshape(30, 20), 16), cut(numbers(600, seed=4).reshape(30, 20), 12)
    return xp.concatenate([x, y], axis=1), xp.stack([x, y]), xp.tile(x, (2, 3)), xp.repeat(y, 2, axis=0), xp.roll(x, 5)


@exact
def elementwise(xp, cut):
    x = cut(numbers(1500, "f4") - 25, 400)
    with np.errstate(all="ignore"):
        return xp.sqrt(x), xp.floor_divide(x, 3), x % 4, xp.hypot(x, 2), xp.sign(x), 1 / x, xp.maximum(x, 0), x**2


@exact
def histograms(xp, cut):
    x = cut(numbers(3000, "i8"), 800)
    return xp.bincount(x), xp.histogram(x, 10, (0, 50))[0], xp.digitize(x, [10, 20, 30]), xp.searchsorted(xp.sort(x), 9)


@exact
def masked_arrays(xp, cut):
    x = xp.ma.masked_greater(cut(numbers(700, "i8"), 200), 30)
    return x * 2, x.sum(), x.filled(-1), x.max(), x.count()


@exact
def a_loop_with_looks(xp, cut):
    x, rounds = cut(numbers(400), 150), 0
    while float(x.max()) < 400:
        x, rounds = x * 1.5, rounds + 1
    return x, rounds


@exact
def a_look_that_chooses(xp, cut):
    x = cut(numbers(300, "i8"), 90)
    return x * 2 if int(x[7]) % 2 else x + 1, [int(value) for value in x[:5]]


@exact
def results_that_share_inputs(xp, cut):
    x = cut(numbers(1000, "i8"), 300)
    y = x * 3 - 1
    return y, y.max(), y - y.min(), x, y[y > 40], y


# -- bits of these chunks


@chunked
def sums_of_floats(xp, cut):
    x = cut(np.random.default_rng(0).random((300, 70)), (90, 33))
    return x.sum(), x.mean(axis=0), x.std(), (x - x.mean(axis=0)).var(axis=1), xp.average(x, weights=x), xp.nansum(x)


@chunked
def products(xp, cut):
    a, b = cut(square(120, 1), (50, 33)), cut(square(120, 2), (44, 60))
    return a @ b, xp.dot(a[0], b), xp.einsum("ij,kj->ik", a, b), xp.tensordot(a, b, 1), xp.outer(a[0], b[1])


@chunked
def transforms(xp, cut):
    x = cut(np.random.default_rng(3).random((64, 60)), (20, 25))
    return xp.fft.fft(x), xp.fft.rfft2(x), xp.fft.ifft(x[0]), xp.fft.fftshift(x)


@chunked
def decompositions(xp, cut):
    a = cut(np.random.default_rng(4).random((200, 12)), (60, 12))
    return xp.linalg.svd(a, full_matrices=False)[1], xp.linalg.qr(a)[1], xp.linalg.norm(a)


@chunked
def equations(xp, cut):
    a = cut(square(60, 5) + 60 * np.eye(60), 25)
    return xp.linalg.solve(a, cut(numbers(60), 25)), xp.linalg.inv(a), xp.linalg.cholesky(a @ a.T), xp.linalg.det(a)


@chunked
def rechunks(xp, cut):
    x = cut(np.random.default_rng(6).random((120, 90)), (30, 90)).rechunk((120, 20))
    return x.sum(axis=0), x.rechunk(17).max(axis=1), x.rechunk((50, 45))


@chunked
def random_numbers(xp, cut):
    rng = mt.random.default_rng(7)
    same = [rng.random(700, chunk_size=200), rng.normal(size=(30, 20), chunk_size=9), rng.integers(0, 9, 50)]
    return *same, rng.permutation(40), rng.choice(100, 30), rng.poisson(3.0, 100)


@chunked
def random_numbers_of_old(xp, cut):
    rng = mt.random.RandomState(3)
    return rng.rand(200, chunk_size=60), rng.randint(0, 9, 100), rng.randn(5, 6)


@chunked
def neighbours(xp, cut):
    x = cut(np.random.default_rng(8).random(900), 250)
    return (
        mt.map_overlap(lambda block: (block + np.roll(block, 1) + np.roll(block, -1)) / 3, x, 1, "periodic"),
        np.lib.stride_tricks.sliding_window_view(x, 5).max(axis=1),
    )


@chunked
def blocks(xp, cut):
    x = cut(numbers(500, "i4"), 130)
    whole = mt.map_blocks(lambda block: np.sort(block)[::-1] * 2, x, dtype="i4")
    return whole, whole.sum(), mt.map_blocks(lambda a, b: a - b, x, whole, dtype="i4")


@chunked
def functions_along_an_axis(xp, cut):
    x = cut(numbers(600).reshape(30, 20), (11, 7))
    return xp.apply_along_axis(lambda row: row.max() - row.min(), 1, x), xp.apply_over_axes(np.sum, x, [0])


@chunked
def loops_on_the_cluster(xp, cut):
    x = cut(numbers(400), 120)
    grown = mt.while_loop(lambda v: v.max() < 1000, lambda v: v * 2 + 1, x)
    return grown, mt.cond(x.sum() > 5, x * 2, x - 1), grown.sum()


@chunked
def spawned(xp, cut):
    x = cut(numbers(100, "i8"), 30)
    first = spawn(lambda array, scale: {"sum": int(array.sum()) * scale}, (x, 3))
    pair = spawn(divmod, (17, 5), n_outputs=2)
    return first, spawn(lambda a, b, c: [a["sum"], b, c], (first, pair[0], pair[1]))


@chunked
def polynomials(xp, cut):
    x = cut(np.linspace(-1, 1, 800), 300)
    return xp.polyval([1.5, -2, 0.25, 3], x), xp.interp(x, [-1, 0, 1], [3, 1, 2]), xp.convolve(x[:90], x[:7])


@chunked
def statistics(xp, cut):
    x = cut(square(50, 9), 18)
    return xp.cov(x), xp.corrcoef(x), xp.trace(x), xp.gradient(x[0]), xp.trapezoid(x, axis=0)


@chunked
def wide_and_deep(xp, cut):
    """A chain and trees of 25 chunks."""
    x = cut(np.random.default_rng(10).random(3000), 120)
    for turn in range(6):
        x = xp.sin(x) + x.mean() if turn % 2 else xp.roll(x, 31) * 1.01
    return x, x.max()


@chunked
def stages_in_a_row(xp, cut):
    x = cut(numbers(2000, "i8"), 450)
    some = x[x > 10]
    odd = some[some % 2 == 1]
    return xp.sort(odd), xp.unique(odd * 3), odd.sum(), odd.mean()
