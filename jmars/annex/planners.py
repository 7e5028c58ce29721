"""Planners of document 004 that no run uses: partitions by merging and depth first, atomic parts, copies, stealing.

A `Part` is a subgraph that a single worker runs. `as_assignment` turns a list of parts into an assignment, `as_labels`
into groups for `contract`.

`merge` lets subgraphs grow from the root of the critical path by the neighbour that saves most transfers, for hosts
that run a subgraph as a single process. The document's rules can make subgraphs that wait for each other. With `convex`
an operand joins only if no path leaves the subgraph and returns to it, finished subgraphs counted as single operands;
then the subgraphs can always run one after the other.

Atomic parts have no cyclic waits, so that a part can run as a single process. A process reads all inputs of the
subgraph before the start, so parts that wait for each other would deadlock. `merge` grows only atomic parts; parts of
`depth_first` or any other partition are split here, as late as possible.

`depth_first` fills workers backwards from the outputs along the critical path, then expands. The document leaves open
how to go on at an operand without inputs; here the search returns to the deepest operand passed on the way, in the same
subgraph, and finally to the next output.

On several hosts `duplicate` copies cheap operands without inputs to the workers of their readers, in place of a
transfer. Only copies that pay are added.

Work stealing on a plan, on several hosts, lets idle workers take operands or whole subgraphs from busy workers, before
the run. Stealing during a run destroys good plans, so the plan is changed beforehand: a theft that does not shorten the
simulated run is undone. The result is never worse than the given plan.
Source: docs/explanation/seeds.md, "Graphs", "Graph partitioning by merging", "Basic design", "Graph partitioning by
depth first then expansion", "Graph optimization".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError
from jmars.graph import topological
from jmars.plan.improve import Copied, with_copies
from jmars.plan.order import rank_by, rank_depth_first, rows, t_level
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.plan.simulation import SimResult, Trace, simulate

_SHARE = 0.5  # largest ratio of an operand's cost to its chunk's transfer time for a copy


@dataclass(frozen=True)
class Part:
    """A subgraph: the worker, operands in the order in which they joined, output bytes, and seconds on a core of the
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
        """The first worker that may run a root, and the first root for that worker."""
        for worker in workers + [w for w in range(len(self.speed)) if w not in workers]:
            for root in roots:
                if worker in self.able[root] and self.size[root] <= self.memory[worker]:
                    return worker, root
        raise GraphError(
            f"operand {roots[0]} writes {self.size[roots[0]]} bytes and fits no worker that may run it; "
            "use a smaller chunk_size or a worker with more memory"
        )

    def grow(self, worker: int, root: int, through: list[float], quota: float) -> list[int]:
        """Grows a subgraph from `root` to completion; returns the members."""
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
        """Completes a subgraph: paths now count the subgraph as a single operand."""
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

    Operands are visited depth first. An operand joins the current group of the label, unless an input waits for that
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
    """Splits parts so that a part can run as a single process."""
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


def cheap_copies(
    graph: PlanGraph, workers: Workers, assign: NDArray[np.int16], *, share: float = _SHARE
) -> list[tuple[int, int]]:
    """Pairs (operand, worker) with a copy that costs less than `share` of the transfer, most bytes first.

    Candidates are operands without inputs on workers that may run them and have readers. Operands that are pinned or
    have a stored chunk (`assign` -1) are never copied.
    """
    src, dst = graph.dag.edges()
    where = np.asarray(assign, np.int64)
    far = (where[src] != where[dst]) & (where[src] >= 0) & (where[dst] >= 0)
    free = (graph.dag.in_degree == 0) & (graph.pin < 0)
    pairs = np.unique(np.stack([src, where[dst]], 1)[far & free[src]], axis=0)
    if not len(pairs):
        return []
    v, w = pairs.T
    takes = graph.nbytes[v] / workers.bandwidth[where[v], w] + workers.latency
    able = (graph.device[v] == 0) | (graph.device[v] == workers.device[w])
    cheap = able & (graph.cost[v] / workers.speed[w] < share * takes)
    pairs = pairs[cheap][np.argsort(-graph.nbytes[v[cheap]], kind="stable")]
    return [(int(a), int(b)) for a, b in pairs]


def duplicate(
    graph: PlanGraph,
    workers: Workers,
    assign: NDArray[np.int16],
    rank: NDArray[np.int64],
    *,
    share: float = _SHARE,
    tries: int = 16,
) -> Copied:
    """Adds copies of cheap operands that shorten the plan, or move fewer bytes in the same time.

    Parameters
    ----------
    graph, workers, assign, rank
        The plan.
    share
        See `cheap_copies`.
    tries
        Most plans to simulate.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> fan = PlanGraph.build(Dag.from_edges(3, [0, 0], [1, 2]), cost=[0.1, 1.0, 1.0], nbytes=10**9)
    >>> better = duplicate(fan, Workers.build(2), np.array([0, 0, 1], np.int16), np.arange(3))
    >>> better.copies, simulate(better.graph, Workers.build(2), better.assign, better.rank).makespan
    ([(0, 1)], 1.1)
    """
    chosen: list[tuple[int, int]] = []
    best = with_copies(graph, assign, rank, chosen)
    run = simulate(best.graph, workers, best.assign, best.rank)
    score = (run.makespan, run.moved + run.spilled)
    todo = [cheap_copies(graph, workers, assign, share=share)]
    while todo and todo[-1] and tries > 0:
        group = todo.pop()
        tries -= 1
        found = with_copies(graph, assign, rank, [*chosen, *group])
        run = simulate(found.graph, workers, found.assign, found.rank)
        now = (run.makespan, run.moved + run.spilled)
        if now[0] <= score[0] * (1 + 1e-12) and now < score or now[0] <= score[0] and now[1] < score[1]:
            chosen, best, score = [*chosen, *group], found, now
        elif len(group) > 1:  # a half of them may still pay
            todo += [group[len(group) // 2 :], group[: len(group) // 2]]
    return best


def steal(
    graph: PlanGraph,
    workers: Workers,
    assign: ArrayLike,
    rank: NDArray[np.int64],
    *,
    tries: int = 200,
    placed: ArrayLike | None = None,
) -> NDArray[np.int16]:
    """Improves an assignment by all thefts that shorten the simulated run.

    The most idle worker steals from the busiest worker operands that had not started when the thief fell idle: a
    connected subgraph, a part of a subgraph, or an operand; first about half of the difference in load.

    Parameters
    ----------
    graph, workers, assign, rank, placed
        The plan, as for `simulate`.
    tries
        Most plans to simulate.

    Returns
    -------
    ndarray of int16, shape (n,)
        An assignment whose simulated run is no longer than the run of `assign`.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> lines = PlanGraph.build(Dag.from_edges(8, [0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7]), cost=1.0, nbytes=8)
    >>> steal(lines, Workers.build(2), [0] * 8, np.arange(8)).tolist()
    [1, 1, 1, 1, 0, 0, 0, 0]
    """
    best = np.array(assign, np.int16)
    able = workers.able(graph)
    run = simulate(graph, workers, best, rank, placed=placed, trace=True)
    tries -= 1
    near = rank_by("dfs", graph).tolist()
    failed: set[tuple[int, int]] = set()
    while tries > 0:
        pair = _pair(run, workers, failed)
        if pair is None:
            break
        thief, victim = pair
        better = False
        for loot in _loot(graph, workers, best, near, run, thief, victim):
            mine = [v for v in loot if thief in able[v]]
            if not mine or tries <= 0:
                continue
            tries -= 1
            found = best.copy()
            found[mine] = thief
            now = simulate(graph, workers, found, rank, placed=placed, trace=True)
            if (now.makespan, now.moved) < (run.makespan * (1 - 1e-9), run.moved):
                best, run, better = found, now, True
                failed.clear()
                break
        if not better:
            failed.add(pair)
    return best


def _pair(run: SimResult, workers: Workers, failed: set[tuple[int, int]]) -> tuple[int, int] | None:
    """The thief with most idle time and the victim with least, among pairs that have not failed."""
    idle = run.makespan - run.busy / workers.cores
    pairs = [(t, v) for t in range(len(workers)) for v in range(len(workers)) if (t, v) not in failed]
    pairs = [(t, v) for t, v in pairs if idle[t] > idle[v] + 1e-9 * run.makespan]
    return max(pairs, key=lambda pair: (idle[pair[0]] - idle[pair[1]], -pair[0], -pair[1]), default=None)


def _loot(
    graph: PlanGraph,
    workers: Workers,
    assign: NDArray[np.int16],
    near: list[int],
    run: SimResult,
    thief: int,
    victim: int,
) -> Iterator[list[int]]:
    """Sets of operands to steal, from whole subgraphs to single operands; `near`: a depth-first rank."""
    assert run.trace is not None
    busy = run.busy[[thief, victim]] / workers.cores[[thief, victim]]
    fair = (busy[1] - busy[0]) * float(workers.cores[thief] * workers.speed[thief]) / 2  # seconds of cost
    subgraphs = _subgraphs(graph, assign, run.trace, thief, victim)
    cost = graph.cost
    sums = [float(cost[part].sum()) for part in subgraphs]
    # whole subgraphs, the largest first, until both workers are equally busy
    whole, spent = list[int](), 0.0
    for k in sorted(range(len(sums)), key=lambda k: (-sums[k], k)):
        if spent + sums[k] <= fair * 1.01:
            whole += subgraphs[k]
            spent += sums[k]
    if whole:
        yield whole
    for k in sorted(range(len(sums)), key=lambda k: (abs(sums[k] - fair), k))[:4]:
        part = sorted(subgraphs[k], key=near.__getitem__)
        if part != whole:
            yield part
        ends = np.cumsum(cost[part])
        for share in (fair, fair / 2, fair / 4, fair / 8):  # pieces from its end, its start and its middle
            for since in (ends[-1] - share, 0.0, (ends[-1] - share) / 2):
                a = int(np.searchsorted(ends, since + 1e-12))
                yield part[a : max(a + 1, int(np.searchsorted(ends, since + share, side="right")))]
    waits = sorted((v for part in subgraphs for v in part), key=lambda v: (-cost[v], near[v]))
    yield from ([v] for v in waits[:4])


def _subgraphs(graph: PlanGraph, assign: NDArray[np.int16], trace: Trace, thief: int, victim: int) -> list[list[int]]:
    """Connected groups of the victim's operands that start after the thief first fell idle."""
    theirs = np.flatnonzero(assign == thief)
    since = _first_gap(trace.start[theirs], trace.end[theirs])
    mine = np.flatnonzero((assign == victim) & (trace.start >= since - 1e-12))
    inside = set(mine.tolist())
    inputs, readers = rows(graph.dag.pred_ptr, graph.dag.pred_idx), rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    found: list[list[int]] = []
    while inside:
        stack, part = [min(inside)], list[int]()
        inside.discard(stack[0])
        while stack:
            v = stack.pop()
            part.append(v)
            for u in (*inputs[v], *readers[v]):
                if u in inside:
                    inside.discard(u)
                    stack.append(u)
        found.append(part)
    return found


def _first_gap(start: NDArray[np.float64], end: NDArray[np.float64]) -> float:
    """First time at which a worker with the operands is idle."""
    if not len(start) or start.min() > 1e-12:
        return 0.0
    order = np.argsort(start, kind="stable")
    until = np.maximum.accumulate(end[order])
    gaps = np.flatnonzero(start[order][1:] > until[:-1] + 1e-12)
    return float(until[gaps[0]]) if len(gaps) else float(until[-1])
