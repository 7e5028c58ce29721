"""Partitions a graph between the workers of several hosts: METIS, mt-KaHyPar, and the rules of document 004.

A `Part` is a subgraph that a single worker runs. `as_assignment` turns a list of parts into an assignment, `as_labels`
into groups for `contract`.

`merge` lets subgraphs grow from the root of the critical path by the neighbour that saves most transfers, for hosts
that run a subgraph as a single process. The document's rules can make subgraphs that wait for each other. With `convex`
an operand joins only if no path leaves the subgraph and returns to it, finished subgraphs counted as single operands;
then the subgraphs can always run one after the other.

Atomic parts have no cyclic waits, so that each part can run as a single process. A process reads all inputs of its
subgraph before it starts, so parts that wait for each other would deadlock. `merge` grows only atomic parts; parts of
`depth_first` or any other partition are split here, as late as possible.

`depth_first` fills workers backwards from the outputs along the critical path, then expands. The document leaves open
how to go on at an operand without inputs; here the search returns to the deepest operand passed on the way, in the same
subgraph, and finally to the next output.

METIS finds a small edge cut, balanced in seconds, bytes and bands of time. A partition ignores time, so parts may wait
for each other; with `bands` each part gets its share of every stretch of the run, by METIS's multiple constraints.
pymetis's Python API has a single constraint, so this file calls the C function in pymetis's library; where the library
does not export it, METIS is missing. An edge weighs its chunk's bytes divided by the number of readers, since a chunk
is sent once.

mt-KaHyPar partitions a hypergraph. A chunk with its readers is a net, and a net on k workers costs k - 1 times its
bytes, the bytes that move. The parts move about half the bytes of `assign_bisect`'s and 2 to 15 times fewer than
METIS's, for 30 to 150 µs an operand. The preset is deterministic: the same graph gives the same plan.
Source: docs/explanation/seeds.md, "Graphs", "Graph partitioning by merging", "Basic design", "Graph partitioning by
depth first then expansion", "Multilevel partitioning"; Karypis and Kumar 1998; Gottesbüren, Heuer, Maas, Sanders and
Schlag 2024 (mt-KaHyPar, MIT).
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, SettingError
from jmars.graph import topological
from jmars.plan.order import rank_depth_first, rows, t_level
from jmars.plan.plan_graph import PlanGraph, Workers, allowed


@dataclass(frozen=True)
class Part:
    """A subgraph: its worker, operands in the order in which they joined, output bytes, and seconds on a core of the
    worker.
    """

    worker: int
    operands: tuple[int, ...]
    nbytes: int
    seconds: float


def as_assignment(parts: Sequence[Part], n: int) -> NDArray[np.int16]:
    """Workers of operands, shape (n,); -1 for operands outside all parts."""
    assigned = np.full(n, -1, np.int16)
    for part in parts:
        assigned[list(part.operands)] = part.worker
    return assigned


def as_labels(parts: Sequence[Part], n: int) -> NDArray[np.int64]:
    """Part numbers of operands, shape (n,); -1 for operands outside all parts."""
    labels = np.full(n, -1, np.int64)
    for label, part in enumerate(parts):
        labels[list(part.operands)] = label
    return labels


def next_worker(workers: Workers, total: Sequence[float], used: Sequence[bool]) -> list[int]:
    """Workers in order of preference: unused workers, the fastest first; when all are used, all workers by least
    assigned time, then by speed.
    """
    speed = workers.speed.tolist()
    if not all(used):
        return sorted((w for w in range(len(workers)) if not used[w]), key=lambda w: (-speed[w], w))
    return sorted(range(len(workers)), key=lambda w: (total[w], -speed[w], w))


_MAX_ANCESTOR_OPERANDS = 30_000  # operands; sets of all ancestors take n² / 8 bytes


def merge(graph: PlanGraph, workers: Workers, *, convex: bool = True, quota: float = math.inf) -> list[Part]:
    """Partitions a graph by merging neighbours; returns subgraphs in order of completion.

    Parameters
    ----------
    graph, workers
        The operands and the workers; a worker is the document's processing context, with device, speed and memory.
    convex
        Whether to exclude subgraphs that wait for each other; False follows the document to the letter.
    quota
        Seconds of cost at which a subgraph stops growing, beside the worker's memory.

    Raises
    ------
    GraphError
        If no worker may run an operand, or an operand alone does not fit, or the graph is too large for `convex`.

    Notes
    -----
    The fastest unused worker is next; when all are used, the worker with least total assigned time. Its subgraph starts
    at the root of the longest remaining path, among operands whose inputs are all in finished subgraphs; a worker that
    may run no root is skipped. Of the neighbours that the worker may run and that fit its memory, the neighbour joins
    with

    1. most bytes shared with the subgraph, divided by the worker's inefficiency: the speed of the fastest worker that
       may run the neighbour over the worker's speed (the document asks for communication cost, which depends on workers
       not assigned yet; bytes that stay inside the subgraph are saved for sure);
    2. the longest remaining path through the neighbour;
    3. most bytes; 4. highest cost; 5. the lowest index, in place of the document's name.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=10)
    >>> [part.operands for part in merge(line, Workers.build(2, memory=20))]
    [(0, 1), (2,)]
    """
    if convex and graph.n > _MAX_ANCESTOR_OPERANDS:
        raise GraphError(
            f"a convex merge of {graph.n} operands needs {graph.n**2 // 4_000_000} MB for sets of ancestors; "
            "contract the graph first, or give convex=False"
        )
    growth = _Growth(graph, workers, convex)
    total, used = [0.0] * len(workers), [False] * len(workers)
    parts = []
    while growth.left:
        to_end, to_start = growth.paths()
        roots = sorted(growth.roots, key=lambda v: (-to_end[v], v))
        worker, root = growth.start(roots, next_worker(workers, total, used))
        members = growth.grow(worker, root, [a + b for a, b in zip(to_end, to_start, strict=True)], quota)
        seconds = sum(growth.cost[v] for v in members) / growth.speed[worker]
        total[worker] += seconds
        used[worker] = True
        parts.append(Part(worker, tuple(members), sum(growth.size[v] for v in members), seconds))
    return parts


class _Growth:
    """State of a partition by merging: open operands, finished subgraphs, and the rules of growth."""

    def __init__(self, graph: PlanGraph, workers: Workers, convex: bool) -> None:
        self.cost: list[float] = graph.cost.tolist()
        self.size: list[int] = graph.nbytes.tolist()
        self.inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
        self.readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
        self.able = workers.able(graph)
        self.speed: list[float] = workers.speed.tolist()
        self.memory: list[int] = workers.memory.tolist()
        self.order: list[int] = topological(graph.dag).tolist()
        self.open = [True] * graph.n
        self.left = graph.n
        self.missing: list[int] = graph.dag.in_degree.tolist()  # inputs that are in no subgraph
        self.roots = set(graph.dag.sources().tolist())
        self.convex = convex
        self.before = [0] * graph.n  # sets as bits: ancestors and descendants, subgraphs as single operands
        self.after = [0] * graph.n
        if convex:
            for v in self.order:
                for p in self.inputs[v]:
                    self.before[v] |= self.before[p] | 1 << p
            for v in reversed(self.order):
                for r in self.readers[v]:
                    self.after[v] |= self.after[r] | 1 << r

    def paths(self) -> tuple[list[float], list[float]]:
        """Longest paths of open operands from their start to an end, and from a source to their start."""
        to_end, to_start = [0.0] * len(self.open), [0.0] * len(self.open)
        todo = [v for v in self.order if self.open[v]]
        for v in reversed(todo):
            to_end[v] = self.cost[v] + max([to_end[r] for r in self.readers[v] if self.open[r]], default=0.0)
        for v in todo:
            to_start[v] = max([to_start[p] + self.cost[p] for p in self.inputs[v] if self.open[p]], default=0.0)
        self.order = todo
        return to_end, to_start

    def start(self, roots: list[int], workers: list[int]) -> tuple[int, int]:
        """The first worker that may run a root, and the first root that it may run."""
        for worker in workers + [w for w in range(len(self.speed)) if w not in workers]:
            for root in roots:
                if worker in self.able[root] and self.size[root] <= self.memory[worker]:
                    return worker, root
        raise GraphError(
            f"operand {roots[0]} writes {self.size[roots[0]]} bytes and fits no worker that may run it; "
            "use a smaller chunk_size or a worker with more memory"
        )

    def grow(self, worker: int, root: int, through: list[float], quota: float) -> list[int]:
        """Grows a subgraph from `root` and completes it; returns its members."""
        members: list[int] = []
        held, spent, inside = 0, 0.0, 0
        before = after = 0
        shared: dict[int, int] = {}  # neighbour: bytes shared with the members
        joins = root
        while joins >= 0:
            members.append(joins)
            self.open[joins] = False
            shared.pop(joins, None)
            held, spent, inside = held + self.size[joins], spent + self.cost[joins], inside | 1 << joins
            before, after = before | self.before[joins], after | self.after[joins]
            for p in self.inputs[joins]:
                if self.open[p]:
                    shared[p] = shared.get(p, 0) + self.size[p]
            for r in self.readers[joins]:
                if self.open[r]:
                    shared[r] = shared.get(r, 0) + self.size[joins]
            joins = -1
            if spent < quota:
                fits = [
                    y
                    for y in shared
                    if held + self.size[y] <= self.memory[worker]
                    and worker in self.able[y]
                    and not (self.convex and (after & self.before[y] | before & self.after[y]) & ~inside)
                ]
                if fits:
                    joins = min(fits, key=lambda y: self._preference(y, worker, shared[y], through[y]))
        self._store(members, inside, before & ~inside, after & ~inside)
        return members

    def _preference(self, y: int, worker: int, shared: int, through: float) -> tuple[float, float, int, float, int]:
        """The rules for joining as a sort key, smallest first."""
        inefficiency = max([self.speed[w] for w in self.able[y]]) / self.speed[worker]
        return -shared / inefficiency, -through, -self.size[y], -self.cost[y], y

    def _store(self, members: list[int], inside: int, before: int, after: int) -> None:
        """Completes a subgraph: paths now count it as a single operand."""
        self.left -= len(members)
        for v in members:
            self.roots.discard(v)
            for r in self.readers[v]:
                self.missing[r] -= 1
                if not self.missing[r] and self.open[r]:
                    self.roots.add(r)
        if self.convex:
            through_after, through_before = after | inside, before | inside
            for v in range(len(self.open)):
                if before >> v & 1 or inside >> v & 1:
                    self.after[v] |= after if inside >> v & 1 else through_after
                if after >> v & 1 or inside >> v & 1:
                    self.before[v] |= before if inside >> v & 1 else through_before


def atomic_labels(graph: PlanGraph, label: ArrayLike) -> NDArray[np.int64]:
    """Splits the groups of `label` so that no cycle of groups remains; returns groups numbered 0..k-1.

    Operands are visited depth first. An operand joins the current group of its label, unless an input waits for that
    group; then a new group begins. Groups of the same label are numbered in order of execution.

    Parameters
    ----------
    graph
        The operands.
    label
        Group of each operand, any whole numbers, shape (n,).

    Raises
    ------
    GraphError
        If the graph is too large for sets of ancestors.

    Examples
    --------
    0 -> 1 -> 2 with 0 and 2 in the same group: the group would wait for 1, and 1 for the group.

    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=8)
    >>> atomic_labels(line, [7, 5, 7]).tolist()
    [0, 1, 2]
    """
    if graph.n > _MAX_ANCESTOR_OPERANDS:
        raise GraphError(
            f"{graph.n} operands need {graph.n**2 // 8_000_000} MB to know which groups wait for others; contract first"
        )
    wanted = np.asarray(label).tolist()
    found = [-1] * graph.n
    current: dict[int, int] = {}  # per label: the group that still grows
    before: list[int] = []  # sets as bits: the groups that a group waits for
    for v in np.argsort(rank_depth_first(graph)).tolist():
        inputs = {found[p] for p in graph.dag.preds(v).tolist()}
        here = current.get(wanted[v], -1)
        if here < 0 or any(before[g] >> here & 1 for g in inputs if g != here):
            here = len(before)
            before.append(0)
            current[wanted[v]] = here
        found[v] = here
        more = 0
        for g in inputs - {here}:
            more |= before[g] | 1 << g
        if more & ~before[here]:
            more |= before[here]
            before[here] = more
            for g, waits in enumerate(before):
                if waits >> here & 1:
                    before[g] = waits | more
    return np.array(found, np.int64)


def atomic_parts(graph: PlanGraph, parts: Sequence[Part]) -> list[Part]:
    """Splits parts so that each part can run as a single process."""
    label = atomic_labels(graph, as_labels(parts, graph.n))
    worker = {v: part.worker for part in parts for v in part.operands}
    rate = {v: part.seconds / cost for part in parts for v in part.operands if (cost := _cost(graph, part))}
    members: dict[int, list[int]] = {}
    for v in np.argsort(rank_depth_first(graph)).tolist():
        members.setdefault(int(label[v]), []).append(v)
    return [
        Part(
            worker[group[0]],
            tuple(group),
            int(graph.nbytes[group].sum()),
            float(graph.cost[group].sum()) * rate.get(group[0], 0.0),
        )
        for group in members.values()
    ]


def _cost(graph: PlanGraph, part: Part) -> float:
    return float(graph.cost[list(part.operands)].sum())


def depth_first(graph: PlanGraph, workers: Workers, *, convex: bool = False, quota: float = math.inf) -> list[Part]:
    """Partitions a graph depth first; returns subgraphs in order of opening.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    convex
        Whether to split subgraphs that wait for each other, see `atomic`; False follows the document.
    quota
        Seconds of cost that fill a subgraph, beside the worker's memory.

    Raises
    ------
    GraphError
        If no worker may run an operand, or an operand alone does not fit.

    Notes
    -----
    Outputs are visited by the longest path that ends there, and the search goes back from each output: of an operand's
    inputs the input with the longest path is next, then with most bytes, then with the highest index. An operand that
    exceeds the subgraph's memory or quota, or may not run on its worker, opens a new subgraph on the worker with least
    total assigned time, of equals the fastest. Without `convex` subgraphs may wait for each other, so they must not run
    as single processes.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(3, [0, 1], [1, 2]), cost=1.0, nbytes=10)
    >>> [part.operands for part in depth_first(line, Workers.build(2, memory=20))]
    [(2, 1), (0,)]
    """
    cost, size = graph.cost.tolist(), graph.nbytes.tolist()
    speed, memory = workers.speed.tolist(), workers.memory.tolist()
    able = workers.able(graph)
    inputs = rows(graph.dag.pred_ptr, graph.dag.pred_idx)
    path = [start + own for start, own in zip(t_level(graph), cost, strict=True)]
    total = [0.0] * len(workers)
    closed: list[Part] = []
    open_ = [True] * graph.n
    worker, members, held, spent = -1, list[int](), 0, 0.0

    def close() -> None:
        if members:
            closed.append(Part(worker, tuple(members), held, spent / speed[worker]))

    for sink in sorted(graph.dag.sinks().tolist(), key=lambda v: (-path[v], v)):
        stack = [sink]
        while stack:
            v = stack.pop()
            if not open_[v]:
                continue
            full = worker < 0 or held + size[v] > memory[worker] or (members and spent + cost[v] > quota)
            if full or worker not in able[v]:
                fits = [w for w in able[v] if size[v] <= memory[w]]
                if not fits:
                    raise GraphError(
                        f"operand {v} writes {size[v]} bytes and fits no worker that may run it; "
                        "use a smaller chunk_size or a worker with more memory"
                    )
                close()
                worker, members, held, spent = min(fits, key=lambda w: (total[w], -speed[w], w)), [], 0, 0.0
            open_[v] = False
            members.append(v)
            held += size[v]
            spent += cost[v]
            total[worker] += cost[v] / speed[worker]
            stack += sorted([p for p in inputs[v] if open_[p]], key=lambda p: (path[p], size[p], p))
    close()
    return atomic_parts(graph, closed) if convex else closed


_FINE = 1000  # weight of the heaviest operand; weights are whole numbers
_FINE_EDGE = 10_000
_EACH = 8  # least operands per part
_SEED = 8  # index of METIS_OPTION_SEED


def has_metis() -> bool:
    """Whether pymetis is installed (`pip install jmars[plan]`) and its library exports METIS's function."""
    if importlib.util.find_spec("pymetis") is None:
        return False
    try:
        _library()
    except SettingError:  # planners do without METIS then
        return False
    return True


def suits_metis(graph: PlanGraph, k: int, *, bands: int = 1, memory: bool = False) -> bool:
    """Whether METIS is installed and can balance k parts. Where an operand outweighs a part METIS cannot, and prints
    a message to standard output.
    """
    if not has_metis() or graph.n < _EACH * k * bands:
        return False
    weights = [graph.cost, graph.nbytes] if memory else [graph.cost]
    return all(float(weight.max()) * k * bands <= float(weight.sum()) for weight in weights)


def assign_metis(
    graph: PlanGraph, workers: Workers, *, bands: int = 1, memory: bool = False, slack: float = 1.03, seed: int = 1
) -> NDArray[np.int16]:
    """Assigns workers to operands: a part for each worker with its share of the work.

    Pins and devices are kept: the first allowed worker takes operands that are assigned to a forbidden worker.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    bands
        Stretches of the run, equal in work; every worker gets its share of each stretch.
    memory
        Whether to balance the bytes written as well.
    slack
        Factor by which a part may exceed its share, above 1.
    seed
        For METIS; the same seed gives the same parts.

    Raises
    ------
    SettingError
        If pymetis is not installed.
    """
    rate = workers.cores * workers.speed
    parts = metis_groups(graph, len(workers), bands=bands, memory=memory, slack=slack, seed=seed, share=rate)
    return allowed(graph, workers, parts.astype(np.int16), np.arange(graph.n))


def metis_groups(
    graph: PlanGraph,
    k: int,
    *,
    bands: int = 1,
    memory: bool = False,
    slack: float = 1.03,
    seed: int = 1,
    share: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Part of each operand, 0..k-1, shape (n,); parts may be empty. `share`: weights of parts, shape (k,), None: equal.

    Raises
    ------
    GraphError
        If METIS cannot divide the graph.
    SettingError
        If pymetis is not installed.
    """
    if k < 2 or graph.n <= k:
        return np.arange(graph.n) % max(k, 1)
    library, integer = _library()
    src, dst = graph.dag.edges()
    key = np.unique(src * graph.n + dst)
    src, dst = np.divmod(key, graph.n)
    readers = np.bincount(src, minlength=graph.n)
    weight = _whole(graph.nbytes[src] / readers[src], _FINE_EDGE)
    at, to, heavy = np.concatenate([src, dst]), np.concatenate([dst, src]), np.concatenate([weight, weight])
    order = np.argsort(at, kind="stable")
    pointer = np.zeros(graph.n + 1, integer)
    np.cumsum(np.bincount(at, minlength=graph.n), out=pointer[1:])
    loads = _loads(graph, bands, memory)
    constraints = loads.shape[1]
    goal = np.full(k, 1 / k) if share is None else np.asarray(share, np.float64) / np.sum(share)
    part = np.zeros(graph.n, integer)
    options = np.full(40, -1, integer)
    options[_SEED] = seed
    arrays = {
        "pointer": pointer,
        "to": to[order].astype(integer),
        "loads": np.ascontiguousarray(loads, integer),
        "heavy": heavy[order].astype(integer),
        "goal": np.ascontiguousarray(np.repeat(goal, constraints), np.float32),
        "slack": np.full(constraints, slack, np.float32),
        "options": options,
    }
    address = {name: array.ctypes.data_as(ctypes.c_void_p) for name, array in arrays.items()}
    number = ctypes.c_int64 if integer == np.int64 else ctypes.c_int32
    numbers = [ctypes.byref(number(value)) for value in (graph.n, constraints, k, 0)]
    vertices, ncon, nparts, cut = numbers
    answer = library.METIS_PartGraphKway(
        *(vertices, ncon, address["pointer"], address["to"], address["loads"], None, address["heavy"], nparts),
        *(address["goal"], address["slack"], address["options"], cut, part.ctypes.data_as(ctypes.c_void_p)),
    )
    if answer != 1:
        raise GraphError(f"METIS gave {answer} for {graph.n} operands in {k} parts; try another assignment")
    return part.astype(np.int64)


def _loads(graph: PlanGraph, bands: int, memory: bool) -> NDArray[np.int64]:
    """Loads to balance: seconds in each band of time, and bytes; shape (n, bands + memory)."""
    loads = np.zeros((graph.n, bands + memory), np.int64)
    order = np.argsort(t_level(graph), kind="stable")
    cost = graph.cost[order] + (graph.cost.max() or 1.0) * 1e-9
    total = np.cumsum(cost)
    band = np.empty(graph.n, np.int64)
    band[order] = np.minimum((total - cost / 2) / total[-1] * bands, bands - 1).astype(np.int64)
    loads[np.arange(graph.n), band] = _whole(graph.cost, _FINE)
    if memory:
        loads[:, bands] = _whole(graph.nbytes, _FINE)
    return loads


def _whole(values: NDArray[Any], fine: int) -> NDArray[np.int64]:
    """Scales values to whole numbers from 1 to `fine`."""
    most = float(values.max(initial=0)) or 1.0
    return np.maximum(1, np.rint(values / most * fine)).astype(np.int64)


@cache
def _library() -> tuple[ctypes.CDLL, np.dtype[Any]]:
    """METIS's C functions in pymetis's library, and METIS's integer type."""
    try:
        import pymetis
        import pymetis._internal
    except ImportError as error:
        raise SettingError(
            "a METIS partition needs pymetis, which is not installed; pip install jmars[plan], or choose another"
        ) from error
    library = ctypes.CDLL(pymetis._internal.__file__)
    if not hasattr(library, "METIS_PartGraphKway"):
        raise SettingError(
            "this build of pymetis does not export METIS_PartGraphKway; install another, or choose another assignment"
        )
    return library, np.dtype(pymetis.zero_copy_dtype())


def has_km1() -> bool:
    """Whether mtkahypar is installed (`pip install jmars[plan]`)."""
    return importlib.util.find_spec("mtkahypar") is not None


def assign_km1(
    graph: PlanGraph, workers: Workers, *, slack: float = 0.03, seed: int = 1, cycles: int = 0
) -> NDArray[np.int16]:
    """Assigns workers to operands: parts with their share of the work that cut fewest bytes.

    Pins and devices are kept: the first allowed worker takes operands that are assigned to a forbidden worker.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    slack
        Part by which a worker may exceed its share.
    seed
        For mt-KaHyPar; the same seed gives the same parts.
    cycles
        V-cycles that improve the parts afterwards, for plans that are reused.

    Raises
    ------
    SettingError
        If mtkahypar is not installed.
    """
    p = len(workers)
    readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    nets = [[v, *dict.fromkeys(read)] for v, read in enumerate(readers) if read]
    if p == 1 or graph.n <= p or not nets:
        return allowed(graph, workers, (np.arange(graph.n) % p).astype(np.int16), np.arange(graph.n))
    package, at_work = _package()
    package.set_seed(seed)
    context = at_work.context_from_preset(package.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(p, slack, package.Objective.KM1)
    context.logging = False
    load = np.maximum(1, np.rint(graph.cost / (graph.cost.max() or 1.0) * _FINE)).astype(np.int64)
    rate = workers.cores * workers.speed
    if np.any(rate != rate[0]):
        most = load.sum() * rate / rate.sum() * (1 + slack)
        context.set_individual_target_block_weights(np.ceil(most).astype(np.int64).tolist())
    sent = graph.nbytes[[net[0] for net in nets]]
    weights = np.maximum(1, np.rint(sent / (sent.max() or 1) * _FINE)).astype(np.int64)
    whole = at_work.create_hypergraph(context, graph.n, len(nets), nets, load.tolist(), weights.tolist())
    parts = whole.partition(context)
    if cycles:
        parts.improve_partition(context, cycles)
    return allowed(graph, workers, np.array(parts.get_partition(), np.int16), np.arange(graph.n))


@cache
def _package() -> tuple[Any, Any]:
    """Imports mtkahypar and starts it with a single thread."""
    try:
        import mtkahypar
    except ImportError as error:
        raise SettingError(
            "a partition by bytes moved needs mtkahypar, which is not installed; "
            "pip install jmars[plan], or choose another"
        ) from error
    return mtkahypar, mtkahypar.initialize(1)
