"""What each client of a cluster reaches, and what is let go of when it is gone.

A channel has its own actors "session" and "store": they hand calls on to the cluster's and note what the client holds.
Used by the host for every connection. Source: the design's "jobs and results re-attached, several clients at once".
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from jmars.deploy.references import REMEMBERED, References
from jmars.model.states import JobState
from jmars.model.submission import Submission
from jmars.worker.store import StoreActor

__all__ = ["Client", "Clients"]


class Clients:
    """All clients of a cluster.

    Parameters
    ----------
    session
        The SessionActor, or what stands for it where the scheduler is a process of its own.
    store
        The host's chunks.
    outlives
        Whether the cluster goes on when its clients are gone.
    """

    def __init__(self, session: Any, store: StoreActor, outlives: bool) -> None:
        self.session, self.store = session, store
        self.references = References(outlives)
        self.told: dict[str, tuple[bool, Sequence[Any]]] = {}  # job: what its client says of its results
        self.reports: dict[str, dict[str, Any]] = {}  # ended jobs
        self.lasting: dict[str, int] = {}  # clients that come again, by the name that they gave themselves
        self._number = 0

    def come(self) -> Client:
        """A new client."""
        self._number += 1
        return Client(self, self._number)

    def job_ended(self, report: dict[str, Any]) -> bool:
        """A job has ended; returns whether that is news."""
        job = report["job"]
        if job in self.reports:
            return False
        self.reports[job] = report
        left = dict.fromkeys(report["results"])
        if report["state"] == JobState.SUCCEEDED:  # and what was here before
            _, told = self.told.get(job, (False, ()))
            left |= dict.fromkeys(one[0] for one in told if self.references.is_held(one[0]))
        self.drop(self.references.ended(job, list(left)))
        for old in list(self.reports)[:-REMEMBERED]:
            del self.reports[old]
            self.told.pop(old, None)
        return True

    def drop(self, keys: Sequence[str]) -> Any:
        """Nobody holds these any more."""
        return self.session.drop(keys) if keys else None


class Client:
    """One client: the actors that it reaches under the names "session" and "store"."""

    def __init__(self, clients: Clients, number: int) -> None:
        self.number = number
        self.lasts = False  # whether it will come again, and finds what it held
        self.gone = False
        self.sent_away = False  # by us, though it lives
        self.is_kernel = False  # whether it has asked for what a kernel needs, so that it counts for the lease
        self.session = ClientSession(clients, self)
        self.store = ClientStore(clients.store, self)
        self.chunks: dict[int, int] = {}  # first of fresh chunks that are no tensor yet: how many
        self.tickets: set[str] = set()  # pins
        self._clients = clients

    def left(self) -> None:
        """The client is gone: let go of all that it held.

        One that was sent away lives, and may still read and write where it was: these slots are nobody else's.
        """
        self.gone = True
        for ticket in list(self.tickets) if not self.sent_away else ():
            self.store.unpin(ticket)
        for first, count in list(self.chunks.items()) if not self.sent_away else ():
            self.store.abandon(first, count)
        if not self.lasts:
            self._clients.drop(self._clients.references.left(self.number))


class ClientSession:
    """SessionActor, as one client reaches it: all but what workers report."""

    def __init__(self, clients: Clients, client: Client) -> None:
        self._clients, self._client = clients, client

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_") or method == "report":
            raise AttributeError(method)
        return getattr(self._clients.session, method)

    def submit(self, submission: Submission) -> Any:
        """As SessionActor's."""
        return self._submitted(self._clients.session.submit(submission), submission.results)

    def call_me(self, name: str) -> None:
        """This client is the one that had that name before, and holds what that one held; so will who comes next.

        For the web gateway, which may be killed and started again; one at a time has a name.
        """
        self._client.number = self._clients.lasting.setdefault(name, self._client.number)
        self._client.lasts = True

    def attach(self, job: str) -> Any:
        """Take up a job: how it stands, what its results are, and its report where it has ended.

        This client holds its results from now on, where somebody held them still.
        """
        return _then(self._clients.session.describe(job), lambda described: self._attached(job, described))

    def forget(self, job: str) -> None:
        """The job need not hold its results for who may come."""
        self._clients.drop(self._clients.references.forget(job))

    def take_chunks(self, count: int) -> Any:
        """As SessionActor's."""

        def taken(first: int) -> int:
            self._client.chunks[first] = count
            return first

        return _then(self._clients.session.take_chunks(count), taken)

    def keep(self, key: str, first: int, count: int) -> Any:
        """As SessionActor's; this client holds the tensor."""
        self._clients.references.hold(self._client.number, [key])

        def kept(answer: None) -> None:  # until then a scheduler that is being started is told that they are brought
            self._client.chunks.pop(first, None)

        return _then(self._clients.session.keep(key, first, count), kept)

    def drop(self, keys: Sequence[str]) -> Any:
        """This client needs these tensors no more."""
        return self._clients.drop(self._clients.references.drop(self._client.number, keys))

    def _submitted(self, job: Any, told: Sequence[Any] | None) -> Any:
        def started(job: str) -> str:
            if job:
                if told:
                    self._clients.told[job] = told[0], told[1]
                self._wants(job)
            return job

        return _then(job, started)

    def _attached(self, job: str, described: dict[str, Any]) -> dict[str, Any]:
        clients = self._clients
        self._wants(job)
        single, told = clients.told.get(job, (False, None))
        return {"name": described["name"], "single": single, "told": told, "report": clients.reports.get(job)}

    def _wants(self, job: str) -> None:
        client, references = self._client, self._clients.references
        references.wants(client.number, job)
        if client.gone and not client.lasts:  # before the scheduler, which is being started, answered
            self._clients.drop(references.left(client.number))


class ClientStore:
    """StoreActor, as one client reaches it."""

    def __init__(self, store: StoreActor, client: Client) -> None:
        self._store, self._client = store, client

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return getattr(self._store, method)

    def abandon(self, first: int, count: int) -> None:
        """As StoreActor's."""
        self._client.chunks.pop(first, None)
        self._store.abandon(first, count)

    def pin(self, ticket: str, chunks: Sequence[int], lasting: bool = False) -> Awaitable[list[int]]:
        """As StoreActor's."""
        self._client.tickets.add(ticket)
        return self._store.pin(ticket, chunks, lasting)

    def unpin(self, ticket: str) -> None:
        """As StoreActor's."""
        self._client.tickets.discard(ticket)
        self._store.unpin(ticket)


def _then(value: Any, call: Callable[[Any], Any]) -> Any:
    """`call(value)`, at once or when the value is there."""
    if not inspect.isawaitable(value):
        return call(value)

    async def later() -> Any:
        return call(await value)

    return later()
