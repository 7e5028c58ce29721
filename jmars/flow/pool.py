"""A pool of a graph's counters, lent to a run at a time and reused.

Building the rows of a graph costs a tuple per vertex; resetting an instance is a copy. The scheduler holds a pool for
each structure of a graph.
Source: docs/explanation/seeds.md, "Execution lifecycle".
"""

from __future__ import annotations

from jmars.flow.counters import Counters
from jmars.flow.flow_graph import FlowGraph
from jmars.flow.lending import Lending

__all__ = ["Pool"]


class Pool(Lending[Counters]):
    """At most `limit` instances of `graph`; safe to use from many threads.

    Parameters
    ----------
    graph
        What the instances run.
    limit
        Instances that may exist at once, 1 or more.
    keep
        Instances that stay when no run has them; None for all.

    Raises
    ------
    GraphError
        If `limit` is below 1.

    Examples
    --------
    >>> from jmars.graph.dag import Dag
    >>> pool = Pool(FlowGraph(Dag.from_edges(2, [0], [1])), limit=1)
    >>> with pool.lent() as run:
    ...     run.finish([0])
    ([1], [])
    >>> pool.built, pool.acquire().waiting
    (1, [0, 1])
    """

    def __init__(self, graph: FlowGraph, limit: int, keep: int | None = None) -> None:
        super().__init__(limit, keep)
        self.graph = graph

    def _build(self) -> Counters:
        return Counters(self.graph)

    def _is_ours(self, instance: Counters) -> bool:
        return instance.graph is self.graph
