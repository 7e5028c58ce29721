"""What a planner is told that a compiled graph costs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.optimize import Compiled, compile_graph
from jmars.plan import Profile, annotate, one_host, program_seconds, signature, simulate
from jmars.tensor.tensor_graph import TensorGraph


def compiled(*tensors: mt.Tensor, **settings: object) -> Compiled:
    return compile_graph(TensorGraph.of([tensor.data for tensor in tensors]), config.task | settings)


def a_sum(n: int = 1000, chunk: int = 100) -> Compiled:
    return compiled((mt.ones(n, chunk_size=chunk) + 1).sum())


def keys(done: Compiled) -> list[str]:
    return [signature(program).key for program in done.after.programs]


def test_every_operand_of_a_program_costs_what_its_program_does():
    done = a_sum()
    graph = annotate(done.after, done.dag, Profile())
    rows = done.after.program
    for row in np.unique(rows):
        assert len(set(graph.cost[rows == row].tolist())) == 1
    assert graph.cost.min() > 0
    assert graph.nbytes.tolist() == done.after.nbytes.tolist()
    assert graph.op.tolist() == rows.tolist()


def test_results_stay_and_the_rest_goes():
    x = mt.ones(1000, chunk_size=100) + 1
    done = compiled(x, x.sum())
    graph = annotate(done.after, done.dag, Profile())
    assert graph.result.sum() == 10 + 1


def test_a_chunk_of_unknown_size_counts_as_expected_and_reserves_its_bound():
    x = mt.random.default_rng(3).random(2**22, chunk_size=2**20)
    counted = mt.percentile(x, [5, 50]).data
    while counted.op.name != "count_ranges":
        counted = counted.op.inputs[0]
    done = compiled(mt.Tensor(counted))
    graph, last = annotate(done.after, done.dag, Profile()), done.dag.sinks()
    assert done.after.nbytes[last].tolist() == [8 * 9 + 2 * 2**20 * 8] * 4
    assert (graph.nbytes[last] < 2**20).all()


def test_a_learnt_program_costs_what_was_learnt_and_others_their_prior():
    done = a_sum()
    profile = Profile()
    before = annotate(done.after, done.dag, profile).cost
    learnt = signature(done.after.programs[0])
    profile.observe(learnt.key, learnt.size, 0.5)
    after = annotate(done.after, done.dag, profile).cost
    first = done.after.program == 0
    assert after[first] == pytest.approx(0.5 + profile.dispatch)
    assert after[~first].tolist() == before[~first].tolist()


def test_what_was_learnt_on_one_size_holds_for_another():
    small, large = a_sum(10**6, 10**5), a_sum(10**7, 10**6)
    profile = Profile()
    for program in small.after.programs:
        profile.observe(signature(program).key, signature(program).size, signature(program).size * 1e-6)
    for program in large.after.programs:
        assert program_seconds(program, profile) == pytest.approx(signature(program).size * 1e-6)


def test_a_pause_of_a_tiny_operand_is_not_scaled_up():
    tiny, larger = a_sum(10, 1), a_sum(100_000, 10_000)
    profile = Profile()
    for program in tiny.after.programs:
        profile.observe(signature(program).key, signature(program).size, 1e-3)  # another process had the core
    for program in larger.after.programs:
        assert program_seconds(program, profile) < 0.01


def test_a_users_slow_function_is_scaled_up():
    def slow(block):
        return block

    def of(n: int) -> Compiled:
        return compiled(mt.map_blocks(slow, mt.ones(10 * n, chunk_size=n), dtype="f8"))

    tiny, larger = (of(n).after.programs[-1] for n in (1, 50))
    profile = Profile()
    profile.observe(signature(tiny).key, signature(tiny).size, 0.1)
    assert program_seconds(larger, profile) == pytest.approx(5.0)


def test_a_function_that_was_edited_costs_what_its_namesake_did():
    def double(block):
        return block * 2

    before = compiled(mt.map_blocks(double, mt.ones(100, chunk_size=10), dtype="f8"))

    def double(block):
        return block + block

    after = compiled(mt.map_blocks(double, mt.ones(100, chunk_size=10), dtype="f8"))
    old, new = (signature(one.after.programs[-1]) for one in (before, after))
    assert old.key != new.key
    assert old.family == new.family
    profile = Profile()
    profile.observe(old.family, old.size, 0.25)
    assert program_seconds(after.after.programs[-1], profile) == 0.25


def test_the_key_is_the_same_in_every_session():
    code = "from tests.plan.cost.test_annotate import a_sum, keys; print(keys(a_sum()))"
    answers = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers == [f"{keys(a_sum())}\n"] * 2


def test_a_matrix_product_grows_with_its_products_not_its_bytes():
    def size(n: int) -> int:
        done = compiled(mt.ones((n, n), chunk_size=n) @ mt.ones((n, n), chunk_size=n), fuse_enabled=False)
        return max(signature(program).size for program in done.after.programs)

    assert size(64) == 8 * 64**3
    assert size(128) == 8 * size(64)


def test_values_are_no_part_of_a_key():
    one, other = compiled(mt.ones(8) * 3.25), compiled(mt.ones(8) * 1e6)
    assert [signature(p) for p in one.after.programs] == [signature(p) for p in other.after.programs]


def test_stored_chunks_cost_nothing():
    x = mt.ones(100, chunk_size=10)
    graph = TensorGraph.of([(x + 1).data], held={x.data.key})
    done = compile_graph(graph, config.task)
    cost = annotate(done.after, done.dag, Profile()).cost
    assert (cost[done.after.program < 0] == 0).all()
    assert (cost[done.after.program >= 0] > 0).all()


def test_executors_of_a_host_are_the_cores_of_one_worker():
    done = compiled(mt.ones(1000, chunk_size=100) + 1, fuse_enabled=False)
    graph = annotate(done.after, done.dag, Profile(disk=5e8))
    host = one_host(Profile(disk=5e8), 2, 10**6)
    assert host.disk.tolist() == [5e8]
    result = simulate(graph, host, np.zeros(graph.n), done.rank)
    assert result.moved == 0
    assert result.makespan == pytest.approx(graph.cost.sum() / 2)
