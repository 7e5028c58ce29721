"""Schedulers in processes of their own on a cluster that ends with its kernel: one dies, and the jobs go on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.deploy.control_process import ended_within
from jmars.errors import SettingError


@pytest.fixture
def three():
    """A cluster of two workers and three schedulers."""
    with jmars.Cluster(n_workers=2, memory_limit="512MiB", schedulers=3) as started:
        while 3 not in spread_over(started):  # until all take connections
            started.submit(mt.map_blocks(abs, mt.arange(400, chunk_size=2), dtype="i8").sum()).result(60)
        yield started


def spread_over(cluster):
    """How many schedulers had operands, of each job that was spread."""
    return [len(e[4]["operands"]) for e in cluster.events()[0] if e[2] == "OperandsSpread"]


def processes(cluster):
    return cluster.info()["scheduler"]["processes"]


def moves(cluster):
    return [(e[4]["name"], e[4]["state"]) for e in cluster.events()[0] if e[2] == "SchedulerMoved"]


@pytest.fixture
def cluster():
    """A cluster of two workers and a scheduler apart, which ends with this process."""
    with jmars.Cluster(n_workers=2, memory_limit="512MiB", schedulers=1) as started:
        yield started


def noted(folder):
    """A function of a block that leaves a line for each of its runs."""

    def note(chunk):
        import os
        import time
        import uuid

        open(os.path.join(folder, f"{int(chunk.flat[0])}-{uuid.uuid4().hex}"), "w").close()
        time.sleep(0.01)
        return chunk

    return note


def kill_scheduler(cluster):
    pid = cluster.info()["scheduler"]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert ended_within(pid, 60)


def selected(folder):
    """A job of three stages and its values; a line in `folder` for each run of a block of the first and second."""
    first, second = folder / "first", folder / "second"
    first.mkdir()
    second.mkdir()
    x = mt.map_blocks(noted(str(first)), mt.arange(4000, chunk_size=100), dtype="i8")
    few = x[x % 3 == 0]
    again = mt.map_blocks(noted(str(second)), few, dtype="i8")
    thirds = np.arange(0, 4000, 3)
    return (again * 2)[again % 2 == 0], thirds[thirds % 2 == 0] * 2, first, second


def test_a_job_of_several_stages_goes_on_behind_its_last_ended_stage(cluster, tmp_path):
    tensor, value, first, second = selected(tmp_path)
    job = cluster.submit(tensor)
    while len(os.listdir(second)) < 8:
        time.sleep(0.005)
    kill_scheduler(cluster)
    assert np.array_equal(job.result(60), value)
    assert len(os.listdir(first)) == 40, "no block of the first stage ran twice"
    assert 40 <= len(os.listdir(second)) <= 42, "of the second those that ran when it died, at most"
    del tensor, job
    assert cluster.info()["memory"]["chunks"] == 0


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("seed", range(6))
def test_kills_at_random_moments_of_a_job_of_several_stages(cluster, tmp_path, seed):
    pause = random.Random(seed)
    tensor, value, first, second = selected(tmp_path)
    job = cluster.submit(tensor)
    end = time.monotonic() + pause.uniform(0, 0.8)
    job.wait(end - time.monotonic())
    kill_scheduler(cluster)
    assert np.array_equal(job.result(60), value)
    assert len(os.listdir(first)) + len(os.listdir(second)) <= 80 + 4
    del tensor, job
    assert cluster.info()["memory"]["chunks"] == 0


@pytest.mark.long
def test_a_sort_and_a_loop_go_on(cluster):
    rng = np.random.default_rng(3)
    values = rng.random(200_000)
    ordered = mt.sort(mt.asarray(values, chunk_size=10_000))
    count = mt.while_loop(lambda n, x: x.sum() > 1, lambda n, x: (n + 1, x / 2), (0, mt.ones(4000, chunk_size=400)))
    one, other = cluster.submit(ordered), cluster.submit(count[0])
    time.sleep(0.1)
    kill_scheduler(cluster)
    assert np.array_equal(one.result(60), np.sort(values))
    assert int(other.result(60)) == 12


def test_the_setting_gives_schedulers_to_clusters_that_do_not_say_how_many(monkeypatch):
    with pytest.raises(ValueError, match="schedulers is 17; give a whole number from 0 to 16"):
        jmars.Cluster(schedulers=17)
    monkeypatch.setenv("JMARS_SCHEDULERS", "many")
    with pytest.raises(SettingError, match="JMARS_SCHEDULERS: schedulers is 'many'"):
        type(config)()
    monkeypatch.setenv("JMARS_SCHEDULERS", "2")
    assert type(config)().schedulers == 2


def spread(folder):
    """A job whose operands are spread over schedulers and take a second or so, and its value."""
    x = mt.map_blocks(noted(str(folder)), mt.arange(20_000, chunk_size=200), dtype="i8")
    return (x[::-1] + x).sum(), 20_000 * 19_999


def test_each_of_three_dies_and_no_operand_runs_twice(three, tmp_path):
    for name in ("scheduler-1", "scheduler", "scheduler-2"):
        runs = tmp_path / name
        runs.mkdir()
        tensor, value = spread(runs)
        job = three.submit(tensor)
        while len(os.listdir(runs)) < 20:
            time.sleep(0.002)
        pid = processes(three)[name]
        os.kill(pid, signal.SIGKILL)
        assert ended_within(pid, 60)
        assert job.result(60) == value
        assert 100 <= len(os.listdir(runs)) <= 102
        if name == "scheduler-1":
            assert (name, "shards taken over") in moves(three)
        del tensor, job
    while len(processes(three)) < 3:
        time.sleep(0.02)  # the next ones are started
    assert three.info()["memory"]["chunks"] == 0


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("seed", range(5))
def test_kills_of_any_scheduler_at_random_moments(three, tmp_path, seed):
    draw = random.Random(seed)
    runs = tmp_path / "runs"
    runs.mkdir()
    (tensor, value), (staged, selection, *_) = spread(runs), selected(tmp_path)
    one, other = three.submit(tensor), three.submit(staged)
    kills = 0
    while not (one.wait(draw.uniform(0.05, 0.4)) and other.wait(0)) and kills < 3:
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.kill(draw.choice(list(processes(three).values())), signal.SIGKILL)
            kills += 1
    assert one.result(60) == value
    assert np.array_equal(other.result(60), selection)
    assert len(os.listdir(runs)) <= 100 + 2 * kills
    del tensor, staged, one, other
    assert three.info()["memory"]["chunks"] == 0


@pytest.mark.long
def test_a_scheduler_that_stands_still_is_not_waited_for(three, tmp_path):
    tensor, value = spread(tmp_path)
    job = three.submit(tensor)
    while len(os.listdir(tmp_path)) < 10:
        time.sleep(0.005)
    pid = processes(three)["scheduler-1"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert job.result(60) == value
    finally:
        os.kill(pid, signal.SIGCONT)


def test_nothing_is_left_after_a_close_or_a_kill_of_the_control_process():
    for how in ("close", "kill"):
        cluster = jmars.Cluster(n_workers=1, memory_limit="320MiB", schedulers=2)
        pids = list(processes(cluster).values())
        if how == "kill":
            os.kill(cluster._host.pid, signal.SIGKILL)
        cluster.close()
        assert all(ended_within(pid, 60) for pid in pids)
