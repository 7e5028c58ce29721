"""Finds clusters of this user by their registry files and keeps a connection to each.

The browser never sees a socket or a token, and no kernel takes part. The time line of a cluster over all its jobs has a
lane for each worker, bounded however many jobs there are. Pieces carry the name of their job, such as "In [12]";
neighbours are merged when there are too many (`LaneState`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict

from jmars.actors import ActorChannel, Mailbox, connect, registry, remote_method
from jmars.actors.registry import Entry
from jmars.errors import ClusterLostError, ClusterStoppedError
from jmars.model.events import JOB_SUBMITTED, OPERANDS_TIMED, WORKER_MOVED, Event
from jmars.model.timing import spans
from jmars.notebook.tab_states import LaneState
from jmars.notebook.view import Lanes, plain_text

ANSWER = 3.0  # seconds that a cluster may take to answer
_STOPS = 100  # stopped clusters that are remembered


class _Reports:
    """Takes the report of a stop; ignores the other reports, since the side bar reads the same from events."""

    def __init__(self, stopped: Callable[[str], None]) -> None:
        self._stopped = stopped

    @remote_method
    def ended(self, report: Any) -> None:
        """Ignore the end of a job."""

    @remote_method
    def stalled(self, *report: Any) -> None:
        """Ignore the reason why a job does not move."""

    @remote_method
    def printed(self, *told: Any) -> None:
        """Ignore lines that functions print: the kernel shows them."""

    @remote_method
    def scaled(self, *facts: Any) -> None:
        """Ignore a new number of workers."""

    @remote_method
    def broken(self, *report: Any) -> None:
        """Ignore the end of the cluster, which closes the connection, too."""

    @remote_method
    def stopped(self, by: str) -> None:
        """Note a stop of the cluster."""
        self._stopped(str(by)[:100])


class ClusterFinder:
    """Connects to clusters by id and calls their actors; used on the Jupyter server's event loop only."""

    def __init__(self) -> None:
        self._channels: dict[str, ActorChannel] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.histories: dict[str, ClusterHistory] = defaultdict(ClusterHistory)  # of clusters with a visible time line
        self._stopped: dict[str, str] = {}  # by cluster: where the request came from

    def entries(self) -> list[Entry]:
        """The registered clusters, by id."""
        found = registry.entries()
        for gone in self.histories.keys() - {entry.id for entry in found}:
            del self.histories[gone]
        return found

    async def ask(self, cluster: str, actor: str, method: str, *args: Any, seconds: float = ANSWER) -> Any:
        """Calls `actor.method(*args)` on a cluster and returns the answer, within so many seconds.

        Raises
        ------
        KeyError
            If no such cluster is registered.
        ClusterLostError
            If the cluster does not answer in time.
        """
        entry = next((entry for entry in self.entries() if entry.id == cluster), None)
        if entry is None:
            raise KeyError(cluster)
        try:
            async with asyncio.timeout(seconds):
                kept = self._channels.get(cluster)
                channel = await self._channel(entry)
                try:
                    return await channel.ask(actor, method, *args)
                except ClusterLostError:
                    if channel is not kept:
                        raise
                # The kept connection had ended unnoticed: try a new connection.
                self._drop(cluster)
                return await (await self._channel(entry)).ask(actor, method, *args)
        except TimeoutError:
            self._drop(cluster)
            raise ClusterLostError(
                f"cluster {cluster} has not answered for {seconds:g} s; it may be stopped or very busy: try again"
            ) from None

    async def stop(self, cluster: str, by: str) -> None:
        """Ends a cluster for all clients; raises the errors of `ask`."""
        self._note_stop(cluster, by)
        try:
            await self.ask(cluster, "host", "close", by)
        except BaseException:
            self._stopped.pop(cluster, None)
            raise

    def end_of(self, cluster: str) -> ClusterLostError | None:
        """The end of a cluster; None for a registered cluster that was not stopped."""
        if cluster in self._stopped:
            return ClusterStoppedError(f"the cluster was stopped {self._stopped[cluster]}".rstrip())
        is_here = any(entry.id == cluster for entry in self.entries())
        return None if is_here else ClusterLostError("the cluster has ended")

    def close(self) -> None:
        """Closes all connections."""
        for cluster in list(self._channels):
            self._drop(cluster)

    async def _channel(self, entry: Entry) -> ActorChannel:
        """The open connection to a cluster, or a new connection."""
        async with self._locks.setdefault(entry.id, asyncio.Lock()):
            channel = self._channels.get(entry.id)
            if channel is None or channel.closed:
                self._forget_ended()
                mailbox = Mailbox()
                mailbox.add("jobs", _Reports(partial(self._note_stop, entry.id)))
                channel = self._channels[entry.id] = await connect(entry.socket, entry.token, mailbox)
            return channel

    def _note_stop(self, cluster: str, by: str) -> None:
        self._stopped[cluster] = by
        for old in list(self._stopped)[:-_STOPS]:
            del self._stopped[old]

    def _forget_ended(self) -> None:
        for cluster in [cluster for cluster, channel in self._channels.items() if channel.closed]:
            del self._channels[cluster]
        self._locks = {cluster: lock for cluster, lock in self._locks.items() if lock.locked()}

    def _drop(self, cluster: str) -> None:
        channel = self._channels.pop(cluster, None)
        if channel is not None:
            channel.close()


MOST_NAMES = 200  # jobs and workers whose names are kept


class HistoryPart(TypedDict):
    """The time line as a page gets it."""

    begun: float  # seconds since the epoch
    elapsed: float  # seconds from there to the newest piece
    jobs: int
    operands: int
    workers: list[str]  # names by number
    lanes: Lanes


@dataclass
class ClusterHistory:
    """Folds the events of all jobs of a cluster.

    Examples
    --------
    >>> ClusterHistory().part() is None
    True
    """

    since: int = 0  # number of the newest event that was folded
    begun: float = 0.0
    newest: float = 0.0
    jobs: int = 0
    operands: int = 0
    lanes: LaneState = field(default_factory=LaneState)
    _names: dict[str, str] = field(default_factory=dict)  # of jobs, the newest last
    _workers: dict[int, str] = field(default_factory=dict)

    def fold(self, events: Iterable[Event], upto: int) -> None:
        """Adds events; `upto` is the number to read on from."""
        self.since = upto
        for _, time, kind, job, data in events:
            if kind == JOB_SUBMITTED:
                self.jobs += job not in self._names
                self._names[job] = plain_text(data.get("name") or job, 60)
                while len(self._names) > MOST_NAMES:
                    del self._names[next(iter(self._names))]
            elif kind == WORKER_MOVED and int(data["worker"]) < MOST_NAMES:
                self._workers[int(data["worker"])] = plain_text(data.get("name") or "", 60)
            elif kind == OPERANDS_TIMED:
                self._timed(time, job, data)

    def _timed(self, time: float, job: str, data: dict[str, Any]) -> None:
        found = spans(time, data)
        if not len(found):
            return
        self.begun = self.begun or float(found[:, 0].min())
        self.newest = max(self.newest, time)
        self.operands += len(found)
        name = self._names.get(job, job)
        self.lanes.add(int(data["worker"]), found, self.begun, [name] * len(found))

    def part(self) -> HistoryPart | None:
        """The time line so far; None before any operand ran."""
        lanes = self.lanes.part({})
        if lanes is None:
            return None
        names = [self._workers.get(number) or f"worker-{number}" for number in range(1 + max(self.lanes.parts))]
        return HistoryPart(
            begun=round(self.begun, 3),
            elapsed=round(self.newest - self.begun, 3),
            jobs=self.jobs,
            operands=self.operands,
            workers=names,
            lanes=lanes,
        )
