"""Prepares a graph's structure once for all runs: compiled, planned, laid out as lists for workers.

`prepare` runs in a thread and touches only the arguments. The prepared structure has no tensor keys and no
lines: runs bring their `Bindings`, so a cell run again with other data is neither tiled nor planned (`plans` keeps
them). A job of several stages prepares all stages.
Source: docs/explanation/seeds.md, "Preparing the graph", "Initial worker assignment" and "Execution lifecycle".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.flow import FlowGraph, Pool
from jmars.kernels.program import Call
from jmars.model.messages import JobTable
from jmars.optimize import Compiled, TooManyOperandsError, compile_graph
from jmars.plan import Plan, PlanGraph, Workers, make_plan
from jmars.scheduler.device_plan import device_classes, kept_apart
from jmars.scheduler.event_log import weight
from jmars.scheduler.fitting import OPERAND_BYTES, TILED_BYTES, Hungriest, hungriest, refuse_many
from jmars.scheduler.picture import graph_built, prediction, with_lines
from jmars.scheduler.pins import pinned_workers, preferred_workers
from jmars.scheduler.plan_monitor import PlanMonitor
from jmars.scheduler.plan_size import plan_size
from jmars.scheduler.ranking import Machine, Ranked, rank_operands
from jmars.scheduler.retries import RetryRule
from jmars.tensor.chunk import GraphLayer
from jmars.tensor.source_line import SourceLine
from jmars.tensor.structure import Bindings, Slot
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["Prepared", "Ready", "prepare"]

REFINED = 2  # times that a structure is planned again with what its runs taught
LEAST_SECONDS = 0.1  # of a run that is worth it
TOLERANCE = 1.25  # how far a prediction may be off
PATIENCE = 4.0  # a plan that is used again may take longer to make

PHASES = ("compile", "rank", "place", "rows")  # tile and analyse, priorities, first workers, operand rows

_AT_ONCE = 1 << 20  # instances of one structure; the words by which jobs are stopped are fewer
_KEPT = 4  # of them, when no job runs


@dataclass(frozen=True, eq=False)
class Prepared:
    """A structure that can be opened on the workers again and again; jobs only read it.

    Attributes
    ----------
    compiled, plan
        Of the canonical graph: its keys are numbers of operands, its lines too.
    pool
        Instances of the plan's graph: each job runs one and gives it back.
    table
        What workers are told, without what differs from job to job.
    picture, weight
        The data of the GraphBuilt event, without lines, and the bytes that it takes with them, about.
    size
        Bytes that it takes, about.
    watched
        What its runs are compared with while they run; None where they are too short.
    """

    compiled: Compiled
    plan: Plan
    pool: Pool
    table: JobTable
    assign: list[int]
    picture: dict[str, Any]
    weight: int
    stored: dict[str, list[tuple[int, int]]]  # name of a tensor: operands that are its chunks, number of each chunk
    results: dict[str, list[int]]  # name of a tensor: its operands
    slots: list[tuple[int, int, int]]  # (operand, which of its arguments, slot): what a run brings stands first there
    size: int
    watched: Watched | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # with which it was planned
    hungriest: Hungriest | None = None  # the operand that needs most memory at once
    made: float = 0.0  # monotonic
    phases: tuple[tuple[str, float], ...] = ()  # what making it took, in seconds
    refined: int = 0  # how often it was planned again with what its runs taught
    wanted: Mapping[int, int] = field(default_factory=dict)  # workers of operands that users chose
    places: Mapping[tuple[str, int], int] = field(default_factory=dict)  # of stored chunks, see `Machine.places`
    numbers: Sequence[int] = ()  # of the machines of the rows in `places`, see `Machine.numbers`
    classes: NDArray[np.uint8] | None = None  # what each operand may run on; None without a GPU
    _shown: list[tuple[Bindings, int, dict[str, Any]]] = field(default_factory=list)  # the last picture, and whose

    def open(self, job: str, number: int, base: int, bound: Bindings) -> JobTable:
        """A job's own table; the chunks of stored operands are still to be named in `chunk`."""
        shared = self.table
        args = shared.args
        if self.slots:
            assert args is not None
            args = args.copy()
            for operand, place, slot in self.slots:
                row = args[operand]
                args[operand] = (*row[:place], (bound.values[slot], *row[place][1:]), *row[place + 1 :])
        return JobTable(
            job=job,
            number=number,
            programs=shared.programs,
            program=shared.program,
            inputs=shared.inputs,
            args=args,
            base=base,
            chunk=list(range(base, base + len(shared.program))),
            nbytes=shared.nbytes.copy(),
            work=shared.work,
            rank=shared.rank.copy(),
            kept=shared.kept,
            stored=shared.stored,
            readers=shared.readers,
            results=shared.results,
            planned=shared.planned,
            tight=shared.tight,
            late=shared.late,
            pinned=shared.pinned,
            device=shared.device,
            ephemeral=shared.ephemeral,
        )

    def retry_rule(self, operand: int) -> RetryRule:
        """How often an operand that raised is tried again."""
        program = self.table.programs[self.table.program[operand]]
        asked = max((step.retries for step in program.steps if isinstance(step, Call)), default=-1)
        return RetryRule(asked, self.settings.get("retries", "auto"))

    def is_off(self, makespan: float, is_slow: bool = False) -> bool:
        """Whether to plan later runs again after a run of so many seconds: it took longer or shorter than predicted, or
        the plan was made when a link was slow (`is_slow`).
        """
        if makespan < LEAST_SECONDS or self.refined >= REFINED or is_slow:
            return is_slow and makespan >= LEAST_SECONDS
        told = self.picture["predicted"]
        return told is None or not 1 / TOLERANCE < makespan / max(told["makespan"], 1e-9) < TOLERANCE

    def planned_again(self, executors: int, machine: Machine) -> Prepared:
        """The same structure with an order by the costs that are known now; for a thread."""
        row = {number: row for row, number in enumerate(machine.numbers)}  # other hosts may be there than before
        rows = [row.get(number, -1) for number in self.numbers]
        places = {chunk: rows[place] if place >= 0 else -1 for chunk, place in self.places.items()}
        there = replace(machine, row_of=lambda name, index: places.get((name, index), -1))
        ranked = rank_operands(self.compiled, self.settings, executors, there, PATIENCE, str, self.wanted, self.classes)
        assign = self.plan.assign if ranked.assign is None else ranked.assign.astype(np.int16)
        planned = [] if ranked.assign is None or machine.rows is None else ranked.assign.tolist()
        return replace(
            self,
            plan=Plan(self.plan.dag, assign.copy(), ranked.rank.copy()),
            table=replace(self.table, rank=ranked.rank.tolist(), planned=planned, device=ranked.device),
            assign=assign.tolist(),
            picture=self.picture | prediction(self.compiled, ranked.predicted, ranked.seconds),
            watched=_watched(ranked, self.settings, executors, machine),
            refined=self.refined + 1,
            places=places,
            numbers=machine.numbers,
            _shown=[],
        )

    def suits(self, machine: Callable[[], Machine], bindings: Bindings) -> bool:
        """Whether the stored chunks of a run lie where the plan takes them to be."""
        return not self.stored or self.places == machine().places(self.stored, bindings.key)

    def shown(self, bindings: Bindings, stage: int) -> dict[str, Any]:
        """The data of the GraphBuilt event of a job's stage; the same object as long as the lines stay the same."""
        for known, number, picture in self._shown:
            if known[1:] == bindings[1:] and number == stage:
                return picture
        picture = with_lines(self.picture, self.compiled, bindings.line) | {"stage_number": stage}
        self._shown[:] = [(bindings, stage, picture)]
        return picture

    def blame(self, operand: int, bindings: Bindings, member: int = -1) -> tuple[str, SourceLine | None]:
        """An operand in words, for errors, and the user's line.

        `member` is the fused operand to blame; where unknown (-1), the first that calls a function, since other
        functions hardly raise; else the last.
        """
        tiled, after = self.compiled.tiled, self.compiled.after
        name = after.programs[after.program[operand]].name if after.program[operand] >= 0 else "a stored chunk"
        members = self.compiled.members(operand)
        calls = [m for m in members if tiled.program[m] >= 0 and tiled.programs[tiled.program[m]].calls]
        blamed = members[member : member + 1] if member >= 0 else []
        graph, one = (tiled, (blamed or calls[:1] or members[-1:])[0]) if members else (after, operand)
        layer = graph.layer[one]
        line = bindings.line(graph.layers[layer].line)
        which = f" of line {line.lineno} ({line.text.strip()})" if line is not None else ""
        alike = np.flatnonzero(graph.layer == layer)  # the operands of that call, in C order of its chunks
        if len(alike) > 1:
            which += f", chunk {np.searchsorted(alike, one) + 1} of {len(alike)}"
        return f"operand {name}{which}", line


class Watched(NamedTuple):
    """Baseline of a run: the graph as planned, the executors, and the bytes that they share."""

    graph: PlanGraph
    executors: int
    memory: int
    hosts: tuple[Workers, Sequence[int]] | None = None  # and the number of the first executor of each

    def watch(self) -> PlanMonitor:
        """Monitor of one run."""
        return PlanMonitor(*self)


class Ready(NamedTuple):
    """A structure with the bindings of one run."""

    prepared: Prepared
    bound: Bindings


def prepare(
    graph: TensorGraph,
    settings: Mapping[str, Any],
    workers: Sequence[str],
    check: Callable[[], None],
    machine: Machine | None = None,
    bound: Bindings | None = None,
) -> Prepared:
    """Compile and plan a graph.

    Parameters
    ----------
    graph
        What to run, canonical (`tensor.structure.canonical`).
    settings
        Seed 000's task configuration.
    workers
        Names of the workers, by index.
    check
        Called between steps; may raise to stop (a cancelled job).
    machine
        The host, to plan for; without one nothing is predicted.
    bound
        Of the run that asks for it: where the user's lines are that an error names.

    Raises
    ------
    MemoryLimitError
        If there are so many operands that planning them takes all the memory.
    """
    laps = [time.monotonic()]
    compiled = _compiled(graph, settings, workers, check, machine, bound)
    after = compiled.after
    laps.append(time.monotonic())
    check()
    pinned = pinned_workers(after, workers)
    wanted = preferred_workers(after, workers) | pinned
    key_of = None if bound is None else bound.key
    classes = device_classes(compiled, settings, workers, pinned, *(() if bound is None else (bound.line,)))
    ranked = rank_operands(compiled, settings, len(workers), machine, key_of=key_of, wanted=wanted, classes=classes)
    laps.append(time.monotonic())
    check()
    stored = after.program < 0
    plan = _placed(compiled, ranked, settings, len(workers), wanted)
    laps.append(time.monotonic())
    check()
    kept = np.unique(np.concatenate([np.zeros(0, np.int64), *(ids.ravel() for ids in after.results.values())]))
    flow = FlowGraph(plan.dag, given=np.flatnonzero(stored), kept=kept)
    known = ~stored & ~after.unsized  # a bound may be far off, and is not refused for
    table = JobTable(
        job="",
        number=0,
        programs=after.programs,
        program=after.program.tolist(),
        inputs=flow.preds,
        args=after.args,
        base=0,
        chunk=[],
        nbytes=after.nbytes.tolist(),
        work=after.work.tolist(),
        rank=plan.rank.tolist(),
        kept=int(after.nbytes[kept[known[kept]]].sum()),
        stored=np.flatnonzero(stored).tolist(),
        readers=flow.succs,
        results=kept.tolist(),
        planned=[] if ranked.assign is None or machine is None or machine.rows is None else plan.assign.tolist(),
        tight=machine is not None and 2 * int(after.nbytes.sum()) > machine.memory,
        late=settings.get("dispatch") == "late",
        pinned=pinned,
        device=ranked.device,
        ephemeral=settings.get("ephemeral", False),
    )
    stored_chunks: dict[str, list[tuple[int, int]]] = {}
    for operand, (name, index) in after.stored.items():
        stored_chunks.setdefault(name, []).append((operand, index))
    picture = graph_built(compiled, plan, workers) | prediction(compiled, ranked.predicted, ranked.seconds)
    laps.append(time.monotonic())
    return Prepared(
        compiled,
        plan,
        Pool(flow, _AT_ONCE, _KEPT),
        table,
        plan.assign.tolist(),
        picture,
        weight(picture) + 400 * len(compiled.before.layers),
        stored_chunks,
        {name: ids.ravel().tolist() for name, ids in after.results.items()},
        _slots(after.args),
        plan_size(compiled) + (60 * after.n if ranked.graph is not None else 0),
        _watched(ranked, settings, len(workers), machine),
        dict(settings),
        places={} if machine is None or bound is None else machine.places(stored_chunks, bound.key),
        numbers=() if machine is None else machine.numbers,
        hungriest=hungriest(after, machine is not None and machine.rows is not None),
        made=laps[-1],
        wanted=wanted,
        classes=classes,
        phases=tuple((name, after - before) for name, (before, after) in zip(PHASES, pairwise(laps), strict=True)),
    )


def _placed(
    compiled: Compiled, ranked: Ranked, settings: Mapping[str, Any], workers: int, wanted: Mapping[int, int]
) -> Plan:
    """The plan of a compiled graph: order, and workers of first and shuffled operands, and those that users chose."""
    after, dag, rank = compiled.after, compiled.dag, ranked.rank.astype(np.int64)
    assign = None if ranked.assign is None else ranked.assign.astype(np.int16)
    if assign is None:
        fixed = after.program < 0
        fixed[list(wanted)] = True
        reducers = np.array([*(program.gathers for program in after.programs), False])[after.program]
        search = settings.get("assigner", "bfs")
        plan = make_plan(dag, rank, [1] * workers, fixed, search, reducers=reducers)
        if not wanted:
            return plan
        assign = plan.assign.copy()
    assign[list(wanted)] = list(wanted.values())
    return Plan(dag, assign, rank)


def _compiled(
    graph: TensorGraph,
    settings: Mapping[str, Any],
    workers: Sequence[str],
    check: Callable[[], None],
    machine: Machine | None,
    bound: Bindings | None,
) -> Compiled:
    """The graph compiled for a machine; refused where it has too many operands for the memory."""
    apart = kept_apart(settings, workers)
    if machine is None:
        return compile_graph(graph, settings, check, None, len(workers), runs_on_gpu=apart)

    def refuse(n: int, each: int, layer: GraphLayer) -> None:
        line = bound.line(layer.line) if bound is not None else None
        refuse_many(n, each, machine.memory, layer.name, line, machine.advice, machine.giver(together=True))

    room, most = machine.share(len(workers)) // 2, machine.memory // TILED_BYTES
    try:
        compiled = compile_graph(graph, settings, check, room, len(workers), most, apart)
    except TooManyOperandsError as error:
        refuse(error.n, TILED_BYTES, error.layer)
        raise
    after = compiled.after
    if after.n:
        refuse(after.n, OPERAND_BYTES, after.layers[int(np.bincount(after.layer).argmax())])
    return compiled


def _watched(ranked: Ranked, settings: Mapping[str, Any], executors: int, machine: Machine | None) -> Watched | None:
    if ranked.graph is None or machine is None or ranked.device or not settings.get("replan", True):
        return None
    if executors < 2 and machine.rows is None:  # further hosts may come
        return None
    if settings.get("dispatch") == "late":  # no worker is planned
        return None
    if machine.balances:
        return None
    return Watched(ranked.graph, executors, machine.memory, machine.hosts)


def _slots(args: list[tuple[Any, ...]] | None) -> list[tuple[int, int, int]]:
    """Where arguments begin with a slot."""
    return [
        (operand, place, arg[0].number)
        for operand, row in enumerate(args or ())
        for place, arg in enumerate(row)
        if type(arg) is tuple and arg and type(arg[0]) is Slot
    ]
