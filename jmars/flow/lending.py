"""`Lending`: a pool that lends reusable instances to one run at a time, the base of both pools in this folder.

Building an instance costs a tuple or an object per vertex; resetting an instance is a copy of lists. A pool builds at
most `limit` instances and lends them first come, first served: by `acquire` to threads, by `request` (a future) to
event loops.
Source: docs/explanation/seeds.md, "Execution lifecycle".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock
from typing import Generic, Protocol, TypeVar

from jmars.errors import GraphError

__all__ = ["Lendable", "Lending"]


class Lendable(Protocol):
    """An instance that can be lent and reset."""

    lent: bool

    def reset(self) -> None:
        """Resets the instance in place for the next run."""


Instance = TypeVar("Instance", bound=Lendable)


class Lending(ABC, Generic[Instance]):
    """A pool of at most `limit` instances, `keep` of which (None: all) stay when idle; thread-safe.

    Raises
    ------
    GraphError
        If `limit` is below 1.
    """

    def __init__(self, limit: int, keep: int | None = None) -> None:
        if limit < 1:
            raise GraphError(f"a pool of {limit} instances can lend none; give a limit of 1 or more")
        self.limit = limit
        self.keep = limit if keep is None else keep
        self.built = 0  # instances that exist
        self._lock = Lock()
        self._idle: list[Instance] = []
        self._waiting: deque[Future[Instance]] = deque()

    @abstractmethod
    def _build(self) -> Instance:
        """Builds a new instance."""

    @abstractmethod
    def _is_ours(self, instance: Instance) -> bool:
        """Whether an instance runs this pool's graph."""

    def request(self) -> Future[Instance]:
        """Requests an instance; returns a future, served in the order of requests.

        Cancelling the future leaves the queue; if `cancel()` returns False the instance must be released.
        """
        future: Future[Instance] = Future()
        with self._lock:
            if self._idle:
                instance = self._idle.pop()
            elif self.built < self.limit:
                instance = self._build()
                self.built += 1
            else:
                self._waiting.append(future)
                return future
            instance.lent = True
        future.set_result(instance)
        return future

    def acquire(self, timeout: float | None = None) -> Instance:
        """Takes a reset instance for a run; waits until an instance is free.

        Parameters
        ----------
        timeout
            Longest wait in seconds; None: no limit.

        Raises
        ------
        TimeoutError
            If no instance became free in time; the request is withdrawn.
        """
        future = self.request()
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.cancel():
                raise
            return future.result()  # an instance came at the last moment
        except BaseException:  # an interrupted wait must not leak an instance
            if not future.cancel():
                self.release(future.result())
            raise

    def release(self, instance: Instance) -> None:
        """Returns an instance to the pool, resets it, and serves the next request.

        Raises
        ------
        GraphError
            If the instance is not lent by this pool, or was returned before.
        """
        if not self._is_ours(instance):
            raise GraphError("this instance runs another graph; give it back to the pool that lent it")
        with self._lock:
            if not instance.lent:
                raise GraphError("this instance was given back before; release each one once")
            instance.lent = False
        instance.reset()
        with self._lock:
            while self._waiting:
                future = self._waiting.popleft()
                if future.set_running_or_notify_cancel():  # not cancelled, and can no longer be
                    instance.lent = True
                    break
            else:
                if len(self._idle) < self.keep:
                    self._idle.append(instance)
                else:
                    self.built -= 1
                return
        future.set_result(instance)

    @contextmanager
    def lent(self) -> Iterator[Instance]:
        """Acquires an instance for a `with` block."""
        instance = self.acquire()
        try:
            yield instance
        finally:
            self.release(instance)
