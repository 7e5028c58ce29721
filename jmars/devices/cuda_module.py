"""Compiles sources for the GPU of this process by NVRTC; machine code is kept in a folder of the user.

CuPy's own compilation flushes float32 numbers below 1.2e-38 to zero (`-ftz=true`); NumPy keeps them.
Source: https://docs.nvidia.com/cuda/nvrtc/index.html.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cupy
from xxhash import xxh3_128_hexdigest

from jmars.devices.kernel_files import find_kernel, keep_kernel

__all__ = ["cuda_function"]

_OPTIONS = ("--fmad=false", "--ftz=false", "--std=c++17")


@lru_cache(maxsize=4096)
def cuda_function(source: str, name: str) -> Any:
    """The kernel `name` of a source, to be called as (grid, block, arguments).

    Raises
    ------
    cupy.cuda.compiler.CompileException
        If NVRTC refuses the source.
    """
    module = cupy.cuda.function.Module()
    module.load(_machine_code(source))
    return module.get_function(name)


def _machine_code(source: str) -> bytes:
    """From the folder, else from NVRTC."""
    version = (*cupy.cuda.nvrtc.getVersion(), cupy.cuda.Device().compute_capability, cupy.__version__, *_OPTIONS)
    name = xxh3_128_hexdigest(f"{version}\n{source}".encode())
    known = find_kernel(name)
    if known is not None:
        return known
    code, _ = cupy.cuda.compiler.compile_using_nvrtc(source, _OPTIONS)
    keep_kernel(name, code)
    return bytes(code)
