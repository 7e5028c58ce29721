"""Summaries of a job's operands, measurements and errors as plain data, for lists, events and reports.

JobWarnings: the warnings of a job's floating point errors, one for each line of the user and each kind.

Workers report errors by operand and node; the compiled graph knows the user's line. The client tells them when the job
ends. Source: docs/decisions/0055-warnings-of-workers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.errors import InternalError, MemoryLimitError, StorageError, WorkerLostError
from jmars.kernels.float_errors import FloatError, message
from jmars.model import events
from jmars.model.messages import Failure, Warned
from jmars.model.status import STATE_NAMES
from jmars.scheduler.event_log import EventLog
from jmars.scheduler.operand_rows import Deaths
from jmars.scheduler.prepare import Ready
from jmars.tensor.operand import SourceLine


def counts_by_state(states: bytes | bytearray) -> list[int]:
    """Number of operands in each state."""
    counts: list[int] = np.bincount(np.frombuffer(states, np.uint8), minlength=len(STATE_NAMES)).tolist()
    return counts


def sum_counts(one: list[int], other: list[int]) -> list[int]:
    """Counts of two stages together."""
    return [a + b for a, b in zip(one, other, strict=True)]


def merge_measurements(before: dict[str, Any] | None, stage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Measurements of a job after one more stage: times and moved bytes add up, the peak is the maximum.

    Examples
    --------
    >>> one = {"makespan": 1.5, "peak": 10, "spilled": 0, "moved": 3}
    >>> merge_measurements(one, one | {"peak": 7})
    {'makespan': 3.0, 'peak': 10, 'spilled': 0, 'moved': 6}
    """
    if before is None or stage is None:
        return stage if before is None else before
    return {name: max(before[name], n) if name == "peak" else before[name] + n for name, n in stage.items()}


def states_as_events(job: str, states: bytes | bytearray) -> list[tuple[str, str, dict[str, Any]]]:
    """For each state an event with its operands, for a reader that missed earlier events."""
    rows = np.frombuffer(states, np.uint8)
    return [
        (
            events.OPERANDS_MOVED,
            job,
            {"state": state, "ids": np.flatnonzero(rows == state).astype("<u4").tobytes(), "worker": -1},
        )
        for state in np.unique(rows).tolist()
    ]


def standing(
    job: str, name: str, picture: dict[str, Any] | None, states: bytes | bytearray, moved: dict[str, Any]
) -> list[tuple[str, str, dict[str, Any]]]:
    """Present state of a job as events, for a reader that missed some; `picture` is None where it was dropped."""
    found: list[tuple[str, str, dict[str, Any]]] = [(events.JOB_SUBMITTED, job, {"name": name})]
    if picture is not None:
        found += [(events.GRAPH_BUILT, job, picture), *states_as_events(job, states)]
    return [*found, (events.JOB_MOVED, job, moved)]


def blame_operand(error: BaseException | None, ready: Ready) -> tuple[str, SourceLine | None]:
    """Where to look for why a stage could not be opened: the operand that is too large, else the largest result."""
    prepared, bound = ready
    operand = error.operand if isinstance(error, MemoryLimitError) else None
    if operand is None and isinstance(error, MemoryLimitError) and prepared.results:
        size = prepared.table.nbytes
        largest = max(prepared.results.values(), key=lambda ids: sum(size[one] for one in ids))
        operand = largest[0] if largest else None
    return ("while it was opened on the workers", None) if operand is None else prepared.blame(operand, bound)


def internal_failure(what: str) -> Failure:
    """Failure of one job by a fault of jmars (`errors.fault_of`); other jobs go on."""
    told = f"jmars failed by its own fault, and other jobs go on: {what}; please report that, and run the cell again"
    return Failure.of(InternalError(told))


def worker_killer_error(
    operand: str, deaths: Deaths, why: str, how: str, advice: str, others: Sequence[str] = ()
) -> Exception:
    """Error of an operand that ended several workers, as did `others` that ran beside it at last.

    `advice` tells how to get more memory.
    """
    beside = f"; so did {', '.join(others)}" if others else ""
    if how == "memory":
        return MemoryLimitError(
            f"{operand} took more memory than there is and was ended {deaths.by_memory} times, also while it ran alone "
            f"(the last time: {why}){beside}; use a smaller chunk_size, or {advice}"
        )
    return WorkerLostError(
        f"{operand} ended {deaths.total} workers, the last one {why}{beside}; run it on smaller data, "
        "or look for what it does that ends a process"
    )


def chunk_loss_error(operand: str, times: int, why: str) -> StorageError:
    """Error of a job that lost the same chunk several times."""
    return StorageError(
        f"the chunk of {operand} was lost {times} times, a second or more apart, the last time because {why}; it was "
        "computed again each time. Look at the disk of spill_dir, or give another one"
    )


MOST = 1000  # warnings of a job; further ones are dropped

Told = tuple[str, SourceLine | None, str]


class JobWarnings:
    """Warnings of one job."""

    def __init__(self, job: str, log: EventLog) -> None:
        self._job, self._log = job, log
        self._found: list[tuple[int, int, Told]] = []  # (number of the user's operation, bit of the error, warning)
        self._seen: set[tuple[SourceLine | None, str]] = set()

    @property
    def rows(self) -> list[Told]:
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
