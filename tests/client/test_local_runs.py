"""Small values are computed in the client's process: the same bits, no job, and the cluster where that fails."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import jmars.tensor as mt
from jmars.client import local_runs
from jmars.client.auto_persist import SMALL
from jmars.client.local_runs import NAMED_BYTES
from jmars.config import config
from jmars.errors import ArrayChangedError, ClusterLostError
from jmars.kernels.group_run import GroupReport, run_steps
from jmars.model.messages import Failure
from jmars.tensor import from_array
from tests.contract.engine.programs import CHUNKED, EXACT
from tests.contract.engine.test_programs import assert_same_bits

PROGRAMS = EXACT | CHUNKED


@pytest.fixture(autouse=True)
def _on():
    with config.using(local_seconds=1.0):
        yield


def last_job(cluster):
    return [job["id"] for job in cluster.jobs()][-1:]


def here(cluster, x):
    """The value, which no job may have computed."""
    last, runs = last_job(cluster), cluster.local.runs
    value = x.fetch()
    assert (last_job(cluster), cluster.local.runs) == (last, runs + 1)
    return value


def there(cluster, x):
    """The value, which a job must have computed."""
    last = last_job(cluster)
    value = x.fetch()
    assert last_job(cluster) != last
    return value


def values_of(name):
    made = PROGRAMS[name](mt, lambda values, chunk: mt.asarray(values, chunk_size=chunk))
    return [one.fetch() if hasattr(one, "fetch") else one for one in made]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_are_those_of_the_workers(cluster, name):
    with config.using(local_seconds=0):
        far = values_of(name)
    for one, other in zip(values_of(name), far, strict=True):
        assert_same_bits(one, other)


def test_a_loop_that_looks_at_values_submits_no_job(cluster):
    x, y = mt.asarray(np.arange(40.0).reshape(20, 2) % 7).execute(), mt.ones(20).execute()
    last, plans, steps = last_job(cluster), set(cluster.local._plans), 0
    w = mt.zeros(2)
    while True:
        g = x.T @ (x @ w - y) / 20
        if np.linalg.norm(g) < 1e-6:
            break
        w = w - 0.05 * g
        steps += 1
    assert steps > 20 and last_job(cluster) == last
    assert len(cluster.local._plans.keys() - plans) <= 6, "the structure of a turn is that of the turn before"
    expected = np.linalg.lstsq(x.fetch(), y.fetch())[0]
    assert np.allclose(w.fetch(), expected, atol=1e-4)


def test_a_value_is_an_owned_array_or_a_read_only_one(cluster):
    x = mt.arange(10) * 2
    own = here(cluster, x)
    own[0] = 7
    assert x.fetch()[0] == 0 and isinstance((x.sum()).fetch(), np.generic)
    view = x.fetch(copy=False)
    assert not view.flags.writeable and isinstance((x.max() + 0).fetch(copy=False), np.ndarray)


def test_each_draw_of_a_structure_has_its_own_numbers(cluster):
    rng, same = mt.random.default_rng(5), mt.random.default_rng(5)
    first, second = rng.random(10), rng.random(10)
    values = here(cluster, first + 0), here(cluster, second + 0)
    with config.using(local_seconds=0):
        assert [(same.random(10) + 0).fetch().tolist() for _ in range(2)] == [one.tolist() for one in values]


def test_a_tensor_of_the_cluster_is_read_in_place_and_freed_with_its_name(cluster):
    gc.collect()
    free = cluster.info()["memory"]["arena"]["used"]
    x = mt.asarray(np.arange(200_000.0)).rechunk(50_000).execute()
    assert here(cluster, x.sum()) == 19999900000.0
    assert list(cluster.local._leaves._pinned) == [x.data.key]
    assert here(cluster, (x * 2).max()) == 399998
    del x
    gc.collect()
    assert not cluster.local._leaves._pinned and cluster.info()["memory"]["arena"]["used"] == free


def test_a_job_may_use_the_memory_that_runs_here_have_pinned(cluster):
    x = mt.asarray(np.arange(200_000.0)).execute()
    here(cluster, x.sum())
    x[:10].execute()
    assert not cluster.local._leaves._pinned


def test_chunks_stay_where_they_are_while_a_run_reads_them(cluster, monkeypatch):
    x = (mt.asarray(np.arange(200_000.0)) + 0).execute()
    unpinned, seen = [], []
    pin = cluster.shared.pin
    monkeypatch.setattr(cluster.shared, "pin", lambda *what: (pin(*what)[0], lambda: unpinned.append(what)))

    def steps(*given):
        cluster.local.release()  # as another thread would, which submits a job
        seen.append(list(unpinned))
        return run_steps(*given)

    monkeypatch.setattr(local_runs, "run_steps", steps)
    assert here(cluster, x.sum()) == 19999900000.0
    assert seen == [[]] and len(unpinned) == 1


def test_a_pin_that_must_wait_leaves_the_value_to_a_job(cluster, monkeypatch):
    x = (mt.asarray(np.arange(200_000.0)) + 0).execute()
    ask = cluster.shared._connection.ask

    def late(actor, method, *args, timeout=None):
        if timeout is not None and method == "pin":
            raise ClusterLostError(f"the cluster did not answer within {timeout} s")
        return ask(actor, method, *args, timeout=timeout)

    monkeypatch.setattr(cluster.shared._connection, "ask", late)
    assert there(cluster, x.sum()) == 19999900000.0
    assert not cluster.local._leaves._pinned


def test_threads_look_at_values_at_the_same_time(cluster):
    x = (mt.asarray(np.arange(200_000.0)) + 0).execute()
    before = [one["num_threads"] for one in threadpool_info()]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda k: float((x * k).sum() if k % 3 else (x[:10] * k).execute().sum()), range(24)))
    assert found == [k * 19999900000.0 if k % 3 else k * 45.0 for k in range(24)]
    assert [one["num_threads"] for one in threadpool_info()] == before


def test_what_takes_long_or_much_memory_runs_on_the_cluster(cluster):
    with config.using(local_seconds=0.001):
        there(cluster, mt.sin(mt.ones(1_000_000) + 1).sum())
    there(cluster, mt.sort(mt.random.default_rng(0).random(10_000_000, chunk_size=1_000_000))[5])


def test_what_grows_with_the_square_of_the_elements_runs_on_the_cluster(cluster):
    with config.using(local_seconds=0.05):
        assert here(cluster, np.convolve(mt.ones(1000), mt.ones(100)))[500] == 100
        there(cluster, np.convolve(mt.ones(100_000), mt.ones(1000)))
        there(cluster, np.linalg.inv(mt.eye(400) * 2))


def test_functions_of_the_user_run_on_workers(cluster):
    import os

    pid = there(cluster, mt.map_blocks(lambda block: block * 0 + os.getpid(), mt.ones(3), dtype=float))
    assert os.getpid() not in pid


def test_functions_of_numpy_with_blocks_run_here(cluster):
    x = mt.random.default_rng(0).random((600, 4), chunk_size=(600, 4)).execute()
    lines = x[:50]
    assert here(cluster, mt.median(lines[:, 0])) == np.median(lines.fetch()[:, 0])
    assert here(cluster, mt.sort(lines, axis=0)).tolist() == np.sort(lines.fetch(), axis=0).tolist()
    assert here(cluster, mt.linalg.svdvals(lines)).tolist() == np.linalg.svdvals(lines.fetch()).tolist()
    assert mt.linalg.inv(x[:4] * 0).shape == (4, 4)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        mt.linalg.inv(x[:4] * 0).fetch()
    there(cluster, mt.linalg.svdvals(mt.ones((700, 700))))  # takes long
    there(cluster, mt.frompyfunc(max, 2, 1)(x[:5], 0.5).astype(float))  # a function of the user


def test_an_error_is_that_of_the_cluster_with_the_users_line(cluster):
    with pytest.raises(np.linalg.LinAlgError) as caught:
        np.linalg.inv(mt.zeros((3, 3))).fetch()
    assert "np.linalg.inv(mt.zeros((3, 3))).fetch()" in "".join([str(caught.value), *caught.value.__notes__])


def test_an_interrupt_is_an_interrupt(cluster, monkeypatch):
    failed = GroupReport("", [], {}, Failure.of(KeyboardInterrupt()), False)
    monkeypatch.setattr(local_runs, "run_steps", lambda *_: (failed, []))
    last = last_job(cluster)
    with pytest.raises(KeyboardInterrupt):
        (mt.arange(7) * 3).fetch()
    assert last_job(cluster) == last


def test_a_run_that_is_late_ends_and_its_structure_runs_on_the_cluster(cluster, monkeypatch):
    monkeypatch.setattr(local_runs, "LATE", 0.0)
    values = [there(cluster, mt.arange(6) * 3 + number) for number in range(2)]
    assert [value[0] for value in values] == [0, 1]


def test_a_large_array_that_was_changed_is_an_error(cluster):
    array = np.zeros(3 * 2**20)
    x = mt.asarray(array)
    array[0] = 1
    with pytest.raises(ArrayChangedError):
        x.sum().fetch()


def test_a_large_part_computed_again_is_left_to_a_job_that_keeps_it(cluster):
    x = mt.random.default_rng(3).random(200_000)
    assert x.nbytes > NAMED_BYTES
    first = here(cluster, x.sum())
    assert there(cluster, x.sum() + 0) == first
    assert cluster.retains(x.data)
    here(cluster, x.max())


def test_a_value_of_a_mebibyte_with_a_name_is_kept_here(cluster):
    x = mt.random.default_rng(3).random(20_000)
    assert SMALL < x.nbytes <= NAMED_BYTES
    first = here(cluster, x.sum())
    assert here(cluster, x.sum() + 0) == first
    assert not cluster.retains(x.data)


def test_all_large_values_that_are_kept_here_have_a_bound(cluster, monkeypatch):
    monkeypatch.setattr(local_runs, "ALL_NAMED", local_runs._large_bytes() + 200_000)
    x, y = (mt.random.default_rng(seed).random(20_000) for seed in (4, 5))
    here(cluster, x.sum())
    here(cluster, y.sum())
    here(cluster, x.max())
    there(cluster, y.max())


def test_a_gradient_descent_with_a_list_of_losses_needs_few_jobs(cluster):
    x, y = np.random.default_rng(6).random((50_000, 3)), np.ones(50_000)
    wide = (mt.asarray(x) - x.mean(axis=0)) / x.std(axis=0)
    w, losses, jobs = mt.zeros(3), [], []
    for _ in range(8):
        e = wide @ w - y
        losses.append((e**2).mean())
        assert losses[-1] >= 0
        w -= 0.1 * wide.T @ e / len(y)
        jobs.append(last_job(cluster))
    assert jobs[-1] == jobs[3]


def test_nothing_is_computed_here_where_the_setting_is_zero(cluster):
    with config.using(local_seconds=0):
        there(cluster, mt.arange(5) + 5)


def test_a_record_is_owned(cluster):
    kind = np.dtype([("a", "i4"), ("b", "f8")])
    for x in (mt.asarray(np.zeros((), kind)), mt.asarray(np.zeros(3, kind))[1]):
        value = x.fetch()
        value["a"] = 7
        assert x.fetch()["a"] == 0


def test_what_was_not_computed_here_is_not_taken_for_computed(cluster):
    with config.using(local_seconds=1e-6):
        y = mt.random.default_rng(0).random(100_000, chunk_size=50_000)
        there(cluster, y.sum())
        assert not cluster.retains(y.data)


def test_arrays_that_are_parts_of_the_value_come_back(cluster):
    a, b = mt.asarray(np.arange(3.0)), mt.asarray(np.arange(4.0))
    assert here(cluster, mt.concatenate([a, b]).sum()) == 9
    assert abs(here(cluster, np.linalg.norm(mt.concatenate([a, b]))) - 19**0.5) < 1e-12
    assert here(cluster, mt.asarray(np.arange(6.0), chunk_size=3)[:3]).tolist() == [0, 1, 2]


def test_a_large_array_of_the_cluster_is_read_in_place(cluster):
    x = mt.asarray(np.ones(17 * 2**20 // 8)).execute()
    assert here(cluster, x.sum()) == x.size
    del x


def test_an_exception_of_a_signal_handler_is_not_lost(cluster, monkeypatch):
    failed = GroupReport("", [], {}, Failure.of(SystemExit(3)), False)
    monkeypatch.setattr(local_runs, "run_steps", lambda *_: (failed, []))
    with pytest.raises(SystemExit):
        (mt.arange(7) * 5).fetch()


def test_the_setting_counts_when_it_is_changed(cluster):
    x = mt.arange(1000.0)
    here(cluster, np.sqrt(x).sum())
    with config.using(local_seconds=1e-6):
        there(cluster, np.sqrt(mt.arange(1000.0)).sum())
    here(cluster, np.sqrt(mt.arange(1000.0)).sum())


def test_a_buffer_of_another_library_is_copied():
    memory = np.arange(3.0)
    x = mt.asarray(memoryview(memory))
    memory[0] = 99
    assert x.fetch().tolist() == [0, 1, 2]


def test_the_memory_of_a_run_is_used_again_and_that_of_a_value_never(cluster):
    rng = np.random.default_rng(5)
    real, runs = rng.random((20_000, 4)), cluster.local.runs
    x, found, expected = mt.asarray(real), [], []
    for turn in range(12):
        w = np.full(4, turn + 1.0)
        residual, wanted = (x @ w - 1).reshape(200, 100), (real @ w - 1).reshape(200, 100)
        found.append(residual.T if turn % 2 else residual)
        expected.append(wanted.T if turn % 2 else wanted)
        assert float((x.T @ residual.ravel()).sum()) == pytest.approx((real.T @ wanted.ravel()).sum(), rel=1e-12)
        found[-1] = found[-1].fetch()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert cluster.local.runs > runs


def test_info_counts_the_arrays_that_jmars_keeps_in_this_process(cluster, monkeypatch):
    monkeypatch.setattr(from_array, "_copies", WeakValueDictionary())  # without those of other tests
    monkeypatch.setattr(local_runs, "_large", WeakKeyDictionary())

    def counted():
        gc.collect()
        return cluster.info()["memory"]["kernel"]

    array = np.random.default_rng(3).random(100_000)
    x, same = mt.asarray(array), mt.asarray(array.copy())
    assert counted() == array.nbytes  # one copy for both
    y = x[:20_000] * 2
    total = y.sum().fetch()
    assert counted() == array.nbytes + 20_000 * 8 and total == pytest.approx((array[:20_000] * 2).sum())
    del x, same, y
    assert counted() == 0


def test_a_value_of_unknown_length_is_computed_here_with_its_length(cluster):
    rng = np.random.default_rng(0)
    values, rows = rng.normal(size=(6000, 5)), rng.random(6000) > 0.9
    x, mask = mt.asarray(values, chunk_size=(1000, 2)).execute(), mt.asarray(rows, chunk_size=1000).execute()
    part = x[mask]
    assert np.array_equal(here(cluster, part), values[rows])
    last = last_job(cluster)
    assert (part.shape, len(part.chunks[0])) == (values[rows].shape, 6)
    assert np.array_equal((part * 2).fetch(), values[rows] * 2)
    assert last_job(cluster) == last


def test_an_unknown_length_that_may_be_large_is_left_to_the_cluster(cluster, monkeypatch):
    monkeypatch.setattr(local_runs, "PERHAPS_SMALL", 1000)
    x = mt.arange(500, chunk_size=100).execute()
    assert there(cluster, x[x < 7]).tolist() == list(range(7))
