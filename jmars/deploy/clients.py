"""The actors of a cluster's clients; they release a client's holds when the client is gone.

A channel has own actors "session" and "store" with notes of the client's holds, so that several clients use a cluster
at once and later clients attach to jobs.

References: clients' holds on tensors that they computed, uploaded or attached to.

A tensor without a holder is dropped. A client's end ends all holds of the client; on a cluster that outlives clients,
results that the client still held stay with the jobs that made them, for as long as these jobs are remembered. Decides
alone; `clients` acts. Source: docs/decisions/0026-whose-tensors.md.

Lease: how long an unused detached cluster lives on.

Plain: the host reports clients and jobs with the time, and asks when to look again.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jmars.actors import remote_method
from jmars.errors import ClusterError
from jmars.model.limits import REMEMBERED_JOBS
from jmars.model.messages import Submission
from jmars.model.status import JobState
from jmars.scheduler import SessionActor

if TYPE_CHECKING:  # the head of a cluster on an engine has no workers of its own
    from jmars.worker.store import StoreActor


class UnsharedStore:
    """Store of a cluster that shares no memory with clients, which send and read chunks by the actor "passing".

    Parameters
    ----------
    abandon
        Abandons an upload: takes the first chunk and the number of chunks.
    """

    def __init__(self, abandon: Callable[[int, int], None]) -> None:
        self.abandon = abandon

    def pin(self, ticket: str, chunks: Sequence[int], lasting: bool = False) -> Awaitable[list[int]]:
        """Raise ClusterError."""
        raise ClusterError("this cluster shares no memory with clients; send and read chunks by 'passing'")

    def unpin(self, ticket: str) -> None:
        """No effect: nothing is pinned."""


ChunkStore: TypeAlias = "StoreActor | UnsharedStore"


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

    def __init__(self, session: SessionActor, store: ChunkStore, outlives: bool) -> None:
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
    """The calls of the actor "session" of a client that change the client's holds; SessionActor answers the others."""

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

    def _wants(self, job: str) -> None:
        client, references = self._client, self._clients.references
        references.wants(client.number, job)
        if client.gone and not client.lasts:  # before the scheduler, which is being started, answered
            self._clients.drop(references.left(client.number))


class ClientStore:
    """The calls of the actor "store" of a client that concern its pins and uploads; StoreActor answers the others."""

    def __init__(self, store: ChunkStore, client: Client) -> None:
        self._store, self._client = store, client

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


class References:
    """Holders of tensors.

    Parameters
    ----------
    outlives
        Whether results stay with their jobs when their client is gone.

    Examples
    --------
    >>> held = References(outlives=False)
    >>> held.hold(1, ["a"])
    >>> held.hold(2, ["a"])
    >>> held.drop(1, ["a"]), held.drop(2, ["a"])
    ([], ['a'])
    """

    def __init__(self, outlives: bool) -> None:
        self._outlives = outlives
        self._holders: dict[str, set[int | str]] = {}  # key: numbers of clients, and ids of jobs
        self._owner: dict[str, set[int]] = {}  # job that has not ended: clients that want its results
        self._results: dict[str, list[str]] = {}  # ended job: keys that it left, oldest job first
        self._inputs: dict[str, list[str]] = {}  # job that has not ended: what its client held as it went

    def hold(self, client: int, keys: Iterable[str]) -> None:
        """Add a client's hold on tensors."""
        for key in keys:
            self._holders.setdefault(key, set()).add(client)

    def drop(self, holder: int | str, keys: Iterable[str]) -> list[str]:
        """End a holder's hold on tensors; returns tensors without a holder now."""
        free = []
        for key in keys:
            holders = self._holders.get(key, set())
            holders.discard(holder)
            if not holders:
                self._holders.pop(key, None)
                free.append(key)
        return free

    def wants(self, client: int, job: str) -> None:
        """A client has submitted or attached to a job: the client holds the results, now or when they come."""
        if job in self._results:
            self.hold(client, self.results(job))
        else:
            self._owner.setdefault(job, set()).add(client)

    def ended(self, job: str, results: Sequence[str]) -> list[str]:
        """Add the results of an ended job; returns keys without a holder."""
        if job in self._results:
            return []  # told twice
        owners = self._owner.pop(job, set())
        free = []
        for key in results:
            if owners:
                self._holders.setdefault(key, set()).update(owners)
            elif self._outlives:
                self._holders.setdefault(key, set()).add(job)
            elif key not in self._holders:
                free.append(key)
        kept = self._inputs.pop(job, ())
        free += self.drop(job, [key for key in kept if key not in results])
        self._results[job] = list(results)
        while len(self._results) > REMEMBERED_JOBS:
            free += self.forget(next(iter(self._results)))
        return free

    def forget(self, job: str) -> list[str]:
        """End a job's hold on results; returns keys without a holder now."""
        return self.drop(job, self._results.pop(job, ()))

    def left(self, client: int) -> list[str]:
        """End all holds of a client; returns keys without a holder now."""
        wanted = [job for job, owners in self._owner.items() if client in owners]  # they may read what it holds
        for job in wanted:
            self._owner[job].discard(client)
        held = [key for key, holders in self._holders.items() if client in holders]
        if self._outlives:
            giver = {key: job for job, keys in self._results.items() for key in keys}
            for key in held:
                if key in giver:
                    self._holders[key].add(giver[key])
            for job in wanted:
                self.keep_for(job, held)
        return self.drop(client, held)

    def keep_for(self, job: str, keys: Sequence[str]) -> None:
        """Hold tensors for a job until its end, since a job that has not begun yet may read them."""
        for key in keys:
            self._holders[key].add(job)
        self._inputs.setdefault(job, []).extend(keys)

    def is_held(self, key: str) -> bool:
        """Whether a tensor has a holder."""
        return key in self._holders

    def results(self, job: str) -> list[str]:
        """Results of a job that have a holder."""
        return [key for key in self._results.get(job, ()) if key in self._holders]


class Lease:
    """Ends after `seconds` without clients and jobs; never where `seconds` is infinite.

    Examples
    --------
    >>> lease = Lease(10.0, now=0.0)
    >>> lease.update(clients=0, active=True, now=5.0)
    inf
    >>> lease.update(clients=0, active=False, now=7.0)
    17.0
    >>> lease.is_over(16.9), lease.is_over(17.0)
    (False, True)
    """

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = seconds
        self._ends = now + seconds

    def update(self, clients: int, active: bool, now: float) -> float:
        """Note the number of clients and whether jobs run; returns the end of the lease, infinity while the cluster
        is used.
        """
        if clients or active:
            self._ends = math.inf
        elif self._ends == math.inf:
            self._ends = now + self.seconds
        return self._ends

    def is_over(self, now: float) -> bool:
        """Whether the lease has ended."""
        return now >= self._ends
