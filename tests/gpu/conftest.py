"""The GPU of this process is opened before a test begins: its files stay open, and are no leak of the test."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


@pytest.fixture(scope="package", autouse=True)
def opened_gpu() -> Any:
    """CuPy with a context on the GPU; None without a GPU."""
    try:
        import cupy
    except ImportError:
        return None
    if not cupy.is_available():
        return None
    cupy.zeros(4).sum().get()
    return cupy


@pytest.fixture(scope="package")
def opened_libraries(opened_gpu: Any) -> None:
    """What PyTorch, JAX and numba open on the GPU."""
    if opened_gpu is None:
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the GPU's memory
    value = opened_gpu.zeros(4)
    for name in ("torch", "jax", "numba.cuda"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        if name == "numba.cuda":
            library.as_cuda_array(value)
        elif name == "jax":
            library.dlpack.from_dlpack(opened_gpu.zeros(4, "f4")).sum().block_until_ready()
        else:
            float(library.from_dlpack(value).sum())
