"""Batches sent ahead hold memory: the simulated windows are those of the dispatcher."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.graph import Dag
from jmars.model.limits import WINDOW
from jmars.plan import PlanGraph
from jmars.plan.initial import assign_initial
from jmars.plan.prediction import WindowedRun, peak_of_windows
from tests.worker.steps_host import Host, in_loop, program, table

PAGE = 4096


def at_work(n: int, executors: int, cost: float = 1e-4, asks: bool = False) -> WindowedRun:
    """Independent operands of which each holds a page while it waits or runs, and nothing after."""
    graph = PlanGraph.build(Dag.from_edges(n, [], []), cost, 0)
    none = np.zeros(n, np.int64)
    return WindowedRun(graph, np.arange(n), executors, none > 0, none, none + PAGE, (none == 0) & asks)


@pytest.mark.parametrize("executors", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 3, 12, 40, 500])
@pytest.mark.parametrize("known", [True, False])
def test_as_many_operands_are_sent_ahead_as_the_dispatcher_sends(n: int, executors: int, known: bool) -> None:
    sent = []

    @in_loop
    def real() -> None:
        with Host(pages=2000, workers=executors) as host:
            job = table(1, [program(size=0, work=PAGE)], [0] * n, [()] * n)
            host.execution.open_job(job)
            if known:
                host.execution.ledger.estimate.learn(0, 0.0)
            first = assign_initial(Dag.from_edges(n, [], []), np.arange(n), [1] * executors).tolist()
            host.execution.enqueue_graph("job-1", list(range(n)), first)
            sent.append(sum(worker.running for worker in host.execution.workers))

    real()
    run = at_work(n, executors, cost=1.0)
    assert sent == [peak_of_windows(run, believed=0.0 if known else None) // PAGE]


def test_long_operands_are_not_sent_ahead() -> None:
    assert peak_of_windows(at_work(100, 2, cost=1.0)) == 2 * PAGE
    assert peak_of_windows(at_work(100, 2, cost=0.006)) == 2 * WINDOW * PAGE
    assert peak_of_windows(at_work(100, 2, cost=0.0026)) == 2 * WINDOW * 2 * PAGE


def test_nothing_waits_behind_an_operand_that_must_ask_for_its_slot() -> None:
    assert peak_of_windows(at_work(100, 2, asks=True)) == 2 * PAGE


def test_chunks_are_held_until_the_end_of_their_last_reader_is_reported() -> None:
    line = Dag.from_edges(4, [0, 1, 2], [1, 2, 3])
    graph = PlanGraph.build(line, 1.0, 0, result=[False, False, False, True])
    sizes, none = np.array([8, 4, 2, 1]) * PAGE, np.zeros(4, np.int64)
    run = WindowedRun(graph, np.arange(4), 1, none > 0, sizes, none, none > 0)
    assert peak_of_windows(run) == 12 * PAGE
    stored = WindowedRun(graph, np.arange(4), 1, np.arange(4) == 0, sizes, none, none > 0)
    assert peak_of_windows(stored) == 14 * PAGE, "who stored it keeps it"


def test_the_same_seed_draws_the_same_costs() -> None:
    rng = np.random.default_rng(1)
    dag = Dag.from_edges(40, rng.integers(0, 20, 60), rng.integers(20, 40, 60))
    graph = PlanGraph.build(dag, 0.001, 0)
    sizes, none = rng.integers(1, 100, 40) * PAGE, np.zeros(40, np.int64)
    run = WindowedRun(graph, np.arange(40), 2, none > 0, sizes, none, none > 0)
    drawn = [peak_of_windows(run, 1.0, seed) for seed in range(20)]
    assert drawn == [peak_of_windows(run, 1.0, seed) for seed in range(20)] and len(set(drawn)) > 1
    assert all(sizes.max() <= one <= sizes.sum() for one in drawn)
