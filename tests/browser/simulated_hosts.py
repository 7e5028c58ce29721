"""Turns a simulated run into one on several hosts: names, memory, transfers, and a host that is lost."""

from __future__ import annotations

from typing import Any

from tests.browser.simulated import simulate


def on_hosts(n_hosts: int, n_workers: int, lost_at: float | None = None, **settings: Any) -> list[list[Any]]:
    """Events of `simulate` on hosts of equal size; the last host is lost after `lost_at` seconds, the run goes on."""
    events = simulate(n_workers=n_workers, **settings)
    each, start = n_workers // n_hosts, events[0][1]
    names = [f"host-{i // each}/worker-{i % each}" for i in range(n_workers)]
    found = [
        [0, start - 1.0, "HostMoved", "", {"host": i + 1, "name": f"host-{i}", "state": "joined", "why": ""}]
        for i in range(n_hosts)
    ]
    is_lost = False
    for seq, time, kind, job, data in events:
        if lost_at is not None and time - start >= lost_at and not is_lost:
            is_lost = True
            gone = {"host": n_hosts, "name": f"host-{n_hosts - 1}", "state": "lost", "why": "its connection was cut"}
            found += [[seq, time, "WorkerMoved", "", _lost(i, names[i])] for i in range(n_workers - each, n_workers)]
            found.append([seq, time, "HostMoved", "", gone])
        if kind == "GraphBuilt":
            data["workers"] = names
        elif kind == "WorkerMoved":
            data["name"] = names[data["worker"]]
        elif kind == "MemoryChanged":
            for row, name in zip(data["workers"], names, strict=True):
                row["name"] = name
            share = {name: data[name] // n_hosts for name in ("used", "resident", "spilled", "limit")}
            data["hosts"] = [{"host": i + 1} | share for i in range(n_hosts - is_lost)]
            source, target = seq % n_hosts, (seq // n_hosts) % n_hosts
            if seq % 7 == 0 and source != target and target < n_hosts - is_lost:
                moved = {"from": source + 1, "to": target + 1, "chunks": 1, "bytes": 16 * 2**20, "seconds": 0.05}
                found.append([seq, time, "ChunksMoved", "", moved])
        found.append([seq, time, kind, job, data])
    return [[number, *event[1:]] for number, event in enumerate(found, 1)]


def _lost(number: int, name: str) -> dict[str, Any]:
    return {"worker": number, "name": name, "pid": 0, "state": "lost"}
