"""Folds events to the hosts of the view: state and memory of each, and the chunks that came from other hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jmars.notebook.view import HostHeading, LinkRow, plain_text

__all__ = ["HostState"]

_TOLD = 0.5  # seconds between two reports of a host about arrivals, at most
_ARRIVALS = 40  # marks of arrived chunks for each host


@dataclass
class _Arrival:
    """Chunks that came from other hosts."""

    begin: float  # seconds on the view's time axis
    end: float
    nbytes: int
    n: int = 1  # events

    def joined(self, other: _Arrival) -> _Arrival:
        """Merges the arrival with the next one."""
        return _Arrival(self.begin, other.end, self.nbytes + other.nbytes, self.n + other.n)


@dataclass
class HostState:
    """The hosts of a cluster by number; none for a cluster that is not one of several hosts.

    Examples
    --------
    >>> hosts = HostState()
    >>> hosts.moved({"host": 4, "name": "host-4", "state": "lost", "why": "its process has ended"}, 12.0)
    >>> row, = hosts.headings(first=10.0)
    >>> row["name"], row["state"], row["since"], hosts.of_worker("host-4/worker-1"), hosts.of_worker("worker-1")
    ('host-4', 'lost', 2.0, 0, -1)
    """

    known: dict[int, dict[str, Any]] = field(default_factory=dict)  # name, state, why, time
    memory: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # the newest row of MemoryChanged
    links: dict[tuple[int, int], Mapping[str, Any]] = field(default_factory=dict)  # by source and reader
    arrivals: dict[int, list[_Arrival]] = field(default_factory=dict)  # in order, of the run
    most: dict[int, int] = field(default_factory=dict)  # by host: events in each of its arrivals but the last

    def moved(self, data: Mapping[str, Any], time: float) -> None:
        """Notes a new state of a host; `time` is in seconds since the epoch."""
        told = {name: plain_text(data.get(name), 400) for name in ("name", "state", "why")}
        self.known[int(data["host"])] = {**told, "time": time}
        self.known = dict(sorted(self.known.items()))
        if data["state"] in ("lost", "left"):
            self.links = {pair: link for pair, link in self.links.items() if data["host"] not in pair}

    def linked(self, data: Mapping[str, Any]) -> None:
        """Notes a measured link."""
        self.links[int(data["from"]), int(data["to"])] = data
        self.links = dict(sorted(self.links.items()))

    def measured(self, data: Mapping[str, Any]) -> None:
        """Notes measured memory."""
        self.memory = {int(row["host"]): row for row in data.get("hosts", ())}

    def arrived(self, data: Mapping[str, Any], at: float) -> None:
        """Notes chunks that came to a host until `at`, in seconds on the view's time axis."""
        found = self.arrivals.setdefault(int(data["to"]), [])
        most = self.most.setdefault(int(data["to"]), 1)
        took = min(float(data["seconds"]), _TOLD)  # a sum over transfers that may overlap
        begin = max(at - took, found[-1].end if found else 0.0)
        arrival = _Arrival(min(begin, at), at, int(data["bytes"]))
        if found and found[-1].n < most:
            found[-1] = found[-1].joined(arrival)
        else:
            found.append(arrival)
        if len(found) > _ARRIVALS:
            found[:] = [a.joined(b) for a, b in zip(found[::2], found[1::2])] + found[len(found) // 2 * 2 :]
            self.most[int(data["to"])] *= 2

    def of_worker(self, name: str) -> int:
        """Row in `headings` of the host of a worker, by the worker's name; -1 for none."""
        host = name.rpartition("/")[0]
        return next((at for at, one in enumerate(self.known.values()) if one["name"] == host), -1)

    def headings(self, first: float | None) -> list[HostHeading]:
        """A heading for each host that ever was, in the order of their numbers; `first` is the time axis's zero."""
        return [self._heading(number, one, first) for number, one in self.known.items()]

    def _heading(self, number: int, one: Mapping[str, Any], first: float | None) -> HostHeading:
        memory = self.memory.get(number, {}) if one["state"] not in ("lost", "left") else {}
        arrivals = self.arrivals.get(number, [])
        return HostHeading(
            name=one["name"],
            state=one["state"],
            why=one["why"],
            since=0.0 if first is None else round(one["time"] - first, 3),
            memory=int(memory.get("resident", 0)),
            limit=int(memory.get("limit", 0)),
            spilled=int(memory.get("spilled", 0)),
            received=sum(arrival.nbytes for arrival in arrivals),
            begin=[round(arrival.begin, 3) for arrival in arrivals],
            end=[round(arrival.end, 3) for arrival in arrivals],
            nbytes=[arrival.nbytes for arrival in arrivals],
            links=[self._link(source, link) for (source, reader), link in self.links.items() if reader == number],
        )

    def _link(self, source: int, link: Mapping[str, Any]) -> LinkRow:
        name = self.known[source]["name"] if source in self.known else f"host {source}"
        transport = plain_text(link["transport"], 40)
        return LinkRow(
            source=name, bandwidth=float(link["bandwidth"]), latency=float(link["latency"]), transport=transport
        )
