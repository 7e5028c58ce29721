"""The request of a plan: tensors and settings, and the graph that would run.

A `PlanRequest` holds all inputs of a plan except the machines, so that `what_if` can plan again with a change. A
request neither starts nor sends anything.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jmars.client.plans.rechunk_sources import rechunk_sources
from jmars.optimize.passes import Compiled, compile_graph
from jmars.optimize.unfolding import Unfolding
from jmars.plan.cost.annotate import annotate
from jmars.plan.cost.profile import Profile
from jmars.plan.plan_graph import PlanGraph
from jmars.tensor.dynamic import Dynamic
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["PlanRequest"]


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """Tensors to compute, with settings.

    Attributes
    ----------
    data
        The nodes to compute.
    held
        Keys of nodes that the cluster stores already.
    settings
        `task.default_config` and `combine_size`, as in a submission.
    profile
        Measured costs of operands.
    executors, room
        Number of executors, and bytes that a fused operand may take; compilation depends on both.
    """

    data: Sequence[TensorData]
    held: Container[str]
    settings: Mapping[str, Any]
    profile: Profile
    executors: int = 1
    room: int | None = None

    def compiled(self, chunk_size: int | None = None) -> Compiled:
        """Compiles the graph that would run, or its first stage; `chunk_size` (bytes) rechunks the sources first."""
        data = self.data if chunk_size is None else rechunk_sources(self.data, self.held, chunk_size)
        graph = TensorGraph.of(data, self.held)
        for number, _, _ in graph.arrays():  # a run would send them first
            graph.replace_by_stored(number, graph.metas[number].key)
        stage = Unfolding(graph).next()
        whole = stage.graph if stage is not None else graph
        return compile_graph(whole, self.settings, None, self.room, self.executors)

    @property
    def unfolds(self) -> bool:
        """Whether the run has further stages; they cannot be planned before the first stage has run."""
        return any(isinstance(op, Dynamic) for op in TensorGraph.of(self.data, self.held).operands)

    def costs(self, compiled: Compiled) -> PlanGraph:
        """Makes the planner's graph of a compiled graph."""
        return annotate(compiled.after, compiled.dag, self.profile)
