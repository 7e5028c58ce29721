"""Metrics of the cluster and the gateway in Prometheus's text format; docs/reference/rest.md names them.

Source: Prometheus, "Exposition formats" 0.0.4, https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["METRICS", "METRICS_TYPE", "exposition"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METRICS = {  # name: type and what it counts
    "jmars_workers": ("gauge", "Worker processes, by state."),
    "jmars_worker_restarts_total": ("counter", "Worker processes that were replaced."),
    "jmars_worker_operands_total": ("counter", "Operands that workers have finished."),
    "jmars_jobs": ("gauge", "Jobs that the cluster remembers, by state."),
    "jmars_operands": ("gauge", "Operands of the jobs that the cluster remembers, by state."),
    "jmars_memory_limit_bytes": ("gauge", "Memory that all processes of the cluster may take together."),
    "jmars_memory_resident_bytes": ("gauge", "Memory that they take."),
    "jmars_memory_peak_bytes": ("gauge", "The most that they took."),
    "jmars_store_capacity_bytes": ("gauge", "Shared memory for chunks and scratch."),
    "jmars_store_used_bytes": ("gauge", "Shared memory in use."),
    "jmars_chunks": ("gauge", "Chunks in memory or on disk."),
    "jmars_spilled_bytes": ("gauge", "Bytes of chunks that lie on disk."),
    "jmars_spilled_bytes_total": ("counter", "Bytes of chunks that were written to disk."),
    "jmars_reloaded_bytes_total": ("counter", "Bytes of chunks that came back from disk."),
    "jmars_web_sessions": ("gauge", "Sessions of this gateway."),
    "jmars_web_requests_total": ("counter", "Requests that this gateway answered, by method and status."),
    "jmars_web_bytes_total": ("counter", "Bytes of arrays through this gateway, by direction."),
}
Sample = tuple[str, Mapping[str, str], float]


def exposition(
    info: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], counts: Mapping[tuple[str, ...], int], sessions: int
) -> str:
    """Writes all metrics as text.

    Parameters
    ----------
    info, jobs
        Answers of the host actor's `info` and the session actor's `jobs`.
    counts
        The gateway's counters: ("requests", method, status) and ("bytes", direction).
    sessions
        Number of open sessions.
    """
    lines: list[str] = []
    samples = [*_of_cluster(info, jobs), ("jmars_web_sessions", {}, sessions), *_of_gateway(counts)]
    for name, (kind, help_text) in METRICS.items():
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        for found, labels, value in samples:
            if found == name:
                told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
                lines.append(f"{name}{{{told}}} {value}" if told else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _of_cluster(info: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[Sample]:
    workers, memory = info["workers"], info["memory"]
    operands: Counter[str] = Counter()
    for job in jobs:
        operands.update(job["counts"])
    arena = memory["arena"]
    found: list[Sample] = [
        ("jmars_worker_restarts_total", {}, sum(one["restarts"] for one in workers)),
        ("jmars_worker_operands_total", {}, sum(one["done"] for one in workers)),
        ("jmars_memory_limit_bytes", {}, memory["limit"]),
        ("jmars_memory_resident_bytes", {}, memory["resident"]),
        ("jmars_memory_peak_bytes", {}, memory["peak"]),
        ("jmars_store_capacity_bytes", {}, arena["capacity"]),
        ("jmars_store_used_bytes", {}, arena["used"]),
        ("jmars_chunks", {}, memory["chunks"]),
        ("jmars_spilled_bytes", {}, memory["spilled"]),
        ("jmars_spilled_bytes_total", {}, memory["spilled_total"]),
        ("jmars_reloaded_bytes_total", {}, memory["reloaded_total"]),
    ]
    for name, label, of in (
        ("jmars_workers", "state", Counter(one["state"] for one in workers)),
        ("jmars_jobs", "state", Counter(job["state"] for job in jobs)),
        ("jmars_operands", "state", operands),
    ):
        found += [(name, {label: text}, count) for text, count in sorted(of.items())]
    return found


def _of_gateway(counts: Mapping[tuple[str, ...], int]) -> list[Sample]:
    found: list[Sample] = []
    for key, count in sorted(counts.items()):
        if key[0] == "requests":
            found.append(("jmars_web_requests_total", {"method": key[1], "status": key[2]}, count))
        elif key[0] == "bytes":
            found.append(("jmars_web_bytes_total", {"direction": key[1]}, count))
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
