"""A cluster with a GPU: on the first GPU of this machine (`pytest -m gpu`), and on a GPU made of NumPy as well."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.devices.find import find_gpus

REAL = pytest.param("cuda", marks=pytest.mark.gpu)
X = np.random.default_rng(0).random((600, 500)) - 0.5
Y = np.random.default_rng(1).random((500, 600))


@pytest.fixture(scope="module", params=["fake:8MiB", REAL])
def cluster(request: pytest.FixtureRequest) -> Iterator[jmars.Cluster]:
    """One core and one GPU."""
    name = request.param
    if name == "cuda":
        found = find_gpus()
        if not found:
            pytest.skip("no GPU of NVIDIA here, or CuPy is not installed")
        name = found[0]
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=[name]) as cluster:
        yield cluster


def _gpu(cluster: jmars.Cluster) -> dict[str, Any]:
    (gpu,) = [one for one in cluster.info()["workers"] if one["name"] == "gpu-0"]
    return gpu


def _ran(cluster: jmars.Cluster, tensor: mt.Tensor) -> Any:
    """The value, computed on the GPU."""
    before = _gpu(cluster)["done"]
    value = jmars.execute(tensor, gpu="prefer").fetch()
    assert _gpu(cluster)["done"] > before
    return value


def test_exact_operations_are_numpys_to_the_bit(cluster: jmars.Cluster) -> None:
    x = mt.array(X, chunk_size=200)
    pairs = [(x * 3 - x / 7, X * 3 - X / 7), (mt.sqrt(mt.abs(x)), np.sqrt(np.abs(X))), (x > 0.1, X > 0.1)]
    pairs += [((x * 100).astype("i4") // 7 % 5, (X * 100).astype("i4") // 7 % 5), (mt.maximum(x, 0), np.maximum(X, 0))]
    for tensor, expected in pairs:
        found = _ran(cluster, tensor)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_functions_sums_and_products_are_close_to_numpys(cluster: jmars.Cluster) -> None:
    x, y = mt.array(X, chunk_size=200), mt.array(Y, chunk_size=200)
    pairs = [(mt.sin(x) + mt.exp(x), np.sin(X) + np.exp(X)), (x @ y, X @ Y), (x.mean(axis=0), X.mean(axis=0))]
    pairs += [(mt.fft.fft(x, axis=0), np.fft.fft(X, axis=0)), (mt.sort(x, axis=1), np.sort(X, axis=1))]
    for tensor, expected in pairs:
        np.testing.assert_allclose(_ran(cluster, tensor), expected, rtol=1e-9, atol=1e-9)


def test_more_data_than_the_gpu_has(cluster: jmars.Cluster) -> None:
    device = _gpu(cluster)["device"]
    if device["memory"] > 2**30:
        pytest.skip("the GPU holds more than this test computes")
    rows = 4 * device["memory"] // (8 * 500)
    before = mt.arange(rows * 500, chunk_size=50_000) * 1.0
    after = (before + 1) * 2
    assert _ran(cluster, after.sum() - 2 * before.sum()) == 2 * rows * 500


def test_a_gpu_whose_process_is_killed_is_replaced(cluster: jmars.Cluster) -> None:
    x = mt.array(X, chunk_size=100)
    job, gpu = cluster.submit((x @ mt.array(Y, chunk_size=100)).sum(axis=0)), _gpu(cluster)
    os.kill(gpu["pid"], signal.SIGKILL)
    np.testing.assert_allclose(job.result(), (X @ Y).sum(axis=0), rtol=1e-9)
    while _gpu(cluster)["restarts"] == gpu["restarts"] or _gpu(cluster)["state"] == "warming up":
        time.sleep(0.01)
    np.testing.assert_array_equal(_ran(cluster, x + 1), X + 1)


@pytest.mark.gpu
def test_a_value_on_the_gpu_of_this_process_is_handed_on_without_a_copy() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if not cupy.is_available():
        pytest.skip("no GPU of NVIDIA here")
    with jmars.Cluster(n_workers=1, memory_limit="400MiB"):
        value = mt.array(X, chunk_size=200).fetch(device="cuda")
    assert value.__cuda_array_interface__["shape"] == X.shape
    again = cupy.from_dlpack(value)
    assert again.data.ptr == value.data.ptr
    np.testing.assert_array_equal(cupy.asnumpy(again), X)
