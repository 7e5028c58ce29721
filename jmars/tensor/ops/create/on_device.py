"""Moves values between cores and GPUs: `x.to_gpu()`, `x.to_cpu()`, `x.fetch(device="cuda")`, functions on CuPy.

CuPy is imported on use only.
Source: Mars `tensor/base/to_gpu.py` and `to_cpu.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.operand import annotate
from jmars.tensor.ops.elementwise.formula import Formula
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["GpuFunction"]


@offers("method.to_gpu")
def to_gpu(x: Any) -> Tensor:
    """A copy of `x` that a GPU makes; operations on the copy then find its chunks in the GPU's memory."""
    return _copied(as_tensor(x), "to_gpu")


@offers("method.to_cpu")
def to_cpu(x: Any) -> Tensor:
    """A copy of `x` that a core makes."""
    return _copied(as_tensor(x), "to_cpu")


def _copied(x: Tensor, name: str) -> Tensor:
    if x.dtype.kind not in "biufc":
        raise UnsupportedError(f"{name} copies numbers, not {x.dtype}; an array of {x.dtype} stays on cores")
    with annotate(gpu=name == "to_gpu"):
        formula = Formula(name)
        value = formula.read(x)
        if x.dtype.kind == "b":
            return formula.tensor(formula.apply("bitwise_or", value, value))
        return formula.tensor(formula.apply("positive", value))


@offers("method.on_device")
def on_device(value: Any, device: str) -> Any:
    """A fetched value as an array of a GPU of this process ("cuda"), or unchanged ("cpu").

    Raises
    ------
    ValueError
        For other devices.
    UnsupportedError
        If CuPy is not installed, or finds no GPU.
    """
    if device == "cpu":
        return value
    if device != "cuda":
        raise ValueError(f'device is {device!r}; choose "cpu" or "cuda"')
    library = _cupy('fetch(device="cuda")')
    if not library.is_available():
        raise UnsupportedError('fetch(device="cuda") needs a GPU in this machine, and CuPy finds none; leave it out')
    return library.asarray(value)


class GpuFunction:
    """A user's function of `map_blocks(device="gpu")`: gets arrays of CuPy, and its result is copied back."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *blocks: Any, **kwargs: Any) -> Any:
        """Call the function; UnsupportedError where CuPy is not installed."""
        library = _cupy('map_blocks(device="gpu")')
        given = [library.asarray(block) if isinstance(block, np.ndarray) else block for block in blocks]
        return library.asnumpy(self._function(*given, **kwargs))


def _cupy(what: str) -> Any:
    try:
        import cupy
    except ImportError as error:
        extra = 'pip install "jmars[gpu-cu12]", or gpu-cu13 for CUDA 13'
        raise UnsupportedError(f"{what} needs CuPy, which is not installed here; {extra}") from error
    return cupy
