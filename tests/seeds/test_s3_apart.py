"""Seed 003, "架构" and "未来工作": scheduler and workers are services of their own, and the scheduler may die."""

import os
import signal
import time

import numpy as np
import psutil

import jmars
import jmars.tensor as mt
from jmars.deploy.control_process import ended_within
from jmars.model.status import OperandState


def test_s3_1_scheduler_and_workers_are_processes_of_their_own():
    cluster = jmars.Cluster(n_workers=2, memory_limit="512MiB", detach=True)
    try:
        assert float(mt.ones(100, chunk_size=10).sum().fetch()) == 100
        info = cluster.info()
        pids = [info["host"]["pid"], info["scheduler"]["pid"], *(worker["pid"] for worker in info["workers"])]
        assert len(set(pids)) == 4
        assert psutil.Process(info["scheduler"]["pid"]).cmdline()[-2:] == ["jmars", "scheduler"]
        assert psutil.Process(info["host"]["pid"]).cmdline()[-2:] == ["jmars", "host"]
        assert all(psutil.Process(worker["pid"]).is_running() for worker in info["workers"])
    finally:
        cluster.stop()


def test_s3_38_a_killed_scheduler_is_followed_by_one_with_its_journal():
    def slowly(chunk):
        import time

        time.sleep(0.02)
        return chunk + 1

    cluster = jmars.Cluster(n_workers=2, memory_limit="512MiB", detach=True)
    try:
        x = mt.map_blocks(slowly, mt.arange(3000, chunk_size=50), dtype="i8")
        job = cluster.submit(x, (x * 2).sum())
        since, moves = 0, []

        def look():
            nonlocal since
            events, since = cluster.events(since, job.id)
            moves.extend(event[4] for event in events if event[2] == "OperandsMoved")

        while job.progress < 0.4:
            look()
            time.sleep(0.01)
        look()
        first, workers = cluster.info()["scheduler"]["pid"], [one["pid"] for one in cluster.info()["workers"]]
        os.kill(first, signal.SIGKILL)
        assert ended_within(first, 60)
        values, total = job.result(60)
        look()
        assert np.array_equal(values, np.arange(3000) + 1)
        assert total == 2 * (np.arange(3000) + 1).sum()
        info = cluster.info()
        assert info["scheduler"]["pid"] not in (0, first)
        assert [one["pid"] for one in info["workers"]] == workers  # they kept their chunks
        done: set[int] = set()
        for move in moves:
            ids = np.frombuffer(move["ids"], "<u4").tolist()
            if move["state"] == OperandState.RUNNING:
                assert not done.intersection(ids)  # nothing that had finished ran again
            elif move["state"] == OperandState.FINISHED:
                done.update(ids)
        assert os.path.getsize(cluster._host.folders.journal) > 0
    finally:
        cluster.stop()
