"""Chooses between cores and GPUs for every operand: a minimum cut between compute time and copies.

The operands of a group, such as the operands of a line of the user's code, get the same device. A group has seconds on
cores and on GPUs, and a chunk between cores and GPUs costs a copy. The division with the least sum is a minimum cut.
`choose_devices` simulates runs by the cut, by cores alone and by as many operands on GPUs as possible, and takes the
fastest run.

Measured seconds of a GPU have separate keys, `gpu_key`. Before the first measurement the seconds of a program are
estimated from bytes and operations, with defaults that make a GPU look slower rather than faster.
Source: Stone 1977, "Multiprocessor scheduling with the aid of network flow algorithms"; Williams, Waterman and
Patterson 2009 (roofline).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import MemoryLimitError
from jmars.kernels.program import Program
from jmars.plan.best_plan import choose
from jmars.plan.choice import Choice
from jmars.plan.costs import Profile, gpu_key, prior, program_seconds, signature
from jmars.plan.plan_graph import ANY, CPU, GPU, PlanGraph, Workers

_NEVER = 1e7  # seconds of a group on a device where the group cannot run
_GAIN = 1.2  # least speed-up of a run with GPUs, whose seconds may be estimates
_MAX_CUT_GROUPS = 2000  # groups; the cut takes too long for larger graphs


@dataclass(frozen=True, eq=False)
class OnDevices:
    """A plan with devices; `graph` has the devices and the seconds on them, `way` names the choice."""

    graph: PlanGraph
    choice: Choice
    way: str


def choose_devices(
    graph: PlanGraph,
    gpu_cost: NDArray[np.float64],
    workers: Workers,
    group: ArrayLike,
    placed: NDArray[np.int64],
    *,
    ways: Sequence[str] = ("cores", "both", "gpus"),
    prefer: str = "lean",
    budget: float | None = None,
) -> OnDevices:
    """Chooses devices, workers and order: the fastest simulated run, where a run on cores counts as 1.2 times as fast.

    Parameters
    ----------
    graph, gpu_cost, workers, group, placed
        As for `device_choices`.
    ways
        Names of choices of `device_choices` to try.
    prefer, budget
        As for `choose`, for the ways together.

    Raises
    ------
    GraphError
        If an operand has no worker.
    MemoryLimitError
        If an operand does not fit, whatever the way.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> rows = Workers.build(2, cores=[2, 1], device=[CPU, GPU], bandwidth=1e9)
    >>> pair = PlanGraph.build(Dag.from_edges(2, [0], [1]), cost=[0.0, 9.0], nbytes=10**9)
    >>> found = choose_devices(pair, np.array([0.0, 0.1]), rows, [0, 1], np.array([0, -1]))
    >>> found.way, found.graph.device.tolist(), found.choice.plan.assign.tolist()
    ('both', [1, 2], [-1, 1])
    """
    best, least = cast("OnDevices | None", None), np.inf
    devices = device_choices(graph, gpu_cost, workers, group, placed)
    tried: list[NDArray[np.uint8]] = []
    refused: MemoryLimitError | None = None
    for way in ways:
        device = devices.get(way)
        if device is None or any(np.array_equal(device, one) for one in tried):
            continue
        tried.append(device)
        here = replace(graph, cost=np.where(device == GPU, gpu_cost, graph.cost), device=device)
        try:
            share = None if budget is None else budget / len(ways)
            choice = choose(here, workers, prefer=prefer, budget=share, placed=placed)
        except MemoryLimitError as error:
            refused = error
            continue
        score = choice.predicted.makespan / (_GAIN if way == "cores" else 1.0)
        if score < least:
            best, least = OnDevices(here, choice, way), score
    if best is None:
        raise refused or MemoryLimitError("no choice of devices was tried; name one of cores, both, gpus")
    return best


def _fits_a_gpu(graph: PlanGraph, workers: Workers) -> NDArray[np.bool_]:
    """Whether inputs, output and scratch of an operand fit in the memory of a GPU of `workers`, shape (n,)."""
    largest = int(workers.memory[workers.device == GPU].max(initial=0))
    src, dst = graph.dag.edges()
    taken = graph.nbytes + graph.work
    np.add.at(taken, dst, graph.nbytes[src])
    return taken <= largest


def device_choices(
    graph: PlanGraph, gpu_cost: NDArray[np.float64], workers: Workers, group: ArrayLike, placed: NDArray[np.int64]
) -> dict[str, NDArray[np.uint8]]:
    """Devices of the operands by way, shape (n,) without ANY.

    Parameters
    ----------
    graph
        The operands; `device` ANY leaves the choice open, and `cost` are seconds on a core.
    gpu_cost
        Seconds of an operand on a GPU, shape (n,); of a result with its copy to shared memory.
    workers
        Rows of cores and rows of GPUs.
    group
        Group of an operand, shape (n,), from 0 on; its operands get the same device where they may.
    placed
        Row that stores the operand's chunk already, shape (n,), else -1.

    Returns
    -------
    dict of str to ndarray
        "cores": as many operands on cores as possible; "both": the minimum cut; "gpus": as many on GPUs as possible.

    Examples
    --------
    A cheap operand on stored data stays, since the copies take longer; a dear operand goes:

    >>> from jmars.graph import Dag
    >>> rows = Workers.build(2, cores=[2, 1], device=[CPU, GPU], bandwidth=1e9)
    >>> stored, gpu_cost = np.array([0, -1]), np.array([0.0, 0.1])
    >>> def both(cost):
    ...     pair = PlanGraph.build(Dag.from_edges(2, [0], [1]), cost=[0.0, cost], nbytes=10**9)
    ...     return device_choices(pair, gpu_cost, rows, [0, 1], stored)["both"].tolist()
    >>> both(1.0), both(9.0)
    ([1, 1], [1, 2])
    """
    stored = placed >= 0
    able = (graph.device == GPU) | ((graph.device == ANY) & _fits_a_gpu(graph, workers))
    able &= ~stored
    cores = np.where(graph.device == GPU, GPU, CPU).astype(np.uint8)
    most = np.where(able, GPU, CPU).astype(np.uint8)
    cut = _cut(graph, gpu_cost, workers, np.asarray(group, np.int64), able, stored)
    return {"cores": cores} | ({} if cut is None else {"both": cut}) | {"gpus": most}


def _cut(
    graph: PlanGraph,
    gpu_cost: NDArray[np.float64],
    workers: Workers,
    group: NDArray[np.int64],
    able: NDArray[np.bool_],
    stored: NDArray[np.bool_],
) -> NDArray[np.uint8] | None:
    """Devices by the minimum cut; None for too many groups."""
    # operands of a group that may differ in their device are groups of their own
    kinds = group * 4 + np.where(stored, 0, np.where(graph.device == GPU, 2, np.where(able, 1, 0)))
    kinds, of = np.unique(kinds, return_inverse=True)
    k = len(kinds)
    if k > _MAX_CUT_GROUPS:
        return None
    on_gpu = workers.device == GPU
    gpus, cores = int(on_gpu.sum()), int(workers.cores[~on_gpu].sum())
    count = np.bincount(of, minlength=k)
    link = float(workers.bandwidth[np.ix_(~on_gpu, on_gpu)].max(axis=0).sum())  # of each GPU with its host
    computed = ~stored
    core_seconds = np.bincount(of, graph.cost * computed, k) / np.minimum(count, cores)
    gpu_seconds = np.bincount(of, gpu_cost * computed, k) / np.minimum(count, gpus)
    gpu_seconds[kinds % 4 == 0] = _NEVER
    core_seconds[kinds % 4 == 2] = _NEVER
    src, dst = graph.dag.edges()
    outside = of[src] != of[dst]
    src, dst = src[outside], dst[outside]
    leaving = np.zeros(graph.n, np.bool_)
    leaving[src] = True
    copied = np.bincount(of, graph.nbytes * leaving, k) / link
    net = _Network(3 * k + 2)
    cpu, gpu = 3 * k, 3 * k + 1
    for one in range(k):
        net.join(cpu, one, float(gpu_seconds[one]))  # cut where the group is on GPUs
        net.join(one, gpu, float(core_seconds[one]))
        if copied[one]:  # once in every direction, however many readers
            net.join(one, k + one, float(copied[one]))
            net.join(2 * k + one, one, float(copied[one]))
    for pair in np.unique(of[src].astype(np.int64) << 32 | of[dst]).tolist():
        maker, reader = pair >> 32, pair & 0xFFFFFFFF
        net.join(k + maker, reader, np.inf)
        net.join(reader, 2 * k + maker, np.inf)
    near = net.side(cpu, gpu)
    return np.where(near[:k][of], CPU, GPU).astype(np.uint8)


class _Network:
    """A flow network with capacities in seconds; `side` finds the maximum flow by Dinic's algorithm."""

    def __init__(self, n: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(n)]  # of every node; edge e is undone by edge e ^ 1
        self._to: list[int] = []
        self._left: list[float] = []

    def join(self, a: int, b: int, capacity: float) -> None:
        """Adds an edge."""
        for source, target, left in ((a, b, capacity), (b, a, 0.0)):
            self._edges[source].append(len(self._to))
            self._to.append(target)
            self._left.append(left)

    def side(self, source: int, sink: int) -> NDArray[np.bool_]:
        """Nodes that the source still reaches when the flow is greatest: the side of the minimum cut, shape (n,)."""
        while (level := self._levels(source))[sink] >= 0:
            place = [0] * len(self._edges)
            while self._push(source, sink, level, place):
                pass
        return np.array(level) >= 0

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self._edges)
        level[source], line = 0, deque([source])
        while line:
            node = line.popleft()
            for edge in self._edges[node]:
                to = self._to[edge]
                if level[to] < 0 and self._left[edge] > 1e-12:
                    level[to] = level[node] + 1
                    line.append(to)
        return level

    def _push(self, source: int, sink: int, level: list[int], place: list[int]) -> bool:
        """Sends flow along a path of rising levels; False without such a path."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self._edges[node]
            while place[node] < len(edges):
                edge = edges[place[node]]
                if self._left[edge] > 1e-12 and level[self._to[edge]] == level[node] + 1:
                    break
                place[node] += 1
            else:
                if not path:
                    return False
                node = self._to[path.pop() ^ 1]
                place[node] += 1
                continue
            path.append(edge)
            node = self._to[edge]
        sent = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= sent
            self._left[edge ^ 1] += sent
        return True


GPU_CALL_SECONDS = 50e-6  # seconds: an order taken, kernels launched, the end reported
_LATENCY = 30e-6  # seconds until the first byte of a copy
_GPU_BANDWIDTH = 400e9  # bytes a second of the GPU's own memory
_AT_ONCE = 1e15  # bytes a second: the host has a copy of the chunk already
_FASTER = 25.0  # a GPU computes so many times as fast as a core


def gpu_seconds(program: Program, profile: Profile) -> float:
    """Seconds that an operand of a program takes on a GPU, without copies: measured, else estimated.

    The estimate is `GPU_CALL_SECONDS`, plus bytes over the bandwidth of the GPU's memory, plus the seconds that a core
    computes over 25. Copies between the levels of memory are counted where they happen: plans have PCIe as a link.

    Examples
    --------
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import ChunkType, Elementwise, single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((10_000_000,), f8)
    >>> sine = single("sin", (chunk,), Elementwise(Expression((f8,), (Node("sin", (0,), f8),)), (0,), chunk))
    >>> f"{gpu_seconds(sine, Profile()):.4f} s instead of {program_seconds(sine, Profile()):.4f} s"
    '0.0077 s instead of 0.1800 s'
    """
    known = signature(program)
    for key in (known.key, known.family):
        seconds = profile.seconds(gpu_key(key), known.size)
        if seconds is not None:
            return seconds
    moved = sum(one.nbytes for one in program.inputs) + program.output.nbytes
    core = min(program_seconds(program, profile), prior(program, known.size) * profile.scale)
    return GPU_CALL_SECONDS + moved / _GPU_BANDWIDTH + core / _FASTER


def host_with_gpus(profile: Profile, cores: int, memory: int, gpus: Sequence[int]) -> Workers:
    """Describes this host as a row for the cores, which share a memory, and a row for every GPU.

    Chunks go from row to row at the speed of PCIe; a GPU whose memory is full moves chunks to shared memory, so PCIe
    takes the place of the disk. A chunk for a second GPU goes through shared memory, and counts as a single copy.

    Parameters
    ----------
    cores
        Number of executors on cores.
    memory
        Bytes that chunks and scratch may take in shared memory.
    gpus
        Bytes of every GPU for chunks and scratch.

    Examples
    --------
    >>> rows = host_with_gpus(Profile(), 8, 10**9, [40 * 10**9])
    >>> rows.cores.tolist(), rows.device.tolist(), rows.memory.tolist()
    ([8, 1], [1, 2], [1000000000, 40000000000])
    """
    n = 1 + len(gpus)
    first: NDArray[np.bool_] = np.arange(n) == 0
    return Workers.build(
        n,
        cores=np.where(first, cores, 1),
        memory=np.array([memory, *gpus], np.int64),
        device=np.where(first, CPU, GPU),
        bandwidth=profile.pcie,
        latency=_LATENCY,
        disk=np.where(first, profile.disk, profile.pcie),
    )


def hosts_with_gpus(hosts: Workers, gpus: Sequence[tuple[int, int]], pcie: float) -> Workers:
    """Describes several hosts with their GPUs as the rows of the hosts, and behind them a row for every GPU.

    A GPU reads chunks of the same host, and of the GPUs there, at the speed of PCIe, and chunks of further hosts by the
    network and PCIe. Copies of outputs to shared memory are no link: `on_devices` counts them, as seconds of the GPU.

    Parameters
    ----------
    hosts
        A row for the cores of every host.
    gpus
        Row of the host, and bytes for chunks and scratch, of every GPU.
    pcie
        Bytes a second.

    Examples
    --------
    >>> rows = hosts_with_gpus(Workers.build(2, cores=4, bandwidth=1e9), [(1, 40 * 10**9)], 6e9)
    >>> rows.cores.tolist(), rows.device.tolist()
    ([4, 4, 1], [1, 1, 2])
    >>> rows.bandwidth[:2, 2].round(-6).tolist(), rows.bandwidth[2, :2].tolist()
    ([857000000.0, 6000000000.0], [1000000000.0, 1000000000000000.0])
    """
    n, m = len(hosts), len(gpus)
    home = np.array([*range(n), *(host for host, _ in gpus)])
    network = hosts.bandwidth[np.ix_(home, home)]
    is_gpu: NDArray[np.bool_] = np.arange(n + m) >= n
    near = home[:, None] == home[None, :]
    more = np.ones(m)
    return Workers.build(
        n + m,
        cores=np.concatenate([hosts.cores, more]),
        speed=np.concatenate([hosts.speed, more]),
        memory=np.concatenate([hosts.memory, np.array([size for _, size in gpus], np.int64)]),
        device=np.where(is_gpu, GPU, CPU),
        bandwidth=np.where(
            is_gpu[None, :],
            np.where(near, pcie, 1 / (1 / network + 1 / pcie)),
            np.where(near & is_gpu[:, None], _AT_ONCE, network),
        ),
        latency=hosts.latency,
        disk=np.concatenate([hosts.disk, pcie * more]),
    )
