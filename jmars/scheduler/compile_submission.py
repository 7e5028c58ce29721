"""Compiles a submission: unpickles and prepares the graph, as a whole or stage by stage.

Runs in a thread; unpickling and tiling may run the user's code, with any exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from jmars.model.submission import Submission
from jmars.scheduler.prepare import Ready, prepare
from jmars.scheduler.scheduler_context import SchedulerContext
from jmars.scheduler.stages import Stages
from jmars.tensor.structure import Bindings
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["compile_submission", "stages_of"]


def compile_submission(
    context: SchedulerContext, job: str, submission: Submission, check: Callable[[], None]
) -> tuple[Ready | None, Stages | None]:
    """Unpickles a submitted graph and prepares the first stage; None for an empty graph.

    The second value is the stages of a graph that unfolds during the run, None for other graphs.

    Parameters
    ----------
    context, job
        The cluster, and the job's id.
    submission
        Has a graph.
    check
        Called between steps; may raise to stop.
    """
    graph, settings = cloudpickle.loads(submission.graph), submission.settings
    if submission.bindings is not None:
        turn, machine = context.plans.turn, context.machine() if context.machine is not None else None
        bound = Bindings(*submission.bindings)
        prepared = prepare(graph, settings, context.here(), check, machine, bound)
        context.plans.keep(submission.structure, prepared, turn)
        return Ready(prepared, bound), None
    if not graph.unfolds:
        return context.plans.ready(graph, settings, context.here(), check, context.machine), None
    stages = stages_of(context, job, graph, settings, check)
    return stages.prepare(), stages


def stages_of(
    context: SchedulerContext, job: str, graph: TensorGraph, settings: Mapping[str, Any], check: Callable[[], None]
) -> Stages:
    """The stages of a graph that unfolds, none begun; arguments as for `compile_submission`."""

    def ready(part: TensorGraph) -> Ready:
        return context.plans.ready(part, settings, context.here(), check, context.machine)

    return Stages(job, graph, ready)
