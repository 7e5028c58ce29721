"""`Pool`: a pool of `Counters`, lent to one run of a graph at a time and reused.

Building the rows of a graph costs a tuple per vertex; resetting an instance is a copy. The scheduler has a pool for
each graph structure.
Source: docs/explanation/seeds.md, "Execution lifecycle".
"""

from __future__ import annotations

from jmars.flow.counters import Counters
from jmars.flow.flow_graph import FlowGraph
from jmars.flow.lending import Lending

__all__ = ["Pool"]


class Pool(Lending[Counters]):
    """A pool of at most `limit` instances of `graph`; thread-safe.

    Parameters
    ----------
    graph
        The graph of the instances.
    limit
        Most instances that exist at a time, 1 or more.
    keep
        Idle instances to keep; None: all.

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
