"""A cluster runs graphs: values, errors, cancel, memory."""

import gc
import time

import numpy as np
import pytest

from jmars.client import Cluster
from jmars.errors import ClusterClosedError, JobCancelledError, MemoryLimitError, OperandError
from tests.cluster.operands import apply, numbers, total


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as one:
        yield one


def run(cluster, *data):
    return cluster.submit_data(data, single=len(data) == 1).result(timeout=60)


def test_chunks_are_computed_and_assembled(cluster):
    node = numbers(7, 10)
    assert np.array_equal(run(cluster, node), np.repeat(np.arange(7.0), 10))
    assert run(cluster, total(node)) == 10 * sum(range(7))


def test_several_results_of_one_job(cluster):
    node = numbers(5)
    values, value = run(cluster, node, total(node))
    assert values.sum() == value == 100


def test_what_is_held_is_not_computed_again(cluster, tmp_path):
    marks = str(tmp_path)

    def leave_mark(out, inputs, number):
        import tempfile

        tempfile.mkstemp(dir=marks)
        out[...] = 1

    node = apply(leave_mark, chunks=((4,) * 3,))
    run(cluster, node)
    assert run(cluster, total(node)) == 12
    assert len(list(tmp_path.iterdir())) == 3


def test_a_dropped_result_gives_its_memory_back(cluster):
    node = numbers(4, 100_000)
    run(cluster, node)
    assert cluster.info()["memory"]["arena"]["used"] >= 3_200_000
    del node
    assert cluster.info()["memory"]["arena"]["used"] < 100_000


def test_a_users_exception_comes_back_as_itself_with_its_place(cluster):
    def fail(out, inputs, number):
        raise ZeroDivisionError(f"chunk {number}")

    job = cluster.submit_data([apply(fail, numbers(3))])
    with pytest.raises(ZeroDivisionError, match="chunk") as caught:
        job.result(timeout=60)
    notes = "\n".join(caught.value.__notes__)
    assert "line" in notes and "raise ZeroDivisionError" in notes
    assert job.state == "failed"
    assert run(cluster, total(numbers(3))) == 30


def test_an_exception_that_cannot_travel_does_so_as_text(cluster):
    def fail(out, inputs, number):
        class Odd(Exception):
            def __init__(self, a, b):
                super().__init__(a)

            def __reduce__(self):
                raise RuntimeError

        raise Odd("strange", 2)

    with pytest.raises(OperandError, match="Odd: strange"):
        run(cluster, apply(fail, numbers(1)))


@pytest.mark.parametrize("ends", ["exit", "kill"])
def test_an_operand_that_ends_every_worker_is_named(cluster, ends):
    def die(out, inputs, number):
        import os
        import signal

        os._exit(3) if ends == "exit" else os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(Exception, match="ended 3 workers") as caught:
        run(cluster, apply(die, numbers(1)))
    assert ("exit status 3" if ends == "exit" else "SIGSEGV") in str(caught.value)
    assert run(cluster, total(numbers(3))) == 30


def test_cancel_ends_a_job_that_sleeps(cluster):
    def sleep(out, inputs, number):
        time.sleep(60)

    job = cluster.submit_data([apply(sleep, numbers(20))])
    while job.describe()["counts"]["running"] == 0:
        pass
    started = time.monotonic()
    job.cancel()
    job.cancel()
    assert job.wait(50)
    assert time.monotonic() - started < 30  # of the sixty that one operand sleeps
    assert job.state == "cancelled"
    with pytest.raises(JobCancelledError):
        job.result()
    counts = job.describe()["counts"]
    assert counts["cancelled"] + counts["freed"] == sum(counts.values())
    assert run(cluster, total(numbers(3))) == 30
    job.cancel()  # nothing happens


def test_a_job_cancelled_at_once_ends_and_leaves_nothing(cluster):
    gc.collect()  # results of earlier tests
    before = cluster.info()["memory"]["chunks"]
    for _ in range(20):
        job = cluster.submit_data([total(numbers(50, 1000))])
        job.cancel()
        assert job.wait(60)
    del job  # it may have been faster than its cancel, and holds its result then
    assert cluster.info()["memory"]["chunks"] == before


def test_an_operand_too_large_for_the_limit_is_refused_with_the_numbers():
    with (
        Cluster(n_workers=1, memory_limit="200MiB") as small,
        pytest.raises(MemoryLimitError, match=r"needs 400\.0 MiB in memory at once .* use a smaller chunk_size"),
    ):
        run(small, numbers(1, 50 * 2**20))


def test_results_that_fit_neither_memory_nor_disk_are_refused():
    with Cluster(n_workers=1, memory_limit="200MiB") as small:
        big = numbers(2**15, 2**23)  # 2 TiB, and each chunk fits
        started = time.monotonic()
        with pytest.raises(MemoryLimitError, match=r"the results take 2\.0 TiB, and memory and disk together have"):
            run(small, big)
        assert time.monotonic() - started < 60
        assert run(small, total(numbers(3))) == 30


def test_a_limit_too_small_for_the_processes_is_refused_at_once():
    with pytest.raises(MemoryLimitError, match="too small"):
        Cluster(n_workers=1, memory_limit="50MiB")


def test_data_four_times_the_limit_is_spilled_and_comes_back_right(tmp_path):
    with Cluster(n_workers=2, memory_limit="240MiB", spill_dir=tmp_path) as small:
        node = numbers(80, 2**20)  # 640 MiB

        def double(out, inputs, number):
            np.multiply(inputs[0], 2, out=out)

        assert run(small, total(node)) == 2**20 * sum(range(80))
        job = small.submit_data([node])
        assert job.wait(60)
        assert run(small, total(apply(double, node))) == 2 * 2**20 * sum(range(80))
        memory = small.info()["memory"]
        assert memory["spilled_total"] > 0 and memory["reloaded_total"] > 0
        assert memory["peak"] <= 1.1 * memory["limit"]
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_a_closed_cluster_says_so(cluster):
    with Cluster(n_workers=1) as one:
        node = numbers(2)
        run(one, node)
    with pytest.raises(ClusterClosedError, match="start a new one"):
        one.submit_data([node])
