"""`GraphPool`: a pool of instances of a finished graph, for concurrent runs.

Source: docs/explanation/seeds.md, "Execution lifecycle".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jmars.errors import GraphError
from jmars.flow.counters import Lending
from jmars.flow.run_time.instance import Graph

if TYPE_CHECKING:
    from jmars.flow.build_time.builder import GraphBuilder

__all__ = ["GraphPool"]


class GraphPool(Lending[Graph]):
    """A pool of at most `limit` instances of a graph, first come, first served; thread-safe.

    Parameters
    ----------
    builder
        A finished `GraphBuilder`.
    limit
        Most instances that exist at a time, 1 or more.

    Raises
    ------
    GraphError
        If `limit` is below 1.

    Examples
    --------
    >>> from jmars.flow import GraphBuilder
    >>> builder = GraphBuilder()
    >>> builder.input("a")
    >>> _vertex = builder.function(lambda a: a + 1, ["a"], "b")
    >>> pool = GraphPool(builder.finish(), limit=2)
    >>> with pool.lent() as graph:
    ...     graph.run("b", given={"a": 1}).result()
    2
    """

    def __init__(self, builder: GraphBuilder, limit: int) -> None:
        super().__init__(limit)
        self._builder = builder
        self._structure = builder.structure  # raises now if the builder is unfinished

    def _build(self) -> Graph:
        return self._builder.build()

    def _is_ours(self, instance: Graph) -> bool:
        return instance.structure is self._structure

    def release(self, instance: Graph) -> None:
        """Returns an instance to the pool, resets it, and serves the next request.

        Raises
        ------
        GraphError
            If the instance is not lent by this pool, was returned before, or still runs.
        """
        if instance.busy:
            raise GraphError("this instance still runs: wait() for its closure before giving it back")
        super().release(instance)

    @contextmanager
    def lent(self) -> Iterator[Graph]:
        """Acquires an instance for a `with` block; the end of the block waits for running vertices."""
        instance = self.acquire()
        try:
            yield instance
        finally:
            instance.flush()
            self.release(instance)
