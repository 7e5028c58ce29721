"""Placement of operands during the run, as Mars does: a baseline for plans.

`FollowInputs` is the rule of a scheduler that plans only the initial operands. The rule ignores load, so a single
worker may attract all operands (`tests/benchmarks/plans.py` measures this).
Source: docs/explanation/seeds.md, "Choosing workers".
"""

from __future__ import annotations

from jmars.plan.simulation.event_loop import Simulation

__all__ = ["FollowInputs"]


class FollowInputs:
    """A `Policy`: an operand goes to the worker with most bytes of its inputs, among equals the least loaded."""

    def ready(self, run: Simulation, operands: list[int]) -> None:
        """Places ready operands in order of rank."""
        for operand in sorted(operands, key=run.rank.__getitem__):
            held = [0] * run.p
            for chunk in run.inputs[operand]:
                for w in range(run.p):
                    if run.held[chunk] >> w & 1:
                        held[w] += run.nbytes[chunk]
            run.place(operand, min(range(run.p), key=lambda w: (-held[w], run.load[w] / run.cores[w], w)))

    def idle(self, run: Simulation, worker: int) -> bool:
        """Returns False: placed operands are never moved."""
        return False
