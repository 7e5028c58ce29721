"""A GPU of NVIDIA, by CuPy. Only the process of the GPU imports this module, after its fork.

NVRTC compiles the kernels of `kernels.cuda_text` on first use; other functions are CuPy's own.

Sources are compiled by NVRTC for this process's GPU; machine code is kept in a folder of the user. CuPy's own
compilation flushes float32 numbers below 1.2e-38 to zero (`-ftz=true`); NumPy keeps them.
Source: https://docs.cupy.dev/en/stable/reference/cuda.html; https://docs.nvidia.com/cuda/nvrtc/index.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cupy
import numpy as np
from xxhash import xxh3_128_hexdigest

from jmars.devices.device import Array, Device, translated
from jmars.devices.library import LIBRARY
from jmars.kernels.cuda_text import (
    BLOCK,
    MAP,
    PER_THREAD,
    REDUCE,
    broadcast,
    find_kernel,
    keep_kernel,
    map_source,
    reduction_source,
    reductions,
)
from jmars.kernels.expression import Expression, same


class CupyDevice(Device):
    """The first GPU that this process sees (`CUDA_VISIBLE_DEVICES`)."""

    backend = "cupy"

    def __init__(self) -> None:
        with translated():
            properties = cupy.cuda.runtime.getDeviceProperties(0)
            self.name = properties["name"].decode()
            self._pool = cupy.cuda.MemoryPool()
            cupy.cuda.set_allocator(self._pool.malloc)
            self._slab: Any = None
            cupy.zeros(1).sum().get()  # makes the context, and compiles a first kernel

    # -- memory
    def memory(self) -> tuple[int, int]:
        """Free and all bytes, as CUDA tells."""
        with translated():
            free, total = cupy.cuda.runtime.memGetInfo()
            return int(free), int(total)

    def reserve(self, size: int) -> None:
        """Allocate the slab, outside of CuPy's pool."""
        with translated():
            self._slab = cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)

    def bound_scratch(self, size: int) -> None:
        """Bound CuPy's pool, the memory of library calls."""
        self._pool.set_limit(size=size)

    def drop_scratch(self) -> None:
        """Give unused blocks of the pool back."""
        with translated():
            self._pool.free_all_blocks()

    def pinned(self, size: int) -> Array:
        """Page-locked memory."""
        with translated():
            return np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)

    def pin(self, memory: Array) -> None:
        """Register the pages with CUDA, and touch the pages."""
        with translated():
            cupy.cuda.runtime.hostRegister(memory.ctypes.data, memory.nbytes, 0)

    def unpin(self, memory: Array) -> None:
        """Give the pages free."""
        with translated():
            cupy.cuda.runtime.hostUnregister(memory.ctypes.data)

    def view(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A CuPy array in the slab."""
        return cupy.ndarray(shape, dtype, self._slab + offset)

    # -- streams
    def stream(self) -> Any:
        """A stream that does not wait for the default stream."""
        with translated():
            return cupy.cuda.Stream(non_blocking=True)

    def record(self, stream: Any, timed: bool = False) -> Any:
        """An event, without a clock unless `timed`."""
        with translated():
            return stream.record(cupy.cuda.Event(disable_timing=not timed))

    def seconds(self, start: Any, end: Any) -> float:
        """By the clock of the GPU."""
        with translated():
            return float(cupy.cuda.get_elapsed_time(start, end)) * 1e-3

    def wait(self, stream: Any, event: Any) -> None:
        """Have a stream wait."""
        with translated():
            stream.wait_event(event)

    def is_done(self, event: Any) -> bool:
        """Ask CUDA."""
        with translated():
            return bool(event.done)

    def synchronise(self, event: Any) -> None:
        """Block."""
        with translated():
            event.synchronize()

    # -- copies and kernels
    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy from pinned memory."""
        kind = cupy.cuda.runtime.memcpyHostToDevice
        with translated():
            cupy.cuda.runtime.memcpyAsync(self._slab.ptr + offset, source.ctypes.data, source.nbytes, kind, stream.ptr)

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy to pinned memory."""
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        with translated():
            cupy.cuda.runtime.memcpyAsync(target.ctypes.data, self._slab.ptr + offset, target.nbytes, kind, stream.ptr)

    def launch(
        self, expression: Expression, out: Any, inputs: Sequence[Any], stream: Any, first: int | None = None
    ) -> None:
        """Run the expression's text in a thread for each few elements."""
        how = broadcast(out.shape, [one.shape for one in inputs])
        dimensions = [
            np.int64(number)
            for axis, length in enumerate(how.lengths)
            for number in (length, *(own[axis] for own, flat in zip(how.strides, how.flat, strict=True) if not flat))
        ]
        index = [] if first is None else [np.int64(first)]
        source = map_source(expression, how.flat, len(how.lengths), first is not None)
        blocks = -(-out.size // (BLOCK * PER_THREAD))
        with translated(), stream:
            cuda_function(source, MAP)((blocks,), (BLOCK,), (*inputs, out, *index, *dimensions, np.int64(out.size)))

    def reduce(
        self, expression: Expression, ufunc: str, axes: tuple[int, ...], out: Any, inputs: Sequence[Any], stream: Any
    ) -> None:
        """Run the expression's text in blocks of threads, and reduce the results of the blocks."""
        steps = reductions(inputs[0].shape, axes)
        with translated(), stream:
            for number, step in enumerate(steps):
                target = out if number == len(steps) - 1 else cupy.empty(step.size, out.dtype)
                sizes = [np.int64(one) for one in step[:4]]
                kernel = cuda_function(reduction_source(expression, ufunc, out.dtype), REDUCE)
                kernel((step.blocks,), step.block, (*inputs, target, *sizes))
                expression, inputs = same(out.dtype), [target]

    def call(self, name: str, out: Any, inputs: Sequence[Any], params: Any, arg: Any, stream: Any) -> None:
        """Call the library's function with CuPy."""
        with translated(), stream:
            LIBRARY[name](cupy, out, inputs, params, arg)

    def close(self) -> None:
        """Free the slab and the pool."""
        self._slab = None
        self._pool.free_all_blocks()


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
