"""`np.roll`: assembles output chunks from the overlapping chunks of the periodically repeated input.

The result keeps the splits of the input, also after many rolls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import assemble_chunks
from jmars.tensor.ops.chunks.shuffle import overlaps
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["roll"]


@offers("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """`np.roll`: shifts elements cyclically; keeps the chunks of `a`.

    Examples
    --------
    >>> from jmars.tensor.ops.create.ranges import arange
    >>> x = roll(arange(6, chunk_size=4), 1)
    >>> x.chunks, x.fetch().tolist()
    (((4, 2),), [5, 0, 1, 2, 3, 4])
    """
    x = as_tensor(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape, copy=True)
    axes = np.lib.array_utils.normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    if not x.ndim:
        raise ValueError("not enough values to unpack (expected 2, got 0)")  # NumPy's words
    shifts = dict.fromkeys(axes, 0)
    for n, i in np.broadcast(shift, axes):
        shifts[int(i)] += int(n)
    for i, n in shifts.items():
        by = n % x.shape[i] if x.shape[i] else 0
        if by:
            x = Tensor(new_data(Roll(i, by, inputs=(x.data,)), x.shape, x.dtype, x.chunks))
    return Tensor(x.data)


@dataclass(frozen=True, eq=False)
class Roll(Operand):
    """Moves the last `by` elements along `axis` to the front; `by` is below the length."""

    axis: int
    by: int
    name: ClassVar[str] = "roll"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by axis and shift."""
        return ("roll", self.axis, self.by)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk; none where the shift moves whole chunks."""
        (x,) = inputs
        axes = [overlaps(cut, cut) for cut in x.splits]
        cut = x.splits[self.axis]
        axes[self.axis] = overlaps(cut * 2, (sum(cut) - self.by, *cut))[1:]
        return assemble_chunks(self.name, builder, np.concatenate([x.ids, x.ids], self.axis), axes, output)
