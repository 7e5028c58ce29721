"""Another plan for what is left is of use, never a danger: where it cannot be made, the run goes on."""

import asyncio
import logging

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.plan import PlanGraph, Profile
from jmars.plan import Workers as PlanWorkers
from jmars.scheduler import EventLog, Machine, replanning
from jmars.scheduler.operand_rows import OperandActor
from jmars.scheduler.replanning import PlanMonitor

N = 40


class Workers:
    """Notes what is planned anew."""

    def __init__(self):
        self.plans = []

    def replan(self, job, rank, workers, slow):
        self.plans.append(slow)


def ran(one, rows, operands):
    """Operands ended in turn on two workers, the second of which is slow."""
    for operand in operands:
        worker = operand % 2
        rows.started([operand], worker)
        rows.finished([operand], worker)
        one.ended([operand], worker, [4_000_000 if worker else 1_000_000])


def story(monkeypatch, plan):
    """How often a plan was asked for in a run that drifts, what workers were told, and what the loop was told."""
    asked, wrong, port = [], [], Workers()
    ours = replanning.plan_anew

    def plan_anew(*args):
        asked.append(1)
        return ours(*args) if plan is None else plan()

    monkeypatch.setattr(replanning, "plan_anew", plan_anew)

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
        graph = Dag.from_edges(N, [], [])
        watch = PlanMonitor(PlanGraph.build(graph, cost=1.0, nbytes=8, op=0), 2, 10**9)
        rows = OperandActor(Counters(FlowGraph(graph)), [8] * N, [k % 2 for k in range(N)], 2)
        rows.start()
        one = replanning.Replanning("job-1", watch, rows, range(N), port, EventLog(), lambda act, *args: act(*args))
        for first in (0, 16):
            ran(one, rows, range(first, first + 8))
            watch._looked = 0.0
            ran(one, rows, range(first + 8, first + 16))
            if one._task is not None:
                await asyncio.wait([one._task])
        one.close()

    asyncio.run(run())
    return len(asked), port.plans, wrong


def test_a_worker_that_is_slow_gets_another_plan(monkeypatch):
    asked, plans, wrong = story(monkeypatch, None)
    assert asked >= 1 and plans[0] == [1] and not wrong


def test_a_plan_that_cannot_be_made_is_tried_once_and_ends_nothing(monkeypatch, caplog):
    def fails():
        raise RuntimeError("no plan")

    with caplog.at_level(logging.ERROR, "jmars.scheduler"):
        asked, plans, wrong = story(monkeypatch, fails)
    assert (asked, plans, wrong) == (1, [], []) and "no plan" in caplog.text


def test_hosts_that_come_or_go_get_another_plan_and_the_last_state_counts():
    port = Workers()

    async def run():
        graph = Dag.from_edges(N, [], [])
        two = PlanWorkers.build(2, memory=10**9)
        watch = PlanMonitor(PlanGraph.build(graph, cost=1.0, nbytes=8, op=0), 2, 10**9, (two, [0, 1]))
        rows = OperandActor(Counters(FlowGraph(graph)), [8] * N, [k % 2 for k in range(N)], 4)
        rows.start()
        log = EventLog()
        one = replanning.Replanning("job-1", watch, rows, range(N), port, log, lambda act, *args: act(*args))

        def machine(*first):
            rows = PlanWorkers.build(len(first), memory=10**9)
            return lambda: Machine(Profile(), 10**9, rows=rows, numbers=first)

        one.hosts_changed(machine(0, 1), "nothing new")
        assert one._task is None
        one.hosts_changed(machine(0, 1, 2), "c joined")
        one.hosts_changed(machine(1, 2, 3), "a is lost, d joined")
        while not port.plans:
            await one._task
        return [event[4]["why"] for event in log.read(0)[0] if event[2] == "Replanned"], rows.assign

    told, assign = asyncio.run(run())
    assert told == ["a is lost, d joined"] and len(port.plans) == 1
    assert sorted(set(assign)) == [1, 2, 3]


def test_a_new_plan_knows_on_which_host_a_kept_chunk_lies(monkeypatch):
    seen = []
    ours = replanning.plan_anew
    monkeypatch.setattr(replanning, "plan_anew", lambda *args: seen.append(args[3]) or ours(*args))

    async def run():
        graph, port = Dag.from_edges(N, [0], [1]), Workers()
        watch = PlanMonitor(
            PlanGraph.build(graph, cost=1.0, nbytes=8, op=0), 2, 10**9, (PlanWorkers.build(2, memory=10**9), [0, 1])
        )
        rows = OperandActor(Counters(FlowGraph(graph, given=[0])), [8] * N, [-1] + [k % 2 for k in range(1, N)], 4)
        rows.start()
        two = PlanWorkers.build(2, memory=10**9)
        machine = Machine(Profile(), 10**9, rows=two, numbers=[1, 2], row_of_chunk=lambda chunk: {77: 1}[chunk])
        args = "job-1", watch, rows, range(N), port, EventLog(), lambda act, *args: act(*args)
        one = replanning.Replanning(*args, lambda: machine, {0: 77})
        one.hosts_changed(lambda: machine, "host 0 is lost, host 2 joined")
        await one._task

    asyncio.run(run())
    assert seen[0].stored.tolist() == [2] + [-1] * (N - 1)  # rows are 0, 1, and 2 for the host that came
