"""Compiles sources for the GPU of this process by NVRTC; machine code is kept in a folder of the user.

CuPy's own compilation flushes float32 numbers below 1.2e-38 to zero (`-ftz=true`); NumPy keeps them.
Source: https://docs.nvidia.com/cuda/nvrtc/index.html.
"""

from __future__ import annotations

import logging
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import cupy
from xxhash import xxh3_128_hexdigest

from jmars.config import cache_dir
from jmars.errors import ClusterError

__all__ = ["cuda_function"]

log = logging.getLogger("jmars.worker")

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
    path = None
    try:
        folder = cache_dir() / "gpu-kernels"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / xxh3_128_hexdigest(f"{version}\n{source}".encode())
        return path.read_bytes()
    except FileNotFoundError:
        pass
    except (OSError, ClusterError) as error:
        log.warning("kernels of GPUs are compiled anew in each process: %s", error)
        path = None
    code, _ = cupy.cuda.compiler.compile_using_nvrtc(source, _OPTIONS)
    if path is not None:
        _keep(path, code)
    return bytes(code)


def _keep(path: Path, code: bytes) -> None:
    """Write machine code to the folder, mode 0600; a full disk costs a compilation in each process, no operand."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(code)
                file.flush()
                os.replace(file.name, path)
            except OSError:
                os.unlink(file.name)
                raise
    except OSError as error:
        log.warning("kernels of GPUs are compiled anew in each process: %s", error)
