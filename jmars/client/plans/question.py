"""What is asked: these tensors with these settings; and the graph that would run.

A `Question` is all that a plan is made from beside the machines, so `what_if` asks it again with something changed. It
starts nothing and sends nothing. Used by planned.py.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jmars.client.plans.recut import recut
from jmars.optimize.passes import Compiled, compile_graph
from jmars.optimize.unfolding import Unfolding
from jmars.plan.cost.annotate import annotate
from jmars.plan.cost.profile import Profile
from jmars.plan.plan_graph import PlanGraph
from jmars.tensor.dynamic import Dynamic
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["Question"]


@dataclass(frozen=True, eq=False)
class Question:
    """Tensors to compute and how.

    Attributes
    ----------
    data
        The nodes that are wanted.
    held
        Keys of nodes that lie on the cluster already.
    settings
        `task.default_config` and `combine_size`, as a job is submitted with.
    profile
        What operands took so far.
    executors, room
        Of the cluster that is asked, and bytes that one fused operand may take there: what compiling depends on.
    """

    data: Sequence[TensorData]
    held: Container[str]
    settings: Mapping[str, Any]
    profile: Profile
    executors: int = 1
    room: int | None = None

    def compiled(self, chunk_size: int | None = None) -> Compiled:
        """The graph that would run, or its first stage; `chunk_size` cuts its sources so that their largest chunk has
        about those bytes.
        """
        data = self.data if chunk_size is None else recut(self.data, self.held, chunk_size)
        graph = TensorGraph.of(data, self.held)
        for number, _, _ in graph.arrays():  # a run would send them first
            graph.replace_by_stored(number, graph.metas[number].key)
        stage = Unfolding(graph).next()
        whole = stage.graph if stage is not None else graph
        return compile_graph(whole, self.settings, None, self.room, self.executors)

    @property
    def unfolds(self) -> bool:
        """Whether the run has further stages, which nobody can plan before the first one has run."""
        return any(isinstance(op, Dynamic) for op in TensorGraph.of(self.data, self.held).operands)

    def costs(self, compiled: Compiled) -> PlanGraph:
        """What a planner sees of it."""
        return annotate(compiled.after, compiled.dag, self.profile)
