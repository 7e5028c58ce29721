"""Several clients of one cluster: found by name, jobs taken up, and each one's tensors its own."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import jmars
import jmars.remote
import jmars.tensor as mt
from jmars.client.cluster import default_cluster, open_clusters
from jmars.errors import ClusterError, ClusterLostError, ClusterStoppedError, UnknownTaskError


def in_another_process(program: str) -> str:
    """What a program prints in a Python of its own, which must end well."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_another_process_runs_on_the_cluster_that_it_finds_by_name():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB", name="shared") as cluster:
        program = """
import numpy, jmars, jmars.tensor as mt
with jmars.connect("shared") as cluster:
    values = numpy.arange(200_000.0)
    assert (mt.asarray(values, chunk_size=50_000) * 2).sum().execute().fetch() == 2 * values.sum()
    print(cluster.id, cluster.n_workers, len(cluster.jobs()))
"""
        assert in_another_process(program) == f"{cluster.id} 1 1"
        assert cluster.info()["memory"]["chunks"] == 0  # what the other one held went with it
        assert int(mt.arange(10, chunk_size=4).sum().fetch()) == 45


def test_a_job_is_taken_up_by_another_client():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB", name="ours") as cluster:
        job = cluster.submit(mt.arange(1000, chunk_size=300) * 2, mt.ones(5, dtype="f4"))
        with jmars.connect(cluster.id) as other:
            same = other.job(job.id)
            first, second = same.result(60)
            assert np.array_equal(first, np.arange(1000) * 2)
            assert second.dtype == np.float32 and second.sum() == 5
            assert int((same.tensors[0] + 1).sum().fetch()) == 1000 * 999 + 1000
            assert other.job(job.id) is same
            with pytest.raises(UnknownTaskError, match="no job 'job-77'"):
                other.job("job-77")


def test_the_memory_of_a_cluster_that_another_program_stops_is_given_back():
    cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", name="large")
    assert int(mt.arange(1_000_000, chunk_size=300_000).sum().fetch()) == 499_999_500_000
    assert f"jmars-{cluster.id}" in Path("/proc/self/maps").read_text()
    in_another_process("import jmars; jmars.connect('large').stop()")
    deadline = time.monotonic() + 30
    while f"jmars-{cluster.id}" in Path("/proc/self/maps").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not [one for one in os.listdir("/proc/self/fd") if cluster.id in os.path.realpath(f"/proc/self/fd/{one}")]
    with pytest.raises(ClusterLostError):
        cluster.fetch(mt.ones(3).data)
    cluster.close()


def test_who_waits_hears_who_stopped_the_cluster():
    x = jmars.remote.spawn(time.sleep, args=(60,))
    with jmars.Cluster(n_workers=1, memory_limit="512MiB", name="mine") as cluster:
        job = cluster.submit(x)
        in_another_process("import jmars; jmars.connect('mine').stop()")
        with pytest.raises(ClusterStoppedError, match=r"mine was stopped by another program \(process \d+\) before"):
            job.result(60)
        with pytest.raises(ClusterStoppedError, match=r"mine was stopped by another program"):
            cluster.info()
    with jmars.Cluster(n_workers=1, memory_limit="512MiB", name="mine") as cluster, jmars.connect("mine") as other:
        job, same = cluster.submit(x), other.job(cluster.jobs()[0]["id"])
        cluster.stop()
        with pytest.raises(ClusterStoppedError, match="mine was stopped before the job ended"):
            job.result(60)
        with pytest.raises(ClusterStoppedError, match=r"stopped by the program that started it \(process \d+\)"):
            same.result(60)


@pytest.mark.long
def test_objects_and_lengths_known_only_by_running_are_taken_up():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB") as cluster, jmars.connect(cluster.id) as other:
        words = jmars.remote.spawn(lambda: {"a": [1, 2]}, name="words")
        first = cluster.submit(words)
        assert other.job(first.id).result(60) == {"a": [1, 2]}
        pair = jmars.remote.spawn(lambda: (1, "two"), n_outputs=2)
        second = cluster.submit(pair, pair[1])
        assert other.job(second.id).result(60) == [(1, "two"), "two"]
        x = mt.arange(100, chunk_size=30)
        few = cluster.submit(x[x % 7 == 0])
        assert np.array_equal(other.job(few.id).result(60), np.arange(0, 100, 7))


def test_a_tensor_stays_as_long_as_one_client_holds_it():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB") as cluster, jmars.connect(cluster.id) as other:
        job = cluster.submit(mt.arange(100, chunk_size=50))
        assert job.result(60).sum() == 4950
        same = other.job(job.id)
        del job
        assert same.result(60).sum() == 4950
        assert cluster.info()["memory"]["chunks"] == 2
        del same
        other.info()  # the drop was told before
        assert cluster.info()["memory"]["chunks"] == 0


def test_results_that_are_forgotten_go_with_their_last_holder():
    cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=True)
    try:
        job = cluster.submit(mt.ones(10))
        with jmars.connect(cluster.id) as other:
            taken = other.job(job.id)
            del job  # releases the result, now or at the job's end
            assert taken.result(60).sum() == 10
            taken.forget()
            del taken
            _until(lambda: other.info()["memory"]["chunks"] == 0)
    finally:
        cluster.stop()


def test_the_end_of_a_client_ends_only_its_own():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB") as cluster:
        mine = cluster.submit(mt.arange(100, chunk_size=50))
        mine.wait(60)
        other = jmars.connect(cluster.id)
        theirs = other.submit(mt.ones(100, chunk_size=50))
        theirs.wait(60)
        assert theirs.result(60).sum() == 100
        assert cluster.info()["memory"]["chunks"] == 4
        other.close()
        _until(lambda: cluster.info()["memory"]["chunks"] == 2)
        assert mine.result(60).sum() == 4950
        with pytest.raises(ClusterError, match="no longer on the cluster"):
            cluster.job(theirs.id).result(60)


@pytest.mark.long
def test_pins_of_a_client_that_is_gone_are_let_go_of():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB") as cluster:
        program = f"""
import os, jmars, jmars.tensor as mt
cluster = jmars.connect({cluster.id!r})
x = mt.ones(1000).execute()
view = cluster.fetch(x.data, copy=False)
assert view.sum() == 1000
first = cluster.ask("session", "take_chunks", 2)
cluster.ask("store", "reserve", first, 4096)
os._exit(0)
"""
        in_another_process(program)
        _until(lambda: cluster.info()["memory"]["arena"]["used"] == 0)


def test_no_cluster_of_that_name_is_an_error_that_lists_what_there_is():
    with pytest.raises(ClusterLostError, match="no cluster of yours runs here"):
        jmars.connect()
    with (
        jmars.Cluster(n_workers=1, memory_limit="512MiB", name="one") as one,
        pytest.raises(ClusterLostError, match=one.id),
    ):
        jmars.connect("two")


def test_a_cell_runs_on_the_cluster_that_the_magic_connects_to(capsys):
    from jmars.notebook.magic import run_magic_line

    with jmars.Cluster(n_workers=1, memory_limit="512MiB", name="shared") as cluster:
        run_magic_line(SimpleNamespace(), "connect shared")
        assert "jmars: shared, 1 worker" in capsys.readouterr().out
        ours = [one for one in open_clusters() if one is not cluster]
        assert [one.id for one in ours] == [cluster.id]
        assert default_cluster() is ours[0]
        ours[0].close()


def _until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)  # polled: what goes away there tells nobody here
