"""RunRecord: folds the events of jobs into columns: operands with their times, memory, transfers, states, predictions.

Pure: takes events as the log gives them, in any number of calls; figures and pages read the columns. Names and source
lines come with a `GraphBuilt` event. Pauses in which no operand waits or runs, as between the cells of a notebook, are
folded in the time line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from jmars.model import events
from jmars.model.events import Event
from jmars.model.status import TERMINAL
from jmars.model.timing import bytes_to_read, spans


@dataclass
class JobRecord:
    """A job: times in seconds since the epoch, figures as the cluster predicted and measured them."""

    id: str
    name: str = ""
    state: str = ""
    error: str = ""
    begun: float = 0.0
    ended: float = 0.0
    operands: int = 0  # after fusion, of all stages
    before: int = 0  # before fusion
    predicted: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)  # seconds of making the plan
    to_read: int = 0  # bytes of files and other sources, of all stages
    backends: set[str] = field(default_factory=set)  # that computed operands
    sources: list[tuple[str, str, int, int, str]] = field(default_factory=list)  # name, line, to read, whole, why


@dataclass
class Operands:
    """Columns of the operands that ran, in the order of their reports; times in seconds since the record's start.

    Attributes
    ----------
    times
        Begins of the four states of a worker, then the end; shape (operands, 5).
    worker, kind, line
        Numbers into the record's `workers`, `kinds` and `lines`; shape (operands,).
    stage, number
        Stage of the job, and number of the operand in the stage; shape (operands,).
    """

    times: NDArray[np.float64]
    worker: NDArray[np.int64]
    kind: NDArray[np.int64]
    line: NDArray[np.int64]
    stage: NDArray[np.int64]
    number: NDArray[np.int64]

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Seconds of calculating and storing; shape (operands,)."""
        return self.times[:, 4] - self.times[:, 2]

    def __len__(self) -> int:
        return len(self.worker)


class RunRecord:
    """A run as columns.

    Attributes
    ----------
    start, end
        Seconds since the epoch: from the first submission to the end of the last job, or to the newest event.
    jobs
        By id.
    workers, kinds, lines
        Names that the columns number; "host-1/worker-0" is a worker of a host.
    memory
        Rows (seconds since the start, used, resident, spilled bytes).
    memory_limit
        Bytes; 0 if unknown.
    transfers
        By (from, to): chunks, bytes, seconds.
    graphs
        By job and stage: what equal graphs have in common.
    marks
        (seconds since the start, sentence): lost workers and chunks, plans made anew, jobs that do not move.

    Examples
    --------
    >>> log = [[1, 10.0, "JobSubmitted", "job-1", {"name": "In [1]"}],
    ...        [2, 10.5, "JobMoved", "job-1", {"state": "succeeded", "error": None, "elapsed": 0.5}]]
    >>> record = RunRecord.of(log)
    >>> record.jobs["job-1"].state, record.seconds, len(record.operands)
    ('succeeded', 0.5, 0)
    """

    def __init__(self) -> None:
        self.start = self.end = 0.0
        self.jobs: dict[str, JobRecord] = {}
        self.workers: list[str] = []
        self.kinds: list[str] = []
        self.lines: list[str] = []
        self.memory: list[tuple[float, int, int, int]] = []
        self.memory_limit = 0
        self.transfers: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0.0])
        self.marks: list[tuple[float, str]] = []
        self._hosts: dict[int, str] = {}
        self._numbers: dict[str, dict[str, int]] = {"worker": {}, "kind": {}, "line": {}}
        self._names: dict[str, OperandNames] = {}  # of the newest stage, by job
        self.graphs: dict[tuple[str, int], tuple[bytes, ...]] = {}
        self._stage: dict[str, int] = {}  # number of the newest stage, by job
        self._worker_names: dict[int, str] = {}  # by the cluster's number, planned for or not
        self._later: list[Event] = []  # the cluster's events since the last job's end; a further job may follow
        self._blocks: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []

    @classmethod
    def of(cls, log: Iterable[Event], jobs: Iterable[str] = ()) -> RunRecord:
        """The record of a log, in the order of the log.

        Parameters
        ----------
        log
            Events of jobs and of their cluster.
        jobs
            Ids of the jobs to record; all by default.
        """
        record, wanted = cls(), frozenset(jobs)
        for event in log:
            if not event[3] or not wanted or event[3] in wanted:
                record.take(event)
        return record

    @property
    def seconds(self) -> float:
        """From `start` to `end`."""
        return self.end - self.start

    @property
    def operands(self) -> Operands:
        """Columns of the operands that ran."""
        if not self._blocks:
            return Operands(np.zeros((0, 5)), *np.zeros((5, 0), np.int64))
        times = np.concatenate([block for block, _ in self._blocks]) - self.start
        return Operands(times, *np.concatenate([numbers for _, numbers in self._blocks]).T)

    def by(self, what: str) -> list[tuple[str, float, int]]:
        """(Text, seconds, operands) of each "kind" or "line", the longest first."""
        operands = self.operands
        column, texts = (operands.kind, self.kinds) if what == "kind" else (operands.line, self.lines)
        seconds = np.bincount(column, operands.seconds, len(texts)) if len(operands) else np.zeros(len(texts))
        counts = np.bincount(column, minlength=len(texts))
        order = np.argsort(-seconds, kind="stable").tolist()
        return [(texts[k] or f"(no {what})", float(seconds[k]), int(counts[k])) for k in order if counts[k]]

    def take(self, event: Event) -> None:
        """Fold an event."""
        _, time, kind, job, data = event
        if kind == events.WORKER_MOVED:
            self._worker_names[int(data["worker"])] = str(data["name"])
        if not self.start:
            if not job:
                return  # from before the first submission
            self.start = time
        if not job and all(one.ended for one in self.jobs.values()):
            self._later.append(event)
            return
        later, self._later = self._later, []
        for one in later:
            self._of_cluster(one[1], one[2], one[4])
        self.end = max(self.end, time)
        if job:
            self._of_job(time, kind, self.jobs.setdefault(job, JobRecord(job, begun=time)), data)
        else:
            self._of_cluster(time, kind, data)

    def _of_job(self, time: float, kind: str, job: JobRecord, data: Mapping[str, Any]) -> None:
        if kind == events.JOB_SUBMITTED:
            job.name = str(data["name"])
        elif kind == events.JOB_MOVED:
            job.state, job.error = str(data["state"]), str(data.get("error") or "")
            if job.state in TERMINAL:
                job.ended, job.measured = time, data.get("measured") or {}
        elif kind == events.JOB_PREPARED:
            for name, seconds in data["phases"]:
                job.phases[str(name)] = job.phases.get(str(name), 0.0) + float(seconds)
        elif kind == events.GRAPH_BUILT:
            self._built(job, data)
        elif kind == events.OPERANDS_TIMED:
            self._ran(time, job, data)
        elif kind in (events.CHUNKS_LOST, events.REPLANNED, events.STALLED):
            text = str(data.get("text") or data.get("why") or "")
            if text:
                self.marks.append((time - self.start, f"{job.name or job.id}: {text}"))

    def _of_cluster(self, time: float, kind: str, data: Mapping[str, Any]) -> None:
        if kind == events.MEMORY_CHANGED:
            used, resident, spilled = (int(data.get(name) or 0) for name in ("used", "resident", "spilled"))
            self.memory.append((time - self.start, used, resident, spilled))
            self.memory_limit = int(data.get("limit") or self.memory_limit)
        elif kind == events.HOST_MOVED:
            self._hosts[int(data["host"])] = str(data["name"])
            if data["state"] not in ("joined", "back"):
                self.marks.append((time - self.start, f"{data['name']} {data['state']}: {data.get('why', '')}"))
        elif kind == events.CHUNKS_MOVED:
            names = (self._host(data["from"]), self._host(data["to"]))
            row = self.transfers[names]
            row[0], row[1], row[2] = row[0] + data["chunks"], row[1] + data["bytes"], row[2] + data["seconds"]
        elif kind == events.WORKER_MOVED and data["state"] in ("replaced", "lost", "fenced"):
            self.marks.append((time - self.start, f"{data['name']} {data['state']}"))

    def _built(self, job: JobRecord, data: Mapping[str, Any]) -> None:
        for number, name in enumerate(data["workers"]):
            self._number("worker", self._worker_names.setdefault(number, str(name)))
        self._names[job.id] = OperandNames.of(data)
        self._stage[job.id] = int(data.get("stage_number") or 1)
        stage = (job.id, self._stage[job.id])
        if stage in self.graphs:
            return  # a reader that fell behind the log is told again
        self.graphs[stage] = (repr(data["group_labels"]).encode(), data["after_group"], data["before_group"])
        job.operands += int(data["n_after"])
        job.before += int(data["n_before"])
        job.predicted = job.predicted or data.get("predicted") or {}
        job.to_read += bytes_to_read(data)
        for layers, read, nbytes, why in data.get("sources", ()):
            name, _, line, text = data["stages"][layers[0]][:4]
            job.sources.append((str(name), f"line {line}: {text}" if line else "", read, nbytes, str(why)))

    def _ran(self, time: float, job: JobRecord, data: Mapping[str, Any]) -> None:
        worker = int(data["worker"])
        block = spans(time, data)
        job.backends |= {str(name) for _, name in data.get("backends") or ()}
        names = self._names.get(job.id, OperandNames())
        numbers = np.empty((len(block), 5), np.int64)
        numbers[:, 3], numbers[:, 4] = self._stage.get(job.id, 1), block[:, 5]
        numbers[:, 0] = self._number("worker", self._worker_names.get(worker, f"worker-{worker}"))
        for row, operand in enumerate(block[:, 5].astype(np.int64).tolist()):
            name, line = names.about(operand)
            numbers[row, 1:3] = self._number("kind", name), self._number("line", line)
        self._blocks.append((block[:, :5], numbers))

    def _host(self, number: int) -> str:
        return self._hosts.get(int(number), f"host-{number}")

    def _number(self, what: str, name: str) -> int:
        """Number of a name, which is new or known."""
        known = self._numbers[what]
        if name not in known:
            known[name] = len(known)
            {"worker": self.workers, "kind": self.kinds, "line": self.lines}[what].append(name)
        return known[name]


class OperandNames(Struct, frozen=True):
    """Names and lines of the operands after fusion; lists by operand number.

    Attributes
    ----------
    names
        Kind of operand, as the view shows it.
    lines
        "line 3: y = x + 1"; "" without a line.

    Examples
    --------
    >>> names = OperandNames(("add", "sum"), ("line 1: y = x + 1", ""))
    >>> names.about(0), names.about(7)
    (('add', 'line 1: y = x + 1'), ('operand', ''))
    """

    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: Mapping[str, Any]) -> OperandNames:
        """Names and lines in the data of a `GraphBuilt` event."""
        labels, stages = graph["group_labels"], graph["stages"]
        names = [str(labels[k]) for k in np.frombuffer(graph["after_group"], "<u4").tolist()]
        lines = [""] * len(names)
        into = np.frombuffer(graph["before_group"], "<u4")
        for row, stage in zip(into.tolist(), np.frombuffer(graph["before_stage"], "<u4").tolist()):
            if row < len(lines) and stages[stage][2]:
                lines[row] = f"line {stages[stage][2]}: {stages[stage][3]}"
        return cls(tuple(names), tuple(lines))

    def about(self, operand: int) -> tuple[str, str]:
        """Name and line of an operand."""
        if operand >= len(self.names):
            return "operand", ""
        return self.names[operand] or "operand", self.lines[operand]


LEAST = 2.0  # seconds of a pause that is folded, and
SHARE = 0.2  # share of the seconds without pauses
KEPT = 0.02  # share of the same that a folded pause takes

_Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Pauses:
    """Long pauses, and the folded time line: between two knots a folded time is linear in the real time.

    Examples
    --------
    >>> pauses = Pauses.of(np.array([0.0, 1.0, 100.0]), np.array([5.0, 2.0, 105.0]))
    >>> pauses.begins.tolist(), pauses.ends.tolist()
    ([5.0], [100.0])
    >>> pauses.folded(np.array([1.0, 5.0, 100.0, 105.0])).round(3).tolist()
    [1.0, 5.0, 5.2, 10.2]
    """

    begins: _Seconds
    ends: _Seconds
    real: _Seconds  # knots
    fold: _Seconds

    @classmethod
    def of(cls, begins: _Seconds, ends: _Seconds) -> Pauses:
        """The pauses between operands that begin to wait, and end, at these seconds."""
        order = np.argsort(begins)
        latest = np.maximum.accumulate(ends[order])
        gaps = np.maximum(begins[order][1:] - latest[:-1], 0.0)
        busy = float(latest[-1] - begins[order][0] - gaps.sum()) if len(order) else 0.0
        at = np.flatnonzero(gaps > max(LEAST, SHARE * busy))
        begin, end = latest[:-1][at], begins[order][1:][at]
        first, last = (float(begins.min()), float(ends.max())) if len(order) else (0.0, 0.0)
        real = np.concatenate([[min(first, 0.0)], np.stack([begin, end], 1).ravel(), [last + 1.0]])
        steps = np.diff(real)
        steps[1::2] = KEPT * busy
        return cls(begin, end, real, real[0] + np.concatenate([[0.0], np.cumsum(steps)]))

    def folded(self, seconds: _Seconds) -> _Seconds:
        """Places of times in the folded time line; outside the knots as far from them as in the real one."""
        inside = np.interp(seconds, self.real, self.fold)
        found: _Seconds = inside + np.minimum(seconds - self.real[0], 0.0) + np.maximum(seconds - self.real[-1], 0.0)
        return found

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def seconds(self) -> float:
        """All pauses together."""
        return float((self.ends - self.begins).sum())
