"""Folds events to the time line of each worker: its lane in the view, bounded however long the run.

A piece is an operand with its four worker states. When there are too many pieces, neighbours of a lane are merged, so
that the whole run stays in sight and the shares of the states stay true. Running operands are an open piece of a
lane. The pieces of a lane are columns, and new operands are merged into them all at once.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.model.timing import Spans
from jmars.notebook.view import Lane, Lanes, OpenPiece

__all__ = ["LaneState"]

MOST = 320  # pieces of all lanes together that are shown
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

    parts: dict[int, list[_Pieces]] = field(default_factory=dict)  # by worker: merged pieces, and what came since
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
        room = max(8, MOST // max(1, len(self.parts)))
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
            begin = max(begin, pieces.end[-1] if pieces else 0.0)  # a worker calculates one operand at a time
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
