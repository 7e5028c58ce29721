"""OperandFacts: state, worker and seconds of the operands of a job's newest stage, folded from events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.model import events
from jmars.model.events import Event
from jmars.model.states import STATE_NAMES
from jmars.model.timing import spans
from jmars.reports.graph_dot import GraphColours

__all__ = ["OperandFacts"]

COLOURS = ("kind", "state", "worker", "seconds")


class OperandFacts:
    """Facts of operands after fusion, by number.

    Attributes
    ----------
    graph
        Data of the newest `GraphBuilt` event; None before.
    state, worker, seconds
        Shape (operands,); a worker of -1 is none.
    """

    graph: Mapping[str, Any] | None = None

    def __init__(self) -> None:
        self.state: NDArray[np.int64] = np.zeros(0, np.int64)
        self.worker: NDArray[np.int64] = np.zeros(0, np.int64)
        self.seconds: NDArray[np.float64] = np.zeros(0)

    @classmethod
    def of(cls, log: Iterable[Event], job: str) -> OperandFacts:
        """Facts of a job in a log."""
        facts = cls()
        for _, time, kind, of, data in log:
            if of != job:
                continue
            if kind == events.GRAPH_BUILT:
                n = int(data["n_after"])
                facts.graph = data
                facts.state, facts.worker, facts.seconds = np.zeros(n, np.int64), np.full(n, -1), np.zeros(n)
            elif kind == events.OPERANDS_MOVED:
                ids = np.frombuffer(data["ids"], "<u4").astype(np.int64)
                ids = ids[ids < len(facts.state)]
                facts.state[ids] = int(data["state"])
                if int(data["worker"]) >= 0:
                    facts.worker[ids] = int(data["worker"])
            elif kind == events.OPERANDS_TIMED:
                block = spans(time, data)
                ids = block[:, 5].astype(np.int64)
                inside = ids < len(facts.seconds)
                facts.seconds[ids[inside]] = (block[:, 4] - block[:, 2])[inside]
                facts.worker[ids[inside]] = int(data["worker"])
        return facts

    def colours(self, by: str) -> GraphColours | None:
        """Colours of the operands; None for those of kinds.

        Raises
        ------
        ValueError
            For other names than "kind", "state", "worker" and "seconds".
        """
        if by not in COLOURS:
            raise ValueError(f"colour is {by!r}; choose one of {', '.join(map(repr, COLOURS))}")
        if by == "state":
            return GraphColours.by_state([STATE_NAMES[k] for k in self.state.tolist()])
        if by == "worker":
            names = [str(name) for name in (self.graph or {}).get("workers", ())]
            return GraphColours.by_worker(self.worker.tolist(), names)
        return GraphColours.by_seconds(self.seconds) if by == "seconds" else None
