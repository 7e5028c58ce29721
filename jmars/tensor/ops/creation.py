"""Arrays made from nothing: constants and ranges; the pattern for other operands.

Used as `jmars.tensor.<name>`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.expression import Expression, constant
from jmars.kernels.program import ChunkType, Fill, Generate, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.infer import check_dtype
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.formula import Elementwise
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["arange", "full", "ones", "zeros"]


def _filled(name: str, shape: Any, value: Any, dtype: Any, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
    """A constant is an expression without inputs, so it fuses into whatever reads it."""
    whole = tuple(int(n) for n in shape) if np.ndim(shape) else (int(shape),)
    dtype = check_dtype(dtype)
    splits = decide_splits(whole, dtype, chunk_size, chunks)
    op = Elementwise(name, Expression((), (constant(value, dtype),)), splits)
    return Tensor(new_data(op, whole, dtype, splits))


@offers("ones")
def ones(
    shape: Any, dtype: Any = float, order: str = "C", *, chunk_size: ChunkSize = None, chunks: ChunkSize = None
) -> Tensor:
    """`np.ones`, cut as `chunk_size` says.

    Examples
    --------
    >>> ones(100, chunk_size=30).chunks
    ((30, 30, 30, 10),)
    """
    return _filled("ones", shape, 1, dtype, chunk_size, chunks)


@offers("zeros")
def zeros(
    shape: Any, dtype: Any = float, order: str = "C", *, chunk_size: ChunkSize = None, chunks: ChunkSize = None
) -> Tensor:
    """`np.zeros`, cut as `chunk_size` says."""
    return _filled("zeros", shape, 0, dtype, chunk_size, chunks)


@offers("full")
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, chunk_size: ChunkSize = None,
         chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.full` with a scalar, cut as `chunk_size` says."""
    value = np.asarray(fill_value)
    return _filled("full", shape, value[()], dtype or value.dtype, chunk_size, chunks)


@offers("array", "asarray")
def array(
    a: Any, dtype: Any = None, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None, **kwargs: Any
) -> Tensor:
    """`np.array`: an array or list as a tensor; a tensor as a handle of its own."""
    x = as_tensor(a, dtype, chunk_size, chunks)
    return Tensor(x.data) if x is a else x


@dataclass(frozen=True, eq=False)
class Arange(Operand):
    """Evenly spaced numbers; each chunk knows by its argument where it begins."""

    start: Any
    step: Any
    splits: tuple[tuple[int, ...], ...]
    name: ClassVar[str] = "arange"

    def token(self) -> Hashable:
        """Equal ranges are equal."""
        return ("arange", repr(self.start), repr(self.step), self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One generator per chunk, its offset as the argument."""
        shapes, which = shape_classes(output.chunks)
        programs = [
            single("arange", (), Generate(open_arange, (self.start, self.step), ChunkType(shape, output.dtype), True))
            for shape in shapes
        ]
        offsets = np.cumsum((0,) + output.chunks[0][:-1]).tolist()
        return builder.add_many(programs, which, np.empty((which.size, 0), np.int64), list(zip(offsets)))


def open_arange(params: tuple[Any, ...], offset: int, output: ChunkType) -> Fill:
    """Writes start + step * i, as NumPy's fill functions compute it."""
    start, step = params

    def fill(out: np.ndarray[Any, Any], start_at: int) -> None:
        i = np.arange(offset + start_at, offset + start_at + out.size)
        if output.dtype.kind in "biu":
            np.copyto(out, start + i * step, casting="unsafe")
        else:
            np.multiply(i, step, out=out, casting="unsafe")
            np.add(out, start, out=out, casting="unsafe")

    return fill


@offers("arange")
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, chunk_size: ChunkSize = None,
           chunks: ChunkSize = None) -> Tensor:  # fmt: skip
    """`np.arange`, cut as `chunk_size` says."""
    if stop is None:
        start, stop = 0, start
    length = max(0, math.ceil((stop - start) / step))
    dtype = check_dtype(np.result_type(start, stop, step) if dtype is None else dtype)
    splits = decide_splits((length,), dtype, chunk_size, chunks)
    return Tensor(new_data(Arange(start, step, splits), (length,), dtype, splits))
