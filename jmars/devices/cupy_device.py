"""A GPU of NVIDIA, by CuPy. Only the process of the GPU imports this module, after its fork.

Kernels are texts of `kernels.cuda_text` within CuPy's loops; NVRTC compiles on first use, and CuPy keeps the result.
Without fused multiply-add, as NumPy rounds after each operation.
Source: `cupy/_core/_kernel.pyx` (types of parameters, `i` of the loop), `cupy/_core/_reduction.pyx` (identities).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from jmars.devices.device import Array, Device, DeviceLostError, DeviceMemoryError
from jmars.devices.library import LIBRARY
from jmars.devices.reduction_text import reduction_text
from jmars.devices.split_reduction import Reduction, split_reduction
from jmars.kernels.cuda_text import FUNCTION, cuda_text
from jmars.kernels.expression import Expression, same

__all__ = ["CupyDevice"]

_OPTIONS = ("--fmad=false",)
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
# Errors after which the context is lost: uncorrectable memory, faults of kernels, and what is unknown.
_STICKY = {214, 220, *range(700, 722), 999}


@contextmanager
def _translated() -> Iterator[None]:
    """Translate CUDA's errors to the errors that callers handle."""
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceMemoryError(f"the GPU has no memory: {error}; it is tried again, then on the CPU") from error
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        if error.status == _OUT_OF_MEMORY:
            raise DeviceMemoryError(f"the GPU has no memory: {error}; it is tried again, then on the CPU") from error
        if error.status in _STICKY:
            raise DeviceLostError(f"the GPU has lost its context: {error}; its process must end") from error
        raise


class CupyDevice(Device):
    """The first GPU that this process sees (`CUDA_VISIBLE_DEVICES`)."""

    backend = "cupy"

    def __init__(self) -> None:
        with _translated():
            properties = cupy.cuda.runtime.getDeviceProperties(0)
            self.name = properties["name"].decode()
            self._pool = cupy.cuda.MemoryPool()
            cupy.cuda.set_allocator(self._pool.malloc)
            self._slab: Any = None
            cupy._core.set_reduction_accelerators([])  # without CUB, which takes NVRTC 3 s for each kernel
            cupy.zeros(1).sum().get()  # makes the context, and compiles a first kernel

    # -- memory
    def memory(self) -> tuple[int, int]:
        """Free and all bytes, as CUDA tells."""
        with _translated():
            free, total = cupy.cuda.runtime.memGetInfo()
            return int(free), int(total)

    def reserve(self, size: int) -> None:
        """Allocate the slab, outside of CuPy's pool."""
        with _translated():
            self._slab = cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)

    def bound_scratch(self, size: int) -> None:
        """Bound CuPy's pool, the memory of library calls."""
        self._pool.set_limit(size=size)

    def drop_scratch(self) -> None:
        """Give unused blocks of the pool back."""
        with _translated():
            self._pool.free_all_blocks()

    def pinned(self, size: int) -> Array:
        """Page-locked memory."""
        with _translated():
            return np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)

    def pin(self, memory: Array) -> None:
        """Register the pages with CUDA; that touches them."""
        with _translated():
            cupy.cuda.runtime.hostRegister(memory.ctypes.data, memory.nbytes, 0)

    def unpin(self, memory: Array) -> None:
        """Give the pages free."""
        with _translated():
            cupy.cuda.runtime.hostUnregister(memory.ctypes.data)

    def view(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A CuPy array in the slab."""
        return cupy.ndarray(shape, dtype, self._slab + offset)

    # -- streams
    def stream(self) -> Any:
        """A stream that does not wait for the default stream."""
        with _translated():
            return cupy.cuda.Stream(non_blocking=True)

    def record(self, stream: Any, timed: bool = False) -> Any:
        """An event, without a clock unless `timed`."""
        with _translated():
            return stream.record(cupy.cuda.Event(disable_timing=not timed))

    def seconds(self, start: Any, end: Any) -> float:
        """By the clock of the GPU."""
        with _translated():
            return float(cupy.cuda.get_elapsed_time(start, end)) * 1e-3

    def wait(self, stream: Any, event: Any) -> None:
        """Have a stream wait."""
        with _translated():
            stream.wait_event(event)

    def is_done(self, event: Any) -> bool:
        """Ask CUDA."""
        with _translated():
            return bool(event.done)

    def synchronise(self, event: Any) -> None:
        """Block."""
        with _translated():
            event.synchronize()

    # -- copies and kernels
    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy from pinned memory."""
        kind = cupy.cuda.runtime.memcpyHostToDevice
        with _translated():
            cupy.cuda.runtime.memcpyAsync(self._slab.ptr + offset, source.ctypes.data, source.nbytes, kind, stream.ptr)

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy to pinned memory."""
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        with _translated():
            cupy.cuda.runtime.memcpyAsync(target.ctypes.data, self._slab.ptr + offset, target.nbytes, kind, stream.ptr)

    def launch(
        self, expression: Expression, out: Any, inputs: Sequence[Any], stream: Any, first: int | None = None
    ) -> None:
        """Run the expression's text as an ElementwiseKernel."""
        with _translated(), stream:
            if first is None:
                _map_kernel(expression)(*inputs, out)
            else:
                _index_kernel(expression)(*inputs, first, out)

    def reduce(
        self, expression: Expression, ufunc: str, axes: tuple[int, ...], out: Any, inputs: Sequence[Any], stream: Any
    ) -> None:
        """Run the expression's text within a ReductionKernel, or two if there are few results."""
        kernel = _reduction_kernel(expression, ufunc, out.dtype)
        with _translated(), stream:
            split = split_reduction(Reduction(out, inputs, axes), cupy.empty)
            if split is None:
                kernel(*inputs, out=out, axis=axes, keepdims=True)
                return
            first, last = split
            for one in first:
                kernel(*one.inputs, out=one.out, axis=one.axes, keepdims=True)
            kernel = _reduction_kernel(same(out.dtype), ufunc, out.dtype)
            kernel(*last.inputs, out=last.out, axis=last.axes, keepdims=True)

    def call(self, name: str, out: Any, inputs: Sequence[Any], params: Any, arg: Any, stream: Any) -> None:
        """Call the library's function with CuPy."""
        with _translated(), stream:
            LIBRARY[name](cupy, out, inputs, params, arg)

    def close(self) -> None:
        """Free the slab and the pool."""
        self._slab = None
        self._pool.free_all_blocks()


def _parameters(expression: Expression) -> tuple[str, str]:
    """Parameters of a kernel for the inputs, and the call of the text's function."""
    names = [f"x{i}" for i in range(len(expression.inputs))]
    typed = ", ".join(f"{dtype.name} {name}" for dtype, name in zip(expression.inputs, names, strict=True))
    return typed, f"{FUNCTION}({', '.join(names)})"


@lru_cache(maxsize=4096)
def _map_kernel(expression: Expression) -> Any:
    text = cuda_text(expression)
    assert text is not None
    typed, call = _parameters(expression)
    return cupy.ElementwiseKernel(
        typed, f"{expression.dtype.name} out", f"out = {call}", "jm_map", preamble=text, options=_OPTIONS
    )


@lru_cache(maxsize=4096)
def _index_kernel(expression: Expression) -> Any:
    """The kernel of an expression whose last input is the index; CuPy's loop calls it `i`."""
    text = cuda_text(expression)
    assert text is not None
    names = [f"x{n}" for n in range(len(expression.inputs) - 1)]
    typed = [f"{dtype.name} {name}" for dtype, name in zip(expression.inputs, names)]
    call = f"{FUNCTION}({', '.join([*names, 'first + (long long)i'])})"
    return cupy.ElementwiseKernel(
        ", ".join([*typed, "int64 first"]),
        f"{expression.dtype.name} out",
        f"out = {call}",
        "jm_range",
        preamble=text,
        options=_OPTIONS,
    )


@lru_cache(maxsize=4096)
def _reduction_kernel(expression: Expression, ufunc: str, dtype: np.dtype[Any]) -> Any:
    text = reduction_text(expression, ufunc, dtype)
    typed, _ = _parameters(expression)
    return cupy.ReductionKernel(
        typed,
        f"{dtype.name} out",
        text.value,
        text.join,
        "out = a",
        text.identity,
        "jm_reduce",
        reduce_type=text.type,
        preamble=text.preamble,
        options=_OPTIONS,
    )
