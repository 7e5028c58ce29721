"""From a compiled graph to what a planner sees: each operand's seconds, its bytes and its host.

`annotate` asks the profile, and the roofline for what that does not know; `one_host` gives the workers to plan for.
Called by the scheduler and by `Tensor.plan()`.
Source: PLANNING 7, `cost.py`; seed 004, "Graph Thoughts": a graph of tasks with cost, a graph of processing contexts.
"""

from __future__ import annotations

import numpy as np

from jmars.graph.dag import Dag
from jmars.kernels.program import Call, Program
from jmars.plan.cost.profile import Profile
from jmars.plan.cost.roofline import prior
from jmars.plan.cost.signature import signature
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.workers import Workers
from jmars.tensor.chunk import ChunkGraph

__all__ = ["annotate", "one_host", "program_seconds"]


def annotate(graph: ChunkGraph, dag: Dag, profile: Profile) -> PlanGraph:
    """What a planner sees of a compiled graph.

    Parameters
    ----------
    graph, dag
        `Compiled.after` and `Compiled.dag`.
    profile
        What is known of its programs.

    Returns
    -------
    PlanGraph
        Chunks that are stored already cost nothing; give the planner their worker as `placed`. What an operand that
        `gathers` reads is its scratch: none of its inputs has to lie in memory for it, so there are no edges to it.
    """
    seconds = [program_seconds(program, profile) * profile.busy + profile.dispatch for program in graph.programs]
    kept = np.zeros(graph.n, np.bool_)
    for ids in graph.results.values():
        kept[ids.ravel()] = True
    # one more row, so that -1, a stored chunk, reads zero
    cost = np.array([*seconds, 0.0])[graph.program]
    gathers = np.array([*(program.gathers for program in graph.programs), False])[graph.program]
    if gathers.any():
        degree = np.diff(graph.input_ptr)
        reads = np.repeat(~gathers, degree)
        pointers = np.concatenate([[0], np.cumsum(np.where(gathers, 0, degree))]).astype(np.int64)
        dag = Dag.from_inputs(pointers, graph.input_idx[reads])
    return PlanGraph.build(dag, cost, graph.nbytes, work=graph.work, result=kept, op=graph.program)


def program_seconds(program: Program, profile: Profile) -> float:
    """Seconds that one operand of a program computes: as learnt, or as learnt of its namesakes, as its user says, or by
    roofline.
    """
    known = signature(program)
    for key in (known.key, known.family):
        seconds = profile.seconds(key, known.size)
        if seconds is not None:
            return seconds
    said = sum(step.cost for step in program.steps if isinstance(step, Call))
    return said or prior(program, known.size) * profile.scale


def one_host(profile: Profile, executors: int, memory: int) -> Workers:
    """This host as planners see it: executors share one memory, so they are the cores of one worker.

    Parameters
    ----------
    executors
        Processes that compute.
    memory
        Bytes that chunks and scratch may take.

    Examples
    --------
    >>> host = one_host(Profile(), 2, 10**9)
    >>> len(host), host.cores.tolist(), host.memory.tolist()
    (1, [2], [1000000000])
    """
    return Workers.build(1, cores=executors, memory=memory, disk=profile.disk)
