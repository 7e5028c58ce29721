"""Chooses the order that a job runs in: as the settings say, or the best of several, simulated with this host's costs.

The planners release the interpreter's lock while they work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jmars.errors import MemoryLimitError
from jmars.optimize import Compiled
from jmars.plan import CPU, GPU, PlanGraph, Profile, Workers, annotate, one_host
from jmars.plan.choice.brief import BRIEF_ORDER, are_brief
from jmars.plan.choice.one_host import HOST_ORDERS, choose_order, seconds_to_plan
from jmars.plan.order.ranks import rank_by
from jmars.plan.plan_graph import GPU_ONLY
from jmars.plan.simulation.predict import predict_from_simulation
from jmars.scheduler.device_plan import on_devices, spread
from jmars.scheduler.fitting import LIMIT, raise_limit
from jmars.switches import TASK_DEFAULTS
from jmars.units import format_bytes

if TYPE_CHECKING:
    from jmars.plan import Choice

__all__ = ["Machine", "Ranked", "rank_operands"]

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
            return LIMIT
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
    if classes is not None and (machine is None or machine.rows is None):
        return _with_gpus(compiled, settings, executors, machine, patience, wanted or {}, classes)
    if classes is not None and machine is not None and compiled.after.n:
        return _hosts_with_gpus(compiled, settings, machine, patience, key_of, wanted or {}, classes)
    order = settings.get("order", TASK_DEFAULTS["order"])
    if machine is None or not compiled.after.n:
        return Ranked(compiled.rank)
    if machine.rows is not None:
        return _on_machines(compiled, settings, machine, machine.rows, patience, key_of, wanted or {}, classes)
    workers = one_host(machine.profile, executors, machine.memory)
    graph = annotate(compiled.after, compiled.dag, machine.profile)
    if order == "auto" and are_brief(compiled.after, graph, machine.profile, machine.memory):
        order = BRIEF_ORDER
    budget = patience * seconds_to_plan(graph, workers)
    if not budget:  # a small graph: any order serves
        rank = compiled.rank if order in ("auto", "mars") else rank_by(order, graph)
        return Ranked(rank, seconds=graph.cost)
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
        "chosen": choice.best.name,
        "lower_bound": told.lower_bound,
        "tried": _told(choice),
    }
    return Ranked(rank, graph, predicted, seconds=graph.cost)


def _with_gpus(
    compiled: Compiled,
    settings: Mapping[str, Any],
    executors: int,
    machine: Machine | None,
    patience: float,
    wanted: Mapping[int, int],
    classes: NDArray[np.uint8],
) -> Ranked:
    """Order, device and worker of operands on a host with GPUs; the GPUs are the last workers."""
    from jmars.plan.cost.gpu_seconds import host_with_gpus  # only hosts with a GPU need it

    ranked, must = Ranked(compiled.rank), classes == GPU
    gpus = () if machine is None else machine.gpus
    cores = executors - max(1, len(gpus))
    if machine is not None and compiled.after.n and gpus:
        rows = host_with_gpus(machine.profile, cores, machine.memory, gpus)
        numbers = [0, *range(cores, executors)]
        apart = replace(machine, rows=rows, numbers=numbers, row_of=lambda key, index: 0)
        pins = {one: worker if worker >= cores else 0 for one, worker in wanted.items()}
        ranked = _on_machines(compiled, settings, apart, rows, patience, str, pins, classes)
    assign = np.where(must, cores, 0) if ranked.assign is None else ranked.assign
    assign = np.where(compiled.after.program < 0, -1, assign)
    device = _devices(ranked.device, must)
    return replace(ranked, assign=spread(assign, ranked.rank.astype(np.int64), cores), device=device)


def _hosts_with_gpus(
    compiled: Compiled,
    settings: Mapping[str, Any],
    machine: Machine,
    patience: float,
    key_of: Callable[[str], str] | None,
    wanted: Mapping[int, int],
    classes: NDArray[np.uint8],
) -> Ranked:
    """Order, device and worker of operands on several hosts with GPUs, perhaps lost GPUs."""
    rows = machine.rows
    assert rows is not None
    here = classes if np.any(rows.device == GPU) else None  # else GPUs are lost, or not warm yet
    ranked = _on_machines(compiled, settings, machine, rows, patience, key_of, wanted, here)
    return replace(ranked, device=_devices(ranked.device, classes == GPU))


def _devices(planned: bytes, must: NDArray[np.bool_]) -> bytes:
    """Devices of operands for a `JobTable`, from the devices of a plan; `must` marks operands that no core may run."""
    if not planned and not must.any():
        return b""
    found = np.frombuffer(planned, np.uint8) if planned else np.full(len(must), CPU, np.uint8)
    return np.where(must, GPU_ONLY, found).astype(np.uint8).tobytes()


def _on_machines(
    compiled: Compiled,
    settings: Mapping[str, Any],
    machine: Machine,
    rows: Workers,
    patience: float,
    key_of: Callable[[str], str] | None,
    wanted: Mapping[int, int],
    classes: NDArray[np.uint8] | None = None,
) -> Ranked:
    """Order and worker of every operand on machines without common memory, or on cores and GPUs; a stored chunk lies
    where `machine` says.

    The order that the settings name holds where it is not "auto".
    """
    from jmars.plan.choice.choose import choose  # only several hosts need its planners

    order = settings.get("order", TASK_DEFAULTS["order"])
    graph = annotate(compiled.after, compiled.dag, machine.profile)
    if wanted:
        graph = replace(graph, pin=_rows_wanted(wanted, machine.numbers, rows, graph.n))
    stored = compiled.after.program < 0
    budget = patience * seconds_to_plan(graph, rows)
    prefer = settings.get("prefer", TASK_DEFAULTS["prefer"])
    placed = np.full(compiled.after.n, -1, np.int64)
    if key_of is not None:
        for operand, (name, index) in compiled.after.stored.items():
            placed[operand] = machine.row_of(key_of(name), index)
    device = b""
    try:
        if classes is None:
            choice = choose(graph, rows, prefer=prefer, budget=budget, placed=placed)
        else:
            graph = replace(graph, device=classes)
            down = not machine.gpus  # other hosts may read any chunk
            graph, choice = on_devices(compiled.after, graph, settings, rows, machine.profile, placed, budget, down)
            device = graph.device.tobytes() if np.any(graph.device == GPU) else b""
    except MemoryLimitError:  # told when that operand's turn comes, with its name and line
        return Ranked(compiled.rank)
    numbers = np.asarray(machine.numbers, np.int64)
    assign = np.where(stored, -1, numbers[choice.plan.assign])
    rank = choice.plan.rank if order == "auto" else compiled.rank if order == "mars" else rank_by(order, graph)
    result = choice.predicted
    predicted = {
        "makespan": result.makespan,
        "peak": [result.peak_total, result.peak_total],
        "spilled": result.spilled,
        "moved": result.moved,
        "chosen": choice.best.name,
        "lower_bound": choice.lower_bound,
        "tried": _told(choice),
    }
    return Ranked(rank, graph, predicted, assign, graph.cost, device)


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
