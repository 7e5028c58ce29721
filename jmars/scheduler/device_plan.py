"""Cores or GPUs for the operands of a job: device classes, and the choice.

`device_classes` reads the programs, the user's annotations and the switch `gpu`; `on_devices` plans order and workers
with the GPUs. For a cluster without a GPU only `device_classes` is called, which refuses operands that need a GPU.
Source: Mars's `gpu` of operands; docs/explanation/devices.md, "Which operands run on a GPU".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jmars.devices.find import is_gpu
from jmars.errors import GraphError, UnsupportedError
from jmars.kernels.program import Program
from jmars.optimize import Compiled
from jmars.plan import ANY, CPU, GPU, PlanGraph, Workers
from jmars.plan.cost.profile import Profile
from jmars.switches import TASK_DEFAULTS
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.source_line import SourceLine

if TYPE_CHECKING:
    from jmars.plan import Choice

__all__ = ["device_classes", "kept_apart", "on_devices", "spread"]

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
    from jmars.plan.choice.devices import choose_devices  # only clusters with a GPU need these two
    from jmars.plan.cost.gpu_seconds import gpu_seconds

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
