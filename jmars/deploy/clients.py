"""The actors of a cluster's clients; they release a client's holds when the client is gone.

A channel has own actors "session" and "store" with notes of the client's holds, so that several clients use a cluster
at once and later clients attach to jobs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from jmars.actors import remote_method
from jmars.deploy.references import References
from jmars.deploy.scheduler_port import SessionPort
from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.states import JobState
from jmars.model.submission import Submission

__all__ = ["ChunkStore", "Client", "Clients"]


class ChunkStore(Protocol):
    """A cluster's chunks, for clients that write or read them in place."""

    def reserve(self, chunk: int, size: int) -> Awaitable[int]:
        """Offset of a slot for a fresh chunk, once there is room."""

    def seal(self, chunk: int) -> None:
        """The client has filled the chunk's slot."""

    def abandon(self, first: int, count: int) -> None:
        """Abandon an upload."""

    def pin(self, ticket: str, chunks: Sequence[int], lasting: bool = False) -> Awaitable[list[int]]:
        """Offsets of chunks, pinned until `unpin`."""

    def unpin(self, ticket: str) -> None:
        """Release the chunks of a `pin`, or withdraw the request."""


class Clients:
    """All clients of a cluster.

    Parameters
    ----------
    session
        The scheduler's jobs and tensors.
    store
        The host's chunks.
    outlives
        Whether the cluster goes on when its clients are gone.
    """

    def __init__(self, session: SessionPort, store: ChunkStore, outlives: bool) -> None:
        self.session, self.store = session, store
        self.references = References(outlives)
        self.results: dict[str, tuple[bool, Sequence[Any]]] = {}  # by job: `Submission.results`
        self.reports: dict[str, dict[str, Any]] = {}  # ended jobs
        self.submitters: dict[str, int] = {}  # by job: process of the client that submitted it
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
            _, descriptors = self.results.get(job, (False, ()))
            left |= dict.fromkeys(one[0] for one in descriptors if self.references.is_held(one[0]))
        self.drop(self.references.ended(job, list(left)))
        for old in list(self.reports)[:-REMEMBERED_JOBS]:
            del self.reports[old]
            self.results.pop(old, None)
            self.submitters.pop(old, None)
        return True

    def drop(self, keys: Sequence[str]) -> None:
        """Free tensors that no client holds any more."""
        if keys:
            self.session.drop(keys)


class Client:
    """A client's actors "session" and "store", and its holds."""

    def __init__(self, clients: Clients, number: int) -> None:
        self.number = number
        self.lasts = False  # whether it will come again, and finds what it held
        self.gone = False
        self.sent_away = False  # by us, though it lives
        self.is_kernel = False  # whether it has asked for what a kernel needs, so that it counts for the lease
        self.pid = 0  # of its process on this machine; 0 if it is not known
        self.session = ClientSession(clients, self)
        self.store = ClientStore(clients.store, self)
        self.chunks: dict[int, int] = {}  # first of fresh chunks that are no tensor yet: how many
        self.tickets: set[str] = set()  # pins
        self._clients = clients

    def left(self) -> None:
        """Release all holds of a client that is gone.

        A client that was sent away still lives, and may read and write in shared memory: no other client gets those
        slots.
        """
        self.gone = True
        for ticket in list(self.tickets) if not self.sent_away else ():
            self.store.unpin(ticket)
        for first, count in list(self.chunks.items()) if not self.sent_away else ():
            self.store.abandon(first, count)
        if not self.lasts:
            self._clients.drop(self._clients.references.left(self.number))


class ClientSession:
    """The actor "session" of a client: the scheduler's jobs and tensors, and the client's holds on them."""

    def __init__(self, clients: Clients, client: Client) -> None:
        self._clients, self._client, self._session = clients, client, clients.session

    @remote_method
    async def submit(self, submission: Submission) -> str:
        """Start a job; the client holds its results."""
        job = await self._session.submit(submission)
        if job:
            self._clients.submitters[job] = self._client.pid
            if submission.results:
                self._clients.results[job] = submission.results[0], submission.results[1]
            self._wants(job)
        return job

    @remote_method
    def call_me(self, name: str) -> None:
        """Take over the name and the holds of an earlier client; so will the next client of that name.

        For the web gateway, which may be killed and started again; a name has a single client at a time.
        """
        self._client.number = self._clients.lasting.setdefault(name, self._client.number)
        self._client.lasts = True

    @remote_method
    async def attach(self, job: str) -> dict[str, Any]:
        """Attach to a job: name, descriptors of results, and the report where the job has ended.

        This client holds the results from now on, if another client held them still.
        """
        clients = self._clients
        described = await self._session.describe(job)
        self._wants(job)
        single, descriptors = clients.results.get(job, (False, None))
        report = clients.reports.get(job)
        return {"name": described["name"], "single": single, "results": descriptors, "report": report}

    @remote_method
    def forget(self, job: str) -> None:
        """The job need not hold results for later clients."""
        self._clients.drop(self._clients.references.forget(job))

    @remote_method
    async def cancel(self, job: str) -> None:
        """Stop a job; no effect on an ended job."""
        await self._session.cancel(job)

    @remote_method
    def withdraw(self, ticket: str) -> None:
        """Stop the job of an interrupted submission, if it came, and drop the results."""
        self._session.withdraw(ticket)

    @remote_method
    async def describe(self, job: str) -> dict[str, Any]:
        """State, counts of operands by state, progress, seconds, error."""
        return await self._session.describe(job)

    @remote_method
    async def wait(self, job: str, timeout: float | None = None) -> None:
        """Return when the job has ended, or `timeout` seconds have passed."""
        await self._session.wait(job, timeout)

    @remote_method
    async def jobs(self) -> list[dict[str, Any]]:
        """`describe` of all remembered jobs, oldest first."""
        return await self._session.jobs()

    @remote_method
    async def take_chunks(self, count: int) -> int:
        """The first of `count` fresh chunk numbers, for chunks that the client is about to store."""
        first = await self._session.take_chunks(count)
        self._client.chunks[first] = count
        return first

    @remote_method
    async def keep(self, key: str, first: int, count: int) -> None:
        """Make stored chunks the tensor `key`, held by this client."""
        self._clients.references.hold(self._client.number, [key])
        await self._session.keep(key, first, count)
        self._client.chunks.pop(first, None)  # not before: a scheduler that is being started is told of uploads

    @remote_method
    def drop(self, keys: Sequence[str]) -> None:
        """Release this client's holds on tensors."""
        self._clients.drop(self._clients.references.drop(self._client.number, keys))

    @remote_method
    async def chunks(self, keys: Sequence[str]) -> list[list[int]]:
        """Chunk numbers of kept tensors, each in C order of the grid."""
        return await self._session.chunks(keys)

    def _wants(self, job: str) -> None:
        client, references = self._client, self._clients.references
        references.wants(client.number, job)
        if client.gone and not client.lasts:  # before the scheduler, which is being started, answered
            self._clients.drop(references.left(client.number))


class ClientStore:
    """The actor "store" of a client: StoreActor, with notes of the client's pins and uploads."""

    def __init__(self, store: ChunkStore, client: Client) -> None:
        self._store, self._client = store, client

    @remote_method
    def reserve(self, chunk: int, size: int) -> Awaitable[int]:
        """As StoreActor's."""
        return self._store.reserve(chunk, size)

    @remote_method
    def seal(self, chunk: int) -> None:
        """As StoreActor's."""
        self._store.seal(chunk)

    @remote_method
    def abandon(self, first: int, count: int) -> None:
        """As StoreActor's."""
        self._client.chunks.pop(first, None)
        self._store.abandon(first, count)

    @remote_method
    def pin(self, ticket: str, chunks: Sequence[int], lasting: bool = False) -> Awaitable[list[int]]:
        """As StoreActor's."""
        self._client.tickets.add(ticket)
        return self._store.pin(ticket, chunks, lasting)

    @remote_method
    def unpin(self, ticket: str) -> None:
        """As StoreActor's."""
        self._client.tickets.discard(ticket)
        self._store.unpin(ticket)
