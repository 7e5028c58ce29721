"""`PlannedRun`: a run that is planned and not begun, with what it will cost and why.

`plan_for` makes one of tensor nodes and `what_if` one of another; nothing is started, sent or computed. Costs are those
learnt from runs on this machine (`jmars.plan.cost.profile`), and a prior where nothing was learnt.
Source: the issue's "Before the run"; seed 004, "What about the cost of the whole schedule?".
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.client.plans.advice import Advice, advise
from jmars.client.plans.exchange import as_json, read_json
from jmars.client.plans.interval import peak_interval
from jmars.client.plans.machines import changed
from jmars.client.plans.page import page
from jmars.client.plans.policies import Planned, plan_by, spread
from jmars.client.plans.question import Question
from jmars.client.plans.words import comparison, summary
from jmars.config import config
from jmars.deploy.memory import usable_cores
from jmars.errors import GraphError
from jmars.optimize.passes import Compiled
from jmars.plan.choice.explain import picture
from jmars.plan.cost.annotate import one_host
from jmars.plan.cost.profile import Profile
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.sim_result import SimResult
from jmars.plan.workers import Workers
from jmars.tensor.operand import TensorData
from jmars.units import parse_bytes

__all__ = ["PlannedRun", "plan_for"]


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run that is planned and not begun.

    Made by `Tensor.plan()`, `jmars.plan_of()`, `Session.plan()`, `%jmars plan` and `what_if`. As text and as HTML it
    shows itself.

    Attributes
    ----------
    graph
        What the planner sees: operands with seconds and bytes. Operand i is row i of `compiled.after`.
    workers
        The machines; workers of one machine are the cores of one row.
    planned
        Where operands run and in which order, and what else was tried.
    compiled
        The chunk graph before and after fusion; None for a plan that was read from JSON.
    question
        What was asked; None for a plan that was read from JSON.
    base
        The plan that this one was made from by `what_if`, else None.
    change
        What `what_if` changed, by name.
    asked
        The policy that was asked for; None: as the settings say.
    took
        Seconds that planning took.
    names
        What each operand does, where `compiled` does not say it.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> plan = (mt.ones((400, 400), chunk_size=100) + 1).sum().plan()
    >>> plan.operands, plan.operands_before, plan.moved
    (21, 53, 0)
    >>> twice = plan.what_if(workers=2 * int(plan.workers.cores[0]))
    >>> twice.base is plan
    True
    """

    graph: PlanGraph
    workers: Workers
    planned: Planned
    compiled: Compiled | None = None
    question: Question | None = None
    base: PlannedRun | None = None
    change: dict[str, Any] = field(default_factory=dict)
    asked: str | None = None
    took: float = 0.0
    names: Sequence[str] | None = None

    # what it costs

    @cached_property
    def predicted(self) -> SimResult:
        """The simulated run with the times of each operand."""
        return self.planned.run(self.graph, self.workers, trace=True)

    @property
    def makespan(self) -> float:
        """Seconds from the first operand's start to the last one's end."""
        return self.predicted.makespan

    @property
    def lower_bound(self) -> float:
        """Seconds that no plan beats: the longest path, or all work on all cores."""
        return self.planned.lower_bound

    @property
    def moved(self) -> int:
        """Bytes between machines."""
        return self.predicted.moved

    @property
    def spilled(self) -> int:
        """Bytes to disk."""
        return self.predicted.spilled

    @cached_property
    def peak(self) -> NDArray[np.int64]:
        """Bytes of chunks and scratch in memory at most, of each machine, as an interval: shape (P, 2), low and high.

        What it is taken from: `jmars.client.plans.interval`.
        """
        profile = self.question.profile if self.question is not None else None
        return peak_interval(self.graph, self.workers, self.planned, self.predicted, profile)

    @property
    def waiting(self) -> float:
        """Byte-seconds that outputs lie at their producer until another machine has read them.

        Seed 004's partitions do not penalise them; so that the price is seen, it is a number here.
        """
        return float(sum(one["waiting"] for one in self.picture["workers"]))

    @cached_property
    def picture(self) -> dict[str, Any]:
        """The run as data that goes into JSON: lanes, memory over time, critical path, what moves.

        See `jmars.plan.picture`.
        """
        return picture(self.graph, self.workers, self.predicted)

    # what it is made of

    @property
    def operands(self) -> int:
        """Operands that run."""
        return self.graph.n - int((self.planned.placed >= 0).sum())

    @property
    def complete(self) -> bool:
        """Whether this is the whole run, or only the first of several stages."""
        return self.question is None or not self.question.unfolds

    @property
    def operands_before(self) -> int:
        """Operands before fusion; those that run where that is not known."""
        return self.compiled.before.n - len(self.compiled.before.stored) if self.compiled else self.operands

    @property
    def assign(self) -> NDArray[np.int16]:
        """Machine of each operand, shape (n,); -1 where its chunk is held already."""
        return self.predicted.assign

    @property
    def policy(self) -> str:
        """How it was planned."""
        return self.planned.name

    @property
    def tried(self) -> list[tuple[str, float, int, int, int]]:
        """(name, makespan, peak of all machines together, spilled, moved) of each plan tried, the best first."""
        found = sorted(self.planned.tried, key=lambda one: one.score)
        seen: dict[tuple[str, float], tuple[str, float, int, int, int]] = {}
        for one in found:
            r = one.result
            name = f"{one.assigned_by}, {one.ranked_by}" if len(self.workers) > 1 else one.ranked_by
            seen.setdefault((name, r.makespan), (name, r.makespan, r.peak_total, r.spilled, r.moved))
        return list(seen.values())

    @cached_property
    def labels(self) -> list[str]:
        """What each operand does."""
        if self.compiled is None:
            return list(self.names) if self.names is not None else [f"operand {i}" for i in range(self.graph.n)]
        after = self.compiled.after
        names = [program.name for program in after.programs] + ["stored"]  # row -1
        return [names[k] for k in after.program.tolist()]

    @property
    def groups(self) -> list[tuple[int, int, str]]:
        """Fused operands by kind: (how many, operands before fusion in each, name), the most numerous first."""
        if self.compiled is None:
            return []
        size = np.bincount(self.compiled.group[self.compiled.group >= 0], minlength=self.graph.n)
        kinds: dict[tuple[int, str], int] = {}
        for name, members in zip(self.labels, size.tolist()):
            if members > 1:
                kinds[members, name] = kinds.get((members, name), 0) + 1
        return sorted(((n, members, name) for (members, name), n in kinds.items()), key=lambda row: (-row[0], row[2]))

    @property
    def critical_path(self) -> list[tuple[str, float, str]]:
        """The chain of operands that holds up the end: (what it does, seconds, why it started no earlier)."""
        return [
            (self.labels[link["operand"]], link["end"] - link["start"], link["why"])
            for link in self.picture["critical"]
        ]

    # what else might be

    def what_if(
        self,
        *,
        workers: int | Sequence[int] | None = None,
        hosts: int | None = None,
        memory: str | int | None = None,
        bandwidth: str | float | None = None,
        chunk_size: str | int | None = None,
        policy: str | None = None,
    ) -> PlannedRun:
        """The same computation on other machines, cut otherwise, or planned otherwise.

        Parameters
        ----------
        workers
            Worker processes of each machine, or one number for each machine.
        hosts
            How many machines.
        memory
            Bytes for all processes of a machine, as `memory_limit` of a cluster; a text such as "2GiB" too.
        bandwidth
            Bytes a second between machines; nothing moves on a single one.
        chunk_size
            Bytes of the largest chunk of a source; a text such as "64MiB" too. Sources are cut anew, and what is made
            of them follows; where it cannot, a rechunk is counted, so the prediction is on the safe side.
        policy
            How to plan: see `jmars.client.plans.policies`.

        Raises
        ------
        GraphError, ValueError
            If there is no such policy, a number is below 1 or a size cannot be read.
        ChunkSizeError
            If there is no source to cut anew.
        MemoryLimitError
            If an operand alone would not fit.
        """
        change = {
            name: value
            for name, value in (
                ("workers", workers),
                ("hosts", hosts),
                ("memory", memory),
                ("bandwidth", bandwidth),
                ("chunk_size", chunk_size),
                ("policy", policy),
            )
            if value is not None
        }
        begun = time.perf_counter()
        machines = changed(self.workers, workers=workers, hosts=hosts, memory=memory, bandwidth=bandwidth)
        compiled, graph = self.compiled, self.graph
        if chunk_size is not None:
            if self.question is None:
                raise GraphError("this plan was read from JSON, so there are no arrays to cut; make it from tensors")
            compiled = self.question.compiled(parse_bytes(chunk_size))
            graph = self.question.costs(compiled)
        asked = policy if policy is not None else self.asked
        held = self.planned.placed >= 0 if compiled is None else compiled.after.program < 0
        made = plan_by(_name(asked, self.question, machines), graph, machines, spread(held, len(machines)))
        return replace(
            self,
            graph=graph,
            workers=machines,
            planned=made,
            compiled=compiled,
            base=self,
            change=change,
            asked=asked,
            took=time.perf_counter() - begun,
        )

    def advice(self, budget: float = 0.5) -> list[Advice]:
        """Changes that would gain more than 5 % of time, peak or spill, each found by simulating it.

        Tried are other policies, chunk sizes, and, where there is room for them, more workers and more memory.

        Parameters
        ----------
        budget
            Seconds after which nothing more is tried.
        """
        return advise(self, budget, usable_cores())

    @cached_property
    def shown_advice(self) -> list[Advice]:
        """What is shown under a plan of tensors; a what-if is an answer already."""
        return self.advice() if self.base is None and self.question is not None else []

    # as text that can be edited

    def to_json(self) -> str:
        """Both graphs as JSON: tasks with seconds and bytes, machines with speed, memory and links.

        `PlannedRun.from_json` plans what it says, also after it was edited. docs/reference/plans.md lists the keys.
        """
        return as_json(self.graph, self.workers, self.labels, (self.planned.placed >= 0).tolist())

    @classmethod
    def from_json(cls, text: str | bytes, policy: str = "lean") -> PlannedRun:
        """Plan a run of tasks on machines that a JSON text describes.

        Raises
        ------
        GraphError
            If it is no such text, or the tasks wait for each other.
        MemoryLimitError
            If a task alone does not fit.
        """
        begun = time.perf_counter()
        graph, machines, names, held = read_json(text)
        planned = plan_by(policy, graph, machines, spread(np.array(held, np.bool_), len(machines)))
        return cls(graph, machines, planned, names=names, asked=policy, took=time.perf_counter() - begun)

    def __repr__(self) -> str:
        advised = [f"  advice          {one.text}\n{'':18s}{one.how}" for one in self.shown_advice]
        against = [comparison(self, self.base)] if self.base is not None else []
        return "\n".join([*against, summary(self), *advised])

    def _repr_html_(self) -> str:
        return page(self)


def plan_for(
    data: Sequence[TensorData],
    workers: int,
    room: int,
    held: Container[str] = frozenset(),
    policy: str | None = None,
    known: dict[str, Any] | None = None,
) -> PlannedRun:
    """Plan a run of tensor nodes on one machine; starts nothing.

    Parameters
    ----------
    data
        The nodes that are wanted.
    workers
        Worker processes.
    room
        Bytes for chunks and scratch.
    held
        Keys of nodes that lie there already.
    policy
        How to plan; None: as the settings say.
    known
        What operands cost (`Profile.as_data`); None: what earlier sessions learnt.

    Raises
    ------
    GraphError
        If there is no such policy.
    MemoryLimitError
        If an operand alone does not fit.
    """
    begun = time.perf_counter()
    settings = {**config.task, "combine_size": config.combine_size}
    profile = Profile.load() if known is None else Profile.of(known)
    question = Question(list(data), held, settings, profile, workers, room // (2 * workers))  # as scheduler/prepare.py
    compiled = question.compiled()
    graph = question.costs(compiled)
    machines = one_host(question.profile, workers, room)
    held_there = spread(compiled.after.program < 0, len(machines))
    planned = plan_by(_name(policy, question, machines), graph, machines, held_there)
    return PlannedRun(graph, machines, planned, compiled, question, asked=policy, took=time.perf_counter() - begun)


def _name(asked: str | None, question: Question | None, machines: Workers) -> str:
    """The policy that is meant: what was asked for, or what the settings say; these say it of one machine."""
    if asked is not None:
        return asked
    settings = question.settings if question is not None else {}
    order = str(settings.get("order", "auto"))
    return str(settings.get("prefer", "lean")) if order == "auto" or len(machines) > 1 else f"eft/{order}"
