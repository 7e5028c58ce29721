"""Cores or GPUs: work goes to a GPU where the copies cost less than they save, and never where it may not run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.errors import MemoryLimitError
from jmars.graph import Dag
from jmars.plan import ANY, CPU, GPU, PlanGraph, Workers, simulate
from jmars.plan.devices import choose_devices, device_choices
from jmars.plan.plan_graph import UNLIMITED

MB = 10**6


def rows(cores: int = 4, gpus: int = 1, link: float = 6e9, memory: int = UNLIMITED) -> Workers:
    n = 1 + gpus
    return Workers.build(
        n,
        cores=[cores, *[1] * gpus],
        memory=[UNLIMITED, *[memory] * gpus],
        device=[CPU, *[GPU] * gpus],
        bandwidth=link,
        latency=0.0,
    )


def chain(length: int, chunks: int, seconds: float, nbytes: int) -> tuple[PlanGraph, np.ndarray, np.ndarray]:
    """Stored chunks, each followed by a chain; the group of an operand is its place in the chain."""
    n, each = chunks * (length + 1), length + 1
    edges = [i for i in range(n) if i % each < length]
    cost = np.where(np.arange(n) % each == 0, 0.0, seconds)
    graph = PlanGraph.build(Dag.from_edges(n, edges, [i + 1 for i in edges]), cost, nbytes)
    return graph, np.where(np.arange(n) % each == 0, 0, -1), np.arange(n) % each


def test_a_long_chain_goes_to_the_gpu():
    graph, placed, group = chain(10, chunks=8, seconds=0.1, nbytes=100 * MB)
    found = choose_devices(graph, graph.cost / 25, rows(), group, placed)
    assert found.way != "cores" and set(found.graph.device[placed < 0].tolist()) == {GPU}
    assert set(found.choice.plan.assign[placed < 0].tolist()) == {1}
    cores = choose_devices(graph, graph.cost / 25, rows(), group, placed, ways=["cores"])
    assert found.choice.predicted.makespan < cores.choice.predicted.makespan / 2


def test_a_cheap_operand_on_stored_data_stays_on_cores():
    graph, placed, group = chain(1, chunks=8, seconds=0.02, nbytes=100 * MB)
    found = choose_devices(graph, graph.cost / 25, rows(), group, placed)
    assert found.way == "cores" and set(found.graph.device.tolist()) == {CPU}
    fast = choose_devices(graph, graph.cost / 25, rows(link=1e12), group, placed)
    assert GPU in fast.graph.device, "over a link that costs nothing it goes"


def test_an_operand_in_the_middle_that_only_cores_can_run_stays_there():
    graph, placed, group = chain(9, chunks=4, seconds=0.5, nbytes=100 * MB)
    device = np.where(group == 5, CPU, ANY).astype(np.uint8)
    graph = PlanGraph.build(graph.dag, graph.cost, graph.nbytes, device=device)
    found = choose_devices(graph, graph.cost / 25, rows(), group, placed)
    where = found.choice.plan.assign[placed < 0]
    assert set(where[group[placed < 0] == 5].tolist()) == {0}
    assert set(where[group[placed < 0] != 5].tolist()) == {1}


def test_an_operand_that_must_run_on_a_gpu_does():
    graph, placed, group = chain(3, chunks=2, seconds=0.001, nbytes=100 * MB)
    device = np.where(group == 2, GPU, ANY).astype(np.uint8)
    graph = PlanGraph.build(graph.dag, graph.cost, graph.nbytes, device=device)
    for ways in (["cores"], ["both"], ["gpus"]):
        found = choose_devices(graph, graph.cost * 9, rows(), group, placed, ways=ways)
        assert set(found.choice.plan.assign[group == 2].tolist()) == {1}


def test_an_operand_too_large_for_the_gpu_stays_on_cores():
    graph, placed, group = chain(10, chunks=2, seconds=0.1, nbytes=100 * MB)
    assert GPU in device_choices(graph, graph.cost / 25, rows(memory=200 * MB), group, placed)["gpus"]
    small = device_choices(graph, graph.cost / 25, rows(memory=199 * MB), group, placed)
    assert all(GPU not in device for device in small.values())
    must = PlanGraph.build(graph.dag, graph.cost, graph.nbytes, device=np.where(placed < 0, GPU, ANY).astype(np.uint8))
    with pytest.raises(MemoryLimitError):
        choose_devices(must, graph.cost, rows(memory=199 * MB), group, placed)


def test_several_gpus_share_the_work():
    graph, placed, group = chain(10, chunks=8, seconds=0.1, nbytes=10 * MB)
    found = choose_devices(graph, graph.cost / 25, rows(gpus=2), group, placed)
    assert set(found.choice.plan.assign[placed < 0].tolist()) == {1, 2}


def by_hand(graph: PlanGraph, gpu_cost: np.ndarray, workers: Workers, device: np.ndarray) -> float:
    """The sum that the cut makes least, each operand a group of its own."""
    src, dst = graph.dag.edges()
    link = workers.bandwidth[0, 1]
    total = float(np.where(device == GPU, gpu_cost, graph.cost).sum())
    pairs = {(int(a), int(device[b])) for a, b in zip(src, dst, strict=True) if device[a] != device[b]}
    return total + sum(float(graph.nbytes[a]) / link for a, _ in pairs)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_other_division_costs_less_than_the_cut(data):
    n = data.draw(st.integers(1, 7))
    edges = [(a, b) for b in range(n) for a in range(b) if data.draw(st.booleans())]
    cost = [data.draw(st.integers(0, 20)) / 4 for _ in range(n)]
    gpu_cost = np.array([data.draw(st.integers(0, 20)) / 4 for _ in range(n)])
    device = np.array([data.draw(st.sampled_from([ANY, ANY, CPU, GPU])) for _ in range(n)], np.uint8)
    nbytes = [data.draw(st.integers(0, 8)) for _ in range(n)]
    graph = PlanGraph.build(Dag.from_edges(n, *zip(*edges, strict=True)) if edges else Dag.from_edges(n, [], []),
                            cost, nbytes, device=device)  # fmt: skip
    workers = rows(cores=1, link=2.0)
    cut = device_choices(graph, gpu_cost, workers, np.arange(n), np.full(n, -1))["both"]
    free = [[CPU, GPU] if one == ANY else [int(one)] for one in device]
    least = min(by_hand(graph, gpu_cost, workers, np.array(one)) for one in itertools.product(*free))
    assert by_hand(graph, gpu_cost, workers, cut) == pytest.approx(least)
    assert all(one in (ANY, where) for one, where in zip(device.tolist(), cut.tolist(), strict=True))


def test_the_simulation_copies_over_the_link():
    graph, placed, group = chain(1, chunks=1, seconds=1.0, nbytes=600 * MB)
    found = choose_devices(graph, graph.cost / 2, rows(link=6e9), group, placed, ways=["gpus"])
    result = simulate(found.graph, rows(link=6e9), found.choice.plan.assign, found.choice.plan.rank, placed=placed)
    assert result.moved == 600 * MB and result.makespan == pytest.approx(0.1 + 0.5)
