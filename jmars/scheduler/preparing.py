"""What was submitted, made ready to run for the first time: unpickled, then prepared as a whole or stage by stage.

`first` runs in a thread; unpickling and tiling may run code of users, which may raise anything. Used by graph.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from jmars.scheduler.prepare import Ready, prepare
from jmars.scheduler.stages import Stages
from jmars.scheduler.surroundings import Surroundings
from jmars.tensor.structure import Bindings
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["first"]


def first(
    around: Surroundings,
    job: str,
    blob: bytes,
    settings: Mapping[str, Any],
    structure: bytes,
    bound: Bindings | None,
    check: Callable[[], None],
) -> tuple[Ready | None, Stages | None]:
    """What the job opens first, None where there is nothing to run; and its stages, where it unfolds while it runs.

    Parameters
    ----------
    around, job
        The cluster, and the job's id.
    blob, structure, bound
        A pickled canonical graph of that structure with its bindings, or any graph with None.
    check
        Called between steps; may raise to stop.
    """
    graph = cloudpickle.loads(blob)
    machine = around.machine() if around.machine is not None else None
    if bound is not None:
        prepared = prepare(graph, settings, around.workers, check, machine, bound)
        around.plans.keep(structure, prepared)
        return Ready(prepared, bound), None

    def ready(part: TensorGraph) -> Ready:
        return around.plans.ready(part, settings, around.workers, check, machine)

    if not graph.unfolds:
        return ready(graph), None
    stages = Stages(job, graph, ready)
    return stages.prepare(), stages
