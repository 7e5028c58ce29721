"""Seed 004's shared memory with page-out, and its workers: what goes to disk first, and runs that leave nothing."""

import os

import numpy as np
import psutil
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.model.limits import PAGE
from jmars.storage.arena import Allocator
from jmars.storage.chunks import Chunks
from tests.contract.engine.kinds import until


def four_chunks() -> Chunks:
    """Chunk k is read next at place k of the order; 3 is read no more."""
    chunks = Chunks(Allocator(4 * PAGE), next_use=[2, 0, 1, 10**9].__getitem__)
    for chunk in range(4):
        chunks.memory[chunk] = chunks.allocator.allocate(PAGE)
    return chunks


def test_s4_25_the_chunk_read_last_is_paged_out_first():
    chunks = four_chunks()
    assert chunks.victims(4 * PAGE, in_use=()) == [3, 0, 2, 1]
    chunks.pin(3)
    assert chunks.victims(2 * PAGE, in_use={0}) == [2, 1]


@pytest.mark.long
def test_s4_25_a_reader_never_sees_a_half_paged_block():
    with Cluster(n_workers=2, memory_limit="200MiB") as cluster:
        x = mt.arange(40_000_000, chunk_size=1_000_000)  # 320 MB, all of it kept
        cluster.submit(x).wait(60)
        for shift in range(3):
            job = cluster.submit(((x + shift) - mt.arange(40_000_000, chunk_size=1_000_000) == shift).all())
            assert job.result(60)
        assert cluster.info()["memory"]["reloaded_total"] > 0


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("runs", [1, 3])
def test_s4_7_long_and_short_lived_workers_give_equal_results(runs):
    def work(k):
        return (mt.arange(1000, chunk_size=300) * k).sum()

    with Cluster(n_workers=2) as cluster:  # long: several runs on the same
        found = [int(cluster.submit(work(k)).result()) for k in range(runs)]
        control = psutil.Process(cluster.info()["scheduler"]["pid"])
        processes = [control, *control.children(recursive=True)]
    for k in range(runs):  # one each
        with Cluster(n_workers=2) as cluster:
            assert int(cluster.submit(work(k)).result()) == found[k] == int((np.arange(1000) * k).sum())
    gone, alive = psutil.wait_procs(processes, timeout=60)
    assert len(gone) >= 3 and not alive


def _pid(block):
    return block * 0 + os.getpid()


def test_s4_7_an_ephemeral_worker_computes_one_operand_and_ends():
    def pids():
        return mt.map_blocks(_pid, mt.ones(12, chunk_size=1), dtype=float).execute().fetch().astype(int).tolist()

    x = mt.arange(1000, chunk_size=100)
    with Cluster(n_workers=2) as cluster:
        kept = pids()
        with config.using(task=config.task | {"ephemeral": True}):
            own = pids()
            total = (x * x[::-1]).sum().execute().fetch()
        assert len(set(kept)) <= 2 and len(set(own)) == 12
        until(lambda: not any(map(psutil.pid_exists, own)))
        assert total == (np.arange(1000) * np.arange(1000)[::-1]).sum()
        again = pids()  # the workers are there still, with other processes
        assert len(set(again)) <= 2 and not set(again) & set(own)
        assert {worker["state"] for worker in cluster.info()["workers"]} <= {"idle", "busy", "starting", ""}
