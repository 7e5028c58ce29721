"""On nine graphs that array programs give, the plan chosen is near the bound and moves little.

`tests/benchmarks/plans.py --check` holds it to more: a memory limit, noise, a slow worker.
"""

from jmars.plan import Workers
from tests.benchmarks.plans import mean, measure


def test_plans_are_near_the_bound_and_move_less_than_a_scheduler_without_a_plan():
    rows = measure(["jmars lean", "dask model"], Workers.build(8, cores=2), noise=0.0)
    ours, model = rows["jmars lean"], rows["dask model"]
    assert mean(ours.ratio) <= 1.10 and max(ours.ratio) <= 1.35
    assert sum(ours.moved) <= 0.4 * sum(model.moved)
