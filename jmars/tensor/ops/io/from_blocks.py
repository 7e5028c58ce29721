"""`from_blocks`: arrays whose chunks a user's function reads or computes on the workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, check_dtype, new_data
from jmars.tensor.ops.blockwise.map_blocks import pickled, unpickled
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes, chunk_starts
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor

__all__ = ["from_blocks"]

Array = np.ndarray[Any, Any]


@offers("from_blocks")
def from_blocks(
    function: Callable[[tuple[slice, ...]], Any],
    shape: Sequence[int],
    dtype: Any,
    chunk_size: ChunkSize = None,
    *,
    chunks: ChunkSize = None,
    name: str | None = None,
) -> Tensor:
    """Makes a tensor whose chunks are results of `function(slices)`.

    Parameters
    ----------
    function
        Called on a worker with a slice per axis; returns that part of the array, with the declared dtype.
    shape, dtype
        Shape and dtype of the whole array.
    chunk_size, chunks
        Chunks of the tensor; the function is called once per chunk.
    name
        Label in the view; by default the function's name.

    An exception of the function ends the job and is raised in the client unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> squares = np.arange(6) ** 2
    >>> from_blocks(lambda box: squares[box], (6,), int, chunk_size=4).fetch().tolist()
    [0, 1, 4, 9, 16, 25]
    """
    kind = check_dtype(dtype)
    shape = tuple(int(n) for n in shape)
    splits = decide_splits(shape, kind, chunk_size, chunks)
    label = name or str(getattr(function, "__name__", type(function).__name__))
    return Tensor(new_data(FromBlocks(label, pickled(function)), shape, kind, splits))


@dataclass(frozen=True, eq=False)
class FromBlocks(Operand):
    """Calls a function per chunk."""

    function: str
    blob: bytes
    name: ClassVar[str] = "from_blocks"

    @property
    def label(self) -> str:
        """The function's name."""
        return self.function

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with its bounds as the argument."""
        kinds, which = chunk_classes(output.chunks)
        bounds = [list(zip(chunk_starts(axis), itertools.accumulate(axis))) for axis in output.chunks]

        def program(k: int) -> Program:
            chunk = ChunkType(kinds[k], output.dtype)
            step = Call(read_block, (self.function, self.blob), (), chunk, True, chunk.nbytes, runs_user_code=True)
            return single(self.function, (), step)

        args = [(box,) for box in itertools.product(*bounds)]
        rows = np.zeros((which.size, 0), np.int64)
        return add_by_class(builder, program, which.reshape(-1), rows, args).reshape(output.grid)


def read_block(out: Array, inputs: Sequence[Array], params: tuple[str, bytes], arg: Any) -> None:
    """Calls the function with a slice per axis and checks shape and dtype of the result."""
    name, blob = params
    value = np.asarray(unpickled(blob)(tuple(slice(low, high) for low, high in arg)))
    if value.shape != out.shape or value.dtype != out.dtype:
        raise ValueError(
            f"{name} gave {value.dtype} of shape {value.shape} for the box {arg}, and {out.dtype} of shape {out.shape} "
            "was promised"
        )
    np.copyto(out, value)
