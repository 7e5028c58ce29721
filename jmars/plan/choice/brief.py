"""are_brief: whether messages about the operands of a run take longer than the operands, and all chunks are small.

Such a run is fastest where many operands are ready at once, since they share a message; depth first, which keeps few
chunks in memory, has few ready operands. Memory is no concern, so the order that has the longest way to the end first
serves.
"""

from __future__ import annotations

import numpy as np

from jmars.plan.cost.profile import Profile
from jmars.plan.cost.signature import signature
from jmars.plan.plan_graph import PlanGraph
from jmars.tensor.chunk import ChunkGraph

__all__ = ["BRIEF_ORDER", "are_brief"]

BRIEF_ORDER = "blevel"
LEAST = 1000  # operands; fewer share few messages in any order
SECONDS = 100e-6  # of an operand, on average
NBYTES = 2**24  # of all chunks together


def are_brief(operands: ChunkGraph, graph: PlanGraph, profile: Profile, memory: int) -> bool:
    """Whether the operands of a run on a single host are brief.

    Results without a bound count as the newest results of their program did; False where none was seen.

    Parameters
    ----------
    operands, graph
        The compiled graph, and what `annotate` made of it.
    profile
        Measured costs.
    memory
        Bytes for chunks and scratch.
    """
    computed = operands.program[operands.program >= 0]
    if len(computed) < LEAST:
        return False
    if graph.cost[operands.program >= 0].mean() - profile.dispatch > SECONDS:
        return False
    nbytes = int(graph.nbytes.sum())
    for number, count in enumerate(np.bincount(computed).tolist()):
        program = operands.programs[number]
        if count and not program.output.has_bound:
            seen = profile.results.get(signature(program).key)
            if seen is None:
                return False
            nbytes += count * seen
    return nbytes <= min(NBYTES, memory // 4)
