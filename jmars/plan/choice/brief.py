"""are_brief: whether messages about the operands of a run take longer than the operands, and all chunks are small.

Such a run is fastest where many operands are ready at once, since they share a message; depth first, which keeps few
chunks in memory, has few ready operands. Memory is no concern, so the order that has the longest way to the end first
serves.
"""

from __future__ import annotations

from jmars.plan.cost.annotate import has_unseen_results
from jmars.plan.cost.profile import Profile
from jmars.plan.plan_graph import PlanGraph
from jmars.tensor.chunk import ChunkGraph

__all__ = ["BRIEF_ORDER", "are_brief"]

BRIEF_ORDER = "blevel"
LEAST = 1000  # operands; fewer share few messages in any order
SECONDS = 100e-6  # of an operand, on average
NBYTES = 2**24  # of all chunks together


def are_brief(operands: ChunkGraph, graph: PlanGraph, profile: Profile, memory: int) -> bool:
    """Whether the operands of a run on a single host are brief.

    Parameters
    ----------
    operands, graph
        The compiled graph, and what `annotate` made of it.
    profile
        Measured costs.
    memory
        Bytes for chunks and scratch.
    """
    if graph.n < LEAST or 4 * int(graph.nbytes.sum()) > min(4 * NBYTES, memory):
        return False
    computed = operands.program >= 0
    seconds = float(graph.cost[computed].mean()) - profile.dispatch if computed.any() else 0.0
    return seconds <= SECONDS and not has_unseen_results(operands, profile)
