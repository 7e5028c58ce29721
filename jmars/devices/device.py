"""The protocol of a GPU: memory, streams, events, copies, kernels. Two classes implement the protocol.

`CupyDevice` is a GPU of NVIDIA, `FakeDevice` a GPU made of NumPy for tests. Memory for chunks is one block, the slab,
and a chunk's place is an offset into the slab. Every call that takes a stream returns at once; the work runs later, in
the order of the stream. Only events order the work of two streams.

CUDA's errors are translated to jmars's.
Source: docs/explanation/devices.md, "What a GPU's process asks of its GPU"; CUDA Runtime API, "Error Handling"
(`cudaError_t`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from jmars.errors import ExecutionError
from jmars.kernels.expression import Expression

Array = np.ndarray[Any, Any]


class DeviceLostError(ExecutionError):
    """A GPU lost its context: every call of this process to the GPU fails from now on, so the process must end."""


class DeviceMemoryError(ExecutionError, MemoryError):
    """The GPU has no memory for a call; memory freed there may be enough for a further try."""


class Device(Protocol):
    """A GPU in the only process that uses the GPU.

    Every method may raise DeviceLostError. Streams and events are objects of the implementation. Arrays in the memory
    of a device (`view`) only travel back into calls of the same device.

    Attributes
    ----------
    name
        Name for people, such as "NVIDIA H100 80GB HBM3".
    backend
        "cupy" or "fake", as the view shows it.
    """

    name: str
    backend: str

    def memory(self) -> tuple[int, int]:
        """Free bytes and all bytes of the device."""

    def reserve(self, size: int) -> None:
        """Allocate the slab, `size` bytes; DeviceMemoryError if the device has less."""

    def bound_scratch(self, size: int) -> None:
        """Let library calls take at most `size` bytes beside the slab; beyond, they raise DeviceMemoryError."""

    def drop_scratch(self) -> None:
        """Free memory that library calls keep for reuse."""

    def pinned(self, size: int) -> Array:
        """Host memory that copies of streams may read and write: uint8, shape (size,)."""

    def stream(self) -> Any:
        """A new stream."""

    def record(self, stream: Any, timed: bool = False) -> Any:
        """An event that occurs at the end of all work given to `stream` so far; `timed` for `seconds`."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds between two timed events that have occurred."""

    def wait(self, stream: Any, event: Any) -> None:
        """Let later work of `stream` begin only after `event`."""

    def is_done(self, event: Any) -> bool:
        """Whether `event` has occurred."""

    def synchronise(self, event: Any) -> None:
        """Block until `event` has occurred."""

    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy pinned bytes `source` to the slab; `source` must not change before the copy is done."""

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy bytes of the slab to pinned bytes `target`."""

    def pin(self, memory: Array) -> None:
        """Let copies of streams read and write bytes of host memory as bytes of `pinned`, until `unpin`.

        Raises an error where the system refuses.
        """

    def unpin(self, memory: Array) -> None:
        """End `pin` of the same bytes; no copy of them may be under way."""

    def view(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array in the slab, C-contiguous."""

    def launch(
        self, expression: Expression, out: Any, inputs: Sequence[Any], stream: Any, first: int | None = None
    ) -> None:
        """Compute an expression that has a text (`kernels.cuda_text`) for each element of `out`; inputs broadcast.

        With `first` the expression has an int64 input more, the last: `first` plus the place of the element in `out`.
        """

    def reduce(
        self, expression: Expression, ufunc: str, axes: tuple[int, ...], out: Any, inputs: Sequence[Any], stream: Any
    ) -> None:
        """Reduce an expression of inputs of equal shapes along `axes`, which `out` keeps with length 1."""

    def call(self, name: str, out: Any, inputs: Sequence[Any], params: Any, arg: Any, stream: Any) -> None:
        """Call a function of `library.LIBRARY`, which writes `out`."""

    def close(self) -> None:
        """Free all memory of the device."""


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
