"""Placing operands while the graph runs: seed 003's way, to compare plans with.

`FollowInputs` is what a scheduler does that plans only the initial operands. Its weak side is in its rule: most bytes
held says nothing of load, so one worker may draw everything to it (`tests/benchmarks/plans.py` shows it).
Source: seed 003, "Worker 选择策略"; PLANNING 1.4.
"""

from __future__ import annotations

from jmars.plan.simulation.event_loop import Simulation

__all__ = ["FollowInputs"]


class FollowInputs:
    """A `Policy`: an operand goes where most bytes of its inputs lie, of equals to the least occupied worker."""

    def ready(self, run: Simulation, operands: list[int]) -> None:
        """Place each, in order of rank."""
        for operand in sorted(operands, key=run.rank.__getitem__):
            held = [0] * run.p
            for chunk in run.inputs[operand]:
                for w in range(run.p):
                    if run.held[chunk] >> w & 1:
                        held[w] += run.nbytes[chunk]
            run.place(operand, min(range(run.p), key=lambda w: (-held[w], run.load[w] / run.cores[w], w)))

    def idle(self, run: Simulation, worker: int) -> bool:
        """It never moves what has a place."""
        return False
