"""Replay data: the events of a run as moments, moves of operands and keyframes, which a page folds to any moment.

Operands move at every moment, so the page folds their moves itself (labextension/src/model/replay.ts). The other parts
of the view are kept as `RunState` tells them, at no more than some hundreds of moments: keyframes. The data is a line
of JSON and columns of numbers, compressed by zlib, which browsers unpack; no code is in it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.model.events import EXPECTED, GRAPH_BUILT, MEMORY_CHANGED, OPERANDS_MOVED, OPERANDS_TIMED, Event
from jmars.model.status import OperandState
from jmars.notebook.marks import NOTABLE
from jmars.notebook.operand_table import N_STATES, OperandTable
from jmars.notebook.run_state import RunState
from jmars.notebook.view import TRAITS, as_text

KEYS = 240  # keyframes of steady changes: time lines, memory
_FORCED = 400  # keyframes of rare events, kept at once
_AFTER = 0.5  # seconds after the end of the job that are shown
_FOLDED = ("operand_states", "operand_workers", "operand_marks", "stages")  # traits that the page folds
_STEADY = (OPERANDS_MOVED, OPERANDS_TIMED, MEMORY_CHANGED, EXPECTED)


def replay_data(events: Sequence[Event], job: str, name: str = "") -> bytes:
    """The replay data of a job.

    Parameters
    ----------
    events
        Events of the job and of its cluster, in the order of the log.
    job
        Id of the job.
    name
        Title of the run.

    Returns
    -------
    bytes
        About 10 bytes an operand.

    Raises
    ------
    ValueError
        If no event is of the job.

    Examples
    --------
    >>> log = [[1, 10.0, "JobSubmitted", "job-1", {"name": "In [1]"}],
    ...        [2, 10.5, "JobMoved", "job-1", {"state": "succeeded", "error": None, "elapsed": 0.5}]]
    >>> data = zlib.decompress(replay_data(log, "job-1"))
    >>> head = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    >>> head["seconds"], head["kinds"], [key["moment"] for key in head["keys"]]
    (0.5, ['JobSubmitted', 'JobMoved'], [0, 1])
    """
    mine = [event for event in events if event[3] in ("", job)]
    first = next((at for at, event in enumerate(mine) if event[3]), None)
    if first is None:
        raise ValueError(f"no event of {job}")
    tape = _Tape(job, name, mine[first][1], max(event[1] for event in mine))
    tape.run.fold(mine[:first])
    for event in mine[first:]:
        ended = tape.run.job.ended if tape.run.job else None
        if ended is not None and event[1] > ended + _AFTER:
            break
        tape.take(event)
    return tape.packed()


class _Tape:
    """Columns while the events are folded."""

    def __init__(self, job: str, name: str, first: float, last: float) -> None:
        self.run = RunState(view="full")
        self.run.follow(job, name)
        self.name, self.job = name, job
        self.first = first  # seconds since the epoch
        self.step = max(last - first, 1e-6) / KEYS  # seconds between two keyframes
        self.times: list[float] = []
        self.kinds: dict[str, int] = {}
        self.kind: list[int] = []
        self.moves: list[tuple[int, int, int, int]] = []  # moment, state, worker, operands
        self.ids: list[NDArray[np.int64]] = []
        self.keys: list[dict[str, Any]] = []
        self.tables: list[tuple[int, list[int], OperandTable]] = []
        self._told: dict[str, int] = {}  # revision of each trait in the keyframes
        self._forced = 0
        self._kept = -1.0  # time of the newest keyframe

    def take(self, event: Event) -> None:
        """Folds an event."""
        moment, (_, time, kind, _, data) = len(self.times), event
        at = max(time - self.first, self.times[-1] if self.times else 0.0)
        if (
            self.times and at > self.times[-1] >= self._kept + self.step
        ):  # the newest moment is the last moment at its time
            self._key(moment - 1, self.times[-1])
        self.times.append(at)
        self.kind.append(self.kinds.setdefault(kind, len(self.kinds)))
        self.run.fold([event])
        table = self.run.job.table if self.run.job else None
        if kind == GRAPH_BUILT and table is not None:
            self.tables.append((moment, list(self.run.job.earlier) if self.run.job else [], table))
        elif kind == OPERANDS_MOVED and table is not None:
            self._moved(moment, data, table)
        if kind not in _STEADY and self._forced < _FORCED:
            self._forced += 1
            self._key(moment, at)

    def _moved(self, moment: int, data: dict[str, Any], table: OperandTable) -> None:
        state, ids = int(data["state"]), np.unique(np.frombuffer(data["ids"], "<u4")).astype(np.int64)
        ids = ids[ids < table.n_after]
        if 0 <= state < N_STATES and len(ids):
            self.moves.append((moment, state, int(data.get("worker", -1)), len(ids)))
            self.ids.append(ids)

    def _key(self, moment: int, at: float) -> None:
        """Keeps what has changed since the newest keyframe."""
        self._kept = at
        changed = [name for name in TRAITS if self.run.revision[name] != self._told.get(name) and name not in _FOLDED]
        self._told = dict(self.run.revision)
        found = {name: self.run.trait(name, self.first + at) for name in dict.fromkeys(["snap", *changed])}
        plain = {name: as_text(value) if isinstance(value, bytes) else value for name, value in found.items()}
        self.keys.append({"moment": moment, **plain})

    def packed(self) -> bytes:
        """All as bytes."""
        if self.keys[-1]["moment"] != len(self.times) - 1:
            self._key(len(self.times) - 1, self.times[-1])
        parts = _Sections()
        moves = np.array(self.moves, np.int64).reshape(-1, 4)
        gaps = [np.diff(ids, prepend=0) for ids in self.ids]
        columns = {"times": (self.times, "<f8"), "kind": (self.kind, "u1"), "ids": (_joined(gaps), "<u4")}
        columns |= {"moment": (moves[:, 0], "<u4"), "state": (moves[:, 1], "u1")}
        columns |= {"worker": (moves[:, 2], "<i2"), "size": (moves[:, 3], "<u4")}
        head = {
            "version": 1,
            "job": self.job,
            "name": self.name,
            "seconds": self.times[-1],
            "kinds": list(self.kinds),
            "notable": [int(state) for state in NOTABLE],
            "running": int(OperandState.RUNNING),
            "keys": self.keys,
            "tables": [_table(parts, *one) for one in self.tables],
            "columns": {name: parts.add(*column) for name, column in columns.items()},
        }
        text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
        return zlib.compress(len(text).to_bytes(4, "little") + text + b"".join(parts.packed), 6)


class _Sections:
    """Columns of numbers, one after the other."""

    def __init__(self) -> None:
        self.packed: list[bytes] = []
        self._end = 0

    def add(self, values: Any, dtype: str) -> list[Any]:
        """[Offset in bytes, length, type] of a new column."""
        column = np.asarray(values).astype(dtype)
        self.packed.append(column.tobytes())
        at, self._end = self._end, self._end + column.nbytes
        return [at, len(column), dtype.lstrip("<")]


def _table(parts: _Sections, moment: int, earlier: list[int], table: OperandTable) -> dict[str, Any]:
    """What the page needs to fold the operands of a stage."""
    kept = table.group >= 0
    return {
        "moment": moment,
        "earlier": earlier,  # operands of earlier stages, by state
        "n": table.n_after,
        "aggregated": table.aggregated,
        "rows": [len(table.stage_counts), len(table.label_counts)],
        "marks": [counts for one in table.marks for counts in one.counts],
        "label": parts.add(table.label, "<u2"),
        "assigned": parts.add(table.assigned, "<i2"),
        "group": parts.add(np.diff(table.group[kept], prepend=0), "<i4"),
        "stage": parts.add(table.stage[kept], "<u2"),
    }


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
