"""SavedRun: the events of a job in a file, to look at later, on any machine, without a cluster.

`RunReports` has the methods by which saved runs and jobs report.

A file is a line of text, then compressed msgpack: no code is in it, so a file of somebody else is safe to read. Events
are checked before they are folded: types, and numbers by which memory is reserved.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgpack
import msgspec

from jmars.errors import ClusterError, JmarsError
from jmars.model.events import GRAPH_BUILT, Event
from jmars.reports.run_record import RunRecord
from jmars.tensor.atomic_file import write_atomically
from jmars.units import format_bytes, format_seconds

_HEAD = b"jmars run 1\n"
_LARGEST = 128 * 2**20  # bytes of events in a file
_MOST = 1_000_000  # events, and entries of a list or table in an event
# errors of reading and folding the events of a damaged file
DAMAGES = (zlib.error, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, msgpack.UnpackException)
_SUMMARY_ROWS = 8  # of a table in a summary


class RunReports:
    """What a run tells of itself, of its events alone: base class of `Job` and `SavedRun`."""

    def _log(self) -> tuple[Sequence[Event], str, str]:
        """Events of the run and of its cluster, in their order; id and name of the job."""
        raise NotImplementedError

    def _record(self) -> RunRecord:
        """The run so far as columns."""
        events, job, _ = self._log()
        return RunRecord.of(events, [job])

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a report of the run so far as an HTML page that needs no server and no network; returns the path.

        Operands by worker, memory and spill, transfers between hosts, seconds by kind of operand and by line, and
        predicted beside measured figures. Raises JmarsError without Bokeh (`pip install "jmars[reports]"`).
        """
        from jmars.reports.figures import report_page

        return write_atomically(path, report_page(self._record(), f"jmars: {self._log()[2]}"))

    def timeline(self) -> Any:
        """Operands by worker over time, as a Bokeh figure; see `report`."""
        from jmars.reports.figures import timeline

        return timeline(self._record())

    def memory(self) -> Any:
        """Memory and spilled bytes over time, as a Bokeh figure; see `report`."""
        from jmars.reports.figures import memory

        return memory(self._record())

    def visualize(
        self, path: str | os.PathLike[str] | None = None, *, fusion: str = "both", colour: str = "kind"
    ) -> Any:
        """Draw the graph of the newest stage before and after fusion; notebooks show the result.

        Parameters
        ----------
        path
            File to write: .svg, .png, .pdf, or .dot for Graphviz's text; None for none.
        fusion
            "before", "after" or "both".
        colour
            Of the operands after fusion: by "kind", "state", "worker" or "seconds". Graphs of more than 300 operands
            are drawn by layers, coloured by kind.

        Raises
        ------
        ClusterError
            If the job has no graph.
        JmarsError
            If Graphviz is not installed.
        """
        from jmars.reports.graph_dot import Drawing, OperandFacts, graph_dot

        events, job, _ = self._log()
        facts = OperandFacts.of(events, job)
        if facts.graph is None:
            raise ClusterError(f"{job} has no graph: it is prepared still, or ended before its first operands")
        drawing = Drawing(graph_dot(facts.graph, fusion, facts.colours(colour)))
        if path is not None:
            drawing.save(path)
        return drawing


class SavedRun(RunReports):
    """A run that was saved by `Job.save`.

    Attributes
    ----------
    job, name
        Id and name of the job.
    events
        Events of the job and of its cluster, in their order; docs/reference/events.md explains them.

    Raises
    ------
    JmarsError
        If the file holds no run, a damaged run, or a run of a later version of jmars.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        data = Path(path).read_bytes()
        if not data.startswith(_HEAD):
            later = data.startswith(_HEAD[:10])
            raise JmarsError(
                f"{os.fspath(path)} was saved by a later version of jmars; install that version"
                if later
                else f"{os.fspath(path)} holds no run; save one by job.save(path)"
            )
        try:
            unpacker = zlib.decompressobj()
            packed = unpacker.decompress(data[len(_HEAD) :], _LARGEST)
            if not unpacker.eof:
                raise ValueError("it is cut off, or too large")
            told = msgpack.unpackb(packed, strict_map_key=False, max_array_len=_MOST, max_map_len=_MOST)
            self.job, self.name, self.events = str(told["job"]), str(told["name"]), checked_events(told["events"])
            self.record = RunRecord.of(self.events, [self.job])
        except DAMAGES as error:
            raise damaged(path, error) from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.job}: {len(self.record.operands):,} operands>"

    def _log(self) -> tuple[Sequence[Event], str, str]:
        return self.events, self.job, self.name or self.job

    def _record(self) -> RunRecord:
        return self.record

    def summary(self) -> str:
        """The run in some lines of text: jobs, seconds by kind of operand and by line, what happened."""
        record = self.record
        lines = [repr(self)[1:-1]]
        for job in record.jobs.values():
            predicted = f", predicted {format_seconds(job.predicted['makespan'])}" if job.predicted else ""
            peak = f", peak {format_bytes(job.measured['peak'])}" if job.measured.get("peak") else ""
            took = format_seconds((job.ended or record.end) - job.begun)
            lines.append(f"  {job.name or job.id}: {job.state} after {took}{predicted}{peak}")
            lines += [f"    {job.error}"] if job.error else []
        lines += _table("seconds by kind", record.by("kind")) + _table("seconds by line", record.by("line"))
        return "\n".join([*lines, *(f"  {at:.2f} s: {text}" for at, text in record.marks[:_SUMMARY_ROWS])])


def damaged(path: str | os.PathLike[str], error: Exception) -> JmarsError:
    """The error to raise about a damaged file."""
    return JmarsError(f"the run in {os.fspath(path)} is damaged ({error}); save it again")


def save_run(path: str | os.PathLike[str], events: Sequence[Event], job: str, name: str) -> Path:
    """Write events to a file, atomically; returns the path. Raises as `packed_run`."""
    return write_atomically(path, packed_run(events, job, name))


def packed_run(events: Sequence[Event], job: str, name: str) -> bytes:
    """The bytes of a file of a run.

    Raises
    ------
    JmarsError
        If the events are larger than `SavedRun` reads.
    """
    packed = msgpack.packb({"job": job, "name": name, "events": list(events)})
    if len(packed) > _LARGEST:
        raise JmarsError(f"the run of {job} has {len(packed)} bytes of events, more than the {_LARGEST} of a file")
    return _HEAD + zlib.compress(packed, 6)


def _table(title: str, rows: Sequence[tuple[str, float, int]]) -> list[str]:
    if not rows:
        return []
    return [f"  {title}:"] + [
        f"    {seconds:8.3f}  {count:7,}  {text}" for text, seconds, count in rows[:_SUMMARY_ROWS]
    ]


_OPERANDS = 10_000_000  # of a graph, before fusion and after
_WORKERS = 65_536
_Time = Annotated[float, msgspec.Meta(gt=-1e12, lt=1e12)]
_Event = tuple[int, _Time, str, str, dict[str, Any]]


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
    msgspec.convert(told, list[_Event])
    for at, (_, _, kind, _, data) in enumerate(told, 1):
        worker = data.get("worker", -1)
        if not isinstance(worker, int) or not -1 <= worker < _WORKERS:
            raise ValueError(f"event {at} names worker {worker!r:.40}")
        if kind == GRAPH_BUILT:
            sizes = [data.get(name) for name in ("n_before", "n_after")]
            if not all(isinstance(size, int) and 0 <= size <= _OPERANDS for size in sizes):
                raise ValueError(f"event {at} has a graph of {sizes!r:.80} operands")
    found: list[Event] = told
    return found
