"""JobWarnings: the warnings of a job's floating point errors, one for each line of the user and each kind.

Workers report errors by operand and node; the compiled graph knows the user's line. The client tells them when the job
ends. Source: docs/decisions/0055-warnings-of-workers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmars.kernels.float_errors import FloatError, message
from jmars.model import events
from jmars.model.reports import Warned
from jmars.scheduler.event_log import EventLog
from jmars.scheduler.prepare import Ready
from jmars.tensor.source_line import SourceLine

__all__ = ["JobWarnings"]

MOST = 1000  # warnings of a job; further lines are not told

Told = tuple[str, SourceLine | None, str]


class JobWarnings:
    """Warnings of one job."""

    def __init__(self, job: str, log: EventLog) -> None:
        self._job, self._log = job, log
        self._found: list[tuple[int, int, Told]] = []  # number of the user's operation, bit of the error
        self._seen: set[tuple[SourceLine | None, str]] = set()

    @property
    def told(self) -> list[Told]:
        """Key of the tensor that a warning is about, the user's line, and NumPy's text; in the order of the graph."""
        return [told for *_, told in sorted(self._found, key=lambda one: one[:2])]

    def add(self, ready: Ready, report: Warned) -> None:
        """Take a report of the workers."""
        prepared, bound = ready
        for operand, error in zip(report.operands, report.errors, strict=True):
            if len(self._found) >= MOST:
                return
            found = FloatError(*error)
            source, node = prepared.compiled.source(operand, found)
            line, text = bound.line(source.line), message(node, found.bit)
            if (line, text) not in self._seen:
                number = -1 if source.line is None else source.line.lineno
                self._add(number, found.bit, ("" if number < 0 else bound.keys[number], line, text))

    def restore(self, told: Sequence[Sequence[Any]]) -> None:
        """Take the warnings of a job that ended under an earlier scheduler."""
        for number, (key, line, text) in enumerate(told):
            self._add(number, 0, (key, None if line is None else SourceLine(*line), text))

    def _add(self, number: int, bit: int, told: Told) -> None:
        _, line, text = told
        self._seen.add((line, text))
        self._found.append((number, bit, told))
        self._log.append(events.LINE_WARNED, self._job, {"line": None if line is None else list(line), "text": text})
