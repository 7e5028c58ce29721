"""CUDA's errors as the errors that callers handle.

Source: CUDA Runtime API, "Error Handling" (`cudaError_t`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jmars.devices.device import DeviceLostError, DeviceMemoryError

__all__ = ["translated"]

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
# Errors after which the context is lost: uncorrectable memory, faults of kernels, and what is unknown.
_STICKY = {214, 220, *range(700, 722), 999}


@contextmanager
def translated() -> Iterator[None]:
    """Raise DeviceMemoryError or DeviceLostError in place of CuPy's errors that mean so."""
    try:
        yield
    except Exception as error:
        import cupy  # only a process that uses it comes here with its errors

        status = None
        if isinstance(error, cupy.cuda.runtime.CUDARuntimeError | cupy.cuda.driver.CUDADriverError):
            status = error.status
        if isinstance(error, cupy.cuda.memory.OutOfMemoryError) or status == _OUT_OF_MEMORY:
            raise DeviceMemoryError(f"the GPU has no memory: {error}") from error
        if status in _STICKY:
            raise DeviceLostError(f"the GPU has lost its context: {error}; its process must end") from error
        raise
