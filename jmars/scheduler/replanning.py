"""Swaps a new plan into a running job when workers drift, and when hosts come or go.

`plan_monitor` decides; `Replanning` feeds the monitor with reports, has plans made in a thread, gives them to the
operands' rows and to the workers, and logs an event. Stages that are too short have none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jmars.model import events
from jmars.model.messages import WorkerPort
from jmars.plan import DriftReport
from jmars.scheduler.event_log import EventLog
from jmars.scheduler.operand_rows import OperandActor
from jmars.scheduler.plan_monitor import JobProgress, NewPlan, PlanMonitor, plan_anew
from jmars.scheduler.ranking import Machine
from jmars.scheduler.shards import Shards

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
