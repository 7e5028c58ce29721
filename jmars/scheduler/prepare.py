"""Prepares a graph's structure once for all runs: compiled, planned, laid out as lists for workers.

`prepare` runs in a thread and touches only the arguments. The prepared structure has no tensor keys and no
lines: runs bring their `Bindings`, so a cell run again with other data is neither tiled nor planned (`plans` keeps
them). A job of several stages prepares all stages.
Source: docs/explanation/seeds.md, "Preparing the graph", "Initial worker assignment" and "Execution lifecycle".

Decides how often an operand that raised is tried again, and when.

Under `retries: auto` an operand is tried again three times, as in Mars (`retry_num` 4), after an error that may pass by
itself: OSError, MemoryError, a lost connection. Other errors come again for the same input, so the operand fails at
once. A number is for all errors alike.
Source: docs/explanation/seeds.md, "Execution control"; docs/decisions/0045-which-errors-are-retried.md.

Estimates the bytes that a prepared graph takes while `Plans` keeps it.

Workers that users annotated operands with: `jmars.annotate(worker=...)`, checked against the cluster, and wishes.

Source: `expect_worker` of Mars's operands; docs/explanation/seeds.md, "Initial worker assignment".

The graph for the live view: the chunk graph before and after fusion, and the layers of both.

`graph_built` gives the data of a GraphBuilt event, `prediction` the plan's part, `with_lines` a run's own lines. Small
graphs travel edge by edge; of large graphs only the graph of layers (a box per tensor operand before, a box per kind of
fused operand after) travels, with the boxes of all operands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from jmars.errors import GraphError
from jmars.flow import FlowGraph
from jmars.kernels.program import Call, ChunkType, Generate, program_text
from jmars.model.messages import Failure, JobTable
from jmars.optimize import Compiled, TooManyOperandsError, compile_graph
from jmars.optimize.sources import sources_of
from jmars.plan import Plan, PlanGraph, Workers, make_plan
from jmars.scheduler.event_log import weight
from jmars.scheduler.ranking import (
    OPERAND_BYTES,
    TILED_BYTES,
    Hungriest,
    Machine,
    Ranked,
    device_classes,
    gathering,
    hungriest,
    kept_apart,
    rank_operands,
    refuse_many,
)
from jmars.scheduler.replanning import PlanMonitor
from jmars.tensor.chunk import ChunkGraph, GraphLayer
from jmars.tensor.operand import SourceLine
from jmars.tensor.structure import Bindings, Slot
from jmars.tensor.tensor_graph import TensorGraph

REFINED = 2  # new plans of a structure with measured costs
LEAST_SECONDS = 0.1  # of a run that is worth it
TOLERANCE = 1.25  # how far a prediction may be off
REUSE = 4.0  # times: a plan that is used again may take longer to make

PHASES = ("compile", "rank", "place", "rows")  # tile and analyse, priorities, first workers, operand rows


@dataclass(frozen=True, eq=False)
class Prepared:
    """A structure that can be opened on the workers again and again; jobs only read it.

    Attributes
    ----------
    compiled, plan
        Of the canonical graph: its keys are numbers of operands, its lines too.
    flow
        The plan's graph, for the counters of each job.
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
    flow: FlowGraph
    table: JobTable
    assign: list[int]
    picture: dict[str, Any]
    weight: int
    stored: dict[str, list[tuple[int, int]]]  # name of a tensor: operands that are its chunks, number of each chunk
    results: dict[str, list[int]]  # name of a tensor: its operands
    slots: list[tuple[int, int, int]]  # (operand, argument, slot): the run's value comes first in that argument
    size: int
    watched: Watched | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of the plan
    hungriest: Hungriest | None = None  # the operand that needs most memory at once
    made: float = 0.0  # monotonic
    phases: tuple[tuple[str, float], ...] = ()  # (phase, seconds) of the preparation
    refined: int = 0  # number of new plans with measured costs
    wanted: Mapping[int, int] = field(default_factory=dict)  # workers of operands that users chose
    places: Mapping[tuple[str, int], int] = field(default_factory=dict)  # of stored chunks, see `Machine.places`
    numbers: Sequence[int] = ()  # of the machines of the rows in `places`, see `Machine.numbers`
    classes: NDArray[np.uint8] | None = None  # devices that each operand may run on; None without a GPU
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
        chunk = list(range(base, base + len(shared.program)))
        nbytes, rank = shared.nbytes.copy(), shared.rank.copy()  # a job corrects sizes, and is planned again
        return structs.replace(
            shared, job=job, number=number, args=args, base=base, chunk=chunk, nbytes=nbytes, rank=rank
        )

    def retry_rule(self, operand: int) -> RetryRule:
        """How often an operand that raised is tried again."""
        program = self.table.programs[self.table.program[operand]]
        asked = max((step.retries for step in program.steps if isinstance(step, Call)), default=-1)
        return RetryRule(asked, self.settings.get("retries", "auto"))

    def is_off(self, makespan: float) -> bool:
        """Whether a run took so much longer or shorter than predicted that later runs are planned again."""
        if makespan < LEAST_SECONDS or self.refined >= REFINED:
            return False
        told = self.picture["predicted"]
        return told is None or not 1 / TOLERANCE < makespan / max(told["makespan"], 1e-9) < TOLERANCE

    def planned_again(self, executors: int, machine: Machine) -> Prepared:
        """The same structure with an order by the costs that are known now; for a thread."""
        row = {number: row for row, number in enumerate(machine.numbers)}  # other hosts may be there than before
        rows = [row.get(number, -1) for number in self.numbers]
        places = {chunk: rows[place] if place >= 0 else -1 for chunk, place in self.places.items()}
        there = replace(machine, row_of=lambda name, index: places.get((name, index), -1))
        ranked = rank_operands(self.compiled, self.settings, executors, there, REUSE, str, self.wanted, self.classes)
        assign = self.plan.assign if ranked.assign is None else ranked.assign.astype(np.int16)
        planned = [] if ranked.assign is None or machine.rows is None else ranked.assign.tolist()
        return replace(
            self,
            plan=Plan(self.plan.dag, assign.copy(), ranked.rank.copy()),
            table=structs.replace(self.table, rank=ranked.rank.tolist(), planned=planned, device=ranked.device),
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
        push=settings.get("push", True),
        chains=_may_chain(settings, machine),
    )
    stored_chunks: dict[str, list[tuple[int, int]]] = {}
    for operand, (name, index) in after.stored.items():
        stored_chunks.setdefault(name, []).append((operand, index))
    picture = graph_built(compiled, plan.assign, workers) | prediction(compiled, ranked.predicted, ranked.seconds)
    laps.append(time.monotonic())
    return Prepared(
        compiled=compiled,
        plan=plan,
        flow=flow,
        table=table,
        assign=plan.assign.tolist(),
        picture=picture,
        weight=weight(picture) + 400 * len(compiled.before.layers),
        stored=stored_chunks,
        results={name: ids.ravel().tolist() for name, ids in after.results.items()},
        slots=_slots(after.args),
        size=plan_size(compiled) + (60 * after.n if ranked.graph is not None else 0),
        watched=_watched(ranked, settings, len(workers), machine),
        settings=dict(settings),
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
        search = settings.get("assigner", "auto")
        search = "bfs" if search == "auto" else search
        plan = make_plan(dag, rank, [1] * workers, fixed, search, reducers=gathering(after))
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
        refuse_many(n, each, machine, layer.name, line)

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


def _may_chain(settings: Mapping[str, Any], machine: Machine | None) -> bool:
    """Whether readers may go along with their inputs: on one host with one scheduler, with batches of operands."""
    alone = settings.get("dispatch") == "late" or settings.get("ephemeral", False) or settings.get("shards", 1) > 1
    return not alone and machine is not None and machine.rows is None


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


TRIES = 4  # of an operand under `auto`, the first try included
FIRST_DELAY, DELAY_FACTOR, MOST_DELAY = 0.05, 3.0, 30.0  # seconds before the second try, growth, and the longest


@dataclass(frozen=True, slots=True)
class RetryRule:
    """The rule for one operand.

    Attributes
    ----------
    asked
        Number of retries that the user gave for this call; -1 if none.
    setting
        Value of `task.default_config.retries`: a number, or "auto".
    """

    asked: int = -1
    setting: int | str = "auto"

    def most(self, failure: Failure) -> int:
        """Number of tries that may follow the first one, after this error.

        Examples
        --------
        >>> [RetryRule().most(Failure("Error", "no", is_transient=may_pass)) for may_pass in (False, True)]
        [0, 3]
        """
        if failure.is_final:
            return 0
        if self.asked >= 0:
            return self.asked
        if isinstance(self.setting, int):
            return self.setting
        return TRIES - 1 if failure.is_transient else 0

    def delay(self, tries: int) -> float:
        """Seconds to wait after so many tries."""
        return float(min(FIRST_DELAY * DELAY_FACTOR ** min(tries - 1, 20), MOST_DELAY))

    def in_words(self, failure: Failure, tries: int) -> str:
        """Number of tries in words, to be added to the place of an error.

        Examples
        --------
        >>> RetryRule().in_words(Failure("OSError", "no"), 4), RetryRule().in_words(Failure("ValueError", "no"), 1)
        (', tried 4 times', '')
        """
        if tries != 1:
            return f", tried {tries} times"
        if not failure.in_user_code:
            return ""  # NumPy's error: nobody expects another try
        return ", tried once; retries=n asks for more" if self.asked < 0 and self.setting == "auto" else ", tried once"


OPERAND = 400  # bytes of an operand of the compiled graph


def least_plan_size(graph: TensorGraph) -> int:
    """Estimated bytes that the plan of a graph takes at least, known before it is made.

    Counts unfused results and their unfused inputs; other operands may be pruned.
    """
    needed: set[int] = set()
    stack = [k for k in graph.results if graph.operands[k].alone]
    while stack:
        k = stack.pop()
        if k not in needed:
            needed.add(k)
            stack += [i for i in graph.inputs[k] if graph.operands[i].alone]
    return OPERAND * len(needed)


def plan_size(compiled: Compiled) -> int:
    """Estimated bytes that a kept graph takes: measured with tracemalloc, plus users' functions."""
    before, after = compiled.before, compiled.after
    args = 150 * after.n if after.args is not None else 0
    steps = [step for program in after.programs for step in program.steps]
    args += sum(_brought(step.params) for step in steps if isinstance(step, Call | Generate))
    args += sum(map(_brought, after.args or ()))
    return 15_000 + 40 * before.n + OPERAND * after.n + 8 * before.input_idx.size + 60 * after.input_idx.size + args


def _brought(row: tuple[Any, ...]) -> int:
    """Bytes of pickles and arrays in a row."""
    found = 0
    for one in row:
        if type(one) is bytes:
            found += len(one)
        elif type(one) is np.ndarray:
            found += one.nbytes
        elif type(one) is tuple:
            found += _brought(one)
    return found


def pinned_workers(graph: ChunkGraph, workers: Sequence[str]) -> dict[int, int]:
    """Number of the only worker that may run an operand, by operand.

    Raises
    ------
    GraphError
        If there is no such worker.
    """
    return _by_operand(graph, [_worker(layer, workers) for layer in graph.layers])


def preferred_workers(graph: ChunkGraph, workers: Sequence[str]) -> dict[int, int]:
    """Number of the worker that a user wishes for an operand, by operand; of a host the first worker.

    A wish for a worker or host that is not here has no effect.
    """
    return _by_operand(graph, [_preferred(layer, workers) for layer in graph.layers])


def _by_operand(graph: ChunkGraph, worker_of: Sequence[int]) -> dict[int, int]:
    """The workers by operand, from workers by layer, -1 for none."""
    if max(worker_of, default=-1) < 0:
        return {}
    rows = zip(graph.layer.tolist(), graph.program.tolist(), strict=True)
    return {i: worker_of[layer] for i, (layer, program) in enumerate(rows) if worker_of[layer] >= 0 and program >= 0}


def _preferred(layer: GraphLayer, workers: Sequence[str]) -> int:
    """The worker of a wish; -1 for none."""
    wish = None if layer.annotation is None else layer.annotation.prefer
    if wish is None or isinstance(wish, int):
        return -1 if wish is None or wish >= len(workers) else wish
    return next((at for at, name in enumerate(workers) if wish in (name, name.rpartition("/")[0])), -1)


def _worker(layer: GraphLayer, workers: Sequence[str]) -> int:
    """The worker of a layer's operands; -1 for any."""
    if layer.annotation is None:
        return -1
    worker = layer.annotation.worker
    if worker is None:
        return -1
    number = worker if isinstance(worker, int) else workers.index(worker) if worker in workers else -1
    if not 0 <= number < len(workers):
        raise GraphError(
            f"{layer.name} is annotated with worker={worker!r}, and the cluster has the workers 0 to "
            f"{len(workers) - 1} ({', '.join(workers[:10])}{', …' * (len(workers) > 10)}); choose one of them"
        )
    return number


SMALL = 1500  # operands up to which every edge is drawn
_NAME = 80  # characters of a label
_TEXT = 300  # characters of an expression
_SOURCES, _PARTS = 100, 6  # sources that are told, and operands of each


def graph_built(compiled: Compiled, assign: NDArray[np.int16], workers: Sequence[str]) -> dict[str, Any]:
    """The data of a GraphBuilt event, but for the user's lines; docs/reference/events.md explains the fields.

    `assign` has the worker planned for each operand, -1 for none.
    """
    before, after = compiled.before, compiled.after
    small = before.n <= SMALL
    before_src, before_dst = _edges(before)
    after_src, after_dst = _edges(after)
    labels = [_label(after, k) for k in range(-1, len(after.programs))]
    kinds, after_group = np.unique(np.stack([after.layer, after.program]), axis=1, return_inverse=True)
    group = after_group.reshape(-1)
    return {
        "stages": [],
        "n_before": before.n,
        "n_after": after.n,
        "workers": list(workers),
        "before_src": _u4(before_src) if small else b"",
        "before_dst": _u4(before_dst) if small else b"",
        "before_stage": _u4(before.layer),
        "before_group": _u4(compiled.group),
        "after_src": _u4(after_src) if small else b"",
        "after_dst": _u4(after_dst) if small else b"",
        "after_labels": [labels[k + 1] for k in after.program.tolist()] if small else [],
        "after_group": _u4(group),
        "after_nbefore": _u4(np.bincount(compiled.group[compiled.group >= 0], minlength=after.n)),
        "stage_edges": _between(before.layer, before_src, before_dst),
        "group_labels": [labels[k + 1] for k in kinds[1].tolist()],
        "group_edges": _between(group, after_src, after_dst),
        "group_program": _u4(kinds[1]),
        "group_reads": [after.programs[k].reads if k >= 0 else 0 for k in kinds[1].tolist()],
        "sources": [
            [list(one.layers[:_PARTS]), one.read, one.nbytes, one.why] for one in sources_of(compiled)[:_SOURCES]
        ],
        "group_types": _types(after, kinds[1], group) if kinds.shape[1] <= SMALL else [],
        "group_texts": [_text(after, k) for k in kinds[1].tolist()] if kinds.shape[1] <= SMALL else [],
        "before_chunk": _u4(_chunk_numbers(before)) if small else b"",
        "stage_grids": [list(ids.shape) for ids in before.grids] if small else [],
        "assigned": assign.astype("<i2").tobytes(),
        "after_nbytes": after.nbytes.astype("<i8").tobytes() if small else b"",
    }


def prediction(
    compiled: Compiled, predicted: dict[str, Any] | None, seconds: NDArray[np.float64] | None
) -> dict[str, Any]:
    """The data of a GraphBuilt event that a plan predicts: of the run, and seconds of each operand."""
    told = b"" if seconds is None or compiled.before.n > SMALL else seconds.astype("<f4").tobytes()
    return {"predicted": predicted, "after_seconds": told}


def with_lines(
    picture: dict[str, Any], compiled: Compiled, line_of: Callable[[SourceLine | None], SourceLine | None]
) -> dict[str, Any]:
    """The picture with the lines that `line_of` gives for lines of the compiled graph."""
    before = compiled.before
    counts = np.bincount(before.layer, minlength=len(before.layers)).tolist()
    layer_of = cache(_layer)  # functions that are called in a loop give thousands of equal layers
    stages = [layer_of(layer.name, line_of(layer.line), count) for layer, count in zip(before.layers, counts)]
    return picture | {"stages": stages}


def _edges(graph: ChunkGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    users = np.repeat(np.arange(graph.n), np.diff(graph.input_ptr))
    return graph.input_idx, users


def _between(box: NDArray[Any], src: NDArray[np.int64], dst: NDArray[np.int64]) -> list[list[int]]:
    """Distinct edges between different boxes."""
    if not len(src):
        return []
    pairs = np.unique(box[src].astype(np.int64) << 32 | box[dst].astype(np.int64))
    ends = np.stack([pairs >> 32, pairs & 0xFFFFFFFF], axis=1)
    found: list[list[int]] = ends[ends[:, 0] != ends[:, 1]].tolist()
    return found


def _chunk_numbers(graph: ChunkGraph) -> NDArray[np.int64]:
    """Number of the chunk that each operand computes, in C order of its tensor's chunks; -1 for parts of a chunk."""
    number = np.full(graph.n, -1, np.int64)
    for row, ids in enumerate(graph.grids):
        own = np.flatnonzero(graph.layer[ids.ravel()] == row)  # a tensor may have chunks of another tensor
        number[ids.ravel()[own]] = own
    return number


def _types(graph: ChunkGraph, programs: NDArray[Any], group: NDArray[Any]) -> list[list[Any] | None]:
    """Dtype and shape of the chunks of each kind; None if they differ, or if no operand reads a stored chunk."""
    found: list[set[ChunkType]] = [set() for _ in programs]
    for kind, program in enumerate(programs.tolist()):
        if program >= 0:
            found[kind].add(graph.programs[program].output)
    src, users = _edges(graph)
    for edge in np.flatnonzero(graph.program[src] < 0).tolist():  # the readers know the types of stored chunks
        user = int(users[edge])
        types = graph.programs[graph.program[user]].inputs
        found[group[src[edge]]].add(types[edge - graph.input_ptr[user]])
    rows = [next(iter(types)) if len(types) == 1 else None for types in found]
    return [[str(one.dtype), list(one.shape)] if one is not None else None for one in rows]


def _label(graph: ChunkGraph, program: int) -> str:
    return "stored" if program < 0 else graph.programs[program].name[:_NAME]


def _text(graph: ChunkGraph, program: int) -> str:
    """The expression that a program computes; "" for a stored chunk."""
    return "" if program < 0 else program_text(graph.programs[program])[:_TEXT]


def _layer(name: str, line: SourceLine | None, count: int) -> list[Any]:
    where = [line.filename, line.lineno, line.text[:200]] if line is not None else ["", 0, ""]
    return [name[:_NAME], *where, count]


def _u4(values: NDArray[Any]) -> bytes:
    return values.astype(np.int64).astype("<u4").tobytes()  # -1 becomes 0xffffffff
