"""Ranks operands, so that few chunks are held at a time; of two ready operands the lower rank runs first.

`mars` is Mars's rule; `depth_first` an order computed in a single pass from the results back.
Source: docs/explanation/seeds.md, "Choosing operands".
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.graph import Dag, levels

ORDERS = ("mars", "dfs")


def ranks(dag: Dag, nbytes: NDArray[np.int64], order: str = "mars") -> NDArray[np.int64]:
    """Ranks operands by the order named `order`, a member of `ORDERS`; shape (n,), a permutation of 0..n-1.

    Raises
    ------
    GraphError
        If the order is unknown, or the graph has a cycle.
    """
    if order not in ORDERS:
        raise GraphError(f"no order {order!r} for operands; choose one of {', '.join(ORDERS)}")
    return mars(dag, nbytes) if order == "mars" else depth_first(dag, nbytes)


def mars(dag: Dag, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Mars's three rules: deeper operands first, then operands with a deeper reader, then smaller outputs.

    Parameters
    ----------
    dag
        The operands.
    nbytes
        Bytes of each output, shape (n,).

    Returns
    -------
    ndarray of int64, shape (n,)
        Rank among operands that are ready at the same time; ties stay in order of creation. Not a topological order: an
        operand ranks before its inputs.

    Examples
    --------
    Of two ready leaves the leaf with the deeper reader goes first:

    >>> mars(Dag.from_edges(4, [0, 2, 1], [2, 3, 3]), np.array([8, 8, 8, 8])).tolist()
    [3, 2, 1, 0]
    """
    depth = levels(dag)
    demand = np.zeros(dag.n, np.int64)  # depth of the deepest direct reader
    read = dag.out_degree > 0
    if dag.m:
        demand[read] = np.maximum.reduceat(depth[dag.succ_idx], dag.succ_ptr[:-1][read])
    return _positions(np.lexsort((nbytes, -demand, -depth)))


def depth_first(dag: Dag, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Depth-first rank from the deepest sink back: inputs with the largest output first, then ready readers.

    Parameters and result as `mars`; this rank is a topological order. A few µs an operand.
    """
    depth, size = levels(dag).tolist(), nbytes.tolist()
    preds, succs = tuple(dag.pred_idx.tolist()), tuple(dag.succ_idx.tolist())
    inputs = [preds[a:b] for a, b in pairwise(dag.pred_ptr.tolist())]
    readers = [succs[a:b] for a, b in pairwise(dag.succ_ptr.tolist())]
    missing = dag.in_degree.tolist()
    placed = bytearray(dag.n)
    met = bytearray(dag.n)
    order: list[int] = []
    for sink in sorted(dag.sinks().tolist(), key=lambda v: (-depth[v], v)):
        stack = [sink]
        while stack:
            operand = stack[-1]
            if placed[operand]:
                stack.pop()
            elif not met[operand] and missing[operand]:
                met[operand] = 1
                needed = [p for p in reversed(inputs[operand]) if not placed[p]]
                stack += sorted(needed, key=size.__getitem__)  # ties: the first operand is on top of the stack
            else:
                stack.pop()
                ready = [operand]
                while ready:
                    now = ready.pop()
                    placed[now] = 1
                    order.append(now)
                    able = []
                    for reader in reversed(readers[now]):
                        missing[reader] -= 1
                        if not missing[reader]:
                            able.append(reader)
                    if len(able) > 1:
                        able.sort(key=size.__getitem__, reverse=True)  # the smallest is taken first
                    ready += able
    return _positions(np.array(order, np.int64))


def _positions(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of operands in `order`."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank
