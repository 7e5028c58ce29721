"""A real cluster with a worker on a fake GPU: values, spilling, lost GPUs, cancelling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import jmars
import jmars.tensor as mt
from jmars.client.notebook_views import ClusterFacts
from jmars.devices.find import gpu_names
from jmars.errors import JobCancelledError, UnsupportedError
from jmars.model.events import GPU_REFUSED, MEMORY_CHANGED, OPERANDS_MOVED, OPERANDS_TIMED, WORKER_MOVED
from jmars.model.status import OperandState

X = np.random.default_rng(0).random((1200, 1000)) - 0.5  # 9.6 MB
Y = np.random.default_rng(1).random((1000, 1200))


def _gpu(cluster: jmars.Cluster) -> dict[str, object]:
    (gpu,) = [one for one in cluster.info()["workers"] if one["name"] == "gpu-0"]
    return gpu


def _warm(cluster: jmars.Cluster) -> None:
    """A job that needs the GPU."""
    np.testing.assert_array_equal((mt.array(X, chunk_size=500) + 1).execute().fetch(), X + 1)


@pytest.fixture(autouse=True)
def prefer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks as these stay on cores otherwise."""
    monkeypatch.setitem(jmars.config.task, "gpu", "prefer")


@pytest.fixture(scope="module")
def cluster() -> Iterator[jmars.Cluster]:
    """With a GPU that holds a chunk of each of a few operands only."""
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:8MiB"]) as cluster:
        yield cluster


def _check(x: mt.Tensor, y: mt.Tensor) -> None:
    pairs = [
        (mt.where(x > 0, mt.sqrt(mt.abs(x)), x * 3), np.where(X > 0, np.sqrt(np.abs(X)), X * 3)),
        (x @ y, X @ Y),
        ((x - x.mean(axis=0)).max(axis=1), (X - X.mean(axis=0)).max(axis=1)),
        (mt.cumsum(x.T, axis=0) + y, np.cumsum(X.T, axis=0) + Y),
        (mt.sort(x, axis=1)[::2, 100:], np.sort(X, axis=1)[::2, 100:]),
        (mt.fft.fft(x, axis=0), np.fft.fft(X, axis=0)),
    ]
    for tensor, expected in pairs:
        found = tensor.execute().fetch()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_values_are_numpys_with_data_beyond_the_memory_of_the_gpu(cluster: jmars.Cluster) -> None:
    before = _gpu(cluster)["done"]
    _check(mt.array(X, chunk_size=300), mt.array(Y, chunk_size=300))
    assert int(str(_gpu(cluster)["done"])) - int(str(before)) > 60
    moves = [event[4] for event in cluster.events()[0] if event[2] == WORKER_MOVED]
    assert _gpu(cluster)["restarts"] == 0, moves


def test_info_tells_the_gpu_and_its_memory(cluster: jmars.Cluster) -> None:
    kept = (mt.array(X, chunk_size=500) + 1).execute()
    info = cluster.info()
    device = _gpu(cluster)["device"]
    assert isinstance(device, dict) and device["name"] == "FakeDevice"
    assert 0 < device["used"] <= device["memory"] <= 8 * 2**20
    assert info["memory"]["levels"]["device"] == device["used"]
    assert "device" not in info["workers"][0]
    del kept
    assert "on GPUs" in ClusterFacts.of(info, []).text()
    measured = [event[4] for event in cluster.events()[0] if event[2] == MEMORY_CHANGED]
    assert device["memory"] in [one["device_memory"] for one in measured]


def test_operands_of_a_gpu_come_together_so_that_copies_run_beside_kernels(cluster: jmars.Cluster) -> None:
    """Operands of a program that was not measured go to cores one by one."""
    with jmars.annotate(gpu=True):
        y = mt.array(X, chunk_size=300) * 7.25
    job = cluster.submit(y)
    np.testing.assert_array_equal(job.result(), X * 7.25)
    moved = [event[4] for event in job.events() if event[2] == OPERANDS_MOVED]
    running = [one for one in moved if one["state"] == OperandState.RUNNING and one["worker"] == 1]
    together = [np.frombuffer(one["ids"], "u4").size for one in running]
    assert sum(together) == 16 and together[0] >= 4


def test_the_gpu_makes_ranges_and_constants(cluster: jmars.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under "off" too, where they ask for it; a core made them before, in the GPU's process."""
    monkeypatch.setitem(jmars.config.task, "gpu", "off")
    pairs = [
        (mt.arange(0.5, 1000, 0.25, chunk_size=700, gpu=True), np.arange(0.5, 1000, 0.25)),
        (mt.linspace(-1, 1, 2001, chunk_size=700, gpu=True), np.linspace(-1, 1, 2001)),
        (mt.full((50, 60), 7, chunk_size=20, gpu=True), np.full((50, 60), 7)),
        (mt.ones((50, 60), chunk_size=20, gpu=True), np.ones((50, 60))),
    ]
    for tensor, expected in pairs:
        job = cluster.submit(tensor)
        np.testing.assert_array_equal(job.result(), expected)
        told = [event[4]["backends"] for event in job.events() if event[2] == OPERANDS_TIMED]
        assert {backend for some in told for _, backend in some} == {"fake"}


def test_data_beyond_gpu_and_shared_memory(cluster: jmars.Cluster) -> None:
    """600 MB of chunks with 400 MiB of memory in all, of which the GPU's process takes a part."""
    x = mt.ones((6000, 6000), chunk_size=1000)
    y = (x + 1).execute()
    z = (y.T + y).execute()
    assert float((z * 2).sum().execute().fetch()) == 8.0 * 36e6
    assert cluster.info()["memory"]["spilled_total"] > 0


def test_a_gpu_that_is_lost_in_mid_run(cluster: jmars.Cluster) -> None:
    _warm(cluster)
    x = mt.array(X, chunk_size=100)
    job = cluster.submit((x @ mt.array(Y, chunk_size=100)).sum(axis=0))
    gpu = _gpu(cluster)
    os.kill(int(str(gpu["pid"])), signal.SIGKILL)
    np.testing.assert_allclose(job.result(), (X @ Y).sum(axis=0), rtol=1e-9)
    while _gpu(cluster)["restarts"] == gpu["restarts"]:
        time.sleep(0.01)
    _warm(cluster)


def test_gpus_that_lose_their_context_again_and_again() -> None:
    """Each process of the GPU has 600 calls; the chunks are in shared memory, so the run goes on."""
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:16MiB:600"]) as cluster:
        _check(mt.array(X, chunk_size=300), mt.array(Y, chunk_size=300))
        assert int(str(_gpu(cluster)["restarts"])) >= 2


@pytest.mark.parametrize("calls", [150, 300, 700])
def test_a_gpu_that_keeps_losing_its_context_leaves_jobs_to_cores(calls: int) -> None:
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=[f"fake:16MiB:{calls}"]) as cluster:
        x = mt.array(X, chunk_size=100)
        for _ in range(3):
            job = cluster.submit((mt.sqrt(abs(x)) * x - x.mean(axis=0)).sum(axis=1))
            np.testing.assert_allclose(job.result(), (np.sqrt(abs(X)) * X - X.mean(axis=0)).sum(axis=1), rtol=1e-9)
        gpu = _gpu(cluster)
        assert (gpu["state"], gpu["restarts"]) == ("given up", 3)
        why = rf"must run on a GPU, and gpu-0 is given up: fake:16MiB:{calls} lost its context 3 times within"
        with pytest.raises(jmars.errors.ClusterError, match=why):
            jmars.execute(x + 1, gpu="only")


def test_a_job_on_a_gpu_is_cancelled(cluster: jmars.Cluster) -> None:
    _warm(cluster)
    x = mt.random.rand(2000, 2000, chunk_size=100)
    done = _gpu(cluster)["done"]
    job = cluster.submit((x @ x @ x @ x).sum())
    while _gpu(cluster)["done"] == done:
        time.sleep(0.01)
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result()
    _warm(cluster)


def test_what_a_gpu_refuses_goes_to_cores_and_the_reason_is_told() -> None:
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:16MiB:no-function"]) as cluster:
        x = mt.array(X, chunk_size=300)
        job = cluster.submit(mt.sort(x * 2, axis=0) + 1)
        np.testing.assert_array_equal(job.result(), np.sort(X * 2, axis=0) + 1)
        (refused,) = [event[4] for event in job.events() if event[2] == GPU_REFUSED]
        assert "mt.sort(x * 2, axis=0)" in refused["why"] and "the fake device lacks function" in refused["why"]
        assert "gpu-0 cannot run it, so cores do" in job.why()
        assert {one["name"]: one["done"] > 0 for one in cluster.info()["workers"]} == {"worker-0": True, "gpu-0": True}
        with pytest.raises(UnsupportedError, match=r"gpu-0 cannot run .*, and no core may: NotImpl") as error:
            jmars.execute(mt.sort(x * 3, axis=0), gpu="only")
        assert "mt.sort(x * 3, axis=0)" in str(error.value.__notes__) and "gpu='prefer'" in str(error.value)


def test_what_is_larger_than_a_gpu_is_refused_under_only() -> None:
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:8MiB"]) as cluster:
        x = mt.array(X, chunk_size=X.shape)
        np.testing.assert_array_equal((x + 1).execute().fetch(), X + 1)
        assert _gpu(cluster)["done"] == 0
        with pytest.raises(UnsupportedError, match=r"it needs 18.3 MiB and the GPU has .* for chunks"):
            jmars.execute(x + 1, gpu="only")


def test_a_gpu_that_cannot_be_used_leaves_all_to_cores() -> None:
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:8MiB:1"]) as cluster:
        _warm(cluster)
        assert (_gpu(cluster)["state"], _gpu(cluster)["done"]) == ("given up", 0)
        _check(mt.array(X, chunk_size=300), mt.array(Y, chunk_size=300))
        with jmars.annotate(gpu=True):
            y = mt.array(X, chunk_size=500) * 2
        with pytest.raises(
            jmars.errors.JmarsError, match="must run on a GPU, and gpu-0 is given up: fake:8MiB:1 cannot be used"
        ):
            y.execute().fetch()  # no core stands in for the GPU that was asked for
        assert _gpu(cluster)["done"] == 0


def test_a_gpu_whose_process_crashes_whenever_it_opens_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a broken driver does; here the package that opens GPUs is one that crashes."""
    (tmp_path / "cupy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("jmars.devices.find.find_gpus", lambda: ["cuda:0"])
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["cuda:0"]) as cluster:
        gpu = _gpu(cluster)
        assert (gpu["state"], gpu["restarts"], gpu["pid"], gpu["done"]) == ("given up", 3, None, 0)
        _check(mt.array(X, chunk_size=300), mt.array(Y, chunk_size=300))
        with jmars.annotate(gpu=True):
            y = mt.array(X, chunk_size=500) * 2
        with pytest.raises(jmars.errors.JmarsError, match=r"gpu-0 is given up: 3 processes.*cuda:0.*SIGTERM"):
            y.execute().fetch()
        _warm(cluster)
        assert _gpu(cluster)["state"] == "given up"


def test_a_named_gpu_that_is_not_there_is_an_error_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jmars.devices.find.find_gpus", lambda: [])
    with pytest.raises(ValueError, match="gpus has 'cuda:0', and this process sees 0 GPUs"):
        jmars.Cluster(gpus=["cuda:0"])
    monkeypatch.setattr("jmars.devices.find.find_gpus", lambda: ["cuda:1"])
    assert gpu_names(["cuda:0", "cuda:1:1GiB", "fake:8MiB"]) == ["cuda:0", "cuda:1:1GiB", "fake:8MiB"]
    with pytest.raises(ValueError, match="gpus has 'cuda:2:1GiB'"):
        gpu_names(["cuda:2:1GiB"])


def test_auto_finds_the_gpus_of_this_process() -> None:
    with pytest.raises(ValueError, match="use fewer"):
        jmars.Cluster(gpus=99)
    with pytest.raises(ValueError, match="names no GPU"):
        jmars.Cluster(gpus=["tpu:0"])


def test_a_cluster_without_a_gpu_loads_nothing_for_gpus() -> None:
    loaded = "import sys, jmars.deploy.host; print([m for m in sys.modules if 'cupy' in m or 'gpu_batches' in m])"
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=100)
    assert told.stdout.strip() == "[]"


def test_a_jmars_cell_runs_on_a_gpu() -> None:
    settings = Config()
    settings.HistoryManager.enabled = False
    shell = InteractiveShell(config=settings)
    shell.run_line_magic("load_ext", "jmars")
    shell.user_ns["x"] = X
    cell = "%%jmars\nimport numpy as np\nbright = np.sqrt(np.abs(x)) * 255\nmean = bright.mean(axis=0)"
    quiet = jmars.config.using(display="none", local_seconds=0.0)
    with quiet, jmars.Cluster(n_workers=1, memory_limit="600MiB", gpus=["fake:128MiB"]) as cluster:
        assert shell.run_cell(cell).success
        np.testing.assert_allclose(np.asarray(shell.user_ns["mean"]), (np.sqrt(np.abs(X)) * 255).mean(axis=0))
        assert int(str(_gpu(cluster)["done"])) > 0
