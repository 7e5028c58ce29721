"""Folds events to what the tabs of the view show: memory, plan, lanes, lines, hosts, workers.

Everything is bounded however long the run. A series of memory over time has a number of points: when the series is
full, neighbours merge and the resolution halves; the time span and the peaks are kept. A lane is the time line of a
worker. A piece of a lane is an operand with its four worker states. When there are too many pieces, neighbours of a
lane are merged, so that the whole run stays in sight and the shares of the states stay true. Running operands are an
open piece. The pieces of a lane are columns, and new operands are merged into them all at once.

A job of several stages is predicted stage by stage, when each stage begins; the Plan tab shows the sums. Costs by
source line are seconds, bytes and states of the operands made by lines of a cell; the seconds of a fused operand are
split evenly among the operands that were fused, since a compiled kernel tells no more. Rows are numbered once and keep
their numbers for all jobs of the cell.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from IPython.core.getipython import get_ipython
from numpy.typing import NDArray

from jmars.model.status import STATE_NAMES, JobState, OperandState
from jmars.model.timing import Spans, bytes_to_read
from jmars.notebook.operand_table import OperandTable, summed
from jmars.notebook.view import (
    CodeLine,
    HostHeading,
    Lane,
    Lanes,
    LinkRow,
    OpenPiece,
    PlanPart,
    RunCosts,
    Series,
    SourceRow,
    TriedPlan,
    WorkerRow,
    plain_text,
)


@dataclass
class BoundedSeries:
    """Rows of (time, value, ...); merged rows keep the first time and the greatest values.

    Examples
    --------
    >>> series = BoundedSeries(limit=4)
    >>> for t in range(8):
    ...     series.add(t, [10 * t])
    >>> series.times, series.values
    ([0, 2, 4, 6], [[10], [30], [50], [70]])
    """

    limit: int = 240  # points
    times: list[float] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)
    stride: int = 1  # samples in each point
    filled: int = 0  # samples in the last point

    def add(self, time: float, values: Sequence[float]) -> None:
        """Adds a sample."""
        if self.times and self.filled < self.stride:
            self.values[-1] = [max(pair) for pair in zip(self.values[-1], values)]
            self.filled += 1
            return
        if len(self.times) == self.limit:
            self._halve()
            self.add(time, values)
            return
        self.times.append(time)
        self.values.append(list(values))
        self.filled = 1

    def _halve(self) -> None:
        """Merges pairs of neighbours."""
        pairs = zip(self.values[::2], self.values[1::2] + self.values[-1:])
        self.values = [[max(pair) for pair in zip(*rows)] for rows in pairs]
        self.filled = self.stride * (2 - len(self.times) % 2)
        self.times = self.times[::2]
        self.stride *= 2


@dataclass
class MemoryState:
    """Memory of all processes of a cluster.

    Attributes
    ----------
    kernel
        Returns the bytes that jmars keeps in the notebook's own process; None where another process draws.

    Examples
    --------
    >>> memory = MemoryState()
    >>> memory.measured({"used": 10, "resident": 100, "spilled": 0, "peak": 120}, at=0.5)
    >>> part = memory.part()
    >>> part["t"], part["used"], part["peak"]
    ([0.5], [10], 120)
    >>> memory.measured({"device": 4096, "device_memory": 8192}, at=1.0)
    >>> memory.part()["device"], memory.part()["device_memory"]
    (4096, 8192)
    """

    kernel: Callable[[], int] | None = None
    newest: Mapping[str, Any] = field(default_factory=dict)  # data of MemoryChanged
    series: BoundedSeries = field(default_factory=BoundedSeries)

    def measured(self, data: Mapping[str, Any], at: float | None) -> None:
        """Notes measured memory; `at` is in seconds on the view's time axis, None before and after the run."""
        self.newest = data
        if at is not None:
            self.series.add(at, (data.get("used", 0), data.get("resident", 0), data.get("spilled", 0)))

    def part(self) -> Series:
        """Memory over time."""
        columns = [[int(row[k]) for row in self.series.values] for k in range(3)]
        return {
            "t": [round(t, 2) for t in self.series.times],
            "used": columns[0],
            "resident": columns[1],
            "spilled": columns[2],
            "limit": int(self.newest.get("limit") or 0),
            "engine": plain_text(self.newest.get("engine") or "", 20),
            "peak": int(self.newest.get("peak", 0)),
            "spilled_total": int(self.newest.get("spilled_total", 0)),
            "reloaded_total": int(self.newest.get("reloaded_total", 0)),
            "kernel": self.kernel() if self.kernel is not None else None,
            "device": int(self.newest.get("device", 0)),
            "device_memory": int(self.newest.get("device_memory", 0)),
        }


_TRIED = 12  # plans that are listed
_MAX_ADVICE = 6
_REFUSED = 6  # listed programs that GPUs could not run
_SOURCES = 12  # sources that are listed


@dataclass
class PlanState:
    """The predictions of a job.

    Examples
    --------
    >>> plan = PlanState()
    >>> for stage in (1, 2):
    ...     cost = {"makespan": 1.5, "peak": [10, 20 * stage], "spilled": 0, "moved": 0, "chosen": "dfs", "tried": []}
    ...     plan.built({"stage_number": stage, "predicted": cost | {"lower_bound": 1.0}})
    >>> plan.part()["predicted"]
    {'makespan': 3.0, 'peak': [10, 40], 'spilled': 0, 'moved': 0}
    """

    stages: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # number: predicted
    stage: int = 1  # number of the newest stage
    replans: int = 0  # times that the rest was planned anew during the run
    why: str = ""  # reason of the last such time
    refused: list[str] = field(default_factory=list)  # programs that GPUs could not run, with the reason
    to_read: dict[int, int] = field(default_factory=dict)  # bytes of sources by stage
    sources: list[SourceRow] = field(default_factory=list)  # of the newest stage
    measured: Mapping[str, Any] | None = None
    advice: list[tuple[str, float]] = field(default_factory=list)  # text, and share of the time that the advice saves

    def built(self, data: Mapping[str, Any]) -> None:
        """Notes that a stage begins."""
        self.stage = int(data.get("stage_number") or 1)
        predicted = data.get("predicted")
        if isinstance(predicted, Mapping):
            self.stages[self.stage] = predicted
        self.to_read[self.stage] = bytes_to_read(data)
        stages = data.get("stages", ())
        self.sources = [_source(row, stages) for row in list(data.get("sources", ()))[:_SOURCES]]

    def replanned(self, data: Mapping[str, Any]) -> None:
        """Notes that the rest of the job was planned anew."""
        self.replans += 1
        self.why = plain_text(data.get("why"), 200)

    def gpu_refused(self, data: Mapping[str, Any]) -> None:
        """Notes the operands that cores run in place of a GPU."""
        if len(self.refused) < _REFUSED:
            self.refused.append(plain_text(data.get("why"), 400))

    def moved(self, data: Mapping[str, Any]) -> None:
        """Notes a new state of the job; the final state brings the measured costs."""
        measured = data.get("measured")
        if isinstance(measured, Mapping):
            self.measured = measured

    @property
    def predicted(self) -> RunCosts | None:
        """Predicted costs of all stages so far."""
        return _together([_costs(stage) for stage in self.stages.values()]) if self.stages else None

    @property
    def took(self) -> RunCosts | None:
        """Measured costs, once the job has ended."""
        return _costs(self.measured) if self.measured is not None else None

    @property
    def read(self) -> int | None:
        """Bytes of sources that operands have read, once the job has ended."""
        return int(_number(self.measured.get("read"))) if self.measured is not None else None

    def part(self) -> PlanPart | None:
        """The Plan tab's data; None while nothing is known."""
        if not (
            self.stages or self.sources or self.measured is not None or self.advice or self.replans or self.refused
        ):
            return None
        parts = list(self.stages.values())
        newest = self.stages.get(self.stage, {})
        predicted, measured = self.predicted, self.took
        told = [plain_text(text, 400) for text, share in self.advice if share > _error(predicted, measured)]
        return PlanPart(
            predicted=predicted,
            measured=measured,
            lower_bound=sum(_number(part.get("lower_bound")) for part in parts),
            chosen=plain_text(newest.get("chosen")),
            tried=[_tried(row) for row in list(newest.get("tried") or ())[:_TRIED] if len(row) >= 5],
            to_read=sum(self.to_read.values()),
            read=self.read,
            sources=list(self.sources),
            stage=self.stage,
            replans=self.replans,
            why=self.why,
            refused=list(self.refused),
            advice=told[:_MAX_ADVICE],
        )


def _source(row: Sequence[Any], stages: Sequence[Sequence[Any]]) -> SourceRow:
    """A source of a `GraphBuilt` event, with name and line of the first operand that reads it."""
    layers, read, nbytes, why = row
    name, _, line, text = stages[layers[0]][:4]
    return SourceRow(
        name=plain_text(name, 80),
        line=int(line or 0),
        text=plain_text(text),
        read=int(_number(read)),
        nbytes=int(_number(nbytes)),
        parts=len(layers),
        why=plain_text(why, 400),
    )


def _error(predicted: RunCosts | None, measured: RunCosts | None) -> float:
    """Error of the predicted time as a share, below 1; 0 while it is not known."""
    if predicted is None or measured is None or not measured["makespan"]:
        return 0.0
    return min(0.99, abs(predicted["makespan"] - measured["makespan"]) / measured["makespan"])


def _costs(data: Mapping[str, Any]) -> RunCosts:
    """Costs of a prediction or measurement; a measured peak is an interval of one value."""
    peak = data.get("peak")
    ends = [int(_number(end)) for end in peak] if isinstance(peak, Sequence) and peak else [int(_number(peak))]
    return RunCosts(
        makespan=round(_number(data.get("makespan")), 6),
        peak=[min(ends), max(ends)],
        spilled=int(_number(data.get("spilled"))),
        moved=int(_number(data.get("moved"))),
    )


def _together(stages: Sequence[RunCosts]) -> RunCosts:
    """Sums the costs of successive stages."""
    return RunCosts(
        makespan=round(sum(one["makespan"] for one in stages), 6),
        peak=[max(one["peak"][0] for one in stages), max(one["peak"][1] for one in stages)],
        spilled=sum(one["spilled"] for one in stages),
        moved=sum(one["moved"] for one in stages),
    )


def _tried(row: Sequence[Any]) -> TriedPlan:
    name, makespan, peak, spilled, moved = row[:5]
    return TriedPlan(
        name=plain_text(name, 80),
        makespan=round(_number(makespan), 6),
        peak=int(_number(peak)),
        spilled=int(_number(spilled)),
        moved=int(_number(moved)),
    )


def _number(value: Any) -> float:
    """A number of an event, at least 0."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if 0 <= number < 1e18 else 0.0


MAX_PIECES = 320  # pieces of all lanes together that are shown
_NAMES = 60  # different labels at most
_PENDING = 5_000  # operands that are noted before they are merged into the lanes

_Lines = NDArray[np.uint64]  # a row of bits for each piece: bit k of word w is row 64 w + k of the lines


@dataclass
class _Pieces:
    """Pieces of a lane, in order."""

    begin: NDArray[np.float64]  # start of the calculation
    end: NDArray[np.float64]
    took: NDArray[np.float64]  # seconds in each of the four states, shape (pieces, 4)
    n: NDArray[np.int64]  # operands
    label: NDArray[Any]  # of the operand; "" for a merged piece of different operands
    lines: _Lines  # the lines that made the operands

    @classmethod
    def of(cls, parts: list[_Pieces]) -> _Pieces:
        """One part after the other."""
        words = max(part.lines.shape[1] for part in parts)
        lines = [np.pad(part.lines, ((0, 0), (0, words - part.lines.shape[1]))) for part in parts]
        columns = [[getattr(part, name) for part in parts] for name in ("begin", "end", "took", "n", "label")]
        return cls(*(np.concatenate(column) for column in (*columns, lines)))

    def merged(self, most: int) -> _Pieces:
        """The same operands, `most` to a piece; a multiple of how many the pieces have now."""
        block = (np.cumsum(self.n) - self.n) // most
        changes = np.diff(block, prepend=-1) > 0
        at = np.flatnonzero(changes)
        differs = np.concatenate([[False], self.label[1:] != self.label[:-1]]) & ~changes
        label = self.label[at]
        label[np.logical_or.reduceat(differs, at)] = ""
        return _Pieces(
            self.begin[at],
            np.maximum.reduceat(self.end, at),
            np.add.reduceat(self.took, at),
            np.add.reduceat(self.n, at),
            label,
            np.bitwise_or.reduceat(self.lines, at),
        )


@dataclass
class LaneState:
    """The lanes of a job.

    Examples
    --------
    >>> import numpy as np
    >>> lanes = LaneState()
    >>> lanes.add(0, np.array([[1.0, 1.5, 2.0, 4.0, 4.5, 7.0]]), 1.0, ["operand 7"])
    >>> lane = lanes.part({0: (3.0, 2, "exp")})["lanes"][0]
    >>> lane["begin"], lane["end"], lane["took"], lane["n"]
    ([1.0], [3.5], [[0.5, 0.5, 2.0, 0.5]], [1])
    >>> lane["open"]
    {'begin': 3.5, 'n': 2, 'label': 2}
    """

    parts: dict[int, list[_Pieces]] = field(default_factory=dict)  # by worker: merged pieces, and newer pieces
    most: dict[int, int] = field(default_factory=dict)  # by worker: operands that a piece of its lane may hold
    _pending: int = 0

    def add(self, worker: int, found: Spans, zero: float, labels: Any, lines: _Lines | None = None) -> None:
        """Adds operands that ran on a worker.

        Parameters
        ----------
        worker
            Its number.
        found
            Begins and ends of the operands.
        zero
            Start of the view's time axis, in seconds since the epoch.
        labels, lines
            Name of each operand, and the lines that made it, as `LineState.lines_of` packs them.
        """
        n = len(found)
        if not n:
            return
        took = np.maximum(np.diff(found[:, :5], axis=1), 0.0)
        bits = np.zeros((n, 0), np.uint64) if lines is None else lines
        begin, end = found[:, 2] - zero, found[:, 4] - zero
        new = _Pieces(begin, end, took, np.ones(n, np.int64), np.array(labels, object), bits)
        self.parts.setdefault(worker, []).append(new)
        self.most.setdefault(worker, 1)
        self._pending += n
        if self._pending > _PENDING:
            self._merge()

    def _merge(self) -> None:
        """Merges what came into the lanes, and neighbours where there are too many pieces."""
        room = max(8, MAX_PIECES // max(1, len(self.parts)))
        for worker, parts in self.parts.items():
            pieces = _Pieces.of(parts) if len(parts) > 1 else parts[0]
            n = int(pieces.n.sum())
            while -(-n // self.most[worker]) > room:
                self.most[worker] *= 2
            self.parts[worker] = [pieces.merged(self.most[worker])]
        self._pending = 0

    def part(self, running: Mapping[int, tuple[float, int, str]]) -> Lanes | None:
        """The lanes as the view draws them; None before any operand ran.

        Parameters
        ----------
        running
            `OperandTable.running` on the view's time axis.
        """
        if not self.parts and not running:
            return None
        self._merge()
        labels: dict[str, int] = {"": 0}
        sets: dict[bytes, int] = {}
        lanes = []
        for number in sorted({*self.parts, *running}):
            pieces = self.parts[number][0] if number in self.parts else None
            begin, n, alike = running.get(number, (0.0, 0, ""))
            for label in chain(pieces.label if pieces else (), (alike,)):
                if len(labels) < _NAMES:
                    labels.setdefault(label, len(labels))
            begin = max(begin, pieces.end[-1] if pieces else 0.0)  # a worker computes a single operand at a time
            now = OpenPiece(begin=round(float(begin), 4), n=n, label=labels.get(alike, 0)) if n else None
            lanes.append(_lane(number, pieces, labels, sets, now))
        return Lanes(labels=list(labels), lines=[_rows(bits) for bits in sets], lanes=lanes)


def _lane(
    worker: int, pieces: _Pieces | None, labels: Mapping[str, int], sets: dict[bytes, int], now: OpenPiece | None
) -> Lane:
    """A lane in the page's form; `sets` gets new sets of lines."""
    if pieces is None:
        return Lane(worker=worker, begin=[], end=[], took=[], n=[], label=[], lines=[], open=now)
    return Lane(
        worker=worker,
        begin=np.round(pieces.begin, 4).tolist(),
        end=np.round(pieces.end, 4).tolist(),
        took=np.round(pieces.took, 5).tolist(),
        n=pieces.n.tolist(),
        label=[labels.get(label, 0) for label in pieces.label],
        lines=[sets.setdefault(bits.tobytes().rstrip(b"\0"), len(sets)) for bits in pieces.lines],
        open=now,
    )


def _rows(bits: bytes) -> list[int]:
    """Rows of the lines of a piece, ascending."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")).tolist()


_COST_COLUMNS = 6  # columns of costs: seconds in the four states of a worker, seconds of fused lines among them, bytes
_N_STATES = len(STATE_NAMES)


class LineState:
    """Lines of a cell, and lines elsewhere that made operands of its jobs, with costs.

    Attributes
    ----------
    code
        The lines: those of the cell in their order, then others as they appear.

    Examples
    --------
    >>> lines = LineState(CellFacts(file="cell.py", text=("a = np.ones(8)", "b = a + 1")))
    >>> [line["text"] for line in lines.code], lines.costs()[:, 4].tolist()
    (['a = np.ones(8)', 'b = a + 1'], [0.0, 0.0])
    """

    def __init__(self, cell: CellFacts) -> None:
        self.code: list[CodeLine] = []
        self._cell = cell
        self._row: dict[tuple[str, int], int] = {}  # by file and line
        self._costs = np.zeros((MOST_LINES, _COST_COLUMNS))
        self._past = np.zeros((MOST_LINES, _N_STATES), np.int64)  # operands of earlier stages and jobs by state
        self._table: OperandTable | None = None
        self._bits: NDArray[np.uint64] = np.zeros((1, 1), np.uint64)  # see `lines_of`; the last row is of no operand
        self._stage: tuple[str, int] = ("", 0)  # job and number of the stage of `_table`
        self._rows: NDArray[np.int16] = np.zeros(0, np.int16)  # of the members of the fused operands
        self._of_tensor = self._last = self._rows  # of the tensor operands; of each fused operand's output, -1 none
        self._nbytes: NDArray[np.int64] = np.zeros(0, np.int64)
        self._mixed: NDArray[np.bool_] = np.zeros(0, bool)
        for number, text in enumerate(cell.text, 1):
            if number > 1 or not text.startswith("# %%jmars"):
                self._number(cell.file, number, text, "")

    def begin_stage(self, table: OperandTable, job: str, number: int) -> None:
        """Follows the operands of a stage; operands of the stage before stay counted."""
        if self._table is not None and self._stage != (job, number):
            self._past += self._now()
        self._table, self._stage = table, (job, number)
        stages = [self._of_stage(stage) for stage in table.data["stages"]] or [self._number("", 0, "", "")]
        self._of_tensor = np.array(stages, np.int16)
        self._rows = self._of_tensor[table.tensor[table.members]]
        operand = table.group[table.members]
        self._last = np.full(table.n_after, -1, np.int16)
        self._last[operand] = self._rows  # the member that makes the output comes last
        self._mixed = np.zeros(table.n_after, bool)
        self._mixed[operand[self._rows != self._last[operand]]] = True
        words = len(self.code) // 64 + 1
        self._bits = np.zeros((table.n_after + 1, words), np.uint64)
        bit = np.left_shift(np.uint64(1), (self._rows % 64).astype(np.uint64))
        np.bitwise_or.at(self._bits.reshape(-1), operand * words + self._rows // 64, bit)
        nbytes = np.frombuffer(table.data.get("after_nbytes", b""), "<i8")
        self._nbytes = np.maximum(nbytes, 0) if len(nbytes) == table.n_after else np.zeros(table.n_after, np.int64)

    def timed(self, found: Spans) -> None:
        """Adds the times and bytes of operands that ended."""
        if self._table is None:
            return
        found = found[found[:, 5] < len(self._last)]
        ids = found[:, 5].astype(np.int64)
        first, last = self._table.member_ptr[ids], self._table.member_ptr[ids + 1]
        size = last - first
        place = np.arange(int(size.sum())) + np.repeat(first - (np.cumsum(size) - size), size)
        rows = self._rows[place]
        took = np.maximum(0.0, np.diff(found[:, :5].T, axis=0)) / np.maximum(size, 1)
        for column, each in enumerate([*took, took[2:].sum(0) * self._mixed[ids]]):
            self._costs[:, column] += np.bincount(rows, np.repeat(each, size), MOST_LINES)
        made = self._last[ids] >= 0
        self._costs[:, _COST_COLUMNS - 1] += np.bincount(self._last[ids][made], self._nbytes[ids][made], MOST_LINES)

    def lines_of(self, operands: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
        """Rows of the lines that made fused operands of the newest stage, as bits, shape (operands, words).

        Bit k of word w is set for row 64 w + k.
        """
        bits: NDArray[np.uint64] = self._bits[np.minimum(operands, len(self._bits) - 1)]
        return bits

    def costs(self) -> NDArray[np.float32]:
        """Costs by line, shape (lines, 15): see `Picture.line_costs`."""
        n = len(self.code)
        return np.column_stack([self._costs, self._past + self._now()])[:n].astype("<f4")

    def _now(self) -> NDArray[np.int64]:
        """Operands before fusion of the newest stage, by line and state; shape (MOST_LINES, states)."""
        if self._table is None:
            return np.zeros((MOST_LINES, _N_STATES), np.int64)
        return summed(self._table.tensor_counts, self._of_tensor, MOST_LINES)

    def _of_stage(self, stage: Any) -> int:
        name, file, line, text = stage[:4]
        return self._number(str(file or ""), int(line or 0), str(text or name), self._cell.name_of(str(file or "")))

    def _number(self, file: str, line: int, text: str, where: str) -> int:
        """Row of a new or known line."""
        key = (file, line)
        if key not in self._row:
            if len(self.code) >= MOST_LINES:
                return MOST_LINES - 1
            self._row[key] = len(self.code)
            full = len(self.code) == MOST_LINES - 1
            told: Mapping[str, Any] = {"line": 0, "text": "further lines"} if full else {"line": line, "text": text}
            shown = plain_text(str(told["text"]).rstrip().expandtabs(4), 200)
            self.code.append(CodeLine(file=plain_text(file), where=plain_text(where), line=told["line"], text=shown))
        return self._row[key]


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


_DONE = (OperandState.FINISHED, OperandState.FREED, OperandState.SPILLED)


@dataclass
class WorkerState:
    """The workers by number, as events describe them.

    Examples
    --------
    >>> workers = WorkerState()
    >>> workers.moved({"worker": 0, "name": "worker-0", "pid": 7, "state": "replaced"}, counted=True)
    >>> row, = workers.rows(None, lambda name: -1)
    >>> row["name"], row["pid"], row["replaced"]
    ('worker-0', 7, 1)
    """

    known: dict[int, dict[str, Any]] = field(default_factory=dict)
    memory: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by name: the newest row of MemoryChanged
    earlier: dict[int, int] = field(default_factory=dict)  # operands done in earlier stages of the job, by number

    def begin_stage(self, before: OperandTable | None) -> None:
        """Adds up what the workers did in the stage `before`; None where the job begins."""
        if before is None:
            self.earlier.clear()
            return
        for at, done in enumerate(before.by_worker(self._n)[:, _DONE].sum(1).tolist()):
            self.earlier[at] = self.earlier.get(at, 0) + done

    def named(self, names: list[Any]) -> None:
        """Adds the workers that a graph names."""
        for at, name in enumerate(names):
            self.known.setdefault(at, {"name": plain_text(name), "pid": 0, "state": "idle", "replaced": 0})

    def moved(self, data: Mapping[str, Any], counted: bool) -> None:
        """Notes a new state of a worker's process; `counted` while jobs of the cell run."""
        at, state = int(data["worker"]), str(data["state"])
        replaced = self.known.get(at, {}).get("replaced", 0) + (counted and state == "replaced")
        self.known[at] = {"name": plain_text(data["name"]), "pid": int(data.get("pid") or 0), "state": state}
        self.known[at]["replaced"] = replaced

    def measured(self, data: Mapping[str, Any], ended: bool) -> None:
        """Notes measured memory; `ended` says that the newest job has succeeded, whose last chunk sizes are kept."""
        rows = {plain_text(row.get("name")): row for row in data.get("workers", ())}
        if ended:
            rows = {name: {**row, "bytes": self.memory.get(name, row).get("bytes", 0)} for name, row in rows.items()}
        self.memory = rows

    def rows(self, table: OperandTable | None, host_of: Callable[[str], int]) -> list[WorkerRow]:
        """A row per executor process, in the order of worker numbers; `host_of` is `HostState.of_worker`.

        The last workers have no row if they left before they did anything for the job.
        """
        n = self._n
        counts = table.by_worker(n) if table else np.zeros((n, len(STATE_NAMES)), np.int64)
        assigned = dict(enumerate(table.n_assigned)) if table else {}
        running, done = counts[:, OperandState.RUNNING].tolist(), counts[:, _DONE].sum(1).tolist()
        done = [count + self.earlier.get(at, 0) for at, count in enumerate(done)]
        rows = []
        for at, worker in sorted(self.known.items())[: self._shown(running, done)]:
            row = self.memory.get(worker["name"], {})
            rows.append(
                WorkerRow(
                    name=worker["name"],
                    host=host_of(worker["name"]),
                    pid=int(row.get("pid") or worker["pid"] or 0),
                    state=worker["state"] if not running[at] or worker["state"] in ("lost", "left") else "busy",
                    assigned=assigned.get(at, 0),
                    running=running[at],
                    done=done[at],
                    memory=int(row.get("pss", 0)),
                    stored=int(row.get("bytes", 0)),
                    replaced=worker["replaced"],
                )
            )
        return rows

    @property
    def _n(self) -> int:
        return max(self.known, default=-1) + 1

    def _shown(self, running: list[int], done: list[int]) -> int:
        """Number of rows: without the last workers, if they left and did nothing."""
        last = sorted(self.known)
        while last and self.known[last[-1]]["state"] == "left" and not running[last[-1]] + done[last[-1]]:
            last.pop()
        return len(last)


MOST_LINES = 400  # lines of a cell whose costs are sent


@dataclass
class CellFacts:
    """A cell as the view shows the cell; times are in seconds since the epoch.

    Examples
    --------
    >>> cell = CellFacts("cell-1", n_lines=7, begun=10.0)
    >>> cell.line = 3
    >>> cell.state
    <JobState.RUNNING: 'running'>
    >>> cell.end(JobState.SUCCEEDED, 12.0)
    >>> cell.state, cell.line
    (<JobState.SUCCEEDED: 'succeeded'>, 0)
    >>> cell.ran(3, 0.5)
    >>> cell.seconds()
    [0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    """

    id: str = ""  # for Cancel before the first job
    n_lines: int = 0
    begun: float | None = None
    line: int = 0  # running line, from 1; 0 before and after the cell's Python
    ended: float | None = None
    outcome: JobState = JobState.PREPARING
    file: str = ""  # name of the cell's file in tracebacks
    text: Sequence[str] = ()  # its lines
    reused: str = ""  # text about values of earlier runs
    started: tuple[int, float] = (0, 0.0)  # workers of the cluster that the cell started, and seconds of that
    kernel: dict[int, float] = field(default_factory=dict)  # seconds of Python in the kernel, by line

    @property
    def state(self) -> JobState:
        """The state of a cell without a job."""
        return JobState.RUNNING if self.line else self.outcome

    def end(self, outcome: JobState, now: float) -> None:
        """Notes the end of the cell."""
        self.outcome, self.line = outcome, 0
        self.ended = now if self.begun is not None else None

    def caught(self, failed: float | None) -> bool:
        """Whether the cell succeeded after a job that failed at this time: its code caught the error."""
        return self.outcome == JobState.SUCCEEDED and failed is not None and failed <= (self.ended or 0.0)

    def ran(self, line: int, seconds: float) -> None:
        """Adds seconds in which the Python of a line ran in the kernel."""
        self.kernel[line] = self.kernel.get(line, 0.0) + seconds

    def seconds(self) -> list[float]:
        """Seconds of Python in the kernel by line; empty where no line has any."""
        lines = range(1, min(self.n_lines, MOST_LINES) + 1) if self.kernel else ()
        return [round(self.kernel.get(line, 0.0), 3) for line in lines]

    def name_of(self, file: str) -> str:
        """ "Cell In[3]" for a cell of this kernel, "a cell" of a further kernel; else the name of the file."""
        shell = get_ipython()
        if known := shell.compile.format_code_name(file) if shell is not None else None:
            return " ".join(known)
        return "a cell" if "ipykernel_" in file else os.path.basename(file)
