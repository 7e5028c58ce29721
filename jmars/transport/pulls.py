"""Pulls: chooses holders, and ranges to ask for. Pure: events in, actions out.

A pull brings bytes of a chunk into a slot of this host. Holders are asked in order of preference; all bytes of a pull
come from the same holder, so that bytes of two copies are never mixed. Ranges of the lowest urgency are asked first; at
most max(4 MiB, 2 · bandwidth · round trip) is under way from a host, so that an urgent pull waits for little. After 5 s
without a byte the next holder is asked; the last holder has longer than the 8 s after which a silent host is gone. No
slot is given back before the lane that writes there has let go.

`LinkRate` measures the link from a host on pulls. Bandwidth is bytes by seconds of a busy time, from the first request
until no bytes are under way. Short busy times measure latency rather than bandwidth and are left out. Latency is the
shortest of the last round trips, since a busy link delays the rest.
Source: docs/explanation/seeds.md, "Memory management"; RFC 6817, section 3.4 (base delay).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from jmars.storage.chunks import ChunkRange
from jmars.transport.wire import MOST_ASKED, PART_BYTES

Holder = tuple[int, int]  # host, incarnation

WINDOW_BYTES = 4 * 2**20  # bytes under way from a host, at least
STALL_SECONDS = 5.0  # without a byte, until the next holder is asked
LAST_SECONDS = 15.0  # the same for the last holder
MOST_BREAKS = 3  # broken connections for a pull at a holder


@dataclass(eq=False, slots=True)
class PullOrder:
    """A range to pull, and the state of the pull."""

    ticket: int
    wanted: ChunkRange
    holders: Sequence[Holder]
    at: int = 0  # holder that is asked now
    asked: float = 0.0  # time when this holder was asked first
    todo: list[tuple[int, int]] = field(default_factory=list)  # ranges to ask for, the next range last
    left: int = 0  # bytes that have not arrived
    ranges: set[PullRange] = field(default_factory=set)  # under way
    breaks: int = 0  # of connections, since the holder was asked
    broke: Any = None  # the connection that broke last
    ending: str = ""  # "next holder" or "withdrawn", as soon as all lanes have let go
    why: str = ""  # reason of the last holder that failed
    is_queued: bool = False
    begun: float = 0.0  # time when the first range was asked for, of the holder that is asked now
    loaded: float = 0.0  # time of the first byte: the holder has the chunk in hand
    received: float = 0.0  # time of the last byte

    @property
    def holder(self) -> Holder:
        """The holder that is asked now."""
        return self.holders[min(self.at, len(self.holders) - 1)]

    @property
    def urgency(self) -> int:
        """Urgency as a number, as hosts send it: operands of earlier jobs go first, whatever their ranks."""
        job, rank = self.wanted.urgency
        return (job << 32) + rank


@dataclass(eq=False, slots=True)
class PullRange:
    """A range of a pull that is under way."""

    pull: PullOrder
    source: _Source
    start: int
    stop: int
    lane: Any = None  # lane that was asked
    key: tuple[int, int] = (0, 0)  # ticket and piece on that lane
    first: float = 0.0  # time of the first byte, and of the last byte
    last: float = 0.0

    @property
    def offset(self) -> int:
        """Offset of the range's first byte in the arena."""
        return self.pull.wanted.offset + self.start - self.pull.wanted.start


class _Source:
    """Pulls and ranges of a host."""

    def __init__(self) -> None:
        self.queue: list[tuple[int, int, PullOrder]] = []  # heap by urgency
        self.pulls: set[PullOrder] = set()  # at this holder
        self.under_way = 0  # bytes
        self.nranges = 0  # under way
        self.since = 0.0  # time since which bytes are awaited
        self.rate = LinkRate()

    @property
    def window(self) -> int:
        """Bytes that may be under way."""
        return max(WINDOW_BYTES, int(2 * self.rate.bandwidth * self.rate.latency))


class Pulls:
    """The pulls of a host.

    Parameters
    ----------
    room
        Bytes that may be under way from all hosts.

    Attributes
    ----------
    gone
        Holders that are not asked any more.
    actions
        What to do, drained by the caller: `("let go", range)`, after which `let_go` must be called; `("pulled", pull,
        error)`; `("withdrawn", pull)`.
    """

    def __init__(self, room: int) -> None:
        self.gone: set[Holder] = set()
        self.actions: list[tuple[Any, ...]] = []
        self._room = room
        self._under_way = 0  # bytes
        self._sources: dict[Holder, _Source] = {}
        self._by_ticket: dict[int, PullOrder] = {}
        self._number = 0  # arrival breaks ties of urgency

    def __len__(self) -> int:
        return len(self._by_ticket)

    def waiting(self) -> list[Holder]:
        """Holders with ranges to ask for."""
        return [holder for holder, source in self._sources.items() if source.queue and source.pulls]

    def nbytes(self, holder: Holder) -> int:
        """Bytes under way from a holder."""
        source = self._sources.get(holder)
        return 0 if source is None else source.under_way

    def rate(self, holder: Holder) -> LinkRate:
        """Bandwidth and latency of the link from a holder."""
        return self._source(holder).rate

    # -- orders
    def add(self, pull: PullOrder, now: float) -> None:
        """A new pull."""
        self._by_ticket[pull.ticket] = pull
        pull.at = -1
        self._next_holder(pull, now)

    def withdraw(self, ticket: int) -> bool:
        """A pull is not wanted any more; returns whether "withdrawn" follows."""
        pull = self._by_ticket.get(ticket)
        if pull is None:
            return False
        self._leave(pull, "withdrawn", "", 0.0)
        return True

    def drop_holder(self, holder: Holder, why: str, now: float) -> None:
        """A host is gone: pull from other holders."""
        self.gone.add(holder)
        source = self._sources.pop(holder, None)
        for pull in list(source.pulls) if source is not None else ():
            self._leave(pull, "next holder", why, now)

    # -- asking
    def ranges(self, holder: Holder, now: float) -> list[PullRange]:
        """Ranges to ask a holder for now, in order of urgency; they count as under way from here on."""
        source = self._sources.get(holder)
        found: list[PullRange] = []
        if source is None:
            return found
        window = source.window
        while source.queue:
            pull = source.queue[0][2]
            if pull.ending or not pull.todo or pull not in source.pulls:
                heappop(source.queue)
                if pull in source.pulls:
                    pull.is_queued = False
                continue
            if source.under_way >= window or (self._under_way and self._under_way >= self._room):
                break
            if not source.nranges:
                source.since = now
                source.rate.begin(now)
            pull.begun = pull.begun or now
            found.append(self._cut(source, pull, min(max(window // 2, PART_BYTES), MOST_ASKED)))
        return found

    def _cut(self, source: _Source, pull: PullOrder, most: int) -> PullRange:
        """The next range of a pull."""
        start, stop = pull.todo.pop()
        if stop - start > most:
            pull.todo.append((start + most, stop))
            stop = start + most
        found = PullRange(pull, source, start, stop)
        pull.ranges.add(found)
        source.nranges += 1
        source.under_way += stop - start
        self._under_way += stop - start
        return found

    # -- answers
    def arrived(self, one: PullRange, now: float) -> None:
        """A range has arrived whole."""
        pull, size = one.pull, one.stop - one.start
        pull.loaded = min(pull.loaded or one.first, one.first)
        pull.received = max(pull.received, one.last)
        self._end_range(one)
        one.source.since = now
        one.source.rate.moved(size, one.last or now)  # this thread hears of several ranges at once
        pull.left -= size
        if pull.ending:
            self._settle(pull, now)
        elif not pull.left and not pull.ranges and not pull.todo:
            self._finish(pull, "")

    def failed(self, one: PullRange, why: str, now: float) -> None:
        """The holder does not have a range, or sent damaged bytes; the lane has let go."""
        self._end_range(one)
        self._leave(one.pull, "next holder", why, now)

    def broken(self, one: PullRange, why: str, now: float) -> None:
        """The connection broke under a range: ask again, a few times."""
        pull = one.pull
        self._end_range(one)
        if one.lane is None or one.lane is not pull.broke:
            pull.broke = one.lane
            pull.breaks += 1
        if pull.ending or pull.breaks >= MOST_BREAKS:
            self._leave(pull, "next holder", why, now)
            return
        pull.why = why
        pull.todo.append((one.start, one.stop))
        self._queue(pull)

    def let_go(self, one: PullRange, now: float) -> None:
        """A lane writes no more of a range."""
        self._end_range(one)
        self._settle(one.pull, now)

    def stalled(self, now: float, heard: Callable[[Holder], float]) -> None:
        """Leave holders that are silent for long; `heard` gives the time of the last byte of a chunk from a holder."""
        for holder, source in list(self._sources.items()):
            silent = now - max(source.since, heard(holder))
            if silent < STALL_SECONDS:
                continue
            for pull in list(source.pulls):
                waited = min(silent, now - pull.asked)
                if waited >= (STALL_SECONDS if self._has_next(pull) else LAST_SECONDS) and not pull.ending:
                    why = f"host {holder[0]} sent nothing for {waited:.0f} s"
                    self._leave(pull, "next holder", f"{why} ({pull.why})" if pull.why else why, now)

    def trouble(self, holder: Holder, why: str) -> None:
        """No connection to a holder can be made now: pulls wait, and tell the reason if they fail."""
        for pull in self._source(holder).pulls:
            pull.why = why

    # -- own
    def _leave(self, pull: PullOrder, ending: str, why: str, now: float) -> None:
        """Have all lanes let go of a pull; then the ending follows."""
        first = not pull.ending
        if pull.ending != "withdrawn":
            pull.ending = ending
        pull.why = why or pull.why
        if first:
            self.actions += [("let go", one) for one in pull.ranges]
        self._settle(pull, now)

    def _settle(self, pull: PullOrder, now: float) -> None:
        """All lanes may have let go of a pull that is to end here."""
        if pull.ranges or not pull.ending or pull.ticket not in self._by_ticket:
            return
        if pull.ending == "withdrawn":
            self._forget(pull)
            self.actions.append(("withdrawn", pull))
        else:
            self._next_holder(pull, now)

    def _next_holder(self, pull: PullOrder, now: float) -> None:
        self._leave_source(pull)
        pull.at += 1
        while pull.at < len(pull.holders) and pull.holders[pull.at] in self.gone:
            pull.why = f"host {pull.holders[pull.at][0]} is gone"
            pull.at += 1
        if pull.at >= len(pull.holders):
            self._finish(pull, pull.why or "no host has it")
            return
        source = self._source(pull.holder)
        if not source.pulls:
            source.since = now
        source.pulls.add(pull)
        pull.ending, pull.breaks, pull.asked, pull.is_queued = "", 0, now, False
        pull.begun = pull.loaded = pull.received = 0.0
        _, start, stop, *_ = pull.wanted
        pull.todo, pull.left = [(start, stop)], stop - start
        self._queue(pull)

    def _queue(self, pull: PullOrder) -> None:
        if not pull.is_queued:
            pull.is_queued = True
            self._number += 1
            heappush(self._source(pull.holder).queue, (pull.urgency, self._number, pull))

    def _has_next(self, pull: PullOrder) -> bool:
        return any(holder not in self.gone for holder in pull.holders[pull.at + 1 :])

    def _source(self, holder: Holder) -> _Source:
        return self._sources.setdefault(holder, _Source())

    def _end_range(self, one: PullRange) -> None:
        size = one.stop - one.start
        one.pull.ranges.discard(one)
        one.source.nranges -= 1
        one.source.under_way -= size
        self._under_way -= size

    def _leave_source(self, pull: PullOrder) -> None:
        if 0 <= pull.at < len(pull.holders) and pull.holder in self._sources:
            self._sources[pull.holder].pulls.discard(pull)

    def _finish(self, pull: PullOrder, error: str) -> None:
        self._forget(pull)
        self.actions.append(("pulled", pull, error))

    def _forget(self, pull: PullOrder) -> None:
        self._leave_source(pull)
        del self._by_ticket[pull.ticket]


ENOUGH = 2**20  # bytes of a busy time that tell a bandwidth
NEWEST = 0.3  # weight of the newest bandwidth
TRIPS = 16  # round trips that are kept


class LinkRate:
    """Measures a link.

    Attributes
    ----------
    bandwidth
        Bytes a second; 0.0 before the first measurement.

    Examples
    --------
    >>> rate = LinkRate()
    >>> rate.begin(now=1.0)
    >>> rate.moved(2**21, now=1.5)
    >>> rate.bandwidth
    4194304.0
    """

    def __init__(self) -> None:
        self.bandwidth = 0.0
        self.trips: deque[float] = deque(maxlen=TRIPS)
        self._since = 0.0  # begin of the busy time, or of the time since its last measurement
        self._bytes = 0  # moved since then
        self._told = (0.0, 0.0)

    @property
    def latency(self) -> float:
        """Seconds of a round trip."""
        return min(self.trips, default=0.0)

    def begin(self, now: float) -> None:
        """A request goes out on an idle link."""
        self._since, self._bytes = now, 0

    def moved(self, nbytes: int, now: float) -> None:
        """Bytes have arrived."""
        self._bytes += nbytes
        if self._bytes >= ENOUGH and now > self._since:
            newest = self._bytes / (now - self._since)
            self.bandwidth += (newest - self.bandwidth) * (NEWEST if self.bandwidth else 1.0)
            self._since, self._bytes = now, 0

    @property
    def has_news(self) -> bool:
        """Whether `news` has something to tell."""
        return bool(self.bandwidth) and (self.bandwidth, self.latency) != self._told

    def news(self) -> tuple[float, float] | None:
        """Bandwidth and latency if they have changed since the last call."""
        if not self.has_news:
            return None
        self._told = (self.bandwidth, self.latency)
        return self._told
