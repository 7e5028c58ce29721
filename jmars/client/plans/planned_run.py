"""`PlannedRun`: a planned run that has not begun, with predicted costs and the reasons for them.

`plan_for` plans tensor nodes, and `what_if` plans again with a change; neither starts, sends or computes anything.
Costs are learnt from earlier runs on this machine (`jmars.plan.costs`); a prior stands in for unknown costs.

`peak_interval` predicts the peak memory as an interval, since no prediction is exact and memory must not run out. On
one host the run is simulated with the batches that the dispatcher sends ahead (`jmars.plan.prediction`), in slots, up
to 80 times: in the planned order and in the order that small graphs run in; with costs drawn around the predicted
costs, spread as widely as predictions were off so far (`Accuracy.spread`) or as on a loaded host, and twice as high;
and with times of programs that the dispatcher knows, underestimates, or has still to learn. Functions of users may be
promised all memory. On several machines, for very large graphs, and where memory will be short, the least and the
greatest peak are those of the predicted run, of a run with work ahead (`predict`), and of 8 runs with drawn costs.
The interval is widened by the median error of predicted peaks on this machine, at least a tenth.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.client.plans.advice import Advice, Improvable, advise
from jmars.client.plans.named_policies import PolicyPlan, change_machines, plan_by, spread_stored
from jmars.client.plans.plan_html import draw_plan, plan_html
from jmars.client.plans.plan_request import PlanRequest, recut_sources
from jmars.client.plans.plan_text import as_json, comparison, read_json, summary
from jmars.config import config
from jmars.deploy.memory import usable_cores
from jmars.errors import GraphError
from jmars.memory.dynamic_outputs import MOST_GUESS
from jmars.optimize.passes import Compiled
from jmars.optimize.sources import SourceRead, sources_of
from jmars.plan.costs import Accuracy, Profile, one_host
from jmars.plan.explanation import picture
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.prediction import WindowedRun, peak_of_windows, predict_from_simulation, slots
from jmars.plan.simulation import SimResult
from jmars.scheduler.ranking import OPERAND_BYTES
from jmars.tensor.operand import TensorData
from jmars.units import parse_bytes


@dataclass(frozen=True, eq=False)
class PlannedRun(Improvable):
    """A planned run that has not begun.

    Made by `Tensor.plan()`, `jmars.plan_of()`, `Session.plan()`, `%jmars plan` and `what_if`. Prints as text, and as
    HTML in a notebook.

    Attributes
    ----------
    graph
        The planner's graph: operands with seconds and bytes. Operand i is row i of `compiled.after`.
    workers
        The machines; workers of a machine are the cores of a row.
    planned
        Machine and rank of each operand, and the plans tried.
    compiled
        The chunk graph before and after fusion; None for a plan that was read from JSON.
    request
        Tensors and settings of the plan; None for a plan that was read from JSON.
    base
        The plan that `what_if` changed, or None.
    change
        Changes made by `what_if`, by name.
    asked
        The requested policy; None means the policy in the settings.
    took
        Seconds that planning took.
    names
        Name of each operand, if `compiled` is None.
    reused
        Values of earlier runs that a cell would find (docs/how-to/reuse.md); "" for none.

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
    planned: PolicyPlan
    compiled: Compiled | None = None
    request: PlanRequest | None = None
    base: PlannedRun | None = None
    change: dict[str, Any] = field(default_factory=dict)
    asked: str | None = None
    took: float = 0.0
    names: Sequence[str] | None = None
    reused: str = ""

    # costs

    @cached_property
    def predicted(self) -> SimResult:
        """The simulated run with the times of all operands."""
        return self.planned.run(self.graph, self.workers, trace=True)

    @property
    def makespan(self) -> float:
        """Seconds from the first operand's start to the last operand's end."""
        return self.predicted.makespan

    @property
    def lower_bound(self) -> float:
        """Seconds that no plan can beat: the longest path, or all work on all cores."""
        return self.planned.lower_bound

    @property
    def moved(self) -> int:
        """Bytes sent between machines."""
        return self.predicted.moved

    @property
    def spilled(self) -> int:
        """Bytes written to disk."""
        return self.predicted.spilled

    @property
    def read(self) -> int:
        """Bytes that the operands read from files and from functions of `from_blocks`; 0 for a plan made of JSON."""
        return int(self.compiled.after.reads.sum()) if self.compiled is not None else 0

    @cached_property
    def sources(self) -> list[SourceRead]:
        """Files and other sources: bytes to read, of how many, and why some are read more than once."""
        return sources_of(self.compiled) if self.compiled is not None else []

    @cached_property
    def peak(self) -> NDArray[np.int64]:
        """Peak bytes of chunks and scratch in memory on each machine, as an interval: shape (P, 2), low and high.

        `jmars.client.plans.planned_run` says how the interval is computed.
        """
        profile = self.request.profile if self.request is not None else None
        return peak_interval(self.graph, self.workers, self.planned, self.predicted, profile, self.compiled)

    @property
    def waiting(self) -> float:
        """Byte-seconds during which outputs wait at their producer for another machine to read them.

        Partitions by merging do not penalise waiting outputs, so their price is reported here.
        """
        return float(sum(one["waiting"] for one in self.picture["workers"]))

    @cached_property
    def picture(self) -> dict[str, Any]:
        """The run as JSON data: lanes, memory over time, critical path, moved chunks.

        See `jmars.plan.picture`.
        """
        return picture(self.graph, self.workers, self.predicted)

    # operands

    @property
    def operands(self) -> int:
        """Number of operands that run."""
        return self.graph.n - int((self.planned.placed >= 0).sum())

    @property
    def complete(self) -> bool:
        """Whether the plan covers the whole run, not only the first of several stages."""
        return self.request is None or not self.request.unfolds

    @property
    def operands_before(self) -> int:
        """Number of operands before fusion; the number of running operands if unknown."""
        return self.compiled.before.n - len(self.compiled.before.stored) if self.compiled else self.operands

    @property
    def assign(self) -> NDArray[np.int16]:
        """Machine of each operand, shape (n,); -1 if the operand's chunk is stored already."""
        return self.predicted.assign

    @property
    def policy(self) -> str:
        """The policy that made the plan."""
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
        """Name of each operand."""
        if self.compiled is None:
            return list(self.names) if self.names is not None else [f"operand {i}" for i in range(self.graph.n)]
        after = self.compiled.after
        names = [program.name for program in after.programs] + ["stored"]  # row -1
        return [names[k] for k in after.program.tolist()]

    @property
    def groups(self) -> list[tuple[int, int, str]]:
        """Fused operands by kind: (count, operands before fusion in each, name), the most numerous first."""
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
        """The chain of operands that determines the end: (name, seconds, why it did not start earlier)."""
        return [
            (self.labels[link["operand"]], link["end"] - link["start"], link["why"])
            for link in self.picture["critical"]
        ]

    # other plans

    def what_if(
        self,
        *,
        workers: int | Sequence[int] | None = None,
        hosts: int | None = None,
        memory: str | int | None = None,
        bandwidth: str | float | None = None,
        chunk_size: str | int | None = None,
        chunks: Any = None,
        policy: str | None = None,
    ) -> PlannedRun:
        """Plans the same computation on other machines, with other chunks, or by another policy.

        Parameters
        ----------
        workers
            Worker processes of each machine: a number, or a list with a number for each machine.
        hosts
            Number of machines.
        memory
            Bytes for all processes of a machine, as `memory_limit` of a cluster; a text such as "2GiB" too.
        bandwidth
            Bytes a second between machines; without effect on a single machine.
        chunk_size
            Bytes of the largest chunk of a source; a text such as "64MiB" too. Sources are rechunked, and their readers
            follow; a reader that cannot follow is preceded by a rechunk, so the prediction is on the safe side.
        chunks
            Chunks of sources: as `chunk_size=` of the function that made the array, for all sources with that many
            axes; a dict such as `{"from_zarr": (1000, 250)}`; or "fit", the chunks that the readers of a source rechunk
            it to, in whole pieces of the file.
        policy
            How to plan: see `jmars.client.plans.named_policies`.

        Raises
        ------
        GraphError, ValueError
            If there is no such policy, a number is below 1, a size cannot be read, or both `chunk_size` and `chunks`
            are given.
        ChunkSizeError
            If there is no source to rechunk, or none gets other chunks.
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
                ("chunks", chunks),
                ("policy", policy),
            )
            if value is not None
        }
        begun = time.perf_counter()
        machines = change_machines(self.workers, workers=workers, hosts=hosts, memory=memory, bandwidth=bandwidth)
        compiled, graph = self.compiled, self.graph
        if chunk_size is not None or chunks is not None:
            compiled, graph = self._recut(chunk_size, chunks, change)
        asked = policy if policy is not None else self.asked
        held = self.planned.placed >= 0 if compiled is None else compiled.after.program < 0
        made = plan_by(_name(asked, self.request, machines), graph, machines, spread_stored(held, len(machines)))
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

    def _recut(self, chunk_size: str | int | None, chunks: Any, change: dict[str, Any]) -> tuple[Compiled, PlanGraph]:
        """The graph with other chunks of sources, with costs; `change` learns the chunks."""
        if chunk_size is not None and chunks is not None:
            raise ValueError("give chunk_size or chunks, not both")
        if self.request is None:
            raise GraphError("this plan was read from JSON, so it has no arrays to rechunk; make it from tensors")
        if chunk_size is not None:
            compiled = self.request.compiled(parse_bytes(chunk_size))
        else:
            data, change["chunks"] = recut_sources(self.request.data, self.request.held, chunks)
            compiled = self.request.compiled_of(data)
        return compiled, self.request.costs(compiled)

    def advice(self, budget: float = 0.5) -> list[Advice]:
        """Finds changes that would save more than 5 % of time, peak or spilled bytes, by simulating them.

        Tries other policies and chunk sizes and, if the machine has them, more workers and more memory.

        Parameters
        ----------
        budget
            Seconds after which no further change is tried.
        """
        return advise(self, budget, usable_cores())

    @cached_property
    def displayed_advice(self) -> list[Advice]:
        """Advice shown below a plan of tensors; a what-if shows none."""
        return self.advice() if self.base is None and self.request is not None else []

    # text that can be edited

    def to_json(self) -> str:
        """Writes tasks with seconds and bytes, and machines with speed, memory and links, as JSON.

        `PlannedRun.from_json` plans the text again, also after edits. docs/reference/plans.md lists the keys.
        """
        return as_json(self.graph, self.workers, self.labels, (self.planned.placed >= 0).tolist())

    @classmethod
    def from_json(cls, text: str | bytes, policy: str = "lean") -> PlannedRun:
        """Plans a run of tasks on machines, both read from JSON text.

        Raises
        ------
        GraphError
            If the text has another form, or the tasks form a cycle.
        MemoryLimitError
            If a single task does not fit in memory.
        """
        begun = time.perf_counter()
        graph, machines, names, held = read_json(text)
        planned = plan_by(policy, graph, machines, spread_stored(np.array(held, np.bool_), len(machines)))
        return cls(graph, machines, planned, names=names, asked=policy, took=time.perf_counter() - begun)

    def visualize(self, path: str | None = None, *, fusion: str = "both", colour: str = "kind") -> Any:
        """Draws the graph, as `Job.visualize` does; by "kind" or by predicted "seconds"."""
        return draw_plan(self, path, fusion, colour)

    def __repr__(self) -> str:
        advised = [f"  advice          {one.text}\n{'':18s}{one.how}" for one in self.displayed_advice]
        against = [comparison(self, self.base)] if self.base is not None else []
        return "\n".join([*against, summary(self), *advised])

    def _repr_html_(self) -> str:
        return plan_html(self)


def plan_for(
    data: Sequence[TensorData],
    workers: int,
    room: int,
    held: Container[str] = frozenset(),
    policy: str | None = None,
    known: dict[str, Any] | None = None,
    machines: Workers | None = None,
) -> PlannedRun:
    """Plans a run of tensor nodes; starts no processes.

    Parameters
    ----------
    data
        The nodes to compute.
    workers
        Number of worker processes.
    room
        Bytes for chunks and scratch.
    held
        Keys of nodes that are stored already.
    policy
        How to plan; None means as the settings say.
    known
        Costs of operands (`Profile.as_data`); None means costs learnt by earlier sessions.
    machines
        Machines without common memory; None means one machine with `workers` and `room`.

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
    each = room // workers if machines is None else int((machines.memory // machines.cores).min())
    request = PlanRequest(list(data), held, settings, profile, workers, each // 2)  # as scheduler/prepare.py
    compiled = request.compiled()
    graph = request.costs(compiled)
    machines = machines or one_host(request.profile, workers, room)
    held_there = spread_stored(compiled.after.program < 0, len(machines))
    planned = plan_by(_name(policy, request, machines), graph, machines, held_there)
    return PlannedRun(graph, machines, planned, compiled, request, asked=policy, took=time.perf_counter() - begun)


def _name(asked: str | None, request: PlanRequest | None, machines: Workers) -> str:
    """The policy to use: the requested policy, else the policy in the settings (for a single machine)."""
    if asked is not None:
        return asked
    settings = request.settings if request is not None else {}
    order = str(settings.get("order", "auto"))
    return str(settings.get("prefer", "lean")) if order == "auto" or len(machines) > 1 else f"eft/{order}"


_DRAWS = 8
# Times that batches are filled by: known, still to learn, far too short; and how much slower than predicted the host is
_MOODS: tuple[tuple[float | None, float], ...] = ((1.0, 1.0), (None, 1.0), (0.0, 1.0), (1.0, 2.0), (None, 2.0))
_LEAST_OFF = 0.1
_LOADED = 1.0  # sigma of the logarithm of costs where other programs take the processors
_SIMULATED_SECONDS = 0.2  # in which runs without windows are simulated; one is always
_OPERANDS = 20_000  # that all runs with windows together have, about 0.2 s
_SLOW = 2000  # operands from which a policy that places while it runs takes too long to be drawn
_LARGE = 20_000  # operands from which windows take too long to simulate, and the graph's own memory counts
_MOST = float(np.iinfo(np.int64).max // 2)


def peak_interval(
    graph: PlanGraph,
    workers: Workers,
    planned: PolicyPlan,
    predicted: SimResult,
    profile: Profile | None,
    compiled: Compiled | None = None,
) -> NDArray[np.int64]:
    """Predicts the peak bytes of each machine, shape (P, 2), low and high.

    The draws are seeded, so the same plan has the same interval, unless it needs runs without windows and time runs out
    before the last one.

    Parameters
    ----------
    graph, workers, planned
        The graph, the machines and the plan.
    predicted
        The simulated run of the plan.
    profile
        Known costs, and errors of predictions, on this machine; None if unknown.
    compiled
        The compiled graph; None if unknown.
    """
    seen = profile.accuracy if profile is not None else Accuracy()
    off = max(seen.errors()["peak"] or 0.0, _LEAST_OFF)
    found = None
    if len(workers) == 1 and compiled is not None and 0 < graph.n <= _LARGE:
        found = _of_windows(graph, workers, planned, compiled, seen.spread)
    if found is None or found[0] > int(workers.memory[0]):
        low, high = _of_simulations(graph, workers, planned, predicted, profile, seen.spread)
    else:
        low, high = (np.array([end]) for end in found)
    ends = np.stack([low * max(0.0, 1 - off), np.minimum(high * (1 + off), workers.memory)], axis=1)
    interval: NDArray[np.int64] = np.minimum(ends, _MOST).astype(np.int64)
    return interval


def _of_windows(
    graph: PlanGraph, workers: Workers, planned: PolicyPlan, compiled: Compiled, spread: float
) -> tuple[int, int]:
    """Least and greatest peak of simulated runs with batches sent ahead, of one host."""
    after, executors = compiled.after, int(workers.cores.sum())
    stored, unsized = after.program < 0, after.unsized
    work = np.where(graph.work > 0, slots(graph.work), 0)
    sizes = [(graph.nbytes, work)]
    if unsized.any():  # results of unknown size are small, or take what is promised to the first ones
        guess = min(MOST_GUESS, int(workers.memory[0]) // (8 * executors))
        promised = np.where(unsized & ~stored, work + np.maximum(guess, graph.nbytes), work)
        sizes = [(np.where(unsized, 0, graph.nbytes), work), (graph.nbytes, promised)]
    runs = [
        WindowedRun(graph, rank, executors, stored, slots(outputs), scratch, unsized)
        for rank in (planned.rank, compiled.rank)
        for outputs, scratch in sizes
    ]
    peaks: list[int] = []
    most = max(len(_MOODS) * len(sizes), _OPERANDS // graph.n)
    for seed, run, (believed, slower) in islice(product(range(_DRAWS), runs, _MOODS), most):
        noise = 0.0 if not seed else _LOADED if seed % 2 else spread
        peaks.append(peak_of_windows(run, noise, seed, believed, slower))
    users = any(program.runs_user_code for program in after.programs)
    return min(peaks), int(workers.memory[0]) if users else max(peaks)


def _of_simulations(
    graph: PlanGraph,
    workers: Workers,
    planned: PolicyPlan,
    predicted: SimResult,
    profile: Profile | None,
    spread: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest peak of each machine in runs that wait for memory or move chunks."""
    peaks = [predicted.peak]
    if len(workers) == 1 and profile is not None and (planned.placed < 0).any():
        corrected = predict_from_simulation(
            graph, workers, planned.rank, predicted, profile, planned.placed.astype(np.int64)
        )
        low, high = corrected.peak
        peaks = [np.array([low]), np.array([high + OPERAND_BYTES * graph.n * (graph.n > _LARGE)])]
    until = time.perf_counter() + _SIMULATED_SECONDS
    for seed in range(1, _DRAWS + 1) if planned.follow is None or graph.n <= _SLOW else ():
        peaks.append(planned.run(graph, workers, noise=spread, seed=seed).peak)
        if time.perf_counter() > until:
            break
    return np.min(peaks, axis=0), np.max(peaks, axis=0)
