"""Each chunk handed to a function, on the worker where it lies: how arrays leave for files.

The counterpart of `from_blocks`. Nothing passes through the client. Used by the writers of this folder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import get_engine
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.blockwise.map_blocks import pickled, unpickled
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes, chunk_starts
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["to_blocks"]

Array = np.ndarray[Any, Any]


@offers("to_blocks")
def to_blocks(x: Any, function: Callable[[tuple[slice, ...], Array], Any], name: str | None = None) -> None:
    """Compute a tensor and call `function(slices, block)` with each of its chunks; returns when all calls have.

    Parameters
    ----------
    x
        A tensor, or an array.
    function
        Called once for each chunk, on the worker that has it, several at a time: with one slice for each axis, where
        the block stands in the array, and with its elements, which are read-only. What it gives is not used.
    name
        What the view shows; by default the function's own.

    What the function raises ends the job and comes back as it is. A call that was cut off by the end of its worker is
    made again: writing the same block twice must do no harm.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_blocks(arange(4, chunk_size=2), lambda at, block: np.save(f"{folder}/{at[0].start}", block))
    ...     np.load(f"{folder}/2.npy").tolist()
    [2, 3]
    """
    tensor: Tensor = as_tensor(x)
    if not tensor.size:
        return
    label = name or str(getattr(function, "__name__", type(function).__name__))
    ones = tuple((1,) * len(axis) for axis in tensor.chunks)
    op = ToBlocks(label, pickled(function), inputs=(tensor.data,))
    get_engine().execute([new_data(op, tuple(map(sum, ones)), np.dtype(bool), ones)])


@dataclass(frozen=True, eq=False)
class ToBlocks(Operand):
    """One call of a function for each chunk; gives True for each."""

    function: str
    blob: bytes
    name: ClassVar[str] = "to_blocks"

    @property
    def label(self) -> str:
        """The user's name for it."""
        return self.function

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One call for each chunk, its bounds as the argument."""
        (source,) = inputs
        kinds, which = chunk_classes(source.splits)
        bounds = [list(zip(chunk_starts(axis), itertools.accumulate(axis))) for axis in source.splits]
        done = ChunkType((1,) * len(source.splits), output.dtype)

        def program(k: int) -> Program:
            chunk = ChunkType(kinds[k], source.dtype)
            call = Call(write_block, (self.function, self.blob), (0,), done, True, chunk.nbytes, users=True)
            return single(self.function, (chunk,), call)

        args = [(box,) for box in itertools.product(*bounds)]
        return add_by_class(builder, program, which.reshape(-1), source.ids.reshape(-1, 1), args).reshape(output.grid)


def write_block(out: Array, inputs: Sequence[Array], params: tuple[str, bytes], arg: Any) -> None:
    """Call the function with where the block stands, and the block."""
    unpickled(params[1])(tuple(slice(low, high) for low, high in arg), inputs[0])
    out[...] = True
