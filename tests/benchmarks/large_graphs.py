"""Three shapes of any size, made by NumPy: what planning is timed on."""

from collections.abc import Callable

import numpy as np

from jmars.graph import Dag
from jmars.plan import PlanGraph
from tests.benchmarks.plan_graphs import CHUNK, RATE

__all__ = ["LARGE", "costed", "map_and_tree", "products", "stencil"]


def map_and_tree(n: int) -> Dag:
    """A source, and a map on it that is shared and so not fused, under a tree that sums four at a time."""
    leaves = n * 3 // 7
    src, dst, below, start, end = [np.arange(leaves)], [np.arange(leaves, 2 * leaves)], leaves, leaves, 2 * leaves
    while below > 1:
        above = (below + 3) // 4
        src.append(np.arange(start, start + below))
        dst.append(end + np.arange(below) // 4)
        start, end, below = end, end + above, above
    return Dag.from_edges(end, np.concatenate(src), np.concatenate(dst))


def stencil(n: int, steps: int = 20) -> Dag:
    """A line of chunks that exchange their borders at every step."""
    width = max(2, n // (3 * steps + 1))
    line, end, src, dst = np.arange(width), width, [], []
    for _ in range(steps):
        left, right, now = end + np.arange(3 * width).reshape(3, width)
        src += [line, line, line, right[:-1], left[1:]]
        dst += [left, right, now, now[1:], now[:-1]]
        line, end = now, end + 3 * width
    return Dag.from_edges(end, np.concatenate(src), np.concatenate(dst))


def products(n: int) -> Dag:
    """All products of blocks of two square matrices, added four at a time."""
    side = max(2, round((n / 4 * 3) ** (1 / 3)))
    i, j, k = np.indices((side, side, side))
    level = (2 * side**2 + np.arange(side**3)).reshape(side, side, side)
    src, dst = [i * side + k, side**2 + k * side + j], [level, level]
    level, end = level.reshape(side**2, side), 2 * side**2 + side**3
    while level.shape[1] > 1:
        above = (level.shape[1] + 3) // 4
        sums = (end + np.arange(side**2 * above)).reshape(side**2, above)
        src.append(level)
        dst.append(np.repeat(sums, 4, axis=1)[:, : level.shape[1]])
        level, end = sums, end + sums.size
    return Dag.from_edges(end, np.concatenate([a.ravel() for a in src]), np.concatenate([a.ravel() for a in dst]))


def costed(dag: Dag) -> PlanGraph:
    """Chunks of 100 MB, and operands that go through theirs once or so."""
    pace = np.random.default_rng(0).lognormal(0.0, 0.1, dag.n)
    return PlanGraph.build(dag, CHUNK / RATE * pace, np.full(dag.n, int(CHUNK)))


LARGE: dict[str, Callable[[int], Dag]] = {"map and tree": map_and_tree, "stencil": stencil, "products": products}
