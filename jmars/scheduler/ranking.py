"""Chooses the order that a job runs in: as the settings say, or the best of several, simulated with this host's costs.

The planners release the interpreter's lock while they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.errors import MemoryLimitError
from jmars.optimize import Compiled
from jmars.plan import Choice, PlanGraph, Profile, annotate, one_host
from jmars.plan.choice.one_host import HOST_ORDERS, choose_order, seconds_to_plan
from jmars.plan.order.ranks import rank_by
from jmars.plan.simulation.predict import predict_from_simulation
from jmars.switches import TASK_DEFAULTS

__all__ = ["Machine", "Ranked", "rank_operands"]

_TRIED = 12  # orders that are told at most


@dataclass(frozen=True)
class Machine:
    """Measured costs and memory of the host."""

    profile: Profile
    memory: int  # bytes for chunks and scratch
    fresh: int = 0  # bytes of it that nobody has touched yet


@dataclass(frozen=True)
class Ranked:
    """An order, with the predicted cost of a simulated order.

    `graph` is the planner's input, None without a plan; `predicted` is the field of the GraphBuilt event.
    """

    rank: NDArray[np.int64]
    graph: PlanGraph | None = None
    predicted: dict[str, Any] | None = None


def rank_operands(
    compiled: Compiled, settings: Mapping[str, Any], executors: int, machine: Machine | None, patience: float = 1.0
) -> Ranked:
    """The order of a compiled graph.

    Parameters
    ----------
    compiled
        The graph, ranked as docs/explanation/seeds.md says under "Choosing operands".
    settings
        `order`: "mars", "dfs", "blevel", "level", or "auto" for the best of these by `prefer`.
    executors, machine
        Processes that compute, and the host they are on; without a machine nothing is simulated.
    patience
        How many times as long as usual planning may take: more for a plan that is used again and again.
    """
    order = settings.get("order", TASK_DEFAULTS["order"])
    if machine is None or not compiled.after.n:
        return Ranked(compiled.rank)
    workers = one_host(machine.profile, executors, machine.memory)
    graph = annotate(compiled.after, compiled.dag, machine.profile)
    budget = patience * seconds_to_plan(graph, workers)
    if not budget:  # a small graph: any order serves
        rank = compiled.rank if order in ("auto", "mars") else rank_by(order, graph)
        return Ranked(rank)
    placed = np.where(compiled.after.program < 0, 0, -1)
    names = HOST_ORDERS if order == "auto" else (order,)
    prefer = settings.get("prefer", TASK_DEFAULTS["prefer"])
    try:
        choice = choose_order(graph, workers, prefer=prefer, budget=budget, placed=placed, names=names)
        rank = choice.plan.rank
        told = predict_from_simulation(graph, workers, rank, choice.predicted, machine.profile, placed, machine.fresh)
    except MemoryLimitError:  # told when that operand's turn comes, with its name and line
        return Ranked(compiled.rank)
    predicted = {
        "makespan": told.makespan,
        "peak": list(told.peak),
        "spilled": told.spilled,
        "moved": 0,
        "chosen": choice.best.ranked_by,
        "lower_bound": told.lower_bound,
        "tried": _told(choice),
    }
    return Ranked(rank, graph, predicted)


def _told(choice: Choice) -> list[list[Any]]:
    """Candidates, best first: name, seconds, peak bytes, spilled and moved bytes."""
    tried = sorted(choice.tried, key=lambda one: one.score)[:_TRIED]
    return [
        [one.ranked_by, one.result.makespan, one.result.peak_total, one.result.spilled, one.result.moved]
        for one in tried
    ]
