"""What the event log says of one job, folded for the seeds' tests."""

from __future__ import annotations

from collections import Counter

import numpy as np

from jmars.model.status import OperandState as S


class Fold:
    """Moves of operands, in their order, and the graph that they belong to.

    Attributes
    ----------
    moves
        (operand, state) in the order of the log.
    inputs
        Operands that each operand reads.
    sums
        After each event, how many operands there are in all states together.
    """

    def __init__(self, events) -> None:
        built = next(event[4] for event in events if event[2] == "GraphBuilt")
        self.n = int(built["n_after"])
        self.inputs: list[set[int]] = [set() for _ in range(self.n)]
        for src, dst in zip(np.frombuffer(built["after_src"], "<u4"), np.frombuffer(built["after_dst"], "<u4")):
            self.inputs[int(dst)].add(int(src))
        self.moves: list[tuple[int, S]] = []
        self.states = [S.UNSCHEDULED] * self.n
        self.workers: dict[int, int] = {}
        self.sums = []
        for event in events:
            if event[2] != "OperandsMoved":
                continue
            for operand in np.frombuffer(event[4]["ids"], "<u4").tolist():
                if event[4]["state"] == S.RUNNING:
                    self.workers[operand] = event[4]["worker"]
                self.moves.append((operand, S(event[4]["state"])))
                self.states[operand] = S(event[4]["state"])
            self.sums.append(sum(Counter(self.states).values()))
        self.job_states = [event[4]["state"] for event in events if event[2] == "JobMoved"]

    def times(self, state: S) -> Counter:
        """How often each operand came into a state."""
        return Counter(operand for operand, after in self.moves if after == state)

    def first(self, operand: int, state: S) -> int:
        """The place of that move in the log."""
        return self.moves.index((operand, state))

    def worker(self, operand: int) -> int:
        """The worker that took an operand last."""
        return self.workers[operand]
