"""Compares a run with its plan, and swaps a new plan in when workers drift, and when hosts come or go.

`PlanMonitor` takes the operands that ended, with worker and time, and now and then compares the workers (`plan.drift`).
When a worker is slower or faster than the rest, `look` reports drift, and `plan_anew` makes a plan for the remaining
operands. Both are plain: the caller gives the time.

`Replanning` feeds the monitor with reports, has plans made in a thread, gives them to the operands' rows and to the
workers, and logs an event. Stages that are too short have none.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jmars.model import events
from jmars.model.messages import WorkerPort
from jmars.model.status import OperandState as S
from jmars.plan import DriftReport, Observed, Plan, PlanGraph, Workers, drift, with_speed
from jmars.plan.revision import DONE, READY, RUNNING, WAITS, replan
from jmars.scheduler.event_log import EventLog
from jmars.scheduler.ranking import Machine

if TYPE_CHECKING:  # a client that plans loads no rows of operands
    from jmars.scheduler.operand_rows import OperandActor
    from jmars.scheduler.shards import Shards

REPLAN_SECONDS = 0.5  # of work left, for which another plan is worth its making
LOOK_SECONDS = 0.25  # between two looks
MOST_PLANS = 8  # of one job
_FREE = 1e15  # bytes a second between executors of one host: they share its memory

_LEFT = np.full(len(S), DONE)
_LEFT[[S.UNSCHEDULED, S.READY, S.RUNNING]] = WAITS, READY, RUNNING


@dataclass(frozen=True, eq=False)
class JobProgress:
    """States of operands, their workers (-1 for none), the plan until now, and the rows that store chunks from before
    the job (-1 for none, and where it is not known).
    """

    state: NDArray[np.uint8]
    worker: NDArray[np.int64]
    assign: NDArray[np.int64]
    rank: NDArray[np.int64]
    stored: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class NewPlan:
    """Plan for the remaining operands: order and worker of each (-1: ended), reason, and predicted seconds."""

    rank: list[int]
    assign: list[int]
    speed: list[float]
    why: str
    makespan: float
    before: float  # seconds that the old plan would take


class PlanMonitor:
    """The run of a job beside the plan.

    Parameters
    ----------
    graph
        What was planned.
    executors, memory
        Processes that compute, and bytes that they share.
    hosts
        Hosts with executors of their own, and the number of the first executor of each; None for one host.
    """

    def __init__(
        self, graph: PlanGraph, executors: int, memory: int, hosts: tuple[Workers, Sequence[int]] | None = None
    ) -> None:
        self.graph = graph
        share = max(1, memory // executors, _largest(graph))  # they share one memory: what fits there fits each
        if hosts is None:
            self.workers, self._first = Workers.build(executors, memory=share, bandwidth=_FREE, latency=0.0), None
        else:
            self.workers, self._first = hosts[0], np.array(hosts[1], np.int64)
        self.available = np.ones(len(self.workers), np.bool_)  # rows that can be planned for
        self.plans = 0  # made until now
        self._operands: list[int] = []
        self._worker: list[int] = []
        self._microseconds: list[int] = []
        self._looked = 0.0
        self._left = float(graph.cost.sum())  # seconds of planned work

    def ended(self, operands: Sequence[int], worker: int, microseconds: Sequence[int]) -> None:
        """Operands ended on a worker after so many microseconds each."""
        self._operands += operands
        self._worker += [worker] * len(operands)
        self._microseconds += microseconds

    def rows_of(self, worker: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each worker in the plan; -1 for -1, and for workers that came after the plan."""
        if self._first is None:
            return np.where(worker < len(self.workers), worker, -1)
        order = np.argsort(self._first, kind="stable")
        place = np.searchsorted(self._first[order], worker, side="right") - 1
        row = order[place]
        known = (worker >= 0) & (place >= 0) & (worker < self._first[row] + self.workers.cores[row])
        return np.where(known, row, -1)

    def machines(self, rows: Workers, first: Sequence[int]) -> None:
        """The cluster has these hosts now, with the numbers of their first workers.

        Known hosts keep their row and their measured speed, new hosts get further rows, and hosts that are left out
        are not planned for any more.
        """
        assert self._first is not None
        old, known = len(self.workers), {number: row for row, number in enumerate(self._first.tolist())}
        fresh = [row for row, number in enumerate(first) if number not in known]
        known.update((first[row], old + place) for place, row in enumerate(fresh))
        at = np.array([known[number] for number in first], np.int64)
        bandwidth = np.full((len(known), len(known)), rows.bandwidth.max())
        bandwidth[:old, :old] = self.workers.bandwidth
        bandwidth[np.ix_(at, at)] = rows.bandwidth

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(self.workers, name), getattr(rows, name)[fresh]])

        self._first = np.concatenate([self._first, np.array([first[row] for row in fresh], np.int64)])
        self.workers = Workers(
            joined("cores"),
            joined("speed"),
            joined("memory"),
            joined("device"),
            bandwidth,
            self.workers.latency,
            joined("disk"),
        )
        self.available = np.zeros(len(known), np.bool_)
        self.available[at] = True

    @property
    def hosts(self) -> list[int]:
        """Numbers of the first workers of the hosts that are planned for."""
        assert self._first is not None
        return sorted(self._first[self.available].tolist())

    @property
    def has_hosts(self) -> bool:
        """Whether the executors are on hosts of their own, which come and go."""
        return self._first is not None

    def speeds(self) -> DriftReport:
        """Comparison of the workers by the operands that ended until now."""
        seen = self.observed()
        return drift(self._as_seen(seen), self.workers, seen)

    def workers_of(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """A worker of each row; -1 for -1."""
        return row if self._first is None else np.where(row >= 0, self._first[row], -1)

    def look(self, now: float) -> DriftReport | None:
        """Comparison of the workers, if it is time and a new plan would pay; else None."""
        if now - self._looked < LOOK_SECONDS or self.plans >= MOST_PLANS:
            return None
        self._looked = now
        seen = self.observed()
        costs = self._as_seen(seen)
        left = float(costs.cost.sum() - costs.cost[seen.operand].sum())
        if left / len(self.workers) < REPLAN_SECONDS:
            return None
        report = drift(costs, self.workers, seen)
        return report if report.off else None

    def observed(self) -> Observed:
        """All that ended."""
        took = np.array(self._microseconds, np.float64) * 1e-6
        operand, row = np.array(self._operands, np.int64), self.rows_of(np.array(self._worker, np.int64))
        return Observed(operand[row >= 0], row[row >= 0], took[row >= 0])

    def _as_seen(self, seen: Observed) -> PlanGraph:
        """The graph with measured costs of its programs, so that workers are compared and not guesses."""
        op = self.graph.op
        kinds = int(op.max(initial=-1)) + 1
        of = op[seen.operand]
        known = of >= 0
        count = np.bincount(of[known], minlength=kinds)
        total = np.bincount(of[known], seen.seconds[known], minlength=kinds)
        mean = np.append(np.where(count > 0, total / np.maximum(count, 1), -1.0), -1.0)  # the last is for op -1
        cost = np.where(mean[op] >= 0, mean[op], self.graph.cost)
        return replace(self.graph, cost=cost)

    def costs(self) -> PlanGraph:
        """The graph with the costs learnt in this run."""
        return self._as_seen(self.observed())

    def planned(self, speed: NDArray[np.float64]) -> None:
        """Note that a new plan was made for workers of this speed; hosts that came since keep their speed."""
        self.plans += 1
        now = self.workers.speed.copy()
        now[: len(speed)] = speed
        self.workers = with_speed(self.workers, now)


def _largest(graph: PlanGraph) -> int:
    """Most bytes that one operand needs at once."""
    users = np.repeat(np.arange(graph.n), graph.dag.in_degree)
    inputs = np.bincount(users, graph.nbytes[graph.dag.pred_idx], graph.n)
    return math.ceil(float((graph.nbytes + graph.work + inputs).max(initial=0.0)))


def plan_anew(
    graph: PlanGraph,
    workers: Workers,
    report: DriftReport,
    now: JobProgress,
    budget: float,
    available: NDArray[np.bool_] | None = None,
) -> NewPlan:
    """A new plan for the remaining operands and workers of the measured speeds. Takes about `budget` seconds.

    Workers that are not `available` get no operand, and their running operands run elsewhere.
    """
    if available is not None and not available.all():  # a wish for a host that is gone has no effect
        graph = replace(graph, pin=np.where((graph.pin >= 0) & ~available[graph.pin], -1, graph.pin).astype(np.int16))
    state = _LEFT[now.state]
    there = (now.state == S.FINISHED) & (now.worker >= 0)
    given = (now.state == S.FINISHED) & (now.worker < 0)  # stored before
    known = np.full(graph.n, -1) if now.stored is None else now.stored
    usable = np.ones(len(workers), np.bool_) if available is None else available
    known = np.where((known >= 0) & usable[known], known, np.argmax(usable))  # else it lies somewhere
    placed = np.where(there, now.worker, np.where(given, known, -1))
    owners = np.where(now.assign >= 0, now.assign, np.argmax(report.speed))
    old = Plan(graph.dag, owners.astype(np.int16), now.rank.copy())
    running = np.where(state == RUNNING, now.worker, -1)
    fast = with_speed(workers, report.speed)
    choice = replan(graph, fast, old, state, placed, running=running, available=available, budget=budget)
    before = next((one.result.makespan for one in choice.tried if one.assigned_by == "as it was"), float("inf"))
    plan = choice.plan
    return NewPlan(
        plan.rank.tolist(),
        plan.assign.tolist(),
        report.speed.tolist(),
        report.why,
        choice.predicted.makespan,
        before,
    )


log = logging.getLogger("jmars.scheduler")

_SHARE = 0.05  # of the remaining work: time limit for making another plan
_SLOW = 0.8  # of the fastest worker's speed; below it a worker runs planned operands only


class Replanning:
    """Monitoring of one stage of a job.

    Parameters
    ----------
    machine
        Gives the hosts, and which of them stores a chunk.
    given
        Chunks that were stored before, by operand.
    """

    def __init__(
        self,
        job: str,
        watch: PlanMonitor,
        operands: OperandActor | Shards,
        rank: Sequence[int],
        port: WorkerPort,
        log: EventLog,
        isolate_faults: Callable[..., None],
        machine: Callable[[], Machine] | None = None,
        given: Mapping[int, int] | None = None,
    ) -> None:
        self._carefully = isolate_faults
        self._machine, self._given = machine, given or {}
        self._job, self._watch, self._operands = job, watch, operands
        self._rank = rank
        self._port, self._log = port, log
        self._task: asyncio.Task[None] | None = None
        self._open = True
        self._changed = ""  # hosts that came or went since the last plan, in words

    def ended(self, operands: Sequence[int], worker: int, microseconds: Sequence[int]) -> None:
        """Operands ended on a worker after so many microseconds each."""
        self._watch.ended(operands, worker, microseconds)
        if self._open and (self._task is None or self._task.done()):
            report = self._watch.look(time.monotonic())
            if report is not None:
                self._task = asyncio.ensure_future(self._plan_anew(report.why))

    def hosts_changed(self, machine: Callable[[], Machine], why: str) -> None:
        """Plan the rest for the present hosts; no effect where the plan is for the same hosts, or on a single host."""
        if not self._open or not self._watch.has_hosts:
            return
        hosts = machine().hosts
        if hosts is not None and self._watch.hosts != list(hosts[1]):
            self._watch.machines(*hosts)
            self._changed = why or "hosts came or went while the graph was prepared"
            if self._task is None or self._task.done():
                self._plan_for_hosts()

    def _plan_for_hosts(self) -> None:
        why, self._changed = self._changed, ""
        self._task = asyncio.ensure_future(self._plan_anew(why))

    def close(self) -> None:
        """The stage is over: a plan that is still being made is of no use."""
        self._open = False

    async def _plan_anew(self, why: str) -> None:
        try:
            watch, rows = self._watch, self._operands
            costs, report = watch.costs(), watch.speeds()
            state = np.frombuffer(bytes(rows.state), np.uint8)
            worker, assign = np.array(rows.owner, np.int64), np.array(rows.assign, np.int64)
            for operand, chosen in rows.chosen.items():
                worker[operand] = assign[operand] = chosen
            rank = np.array(self._rank, np.int64)
            now = JobProgress(state, watch.rows_of(worker), watch.rows_of(assign), rank, self._stored(len(rank)))
            left = float(costs.cost[state < 3].sum()) / len(watch.workers)
            args = (costs, watch.workers, report, now, _SHARE * left, watch.available)
            new = await asyncio.to_thread(plan_anew, *args)
        except Exception:  # the run goes on as it was planned; the next attempt would end alike
            log.exception("what is left of %s could not be planned anew", self._job)
            self._open = False
            return
        if self._open and self._changed:  # the hosts have changed meanwhile
            self._plan_for_hosts()
        elif self._open:
            self._carefully(self._swap, replace(new, why=why), report)

    def _stored(self, n: int) -> NDArray[np.int64]:
        """Row that stores the chunk of each operand that was stored before; -1 for others, and where unknown."""
        found = np.full(n, -1, np.int64)
        if self._machine is not None and self._watch.has_hosts:
            now = self._machine()
            for operand, chunk in self._given.items():
                row = now.row_of_chunk(chunk)
                found[operand] = now.numbers[row] if row >= 0 else -1
        return self._watch.rows_of(found)

    def _swap(self, new: NewPlan, report: DriftReport) -> None:
        self._watch.planned(report.speed)
        self._rank = new.rank
        workers = self._watch.workers_of(np.array(new.assign, np.int64)).tolist()
        self._operands.replanned(workers)
        slow = [w for w, speed in enumerate(new.speed) if speed < _SLOW * max(new.speed)]
        told = {"why": new.why, "speed": new.speed, "makespan": new.makespan, "before": new.before, "slow": slow}
        self._log.append(events.REPLANNED, self._job, told)
        self._port.replan(self._job, new.rank, workers, slow)
