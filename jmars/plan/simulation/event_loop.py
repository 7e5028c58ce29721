"""Discrete-event simulation of a run: a deterministic loop over the ends of operands and transfers.

`simulate` runs a `Simulation`. A `Policy` places operands during the run, as a scheduler without a plan does. The C
kernel `native/simulate.c` computes the same result for runs without a policy.
"""

from __future__ import annotations

import heapq
import math
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError, MemoryLimitError
from jmars.plan.order.ranks import rows
from jmars.plan.plan_graph import PlanGraph
from jmars.plan.simulation.sim_memory import SimMemory
from jmars.plan.simulation.sim_network import SimNetwork
from jmars.plan.simulation.sim_result import SimResult, Trace
from jmars.plan.workers import Workers

__all__ = ["Policy", "Simulation", "misfit", "never_ran"]

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
        self._woken: set[int] = set()  # workers that may have something to start
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
        """Takes an operand that has not started from its worker."""
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
        """Ends an operand: frees chunks without readers left, sends the operand's chunk, and wakes its readers."""
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
        """Records the bytes in memory of workers whose bytes changed."""
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
