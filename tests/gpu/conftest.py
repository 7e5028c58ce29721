"""The GPU of this process is opened before a test begins: its files stay open, and are no leak of the test."""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def opened_gpu(request: pytest.FixtureRequest) -> Any:
    """CuPy with a context on the GPU; None without a GPU."""
    try:
        import cupy
    except ImportError:
        return None
    if not cupy.is_available():
        return None
    cupy.zeros(4).sum().get()
    cupy.cuda.Stream(non_blocking=True).record(cupy.cuda.Event(disable_timing=True)).synchronize()
    cupy.cuda.alloc_pinned_memory(2**20)
    request.config.pluginmanager.get_plugin("jmars-leak-check").accept()
    return cupy


@pytest.fixture(scope="session")
def opened_libraries(opened_gpu: Any, request: pytest.FixtureRequest) -> None:
    """What PyTorch, JAX and numba open on the GPU."""
    if opened_gpu is None:
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the GPU's memory
    value = opened_gpu.zeros(4)
    for name in ("torch", "jax", "numba.cuda"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of numba beside a new NumPy
                library = importlib.import_module(name)
        except ImportError:
            continue
        if name == "numba.cuda":
            library.as_cuda_array(value)
        elif name == "jax":
            library.dlpack.from_dlpack(opened_gpu.zeros(4, "f4")).sum().block_until_ready()
        else:
            float(library.from_dlpack(value).sum())
    request.config.pluginmanager.get_plugin("jmars-leak-check").accept()
