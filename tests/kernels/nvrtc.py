"""NVRTC, CUDA's compiler as a library: compiles texts for a GPU on machines that have none.

Source: https://docs.nvidia.com/cuda/nvrtc/index.html.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import pytest

__all__ = ["compiled"]


def compiled(source: str, architecture: str = "sm_80") -> str:
    """PTX of a source; the test is skipped without NVRTC, and fails with the compiler's words for a wrong source."""
    found = importlib.util.find_spec("nvidia.cuda_nvrtc")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs NVRTC (nvidia-cuda-nvrtc-cu12)")
    (path,) = Path(next(iter(found.submodule_search_locations)), "lib").glob("libnvrtc.so.*")
    nvrtc = ctypes.CDLL(str(path))
    program = ctypes.c_void_p()
    options = [b"--gpu-architecture=" + architecture.encode(), b"--fmad=false", b"--std=c++17"]
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None))
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        assert status == 0, _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        return _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    finally:
        _check(nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))


def _text(size_of: ctypes._CFuncPtr, get: ctypes._CFuncPtr, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(get(program, text))
    return text.value.decode()


def _check(status: int) -> None:
    assert status == 0, f"NVRTC failed with {status}"
