"""Puller: brings ranges of chunks from other hosts into the arena. Dials lanes, and acts for `Pulls`.

Lanes to a host are dialled when a job begins or a range is due, and again after they broke, less and less often while
the host does not answer. Reports are messages to the control process (processes/carrier.py).
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from jmars.transport.pull_lanes import PullLane
from jmars.transport.pulls import Holder, PullOrder, PullRange, Pulls
from jmars.transport.tls_sockets import HostIdentity
from jmars.transport.ucx_choice import TLS, UCX
from jmars.transport.ucx_reader import UcxWish
from jmars.transport.wire import MOST_PIECES, PART_BYTES

__all__ = ["Puller"]

log = logging.getLogger("jmars.transport")

LOOK_SECONDS = 0.5  # between looks for silent hosts, while pulls are under way
NEWS_SECONDS = 0.2  # between reports of one link
DIAL_SECONDS, LONGEST_DIAL = 0.05, 1.0  # before the first and the longest retry of a connection; doubled each time
SHARE = 4  # at most one fourth of the arena is under way
FEW = 8  # hosts to which lanes are dialled before there is a range to bring


class _Route:
    """Connections to a host."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.lanes: list[PullLane] = []  # open, or being dialled
        self.wait = DIAL_SECONDS  # before the next retry
        self.not_before = 0.0  # time of the next retry
        self.transport = ""  # that was chosen, "" while it is not


class Puller:
    """The pulls of this host, and the lanes of the pulls.

    Parameters
    ----------
    report
        Sends a message to the control process.
    events
        Takes events of lanes, in any thread; they come back by `event`.
    lanes
        Connections to one host, at most.
    wish
        UCX, for hosts that have it, too; None for TLS only.
    """

    def __init__(
        self,
        identity: HostIdentity,
        memory: memoryview,
        report: Callable[..., None],
        events: Callable[..., None],
        lanes: int | None = None,
        wish: UcxWish | None = None,
    ) -> None:
        self._wish = wish
        self._identity, self._memory, self._report, self._events = identity, memory, report, events
        self._context: ssl.SSLContext = identity.context(is_server=False)
        self._most_lanes = lanes or min(4, max(1, (os.cpu_count() or 1) // 4))
        self._pulls = Pulls(len(memory) // SHARE)
        self._routes: dict[Holder, _Route] = {}
        self._ranges: dict[PullLane, set[PullRange]] = {}  # under way, by lane
        self._began: dict[int, float] = {}  # time of each pull, by ticket
        self._newest = 0  # ticket
        self._looked = self._told = 0.0  # last look for silent hosts; last report of links

    # -- orders
    def add_peer(self, holder: Holder, address: str) -> None:
        """A host may be asked from here on."""
        if holder not in self._pulls.gone:
            self._routes.setdefault(holder, _Route(address)).address = address

    def drop_peer(self, holder: Holder, now: float) -> None:
        """A host is gone: cut the lanes, and pull from other holders."""
        self._pulls.drop_holder(holder, f"host {holder[0]} is gone", now)
        route = self._routes.pop(holder, None)
        for lane in route.lanes if route is not None else ():
            lane.inbox.put(("close", "the host is gone"))

    def open_lanes(self, now: float) -> None:
        """Dial each host that has no lane, if the hosts are few: a job begins, and its first range need not wait."""
        if len(self._routes) <= FEW:
            for holder, route in self._routes.items():
                if not route.lanes and now >= route.not_before:
                    self._dial(holder, route, now)

    def pull(self, pull: PullOrder, now: float) -> None:
        """Bring bytes of a chunk from the first holder that has them; "pulled" follows.

        Tickets ascend: an order that came before has no effect, since its slot may have another chunk by now.
        """
        if pull.ticket <= self._newest:
            log.info("pull %d was ordered before", pull.ticket)
            return
        self._newest = pull.ticket
        known = [holder for holder in dict.fromkeys(pull.holders) if holder in self._routes]
        if not known:
            pull.why = f"none of its holders is known here: {list(pull.holders)}"
        pull.holders = known or pull.holders[:0]
        self._began[pull.ticket] = now
        self._pulls.add(pull, now)

    def withdraw(self, ticket: int) -> None:
        """A pull is not wanted any more; "withdrawn" follows, or "pulled" where the pull has just ended."""
        if not self._pulls.withdraw(ticket) and ticket not in self._began:
            self._report("withdrawn", ticket)

    # -- events of lanes
    def event(self, kind: str, lane: PullLane, args: Sequence[Any], now: float) -> None:
        """Act on an event of a lane; no effect after the lane has closed."""
        if lane not in self._ranges:
            log.info("%s told %r after its end", lane.name, kind)
            return
        pulls, ranges = self._pulls, self._ranges[lane]
        if kind == "arrived":
            (one,) = args
            ranges.discard(one)
            pulls.arrived(one, now)
            if lane.holder in self._routes:
                self._routes[lane.holder].wait = DIAL_SECONDS
        elif kind == "trip" and lane.holder in self._routes:
            pulls.rate(lane.holder).trip(args[0])
        elif kind == "transport" and lane.holder in self._routes:
            route, (choice,) = self._routes[lane.holder], args
            if route.transport != choice.transport:
                route.transport = choice.transport
                self._report("transport", lane.holder[0], *choice)
        elif kind == "let go":
            ranges.discard(args[0])
            pulls.let_go(args[0], now)
        elif kind == "failed":
            one, why = args
            ranges.discard(one)
            pulls.failed(one, f"host {lane.holder[0]}: {why}", now)
        elif kind == "closed":
            self._closed(lane, args[0], now)

    def _closed(self, lane: PullLane, why: str, now: float) -> None:
        lane.join()
        text = f"host {lane.holder[0]}: {why or 'the lane was idle'}"
        for one in self._ranges.pop(lane):
            self._pulls.broken(one, text, now)
        route = self._routes.get(lane.holder)
        if route is None or lane not in route.lanes:
            return
        route.lanes.remove(lane)
        if why:
            self._pulls.trouble(lane.holder, text)
            route.not_before = now + route.wait
            route.wait = min(2 * route.wait, LONGEST_DIAL)

    # -- acting
    def advance(self, now: float) -> float | None:
        """Ask for ranges that are due, and report; returns seconds until the next call is needed, None without need."""
        pulls = self._pulls
        self._act()
        if len(pulls) and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            pulls.stalled(now, self._carried)
            self._act()
        wait = LOOK_SECONDS if len(pulls) else None
        for holder in pulls.waiting():
            left = self._ask(holder, self._routes[holder], now)
            wait = min(wait or LOOK_SECONDS, left)
        return self._tell_links(now, wait)

    def _tell_links(self, now: float, wait: float | None) -> float | None:
        """Report links that have changed, once in a while; returns seconds until the next call is needed."""
        changed = [holder for holder in self._routes if self._pulls.rate(holder).has_news]
        left = self._told + NEWS_SECONDS - now
        if not changed or left > 0:
            return min(wait or left, left) if changed else wait
        self._told = now
        for holder in changed:
            news = self._pulls.rate(holder).news()
            assert news is not None
            self._report("link", holder[0], *news)
        return wait

    def _act(self) -> None:
        """Carry out the actions of `Pulls`."""
        while self._pulls.actions:
            actions, self._pulls.actions = self._pulls.actions, []
            for kind, *args in actions:
                if kind == "let go":
                    args[0].lane.inbox.put(("let go", args[0]))
                    continue
                pull = args[0]
                began = self._began.pop(pull.ticket)
                if kind == "withdrawn":
                    self._report("withdrawn", pull.ticket)
                    continue
                error = args[1]
                host = pull.holder[0] if pull.holders else -1
                if error:
                    error = f"chunk {pull.chunk} cannot be read from other hosts: {error}"
                nbytes = 0 if error else pull.stop - pull.start
                times = (pull.begun, pull.loaded, pull.received, monotonic())
                marks = [max(0, round(1e6 * (one - began))) for one in times]
                self._report("pulled", pull.ticket, error, host, nbytes, marks)

    def _ask(self, holder: Holder, route: _Route, now: float) -> float:
        """Ask a host for further ranges; returns seconds until the next try."""
        lanes = [lane for lane in route.lanes if lane.is_open]
        if lanes:
            gathered: list[PullRange] = []
            size = 0
            for one in self._pulls.ranges(holder, now):
                size += one.stop - one.start
                gathered.append(one)
                if len(gathered) == MOST_PIECES or size >= PART_BYTES:
                    self._send(lanes, gathered)
                    gathered, size = [], 0
            if gathered:
                self._send(lanes, gathered)
        busy = self._pulls.nbytes(holder) >= PART_BYTES
        if len(route.lanes) < (self._most_lanes if lanes and busy else 1) and now >= route.not_before:
            self._dial(holder, route, now)
        return LOOK_SECONDS if route.lanes else max(route.not_before - now, 0.001)

    def _send(self, lanes: list[PullLane], ranges: list[PullRange]) -> None:
        """Ask on the lane with the least under way."""
        lane = lanes[0] if len(lanes) == 1 else min(lanes, key=self._nbytes)
        for one in ranges:
            one.lane = lane
        self._ranges[lane].update(ranges)
        lane.inbox.put(("ask", ranges))

    def _nbytes(self, lane: PullLane) -> int:
        return sum(one.stop - one.start for one in self._ranges[lane])

    def _dial(self, holder: Holder, route: _Route, now: float) -> None:
        wish = self._wish
        if wish is not None:
            wish = None if route.transport == TLS else replace(wish, is_known=route.transport == UCX)
        lane = PullLane(holder, route.address, self._context, self._identity, self._memory, self._events, wish)
        try:
            lane.start()
        except RuntimeError as error:  # the system has no thread left
            lane.inbox.close()
            route.not_before = now + LONGEST_DIAL
            self._pulls.trouble(holder, f"no connection to host {holder[0]}: {error}")
            return
        self._ranges[lane] = set()
        route.lanes.append(lane)

    def _carried(self, holder: Holder) -> float:
        """Time of the last byte of a chunk from a host; the time of this look while the two hosts agree on UCX."""
        route = self._routes.get(holder)
        lanes = route.lanes if route is not None else ()
        return max((self._looked if lane.is_agreeing else lane.carried for lane in lanes), default=0.0)
