"""Spill under fault: the right value, or a clear error; nothing left."""

import os
import resource
import signal

import numpy as np
import psutil
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import ChunkLostError, StorageError
from tests.cluster.operands import apply, numbers, total

COUNT, SIZE = 60, 2**20  # 480 MiB


def double(out, inputs, number):
    np.multiply(inputs[0], 2, out=out)


def run(cluster, node):
    return cluster.submit_data([node], single=True).result(60)


@pytest.mark.long
def test_a_mover_killed_again_and_again_costs_no_chunk(tmp_path):
    with Cluster(n_workers=2, memory_limit="240MiB", spill_dir=tmp_path) as cluster:
        node = numbers(COUNT, SIZE)
        job = cluster.submit_data([node])
        kills = 0
        while not job.wait(0.03):
            kills += _kill_mover(cluster)
        assert kills
        job = cluster.submit_data([total(apply(double, node))], single=True)
        while not job.wait(0.03):
            _kill_mover(cluster)
        assert job.result() == 2 * SIZE * sum(range(COUNT))
    assert not list(tmp_path.iterdir())


def damage(path, how):
    if how == "flip":
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(b"\x01\x02")
    elif how == "truncate":
        os.truncate(path, 1000)
    else:
        path.unlink()


HOW = ["flip", "truncate", "delete"]


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("how", HOW)
def test_damaged_chunks_of_an_earlier_job_are_computed_again(tmp_path, how):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path) as cluster:
        node = numbers(COUNT, SIZE)
        assert cluster.submit_data([node]).wait(60)
        for path in tmp_path.glob("*/*"):
            damage(path, how)
        job = cluster.submit_data([total(node)], single=True)
        first = job.id
        assert job.result(60) == SIZE * sum(range(COUNT))
        assert job.id != first and cluster.ask("session", "describe", first)["state"] == "failed"


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("how", HOW)
def test_what_is_fetched_and_damaged_is_computed_again(tmp_path, how):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path) as cluster:
        node = numbers(COUNT, SIZE)
        job = cluster.submit_data([node], single=True)
        assert job.wait(60)
        for path in tmp_path.glob("*/*"):
            damage(path, how)
        assert (job.result()[::SIZE] == np.arange(COUNT)).all()


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("how", HOW)
def test_chunks_damaged_in_mid_run_are_computed_again_and_nothing_else(tmp_path, how):
    with Cluster(n_workers=2, memory_limit="240MiB", spill_dir=tmp_path) as cluster:
        node = apply(double, numbers(COUNT, SIZE))
        job = cluster.submit_data([node, total(apply(double, node))])
        damaged = 0
        while not job.wait(0.02):
            for path in list(tmp_path.glob("*/*"))[: 2 if damaged < 10 else 0]:
                try:
                    damage(path, how)
                    damaged += 1
                except FileNotFoundError:  # it was read back and deleted meanwhile
                    pass
        assert job.result()[1] == 4 * SIZE * sum(range(COUNT))
        assert damaged


@pytest.mark.long
def test_lost_tensors_and_tensors_made_of_them_are_computed_again(tmp_path):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path):
        many = [(mt.ones(2**22, chunk_size=2**18) * k).execute() for k in range(1, 9)]
        made = [mt.ones(2**21, chunk_size=2**18).execute()]
        for _ in range(6):
            made.append((made[-1] + 1).execute())
        later = (mt.ones(2**24, chunk_size=2**20) * 2).execute()  # all of them go to disk
        for path in tmp_path.glob("*/*"):
            path.unlink()
        assert float(sum(many[1:], many[0]).sum().fetch()) == 36 * 2**22
        assert float((made[-1] * 2).sum().fetch()) == 14 * 2**21
        assert float(later[:1].sum().fetch()) == 2


@pytest.mark.long
def test_an_array_from_the_notebook_that_was_lost_is_sent_again(tmp_path):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path) as cluster:
        array = np.arange(COUNT * SIZE // 2, dtype=np.float64)
        x = mt.asarray(array, chunk_size=SIZE)
        job = cluster.submit(x + 1, (x * 2).sum())
        while not cluster.info()["memory"]["spilled"] and not job.wait(0):
            pass
        for path in tmp_path.glob("*/*"):
            path.unlink(missing_ok=True)
        more, twice = job.result(60)
        assert (more == array + 1).all() and twice == 2 * array.sum()


@pytest.mark.long
def test_what_another_cluster_has_lost_is_computed_where_it_is_needed(tmp_path):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path) as one:
        node = numbers(COUNT, SIZE)
        assert one.submit_data([node]).wait(60)
        with Cluster(n_workers=1, memory_limit="400MiB") as other:
            for path in tmp_path.glob("*/*"):
                path.unlink()
            assert run(other, total(node)) == SIZE * sum(range(COUNT))
            assert not one.retains(node)


@pytest.mark.long
def test_a_job_of_stages_with_chunks_damaged_between_them_ends_well(tmp_path):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path) as cluster:
        x = mt.arange(30 * SIZE, chunk_size=SIZE, dtype=np.float64)
        job = cluster.submit((x[x % 2 == 0] * 2).sum(), x[x > 5].max())
        gone = 0
        while not job.wait(0.01):
            for path in list(tmp_path.glob("*/*"))[: 3 if gone < 6 else 0]:
                path.unlink(missing_ok=True)
                gone += 1
        assert gone and job.result() == [2.0 * (15 * SIZE) * (15 * SIZE - 1), 30 * SIZE - 1]


@pytest.mark.long
def test_a_job_whose_array_has_changed_since_is_not_submitted_again(tmp_path):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path) as cluster:
        array = np.ones(40 * SIZE)
        x = mt.asarray(array, chunk_size=SIZE)
        cluster.submit(x).wait(60)
        for path in tmp_path.glob("*/*"):
            path.unlink()
        array[0] = 5  # what was sent is lost, and what it was sent from is something else now
        with pytest.raises(ChunkLostError, match=r"run the cell that made them|compute it again"):
            cluster.submit((x * 2).sum()).result(60)
        assert run(cluster, total(numbers(3))) == 30


@pytest.mark.long
def test_a_disk_that_takes_no_more_is_a_clear_error_and_the_next_job_runs(tmp_path):
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=tmp_path) as cluster:
        zygote = psutil.Process(cluster.info()["workers"][0]["pid"]).ppid()
        before = psutil.Process(zygote).rlimit(resource.RLIMIT_FSIZE)
        psutil.Process(zygote).rlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))  # the mover inherits it
        with pytest.raises(StorageError, match=r"cannot spill .*File too large; free disk space"):
            run(cluster, numbers(COUNT, SIZE))
        assert run(cluster, total(numbers(3))) == 30
        assert not list(tmp_path.glob("*/*"))


@pytest.mark.long
def test_executors_killed_while_chunks_are_spilled(tmp_path):
    with Cluster(n_workers=2, memory_limit="240MiB", spill_dir=tmp_path) as cluster:
        node = numbers(COUNT, SIZE)
        job = cluster.submit_data([node, total(apply(double, node))])
        rounds = 0
        while not job.wait(0.1):
            rounds += 1
            if rounds <= 4:  # each worker twice; a third time in a row would blame the operand
                os.kill(cluster.info()["workers"][rounds % 2]["pid"], signal.SIGKILL)
        assert job.result()[1] == 2 * SIZE * sum(range(COUNT))
        memory = cluster.info()["memory"]
        assert memory["spilled_total"] > 0 and memory["peak"] <= 1.1 * memory["limit"]


def _kill_mover(cluster) -> int:
    zygote = psutil.Process(cluster.info()["workers"][0]["pid"]).parent()
    workers = {worker["pid"] for worker in cluster.info()["workers"]}
    movers = [child for child in zygote.children() if child.pid not in workers]
    for mover in movers:
        mover.kill()
    return len(movers)


@pytest.mark.long
def test_a_spill_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    folder = tmp_path / "spill"
    folder.mkdir()
    with Cluster(n_workers=1, memory_limit="220MiB", spill_dir=folder) as cluster:
        folder.rmdir()
        folder.write_text("in the way")
        with pytest.raises(StorageError, match="cannot make the spill folder"):
            run(cluster, numbers(COUNT, SIZE))
        assert run(cluster, total(numbers(3))) == 30
        folder.unlink()  # it may get well again
        folder.mkdir()
        assert cluster.submit_data([numbers(COUNT, SIZE)]).wait(60)
        assert cluster.info()["memory"]["spilled_total"] > 0
