"""Chooses the order that a job runs in: as the settings say, or the best of several, simulated with this host's costs.

The planners release the interpreter's lock while they work.

Refuses jobs that cannot fit in memory before they run: by their hungriest operand, and by their number of operands.

An operand holds inputs, output and scratch at once. Where they need more than the memory limit leaves for chunks, no
order of the run helps, only other chunks; the client, which knows the user's arrays, looks for such chunks.
Source: docs/explanation/seeds.md, "Memory management".

Cores or GPUs for the operands of a job: device classes, and the choice.

`device_classes` reads the programs, the user's annotations and the switch `gpu`; `on_devices` plans order and workers
with the GPUs. For a cluster without a GPU only `device_classes` is called, which refuses operands that need a GPU.
Source: Mars's `gpu` of operands; docs/explanation/devices.md, "Which operands run on a GPU".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.devices.find import is_gpu
from jmars.errors import GraphError, MemoryLimitError, SettingError, UnsupportedError
from jmars.kernels.program import Program
from jmars.optimize import Compiled
from jmars.plan import ANY, CPU, GPU, PlanGraph, Profile, Workers, annotate, make_plan, one_host
from jmars.plan.choice import BRIEF_ORDER, HOST_ORDERS, are_brief, choose_order, seconds_to_plan
from jmars.plan.order import rank_by
from jmars.plan.plan_graph import GPU_ONLY
from jmars.plan.prediction import predict_from_simulation
from jmars.plan.simulation import FollowInputs, SimResult, lower_bound, simulate
from jmars.switches import TASK_DEFAULTS
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.operand import SourceLine
from jmars.units import format_bytes

if TYPE_CHECKING:
    from jmars.plan import Choice

_TRIED = 12  # orders that are told at most


@dataclass(frozen=True)
class Machine:
    """Measured costs and memory of the host, or of several machines.

    Attributes
    ----------
    memory
        Bytes for chunks and scratch, of all machines together.
    fresh
        Bytes of it that nobody has touched yet.
    rows, numbers
        Machines that share no memory, and the number of every machine's first worker; None for one host. GPUs
        have rows behind the rows of the hosts.
    row_of
        Gives the row that stores a chunk of a kept tensor, by the tensor's key and the chunk's number in C order; -1
        where it is not known.
    row_of_chunk
        Gives the row that stores a chunk now, by the chunk's number in the cluster; -1 where it is not known.
    row_of_worker
        Row of the host of every worker; -1 where it is not planned for.
    balances
        Whether the machines balance work by themselves, so that no run is planned anew.
    gpus
        Of a single host: bytes of every GPU for chunks and scratch. The last workers are its GPUs.
    """

    profile: Profile
    memory: int
    fresh: int = 0
    rows: Workers | None = None
    numbers: Sequence[int] = ()
    row_of: Callable[[str, int], int] = lambda key, index: -1
    row_of_chunk: Callable[[int], int] = lambda chunk: -1
    row_of_worker: Sequence[int] = ()
    balances: bool = False
    gpus: Sequence[int] = ()

    @property
    def largest(self) -> int:
        """Bytes that an operand may take at most."""
        return self.memory if self.rows is None else int(self.rows.memory[self.rows.device != GPU].max())

    @property
    def hosts(self) -> tuple[Workers, Sequence[int]] | None:
        """Rows and numbers of the hosts, without their GPUs; None for one host."""
        if self.rows is None:
            return None
        count = int((self.rows.device != GPU).sum())
        return (self.rows if count == len(self.rows) else self.rows.first(count)), self.numbers[:count]

    def advice(self, lacking: int = 0) -> str:
        """What to do where `lacking` bytes are missing, or an unknown number of bytes (0)."""
        if self.rows is None:
            return raise_limit(lacking)
        what = f"a worker with {format_bytes(lacking)} more memory" if lacking else "workers with more memory"
        return f"add {what} to the cluster"

    def places(
        self, stored: Mapping[str, Sequence[tuple[int, int]]], key_of: Callable[[str], str]
    ) -> dict[tuple[str, int], int]:
        """Row of every stored chunk by its tensor's name and its number; none where all share memory."""
        if self.rows is None:
            return {}
        keys = {name: key_of(name) for name in stored}
        return {(name, index): self.row_of(keys[name], index) for name, some in stored.items() for _, index in some}

    def giver(self, together: bool = False) -> str:
        """What bounds the memory of an operand, or of all operands together: a subject and a verb."""
        if self.rows is None:
            return "the memory limit leaves"
        return "all workers together give" if together else "the largest worker gives at most"

    def share(self, executors: int) -> int:
        """Bytes that an executor may take, one of `executors` on one host."""
        if self.rows is None:
            return self.memory // executors
        return int((self.rows.memory // self.rows.cores)[self.rows.device != GPU].min())


@dataclass(frozen=True)
class Ranked:
    """An order, with the predicted cost of a simulated order.

    `graph` is the planner's input, None without a plan; `predicted` is the field of the GraphBuilt event; `assign` has
    the worker of every operand where machines share no memory; `seconds` is the predicted cost of every operand, None
    without a machine. `device` is the field of `JobTable`.
    """

    rank: NDArray[np.int64]
    graph: PlanGraph | None = None
    predicted: dict[str, Any] | None = None
    assign: NDArray[np.int64] | None = None
    seconds: NDArray[np.float64] | None = None
    device: bytes = b""


@dataclass(frozen=True)
class _Request:
    """The parameters of `rank_operands`, without the number of processes."""

    compiled: Compiled
    settings: Mapping[str, Any]
    machine: Machine | None
    patience: float
    key_of: Callable[[str], str] | None
    wanted: Mapping[int, int]
    classes: NDArray[np.uint8] | None

    def __getitem__(self, name: str) -> Any:
        return self.settings.get(name, TASK_DEFAULTS[name])


def rank_operands(
    compiled: Compiled,
    settings: Mapping[str, Any],
    executors: int,
    machine: Machine | None,
    patience: float = 1.0,
    key_of: Callable[[str], str] | None = None,
    wanted: Mapping[int, int] | None = None,
    classes: NDArray[np.uint8] | None = None,
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
    key_of
        Gives the key of a kept tensor that the graph reads, by its name in the graph.
    wanted
        Workers of operands that users chose.
    classes
        From `device_classes`; None without a GPU.
    """
    if machine is not None:
        refuse_settings(settings, machine)
    asked = _Request(compiled, settings, machine, patience, key_of, wanted or {}, classes)
    if classes is not None and (machine is None or machine.rows is None):
        return _with_gpus(asked, executors, classes)
    if machine is None or not compiled.after.n:
        return Ranked(compiled.rank)
    if machine.rows is not None:
        if classes is None:
            return _on_machines(asked, machine.rows)
        here = classes if np.any(machine.rows.device == GPU) else None  # else GPUs are lost, or not warm yet
        ranked = _on_machines(replace(asked, classes=here), machine.rows)
        return replace(ranked, device=_devices(ranked.device, classes == GPU))
    workers = one_host(machine.profile, executors, machine.memory)
    graph = annotate(compiled.after, compiled.dag, machine.profile)
    order = asked["order"]
    if order == "auto" and are_brief(compiled.after, graph, machine.profile, machine.memory):
        order = BRIEF_ORDER
    budget = patience * seconds_to_plan(graph, workers)
    if not budget:  # a small graph: any order serves
        rank = compiled.rank if order in ("auto", "mars") else rank_by(order, graph)
        return Ranked(rank, seconds=graph.cost)
    placed = np.where(compiled.after.program < 0, 0, -1)
    names = HOST_ORDERS if order == "auto" else (order,)
    try:
        choice = choose_order(graph, workers, prefer=asked["prefer"], budget=budget, placed=placed, names=names)
        rank = choice.plan.rank
        told = predict_from_simulation(graph, workers, rank, choice.predicted, machine.profile, placed, machine.fresh)
    except MemoryLimitError:  # told when that operand's turn comes, with its name and line
        return Ranked(compiled.rank)
    predicted = _predicted(choice.predicted, choice.best.name, told.lower_bound, _told(choice))
    predicted |= {"makespan": told.makespan, "peak": list(told.peak), "spilled": told.spilled, "moved": 0}
    return Ranked(rank, graph, predicted, seconds=graph.cost)


def refuse_settings(settings: Mapping[str, Any], machine: Machine) -> None:
    """Raise SettingError for values of switches that would change nothing on this kind of cluster."""
    refused = {}
    if machine.rows is None or machine.balances:
        refused["push"] = "on several hosts, whose chunks move"
    if machine.gpus or (machine.rows is not None and np.any(machine.rows.device == GPU)):
        refused["assigner"] = "on clusters without GPUs; a simulation places operands for GPUs"
    if machine.balances:
        refused["assigner"] = "on jmars's own workers; a simulation places all tasks of Dask and Ray"
        refused["dispatch"] = refused["ephemeral"] = "on jmars's own workers; Dask and Ray bind tasks to processes"
        refused["replan"] = "on jmars's own workers; Dask and Ray balance their tasks themselves"
    for name, where in refused.items():
        value = settings.get(name, TASK_DEFAULTS[name])
        if value != TASK_DEFAULTS[name]:
            raise SettingError(f"task.default_config.{name} = {value!r} works {where}; leave it out here")


def _with_gpus(asked: _Request, executors: int, classes: NDArray[np.uint8]) -> Ranked:
    """Order, device and worker of operands on a host with GPUs; the GPUs are the last workers."""
    from jmars.plan.devices import host_with_gpus  # only hosts with a GPU need it

    compiled, machine = asked.compiled, asked.machine
    ranked, must = Ranked(compiled.rank), classes == GPU
    gpus = () if machine is None else machine.gpus
    cores = executors - max(1, len(gpus))
    if machine is not None and compiled.after.n and gpus:
        rows = host_with_gpus(machine.profile, cores, machine.memory, gpus)
        numbers = [0, *range(cores, executors)]
        apart = replace(machine, rows=rows, numbers=numbers, row_of=lambda key, index: 0)
        pins = {one: worker if worker >= cores else 0 for one, worker in asked.wanted.items()}
        ranked = _on_machines(replace(asked, machine=apart, key_of=str, wanted=pins), rows)
    assign = np.where(must, cores, 0) if ranked.assign is None else ranked.assign
    assign = np.where(compiled.after.program < 0, -1, assign)
    device = _devices(ranked.device, must)
    return replace(ranked, assign=spread(assign, ranked.rank.astype(np.int64), cores), device=device)


def _devices(planned: bytes, must: NDArray[np.bool_]) -> bytes:
    """Devices of operands for a `JobTable`, from the devices of a plan; `must` marks operands that no core may run."""
    if not planned and not must.any():
        return b""
    found = np.frombuffer(planned, np.uint8) if planned else np.full(len(must), CPU, np.uint8)
    return np.where(must, GPU_ONLY, found).astype(np.uint8).tobytes()


def _on_machines(asked: _Request, rows: Workers) -> Ranked:
    """Order and worker of every operand on machines without common memory, or on cores and GPUs; a stored chunk lies
    where `machine` says.

    The order that the settings name holds where it is not "auto".
    """
    from jmars.plan.best_plan import choose  # only several hosts need its planners

    compiled, machine, classes = asked.compiled, asked.machine, asked.classes
    assert machine is not None
    graph = annotate(compiled.after, compiled.dag, machine.profile)
    if asked.wanted:
        graph = replace(graph, pin=_rows_wanted(asked.wanted, machine.numbers, rows, graph.n))
    stored = compiled.after.program < 0
    budget = asked.patience * seconds_to_plan(graph, rows)
    placed = np.full(compiled.after.n, -1, np.int64)
    if asked.key_of is not None:
        for operand, (name, index) in compiled.after.stored.items():
            placed[operand] = machine.row_of(asked.key_of(name), index)
    numbers = np.asarray(machine.numbers, np.int64)
    device = b""
    try:
        if asked["assigner"] != "auto":
            rank, first, result, chosen = _following(asked, graph, rows, placed)
            predicted = _predicted(result, chosen, lower_bound(graph, rows, placed), [])
            return Ranked(rank, None, predicted, np.where(first < 0, -1, numbers[first]), graph.cost)
        if classes is None:
            choice = choose(graph, rows, prefer=asked["prefer"], budget=budget, placed=placed)
        else:
            graph = replace(graph, device=classes)
            down = not machine.gpus  # other hosts may read any chunk
            graph, choice = on_devices(
                compiled.after, graph, asked.settings, rows, machine.profile, placed, budget, down
            )
            device = graph.device.tobytes() if np.any(graph.device == GPU) else b""
    except MemoryLimitError:  # told when that operand's turn comes, with its name and line
        return Ranked(compiled.rank)
    assign = np.where(stored, -1, numbers[choice.plan.assign])
    rank, result, chosen = choice.plan.rank, choice.predicted, choice.best.name
    if (order := asked["order"]) != "auto":
        rank = compiled.rank if order == "mars" else rank_by(order, graph)
        result = simulate(graph, rows, choice.plan.assign, np.asarray(rank, np.int64), placed=placed)
        chosen = f"{choice.best.assigned_by}, {order}"
    predicted = _predicted(result, chosen, choice.lower_bound, _told(choice))
    return Ranked(rank, graph, predicted, assign, graph.cost, device)


def _following(
    asked: _Request, graph: PlanGraph, rows: Workers, placed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int16], SimResult, str]:
    """Order of all operands, rows of initial operands by the switch `assigner`, the simulated run, and its name.

    Later operands have row -1: they go where most bytes of their inputs lie.
    """
    compiled, order, assigner = asked.compiled, asked["order"], asked["assigner"]
    rank = compiled.rank if order in ("auto", "mars") else rank_by(order, graph)
    fixed, slots = (compiled.after.program < 0) | (graph.pin >= 0), rows.cores.tolist()
    first = make_plan(compiled.dag, rank, slots, fixed, assigner, reducers=gathering(compiled.after)).assign
    result = simulate(graph, rows, np.where(fixed, graph.pin, first), rank, placed=placed, policy=FollowInputs())
    return rank, first, result, f"{assigner}, {'mars' if order == 'auto' else order}"


def _predicted(result: SimResult, chosen: str, bound: float, tried: list[list[Any]]) -> dict[str, Any]:
    """The field `predicted` of the GraphBuilt event."""
    return {
        "makespan": result.makespan,
        "peak": [result.peak_total, result.peak_total],
        "spilled": result.spilled,
        "moved": result.moved,
        "chosen": chosen,
        "lower_bound": bound,
        "tried": tried,
    }


def gathering(graph: ChunkGraph) -> NDArray[np.bool_]:
    """Whether each operand reads ranges of its inputs, as those after a shuffle do."""
    return np.array([*(program.gathers for program in graph.programs), False], np.bool_)[graph.program]


def _rows_wanted(wanted: Mapping[int, int], numbers: Sequence[int], rows: Workers, n: int) -> NDArray[np.int16]:
    """Row of the worker that every operand is to run on; -1 for any, and for workers that are not planned for."""
    row_of = {first + one: row for row, first in enumerate(numbers) for one in range(int(rows.cores[row]))}
    pin = np.full(n, -1, np.int16)
    for operand, worker in wanted.items():
        pin[operand] = row_of.get(worker, -1)
    return pin


def _told(choice: Choice) -> list[list[Any]]:
    """Candidates, best first: name, seconds, peak bytes, spilled and moved bytes."""
    tried = sorted(choice.tried, key=lambda one: one.score)[:_TRIED]
    return [
        [one.name, one.result.makespan, one.result.peak_total, one.result.spilled, one.result.moved] for one in tried
    ]


OPERAND_BYTES = 1000  # that one takes in the control process from being planned to the end of its job, at least
TILED_BYTES = 250  # the same of each that there is before they are fused
PAGE = 4096  # bytes: what a chunk takes is rounded up to them


class Hungriest(NamedTuple):
    """The operand that needs most at once."""

    operand: int
    nbytes: int  # that it needs
    shape: tuple[int, ...]  # of the largest chunk that it reads or writes; () where that is not known


def hungriest(graph: ChunkGraph, whole: bool = False) -> Hungriest | None:
    """The operand that needs most memory at once; chunks of unknown size do not count.

    Parameters
    ----------
    whole
        Whether operands that gather ranges of their inputs hold whole inputs, as on an engine.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.program import Call, ChunkType, single
    >>> from jmars.tensor.chunk import ChunkGraphBuilder
    >>> builder, chunk = ChunkGraphBuilder(), ChunkType((1024,), np.dtype("f8"))
    >>> one = builder.add(single("make", (), Call(print, (), (), chunk)))
    >>> two = builder.add(single("double", (chunk,), Call(print, (), (0,), chunk)), [one])
    >>> hungriest(builder.finish({}))
    Hungriest(operand=1, nbytes=16384, shape=(1024,))
    """
    if not graph.n:
        return None
    sizes = np.where(graph.unsized, 0, -(-graph.nbytes // PAGE) * PAGE)
    gathers = gathering(graph)
    before = np.concatenate([[0], np.cumsum(sizes[graph.input_idx])])
    inputs = before[graph.input_ptr[1:]] - before[graph.input_ptr[:-1]]
    needs = np.where(graph.program < 0, 0, sizes + graph.work + np.where(gathers & (not whole), 0, inputs))
    operand = int(needs.argmax())
    held = [operand] if gathers[operand] and not whole else [operand, *graph.inputs(operand).tolist()]
    largest = max(held, key=lambda chunk: int(sizes[chunk]))
    row = int(graph.program[largest])
    shape = graph.programs[row].output.shape if row >= 0 else ()
    return Hungriest(operand, int(needs[operand]), shape)


def raise_limit(lacking: int = 0) -> str:
    """Advice for a cluster with a memory limit that lacks so many bytes; 0 for an unknown number."""
    return "raise memory_limit" + (f" by {format_bytes(lacking)}" if lacking else "")


def refuse_many(n: int, each: int, machine: Machine, name: str, line: SourceLine | None) -> None:
    """Raise MemoryLimitError where planning and running so many operands takes all memory for chunks.

    Parameters
    ----------
    n, each
        Operands on chunks, at least, and bytes that each takes.
    name, line
        What most of them compute, and the user's line that asked for it.
    """
    if n * each <= machine.memory:
        return
    which = f" of line {line.lineno} ({line.text.strip()})" if line is not None else ""
    raise MemoryLimitError(
        f"the graph has {n:,} operands on chunks or more, most of them for {name}{which}; to plan and run them takes "
        f"{format_bytes(n * each)} at least and {machine.giver(together=True)} {format_bytes(machine.memory)}; use a "
        f"larger chunk_size, or {machine.advice(n * each - machine.memory)} and what the chunks take"
    )


def refuse_unfit(most: Hungriest, machine: Machine, what: str) -> None:
    """Raise MemoryLimitError where the hungriest operand, in words `what`, cannot run."""
    room = machine.largest
    if most.nbytes <= room:
        return
    # what it gives may have no size yet: often it is a function then, with its `memory=`
    said = " (where it is a spawned function, a smaller `memory=`)" if min(most.shape, default=0) < 0 else ""
    more = machine.advice(most.nbytes - room)
    advice = f"use a smaller chunk_size{said}, or {more}"
    error = MemoryLimitError(
        f"{what} needs {format_bytes(most.nbytes)} in memory at once (inputs, output and scratch) and "
        f"{machine.giver()} {format_bytes(room)}; {advice}"
    )
    error.operand, error.need, error.room = most.operand, most.nbytes, room
    error.proposed, error.more = advice, more
    raise error


_WAYS = {"auto": ("cores", "both", "gpus"), "prefer": ("gpus",), "only": ("gpus",), "off": ("cores",)}
LineOf = Callable[[SourceLine | None], SourceLine | None]


def device_classes(
    compiled: Compiled,
    settings: Mapping[str, Any],
    workers: Sequence[str],
    pinned: Mapping[int, int],
    line_of: LineOf = lambda line: line,
) -> NDArray[np.uint8] | None:
    """`ANY`, `CPU` or `GPU` of every operand; None for a cluster without a GPU.

    Raises
    ------
    UnsupportedError
        If an operand asks for a GPU and the cluster has no GPU; under `gpu: only` also for an operand with inputs and
        without a kernel of a GPU. The text has the operation's name and the user's line.
    GraphError
        If an operand is annotated with a device and with a worker of the other kind.
    """
    after, mode = compiled.after, settings.get("gpu", TASK_DEFAULTS["gpu"])
    told = [None if layer.annotation is None else layer.annotation.gpu for layer in after.layers]
    asks, bars = np.array([one is True for one in told], np.bool_), np.array([one is False for one in told], np.bool_)
    gpus = [is_gpu(name) for name in workers]
    if not any(gpus):
        if mode == "only" and after.n:
            raise UnsupportedError("gpu is only, and no worker of the cluster is a GPU; leave it out, or add a GPU")
        if asks.any():
            name = after.layers[int(np.flatnonzero(asks)[0])].name
            raise UnsupportedError(f"{name} is annotated with gpu=True, and no worker is a GPU; leave it out")
        return None
    able = np.array([*map(_runs_on_gpu, after.programs), False], np.bool_)
    if mode == "only":
        _refuse(compiled, able, asks, bars, line_of)
    classes = np.where(able[after.program] & (mode != "off"), GPU if mode == "only" else ANY, CPU).astype(np.uint8)
    computed = after.program >= 0
    classes[computed & bars[after.layer]] = CPU
    classes[computed & asks[after.layer]] = GPU
    for operand, worker in pinned.items():
        layer = int(after.layer[operand])
        if (bars[layer] and gpus[worker]) or (asks[layer] and not gpus[worker]):
            raise GraphError(
                f"{after.layers[layer].name} is annotated with gpu={bool(asks[layer])} and with {workers[worker]}; "
                "leave one out"
            )
        classes[operand] = GPU if gpus[worker] else CPU
    return classes


def kept_apart(settings: Mapping[str, Any], workers: Sequence[str]) -> Callable[[Program], bool] | None:
    """What fusion keeps apart: programs with kernels of a GPU from others; None without a GPU.

    Under `gpu: auto` programs without inputs, such as random numbers, are fused with their readers, which then run on
    cores: generated in cache they cost no memory traffic.
    """
    mode = settings.get("gpu", TASK_DEFAULTS["gpu"])
    if mode == "off" or not any(map(is_gpu, workers)):
        return None
    return _runs_on_gpu if mode in ("prefer", "only") else _runs_or_generates


def _runs_on_gpu(program: Program) -> bool:
    from jmars.devices.device_program import runs_on_gpu  # only clusters with a GPU need it

    return runs_on_gpu(program)


def _runs_or_generates(program: Program) -> bool:
    return not program.inputs or _runs_on_gpu(program)


def _refuse(
    compiled: Compiled,
    able: NDArray[np.bool_],
    asks: NDArray[np.bool_],
    bars: NDArray[np.bool_],
    line_of: LineOf,
) -> None:
    """Raises UnsupportedError for the first operand with inputs and without a kernel of a GPU, fused or not."""
    after, tiled = compiled.after, compiled.tiled
    kinds = np.stack([after.layer, after.program])
    _, firsts = np.unique(kinds, axis=1, return_index=True)
    for one in sorted(firsts.tolist()):
        row, layer = int(after.program[one]), int(after.layer[one])
        if row < 0 or asks[layer] or (able[row] and not bars[layer]):
            continue
        members = [m for m in compiled.members(one) if tiled.program[m] >= 0 and np.diff(tiled.input_ptr[m : m + 2])[0]]
        lacking = [m for m in members if bars[layer] or not _runs_on_gpu(tiled.programs[tiled.program[m]])]
        if not lacking:
            continue
        program, line = tiled.programs[tiled.program[lacking[0]]], line_of(tiled.layers[tiled.layer[lacking[0]]].line)
        where = f" (line {line.lineno}: {line.text.strip()})" if line is not None else ""
        why = "is annotated with gpu=False" if bars[layer] else "has no GPU kernel"
        kinds_of = f"{', '.join(str(one.dtype) for one in program.inputs)} to {program.output.dtype}"
        raise UnsupportedError(
            f"{program.name}{where} {why}, {kinds_of}, and gpu is only; use gpu prefer, which computes it on a core"
        )


def on_devices(
    after: ChunkGraph,
    graph: PlanGraph,
    settings: Mapping[str, Any],
    rows: Workers,
    profile: Profile,
    placed: NDArray[np.int64],
    budget: float,
    copies_down: bool = False,
) -> tuple[PlanGraph, Choice]:
    """The plan of a compiled graph on cores and GPUs, and the graph with devices.

    Parameters
    ----------
    after, graph
        `Compiled.after` and its planner's input, with `device` from `device_classes`.
    rows
        Cores and GPUs, as `host_with_gpus` or `hosts_with_gpus`.
    placed
        Row that stores the chunk already, by operand, else -1.
    budget
        Seconds for planning. With 0, for short jobs, `gpu: auto` leaves operands on cores.
    copies_down
        Whether all outputs of a GPU are copied to shared memory, as on several hosts, or results only.

    Raises
    ------
    MemoryLimitError
        If an operand does not fit in memory.
    """
    from jmars.plan.devices import (
        choose_devices,  # only clusters with a GPU need these two
        gpu_seconds,
    )

    mode = settings.get("gpu", TASK_DEFAULTS["gpu"])
    seconds = np.array([*(gpu_seconds(program, profile) for program in after.programs), 0.0])[after.program]
    for some in [np.arange(after.n)] if copies_down else after.results.values():  # beside the next kernels
        seconds[some] = np.maximum(seconds[some], after.nbytes[some] / profile.pcie)
    _, group = np.unique(np.stack([after.layer, after.program]), axis=1, return_inverse=True)
    ways = _WAYS[mode] if budget or mode != "auto" else _WAYS["off"]
    prefer = settings.get("prefer", TASK_DEFAULTS["prefer"])
    found = choose_devices(graph, seconds, rows, group.reshape(-1), placed, ways=ways, prefer=prefer, budget=budget)
    return found.graph, found.choice


def spread(assign: NDArray[np.int64], rank: NDArray[np.int64], cores: int) -> NDArray[np.int64]:
    """Workers of a host from a plan in which worker 0 stands for the cores: cores are used in turn, by rank.

    Examples
    --------
    >>> spread(np.array([0, 0, 2, -1, 0]), np.arange(5), cores=2).tolist()
    [0, 1, 2, -1, 0]
    """
    workers = assign.astype(np.int64)
    on_cores = np.flatnonzero((assign >= 0) & (assign < cores))
    in_order = on_cores[np.argsort(rank[on_cores], kind="stable")]
    workers[in_order] = np.arange(len(in_order)) % cores
    return workers
