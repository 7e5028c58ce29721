"""A cluster with a GPU: on the first GPU of this machine (`pytest -m gpu`), and on a GPU made of NumPy as well.

Two workers may share a GPU, each with a slab of its own, so that what needs two GPUs is tried with one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.devices.device import DeviceLostError
from jmars.devices.find import find_gpus
from tests.sim.gpus import STEPS, program

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
        name = f"{found[0]}:64MiB"
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=[name]) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["fake", REAL])
def gpu_name(request: pytest.FixtureRequest) -> str:
    """The first GPU, to be bounded in bytes."""
    if request.param == "fake":
        return "fake"
    found = find_gpus()
    if not found:
        pytest.skip("no GPU of NVIDIA here, or CuPy is not installed")
    return found[0]


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
    z, Z = x + 1j * (x - 1), X + 1j * (X - 1)
    pairs += [(z * z - z / (z + 3), Z * Z - Z / (Z + 3)), (z.conj().imag, Z.conj().imag), (z == z.real, Z.real == Z)]
    pairs += [((x * 100).astype("i4") // 7 % 5, (X * 100).astype("i4") // 7 % 5), (mt.maximum(x, 0), np.maximum(X, 0))]
    for tensor, expected in pairs:
        found = _ran(cluster, tensor)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_functions_sums_and_products_are_close_to_numpys(cluster: jmars.Cluster) -> None:
    x, y = mt.array(X, chunk_size=200), mt.array(Y, chunk_size=200)
    pairs = [(mt.sin(x) + mt.exp(x), np.sin(X) + np.exp(X)), (x @ y, X @ Y), (x.mean(axis=0), X.mean(axis=0))]
    pairs += [(mt.fft.fft(x, axis=0), np.fft.fft(X, axis=0)), (mt.sort(x, axis=1), np.sort(X, axis=1))]
    z, Z = x + 1j * (x - 1), X + 1j * (X - 1)
    pairs += [(mt.abs(mt.fft.fft(z, axis=1)) ** 2, np.abs(np.fft.fft(Z, axis=1)) ** 2), (z.sum(), Z.sum())]
    pairs += [(z.mean(axis=0), Z.mean(axis=0)), (z @ mt.conj(z).T, Z @ Z.conj().T)]
    for tensor, expected in pairs:
        np.testing.assert_allclose(_ran(cluster, tensor), expected, rtol=1e-9, atol=1e-9)


def _runs(cluster: jmars.Cluster, tensors: Any) -> list[Any]:
    """Values of a result or of a tuple of results, all of whose operands ran on the GPU."""
    tensors = tensors if isinstance(tensors, tuple) else (tensors,)
    before, cores = _gpu(cluster)["done"], _done_by_cores(cluster)
    found = jmars.execute(*tensors, gpu="prefer")
    values = [one.fetch() for one in (found if isinstance(found, list | tuple) else (found,))]
    assert _gpu(cluster)["done"] > before and _done_by_cores(cluster) == cores
    return values


def _done_by_cores(cluster: jmars.Cluster) -> int:
    return sum(one["done"] for one in cluster.info()["workers"] if one["name"] != "gpu-0")


@pytest.mark.parametrize("shape, chunks", [((400, 20), (100, 20)), ((90, 90), (90, 90)), ((6, 30, 30), (2, 30, 30))])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_decompositions(cluster: jmars.Cluster, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str) -> None:
    rng, close = np.random.default_rng(0), 1e-4 if dtype == "f4" else 1e-10
    value = rng.random(shape).astype(dtype)
    if dtype == "c16":
        value += 1j * rng.random(shape)
    x = jmars.execute(mt.array(value, chunk_size=chunks).to_gpu(), gpu="only")
    u, s, vh = _runs(cluster, mt.linalg.svd(x, full_matrices=False))
    np.testing.assert_allclose((u * s[..., None, :]) @ vh, value, atol=close)
    np.testing.assert_allclose(s, np.linalg.svd(value, compute_uv=False), atol=100 * close)
    np.testing.assert_allclose(_runs(cluster, mt.linalg.svd(x, compute_uv=False))[0], s, atol=100 * close)
    q, r = _runs(cluster, mt.linalg.qr(x))
    np.testing.assert_allclose(q @ r, value, atol=close)
    np.testing.assert_allclose(q.conj().swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), r.shape), atol=close)


def test_functions_of_square_matrices(cluster: jmars.Cluster) -> None:
    value = np.random.default_rng(0).random((6, 30, 30)) + 4 * np.eye(30)
    even = value + value.swapaxes(-1, -2)
    x, y = mt.array(value, chunk_size=(2, 30, 30)), mt.array(even, chunk_size=(2, 30, 30))
    w, v = _runs(cluster, mt.linalg.eigh(y))
    np.testing.assert_allclose(even @ v, v * w[:, None], atol=1e-9)
    pairs = [(mt.linalg.eigvalsh(y), np.linalg.eigvalsh(even)), (mt.linalg.inv(x), np.linalg.inv(value))]
    pairs += [(mt.linalg.det(x), np.linalg.det(value)), (mt.linalg.solve(x, x + 1), np.linalg.solve(value, value + 1))]
    pairs += list(zip(mt.linalg.slogdet(x), np.linalg.slogdet(value), strict=True))
    for tensor, expected in pairs:
        np.testing.assert_allclose(_runs(cluster, tensor)[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name, value", [("inv", 0.0), ("svd", np.nan), ("solve", 0.0)])
def test_matrices_that_numpy_refuses_are_refused(cluster: jmars.Cluster, name: str, value: float) -> None:
    x = mt.array(np.full((30, 30), value))
    with pytest.raises(np.linalg.LinAlgError):
        _runs(cluster, mt.linalg.solve(x, x) if name == "solve" else getattr(mt.linalg, name)(x))
    np.testing.assert_array_equal(_ran(cluster, mt.array(X, chunk_size=200) + 1), X + 1)


def test_more_data_than_the_gpu_has(cluster: jmars.Cluster) -> None:
    rows = 4 * _gpu(cluster)["device"]["memory"] // (8 * 500)
    before = mt.arange(rows * 500, chunk_size=250_000) * 1.0
    after = (before + 1) * 2
    assert _ran(cluster, after.sum() - 2 * before.sum()) == 2 * rows * 500
    kept = jmars.execute(after, gpu="prefer")
    np.testing.assert_array_equal(kept.fetch(), (np.arange(rows * 500) + 1.0) * 2)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_of_the_simulation(cluster: jmars.Cluster, step: Callable[[Any, Any, Any], Any]) -> None:
    x, y = (np.random.default_rng(seed).random((96, 96)) - 0.5 for seed in (2, 3))
    ours = step(mt, mt.array(x, chunk_size=40), mt.array(y, chunk_size=40))
    np.testing.assert_allclose(_ran(cluster, ours), step(np, x, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("number", range(12))
def test_random_programs_in_a_slab_of_a_tenth_of_the_data(gpu_name: str, number: int) -> None:
    made, slab = program(number)
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=[f"{gpu_name}:{slab}"]):
        for result, expected in zip(made.results, made.expected, strict=True):
            found = jmars.execute(mt.Tensor(result), gpu="prefer").fetch()
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_function_of_the_user_gets_arrays_of_cupy(gpu_name: str) -> None:
    if not gpu_name.startswith("cuda"):
        pytest.skip("a GPU made of NumPy has no arrays of CuPy")

    def twice(block: Any) -> Any:
        assert type(block).__module__.startswith("cupy"), type(block)
        return block * 2

    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=[f"{gpu_name}:64MiB"]):
        x = mt.array(X, chunk_size=200)
        found = jmars.execute(x.map_blocks(twice, dtype=x.dtype, device="gpu") + 1, gpu="prefer").fetch()
    np.testing.assert_array_equal(found, X * 2 + 1)


def test_two_workers_with_a_gpu(gpu_name: str) -> None:
    """What one computes, the other reads; neither holds all."""
    matrix = np.random.default_rng(4).random((1200, 1200))
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=[f"{gpu_name}:8MiB"] * 2) as cluster:
        y = jmars.execute(mt.array(matrix, chunk_size=300) + 1, gpu="only")
        found = jmars.execute(y.T * y, gpu="only").fetch()
        done = {one["name"]: one["done"] for one in cluster.info()["workers"]}
    np.testing.assert_array_equal(found, (matrix + 1).T * (matrix + 1))
    assert done["gpu-0"] and done["gpu-1"]


def test_two_hosts_with_a_gpu_each(gpu_name: str) -> None:
    gpus = f"{gpu_name}:24MiB"
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="400MiB", gpus=gpus) as cluster:
        x = mt.array(X, chunk_size=100)
        found = jmars.execute((x @ mt.array(Y, chunk_size=100)).sum(axis=0), gpu="prefer").fetch()
        done = {one["name"]: one["done"] for one in cluster.info()["workers"]}
    np.testing.assert_allclose(found, (X @ Y).sum(axis=0), rtol=1e-9)
    assert done["host-1/gpu-0"] and done["host-2/gpu-0"]


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


@pytest.mark.parametrize("fault", ["bad address", "too much"])
def test_a_function_that_ruins_its_gpu(gpu_name: str, fault: str) -> None:
    """A lost context or no memory: a clear error in bounded time, and the next cell runs there."""
    if not gpu_name.startswith("cuda"):
        pytest.skip("a GPU made of NumPy runs no functions of CuPy")

    def function(block: Any) -> Any:
        import cupy

        if fault == "too much":
            return block + cupy.zeros(10**12)[0]
        source = 'extern "C" __global__ void bad(double* x) { *(double*)16 = *x; }'
        cupy.RawKernel(source, "bad")((1,), (1,), (block,))
        return block * 2

    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=[f"{gpu_name}:64MiB"]) as cluster:
        x = mt.array(X, chunk_size=300)
        with pytest.raises(jmars.errors.JmarsError) as raised:
            jmars.execute(x.map_blocks(function, dtype=x.dtype, device="gpu"), gpu="prefer")
        print(f"Error of {fault}: {type(raised.value).__name__}: {raised.value}")
        while _gpu(cluster)["state"] == "warming up":
            time.sleep(0.01)
        np.testing.assert_array_equal(_ran(cluster, x + 1), X + 1)


@pytest.mark.parametrize("times", [1, 100])
def test_a_function_that_loses_the_context(times: int, tmp_path: Path) -> None:
    """The GPU's process is replaced and the operand runs again; a function that does so each time is an error."""

    def function(block: Any) -> Any:
        tried = len(list(tmp_path.iterdir()))
        if tried < times:
            (tmp_path / str(tried)).touch()
            raise DeviceLostError("a kernel of the function had a bad address")
        return block * 2

    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:8MiB"]) as cluster:
        x = mt.array(X, chunk_size=600)
        with jmars.annotate(gpu=True):
            y = x.map_blocks(function, dtype=x.dtype)
        if times == 1:
            np.testing.assert_array_equal(jmars.execute(y).fetch(), X * 2)
        else:
            with pytest.raises(jmars.errors.JmarsError) as raised:
                jmars.execute(y)
            print(f"Error of {times}: {type(raised.value).__name__}: {raised.value}")
        while _gpu(cluster)["state"] == "warming up":
            time.sleep(0.01)
        assert _gpu(cluster)["restarts"] >= 1
        np.testing.assert_array_equal(_ran(cluster, x + 1), X + 1)
