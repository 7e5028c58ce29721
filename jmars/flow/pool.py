"""Instances of one graph, lent to one run at a time and used again.

Building the rows of a graph costs a tuple per vertex; resetting an instance is a copy. `Pool` builds at most `limit`
instances and lends them first come, first served: by `acquire` to threads, by `request` (a future) to event loops.
Source: seed 002, "Execution Lifecycle": instances are used exclusively, reset, reused and pooled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock

from jmars.errors import GraphError
from jmars.flow.counters import Counters
from jmars.flow.graph import FlowGraph

__all__ = ["Pool"]


class Pool:
    """At most `limit` instances of `graph`; safe to use from many threads.

    Parameters
    ----------
    graph
        What the instances run.
    limit
        Instances that may exist at once, 1 or more.

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

    def __init__(self, graph: FlowGraph, limit: int) -> None:
        if limit < 1:
            raise GraphError(f"a pool of {limit} instances can lend none; give a limit of 1 or more")
        self.graph = graph
        self.limit = limit
        self.built = 0  # instances that exist
        self._lock = Lock()
        self._idle: list[Counters] = []
        self._waiting: deque[Future[Counters]] = deque()

    def request(self) -> Future[Counters]:
        """A future of an instance, in the order of requests.

        Cancel it to leave the line; where `cancel()` answers False the instance has come, and must be released.
        """
        future: Future[Counters] = Future()
        with self._lock:
            if self._idle:
                instance = self._idle.pop()
            elif self.built < self.limit:
                self.built += 1
                instance = Counters(self.graph)
            else:
                self._waiting.append(future)
                return future
            instance.lent = True
        future.set_result(instance)
        return future

    def acquire(self, timeout: float | None = None) -> Counters:
        """An instance for one run, reset; waits until one comes back.

        Parameters
        ----------
        timeout
            Longest wait in seconds; None waits as long as it takes.

        Raises
        ------
        TimeoutError
            If none came back in time; the place in the line is given up.
        """
        future = self.request()
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.cancel():
                raise
            return future.result()  # it came at the last moment
        except BaseException:  # an interrupted wait must not keep an instance that nobody will give back
            if not future.cancel():
                self.release(future.result())
            raise

    def release(self, instance: Counters) -> None:
        """Give an instance back; it is reset and goes to the first in line.

        Raises
        ------
        GraphError
            If it is not lent out by this pool, or was given back before.
        """
        if instance.graph is not self.graph:
            raise GraphError("this instance runs another graph; give it back to the pool that lent it")
        with self._lock:
            if not instance.lent:
                raise GraphError("this instance was given back before; release each one once")
            instance.lent = False
        instance.reset()
        with self._lock:
            while self._waiting:
                future = self._waiting.popleft()
                if future.set_running_or_notify_cancel():  # it was not cancelled meanwhile, and cannot be any more
                    instance.lent = True
                    break
            else:
                self._idle.append(instance)
                return
        future.set_result(instance)

    @contextmanager
    def lent(self) -> Iterator[Counters]:
        """`acquire` for a `with` block."""
        instance = self.acquire()
        try:
            yield instance
        finally:
            self.release(instance)
