"""Membership: the hosts of a cluster that are here, by beats and silence.

Pure: takes beats with the time, and returns changes. Any message of a host is a beat. A process beside the host's
control process may vouch for the host: then membership waits for a busy control process, and names a stopped process.

    joining ──joined──▶ here ──3 s silent──▶ suspect ──8 s in all, 60 if vouched for──▶ gone
                         ▲                     │
                         └────────beat─────────┘

A host stays gone under the same incarnation: chunks are lost, messages are refused. The host may join again under a
higher incarnation, and no number is used twice. Source: Gray and Cheriton 1989 (leases).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jmars.actors.tls import Identity

JOIN_SECONDS = 60.0
STALL_SECONDS = 1.0  # between two looks of a head that was stalled itself


@dataclass(frozen=True)
class SilenceLimits:
    """Seconds of silence before a host is suspect, and gone; `busy`: for hosts with a witness."""

    suspect: float = 3.0
    gone: float = 8.0
    busy: float = 60.0


@dataclass(frozen=True)
class HostSuspect:
    """A host is silent: the host gets no new work, and keeps running work."""

    identity: Identity
    why: str


@dataclass(frozen=True)
class HostBack:
    """A suspect host is heard again."""

    identity: Identity
    silent: float  # seconds


@dataclass(frozen=True)
class HostGone:
    """A host is gone for good under this incarnation.

    `how` is "silent", "stopped" (the control process is stopped, though the machine answers), "busy" (its control
    process is busy for too long), "late" (it did not join) or "ended" (it left, or its process has ended).
    """

    identity: Identity
    how: str
    why: str


Change = HostSuspect | HostBack | HostGone


@dataclass(slots=True)
class _Known:
    state: str  # "joining", "here", "suspect"
    heard: float  # when it was heard last
    ends: float = math.inf  # when it must have joined
    vouched: float = -math.inf  # when somebody vouched for it last
    stopped: float = 0.0  # seconds for which its control process was stopped then


class Membership:
    """The hosts of a cluster. Times are seconds of a monotonic clock.

    Examples
    --------
    >>> membership = Membership()
    >>> host = membership.expect(3, now=0.0)
    >>> membership.joined(host, now=1.0)
    >>> [membership.look(now) for now in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5)]
    [[], [], [], [], [], []]
    >>> membership.look(now=4.0)
    [HostSuspect(identity=Identity(host=3, incarnation=1), why='host 3 has not been heard for 3 s')]
    >>> membership.beat(host, heard=4.2)
    [HostBack(identity=Identity(host=3, incarnation=1), silent=3.2)]
    """

    def __init__(self, silence: SilenceLimits | None = None) -> None:
        self.silence = silence or SilenceLimits()
        self._known: dict[Identity, _Known] = {}
        self._gone: dict[Identity, tuple[float, str]] = {}  # when and why
        self._incarnations: dict[int, int] = {}  # of each host the highest
        self._looked = math.inf  # time of the last look

    # -- what is known
    def state(self, identity: Identity) -> str:
        """State of a host: "joining", "here", "suspect" or "gone"; "" for a host that was never expected."""
        known = self._known.get(identity)
        return known.state if known else "gone" if identity in self._gone else ""

    def refuses(self, identity: Identity, now: float) -> str:
        """Why a host may not connect; "" for a host that may."""
        if identity in self._known:
            return ""
        if identity in self._gone:
            since, why = self._gone[identity]
            return f"{_called(identity)} was given up {now - since:.0f} s ago: {why}; it can join as a new incarnation"
        return f"{_called(identity)} is not expected; let the cluster make a ticket for it"

    # -- what happens
    def expect(self, host: int, now: float, seconds: float = JOIN_SECONDS) -> Identity:
        """A host of this number is started, and must join within `seconds`; returns a new identity."""
        incarnation = self._incarnations[host] = self._incarnations.get(host, 0) + 1
        identity = Identity(host, incarnation)
        self._known[identity] = _Known("joining", now, now + seconds)
        self._looked = min(self._looked, now)
        return identity

    def joined(self, identity: Identity, now: float) -> None:
        """An expected host joins and replaces the incarnation before."""
        known = self._known.get(identity)
        if known is not None and known.state == "joining":
            known.state, known.heard, known.ends = "here", now, math.inf
            for other in [one for one in self._known if one.host == identity.host and one < identity]:
                self.end(other, now, f"{_called(other)} joined again as incarnation {identity.incarnation}")

    def beat(self, identity: Identity, heard: float) -> list[Change]:
        """A host was heard at this time, perhaps some time ago; what tells nothing new is ignored, and hosts that are
        gone are.
        """
        known = self._known.get(identity)
        if known is None or heard <= known.heard:
            return []
        silent, known.heard, known.stopped = heard - known.heard, heard, 0.0
        if known.state != "suspect":
            return []
        known.state = "here"
        return [HostBack(identity, round(silent, 3))]

    def vouch(self, identity: Identity, now: float, stopped: float = 0.0) -> list[Change]:
        """A process beside the control process of a host tells that both are there.

        Parameters
        ----------
        stopped
            Seconds for which the control process has been stopped; 0 where it runs.
        """
        known = self._known.get(identity)
        if known is None:
            return []
        known.vouched, known.stopped = now, stopped
        return self._judge(identity, known, now)

    def look(self, now: float) -> list[Change]:
        """Judge all hosts by their silence; call it several times a second.

        Where the call comes late this process did not run itself: what hosts said meanwhile is not read yet, so the
        delay is no silence of theirs.
        """
        late, self._looked = now - self._looked, now
        if late > STALL_SECONDS:
            for known in self._known.values():
                known.heard = min(known.heard + late, now)
                known.vouched = min(known.vouched + late, now)
                known.ends += late
        return [one for identity, known in list(self._known.items()) for one in self._judge(identity, known, now)]

    def end(self, identity: Identity, now: float, why: str) -> list[Change]:
        """A host has left, or its process has ended, as `why` says."""
        if identity not in self._known:
            return []
        return [self._end(identity, now, "ended", why)]

    # -- own
    def _judge(self, identity: Identity, known: _Known, now: float) -> list[Change]:
        if known.state == "joining":
            if now < known.ends:
                return []
            return [self._end(identity, now, "late", f"{_called(identity)} did not join in time")]
        silent = now - known.heard
        how, since, limit = self._case(known, now)
        if now - since >= limit:
            return [self._end(identity, now, how, _reason(identity, how, now - since))]
        if silent >= self.silence.suspect and known.state == "here":
            known.state = "suspect"
            return [HostSuspect(identity, _reason(identity, how, now - since))]
        return []

    def _case(self, known: _Known, now: float) -> tuple[str, float, float]:
        """What is wrong with a silent host, since when, and for how many seconds that is borne."""
        if known.stopped:
            return "stopped", known.vouched - known.stopped, self.silence.gone
        if now - known.vouched < self.silence.suspect:
            return "busy", known.heard, self.silence.busy
        return "silent", max(known.heard, known.vouched), self.silence.gone

    def _end(self, identity: Identity, now: float, how: str, why: str) -> HostGone:
        del self._known[identity]
        self._gone[identity] = now, why
        return HostGone(identity, how, why)


def _reason(identity: Identity, how: str, seconds: float) -> str:
    if how == "stopped":
        return f"the control process of host {identity.host} has been stopped for {seconds:.3g} s; continue it"
    if how == "busy":
        return f"the control process of host {identity.host} runs, and has said nothing for {seconds:.3g} s"
    return f"host {identity.host} has not been heard for {seconds:.3g} s"


def _called(identity: Identity) -> str:
    return f"host {identity.host} (incarnation {identity.incarnation})"
