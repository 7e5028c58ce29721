"""`to_blocks`: calls a function with every chunk of a tensor on the workers, for example to write files.

The counterpart of `from_blocks`; no data passes through the client.
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
    """Compute a tensor and call `function(slices, block)` for every chunk; returns when all calls are done.

    Parameters
    ----------
    x
        A tensor, or an array.
    function
        Called on the workers, in parallel, with the position of the block in the array (a slice per axis) and its
        elements, which are read-only. The result is ignored.
    name
        Label in the view; by default the function's name.

    An exception of the function ends the job and is raised in the client. If a worker dies during a call, the call is
    repeated: writing the same block twice must do no harm.

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
    """Calls a function for every chunk; the output has an element True per chunk."""

    function: str
    blob: bytes
    name: ClassVar[str] = "to_blocks"

    @property
    def label(self) -> str:
        """Label in the view."""
        return self.function

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add a call per chunk, with the chunk's bounds as argument."""
        (source,) = inputs
        kinds, which = chunk_classes(source.splits)
        bounds = [list(zip(chunk_starts(axis), itertools.accumulate(axis))) for axis in source.splits]
        done = ChunkType((1,) * len(source.splits), output.dtype)

        def program(k: int) -> Program:
            chunk = ChunkType(kinds[k], source.dtype)
            call = Call(write_block, (self.function, self.blob), (0,), done, True, chunk.nbytes, runs_user_code=True)
            return single(self.function, (chunk,), call)

        args = [(box,) for box in itertools.product(*bounds)]
        return add_by_class(builder, program, which.reshape(-1), source.ids.reshape(-1, 1), args).reshape(output.grid)


def write_block(out: Array, inputs: Sequence[Array], params: tuple[str, bytes], arg: Any) -> None:
    """Call the function with the block's position and the block."""
    unpickled(params[1])(tuple(slice(low, high) for low, high in arg), inputs[0])
    out[...] = True
