"""Builds the planners' input from a compiled graph: seconds and bytes of each operand, and the host's workers.

`annotate` asks the profile for seconds, and the roofline for programs that the profile does not know; `one_host`
describes the workers to plan for.
Source: docs/explanation/seeds.md, "Graph thoughts".
"""

from __future__ import annotations

import numpy as np

from jmars.graph import Dag
from jmars.kernels.program import Call, Program
from jmars.plan.cost_keys import KERNEL_CALL_SECONDS, prior, signature
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.profile import Profile
from jmars.tensor.chunk import ChunkGraph


def annotate(graph: ChunkGraph, dag: Dag, profile: Profile) -> PlanGraph:
    """Builds the `PlanGraph` of a compiled graph.

    Parameters
    ----------
    graph, dag
        `Compiled.after` and `Compiled.dag`.
    profile
        Measured costs of programs.

    Returns
    -------
    PlanGraph
        Chunks that are stored already cost nothing; give the planner their worker as `placed`. Inputs of an operand
        that `gathers` count as scratch: they need not lie in memory, so the graph has no edges to that operand.
        Chunks of unknown size count as their expected bytes (`ChunkType.expected_nbytes`).
    """
    seconds = [program_seconds(program, profile) * profile.busy + profile.dispatch for program in graph.programs]
    kept = np.zeros(graph.n, np.bool_)
    for ids in graph.results.values():
        kept[ids.ravel()] = True
    # -1, a stored chunk, reads the last row
    cost = np.array([*seconds, 0.0])[graph.program]
    gathers = np.array([*(program.gathers for program in graph.programs), False])[graph.program]
    if gathers.any():
        degree = np.diff(graph.input_ptr)
        reads = np.repeat(~gathers, degree)
        pointers = np.concatenate([[0], np.cumsum(np.where(gathers, 0, degree))]).astype(np.int64)
        dag = Dag.from_inputs(pointers, graph.input_idx[reads])
    fewer = np.array([*(program.output.nbytes - program.output.expected_nbytes for program in graph.programs), 0])
    return PlanGraph.build(
        dag, cost, graph.nbytes - fewer[graph.program], work=graph.work, result=kept, op=graph.program
    )


def program_seconds(program: Program, profile: Profile) -> float:
    """Seconds that an operand of a program computes: measured, or measured of functions of the same name, or given
    by the user, or from the roofline.
    """
    known, calls = signature(program), [step for step in program.steps if isinstance(step, Call)]
    roofline = prior(program, known.size)
    users = any(step.runs_user_code for step in calls)
    per_byte = 0.0 if users or not known.size else (roofline - KERNEL_CALL_SECONDS) / known.size
    for key in (known.key, known.family):
        seconds = profile.seconds(key, known.size, per_byte)
        if seconds is not None:
            return seconds
    return sum(step.cost for step in calls) or roofline * profile.scale


def one_host(profile: Profile, executors: int, memory: int) -> Workers:
    """Describes this host as a single worker: executors share a memory, so they are cores of the same worker.

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
