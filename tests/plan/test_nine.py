"""On nine graphs that array programs give, the plan chosen is near the bound and moves little.

`python -m tests.benchmarks plans --check` holds it to more: a memory limit, noise, a slow worker.
"""

import pytest

from jmars.plan import Workers, choose, simulate
from tests.benchmarks.plan_drift import run_and_see
from tests.benchmarks.plan_graphs import SMALL_ONES
from tests.benchmarks.plans import mean, measure, setting, without_extras


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("bare", [False, True], ids=["all installed", "without extras"])
def test_plans_are_near_the_bound_and_move_less_than_without_a_plan(bare):
    with without_extras(bare):
        rows = measure(["jmars lean", "dask model"], setting())
    ours, model = rows["jmars lean"], rows["dask model"]
    assert mean(ours.ratio) <= 1.10 and max(ours.ratio) <= 1.35
    assert sum(ours.moved) <= 0.4 * sum(model.moved)


@pytest.mark.parametrize("name", SMALL_ONES)
@pytest.mark.parametrize("speed", [0.5, 0.2])
def test_a_slow_worker_that_no_plan_knows_is_found_while_it_runs(name, speed):
    graph = SMALL_ONES[name]()
    believed = Workers.build(2, cores=2)
    really = Workers.build(2, cores=2, speed=[speed, 1.0])
    plan = choose(graph, believed, budget=None).plan
    found, static = run_and_see(graph, believed, really), simulate(graph, really, plan.assign, plan.rank).makespan
    assert found.makespan <= static * 1.001
    if found.replanned:
        assert found.speed[0] == pytest.approx(speed) and found.speed[1] == 1.0
        assert found.replanned[0] < found.makespan
    else:
        assert found.makespan == static


def test_a_run_that_goes_as_planned_is_not_planned_anew():
    graph, workers = SMALL_ONES["matmul"](), Workers.build(2, cores=2)
    found = run_and_see(graph, workers, workers)
    assert found.replanned == [] and found.makespan == choose(graph, workers, budget=None).predicted.makespan
