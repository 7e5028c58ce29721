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
from jmars.tensor.ops.chunks.shuffle import overlaps
from jmars.tensor.ops.chunks.slivers import assemble_with_slivers
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
    by = tuple(shifts.get(i, 0) % n if n else 0 for i, n in enumerate(x.shape))
    source = x.data
    if isinstance(source.op, Roll) and not source.computed:  # rolled along one axis after the other
        by = tuple((m + n) % length for m, n, length in zip(by, source.op.by, x.shape))
        (source,) = source.op.inputs
    if not any(by):
        return Tensor(source)
    return Tensor(new_data(Roll(by, inputs=(source,)), x.shape, x.dtype, x.chunks))


@dataclass(frozen=True, eq=False)
class Roll(Operand):
    """Moves the last elements along each axis to the front, as many as `by` says; these are below the lengths."""

    by: tuple[int, ...]
    name: ClassVar[str] = "roll"
    reads_all: ClassVar[bool] = True

    def token(self) -> Hashable:
        """Identifies the operand by its shifts."""
        return ("roll", self.by)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, and one for each sliver; none where the shift moves whole chunks."""
        (x,) = inputs
        axes = [
            overlaps(cut * 2, (sum(cut) - n, *cut))[1:] if n else overlaps(cut, cut)
            for cut, n in zip(x.splits, self.by)
        ]
        return assemble_with_slivers(self.name, builder, x, axes, output)
