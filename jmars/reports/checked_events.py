"""Checks the events of a file before they are folded: types, and numbers by which memory is reserved."""

from __future__ import annotations

import math
from typing import Any

from jmars.model.events import GRAPH_BUILT, Event

__all__ = ["checked_events"]

_OPERANDS = 10_000_000  # of a graph, before fusion and after
_WORKERS = 65_536


def checked_events(told: Any) -> list[Event]:
    """The events, if all are well formed.

    Parameters
    ----------
    told
        What a file holds.

    Raises
    ------
    ValueError
        If it is no list of events, or an event asks for more memory than a run needs.

    Examples
    --------
    >>> checked_events([[1, 10.0, "JobSubmitted", "job-1", {"name": "one"}]])
    [[1, 10.0, 'JobSubmitted', 'job-1', {'name': 'one'}]]
    >>> checked_events([[1, 10.0, "WorkerMoved", "", {"worker": 10**9}]])
    Traceback (most recent call last):
    ValueError: event 1 names worker 1000000000
    """
    if not isinstance(told, list):
        raise ValueError("it holds no list of events")
    for at, event in enumerate(told, 1):
        if not isinstance(event, list) or len(event) != 5:
            raise ValueError(f"event {at} is no event")
        seq, time, kind, job, data = event
        number = isinstance(time, float | int) and math.isfinite(time) and abs(time) < 1e12
        if not (isinstance(seq, int) and number and isinstance(kind, str) and isinstance(job, str)):
            raise ValueError(f"event {at} has no number, time, kind or job")
        if not isinstance(data, dict):
            raise ValueError(f"event {at} has no data")
        worker = data.get("worker", -1)
        if not isinstance(worker, int) or not -1 <= worker < _WORKERS:
            raise ValueError(f"event {at} names worker {worker!r:.40}")
        if kind == GRAPH_BUILT:
            sizes = [data.get(name) for name in ("n_before", "n_after")]
            if not all(isinstance(size, int) and 0 <= size <= _OPERANDS for size in sizes):
                raise ValueError(f"event {at} has a graph of {sizes!r:.80} operands")
    return told
