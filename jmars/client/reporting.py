"""Reports of jobs: `Job.report`, `Job.save`, figures and drawings, and `jmars.performance_report`.

`jmars.reports` makes figures and pages of events; the module is imported on first use.

A run as a Chrome trace, for https://ui.perfetto.dev and chrome://tracing.

`trace_of` makes the trace from events alone: a thread per worker with a slice per operand, within it slices for
computing and storing, beside it asynchronous slices for waits for memory and inputs; counters of memory and spill; a
thread of the scheduler; marks where workers went, chunks were lost or a job did not move.
Source: https://chromium.googlesource.com/catapult, "Trace Event Format" (JSON Object Format).
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jmars.client.cluster_registry import open_clusters
from jmars.errors import ClusterError
from jmars.model import events
from jmars.model.events import Event
from jmars.model.status import TERMINAL
from jmars.model.timing import STATES, spans
from jmars.reports.run_record import OperandNames, RunRecord
from jmars.tensor.atomic_file import write_atomically

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

READ_SECONDS = 0.5  # between two looks at the log, which is bounded


@contextmanager
def performance_report(path: str | os.PathLike[str], cluster: Any = None) -> Iterator[None]:
    """Within the block, record all jobs of a cluster; at the end, write the report to a file.

    The file is an HTML page that needs no server and no network: jobs with predicted and measured figures, operands by
    worker, memory, transfers between hosts, seconds by kind of operand and by line. After an error in the block the
    report is written too.

    Parameters
    ----------
    path
        File to write.
    cluster
        The default cluster by default: the newest open cluster, at the beginning of the block or else at its end.

    Raises
    ------
    ClusterError
        If no cluster is open at the end of the block.
    FileNotFoundError
        If the folder of `path` is not there; before the block runs.
    JmarsError
        If Bokeh is not installed; before the block runs.

    Examples
    --------
    >>> import os, tempfile
    >>> import jmars, jmars.tensor as mt
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "report.html")
    >>> with jmars.Cluster(n_workers=1), jmars.performance_report(path):
    ...     float(mt.ones((100, 100), chunk_size=50).sum())
    10000.0
    >>> "100 % of" in open(path).read() or os.path.getsize(path) > 10_000
    True
    >>> folder.cleanup()
    """
    from jmars.reports import figures

    figures.bokeh("plotting")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"no folder {Path(path).absolute().parent} for the report; make the folder first")
    found = cluster or next(reversed(open_clusters()), None)
    recorder = None if found is None else _Recorder(found)
    try:
        yield
    finally:
        if recorder is None:
            found = next(reversed(open_clusters()), None)
            if found is None:
                raise ClusterError("no cluster ran in the block of performance_report; start one with jmars.Cluster()")
            record = RunRecord.of(all_events(found, ""))
        else:
            record = recorder.close()
        write_atomically(path, figures.report_page(record, f"jmars: {Path(path).stem}"))


class _Recorder:
    """Reads the log of a cluster while a block runs, from now on."""

    def __init__(self, cluster: Any) -> None:

        self._cluster, self._record = cluster, RunRecord()
        self._known: set[str] = {job["id"] for job in cluster.jobs() if job["state"] not in ("preparing", "running")}
        self._since = 0
        self._read()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jmars-report", daemon=True)
        self._thread.start()

    def close(self) -> RunRecord:
        """The record, with the last events."""
        self._end.set()
        self._thread.join()
        if not self._cluster.closed:
            self._read()
        return self._record

    def _run(self) -> None:
        while not self._end.wait(READ_SECONDS) and not self._cluster.closed:
            try:
                self._read()
            except ClusterError:  # it was closed meanwhile: the record ends here
                return

    def _read(self) -> None:
        while True:
            found, upto = self._cluster.events(self._since)
            for event in found:
                if event[3] not in self._known:  # of jobs that ended before the block
                    self._record.take(event)
            if upto <= self._since:
                return
            self._since = upto


_SCHEDULER = 1  # its thread; those of the workers begin behind it
_MARKS = {events.WORKER_MOVED, events.HOST_MOVED, events.CHUNKS_LOST, events.REPLANNED, events.STALLED}
_MARKS |= {events.SCHEDULER_MOVED}
_COUNTERS = {"memory": ("used", "resident"), "spill": ("spilled",)}


class _Trace:
    """The records of a job, in microseconds since submission."""

    def __init__(self, job: str) -> None:
        self.records: list[dict[str, Any]] = []
        self.names = OperandNames()  # of the newest stage
        self.complete = False  # its first event was still there
        self._job = job
        self._zero: float | None = None
        self._workers: dict[int, str] = {}
        self._state: tuple[str, float] | None = None
        self._ends: dict[int, float] = {}  # when each worker's last operand did
        self._number = 0

    def take(self, log: Iterable[Event]) -> None:
        """Events in their order."""
        last = 0.0
        for _, time, kind, job, data in log:
            if job not in ("", self._job):
                continue
            if self._zero is None:
                if not job:
                    continue  # from before it was submitted
                self._zero, self.complete = time, kind == events.JOB_SUBMITTED
            last = max(last, time)
            if kind == events.GRAPH_BUILT:
                self._built(time, data)
            elif kind == events.JOB_MOVED:
                self._moved(time, data)
            elif kind == events.JOB_PREPARED:
                self._prepared(time, data)
            elif kind == events.OPERANDS_TIMED:
                self._ran(time, data)
            elif kind == events.MEMORY_CHANGED:
                self._memory(time, data)
            elif kind in _MARKS:
                self._mark(time, kind, data)
        if self._state is not None:
            self._close(last)

    def finished(self) -> list[dict[str, Any]]:
        """All records, with the names of the threads."""
        threads = {_SCHEDULER: "scheduler"} | {_thread(one): name for one, name in self._workers.items()}
        named = [_meta("process_name", 0, name="jmars")]
        for thread, name in sorted(threads.items()):
            named += [_meta("thread_name", thread, name=name), _meta("thread_sort_index", thread, sort_index=thread)]
        return named + sorted(self.records, key=lambda one: (one["ts"], -one.get("dur", 0)))

    def _add(self, kind: str, name: str, time: float, thread: int, **more: Any) -> None:
        assert self._zero is not None
        at = max(0, round((time - self._zero) * 1e6))
        self.records.append({"ph": kind, "name": name, "ts": at, "pid": 1, "tid": thread} | more)

    def _slice(self, name: str, begin: float, end: float, thread: int, cat: str, **args: Any) -> None:
        assert self._zero is not None
        first, last = (max(0, round((time - self._zero) * 1e6)) for time in (begin, end))
        self._add("X", name, begin, thread, dur=max(0, last - first), cat=cat, args=args)

    def _waited(self, name: str, begin: float, end: float, thread: int, **args: Any) -> None:
        """A slice that may overlap other slices of its thread."""
        self._number += 1
        for kind, time in (("b", begin), ("e", end)):
            self._add(kind, name, time, thread, cat="waits", id=self._number, args=args)

    def _built(self, time: float, data: Mapping[str, Any]) -> None:
        for number, name in enumerate(data["workers"]):
            self._workers.setdefault(number, str(name))
        self.names = OperandNames.of(data)
        words = f"stage {data.get('stage_number') or 1} begins"
        self._add("i", words, time, _SCHEDULER, s="t", args={"operands": int(data["n_after"])})

    def _prepared(self, time: float, data: Mapping[str, Any]) -> None:
        """Slices of phases, one after the other until now."""
        phases = [(str(name), float(seconds)) for name, seconds in data["phases"]]
        begun = time - sum(seconds for _, seconds in phases)
        for name, seconds in phases:
            begin, begun = begun, begun + seconds
            if self._state is not None:  # it lies within "preparing"; a job's clock may be a moment behind
                self._slice(name, max(begin, self._state[1]), max(begun, self._state[1]), _SCHEDULER, "phase")

    def _moved(self, time: float, data: Mapping[str, Any]) -> None:
        if self._state is not None:
            self._close(time)
        state = str(data["state"])
        if state in TERMINAL:
            error = {"error": data["error"]} if data.get("error") else {}
            self._add("i", state, time, _SCHEDULER, s="p", args=error)
        else:
            self._state = state, time

    def _close(self, time: float) -> None:
        assert self._state is not None
        state, begun = self._state
        self._slice(state, begun, time, _SCHEDULER, "job")
        self._state = None

    def _ran(self, time: float, data: Mapping[str, Any]) -> None:
        worker = int(data["worker"])
        self._workers.setdefault(worker, f"worker-{worker}")
        thread = _thread(worker)
        for row in spans(time, data).tolist():
            name, args = self._about(int(row[5]))
            # a report comes a moment late, so that the next operand may have begun before it: slices must not overlap
            row[2:5] = [max(self._ends.get(worker, 0.0), one) for one in row[2:5]]
            self._ends[worker] = row[4]
            self._slice(name, row[2], row[4], thread, "operand", **args)
            for state in (2, 3):
                if row[state + 1] > row[state]:
                    self._slice(STATES[state], row[state], row[state + 1], thread, "state")
            for state in (0, 1):
                if row[state + 1] > row[state]:
                    self._waited(STATES[state], row[state], row[state + 1], thread, **args)

    def _memory(self, time: float, data: Mapping[str, Any]) -> None:
        for name, fields in _COUNTERS.items():
            self._add("C", name, time, 0, args={field: int(data.get(field, 0)) for field in fields})

    def _mark(self, time: float, kind: str, data: Mapping[str, Any]) -> None:
        shown = {name: value for name, value in data.items() if isinstance(value, str | int | float | bool)}
        thread = _thread(int(data["worker"])) if isinstance(data.get("worker"), int) else _SCHEDULER
        self._add("i", f"{kind} {data.get('state', '')}".strip(), time, thread, s="t", args=shown)

    def _about(self, operand: int) -> tuple[str, dict[str, Any]]:
        """Name and arguments of an operand's slice."""
        name, line = self.names.about(operand)
        return name, {"operand": operand} | ({"line": line} if line else {})


def trace_of(log: Iterable[Event], job: str) -> dict[str, Any]:
    """A trace in the JSON Object Format.

    Parameters
    ----------
    log
        Events of the job and of its cluster, in their order.
    job
        Its id.

    Examples
    --------
    >>> log = [[1, 10.0, "JobSubmitted", "job-1", {"name": "In [1]"}],
    ...        [2, 10.0, "JobMoved", "job-1", {"state": "preparing", "error": None, "elapsed": 0.0}],
    ...        [3, 10.5, "JobMoved", "job-1", {"state": "succeeded", "error": None, "elapsed": 0.5}]]
    >>> [(one["name"], one["ts"], one.get("dur")) for one in trace_of(log, "job-1")["traceEvents"] if one["ph"] != "M"]
    [('preparing', 0, 500000), ('succeeded', 500000, None)]
    """
    trace = _Trace(job)
    trace.take(log)
    other = {"job": job, "complete": trace.complete, "program": "jmars"}
    return {"traceEvents": trace.finished(), "displayTimeUnit": "ms", "otherData": other}


def all_events(cluster: Cluster, job: str, since: int = 0) -> list[Event]:
    """All that the cluster's log still has of a job and of the cluster, after event number `since`."""
    found: list[Event] = []
    while True:
        part, upto = cluster.ask("session", "read", since, job)
        found += part
        if upto <= since:
            return found
        since = upto


def write_trace(cluster: Cluster, job: str, path: str | os.PathLike[str]) -> Path:
    """Write the trace of a job to a file, atomically; returns the path."""
    return write_atomically(path, json.dumps(trace_of(all_events(cluster, job), job), separators=(",", ":")))


def _thread(worker: int) -> int:
    return _SCHEDULER + 1 + worker


def _meta(kind: str, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "ts": 0, "pid": 1, "tid": thread, "args": args}
