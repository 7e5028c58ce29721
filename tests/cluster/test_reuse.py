"""The same cell or function run again with other data takes the plan of the first run, and nothing else of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.client import Cluster
from tests.cluster.operands import apply, numbers


def run(cluster, *tensors):
    return cluster.submit(*tensors).result(timeout=60)


def model(x, y):
    z = (x - x.mean()) * y
    return (z[::-1] + np.exp(-abs(z))).sum(axis=0)


def test_a_second_run_with_other_data_takes_the_plan_and_new_values(cluster):
    rng, before = np.random.default_rng(0), cluster.info()["plans"]
    for turn in range(5):
        x, y = rng.random((20, 6)), rng.random((20, 6))
        value = run(cluster, model(mt.asarray(x, chunk_size=7), mt.asarray(y, chunk_size=7)))
        np.testing.assert_allclose(value, model(x, y))
        after = cluster.info()["plans"]
        assert after["found"] - before["found"] == turn
        assert after["plans"] - before["plans"] == 1
        assert after["size"] > 0


STEPS = [
    lambda x, k: x + k,
    lambda x, k: x[k:] * 2,
    lambda x, k: x * x[::-1],
    lambda x, k: x - x.sum() / (k + 1),
    lambda x, k: x[np.array([k, 0, k, 1])],
]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 2)), min_size=1, max_size=4), st.data())
def test_whatever_ran_before_the_values_are_numpys(cluster, steps, data):
    for _ in range(2):  # the second time from the plan of the first
        x = np.array(data.draw(st.lists(st.integers(-5, 5), min_size=12, max_size=12)), float)
        lazy, real = mt.asarray(x, chunk_size=5), x
        for step, k in steps:
            if len(real) < 4:
                break
            lazy, real = STEPS[step](lazy, k), STEPS[step](real, k)
        assert np.array_equal(run(cluster, lazy), real)


def test_bounds_seeds_and_closures_are_never_those_of_another_run(cluster):
    x = np.arange(20.0)

    def shifted(by):
        return mt.map_blocks(lambda block: block + by, mt.asarray(x, chunk_size=6), dtype=float)

    for k in (1, 2, 1):
        assert np.array_equal(run(cluster, mt.asarray(x, chunk_size=6)[k : k + 9]), x[k : k + 9])
        assert np.array_equal(run(cluster, shifted(k)), x + k)
        drawn = mt.random.default_rng(k).random(20, chunk_size=6)
        assert np.array_equal(run(cluster, drawn), np.random.default_rng(k).random(20))
    before = cluster.info()["plans"]["found"]
    generator = mt.random.default_rng(5)
    first, second = (run(cluster, generator.random(8, chunk_size=3)) for _ in range(2))
    assert np.array_equal(np.concatenate([first, second]), np.random.default_rng(5).random(16))
    assert cluster.info()["plans"]["found"] == before + 1  # the same plan, and another place in the stream


def test_cells_that_draw_take_the_plan_of_the_first_and_draw_anew(cluster):
    def cell(generator):
        x = generator.random((30, 4), chunk_size=7)
        return x * 2 - generator.normal(size=(30, 4), chunk_size=7), x.sum()

    before, drawn = cluster.info()["plans"]["found"], []
    for seed in (1, 2, None, None, (3, 4), 2**150, 1):
        values, total = run(cluster, *cell(mt.random.default_rng(seed)))
        if seed is not None:
            assert np.isclose(total, np.random.default_rng(seed).random((30, 4)).sum(), rtol=1e-12)
        drawn.append(values)
    assert np.array_equal(drawn[0], drawn[-1])
    assert all(not np.array_equal(a, b) for i, a in enumerate(drawn[:-1]) for b in drawn[:i])
    assert cluster.info()["plans"]["found"] == before + 6


def test_runs_of_one_structure_at_once_do_not_meet(cluster):
    arrays = [np.full(30, float(k)) for k in range(12)]
    jobs = [cluster.submit((mt.asarray(a, chunk_size=4) * 2 + 1).sum()) for a in arrays]
    assert [job.result(30) for job in jobs] == [30 * (2 * k + 1) for k in range(12)]


def test_after_a_run_that_failed_or_was_cancelled_the_plan_serves_again(cluster):
    def half(out, inputs, number):
        if inputs[0][0] < 0:
            raise ValueError(f"chunk {number} is negative")
        out[...] = inputs[0] / 2

    def cell(values):
        return apply(half, mt.asarray(values, chunk_size=3).data)

    good, bad = np.arange(9.0), -np.arange(9.0) - 1
    for values in (good, bad, good, bad, good):
        job = cluster.submit_data([cell(values)], single=True)
        if values is bad:
            with pytest.raises(ValueError, match="negative"):
                job.result(30)
        else:
            assert np.array_equal(job.result(30), good / 2)
    job = cluster.submit_data([cell(good)], single=True)
    job.cancel()
    assert job.wait(30)
    assert np.array_equal(cluster.submit_data([cell(good)], single=True).result(30), good / 2)


def test_errors_and_the_view_name_the_lines_of_this_run(cluster):
    def boom(block):
        raise ZeroDivisionError("here")

    def line_of(job):
        with pytest.raises(ZeroDivisionError):
            job.result(30)
        built = next(event[4] for event in job.events() if event[2] == "GraphBuilt")
        return job.line.text, [stage[3] for stage in built["stages"] if stage[3]]

    before = cluster.info()["plans"]["found"]
    first = cluster.submit(mt.map_blocks(boom, mt.ones(4), dtype=float))
    assert line_of(first)[0] == "first = cluster.submit(mt.map_blocks(boom, mt.ones(4), dtype=float))"
    second = cluster.submit(mt.map_blocks(boom, mt.ones(4), dtype=float))
    text, stages = line_of(second)
    assert text == "second = cluster.submit(mt.map_blocks(boom, mt.ones(4), dtype=float))" and set(stages) == {text}
    assert cluster.info()["plans"]["found"] == before + 1


def test_a_result_that_is_held_is_another_structure(cluster):
    x = mt.arange(10.0, chunk_size=4)
    y = x + 1
    assert run(cluster, y.sum()) == 55
    job = cluster.submit(y)
    assert job.wait(30)
    before = cluster.info()["plans"]["found"]
    assert run(cluster, y.sum()) == 55  # reads what is held: not the first plan
    assert cluster.info()["plans"]["found"] == before


def test_a_part_that_is_a_held_chunk_as_it_is_stays_held(cluster):
    for turn in range(3):  # from the second on there is a plan, and nothing to do: the job ends as it is submitted
        x = mt.asarray(np.arange(8.0) + turn, chunk_size=4).execute()
        np.testing.assert_array_equal(x[:4].fetch(), np.arange(4.0) + turn)
        np.testing.assert_array_equal(x[4:].fetch(), np.arange(4.0, 8.0) + turn)


@pytest.mark.long
def test_jobs_whose_plans_do_not_fit_run_all_the_same():
    with Cluster(n_workers=1, memory_limit="200MiB") as small:
        node = numbers(20_000, 1)  # its plan is larger than what is kept
        for _ in range(2):
            job = small.submit_data([apply(_copy, node)], single=True)
            assert job.wait(60) and job.state == "succeeded"
        counts = small.info()["plans"]
        assert counts["dropped"] == 2 and counts["size"] < 2**20


def _copy(out, inputs, number):
    out[...] = inputs[0]
