"""Folds events to the time line of each worker: its lane in the view, bounded however long the run.

A piece is an operand with its four worker states. When there are too many pieces, neighbours of a lane are merged, so
that the whole run stays in sight and the shares of the states stay true. Running operands are an open piece of a
lane.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jmars.model.timing import Spans
from jmars.notebook.view import Lane, Lanes, OpenPiece

__all__ = ["LaneState"]

MOST = 320  # pieces of all lanes together that are shown
_NAMES = 60  # different labels at most


@dataclass
class _Piece:
    begin: float  # start of the calculation
    end: float
    took: list[float]  # seconds in each of the four states
    n: int  # operands
    label: str  # of the operand; "" for a merged piece of different operands
    lines: frozenset[int] = frozenset()  # rows of the lines that made the operands

    def joined(self, other: _Piece) -> _Piece:
        """Merges the piece with the next piece."""
        took = [a + b for a, b in zip(self.took, other.took)]
        label = self.label if self.label == other.label else ""
        lines = self.lines if self.lines == other.lines else self.lines | other.lines
        return _Piece(self.begin, max(self.end, other.end), took, self.n + other.n, label, lines)


@dataclass
class LaneState:
    """The lanes of a job.

    Examples
    --------
    >>> import numpy as np
    >>> lanes = LaneState()
    >>> lanes.add(0, np.array([[1.0, 1.5, 2.0, 4.0, 4.5, 7.0]]), 1.0, lambda operand: f"operand {operand}")
    >>> lane = lanes.part({0: (3.0, 2, "exp")})["lanes"][0]
    >>> lane["begin"], lane["end"], lane["took"], lane["n"]
    ([1.0], [3.5], [[0.5, 0.5, 2.0, 0.5]], [1])
    >>> lane["open"]
    {'begin': 3.5, 'n': 2, 'label': 2}
    """

    pieces: dict[int, list[_Piece]] = field(default_factory=dict)  # by worker
    most: dict[int, int] = field(default_factory=dict)  # by worker: operands that a piece of its lane may hold

    def add(
        self,
        worker: int,
        found: Spans,
        zero: float,
        label: Callable[[int], str],
        lines: Callable[[int], frozenset[int]] = lambda operand: frozenset(),
    ) -> None:
        """Adds operands that ran on a worker.

        Parameters
        ----------
        worker
            Its number.
        found
            Begins and ends of the operands.
        zero
            Start of the view's time axis, in seconds since the epoch.
        label, lines
            Name of an operand, and rows of the lines that made it.
        """
        lane = self.pieces.setdefault(worker, [])
        most = self.most.setdefault(worker, 1)
        for row in found.tolist():
            took = [max(0.0, after - before) for before, after in zip(row, row[1:5])]
            piece = _Piece(row[2] - zero, row[4] - zero, took, 1, label(int(row[5])), lines(int(row[5])))
            if lane and lane[-1].n < most:
                lane[-1] = lane[-1].joined(piece)
            else:
                lane.append(piece)
        room = max(8, MOST // len(self.pieces))
        for number, pieces in self.pieces.items():
            while len(pieces) > room:
                pieces[:] = [a.joined(b) for a, b in zip(pieces[::2], pieces[1::2])] + pieces[len(pieces) // 2 * 2 :]
                self.most[number] *= 2

    def part(self, running: Mapping[int, tuple[float, int, str]]) -> Lanes | None:
        """The lanes as the view draws them; None before any operand ran.

        Parameters
        ----------
        running
            `OperandTable.running` on the view's time axis.
        """
        if not self.pieces and not running:
            return None
        labels: dict[str, int] = {"": 0}
        sets: dict[frozenset[int], int] = {}
        lanes = []
        for number in sorted({*self.pieces, *running}):
            pieces = self.pieces.get(number, [])
            begin, n, alike = running.get(number, (0.0, 0, ""))
            for label in (*(piece.label for piece in pieces), alike):
                if len(labels) < _NAMES:
                    labels.setdefault(label, len(labels))
            begin = max(begin, pieces[-1].end if pieces else 0.0)  # a worker calculates one operand at a time
            now = OpenPiece(begin=round(begin, 4), n=n, label=labels.get(alike, 0)) if n else None
            lanes.append(
                Lane(
                    worker=number,
                    begin=[round(piece.begin, 4) for piece in pieces],
                    end=[round(piece.end, 4) for piece in pieces],
                    took=[[round(one, 5) for one in piece.took] for piece in pieces],
                    n=[piece.n for piece in pieces],
                    label=[labels.get(piece.label, 0) for piece in pieces],
                    lines=[sets.setdefault(piece.lines, len(sets)) for piece in pieces],
                    open=now,
                )
            )
        return Lanes(labels=list(labels), lines=[sorted(rows) for rows in sets], lanes=lanes)
