"""Memory and status of several hosts as of one: sums, and workers under names of their hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jmars.model.status import HostStatus

__all__ = ["NOTHING", "emptied", "merged_memory", "merged_status", "summed"]

NOTHING: HostStatus = {
    "workers": [],
    "queued": {},
    "line": [],
    "waiting": {},
    "reading": [],
    "memory": {"capacity": 0, "used": 0, "jobs": {}, "kept": 0, "viewed": 0, "promised": 0, "graphs": 0},
    "disk": {"writes": 0, "reads": 0, "nbytes": 0, "seconds": 0.0, "full": ""},
    "deaths": [],
}


def summed(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums of numbers by name, of nested mappings too; of other values the first that is not empty.

    Examples
    --------
    >>> summed([{"a": 1, "of": {"b": 2}, "full": ""}, {"a": 3, "of": {"b": 4, "c": 1}, "full": "no"}])
    {'a': 4, 'of': {'b': 6, 'c': 1}, 'full': 'no'}
    """
    found: dict[str, Any] = {}
    for one in told:
        for name, value in one.items():
            known = found.get(name)
            if isinstance(value, Mapping):
                found[name] = summed([known or {}, value])
            elif isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = value + (known or 0)
            else:
                found[name] = known or value
    return found


def emptied(told: Mapping[str, Any]) -> dict[str, Any]:
    """The same names with numbers that are 0, for a cluster without hosts.

    Examples
    --------
    >>> emptied({"a": 1, "of": {"b": 2.5}, "full": "no"})
    {'a': 0, 'of': {'b': 0}, 'full': ''}
    """
    return {
        name: emptied(one) if isinstance(one, Mapping) else "" if isinstance(one, str) else 0
        for name, one in told.items()
    }


def merged_status(status_by_host: Mapping[str, HostStatus]) -> HostStatus:
    """Status of all hosts, for who asks why a job does not move; by name of the host."""

    def named(host: str, key: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [{**row, key: f"{host}/{row[key]}"} for row in rows]

    told: list[Any] = [NOTHING, *status_by_host.values()]
    lists: Callable[[str], list[Any]] = lambda name: [row for one in told for row in one[name]]  # noqa: E731
    return {
        "workers": [row for host, one in status_by_host.items() for row in named(host, "name", one["workers"])],
        "queued": summed([one["queued"] for one in told]),
        "line": lists("line"),
        "waiting": summed([one["waiting"] for one in told]),
        "reading": lists("reading"),
        "memory": summed([one["memory"] for one in told]),  # type: ignore[typeddict-item]
        "disk": summed([one["disk"] for one in told]),  # type: ignore[typeddict-item]
        "deaths": [row for host, one in status_by_host.items() for row in named(host, "worker", one["deaths"])],
    }


def merged_memory(told: Mapping[int, Mapping[str, Any]], workers: list[dict[str, Any]]) -> dict[str, Any]:
    """Memory of all hosts for a MEMORY_CHANGED event.

    Parameters
    ----------
    told
        By number of the host.
    workers
        Rows of the workers of all hosts that ever were.
    """
    names = ["used", "device", "device_memory", "resident", "limit", "peak"]
    names += ["spilled", "spilled_total", "reloaded_total"]
    sums = {name: sum(one[name] for one in told.values()) for name in names}
    own = ("used", "resident", "spilled", "limit")
    hosts = [{"host": number} | {name: one[name] for name in own} for number, one in told.items()]
    return sums | {"workers": workers, "hosts": hosts}
