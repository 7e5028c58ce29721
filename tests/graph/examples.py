"""Graphs that several tests look at: drawn by Hypothesis, or built by hand."""

import numpy as np
from hypothesis import strategies as st

from jmars.graph import Dag


@st.composite
def edge_lists(draw, max_n=30):
    """(n, edges): up to 4 edges a vertex, each from a lower to a higher number."""
    n = draw(st.integers(1, max_n))
    vertex = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(vertex, vertex).filter(lambda p: p[0] != p[1]), max_size=4 * n))
    return n, [(min(p), max(p)) for p in pairs]


@st.composite
def dags(draw, max_n=30):
    """A Dag whose edges lead from lower to higher numbers."""
    n, pairs = draw(edge_lists(max_n))
    return Dag.from_edges(n, [a for a, _ in pairs], [b for _, b in pairs])


def random_dag(seed: int, n: int = 60) -> Dag:
    """A Dag of n vertices and about 1.5 n edges, most of them short."""
    rng = np.random.default_rng(seed)
    dst = rng.integers(1, n, n + n // 2)
    src = dst - 1 - (rng.integers(0, n, len(dst)) % np.minimum(dst, 8))
    return Dag.from_edges(n, src, dst)


def tree(leaves: int) -> Dag:
    """Seed 003's tree reduction: vertices by level, leaves first, each inner vertex reads two neighbours."""
    src, dst, level, n = [], [], list(range(leaves)), leaves
    while len(level) > 1:
        above = [n + k for k in range((len(level) + 1) // 2)]
        src += level
        dst += [above[k // 2] for k in range(len(level))]
        level, n = above, n + len(above)
    return Dag.from_edges(n, src, dst)


def wavefront(side: int) -> Dag:
    """Square grid; each vertex reads its upper and its left neighbour."""
    i = np.arange(side * side).reshape(side, side)
    src = np.concatenate([i[:-1].ravel(), i[:, :-1].ravel()])
    dst = np.concatenate([i[1:].ravel(), i[:, 1:].ravel()])
    return Dag.from_edges(side * side, src, dst)


def is_topological(dag: Dag, order) -> bool:
    """Whether `order` holds every vertex once, each behind its predecessors."""
    vertices = np.asarray(order, np.int64)
    if len(vertices) != dag.n or not np.array_equal(np.sort(vertices), np.arange(dag.n)):
        return False
    position = np.empty(dag.n, np.int64)
    position[vertices] = np.arange(dag.n)
    starts, ends = dag.edges()
    return bool(np.all(position[starts] < position[ends]))
