"""The links between hosts over which a plan moves chunks: it counts on their bandwidth. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.graph import Dag
from jmars.scheduler.prepare import Prepared

__all__ = ["links_of", "planned_links"]


def links_of(prepared: Prepared) -> frozenset[tuple[int, int]] | None:
    """Links that the plan of a structure uses, as `planned_links`; None where the hosts of the plan are not known."""
    hosts = None if prepared.watched is None else prepared.watched.hosts
    if hosts is None:
        return None
    stored = np.full(prepared.plan.dag.n, -1, np.int64)
    for name, some in prepared.stored.items():
        for operand, index in some:
            stored[operand] = prepared.places.get((name, index), -1)
    return planned_links(prepared.plan.dag, prepared.plan.assign, stored, hosts[1])


def planned_links(
    dag: Dag, assign: NDArray[np.int16], stored: NDArray[np.int64], numbers: Sequence[int]
) -> frozenset[tuple[int, int]]:
    """Links that a plan uses.

    Parameters
    ----------
    assign
        Worker of each operand; -1 where the operand stands for a stored chunk, shape (n,).
    stored
        Row of the host that stores the chunk of such an operand; -1 where it is not known, shape (n,).
    numbers
        Number of the first worker of each host, ascending.

    Returns
    -------
    frozenset of (int, int)
        First workers of the host that is read and of the host that reads.

    Examples
    --------
    >>> dag = Dag.from_edges(4, [0, 1, 2], [2, 2, 3])
    >>> sorted(planned_links(dag, np.array([-1, 5, 1, 0], np.int16), np.array([0, -1, -1, -1]), [0, 4]))
    [(4, 0)]
    """
    first = np.asarray(numbers, np.int64)
    row = np.where(assign >= 0, np.searchsorted(first, assign, side="right") - 1, stored)
    source, reader = dag.edges()
    there, here = row[source], row[reader]
    moves = (there != here) & (there >= 0) & (here >= 0)
    pairs = np.unique(there[moves] * len(first) + here[moves])
    return frozenset((numbers[pair // len(first)], numbers[pair % len(first)]) for pair in pairs.tolist())
