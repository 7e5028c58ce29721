"""Translates CUDA's errors.

Source: CUDA Runtime API, "Error Handling" (`cudaError_t`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from jmars.devices.device import DeviceLostError, DeviceMemoryError

__all__ = ["meaning", "translated"]

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
# Errors that lose the context: uncorrectable memory, faults of kernels, unknown errors.
_STICKY = {214, 220, *range(700, 722), 999}


def meaning(error: BaseException) -> BaseException:
    """DeviceMemoryError or DeviceLostError in place of an error of CuPy; other errors unchanged."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return error
    status = None
    if isinstance(error, cupy.cuda.runtime.CUDARuntimeError | cupy.cuda.driver.CUDADriverError):
        status = error.status
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError) or status == _OUT_OF_MEMORY:
        return DeviceMemoryError(f"the GPU has no memory: {error}")
    if status in _STICKY:
        return DeviceLostError(f"the GPU has lost its context: {error}; its process must end")
    return error


@contextmanager
def translated() -> Iterator[None]:
    """Raise translated errors."""
    try:
        yield
    except Exception as error:
        found = meaning(error)
        if found is error:
            raise
        raise found from error
