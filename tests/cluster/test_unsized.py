"""Chunks whose size is known only after running: right values, nothing leaked, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from jmars.client import Cluster
from jmars.errors import JobCancelledError, MemoryLimitError, WorkerLostError
from jmars.kernels.program import Call, ChunkType, single
from jmars.tensor.operand import Operand, TensorData, new_data
from tests.cluster.operands import apply, numbers, total

MB = 2**20
U1 = np.dtype("u1")


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured(Operand):
    """Bytes of the chunks that `function(inputs, number)` gives, whose sizes nobody knows before."""

    name: ClassVar[str] = "measured"
    function: object
    bound: int | None = None
    twice: bool = False  # another such operand reads each of them

    def tile(self, builder, inputs, output):
        ids = []
        for number in range(output.shape[0]):
            sources = [(int(grid.ids[number]), ChunkType((grid.splits[0][number],), grid.dtype)) for grid in inputs]
            types = [chunk for _, chunk in sources]
            loose = ChunkType((-1,), U1, self.bound)
            make = Call(_make, (self.function,), tuple(range(len(types))), loose, True)
            made = builder.add(single("make", types, make), [one for one, _ in sources], (number,))
            if self.twice:
                made = builder.add(single("copy", [loose], Call(_copy, (), (0,), loose)), [made])
            weigh = Call(_weigh, (), (0,), ChunkType((1,), output.dtype))
            ids.append(builder.add(single("weigh", [loose], weigh), [made]))
        return np.array(ids)


def _make(out, inputs, params, arg):
    assert out is None
    return params[0](inputs, arg)


def _copy(out, inputs, params, arg):
    return inputs[0]


def _weigh(out, inputs, params, arg):
    out[0] = inputs[0].size + inputs[0].sum(dtype="f8")


def weights(function, count: int, bound: int | None = None, twice: bool = False, of: TensorData | None = None):
    """Size plus sum of what `function` gives for each number below `count`."""
    inputs = () if of is None else (of,)
    op = Measured(function=function, bound=bound, twice=twice, inputs=inputs)
    return new_data(op, (count,), np.dtype("f8"), ((1,) * count,))


def settled(cluster: Cluster) -> dict:
    """What lies on the cluster when nothing runs."""
    return cluster.info()["memory"]


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("bound", [None, 10_000, 2**40])
@pytest.mark.parametrize("twice", [False, True])
def test_each_chunk_has_the_size_it_turns_out_to_have_zero_too(bound, twice):
    with Cluster(n_workers=2) as cluster:
        node = weights(lambda inputs, number: np.ones(37 * number, "u1"), 200, bound, twice)
        value = cluster.submit_data([node], single=True).result(30)
        assert np.array_equal(value, 2.0 * 37 * np.arange(200))
        memory = settled(cluster)
        assert memory["chunks"] == 200 and memory["arena"]["used"] == 200 * 64  # one number each, nothing else is left


def test_what_stands_before_is_fused_with_it_and_what_reads_it_is_not():
    with Cluster(n_workers=1) as cluster:
        node = weights(lambda inputs, number: np.full(int(inputs[0][0]), 1, "u1"), 20, of=numbers(20, 3))
        job = cluster.submit_data([node], single=True)
        assert np.array_equal(job.result(30), 2.0 * np.arange(20))
        assert job.describe()["operands"] == 40


@pytest.mark.parametrize("bound", [None, 4])
def test_more_or_other_than_promised_is_an_error_that_says_so(bound):
    with Cluster(n_workers=1) as cluster:
        wrong = (lambda i, n: np.ones((2, 2), "u1")) if bound is None else (lambda i, n: np.ones(5, "u1"))
        error = cluster.submit_data([weights(wrong, 1, bound)])
        assert error.wait(30)
        with pytest.raises(ValueError, match="was promised"):
            error.result()
        with pytest.raises(TypeError, match="gave float64 and uint8 was promised"):
            cluster.submit_data([weights(lambda i, n: np.ones(2), 1, bound)]).result(30)
        assert settled(cluster)["arena"]["used"] == 0


def test_results_that_do_not_fit_together_are_spilled():
    size = 8 * MB
    with Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        capacity = settled(cluster)["arena"]["capacity"]
        count = 2 * capacity // size
        kept = weights(lambda i, number: np.full(size, number, "u1"), count, twice=True)
        both = apply(lambda out, inputs, number: np.copyto(out, inputs[0] + inputs[1]), kept, kept)
        assert np.array_equal(cluster.submit_data([both], single=True).result(60), 2.0 * size * (1 + np.arange(count)))
        assert settled(cluster)["peak"] <= cluster.memory_limit


@pytest.mark.long
def test_results_of_all_workers_at_once_that_fit_only_one_by_one():
    with Cluster(n_workers=3, memory_limit="256MiB") as cluster:
        size = settled(cluster)["arena"]["capacity"] * 4 // 10
        node = weights(lambda i, number: np.full(size, number, "u1"), 6)
        assert np.array_equal(cluster.submit_data([node], single=True).result(60), size * (1.0 + np.arange(6)))
        assert settled(cluster)["arena"]["used"] == 6 * 64


def test_a_result_that_can_never_fit_is_an_error_with_the_numbers():
    with Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        node = weights(lambda i, number: np.zeros(400 * MB, "u1"), 2)
        with pytest.raises(MemoryLimitError, match=r"the result of make.* takes 400.0 MiB.*memory limit leaves"):
            cluster.submit_data([node]).result(30)
        assert settled(cluster)["arena"]["used"] == 0
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


def test_a_cancel_while_results_wait_for_room_leaves_nothing():
    with Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        size = settled(cluster)["arena"]["capacity"] * 3 // 10

        def make(inputs, number):
            return np.ones(size, "u1")

        for wait in (0.0, 0.05, 0.15):
            job = cluster.submit_data([weights(make, 12, twice=True)])
            time.sleep(wait)  # somewhere in the middle
            job.cancel()
            assert job.wait(60)
            if job.state != "succeeded":
                with pytest.raises(JobCancelledError):
                    job.result()
            del job
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


def test_a_worker_that_dies_before_its_result_has_a_slot_costs_a_rerun(tmp_path):
    with Cluster(n_workers=2) as cluster:

        def make(inputs, number):
            try:
                open(tmp_path / str(number), "x").close()
            except FileExistsError:
                return np.ones(1000, "u1")
            os.kill(os.getpid(), signal.SIGKILL)

        node = weights(make, 4)
        assert np.array_equal(cluster.submit_data([node], single=True).result(30), [2000.0] * 4)
        assert settled(cluster)["arena"]["used"] == 4 * 64


@pytest.mark.long
def test_a_worker_killed_while_it_waits_in_line_gives_up_its_place():
    with Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        size = settled(cluster)["arena"]["capacity"] * 3 // 10
        job = cluster.submit_data([weights(lambda i, n: np.ones(size, "u1"), 12, twice=True)], single=True)
        for _ in range(4):
            time.sleep(0.05)
            for worker in cluster.info()["workers"][:1]:
                if worker["pid"]:
                    try:
                        os.kill(worker["pid"], signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        try:
            assert np.array_equal(job.result(60), [2.0 * size] * 12)
        except WorkerLostError:
            pass  # one operand was hit three times
        del job
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30
