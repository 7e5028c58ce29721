"""Nine graphs that array programs give, made by formula, to compare plans on.

Chunks are 100 MB. A pass over bytes runs at 2 GB/s a core, a product of matrices at 40 GFLOP/s; reading a chunk in
takes as long as two passes. Source: PLANNING 3.1.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from jmars.graph import Dag
from jmars.plan.plan_graph import PlanGraph

CHUNK = 100e6
RATE = 2e9  # bytes a second
GEMM = 40e9  # operations a second
SMALL = 8e3


class Sketch:
    """A graph as it grows."""

    def __init__(self) -> None:
        self.cost: list[float] = []
        self.nbytes: list[float] = []
        self.edges: list[tuple[int, int]] = []

    def add(self, cost: float, nbytes: float, inputs: Iterable[int] = ()) -> int:
        self.cost.append(cost)
        self.nbytes.append(nbytes)
        self.edges += [(i, len(self.cost) - 1) for i in inputs]
        return len(self.cost) - 1

    def load(self, nbytes: float) -> int:
        return self.add(2 * passes(nbytes), nbytes)

    def combine(self, level: list[int], fan: int, nbytes: float, name_cost: Callable[[int], float]) -> int:
        """A tree that makes one of many; returns its root."""
        while len(level) > 1:
            groups = [level[i : i + fan] for i in range(0, len(level), fan)]
            level = [self.add(name_cost(len(group)), nbytes, group) for group in groups]
        return level[0]

    def graph(self) -> PlanGraph:
        src, dst = np.array(self.edges, np.int64).reshape(-1, 2).T
        return PlanGraph.build(
            Dag.from_edges(len(self.cost), src, dst), self.cost, np.array(self.nbytes).astype(np.int64)
        )


def passes(*sizes: float) -> float:
    """Seconds to go through so many bytes."""
    return sum(sizes) / RATE


def tree(leaves: int = 512) -> PlanGraph:
    """Chunks added in pairs."""
    g = Sketch()
    g.combine([g.load(CHUNK) for _ in range(leaves)], 2, CHUNK, lambda k: passes(CHUNK) * (k + 1))
    return g.graph()


def map_reduce(n: int = 600) -> PlanGraph:
    """Load, map, sum each chunk, and add the thin sums four at a time."""
    g = Sketch()
    thin = []
    for _ in range(n):
        mapped = g.add(passes(CHUNK, CHUNK), CHUNK, [g.load(CHUNK)])
        thin.append(g.add(passes(CHUNK), CHUNK / 50, [mapped]))
    g.combine(thin, 4, CHUNK / 50, lambda k: passes(CHUNK / 50) * k)
    return g.graph()


def matmul(side: int = 8) -> PlanGraph:
    """All products of blocks, added four at a time."""
    g = Sketch()
    seconds = 2 * np.sqrt(CHUNK / 8) ** 3 / GEMM
    a = [[g.load(CHUNK) for _ in range(side)] for _ in range(side)]
    b = [[g.load(CHUNK) for _ in range(side)] for _ in range(side)]
    for i in range(side):
        for j in range(side):
            products = [g.add(seconds, CHUNK, (a[i][k], b[k][j])) for k in range(side)]
            g.combine(products, 4, CHUNK, lambda k: passes(CHUNK) * (k + 1))
    return g.graph()


def cholesky(tiles: int = 14) -> PlanGraph:
    """The factor of a matrix in tiles of a quarter chunk."""
    g = Sketch()
    size = CHUNK / 4
    seconds = np.sqrt(size / 8) ** 3 / GEMM
    a = {(i, j): g.load(size) for i in range(tiles) for j in range(i + 1)}
    for k in range(tiles):
        a[k, k] = g.add(seconds / 3, size, (a[k, k],))
        for i in range(k + 1, tiles):
            a[i, k] = g.add(seconds, size, (a[k, k], a[i, k]))
        for i in range(k + 1, tiles):
            for j in range(k + 1, i + 1):
                inputs = sorted({a[i, j], a[i, k], a[j, k]})
                a[i, j] = g.add(seconds * (2 if i != j else 1), size, inputs)
    return g.graph()


def tsqr(n: int = 160, columns: int = 200) -> PlanGraph:
    """QR of a tall matrix: a factor for each chunk, small triangles stacked by eight, and back to every Q."""
    g = Sketch()
    seconds, small = 2 * CHUNK / 8 * columns / GEMM, columns * columns * 8
    qr = [g.add(seconds, CHUNK + small, (chunk,)) for chunk in [g.load(CHUNK) for _ in range(n)]]
    q = [g.add(passes(CHUNK) * 0.1, CHUNK, (x,)) for x in qr]
    level = [g.add(1e-4, small, (x,)) for x in qr]
    first: list[int] = []
    while len(level) > 1:
        stacks = []
        for i in range(0, len(level), 8):
            group = level[i : i + 8]
            stacks.append(g.add(passes(small) * len(group) * 2, small * len(group), group))
        first = first or stacks
        level = [g.add(1e-4, small, (stack,)) for stack in stacks]
    for i in range(n):
        g.add(seconds / 2, CHUNK, (q[i], first[i // 8], level[0]))
    return g.graph()


def shuffle(n: int = 28) -> PlanGraph:
    """Rechunk: a piece of every chunk goes into every other."""
    g = Sketch()
    piece = CHUNK / n
    chunks = [g.load(CHUNK) for _ in range(n)]
    pieces = [[g.add(passes(piece, piece), piece, (chunk,)) for _ in range(n)] for chunk in chunks]
    for j in range(n):
        whole = g.add(passes(CHUNK, CHUNK), CHUNK, [row[j] for row in pieces])
        g.add(passes(CHUNK), SMALL, (whole,))
    return g.graph()


def stencil(n: int = 64, steps: int = 16) -> PlanGraph:
    """A line of chunks that exchange their borders at every step."""
    g = Sketch()
    halo = CHUNK / 100
    line = [g.load(CHUNK) for _ in range(n)]
    for _ in range(steps):
        left = [g.add(passes(halo, halo), halo, (x,)) for x in line]
        right = [g.add(passes(halo, halo), halo, (x,)) for x in line]
        sides = [right[i - 1 : i] if i else [] for i in range(n)]
        line = [g.add(passes(CHUNK, CHUNK) * 2, CHUNK, [line[i], *sides[i], *left[i + 1 : i + 2]]) for i in range(n)]
    for x in line:
        g.add(passes(CHUNK), SMALL, (x,))
    return g.graph()


def stencil_2d(n: int = 12, steps: int = 10) -> PlanGraph:
    """A square of chunks that exchange their borders at every step."""
    g = Sketch()
    halo, around = CHUNK / 100, ((1, 0), (-1, 0), (0, 1), (0, -1))
    now = {(i, j): g.load(CHUNK) for i in range(n) for j in range(n)}
    for _ in range(steps):
        border = {(*at, d): g.add(passes(halo, halo), halo, (x,)) for at, x in now.items() for d in range(4)}
        now = {
            (i, j): g.add(
                passes(CHUNK, CHUNK) * 2,
                CHUNK,
                [x] + [border[i + a, j + b, d] for d, (a, b) in enumerate(around) if (i + a, j + b) in now],
            )
            for (i, j), x in now.items()
        }
    return g.graph()


def layered(layers: int = 24, width: int = 48, seed: int = 0) -> PlanGraph:
    """Layers of unlike operands that read one to three of the layer before, mostly near ones."""
    rng, g, before = np.random.default_rng(seed), Sketch(), []
    for _ in range(layers):
        now: list[int] = []
        n = int(width * rng.uniform(0.5, 1.5))
        for i in range(n):
            inputs: set[int] = set()
            for _ in range(min(len(before), int(rng.integers(1, 4))) if before else 0):
                near = int(np.clip(i / n * len(before) + rng.integers(-3, 4), 0, len(before) - 1))
                inputs.add(before[near if rng.random() < 0.7 else int(rng.integers(len(before)))])
            seconds, size = rng.lognormal(np.log(0.1), 0.7), rng.lognormal(np.log(CHUNK / 2), 0.9)
            now.append(g.add(float(seconds), float(size), inputs))
        before = now
    return g.graph()


NINE: dict[str, Callable[[], PlanGraph]] = {
    "tree": tree,
    "map reduce": map_reduce,
    "matmul": matmul,
    "cholesky": cholesky,
    "tsqr": tsqr,
    "shuffle": shuffle,
    "stencil": stencil,
    "stencil 2d": stencil_2d,
    "layered": layered,
}

# The same shapes, small enough for a test of a second.
SMALL_ONES: dict[str, Callable[[], PlanGraph]] = {
    "tree": partial(tree, 32),
    "map reduce": partial(map_reduce, 20),
    "matmul": partial(matmul, 3),
    "cholesky": partial(cholesky, 5),
    "tsqr": partial(tsqr, 12),
    "shuffle": partial(shuffle, 6),
    "stencil": partial(stencil, 8, 4),
    "stencil 2d": partial(stencil_2d, 3, 3),
    "layered": partial(layered, 6, 8),
}
