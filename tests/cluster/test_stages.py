"""Jobs of several stages on a real cluster: values, events, cancel, lost workers, and nothing left."""

import gc
import os
import signal
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import ExecutionError, JobCancelledError
from jmars.tensor.ops.sort import sort_long_axis


def raising(block):
    raise RuntimeError("this branch must not run")


def chunks_of(cluster: Cluster) -> int:
    gc.collect()  # results of other tests
    return cluster.info()["memory"]["chunks"]


def stages_of(job) -> list[int]:
    return [event[4]["stage_number"] for event in job.events() if event[2] == "GraphBuilt"]


def until(true, seconds: float = 60) -> None:
    """Wait for what no event tells."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_the_cluster_takes_one_branch_and_never_runs_the_other(cluster):
    x = mt.arange(1000, chunk_size=300)
    job = cluster.submit(mt.cond(x.sum() > 5, x * 2, mt.map_blocks(raising, x, dtype=x.dtype)))
    np.testing.assert_array_equal(job.result(60), np.arange(1000) * 2)
    assert stages_of(job) == [1, 2]
    other = cluster.submit(mt.cond(x.sum() < 5, x * 2, mt.map_blocks(raising, x, dtype=x.dtype)))
    with pytest.raises(RuntimeError, match="must not run"):
        other.result(60)


def test_functions_of_text_and_series_take_arrays_of_unknown_length(cluster):
    words = np.array(["AB", "CD"] * 50)
    x, v = mt.asarray(words, chunk_size=30), mt.arange(50.0, chunk_size=20)
    x, v = x[x != "AB"], v[v > 40]
    assert cluster.submit(mt.unique(mt.strings.lower(x))).result(60).tolist() == ["cd"]
    assert cluster.submit(mt.char.isupper(x).sum()).result(60) == 50
    assert cluster.submit(mt.polynomial.polynomial.polyval(v, [1, 2]).sum()).result(60) == 9 + 2 * sum(range(41, 50))


def test_counts_are_those_of_all_stages(cluster):
    job = cluster.submit(mt.while_loop(lambda v: v.max() < 4, lambda v: v + 1, mt.zeros(6, chunk_size=3)))
    np.testing.assert_array_equal(job.result(60), np.full(6, 4.0))
    told = job.describe()
    built = [event[4]["n_after"] for event in job.events() if event[2] == "GraphBuilt"]
    assert len(built) == 5
    assert told["operands"] == sum(built) == sum(told["counts"].values())
    assert told["counts"]["finished"] + told["counts"]["freed"] == told["operands"]


def test_a_loop_holds_a_constant_number_of_chunks(cluster):
    before = chunks_of(cluster)
    start = mt.ones(1000, chunk_size=250)
    result = mt.while_loop(lambda v: v.max() < 60, lambda v: v + 1, start)
    result.execute()
    assert chunks_of(cluster) - before == 4
    np.testing.assert_array_equal(result.fetch(), np.full(1000, 60.0))
    del result
    until(lambda: chunks_of(cluster) == before)


def test_what_the_client_holds_can_be_used_and_dropped_meanwhile(cluster):
    x = mt.arange(100, chunk_size=30).execute()
    job = cluster.submit(mt.cond(x.sum() > 0, mt.map_blocks(_slowly, x, dtype=x.dtype), x))
    del x
    np.testing.assert_array_equal(job.result(60), np.arange(100))


def _slowly(block):
    time.sleep(0.05)
    return block


def test_an_array_from_outside_serves_all_stages(cluster):
    array = np.arange(12.0)
    x = mt.as_tensor(array, chunk_size=5)
    job = cluster.submit(mt.while_loop(lambda v: v.sum() < 1000, lambda v: v + x, x), x.sum())
    value, total = job.result(60)
    expected = array
    while expected.sum() < 1000:
        expected = expected + array
    np.testing.assert_array_equal(value, expected)
    assert total == array.sum()


@pytest.mark.parametrize("after", [1, 3])
def test_a_cancel_works_in_every_stage_and_leaves_nothing(cluster, after):
    before = chunks_of(cluster)
    forever = mt.while_loop(
        lambda v: v.max() >= 0, lambda v: mt.map_blocks(_slowly, v, dtype=v.dtype), mt.zeros(40, chunk_size=10)
    )
    job = cluster.submit(forever)
    until(lambda: len(stages_of(job)) >= after)
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result(60)
    until(lambda: chunks_of(cluster) == before)


def test_a_killed_executor_in_a_later_stage_costs_only_what_it_ran(cluster):
    x = mt.arange(400, chunk_size=20)
    job = cluster.submit(mt.cond(x.sum() > 0, lambda: mt.map_blocks(_slowly, x, dtype=x.dtype) + 1, lambda: x))
    until(lambda: len(stages_of(job)) == 2 and job.describe()["counts"]["running"])
    os.kill(next(worker["pid"] for worker in cluster.info()["workers"] if worker["running"]), signal.SIGKILL)
    np.testing.assert_array_equal(job.result(30), np.arange(400) + 1)


def test_a_failure_in_a_later_stage_names_its_line_and_leaves_nothing(cluster):
    before = chunks_of(cluster)
    x = mt.arange(10, chunk_size=3)
    bad = mt.map_blocks(raising, x, dtype=x.dtype)
    job = cluster.submit(mt.cond(x.sum() > 0, bad, x))
    with pytest.raises(RuntimeError, match="must not run"):
        job.result(60)
    assert job.line is not None and "map_blocks(raising" in job.line.text
    until(lambda: chunks_of(cluster) == before)


def test_a_loop_that_never_ends_ends_with_an_error_where_it_has_a_limit(cluster):
    job = cluster.submit(mt.while_loop(lambda v: v >= 0, lambda v: v + 1, 0, max_iterations=7))
    with pytest.raises(ExecutionError, match="after 7 iterations"):
        job.result(60)


def test_what_a_mask_takes_is_filtered_once_and_leaves_only_the_result(cluster):
    before = chunks_of(cluster)
    array = np.sin(np.arange(100_000))
    x = mt.as_tensor(array, chunk_size=9_000)
    y = x[x > 0.5]
    result = (y - y.mean())[::-1].execute()
    np.testing.assert_allclose(result.fetch(), (array[array > 0.5] - array[array > 0.5].mean())[::-1])
    assert chunks_of(cluster) - before == len(result.chunks[0])
    nothing = x[x > 2].execute()
    assert nothing.fetch().shape == (0,) and nothing.shape == (0,)


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("stage", [1, 2])
def test_a_killed_executor_in_either_stage_of_a_filter(cluster, stage):
    array = np.arange(4000.0)
    x = mt.map_blocks(_slowly, mt.as_tensor(array, chunk_size=200), dtype=float)
    y = mt.map_blocks(_slowly, x[x > 1000].rechunk(100), dtype=float)
    job = cluster.submit(y)
    until(lambda: len(stages_of(job)) == stage and job.describe()["counts"]["running"])
    os.kill(next(worker["pid"] for worker in cluster.info()["workers"] if worker["running"]), signal.SIGKILL)
    np.testing.assert_array_equal(job.result(30), array[array > 1000])


def test_a_cancel_in_the_second_stage_of_a_filter_leaves_nothing(cluster):
    before = chunks_of(cluster)
    x = mt.arange(4000, chunk_size=200)
    job = cluster.submit(mt.map_blocks(_slowly, x[x > 10].rechunk(20), dtype=x.dtype))
    until(lambda: len(stages_of(job)) == 2 and job.describe()["counts"]["running"])
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result(60)
    until(lambda: chunks_of(cluster) == before)


def test_an_error_that_only_the_length_shows_names_its_line(cluster):
    x = mt.arange(40, chunk_size=20)
    job = cluster.submit(x[x > 100][3])
    with pytest.raises(IndexError, match="out of bounds") as caught:
        job.result(60)
    assert any("x[x > 100][3]" in note for note in caught.value.__notes__)


def test_results_of_unknown_length_are_cut_for_memory_and_keep_their_line(cluster):
    x = mt.zeros(20_000_000, chunk_size=3_000_000)
    y = x[x == 0].rechunk("auto")
    job = cluster.submit(y)
    assert job.result(60).shape == (20_000_000,)
    assert max(y.chunks[0]) * 8 <= cluster.memory_limit // (8 * cluster.n_workers)
    stages = [stage for event in job.events() if event[2] == "GraphBuilt" for stage in event[4]["stages"]]
    assert {"y = x[x == 0].rechunk" in text for name, _, _, text, _ in stages if name == "rechunk"} == {True}


def test_a_sort_in_stages_keeps_the_user_s_line(cluster):
    x = (mt.arange(4_000, chunk_size=500) * 7) % 4_001
    job = cluster.submit(sort_long_axis(x)[:5])
    assert job.result(60).tolist() == [0, 1, 2, 3, 4]
    assert len(stages_of(job)) > 1
    texts = [text for event in job.events() if event[2] == "GraphBuilt" for _, _, _, text, _ in event[4]["stages"]]
    assert {text.partition(" = ")[0] for text in texts} == {"x", "job"}


def test_large_arrays_beside_what_waits_are_uploaded(cluster):
    array, other = np.arange(10), np.arange(300_000)
    x = mt.as_tensor(array, chunk_size=4)
    np.testing.assert_array_equal(
        cluster.submit(mt.concatenate([x[x > 4], other])).result(60), np.concatenate([array[array > 4], other])
    )
