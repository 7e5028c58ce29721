"""The operands of a job with their states and workers, counts by state, and the marks that stand for them.

`OperandTable` is built from a `GraphBuilt` event and updated by `OperandsMoved` events. Moves are noted as they come
and applied together, as arrays, when states or counts are read: an event costs microseconds.

`Marks` are the small squares that an opened box of a large graph shows. A mark stands for an operand, or for a run of
neighbouring operands if the box has too many. Such a mark shows the most notable state among its operands, so that a
failed operand is always visible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.model.status import STATE_NAMES, OperandState
from jmars.model.status import OperandState as S
from jmars.notebook.view import MAX_BOXES, MAX_DRAWN, MAX_MARKS, BoxGraph, DrawnGraph, Kind, StageRow, plain_text

N_STATES = len(STATE_NAMES)
_PRUNED = 0xFFFFFFFF
DONE = (S.FINISHED, S.FREED, S.SPILLED)


class OperandTable:
    """States and workers of the operands after fusion, with counts by state, stage and fused signature.

    Parameters
    ----------
    data
        Data of a `GraphBuilt` event.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.n_before, self.n_after = int(data["n_before"]), int(data["n_after"])
        self.aggregated = self.n_before > MAX_DRAWN
        self._moves: list[tuple[bytes, int, int, float]] = []  # not applied yet
        self._states = np.zeros(self.n_after, np.uint8)
        self._workers = np.full(self.n_after, -1, np.int16)
        self._graph: DrawnGraph | None = None
        self._since = np.zeros(self.n_after)  # when a running operand began to run, in seconds since the epoch
        self._place = np.zeros(self.n_after, np.int32)  # scratch: place of an operand in the moves that are applied
        self.assigned = _padded(np.frombuffer(data["assigned"], "<i2"), self.n_after, -1)
        self.n_assigned: list[int] = np.bincount(self.assigned[self.assigned >= 0]).tolist()  # by worker
        group = _padded(np.frombuffer(data["before_group"], "<i4"), self.n_before, -1)
        self.group = np.where((group >= 0) & (group < self.n_after), group, -1)  # -1: pruned
        self.n_pruned = int(np.count_nonzero(self.group < 0))
        n_stages = len(data["stages"])
        self.bucket = _stage_rows(data["stages"])  # row in the table per stage
        stage = _padded(np.frombuffer(data["before_stage"], "<u4"), self.n_before, 0)
        self.tensor = np.minimum(stage, max(0, n_stages - 1))  # row in `stages` of each operand before fusion
        self.stage = self.bucket[self.tensor] if n_stages else np.zeros(self.n_before, np.int16)
        label = _padded(np.frombuffer(data["after_group"], "<u4"), self.n_after, 0)
        n_labels = len(data["group_labels"])
        self._labels_bucket = _kind_rows(data["group_labels"], label)
        rows = np.minimum(label, max(0, n_labels - 1))
        self.label = self._labels_bucket[rows] if n_labels else np.zeros(self.n_after, np.int16)
        self._names = self._label_names()
        self._words = np.array([*self._names, ""], object)  # by row of kinds; the last is of unknown operands
        self._word = np.append(self.label, np.int16(len(self._names)))  # row there of each operand
        self._plain = n_labels == _rows(self._labels_bucket)  # a row has a single kind
        self._program = _padded(np.frombuffer(data.get("group_program", b""), "<u4"), n_labels, _PRUNED)
        self.seconds = np.zeros(self.n_after, np.float32)  # measured, 0 before the end
        self.backends = [""] * n_labels  # of each kind
        reads = np.array(data.get("group_reads", ()), np.int64)
        self._reads = reads[rows] if reads.any() else None  # bytes of sources that each operand reads
        self._index_members()
        self.marks: list[Marks] = []  # before fusion and after
        if self.aggregated:
            kept = self.group >= 0
            self.marks.append(Marks(self.stage[kept], _rows(self.bucket), operand=self.group[kept]))
            self.marks.append(Marks(self.label, _rows(self._labels_bucket)))
        self._counts = np.zeros(N_STATES, np.int64)
        self._counts[OperandState.UNSCHEDULED] = self.n_after
        self._tensor_counts = self._counts_of(self.tensor[self.group >= 0], max(1, n_stages))
        self._label_counts = self._counts_of(self.label, _rows(self._labels_bucket))
        if n_labels and "group_program" in data:  # chunks of tensors that the cluster keeps: no event may tell of them
            stored = np.flatnonzero(self._program[rows] == _PRUNED)
            self.move(stored.astype("<u4").tobytes(), OperandState.FINISHED, -1, 0.0)

    def move(self, ids: bytes, state: int, worker: int, time: float) -> None:
        """Notes that operands moved to `state` on `worker` (-1: none) at `time`; the next read applies the move.

        `ids` are rows after fusion, packed as little-endian uint32.
        """
        self._moves.append((ids, state, worker, time))

    def _applied(self) -> OperandTable:
        """This table, once the moves that were noted are applied: all together, for each operand the last."""
        if not self._moves:
            return self
        packed, *columns = zip(*self._moves)
        self._moves = []
        sizes = [len(one) // 4 for one in packed]
        ids = np.frombuffer(b"".join(packed), "<u4").astype(np.int64)
        states, workers, times = (np.repeat(np.array(column), sizes) for column in columns)
        known = (ids < self.n_after) & (states >= 0) & (states < N_STATES)  # unknown states come from a newer cluster
        if not known.all():
            ids, states, workers, times = ids[known], states[known], workers[known], times[known]
        placed, began = workers >= 0, states == OperandState.RUNNING
        self._workers[ids[placed]] = workers[placed]
        self._since[ids[began]] = times[began]
        self._place[ids] = np.arange(len(ids))
        last = self._place[ids] == np.arange(len(ids))
        ids, new = ids[last], states[last]
        old = self._states[ids].astype(np.int64)
        self._states[ids] = new
        first, size = self.member_ptr[ids], self.member_ptr[ids + 1] - self.member_ptr[ids]
        place = np.arange(int(size.sum())) + np.repeat(first - (np.cumsum(size) - size), size)
        _move_counts(self._counts[None], ids * 0, old, new)
        _move_counts(self._label_counts, self.label[ids], old, new)
        _move_counts(self._tensor_counts, self._member_tensor[place], np.repeat(old, size), np.repeat(new, size))
        return self

    @property
    def states(self) -> NDArray[np.uint8]:
        """State of each operand after fusion."""
        return self._applied()._states

    @property
    def workers(self) -> NDArray[np.int16]:
        """Worker of each operand after fusion, -1 before it has one."""
        return self._applied()._workers

    @property
    def counts(self) -> NDArray[np.int64]:
        """Operands after fusion by state."""
        return self._applied()._counts

    @property
    def read(self) -> int:
        """Bytes of files and other sources that ended operands have read."""
        return 0 if self._reads is None else int(self._reads[np.isin(self.states, DONE)].sum())

    @property
    def tensor_counts(self) -> NDArray[np.int64]:
        """Operands before fusion by tensor operand of the cell (row in `stages` of the event) and state."""
        return self._applied()._tensor_counts

    @property
    def stage_counts(self) -> NDArray[np.int64]:
        """Operands before fusion by row of stages and state."""
        rows = self.bucket if len(self.bucket) else np.zeros(1, np.int16)  # a graph without stages has a single row
        return summed(self.tensor_counts, rows, _rows(rows))

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """Operands after fusion by row of kinds and state."""
        return self._applied()._label_counts

    def timed(self, ids: NDArray[np.integer[Any]], seconds: NDArray[np.floating[Any]], backends: Any) -> None:
        """Notes the seconds that operands took, and [program, back end] of programs that ran for the first time."""
        known = ids < self.n_after
        self.seconds[ids[known]] = seconds[known]
        for program, name in backends:
            for kind in np.flatnonzero(self._program == int(program)).tolist():
                self.backends[kind] = plain_text(name, 20)

    def box_seconds(self) -> bytes:
        """Measured seconds: see `Picture.operand_seconds`."""
        if not self.aggregated:
            return self.seconds.astype("<f4").tobytes()
        return np.bincount(self.label, self.seconds, _rows(self._labels_bucket)).astype("<f4").tobytes()

    def boxes(self) -> bytes:
        """States that colour the boxes: see `Picture.operand_states`."""
        if not self.aggregated:
            return self.states.tobytes()
        counts: NDArray[np.uint32] = np.concatenate([self.stage_counts, self.label_counts]).astype("<u4")
        return counts.tobytes()

    def box_workers(self) -> bytes:
        """Worker of each box, or the initially assigned worker: see `Picture.operand_workers`."""
        if self.aggregated:
            return b""
        worker: NDArray[np.int64] = np.where(self.workers >= 0, self.workers, self.assigned).astype(np.int64)
        return np.clip(worker + 1, 0, 255).astype(np.uint8).tobytes()

    def box_marks(self) -> bytes:
        """States and workers of the marks: see `Picture.operand_marks`."""
        if not self.aggregated:
            return b""
        told = notable(self.states, np.where(self.workers >= 0, self.workers, self.assigned))
        before, after = (marks.shown(told) for marks in self.marks)
        return b"".join(part.tobytes() for part in (before[0], after[0], before[1], after[1]))

    def running(self) -> dict[int, tuple[float, int, str]]:
        """By worker: when the first of its running operands began, how many run, and their label if it is the same."""
        ids = np.flatnonzero(self.states == OperandState.RUNNING)
        found = {}
        for worker in np.unique(self.workers[ids]).tolist():
            mine = ids[self.workers[ids] == worker]
            kinds = np.unique(self.label[mine])
            label = self._names[int(kinds[0])] if len(kinds) == 1 else ""
            found[worker] = float(self._since[mine].min()), len(mine), label
        return found

    def by_worker(self, n: int) -> NDArray[np.int64]:
        """Number of operands by worker and state, shape (n, states), of `n` workers."""
        cell = (self.workers.astype(np.int64) + 1) * N_STATES + self._states
        counts: NDArray[np.int64] = np.bincount(cell, minlength=(n + 1) * N_STATES)
        return counts[N_STATES : (n + 1) * N_STATES].reshape(n, N_STATES)  # the first are of no worker

    def words(self, operands: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The labels of operands after fusion, their kinds; "" for unknown operands."""
        words: NDArray[Any] = self._words[self._word[np.minimum(operands, self.n_after)]]
        return words

    def graph(self, job: str) -> DrawnGraph:
        """The graph in the page's form, made at the first call; `job` is always the same."""
        if self._graph is None:
            self._graph = self._drawn(job)
        return self._graph

    def _drawn(self, job: str) -> DrawnGraph:
        data, drawn = self.data, not self.aggregated
        size = self.member_ptr[1:] - self.member_ptr[:-1]
        if drawn:
            names = [plain_text(label) for label in data["after_labels"]]
            labels = list(dict.fromkeys(names)) or [""]
            row = {label: i for i, label in enumerate(labels)}
            before = _layer(
                data["before_src"], data["before_dst"], self.stage, self._stage_names(), [1] * self.n_before
            )
            label = np.array([row[name] for name in names], np.int64) if names else np.zeros(self.n_after, np.int64)
            after = _layer(data["after_src"], data["after_dst"], label, labels, size.tolist())
        else:
            names, labels = self._stage_names(), self._label_names()
            stage_edges, group_edges = (
                _edges(data["stage_edges"], self.bucket),
                _edges(data["group_edges"], self._labels_bucket),
            )
            before = _layer(*stage_edges, np.arange(len(names)), names, self.stage_counts.sum(1).tolist())
            sizes = np.bincount(self.label, minlength=len(labels)).tolist()
            after = _layer(*group_edges, np.arange(len(labels)), labels, sizes)
        return {
            "job": job,
            "stage_number": int(data.get("stage_number") or 1),
            "aggregated": self.aggregated,
            "n_before": self.n_before,
            "n_after": self.n_after,
            "n_pruned": self.n_pruned,
            "stages": self._stage_rows(),
            "before": before,
            "after": after,
            "group": self.group.tolist() if drawn else [],
            "stage": self.stage.tolist() if drawn else list(range(len(names))),
            "assigned": self.assigned.tolist() if drawn else [],
            "nbytes": np.frombuffer(data.get("after_nbytes", b""), "<i8").tolist() if drawn else [],
            "seconds": np.frombuffer(data.get("after_seconds", b""), "<f4").tolist() if drawn else [],
            "kind": [] if not self._plain else self.label.tolist() if drawn else list(range(len(labels))),
            "kinds": [_kind(*one) for one in zip_longest(data.get("group_types", ()), data.get("group_texts", ()))],
            "chunk": np.frombuffer(data.get("before_chunk", b""), "<u4").astype("<i4").tolist() if drawn else [],
            "grid": np.frombuffer(data["before_stage"], "<u4").tolist() if drawn else [],
            "grids": [[int(n) for n in grid] for grid in data.get("stage_grids", ())],
            "marks": [n for side in self.marks for n in side.counts],
            "after_stages": [] if drawn else self._stages_of_kinds(len(labels)),
        }

    def _index_members(self) -> None:
        """Indexes operands before fusion by operand after fusion: a flat array of stages with offsets."""
        kept = np.flatnonzero(self.group >= 0).astype(np.int32)
        kept = kept[np.argsort(self.group[kept], kind="stable")]
        self.members = kept  # operands before fusion, by the operand that they are fused into
        self._member_tensor = self.tensor[kept]
        sizes = np.bincount(self.group[kept], minlength=self.n_after)
        self.member_ptr = np.concatenate([[0], np.cumsum(sizes)])

    def _stages_of_kinds(self, n: int) -> list[list[int]]:
        """Rows in `stages` of the operands that each of `n` kinds was fused from."""
        found = np.zeros((n, _rows(self.bucket)), bool)
        found[self.label[self.group[self.members]], self.stage[self.members]] = True
        return [np.flatnonzero(row).tolist() for row in found]

    def _counts_of(self, rows: NDArray[np.integer[Any]], n: int) -> NDArray[np.int64]:
        """Counts by row and state while all operands are unscheduled."""
        counts = np.zeros((n, N_STATES), np.int64)
        counts[:, OperandState.UNSCHEDULED] = np.bincount(rows, minlength=n)[:n] if n else 0
        return counts

    def _stage_names(self) -> list[str]:
        return _bucket_names([plain_text(stage[0]) for stage in self.data["stages"]], self.bucket)

    def _label_names(self) -> list[str]:
        return _bucket_names([plain_text(label) for label in self.data["group_labels"]], self._labels_bucket)

    def _stage_rows(self) -> list[StageRow]:
        stages, rows = self.data["stages"], []
        first = np.unique(self.bucket, return_index=True)[1]
        names = self._stage_names()[: len(first)]  # a graph without stages has a single row all the same
        for name, at, n in zip(names, first, self.stage_counts.sum(1).tolist()):
            _, file, line, text = stages[at][:4]
            rows.append(StageRow(name=name, file=plain_text(file), line=int(line or 0), text=plain_text(text), n=n))
        return rows


def _kind(of: Sequence[Any] | None, text: str | None) -> Kind:
    """A kind of `group_types` and `group_texts`."""
    dtype, shape = of if of is not None else ("", ())
    return Kind(dtype=plain_text(dtype, 80), shape=[int(length) for length in shape], text=plain_text(text or "", 300))


def _padded(values: NDArray[Any], n: int, fill: int) -> NDArray[Any]:
    """The first `n` values, padded with `fill`."""
    return (
        values
        if len(values) == n
        else np.concatenate([values, np.full(max(0, n - len(values)), fill, values.dtype)])[:n]
    )


def _buckets(n: int) -> NDArray[np.int16]:
    """Rows of `n` items in a table of at most MAX_BOXES rows; neighbours share a row."""
    rows = np.arange(n) if n <= MAX_BOXES else np.arange(n) * MAX_BOXES // n
    return rows.astype(np.int16)


def _stage_rows(stages: Sequence[Sequence[Any]]) -> NDArray[np.int16]:
    """Row of each stage; stages of an operand each with the same name and line, as a loop makes them, share a row."""
    rows: dict[Any, int] = {}
    alike = [rows.setdefault(tuple(stage[:4]) if stage[4] == 1 else at, len(rows)) for at, stage in enumerate(stages)]
    return _buckets(len(rows))[alike] if alike else _buckets(0)


def _kind_rows(labels: Sequence[str], label: NDArray[np.uint32]) -> NDArray[np.int16]:
    """Row of each kind of fused operand; if there are too many, single operands of the same name share a row."""
    if len(labels) <= MAX_BOXES:
        return _buckets(len(labels))
    sizes = np.bincount(label, minlength=len(labels))
    rows: dict[Any, int] = {}
    alike = [rows.setdefault(name if sizes[at] == 1 else at, len(rows)) for at, name in enumerate(labels)]
    return _buckets(len(rows))[alike]


def _rows(bucket: NDArray[np.int16]) -> int:
    return int(bucket.max()) + 1 if len(bucket) else 1


def _bucket_names(names: list[str], bucket: NDArray[np.int16]) -> list[str]:
    """Names of the rows; a row of several names says how many."""
    found: list[dict[str, int]] = [{} for _ in range(_rows(bucket))]
    for name, row in zip(names, bucket.tolist(), strict=True):
        found[row][name] = found[row].get(name, 0) + 1
    return [_row_name(row) if row else "" for row in found]


def _row_name(names: Mapping[str, int]) -> str:
    first, more = next(iter(names)), sum(names.values()) - 1
    return first if len(names) == 1 else f"{first} and {more} more"


def _layer(src: Any, dst: Any, label: NDArray[np.integer[Any]], labels: list[str], size: list[int]) -> BoxGraph:
    """A graph in the page's form; `src` and `dst` are arrays or little-endian uint32 bytes."""
    ends = [np.frombuffer(end, "<u4").tolist() if isinstance(end, bytes) else list(end) for end in (src, dst)]
    n = len(label)
    pairs = [(a, b) for a, b in zip(*ends) if 0 <= a < n and 0 <= b < n]
    return BoxGraph(
        n=n, src=[a for a, _ in pairs], dst=[b for _, b in pairs], label=label.tolist(), labels=labels, size=size
    )


def _edges(pairs: Any, bucket: NDArray[np.int16]) -> tuple[list[int], list[int]]:
    """Edges between rows, without duplicates and loops."""
    seen = sorted({(int(bucket[a]), int(bucket[b])) for a, b in pairs if a < len(bucket) and b < len(bucket)})
    return [a for a, b in seen if a != b], [b for a, b in seen if a != b]


def summed(counts: NDArray[np.int64], rows: NDArray[np.integer[Any]], n: int) -> NDArray[np.int64]:
    """Sums of the rows of `counts`, shape (n, states): row k goes to `rows[k]`."""
    found = np.zeros((n, counts.shape[1]), np.int64)
    np.add.at(found, rows, counts)
    return found


def _move_counts(
    counts: NDArray[np.int64], rows: NDArray[np.integer[Any]], old: NDArray[np.int64], new: NDArray[np.int64]
) -> None:
    """Moves operands of `rows` from their old states to new ones."""
    cells = counts.size
    change = np.bincount(rows * N_STATES + new, minlength=cells) - np.bincount(rows * N_STATES + old, minlength=cells)
    counts += change.reshape(counts.shape)


# States, the least notable first.
NOTABLE = (S.FREED, S.FINISHED, S.SPILLED, S.CANCELLED, S.UNSCHEDULED, S.READY, S.RUNNING, S.CANCELLING, S.FATAL)
_TELLS = np.argsort(NOTABLE).astype(np.uint16)  # place of each state in that order

Told = NDArray[np.uint16]  # state of an operand (index in NOTABLE) and its worker, packed into a number


def notable(states: NDArray[np.integer[Any]], workers: NDArray[np.integer[Any]]) -> Told:
    """Numbers that are greater the more notable an operand's state is; `workers` are -1 where there is none yet."""
    told: Told = _TELLS[states] << 8 | np.clip(workers.astype(np.int32) + 1, 0, 255).astype(np.uint16)
    return told


class Marks:
    """The marks of all boxes.

    Parameters
    ----------
    box
        Number of the box of each operand, shape (operands,).
    n_boxes
        Boxes.
    most
        Marks of all boxes together at most, and no fewer than `n_boxes`; small boxes get as many as they have operands.
    operand
        Row in what `shown` takes of each operand of `box`; without it they are the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> marks = Marks(np.array([0, 0, 0, 0, 0, 1]), n_boxes=2, most=3)
    >>> marks.counts
    [2, 1]
    >>> states, workers = marks.shown(notable(np.array([3, 8, 3, 3, 2, 0]), np.array([0, 1, 0, 0, 1, -1])))
    >>> states.tolist(), workers.tolist()  # 0 and 1; 2, 3 and 4; 5
    ([8, 2, 0], [2, 2, 0])
    """

    def __init__(
        self,
        box: NDArray[np.integer[Any]],
        n_boxes: int,
        most: int = MAX_MARKS,
        operand: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        sizes = np.bincount(box, minlength=n_boxes)
        level = bisect_right(range(1, MAX_DRAWN + 1), most, key=lambda one: int(np.minimum(sizes, one).sum()))
        counts = np.minimum(sizes, max(1, level))
        self.counts: list[int] = counts.tolist()  # marks of each box
        order = np.argsort(box, kind="stable").astype(np.int32)
        self._order = order if operand is None else operand[order]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        runs = within * np.repeat(sizes, counts) // np.repeat(np.maximum(counts, 1), counts)
        self._first = np.repeat(np.cumsum(sizes) - sizes, counts) + runs  # place of each mark's first operand

    def shown(self, told: Told) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """State of each mark, and worker + 1 of an operand in that state (0: no worker yet).

        `told` are the numbers of all operands, as `notable` makes them.
        """
        if not len(self._first):
            return np.zeros(0, np.uint8), np.zeros(0, np.uint8)
        found = np.maximum.reduceat(told[self._order], self._first)
        return np.array(NOTABLE, np.uint8)[found >> 8], (found & 255).astype(np.uint8)
