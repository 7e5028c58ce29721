"""Simulates a plan in virtual time to predict the cost.

`simulate` is a pure function: the same plan gives the same result to the last bit. `choose` scores candidate plans by
simulation.

`Simulation` is a discrete-event simulation: a deterministic loop over the ends of operands and transfers. A `Policy`
places operands during the run, as a scheduler without a plan does. The C kernel `native/simulate.c` computes the same
result for runs without a policy.

`SimMemory`, the memory and disk of a worker, counts bytes of chunks in memory, chunks pinned by running operands, and
chunks on disk. The disk serves requests in their order, so `make_room` returns the time at which the room is free.

`SimNetwork` allows a worker at most a transfer out and a transfer in at a time. Transfers queue, and the most urgent
transfer with two free ends starts. Ports are matched when they become free: reserving ports when a transfer is
requested made communication up to 3.4 times too slow.

`SimResult` has makespan, bytes moved and spilled, and peak memory of a run, `Trace` the times. `choose` compares
results, and the view draws a `Trace`.

`FollowInputs` places operands during the run, as a scheduler does that plans only the initial operands (Mars): a
baseline for plans. The rule ignores load, so a single worker may attract all operands (`tests/benchmarks/plans.py`
measures this).

`lower_bound` bounds the makespan of any plan of a graph on given workers. Waiting outputs are bytes times seconds that
chunks stay at their producer until readers on other workers start.

The partitions of document 004 do not penalise waiting outputs; `explain` shows the number beside a plan's makespan.
Source: docs/explanation/seeds.md, "Graph optimization", "Execution in a worker", "Choosing workers", "Limitations";
Belady 1966 (evicts the chunk whose next use is last).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.plan import c_planners
from jmars.plan.c_planners import serves
from jmars.plan.order import b_level, rows
from jmars.plan.plan_graph import PlanGraph, Workers


def simulate(
    graph: PlanGraph,
    workers: Workers,
    assign: ArrayLike,
    rank: ArrayLike,
    *,
    evict: str = "plan",
    noise: float = 0.0,
    seed: int = 0,
    placed: ArrayLike | None = None,
    policy: Policy | None = None,
    trace: bool | Literal["times"] = False,
) -> SimResult:
    """Runs a plan in virtual time.

    A worker runs the ready operand of lowest rank as soon as a core is free and the operand's inputs, output and
    scratch fit beside the chunks that running operands hold. A chunk is sent to all workers with a reader as soon as
    the chunk exists and both ends of the link are free; the chunk is freed after the last reader. Chunks that do not
    fit are spilled to disk.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    assign
        Worker of each operand, shape (n,); -1 leaves it to `policy`.
    rank
        Lower ranks run first, shape (n,), all different.
    evict
        "plan": the chunk that the plan reads last is spilled first; "lru": the least recently used chunk.
    noise
        Spread of the costs: every cost is multiplied by a lognormal number of mean 1 and this sigma, drawn with `seed`.
    placed
        Worker that stores an operand's chunk before the run, so that the operand does not run; -1: none. Shape (n,).
    policy
        Places operands without a worker during the run.
    trace
        Whether to keep the times of all operands and the bytes over time; "times": only the former.

    Raises
    ------
    GraphError
        If an operand has no worker and no policy places it, or a worker does not exist, or the graph has a cycle.
    MemoryLimitError
        If one operand alone does not fit in its worker's memory.

    Examples
    --------
    >>> from jmars.graph import Dag
    >>> line = PlanGraph.build(Dag.from_edges(2, [0], [1]), cost=[1.0, 2.0], nbytes=10**9)
    >>> pair = Workers.build(2, bandwidth=1e9, latency=0.0)
    >>> simulate(line, pair, [0, 0], [0, 1]).makespan, simulate(line, pair, [0, 1], [0, 1]).makespan
    (3.0, 4.0)
    """
    if evict not in ("plan", "lru"):
        raise GraphError(f"no eviction {evict!r}; choose plan or lru")
    costs = graph.cost
    if noise:
        costs = costs * np.random.default_rng(seed).lognormal(-(noise**2) / 2, noise, graph.n)
    ranks, wanted = np.asarray(rank, np.int64), np.asarray(assign, np.int64)
    home = np.full(graph.n, -1) if placed is None else np.asarray(placed, np.int64)
    if policy is None and serves(graph, workers):
        ran = c_planners.simulate(graph, workers, costs, ranks, wanted, home, evict == "plan", trace is True)
        if ran is not None:
            return _result(ran, workers, np.where((home < 0) & (wanted >= 0), wanted, -1), bool(trace))
    run = Simulation(graph, workers, costs, ranks, evict == "plan", policy, bool(trace), trace is True)
    return run.run(wanted.tolist(), home.tolist())


def _result(ran: c_planners.Run, workers: Workers, assign: NDArray[np.int64], trace: bool) -> SimResult:
    """Converts the C kernel's result to a `SimResult`; raises the kernel's errors."""
    if ran.misfit is not None:
        operand, worker, nbytes = ran.misfit
        raise misfit(operand, nbytes, worker, int(workers.memory[worker]))
    if ran.done != len(assign):
        raise never_ran(len(assign) - ran.done, len(assign))
    return SimResult(
        makespan=ran.makespan,
        moved=ran.moved,
        spilled=ran.spilled,
        reloaded=ran.reloaded,
        peak=ran.peak,
        peak_total=ran.peak_total,
        busy=ran.busy,
        assign=assign.astype(np.int16),
        trace=Trace(ran.start, ran.end, ran.memory) if trace else None,
    )


_DONE, _FREE, _ARRIVED = range(3)  # kinds of events; events of the same time happen in this order


class Policy(Protocol):
    """Places operands that the plan leaves open, by calling `Simulation.place`."""

    def ready(self, run: Simulation, operands: list[int]) -> None:
        """Called with operands that have all their inputs and no worker yet."""

    def idle(self, run: Simulation, worker: int) -> bool:
        """Called when `worker` has a free core and no ready operand; returns whether an operand is ready now."""


class Simulation:
    """A simulated run. A `Policy` may read the public attributes, lists indexed by operand or by worker."""

    def __init__(
        self,
        graph: PlanGraph,
        workers: Workers,
        cost: NDArray[np.float64],
        rank: NDArray[np.int64],
        by_plan: bool,
        policy: Policy | None,
        times: bool,
        memory: bool,
    ) -> None:
        n, p, dag = graph.n, len(workers), graph.dag
        self.graph, self.workers, self.n, self.p = graph, workers, n, p
        self.cost: list[float] = cost.tolist()
        self.nbytes: list[int] = graph.nbytes.tolist()
        self.rank: list[int] = rank.tolist()
        self.inputs, self.readers = rows(dag.pred_ptr, dag.pred_idx), rows(dag.succ_ptr, dag.succ_idx)
        self.now = 0.0
        self.worker = [-1] * n
        self.state = bytearray(n)  # 0 waits, 1 ready, 2 running, 3 done
        self._origin = [-1] * n  # worker that made the chunk
        self.held = [0] * n  # bit w: worker w has the chunk, in memory or on disk
        self.missing: list[int] = dag.in_degree.tolist()  # inputs that are not computed yet
        self.away = [0] * n  # inputs that are not at the operand's worker, once assigned
        self.ready: list[list[tuple[int, int]]] = [[] for _ in range(p)]  # heaps of (rank, operand), some stale
        self.free: list[int] = workers.cores.tolist()
        self.cores: list[int] = workers.cores.tolist()
        self.load = [0.0] * p  # seconds of operands that are placed and not done
        self._keep: list[bool] = graph.result.tolist()
        self._work: list[int] = graph.work.tolist()
        self._speed: list[float] = workers.speed.tolist()
        self._bandwidth: list[list[float]] = workers.bandwidth.tolist()
        self._unread: list[int] = dag.out_degree.tolist()  # readers that are not done
        self._open: list[int] = dag.out_degree.tolist()  # readers without a worker
        self._local: dict[int, int] = {}  # chunk * p + worker: readers there that are not done
        self._coming: set[int] = set()  # chunk * p + worker: requested, not received yet
        self._sending: dict[int, int] = {}  # chunk * p + worker: transfers from there that are not done
        self._sent = [0] * p  # bytes that a worker is to send
        self._used = [0]  # bytes in all memories
        capacity, disk = workers.memory.tolist(), workers.disk.tolist()
        self.stores = [
            SimMemory(
                capacity[w],
                disk[w],
                self.nbytes,
                partial(self._next_use, w) if by_plan else None,
                self._used,
                is_planned=policy is None,
            )
            for w in range(p)
        ]
        self._woken: set[int] = set()  # workers that may be able to start an operand
        self._ports = SimNetwork(p)
        self._events: list[tuple[float, int, int, int, int, int]] = []
        self._policy, self._busy, self._moved, self._count, self._done = policy, [0.0] * p, 0, 0, 0
        self._peak_total, self._finish_time = 0, 0.0
        self._start = [0.0] * n if times else None
        self._end = [0.0] * n
        self._memory: list[tuple[float, int, int]] | None = [] if memory else None
        self._shown = [-1] * p  # last recorded bytes of each worker

    def place(self, operand: int, worker: int) -> None:
        """Assigns a worker to an operand without worker."""
        p = self.p
        self.worker[operand] = worker
        self.load[worker] += self.cost[operand]
        away = 0
        for chunk in self.inputs[operand]:
            self._open[chunk] -= 1
            key = chunk * p + worker
            self._local[key] = self._local.get(key, 0) + 1
            if not self.held[chunk] >> worker & 1:
                away += 1
        self.away[operand] = away
        if not away:
            self._make_ready(operand, worker)
        else:
            for chunk in self.inputs[operand]:
                if self.held[chunk] and not self.held[chunk] >> worker & 1:
                    self._ask(chunk, worker)

    def take_back(self, operand: int) -> None:
        """Takes an operand that has not started from the worker."""
        worker = self.worker[operand]
        self.load[worker] -= self.cost[operand]
        for chunk in self.inputs[operand]:
            self._open[chunk] += 1
            self._local[chunk * self.p + worker] -= 1
        self.worker[operand] = -1
        self.state[operand] = 0

    def run(self, assign: list[int], home: list[int]) -> SimResult:
        """Runs all operands; returns the result."""
        if len(assign) != self.n or len(self.rank) != self.n or max(assign, default=0) >= self.p:
            raise GraphError(f"give a worker below {self.p} and a rank for each of {self.n} operands")
        self._begin(assign, home)
        events, free = self._events, self.free
        everyone = range(self.p)
        while True:
            idle = everyone if self._policy is not None else sorted(self._woken)
            self._woken.clear()
            for w in idle:
                if free[w]:
                    self._launch(w)
            if self._memory is not None:
                self._note(self._memory)
            self._peak_total = max(self._peak_total, self._used[0])
            if not events:
                break
            until = events[0][0] + 1e-12
            self.now = events[0][0]
            while events and events[0][0] <= until:
                _, kind, _, a, b, c = heapq.heappop(events)
                if kind == _DONE:
                    self._finish(a, b)
                elif kind == _FREE:
                    for source, target in self._ports.end(a, b):
                        self._send(source, target)
                else:
                    self._arrive(a, b, c)
        if self._done != self.n:
            raise never_ran(self.n - self._done, self.n)
        return self._result()

    def _begin(self, assign: list[int], home: list[int]) -> None:
        """Places the stored chunks of `home` and the operands of `assign`."""
        for operand, w in enumerate(home):
            if w >= 0:
                self.state[operand] = 3
                self.held[operand] = 1 << w
                self._origin[operand] = w
                self._done += 1
                for chunk in self.inputs[operand]:
                    self._unread[chunk] -= 1
                    self._open[chunk] -= 1
                for reader in self.readers[operand]:
                    self.missing[reader] -= 1
        for operand, w in enumerate(home):
            if w >= 0 and (self._unread[operand] or self._keep[operand]):
                self.stores[w].arrive(operand, 0.0)
        for operand, w in enumerate(assign):
            if home[operand] < 0 and w >= 0:
                self.place(operand, w)
        for store in self.stores:
            store.forget()
        if self._policy is not None:
            open_ = [v for v in range(self.n) if self.worker[v] < 0 and not self.missing[v] and home[v] < 0]
            self._policy.ready(self, open_)

    def _launch(self, w: int) -> None:
        """Starts ready operands of worker `w` while a core is free and memory suffices."""
        line, store = self.ready[w], self.stores[w]
        while self.free[w]:
            while line and (self.state[line[0][1]] != 1 or self.worker[line[0][1]] != w):
                heapq.heappop(line)
            if not line:
                if self._policy is None or not self._policy.idle(self, w):
                    return
                continue
            operand = line[0][1]
            inputs, size, work = self.inputs[operand], self.nbytes[operand], self._work[operand]
            if store.fast_bytes + (need := store.missing(inputs, size + work)) > store.capacity:
                if self.free[w] == self.cores[w]:
                    raise misfit(operand, need, w, store.capacity)
                return  # running operands will release memory
            heapq.heappop(line)
            self.state[operand] = 2
            self.free[w] -= 1
            start = self.now
            store.hold(inputs)
            for chunk in inputs:
                start = max(start, store.touch(chunk, self.now))
            start = max(start, store.make_room(size + work, self.now))
            store.add(operand)
            store.hold((operand,))
            if work:
                store.scratch(work)
            seconds = self.cost[operand] / self._speed[w]
            self._busy[w] += seconds
            if self._start is not None:
                self._start[operand] = start
            self._event(start + seconds, _DONE, operand, w)

    def _finish(self, operand: int, w: int) -> None:
        """Ends an operand: frees chunks without readers left, sends the operand's chunk, and wakes the readers."""
        store, p = self.stores[w], self.p
        self.state[operand] = 3
        self._end[operand] = self._finish_time = self.now
        self._done += 1
        self.free[w] += 1
        self._woken.add(w)
        self.load[w] -= self.cost[operand]
        self.held[operand] = 1 << w
        self._origin[operand] = w
        if self._work[operand]:
            store.scratch(-self._work[operand])
        store.release((operand,))
        store.release(self.inputs[operand])
        for chunk in self.inputs[operand]:
            self._unread[chunk] -= 1
            key = chunk * p + w
            here = self._local[key] = self._local[key] - 1
            if not self._unread[chunk]:
                if not self._keep[chunk]:
                    self._free_everywhere(chunk)
            elif self._origin[chunk] != w and not (here or self._open[chunk] or self._sending.get(key)):
                store.drop(chunk)  # a copy without readers left on this worker; the original stays
                self.held[chunk] &= ~(1 << w)
        if not self._unread[operand] and not self._keep[operand]:
            self._free_everywhere(operand)
        open_ = []
        for reader in self.readers[operand]:
            self.missing[reader] -= 1
            target = self.worker[reader]
            if target < 0:
                if not self.missing[reader]:
                    open_.append(reader)
            elif target == w:
                self.away[reader] -= 1
                if not self.away[reader]:
                    self._make_ready(reader, w)
            else:
                self._ask(operand, target)
        if open_ and self._policy is not None:
            self._policy.ready(self, open_)

    def _free_everywhere(self, chunk: int) -> None:
        for w in _bits(self.held[chunk]):
            self.stores[w].drop(chunk)
        self.held[chunk] = 0

    def _make_ready(self, operand: int, w: int) -> None:
        self.state[operand] = 1
        self._woken.add(w)
        heapq.heappush(self.ready[w], (self.rank[operand], operand))

    def _next_use(self, w: int, chunk: int) -> float:
        """Rank of the next operand on worker `w` that reads a chunk; infinite for a chunk without readers on `w`."""
        found = [self.rank[r] for r in self.readers[chunk] if self.worker[r] == w and self.state[r] < 2]
        return min(found) if found else math.inf

    def _ask(self, chunk: int, target: int) -> None:
        """Requests a chunk for worker `target` from the holder with fewest bytes to send."""
        key = chunk * self.p + target
        if key in self._coming:
            return
        self._coming.add(key)
        source = min(_bits(self.held[chunk]), key=self._sent.__getitem__)
        self._sent[source] += self.nbytes[chunk]
        there = chunk * self.p + source
        self._sending[there] = self._sending.get(there, 0) + 1
        urgency = min([self.rank[r] for r in self.readers[chunk] if self.worker[r] == target and self.state[r] < 2])
        if self._ports.ask(urgency, chunk, source, target):
            self._send(source, target)

    def _send(self, source: int, target: int) -> None:
        """Starts the most urgent transfer between two workers with free ports."""
        chunk = self._ports.start(source, target)
        store, start = self.stores[source], self.now
        if chunk in store.on_disk:
            start = store.read(chunk, start)
        size = self.nbytes[chunk]
        self._moved += size
        over = start + size / self._bandwidth[source][target]
        latency = self.workers.latency
        # a long transfer hides the next one's latency
        self._event(over + (latency if size < 1_000_000 else 0.0), _FREE, source, target)
        self._event(over + latency, _ARRIVED, chunk, target, source)

    def _arrive(self, chunk: int, w: int, source: int) -> None:
        """Receives a chunk on worker `w`; operands that waited for this chunk only become ready."""
        self._coming.discard(chunk * self.p + w)
        self._sending[chunk * self.p + source] -= 1
        self._sent[source] -= self.nbytes[chunk]
        if not self._unread[chunk]:
            return
        self.stores[w].arrive(chunk, self.now)
        self.held[chunk] |= 1 << w
        for reader in self.readers[chunk]:
            if self.worker[reader] == w and self.state[reader] < 2:
                self.away[reader] -= 1
                if not self.away[reader]:
                    self._make_ready(reader, w)

    def _note(self, memory: list[tuple[float, int, int]]) -> None:
        """Records the changed bytes in memory of workers."""
        for w, store in enumerate(self.stores):
            if store.used != self._shown[w]:
                self._shown[w] = store.used
                memory.append((self.now, w, store.used))

    def _event(self, time: float, kind: int, a: int, b: int, c: int = 0) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, kind, self._count, a, b, c))

    def _result(self) -> SimResult:
        stores = self.stores
        trace = None
        if self._start is not None:
            trace = Trace(np.array(self._start), np.array(self._end), self._memory or [])
        return SimResult(
            makespan=self._finish_time,
            moved=self._moved,
            spilled=sum(store.spilled for store in stores),
            reloaded=sum(store.reloaded for store in stores),
            peak=np.array([store.peak for store in stores], np.int64),
            peak_total=self._peak_total,
            busy=np.array(self._busy),
            assign=np.array(self.worker, np.int16),
            trace=trace,
        )


def _bits(mask: int) -> list[int]:
    """Numbers of the set bits, ascending."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def misfit(operand: int, need: int, worker: int, capacity: int) -> MemoryLimitError:
    """The error for an operand that does not fit into an empty worker."""
    return MemoryLimitError(
        f"operand {operand} needs {need} bytes at once and worker {worker} has {capacity}; "
        "use a smaller chunk_size or a worker with more memory"
    )


def never_ran(left: int, n: int) -> GraphError:
    """The error for a run that ends before all operands ran."""
    return GraphError(f"{left} of {n} operands never ran: they have no worker, or wait for each other")


class SimMemory:
    """Chunks of a simulated worker in virtual time; `used` never exceeds `capacity`.

    Parameters
    ----------
    capacity
        Bytes of memory.
    disk
        Bytes a second.
    nbytes
        Bytes of every chunk of the graph.
    next_use
        Next use of a chunk on this worker, larger is later; the chunk with the latest next use is spilled first. None:
        the least recently used chunk is spilled first.
    together
        A list of a single number, the bytes in the memories of all workers, shared by their `SimMemory` objects.
    is_planned
        Whether a chunk's `next_use` changes only when the chunk is used, as in a run without a policy: then candidates
        for spilling are kept in a heap, made at the first spill.
    """

    __slots__ = (
        "_disk",
        "_disk_free",
        "_is_planned",
        "_nbytes",
        "_next_use",
        "_used_at",
        "_uses",
        "_victims",
        "capacity",
        "fast",
        "fast_bytes",
        "on_disk",
        "peak",
        "reloaded",
        "resident",
        "spilled",
        "together",
        "used",
    )

    def __init__(
        self,
        capacity: int,
        disk: float,
        nbytes: Sequence[int],
        next_use: Callable[[int], float] | None,
        together: list[int],
        is_planned: bool,
    ) -> None:
        self.together, self._is_planned = together, is_planned
        self._victims: list[tuple[float, int, int]] | None = None  # heap of (-next use, used at, chunk), some stale
        self._used_at: dict[int, int] = {}  # chunk in memory: count of uses, once the heap exists
        self._uses = 0
        self.capacity, self._disk, self._nbytes, self._next_use = capacity, disk, nbytes, next_use
        self.resident: dict[int, None] = {}  # longest unused first
        self.on_disk: set[int] = set()
        self.fast: dict[int, int] = {}  # chunk: number of running operands that need it in memory
        self.fast_bytes = 0  # of `fast`, and scratch
        self.used = self.peak = self.spilled = self.reloaded = 0  # bytes
        self._disk_free = 0.0  # when the disk has served all requests

    def missing(self, chunks: Sequence[int], more: int) -> int:
        """Bytes that an operand would pin beyond the chunks already pinned: the inputs, and `more`."""
        return more + sum([self._nbytes[c] for c in chunks if c not in self.fast])

    def hold(self, chunks: Sequence[int]) -> None:
        """Pins chunks in memory for a running operand, until `release`."""
        for chunk in chunks:
            holders = self.fast.get(chunk, 0)
            self.fast[chunk] = holders + 1
            if not holders:
                self.fast_bytes += self._nbytes[chunk]

    def release(self, chunks: Sequence[int]) -> None:
        """Unpins chunks for a running operand."""
        for chunk in chunks:
            holders = self.fast[chunk] - 1
            if holders:
                self.fast[chunk] = holders
            else:
                del self.fast[chunk]
                self.fast_bytes -= self._nbytes[chunk]
                if self._victims is not None:
                    self._may_leave(chunk)

    def scratch(self, nbytes: int) -> None:
        """Takes scratch after `make_room`; a negative number gives scratch back."""
        self.fast_bytes += nbytes
        self._grow(nbytes)

    def add(self, chunk: int) -> None:
        """Puts a chunk in memory after `make_room`."""
        self.resident[chunk] = None
        if self._victims is not None:
            self._use(chunk)
        self._grow(self._nbytes[chunk])

    def arrive(self, chunk: int, now: float) -> None:
        """Stores a received chunk in memory, or on disk if pinned chunks leave too little room."""
        size = self._nbytes[chunk]
        if self.fast_bytes + size > self.capacity:
            self._write(chunk, now)
        else:
            self.make_room(size, now)
            self.add(chunk)
            if self._victims is not None:
                self._may_leave(chunk)

    def drop(self, chunk: int) -> None:
        """Frees a chunk in memory or on disk."""
        if chunk in self.resident:
            del self.resident[chunk]
            self.used -= self._nbytes[chunk]
            self.together[0] -= self._nbytes[chunk]
        else:
            self.on_disk.discard(chunk)

    def touch(self, chunk: int, now: float) -> float:
        """Marks a chunk as used, reloaded from disk if needed; returns the time when the chunk is in memory."""
        if chunk not in self.on_disk:
            del self.resident[chunk]
            self.resident[chunk] = None
            if self._victims is not None:
                self._use(chunk)
            return now
        start = self.make_room(self._nbytes[chunk], now)
        self.on_disk.discard(chunk)
        self.add(chunk)
        return max(start, self.read(chunk, now))

    def read(self, chunk: int, now: float) -> float:
        """Reads a chunk from disk without a place in memory; returns the end time of the read."""
        self._disk_free = max(self._disk_free, now) + self._nbytes[chunk] / self._disk
        self.reloaded += self._nbytes[chunk]
        return self._disk_free

    def make_room(self, size: int, now: float) -> float:
        """Spills chunks until `size` bytes are free; returns the time when the bytes are free."""
        if self.used + size <= self.capacity:
            return now
        if self._is_planned:
            self._send_victims(size, now)
            return self._disk_free
        loose = [chunk for chunk in self.resident if chunk not in self.fast]
        if self._next_use is not None:
            loose.sort(key=self._next_use, reverse=True)
        for chunk in loose:
            if self.used + size <= self.capacity:
                break
            self.drop(chunk)
            self._write(chunk, now)
        return self._disk_free

    def forget(self) -> None:
        """Discards the heap, since the next use of all chunks changed."""
        self._victims = None

    def _send_victims(self, size: int, now: float) -> None:
        """Spills chunks by the heap: the same chunks in the same order as `make_room` without the heap."""
        if self._victims is None:
            self._victims = []
            for chunk in self.resident:
                self._use(chunk)
                self._may_leave(chunk)
        while self._victims and self.used + size > self.capacity:
            _, used_at, chunk = heapq.heappop(self._victims)
            if chunk in self.resident and chunk not in self.fast and self._used_at[chunk] == used_at:
                self.drop(chunk)
                self._write(chunk, now)

    def _use(self, chunk: int) -> None:
        self._uses += 1
        self._used_at[chunk] = self._uses

    def _may_leave(self, chunk: int) -> None:
        """Adds an unpinned chunk to the heap of candidates for spilling."""
        if chunk in self.resident and chunk not in self.fast:
            next_use = 0.0 if self._next_use is None else self._next_use(chunk)
            assert self._victims is not None
            heapq.heappush(self._victims, (-next_use, self._used_at[chunk], chunk))

    def _write(self, chunk: int, now: float) -> None:
        """Spills a chunk, after all earlier disk requests."""
        self.on_disk.add(chunk)
        self.spilled += self._nbytes[chunk]
        self._disk_free = max(self._disk_free, now) + self._nbytes[chunk] / self._disk

    def _grow(self, nbytes: int) -> None:
        self.used += nbytes
        self.together[0] += nbytes
        if self.used > self.peak:
            self.peak = self.used


class SimNetwork:
    """Waiting transfers and busy ports of `p` workers."""

    def __init__(self, p: int) -> None:
        self._p = p
        self._out = bytearray(p)  # 1: busy
        self._in = bytearray(p)
        self._line: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(p)]  # by target, then by source
        self._targets: list[set[int]] = [set() for _ in range(p)]  # targets with waiting transfers from this source
        self._asked = 0

    def ask(self, urgency: int, chunk: int, source: int, target: int) -> bool:
        """Queues a transfer; lower `urgency` goes first. Returns whether both ends are free for a start now."""
        self._asked += 1
        heapq.heappush(self._line[target].setdefault(source, []), (urgency, self._asked, chunk))
        self._targets[source].add(target)
        return not self._out[source] and not self._in[target]

    def start(self, source: int, target: int) -> int:
        """Starts the most urgent transfer between two free ends; returns the chunk."""
        line = self._line[target][source]
        chunk = heapq.heappop(line)[2]
        if not line:
            del self._line[target][source]
            self._targets[source].discard(target)
        self._out[source] = self._in[target] = 1
        return chunk

    def end(self, source: int, target: int) -> list[tuple[int, int]]:
        """Frees both ends of a transfer; returns the pairs (source, target) to `start` next, at most two."""
        self._out[source] = self._in[target] = 0
        found = []
        waiting = [(line[0], s) for s, line in self._line[target].items() if not self._out[s]]
        if waiting:
            first = min(waiting)[1]
            found.append((first, target))
            if first == source:
                return found
        others = [(self._line[t][source][0], t) for t in self._targets[source] if not self._in[t]]
        if found:
            others = [other for other in others if other[1] != target]
        if others:
            found.append((source, min(others)[1]))
        return found


@dataclass(frozen=True, eq=False)
class Trace:
    """Times of a run: `start` and `end` of the operands in seconds, shape (n,), and `memory`, a list of changes
    (seconds, worker, bytes in memory from then on).
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    memory: list[tuple[float, int, int]]


@dataclass(frozen=True, eq=False)
class SimResult:
    """Result of a simulated run.

    Attributes
    ----------
    makespan
        Seconds from the start of the first operand to the end of the last operand.
    moved, spilled, reloaded
        Bytes between workers, to disk, and from disk.
    peak
        Most bytes in the memory of each worker, shape (P,).
    peak_total
        Most bytes in the memories of all workers at a time.
    busy
        Seconds that the cores of each worker computed, shape (P,).
    assign
        Worker that ran each operand, shape (n,); -1 for chunks stored before the run.
    trace
        None unless asked for.
    """

    makespan: float
    moved: int
    spilled: int
    reloaded: int
    peak: NDArray[np.int64]
    peak_total: int
    busy: NDArray[np.float64]
    assign: NDArray[np.int16]
    trace: Trace | None = None


class FollowInputs:
    """A `Policy`: an operand goes to the worker with most bytes of the inputs, among equals the least loaded."""

    def ready(self, run: Simulation, operands: list[int]) -> None:
        """Places ready operands in order of rank."""
        for operand in sorted(operands, key=run.rank.__getitem__):
            held = [0] * run.p
            for chunk in run.inputs[operand]:
                for w in range(run.p):
                    if run.held[chunk] >> w & 1:
                        held[w] += run.nbytes[chunk]
            run.place(operand, min(range(run.p), key=lambda w: (-held[w], run.load[w] / run.cores[w], w)))

    def idle(self, run: Simulation, worker: int) -> bool:
        """Returns False: placed operands are never moved."""
        return False


def lower_bound(graph: PlanGraph, workers: Workers, placed: ArrayLike | None = None) -> float:
    """Seconds that no plan beats: the longest path on the fastest core, or all work on all cores. Transfers are free,
    and so are operands with stored chunks (`placed`, see `choose`).
    """
    if not graph.n:
        return 0.0
    if placed is not None and np.any(there := np.asarray(placed) >= 0):
        graph = replace(graph, cost=np.where(there, 0.0, graph.cost))
    return max(max(b_level(graph)) / float(workers.speed.max()), float(graph.cost.sum()) / workers.rate)


def waiting(graph: PlanGraph, assign: ArrayLike, trace: Trace, workers: int) -> NDArray[np.float64]:
    """Byte-seconds that outputs waited on the workers for other workers, shape (workers,).

    An output waits from the end of the operand until the last reader on a different worker has started. An output with
    readers on its own worker only does not wait.

    Parameters
    ----------
    graph, assign
        Worker of each operand, shape (n,); -1: the chunk was stored before the run and does not wait.
    trace
        Start and end of each operand.
    workers
        Number of workers.

    Examples
    --------
    Operand 0 ends at 1 s and is read elsewhere at 3 s:

    >>> from jmars.graph import Dag
    >>> graph = PlanGraph.build(Dag.from_edges(2, [0], [1]), cost=1.0, nbytes=10)
    >>> ran = Trace(np.array([0.0, 3.0]), np.array([1.0, 4.0]), [])
    >>> waiting(graph, [0, 1], ran, 2).tolist()
    [20.0, 0.0]
    """
    where = np.asarray(assign, np.int64)
    src, dst = graph.dag.edges()
    far = (where[src] != where[dst]) & (where[src] >= 0)
    last = trace.end.copy()
    np.maximum.at(last, src[far], trace.start[dst[far]])
    made = np.flatnonzero(where >= 0)
    return np.bincount(where[made], (graph.nbytes * (last - trace.end))[made], workers).astype(np.float64)
