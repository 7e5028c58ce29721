"""Folds events to the rows of the view's Workers tab: state, bytes and operands of each worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmars.model.states import STATE_NAMES, OperandState
from jmars.notebook.operand_table import OperandTable
from jmars.notebook.view import WorkerRow, plain_text

__all__ = ["WorkerState"]

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
