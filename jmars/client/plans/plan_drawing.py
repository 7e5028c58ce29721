"""Draws the graph of a plan: before and after fusion, coloured by kind or by predicted seconds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jmars.errors import GraphError
from jmars.reports.drawing import Drawing
from jmars.reports.graph_dot import GraphColours, graph_dot
from jmars.scheduler.prepare import graph_built, with_lines

if TYPE_CHECKING:
    from jmars.client.plans.planned_run import PlannedRun

__all__ = ["draw_plan"]


def draw_plan(plan: PlannedRun, path: str | os.PathLike[str] | None, fusion: str, colour: str) -> Drawing:
    """The drawing of a plan, saved to `path` if given.

    Raises
    ------
    GraphError
        If the plan was read from JSON, which has no operations.
    ValueError
        For other colours than "kind" and "seconds".
    """
    if plan.compiled is None:
        raise GraphError("a plan that was read from JSON has no graph to draw; draw the plan of the tensors")
    if colour not in ("kind", "seconds"):
        raise ValueError(f"colour is {colour!r}; choose 'kind' or 'seconds'")
    graph = with_lines(graph_built(plan.compiled, plan, plan.labels), plan.compiled, lambda line: line)
    drawing = Drawing(
        graph_dot(graph, fusion, GraphColours.by_seconds(plan.graph.cost) if colour == "seconds" else None)
    )
    if path is not None:
        drawing.save(path)
    return drawing
