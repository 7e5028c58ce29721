"""Cells beside NumPy: python -m tests.benchmarks cells [--check] [NAME ...].

Each work is the text of a cell. It runs as a `%%jmars` cell on a cluster of two workers and as a plain cell, in one
process, in interleaved rounds, after a first run of both that is not counted; arrays that a work reads are made by a
cell before, and are there. Printed: seconds of both, and the median of the ratios of the rounds. A goal is a ratio, or
seconds. The tutorial is many small cells, whose milliseconds beyond NumPy are printed. `--check` fails when a goal is
missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np

from jmars.config import config
from tests.benchmarks.machine import this_machine
from tests.notebook.shells import new_shell


@dataclass(frozen=True)
class Work:
    """A cell, with the cell that makes its arrays."""

    name: str
    before: str
    text: str
    result: str  # expression of a value to compare
    ratio: float | None = None  # goal: times NumPy's time
    beyond: float = 0.0  # seconds that may be added
    seconds: float | None = None  # goal
    flags: str = "-w 2"  # of the magic


TIGHT = "-w 2 --memory 512MiB"

WORKS = [
    Work(
        "descent",
        """rng = np.random.default_rng(0)
X = rng.normal(size=(200_000, 8))
y = X @ np.arange(8.0) + rng.normal(size=200_000)""",
        """w, tol = np.zeros(8), 1e-12
for turn in range(200):
    g = X.T @ (X @ w - y) / len(y)
    if np.linalg.norm(g) < tol:
        break
    w -= 0.1 * g""",
        "w",
        ratio=3.0,
    ),
    Work("any", "big = np.arange(8_000.0).reshape(2, 4000) % 90", "found = any(big[0] > 100)", "found", ratio=2.0),
    Work(
        "average",
        "x = np.sin(np.arange(1000.0))",
        "s = np.zeros(1000)\ns[0] = x[0]\nfor i in range(1, 1000):\n    s[i] = 0.1 * x[i] + 0.9 * s[i - 1]",
        "s",
        seconds=0.5,
    ),
    Work(
        "kmeans",
        "rng = np.random.default_rng(1)\nX = rng.normal(size=(200_000, 8))",
        """C = X[:5].copy()
for turn in range(15):
    distances = ((X[:, None, :] - C[None]) ** 2).sum(axis=-1)
    nearest = distances.argmin(axis=1)
    new = np.stack([X[nearest == k].mean(axis=0) for k in range(5)])
    if np.allclose(new, C):
        break
    C = new""",
        "C",
        ratio=1.2,
    ),
    *(
        Work(
            f"stencil{n}",
            f"start = np.random.default_rng(2).random(({n}, {n}))",
            """u = start.copy()
for step in range(60):
    u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4""",
            "u[::97, ::97]",
            ratio=goal,
        )
        for n, goal in ((1000, 1.2), (4000, 0.8))
    ),
    Work(
        "heat",  # several chunks: the slices cross their borders
        "start = np.random.default_rng(2).random((3000, 3000))",
        """u, dt = start.copy(), 0.1
for step in range(20):
    u[1:-1, 1:-1] += dt * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])""",
        "u[::97, ::97]",
        ratio=1.2,
        flags=TIGHT,
    ),
    Work(
        "escape",  # a loop that carries two large arrays and looks at one of them
        "start = np.linspace(-2, 1, 420)[None] + 1j * np.linspace(-1.5, 1.5, 400)[:, None]",
        """z, alive = np.zeros_like(start), np.ones(start.shape, bool)
for turn in range(20):
    z[alive] = z[alive] ** 2 + start[alive]
    alive &= abs(z) <= 2
    if not alive.any():
        break""",
        "alive",
        seconds=1.5,
    ),
    Work(
        "frames",
        "x = (np.random.default_rng(3).random((200, 512, 512)) * 255).astype(np.uint8)",
        "m, s = x.mean(axis=0), x.std(axis=0)\nhot = (x > m + 1.5 * s).sum(axis=(1, 2))",
        "hot",
        ratio=2.0,
        beyond=0.2,
        flags=TIGHT,
    ),
    Work(
        "rfft",  # a line that is too long for a process
        "x = np.random.default_rng(3).random(20_000_000)",
        "p = abs(np.fft.rfft(x))",
        "p[::977]",
        ratio=2.0,
        beyond=0.2,
        flags=TIGHT,
    ),
    Work(
        "sort",  # of 640 MB: a part of them goes to disk
        "x = np.random.default_rng(3).random(80_000_000)",
        "y = np.sort(x)",
        "y[::9797]",
        ratio=2.0,
        beyond=0.2,
        flags=TIGHT,
    ),
    Work(
        "linalg",
        "X = np.random.default_rng(3).random((2000, 2000))",
        """b = np.linalg.solve(X, np.ones((2000, 20)))
q, r = np.linalg.qr(X[:, :500])
s = np.linalg.svd(X[:, :200], full_matrices=False)[1]
w = np.linalg.eigvalsh(X[:800, :800] + X[:800, :800].T)""",
        "w",
        ratio=2.0,
        beyond=0.2,
        flags=TIGHT,
    ),
    Work("palette", "x = np.arange(1_000_000) % 2", "m = np.array([10, 20])[x].sum()", "m", seconds=0.3),
    Work("mask", "x = np.random.default_rng(3).random(10_000_000)", "m = x[x > 0.9].sum()", "m", ratio=1.2),
    Work("unique", "x = np.random.default_rng(3).integers(0, 1000, 10_000_000)", "m = np.unique(x)", "m", ratio=1.2),
    Work("cumsum", "x = np.random.default_rng(3).random(10_000_000)", "m = np.cumsum(x)", "m[::9999]", ratio=1.2),
]

TUTORIAL = """a = np.arange(15).reshape(3, 5)
a.shape, a.ndim, a.dtype.name, a.size
b = np.array([6, 7, 8])
c = np.array([[1, 2], [3, 4]], dtype=complex)
np.zeros((3, 4))
np.ones((2, 3, 4), dtype=np.int16)
np.arange(10, 30, 5)
np.linspace(0, 2, 9)
x = np.linspace(0, 2 * np.pi, 100); f = np.sin(x)
print(np.arange(6))
print(np.arange(24).reshape(2, 3, 4))
a = np.array([20, 30, 40, 50]); b = np.arange(4); c = a - b
b ** 2
10 * np.sin(a)
a < 35
A = np.array([[1, 1], [0, 1]]); B = np.array([[2, 0], [3, 4]]); A * B
A @ B
A.dot(B)
rg = np.random.default_rng(1); a = np.ones((2, 3), dtype=int); b = rg.random((2, 3)); a *= 3
b += a
a = rg.random((2, 3)); a.sum()
a.min(), a.max()
b = np.arange(12).reshape(3, 4); b.sum(axis=0)
b.min(axis=1)
b.cumsum(axis=1)
B = np.arange(3); np.exp(B)
np.sqrt(B)
np.add(B, np.array([2., -1., 4.]))
a = np.arange(10) ** 3; a[2]
a[2:5]
a[:6:2] = 1000; a
a[::-1]
for i in a[:4]: print(i ** (1 / 3.))
b = np.fromfunction(lambda x, y: 10 * x + y, (5, 4), dtype=int); b[2, 3]
b[0:5, 1]
b[:, 1]
b[1:3, :]
b[-1]
for row in b: print(row)
a = np.floor(10 * rg.random((3, 4))); a.ravel()
a.reshape(6, 2)
a.T.shape
a.resize((2, 6), refcheck=False); a
np.vstack((a, a))
np.hstack((a, a))
np.hsplit(a, 3)
d = a.copy(); d[0, 0] = 9999; a
i = np.array([1, 1, 3]); np.arange(12)[i]
a = np.arange(12).reshape(3, 4); a[a > 4] = 0; a
np.ix_(np.array([1, 2]), np.array([3, 4]))
a = np.array([[1, 2], [3, 4], [5, 6]]); a.max(), a.min(), a.sum()
a.max(axis=0)
a[0:2, 0]
np.array([[1, 2, 3], [4, 5, 6]]).T
np.flip(np.array([1, 2, 3, 4]))
x = np.arange(24).reshape(2, 3, 4); x.transpose(2, 0, 1).shape
x[..., 0]
x[0, ...]
x[:, np.newaxis].shape
x.swapaxes(0, 2).shape
np.concatenate((np.array([[1, 2], [3, 4]]), np.array([[5, 6]])), axis=0)
np.sort(np.array([2, 1, 5, 3, 7, 4, 6, 8]))
np.argsort(np.array([2, 1, 5, 3]))
np.unique(np.array([11, 11, 12, 13, 14, 15, 16, 17, 12, 13, 11]), return_counts=True)
a = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]); a[a < 5]
a[(a > 2) & (a < 11)]
a[a % 2 == 0]
np.nonzero(a < 5)
np.any(a > 11), np.all(a > 0)
np.where(a > 6, a, -a)
a.mean(), a.std(), a.var()
np.median(a), np.percentile(a, 25)
np.cumsum(a), np.diff(a)
a.argmax(), a.argmin(axis=1)
a.clip(3, 9)
np.round(a / 7, 2)
a.astype(np.float32).dtype
np.dot(a, a.T)
np.inner(a[0], a[1]), np.outer(a[0], a[1])
np.linalg.norm(a)
np.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]]))
np.linalg.inv(np.array([[1.0, 2.0], [3.0, 4.0]]))
np.linalg.solve(np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([9.0, 8.0]))
np.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
np.eye(3), np.identity(2)
np.full((2, 2), 7), np.zeros_like(a)
np.repeat(np.arange(3), 2), np.tile(np.arange(3), 2)
np.split(np.arange(9), 3)
np.stack([np.arange(3), np.arange(3)]), np.column_stack([np.arange(3), np.arange(3)])
np.meshgrid(np.arange(3), np.arange(2))
np.histogram(np.array([1, 2, 2, 3, 3, 3]), bins=3)
np.bincount(np.array([0, 1, 1, 3]))
np.searchsorted(np.array([1, 3, 5]), [2, 4])
np.polyfit(np.arange(5.0), np.arange(5.0) ** 2, 2)
np.interp(2.5, [1, 2, 3], [3, 2, 0])
np.einsum("ij,ij->i", a, a)
np.fft.fft(np.arange(4.0))
np.isnan(np.array([1.0, np.nan])), np.nansum(np.array([1.0, np.nan]))
np.allclose(np.array([1.0]), np.array([1.0 + 1e-9]))
prices = np.array([10.0, 20.0, 30.0]); errors = prices - prices.mean(); (errors ** 2).sum() / errors.size"""


def run(shell: object, text: str) -> float:
    """Seconds of a cell; raises its error."""
    start = time.perf_counter()
    shell.run_cell(text, silent=False).raise_error()  # type: ignore[attr-defined]
    return time.perf_counter() - start


def compared(shell: object, work: Work, rounds: int) -> tuple[float, float, float]:
    """Seconds of NumPy, seconds of jmars, ratio: medians."""
    names = shell.user_ns  # type: ignore[attr-defined]
    cells = {"numpy": "", "jmars": f"%%jmars {work.flags}\n"}
    kept: dict[str, dict[str, object]] = {}
    run(shell, work.before)  # by NumPy for both, whose random numbers are others
    made = [name for name in ("X", "y", "x", "big", "start") if f"{name} =" in work.before]
    kept["numpy"] = {name: names[name] for name in made}
    run(shell, cells["jmars"] + "\n".join(f"{name} = {name} + 0" for name in made))
    kept["jmars"] = {name: names[name] for name in made}
    times: dict[str, list[float]] = {kind: [] for kind in cells}
    values: dict[str, object] = {}
    for number in range(rounds + 1):
        for kind in [*cells][:: 1 if number % 2 else -1]:
            names.update(kept[kind])
            took = run(shell, cells[kind] + work.text)
            values[kind] = np.asarray(eval(work.result, names))
            if number:
                times[kind].append(took)
    np.testing.assert_allclose(values["jmars"], values["numpy"], rtol=1e-9, atol=1e-12)
    ratios = [ours / theirs for ours, theirs in zip(times["jmars"], times["numpy"], strict=True)]
    return statistics.median(times["numpy"]), statistics.median(times["jmars"]), statistics.median(ratios)


def tutorial(shell: object, rounds: int) -> list[float]:
    """Seconds of each cell of the tutorial beyond NumPy's, median of the rounds."""
    cells = TUTORIAL.split("\n")
    beyond: list[list[float]] = [[] for _ in cells]
    for number in range(rounds + 1):
        times = {}
        for magic in ("", "%%jmars\n"):
            times[magic] = [run(shell, magic + cell) for cell in cells]
        if number:
            for some, plain, ours in zip(beyond, times[""], times["%%jmars\n"], strict=True):
                some.append(ours - plain)
    return [statistics.median(some) for some in beyond]


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="works; none for all, and the tutorial")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    missed = False
    with new_shell() as shell, config.using(display="none"):
        run(shell, "import numpy as np\n%load_ext jmars")
        run(shell, "%%jmars -w 2\nnp.ones(3).sum()")
        for work in WORKS:
            if given.names and work.name not in given.names:
                continue
            theirs, ours, ratio = compared(shell, work, given.rounds)
            ok = ratio <= work.ratio + work.beyond / theirs if work.ratio is not None else ours <= work.seconds
            goal = f"{work.ratio} times + {work.beyond} s" if work.ratio is not None else f"{work.seconds} s"
            missed |= not ok
            told = f"{work.name:12} NumPy {theirs:8.4f} s, jmars {ours:8.4f} s, {ratio:7.2f} times"
            print(f"{told}; goal {goal}: {'met' if ok else 'MISSED'}", flush=True)
        if not given.names or "tutorial" in given.names:
            beyond = tutorial(shell, given.rounds)
            middle, worst = statistics.median(beyond), max(beyond)
            slowest = TUTORIAL.split("\n")[beyond.index(worst)]
            ok = middle <= 0.015 and worst <= 0.06
            missed |= not ok
            told = f"{len(beyond)} cells, beyond NumPy: median {middle * 1e3:.1f} ms, worst {worst * 1e3:.1f} ms"
            print(f"tutorial     {told} ({slowest}); goal 15 and 60 ms: {'met' if ok else 'MISSED'}")
        run(shell, "%jmars stop")
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
