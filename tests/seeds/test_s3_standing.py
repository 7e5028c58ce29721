"""Seed 003, "执行控制" and "Worker 中的执行细节": executable graphs, a worker's four states, what is left of a run."""

import json
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.kernels import run_executable
from jmars.model.timing import STATES, spans
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import catch_up


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2, memory_limit="400MiB") as one:
        yield one


def test_s3_20_an_operand_runs_standalone_from_json(cluster):
    x = mt.arange(12.0, chunk_size=4)
    job = cluster.submit((x * x[::-1] + 1).sum())
    expected = job.result()
    graphs = [json.loads(json.dumps(job.operand(number))) for number in range(job.describe()["operands"])]
    chunks = {}
    for graph in graphs:  # in the order of operands each comes after what it reads
        *fetches, _ = graph["nodes"]
        assert all(node["op"] == "Fetch" for node in fetches)
        assert graph["edges"] == [[place, len(fetches)] for place in range(len(fetches))]
        inputs = [chunks[node["operand"]] for node in fetches]
        chunks[graph["about"]["operand"]] = run_executable(graph, inputs)
    (last,) = [graph for graph in graphs if all(graph["about"]["operand"] not in _read(other) for other in graphs)]
    assert float(chunks[last["about"]["operand"]].reshape(())) == float(expected)
    assert "job = cluster.submit" in last["about"]["words"]


def _read(graph):
    return {node.get("operand") for node in graph["nodes"][:-1]}


def test_s3_26_the_lanes_of_the_view_show_all_four_states_of_operands(cluster):
    size = cluster.capacity // 8 // 16
    kept = [mt.random.default_rng(seed).random(4 * size, chunk_size=size) for seed in range(6)]  # more than memory
    assert cluster.submit(*kept).wait(60)  # some of it is on disk now, and must be read
    # what is picked is stored when its size is known; all else is written where it stays
    job = cluster.submit(*[(one * 2).sum() for one in kept], *[one[one > 0.99] for one in kept])
    assert job.wait(60) and job.error is None
    timed = [event for event in job.events() if event[2] == "OperandsTimed"]
    found = np.concatenate([spans(event[1], event[4]) for event in timed])
    assert len(set(found[:, 5])) == job.describe()["operands"] - 6 * 4  # all but those that are there
    run = RunState()
    run.follow(job.id)
    catch_up(cluster.events, run)
    lanes = run.picture(time.time())["lanes"]
    took = np.sum([np.sum(lane["took"], axis=0) for lane in lanes["lanes"]], axis=0)
    assert sum(sum(lane["n"]) for lane in lanes["lanes"]) == len(found)
    assert (took > 0).all(), dict(zip(STATES, took))
    for lane in lanes["lanes"]:
        assert all(begin <= end for begin, end in zip(lane["begin"], lane["end"]))


@pytest.mark.long
def test_s3_39_what_is_left_is_told_within_twice_the_truth_on_a_steady_run():
    def rests(block):
        time.sleep(0.05)
        return block

    with Cluster(n_workers=2, memory_limit="300MiB") as cluster:
        job = cluster.submit(mt.map_blocks(rests, mt.ones(120, chunk_size=1), dtype=float))
        told = []
        while not job.wait(0.1):
            left = job.describe()["eta"]
            if left is not None:
                told.append((time.monotonic(), left))
        end = time.monotonic()
        assert job.error is None
        expected = [event[4]["left"] for event in job.events() if event[2] == "Expected"]
    whole = end - told[0][0]
    checked = [(end - at, left) for at, left in told if 0.2 * whole < end - at < 0.8 * whole]
    assert len(checked) >= 5
    within = [true / 2 <= left <= 2 * true for true, left in checked]
    assert sum(within) >= 0.9 * len(within), checked  # a busy machine may stop everything for a moment
    assert expected  # and the view hears of it without asking
