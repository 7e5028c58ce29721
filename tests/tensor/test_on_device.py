"""Values between cores and GPUs: annotations of copies, arrays handed to other libraries, functions on CuPy."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.ops.map_blocks import GpuFunction


def gpu_of(x: Any) -> bool | None:
    annotation = x.data.op.annotation
    return None if annotation is None else annotation.gpu


def test_copies_and_created_arrays_are_bound_to_a_device() -> None:
    x = mt.arange(6, chunk_size=3)
    assert (gpu_of(x), gpu_of(x.to_gpu()), gpu_of(x.to_cpu())) == (None, True, False)
    for make in (mt.ones, mt.zeros, mt.empty, mt.arange, partial(mt.full, fill_value=2), partial(mt.linspace, 0, 1)):
        assert (gpu_of(make(3)), gpu_of(make(3, gpu=True)), gpu_of(make(3, gpu=False))) == (None, True, False)
    assert gpu_of(x.to_gpu() + 1) is None, "readers go where the plan puts them"
    for a in (np.arange(6), np.array([True, False]), np.array([1 + 2j, -0.0])):
        y = mt.asarray(a).to_cpu()
        assert y.dtype == a.dtype
        np.testing.assert_array_equal(y.fetch(), a)
    with pytest.raises(UnsupportedError, match="to_gpu copies numbers, not <U1"):
        mt.asarray(np.array(["a"])).to_gpu()


def test_a_fetched_array_is_handed_on_without_a_copy() -> None:
    value = (mt.arange(6, chunk_size=3) * 2.0).fetch()
    assert np.shares_memory(np.from_dlpack(value), value)
    assert value.__dlpack_device__()[0] == 1  # the CPU


class FakeCupy:
    """The calls of CuPy that are used, on a subclass of NumPy's arrays."""

    class ndarray(np.ndarray[Any, Any]):
        pass

    def __init__(self, available: bool = True, error: str = "") -> None:
        self.available, self.error = available, error

    def is_available(self) -> bool:
        if self.error:
            raise RuntimeError(self.error)
        return self.available

    def asarray(self, value: Any) -> Any:
        return np.asarray(value).view(self.ndarray)

    def asnumpy(self, value: Any) -> Any:
        assert type(value) is self.ndarray
        return value.view(np.ndarray)


@pytest.mark.seed("S4.1")
def test_a_value_on_a_gpu_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    x = mt.arange(4, chunk_size=2)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnsupportedError, match=r'fetch\(device="cuda"\) needs CuPy'):
        x.fetch(device="cuda")
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(False))
    with pytest.raises(UnsupportedError, match="CuPy finds none"):
        x.fetch(device="cuda")
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    assert type(x.fetch(device="cuda")) is FakeCupy.ndarray
    with pytest.raises(ValueError, match=r'choose "cpu" or "cuda"'):
        x.fetch(device="tpu")


@pytest.mark.seed("S4.3")
def test_functions_of_users_get_arrays_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    x = mt.arange(4, chunk_size=2)
    y = x.map_blocks(np.negative, dtype=int, device="gpu")
    assert gpu_of(y) is True and gpu_of(x.map_blocks(np.negative, dtype=int, device="cpu")) is False
    with pytest.raises(ValueError, match=r'"gpu" needs dtype='):
        x.map_blocks(np.negative, device="gpu")
    seen = SimpleNamespace(kind=None)

    def function(block: Any, scale: int) -> Any:
        seen.kind = type(block)
        return block * scale

    no_driver = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
    for cupy, why in ((FakeCupy(False), "CuPy finds none"), (FakeCupy(error=no_driver), f"CuPy says: {no_driver}")):
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        with pytest.raises(UnsupportedError, match=rf'map_blocks\(device="gpu"\) needs a GPU and its driver.*{why}'):
            GpuFunction(function)(np.arange(3), scale=2)
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    result = GpuFunction(function)(np.arange(3), scale=2)
    assert seen.kind is FakeCupy.ndarray and type(result) is np.ndarray and result.tolist() == [0, 2, 4]
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnsupportedError, match=r'map_blocks\(device="gpu"\) needs CuPy'):
        GpuFunction(function)(np.arange(3), scale=2)
