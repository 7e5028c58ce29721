"""Rendezvous hashing: chooses the schedulers of all operands at once.

Schedulers draw a number for every key from a hash of both; the highest wins. When a scheduler joins, only the keys
that the newcomer wins move; when a scheduler leaves, the remaining schedulers share the orphaned keys. There is no
ring to keep. Operands are hashed by their subgraph, since an edge between two schedulers costs two messages. uhashring
takes ten times as long and balances worse.
Source: docs/explanation/seeds.md, "Submitting a job"; Thaler and Ravishankar 1996.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.graph.dag import Dag

__all__ = ["highest", "subgraphs"]

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64


def highest(keys: NDArray[np.uint64], schedulers: Sequence[str]) -> NDArray[np.int64]:
    """The scheduler of each key.

    Parameters
    ----------
    keys
        Any numbers, shape (n,).
    schedulers
        Names, at least one; what they are decides, not their order.

    Returns
    -------
    NDArray, shape (n,)
        Index in `schedulers` for each key.

    Examples
    --------
    >>> keys = np.arange(3000, dtype=np.uint64)
    >>> np.bincount(highest(keys, ["a", "b", "c"])).tolist()
    [988, 1060, 952]
    >>> before, after = highest(keys, ["a", "b", "c"]), highest(keys, ["a", "b", "c", "d"])
    >>> sorted(set(after[before != after].tolist()))  # who moves goes to the new one
    [3]
    """
    seeds = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in schedulers]
    drawn = np.empty((len(seeds), len(keys)), np.uint64)
    for row, seed in zip(drawn, seeds):
        np.bitwise_xor(_mixed(keys), np.uint64(int.from_bytes(seed, "little")), out=row)
        row[:] = _mixed(row)
    found: NDArray[np.int64] = drawn.argmax(axis=0)
    return found


def subgraphs(dag: Dag) -> NDArray[np.uint64]:
    """Keys of vertices: the source at the end of each chain of first inputs, so that chains stay together.

    Examples
    --------
    >>> subgraphs(Dag.from_edges(5, [0, 2, 1, 3], [2, 3, 4, 4])).tolist()  # 0 - 2 - 3 - 4, and 1 - 4
    [0, 1, 0, 0, 1]
    """
    root = np.arange(dag.n)
    inner = dag.in_degree > 0
    root[inner] = dag.pred_idx[dag.pred_ptr[:-1][inner]]
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return root.astype(np.uint64)
        root = further


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The last steps of splitmix64: a bit of a key changes half of the bits of the hash."""
    keys = (keys ^ (keys >> np.uint64(30))) * _FIRST
    keys = (keys ^ (keys >> np.uint64(27))) * _SECOND
    found: NDArray[np.uint64] = keys ^ (keys >> np.uint64(31))
    return found
