"""Events: each operand goes its way once, counts add up, a replay of the log gives the live state, memory is told."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import numpy as np

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.client.job import Job
from jmars.model.status import OperandState
from jmars.notebook.run_state import RunState
from tests.contract.engine.kinds import until


def work() -> mt.Tensor:
    """Uploads, a tree, a mask: two stages."""
    x = mt.asarray(np.arange(1000) % 97, chunk_size=90)
    y = (mt.sin(x) + mt.roll(x, 13)).sum() + x.max()
    return x[x > 90].sum() + y


def read(cluster: Cluster, job: Job, since: int = 0) -> tuple[list[Any], int]:
    """All events after number `since`."""
    events: list[Any] = []
    while True:
        found, last = cluster.events(since, job.id)
        events += found
        if not found or last <= since:
            return events, since
        since = last


def ways(job: Job) -> dict[tuple[int, int], list[int]]:
    """States of each operand, by stage and number, in the order of the log."""
    stage, found = 0, defaultdict(list)
    for _, _, kind, of, data in job.events():
        if of == job.id and kind == "GraphBuilt":
            stage = data["stage_number"]
            for number in range(data["n_after"]):
                found[stage, number] = []
        if of == job.id and kind == "OperandsMoved":
            for number in np.frombuffer(data["ids"], "<u4").tolist():
                found[stage, number].append(data["state"])
    return found


def test_every_operand_is_ready_runs_and_finishes_once(cluster):
    job = cluster.submit(work())
    job.result(30)
    found = ways(job)
    ready, running, finished, freed = (OperandState[name] for name in ("READY", "RUNNING", "FINISHED", "FREED"))
    way = [ready, running, finished]
    for states in found.values():
        assert states in (way, [*way, freed], [freed]), found  # the last: chunks that were brought
    assert sum(states == [freed] for states in found.values()) == 12
    told = job.describe()
    assert told["operands"] == len(found) == sum(told["counts"].values())
    assert told["counts"]["finished"] + told["counts"]["freed"] + told["counts"]["spilled"] == len(found)
    assert sum(states[-1] == OperandState.FREED for states in found.values()) == told["counts"]["freed"]


def test_moves_name_a_worker_and_times_are_told_once(cluster):
    job = cluster.submit(work())
    job.result(30)
    events = [event for event in job.events() if event[3] == job.id]
    n_workers = len(cluster.info()["workers"])
    runs = [event[4]["worker"] for event in events if event[2] == "OperandsMoved" and event[4]["state"] == 2]
    assert runs and set(runs) <= set(range(n_workers))
    timed = sum(len(event[4]["ids"]) // 4 for event in events if event[2] == "OperandsTimed")
    assert timed == job.describe()["operands"] - 12  # which were brought
    assert [event[0] for event in events] == sorted({event[0] for event in events})
    assert [event[4]["state"] for event in events if event[2] == "JobMoved"][-1] == "succeeded"


def test_a_replay_of_the_log_gives_the_live_state(cluster):
    job = cluster.submit(work(), name="live")
    live, since = RunState(), 0
    live.follow(job.id, "live")
    ended = False
    while not ended:
        ended = job.wait(0.005)
        found, since = read(cluster, job, since)
        live.fold(found)
    until(lambda: read(cluster, job, since)[0] == [] or not live.fold(read(cluster, job, since)[0]))
    again = RunState()
    again.follow(job.id, "live")
    again.fold(event for event in read(cluster, job)[0] if event[0] <= max(live.seq, live.job.seq))
    now = time.time()
    first, second = live.picture(now), again.picture(now)
    ours = [name for name in first if name not in ("series", "workers")]  # of the cluster: begin before the job
    for name in ours:
        assert first[name] == second[name], name
    assert first["snap"]["state"] == "succeeded"
    counts = job.describe()["counts"]
    assert first["snap"]["counts"] == [counts[state.name.lower()] for state in OperandState]
    assert sum(first["snap"]["counts"]) == first["snap"]["n"] == job.describe()["operands"]


def test_memory_is_told(cluster):
    x = mt.ones((1000, 1000), chunk_size=250) * 2
    cluster.submit(x).wait(30)
    memory = cluster.info()["memory"]
    assert memory["limit"] == cluster.memory_limit > 0
    assert memory["chunks"] >= 16 and memory["peak"] >= memory["resident"] > 0 and memory["spilled"] >= 0
    until(lambda: all(row.get("memory", 0) > 0 for row in cluster.info()["workers"]))  # an engine tells it now and then

    def told() -> bool:
        events = [event[4] for event in cluster.events()[0] if event[2] == "MemoryChanged"]
        return bool(events) and events[-1]["limit"] == memory["limit"] and len(events[-1]["workers"]) == 2

    until(told)
    value = x.fetch()
    assert value.sum() == 2e6


def test_chunks_that_are_held_are_told_in_bytes(cluster):
    x = mt.ones((1000, 1000), chunk_size=250) * 2
    cluster.submit(x).wait(30)
    until(lambda: [e for e in cluster.events()[0] if e[2] == "MemoryChanged"][-1][4]["used"] >= 8_000_000)
    assert x.shape == (1000, 1000)
