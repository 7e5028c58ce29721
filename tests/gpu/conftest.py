"""The GPU of this process is opened before a test begins: its files stay open, and are no leak of the test."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(scope="package", autouse=True)
def opened_gpu() -> None:
    """CUDA's files for CuPy, PyTorch, JAX and numba, where these are installed and a GPU is there."""
    try:
        import cupy
    except ImportError:
        return
    if not cupy.is_available():
        return
    value = cupy.zeros(4)
    value.sum().get()
    for name in ("torch", "jax", "numba.cuda"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        if name == "numba.cuda":
            library.as_cuda_array(value)
        elif name == "jax":
            library.dlpack.from_dlpack(cupy.zeros(4, "f4")).sum().block_until_ready()
        else:
            float(library.from_dlpack(value).sum())
