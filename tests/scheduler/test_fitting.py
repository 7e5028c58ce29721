"""What cannot fit is refused before anything runs, with the numbers; chunks that fit are named by the client."""

from __future__ import annotations

import re

import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import MemoryLimitError
from jmars.optimize import TooManyOperandsError, compile_graph, tile
from jmars.plan import Profile
from jmars.scheduler.ranking import Hungriest, Machine, hungriest, refuse_many, refuse_unfit
from jmars.tensor.operand import SourceLine
from jmars.tensor.tensor_graph import TensorGraph


def compiled(*tensors):
    return compile_graph(TensorGraph.of([t.data for t in tensors], {}), {"fuse_enabled": False}).after


def test_the_operand_that_needs_most_is_found():
    x = mt.ones((100, 512), chunk_size=(100, 512))
    graph = compiled((x + 1) @ mt.ones((512, 8), chunk_size=(512, 8)))
    most = hungriest(graph)
    assert graph.programs[graph.program[most.operand]].name == "add"
    assert most.nbytes == 2 * 100 * 512 * 8 + int(graph.work[most.operand]) and most.shape == (100, 512)


def test_chunks_of_unknown_size_do_not_count():
    x = mt.arange(100_000, chunk_size=100_000)
    most = hungriest(compiled(x[x % 2 == 0] + 1))
    assert most.nbytes <= 4 * 800_000


def test_an_empty_graph_needs_nothing():
    assert hungriest(compiled()) is None


def test_what_fits_is_not_refused():
    refuse_unfit(Hungriest(0, 100, (5,)), Machine(Profile(), 100), "operand add")


@pytest.mark.parametrize("shape", [(10_000_000,), (1, 10_000_000), ()])
def test_the_error_says_the_numbers_and_guesses_no_chunks(shape):
    need = 3 * 80_000_000
    with pytest.raises(MemoryLimitError) as caught:
        refuse_unfit(Hungriest(0, need, shape), Machine(Profile(), 2**26), "operand add of line 3 (c = a + b)")
    text = str(caught.value)
    assert text.startswith("operand add of line 3 (c = a + b) needs 228.9 MiB in memory at once")
    assert "the memory limit leaves 64.0 MiB" in text and "raise memory_limit by 164.9 MiB" in text
    assert (
        text.endswith(f"; {caught.value.proposed}")
        and "use a smaller chunk_size, or" in text
        and "10000000" not in text
    )


def test_no_chunk_is_recommended_to_a_function():
    with pytest.raises(MemoryLimitError, match=r"where it is a spawned function, a smaller `memory=`") as caught:
        refuse_unfit(Hungriest(0, 2**30, (-1,)), Machine(Profile(), 2**26), "operand f of line 3 (spawn(f))")
    assert "-1" not in str(caught.value)


def test_a_plan_that_cannot_fit_is_refused_and_the_proposed_chunks_fit():
    with Cluster(n_workers=1, memory_limit="200MiB") as cluster:

        def work(chunk):
            x = mt.random.default_rng(1).random((6000, 6000), chunk_size=chunk)
            ones = mt.ones((6000, 6), chunk_size=chunk)
            return abs(x - (x + x.T) @ ones @ mt.ones((6, 6000), chunk_size=chunk)).sum()

        job = cluster.submit(work(3000))
        assert job.wait(60) and isinstance(job.error, MemoryLimitError)
        assert not [event for event in job.events() if event[2] == "OperandsMoved"]
        rows, columns = map(int, re.search(r"chunk_size=\((\d+), (\d+)\) for random", str(job.error)).groups())
        assert "every operand fits" in str(job.error)
        again = cluster.submit(work((rows, columns)))
        assert again.wait(60) and again.error is None


def test_too_many_operands_for_memory_are_refused_by_their_line():
    refuse_many(1000, 500, Machine(Profile(), 500_000), "add", None)
    with pytest.raises(MemoryLimitError, match=r"has 1,001 operands .* for add of line 3 \(y = x \+ 1\); to plan and"):
        refuse_many(1001, 500, Machine(Profile(), 500_000), "add", SourceLine("<cell>", 3, "y = x + 1"))


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x[::2] + x[1::2], lambda x: (x[:, None] * x[:20]).sum()])
def test_tiling_ends_as_soon_as_there_are_too_many(make):
    graph = TensorGraph.of([make(mt.ones(2000, chunk_size=2)).data], {})
    n = tile(graph).n
    assert tile(graph, most=n).n == n
    with pytest.raises(TooManyOperandsError) as caught:
        tile(graph, most=n - 1)
    assert caught.value.n >= n and caught.value.layer.name


def test_a_graph_too_large_for_the_limit_is_refused_and_the_next_one_runs():
    with Cluster(n_workers=1, memory_limit="200MiB") as cluster:
        for size in (10, 40):  # seen before it is cut; and once it is
            job = cluster.submit((mt.random.default_rng(1).random(6_000_000, chunk_size=size)[::3] + 1).sum())
            assert job.wait(60) and isinstance(job.error, MemoryLimitError)
            assert re.search(r"operands on chunks or more, most of them for .* of line \d+ \(", str(job.error))
        assert cluster.info()["memory"]["peak"] <= 1.1 * 200 * 2**20
        assert mt.ones(10).sum().fetch() == 10
