"""The actors of a cluster's clients; they release a client's holds when the client is gone.

A channel has own actors "session" and "store" with notes of the client's holds, so that several clients use a cluster
at once and later clients attach to jobs.

References: clients' holds on tensors that they computed, uploaded or attached to.

A tensor without a holder is dropped. A client's end ends all holds of the client; on a cluster that outlives clients,
results that the client still held stay with the jobs that made them, for as long as these jobs are remembered. Decides
alone; `clients` acts. Source: docs/decisions/0026-whose-tensors.md.

ReusableValues: tensors that later jobs of any client find by value keys; tensors without a holder (ghosts) stay as long
as there is room. Decides alone, too. Source: docs/decisions/0072-values-of-earlier-runs.md.

Lease: how long an unused detached cluster lives on.

Plain: the host reports clients and jobs with the time, and asks when to look again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from jmars.actors import remote_method
from jmars.errors import ClusterError
from jmars.model.limits import KEPT_SHARE, REMEMBERED_JOBS
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
    capacity
        Gives the bytes of memory for chunks.
    """

    def __init__(self, session: SessionActor, store: ChunkStore, outlives: bool, capacity: Callable[[], int]) -> None:
        self.session, self.store = session, store
        self.references = References(outlives)
        self.values = ReusableValues(capacity)
        self.results: dict[str, tuple[bool, Sequence[Any]]] = {}  # by job: `Submission.results`
        self._keyed: dict[str, tuple[float, Submission]] = {}  # by job: begin, and submission with value keys
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
        self._note_values(job)
        left = dict.fromkeys(report["results"])
        if report["state"] == JobState.SUCCEEDED:  # and what was here before
            _, descriptors = self.results.get(job, (False, ()))
            left |= dict.fromkeys(one[0] for one in descriptors if self.references.is_held(one[0]))
        self.drop(self.references.ended(job, list(left)))
        for old in list(self.reports)[:-REMEMBERED_JOBS]:
            del self.reports[old]
            self.results.pop(old, None)
            self.submitters.pop(old, None)
            self._keyed.pop(old, None)
        return True

    def submitted(self, job: str, submission: Submission, begun: float) -> None:
        """A job with value keys was begun, and may have ended since."""
        self._keyed[job] = begun, submission
        self._note_values(job)

    def _note_values(self, job: str) -> None:
        """Let later jobs find the results of an ended job; a job that warned must warn again, so they do not."""
        report = self.reports.get(job)
        if report is None or job not in self._keyed:
            return
        begun, submission = self._keyed.pop(job)
        if report["state"] == JobState.SUCCEEDED and not report.get("warned"):
            self.values.add(job, submission, report.get("settled") or {}, time.monotonic() - begun)

    def drop(self, keys: Sequence[str]) -> None:
        """Free tensors without a holder, except tensors that a later job may find."""
        if going := self.values.unheld(keys):
            self.session.drop(going)


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
        clients, begun = self._clients, time.monotonic()
        if going := clients.values.make_room(submission):
            self._session.drop(going)
        job = await self._session.submit(submission)
        if job:
            clients.submitters[job] = self._client.pid
            if submission.results:
                clients.results[job] = submission.results[0], submission.results[1]
            if submission.values:
                clients.submitted(job, submission, begun)
            self._wants(job)
        return job

    @remote_method
    def find_values(self, values: Sequence[bytes]) -> list[bytes]:
        """Those of these value keys of which the cluster may have the value."""
        return [one for one in values if one in self._clients.values]

    @remote_method
    async def take_values(self, values: Sequence[bytes]) -> list[Any]:
        """Hold the values of value keys.

        Returns (key of the tensor, whether this client held it before, chunks, job and seconds of it) for each, None
        where the cluster has no value, or has lost chunks of it.
        """
        clients, number = self._clients, self._client.number
        found = [clients.values.find(one) for one in values]
        keys = [one.key for one in found if one is not None]
        before = {key for key in keys if clients.references.holds(number, key)}
        clients.references.hold(number, keys)
        clients.values.held(keys)
        gone = set(await self._session.unreadable(keys)) if keys else set()
        clients.values.remove(gone)
        self.drop([key for key in gone if key not in before])
        if self._client.gone and not self._client.lasts:
            clients.drop(clients.references.left(number))
        return [
            None if one is None or one.key in gone else (one.key, one.key in before, one.chunks, one.job, one.seconds)
            for one in found
        ]

    @remote_method
    def lost(self, keys: Sequence[str]) -> None:
        """Release this client's holds on tensors with lost chunks: no job finds them any more."""
        self._clients.values.remove(keys)
        self.drop(keys)

    @remote_method
    def forget_values(self) -> None:
        """Let no job find the present values, and free the values without a holder."""
        if going := self._clients.values.forget():
            self._session.drop(going)

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

    def holds(self, client: int, key: str) -> bool:
        """Whether a client holds a tensor."""
        return client in self._holders.get(key, ())

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


class ReusableValue(NamedTuple):
    """A tensor with a value key."""

    key: str
    value: bytes  # the value key
    chunks: Sequence[Sequence[int]]  # lengths, also those that the run told
    nbytes: int
    job: str  # that computed it
    seconds: float  # of that job
    cost: float  # seconds for each byte


class ReusableValues:
    """Tensors by value key; tensors without a holder are ghosts, and the ghosts that cost least per byte go first.

    Parameters
    ----------
    capacity
        Gives the bytes of memory for chunks; ghosts take at most a share of it.

    Examples
    --------
    >>> values = ReusableValues(lambda: 800_000)
    >>> for key in "ab":
    ...     told = [(key, "<f8", [[20_000]], None)]
    ...     values.add("job-1", Submission(b"", results=(True, told), values=[(key.encode() * 16, 8)]), {}, 1.0)
    >>> values.unheld(["a", "c"]), values.unheld(["b"])
    (['c'], ['a'])
    """

    def __init__(self, capacity: Callable[[], int]) -> None:
        self._capacity = capacity
        self._kept: dict[str, ReusableValue] = {}  # by key of the tensor
        self._newest: dict[bytes, str] = {}  # key of the newest tensor of a value key
        self._ghosts: dict[str, None] = {}
        self._held_bytes = self._ghost_bytes = 0

    def __contains__(self, value: bytes) -> bool:
        return value in self._newest

    def find(self, value: bytes) -> ReusableValue | None:
        """The newest tensor of a value key."""
        key = self._newest.get(value)
        return None if key is None else self._kept[key]

    def add(self, job: str, submission: Submission, settled: dict[str, Any], seconds: float) -> None:
        """Add the results of a job; `settled` has the lengths that the run told."""
        rows = [
            (told[0], value, chunks, _nbytes(chunks, itemsize))
            for told, (value, itemsize) in zip((submission.results or (False, ()))[1], submission.values, strict=True)
            if value and (chunks := settled.get(told[0], told[2])) is not None
        ]
        cost = seconds / max(1, sum(nbytes for *_, nbytes in rows))
        for key, value, chunks, nbytes in rows:
            self.remove([key])
            self._kept[key] = ReusableValue(key, value, chunks, nbytes, job, seconds, cost)
            self._newest[value] = key
            self._held_bytes += nbytes

    def held(self, keys: Iterable[str]) -> None:
        """A client holds these tensors."""
        for key in keys:
            if self._ghosts.pop(key, self) is None:
                self._move(self._kept[key].nbytes)

    def unheld(self, keys: Sequence[str]) -> list[str]:
        """No client holds these tensors any more; returns the tensors to free."""
        going = []
        for key in keys:
            one = self._kept.get(key)
            if one is not None and self._newest.get(one.value) == key and len(one.value) == KEY_BYTES:
                if key not in self._ghosts:
                    self._ghosts[key] = None
                    self._move(-one.nbytes)
            else:
                self.remove([key])
                going.append(key)
        return going + self._trim(self._capacity())

    def make_room(self, submission: Submission) -> list[str]:
        """Free ghosts until the results of a job have room; returns the tensors to free."""
        told = (submission.results or (False, ()))[1]
        nbytes = [_nbytes(one[2] or (), size) for one, (_, size) in zip(told, submission.values, strict=False)]
        return self._trim(self._capacity() - self._held_bytes - sum(nbytes))

    def remove(self, keys: Iterable[str]) -> None:
        """Let no job find these tensors."""
        for key in keys:
            one = self._kept.get(key)
            if one is not None:
                self.held([key])
                del self._kept[key]
                self._held_bytes -= one.nbytes
                if self._newest.get(one.value) == key:
                    del self._newest[one.value]

    def forget(self) -> list[str]:
        """Remove all; returns the tensors to free."""
        going = list(self._ghosts)
        self.remove(list(self._kept))
        return going

    def _move(self, nbytes: int) -> None:
        """Count bytes of ghosts as bytes of held tensors."""
        self._held_bytes += nbytes
        self._ghost_bytes -= nbytes

    def _trim(self, room: int) -> list[str]:
        """Remove the cheapest ghosts until the others take a share of the memory at most, and `room`; a tenth more, so
        that this is rare.
        """
        room = min(room, self._capacity() // KEPT_SHARE)
        if self._ghost_bytes <= room:
            return []
        going = []
        for one in sorted(map(self._kept.__getitem__, self._ghosts), key=lambda one: one.cost):
            if self._ghost_bytes <= 0.9 * room:
                break
            going.append(one.key)
            self.remove([one.key])
        return going


KEY_BYTES = 16  # of a value key that a later job may have
LEAST_BYTES = 4096  # for which a small tensor counts, so that there are not too many


def _nbytes(chunks: Sequence[Sequence[int]], itemsize: int) -> int:
    """Bytes of a tensor."""
    return max(LEAST_BYTES, math.prod(map(sum, chunks)) * itemsize)


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
