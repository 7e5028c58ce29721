"""Lends instances, each to a single run at a time, and reuses them: the base of both pools of this folder.

Building an instance costs a tuple or an object per vertex; resetting an instance is a copy of lists. `Lending` builds
at most `limit` instances and lends them first come, first served: by `acquire` to threads, by `request` (a future) to
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
    """An instance that can be lent: knows whether it is lent, and can be reset."""

    lent: bool

    def reset(self) -> None:
        """Go back to the start of a run, without building anything."""


Instance = TypeVar("Instance", bound=Lendable)


class Lending(ABC, Generic[Instance]):
    """A pool of at most `limit` instances, `keep` (None: all) of which stay while unused; for many threads.

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
        """A new instance."""

    @abstractmethod
    def _is_ours(self, instance: Instance) -> bool:
        """Whether an instance runs this pool's graph."""

    def request(self) -> Future[Instance]:
        """A future of an instance, in the order of requests.

        Cancel the future to leave the queue; where `cancel()` answers False the instance has come, and must be
        released.
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
        """Wait for an instance; returns it reset.

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

    def release(self, instance: Instance) -> None:
        """Give an instance back; it is reset and goes to the first request in the queue.

        Raises
        ------
        GraphError
            If it is not lent out by this pool, or was given back before.
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
                if future.set_running_or_notify_cancel():  # it was not cancelled meanwhile, and cannot be any more
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
        """`acquire` for a `with` block."""
        instance = self.acquire()
        try:
            yield instance
        finally:
            self.release(instance)
