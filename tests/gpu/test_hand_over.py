"""Values are handed to other libraries without a copy: on the host by DLPack, and on a GPU of this process.

PyTorch and JAX are not among the packages of the tests; where they are installed these tests use them.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt

X = np.arange(4096.0).reshape(64, 64)


@pytest.fixture(scope="module")
def fetched() -> Any:
    """A value on the host, of several chunks."""
    with jmars.Cluster(n_workers=1, memory_limit="400MiB"):
        return (mt.array(X, chunk_size=24) * 2).fetch()


def _address_in_torch(torch: ModuleType, value: Any) -> int:
    return int(torch.from_dlpack(value).data_ptr())


def _address_in_jax(jax: ModuleType, value: Any) -> int:
    with _float64(jax):
        return int(jax.dlpack.from_dlpack(value, copy=False).unsafe_buffer_pointer())


def _float64(jax: ModuleType) -> Any:
    """JAX has float64 only within this."""
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def _address_in_numba(numba: ModuleType, value: Any) -> int:
    return int(numba.cuda.as_cuda_array(value).__cuda_array_interface__["data"][0])


def _address_in_cupy(cupy: ModuleType, value: Any) -> int:
    return int(cupy.from_dlpack(value).data.ptr)


def test_of_the_host_to_torch(fetched: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert _address_in_torch(torch, fetched) == fetched.ctypes.data
    np.testing.assert_array_equal(fetched, X * 2)


@pytest.mark.usefixtures("opened_libraries")  # JAX opens the GPU, where there is one, and keeps it open
def test_of_the_host_to_jax(fetched: Any) -> None:
    """JAX copies where the memory does not begin at a multiple of 64 bytes, as NumPy's rarely does."""
    jax = pytest.importorskip("jax", reason="jax is not installed")
    with _float64(jax):
        np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(fetched)), X * 2)
        buffer = np.empty(X.nbytes + 64, np.uint8)
        first = -buffer.ctypes.data % 64
        aligned = buffer[first : first + X.nbytes].view(float).reshape(X.shape)
        aligned[...] = fetched
        assert _address_in_jax(jax, aligned) == aligned.ctypes.data


def test_a_function_compiled_by_numba_takes_it(fetched: Any) -> None:
    numba = pytest.importorskip("numba", reason="numba is not installed")

    @numba.njit  # type: ignore[untyped-decorator]
    def negated(x: Any) -> None:
        x[0, 1] = -x[0, 1]

    there = np.array(fetched)
    negated(there)
    assert there[0, 1] == -2.0


@pytest.mark.gpu
@pytest.mark.usefixtures("opened_libraries")
@pytest.mark.parametrize(
    "name, address",
    [
        ("cupy", _address_in_cupy),
        ("torch", _address_in_torch),
        ("jax", _address_in_jax),
        ("numba.cuda", _address_in_numba),
    ],
)
def test_of_a_gpu(name: str, address: Any) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if not cupy.is_available():
        pytest.skip("no GPU of NVIDIA here")
    library = pytest.importorskip(name, reason=f"{name} is not installed")
    with jmars.Cluster(n_workers=1, memory_limit="400MiB"):
        value = mt.array(X, chunk_size=24).fetch(device="cuda")
    where = value.__cuda_array_interface__
    assert (where["shape"], where["data"][0]) == (X.shape, value.data.ptr)
    assert value.__dlpack_device__() == (2, 0), "CUDA, the first GPU"
    assert address(__import__(name.partition(".")[0]) if "." in name else library, value) == value.data.ptr
    np.testing.assert_array_equal(cupy.asnumpy(value), X)
