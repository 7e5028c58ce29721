"""Chunks that lie a few elements beside the chunks of another array: of a shifted slice, or of `np.roll`.

Most elements of such a chunk are in one chunk, and slivers in its neighbours. A pass over elements reads all of them in
place, and an operand of its own copies a sliver, so that a large neighbour is neither held nor moved whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import TensorMeta
from jmars.tensor.ops.chunks.parts import part_step
from jmars.tensor.ops.chunks.rechunk import assemble_chunks
from jmars.tensor.ops.chunks.shuffle import Overlap
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.splits import SLIVER

__all__ = ["assemble_with_slivers"]

WHOLE = 2**17  # bytes of a chunk that is read whole: an operand costs more than they do


class _Part(NamedTuple):
    """What an output chunk reads of an input chunk along an axis."""

    chunk: int
    start: int
    taken: int  # less than `length` of a sliver
    length: int  # of the input chunk


def assemble_with_slivers(
    name: str,
    builder: ChunkGraphBuilder,
    source: ChunkGrid,
    axes: Sequence[Sequence[Overlap]],
    output: TensorMeta,
) -> NDArray[np.int64]:
    """Adds an operand per output chunk, and one for each sliver that it needs and no other operand has cut.

    Arguments and result are those of `assemble_chunks`, but that `source` is a grid, and numbers of chunks begin again
    behind its end. Where the parts of neighbours are no slivers, the chunks are copied.
    """
    small = [_are_slivers(*axis) for axis in zip(axes, source.splits)]
    near = all(one is not None for one in small)
    size = math.prod(max(own) for own in source.splits) * source.dtype.itemsize
    cut = near and size > WHOLE
    parts = [
        _parts(own, len(lengths), cut and bool(is_cut)) for own, lengths, is_cut in zip(axes, source.splits, small)
    ]
    ids = source.ids[np.ix_(*([part.chunk for part in axis] for axis, _ in parts))]
    kinds, which = chunk_classes([[(part.length, part.taken) for part in axis] for axis, _ in parts])
    is_cut = np.array([any(length != taken for length, taken in kind) for kind in kinds])[which]
    if is_cut.any():
        begin = np.ix_(*(np.array([part.start for part in axis]) for axis, _ in parts))
        taken = np.ix_(*(np.array([part.taken for part in axis]) for axis, _ in parts))
        columns = [np.broadcast_to(column, ids.shape)[is_cut] for column in (ids, *begin, *taken)]
        asked = [tuple(row) for row in np.stack(columns, axis=1).tolist()]
        kind = dict(zip(asked, which[is_cut].tolist()))
        new = [key for key in kind if key not in builder.parts]

        def program(k: int) -> Program:
            chunk = ChunkType(tuple(length for length, _ in kinds[k]), source.dtype)
            shape = tuple(n for _, n in kinds[k])
            return single("getitem", (chunk,), part_step(chunk, tuple((n, 1) for n in shape), shape))

        read = np.array([key[:1] for key in new], np.int64).reshape(-1, 1)
        args = [(key[1 : 1 + len(parts)],) for key in new]
        made = add_by_class(builder, program, np.array([kind[key] for key in new], np.int64), read, args)
        builder.parts.update(zip(new, made.tolist()))
        ids[is_cut] = [builder.parts[key] for key in asked]
    return assemble_chunks(name, builder, ids, [covers for _, covers in parts], output, in_place=near)


def _are_slivers(covers: Sequence[Overlap], lengths: Sequence[int]) -> bool | None:
    """Whether parts that are small beside their chunk are to be cut; None where an output chunk has two large parts.

    An axis of one chunk has no neighbours: its ends are in the chunk itself.
    """
    beside = [sorted(own.taken)[-2] for own in covers if len(own.taken) > 1]
    if beside and max(beside) * SLIVER >= max(lengths):
        return None
    return len(lengths) > 1


def _parts(covers: Sequence[Overlap], count: int, cut: bool) -> tuple[list[_Part], list[Overlap]]:
    """What the output chunks read along an axis of `count` chunks: parts of chunks, and how these cover each output.

    Examples
    --------
    >>> parts, covers = _parts([Overlap(0, 2, (50, 50), (48, 1)), Overlap(1, 1, (50,), (49,))], 2, True)
    >>> [tuple(part) for part in parts]
    [(0, 0, 50, 50), (1, 0, 1, 50), (1, 0, 50, 50)]
    >>> covers
    [Overlap(first=0, start=2, lengths=(50, 1), taken=(48, 1)), Overlap(first=2, start=1, lengths=(50,), taken=(49,))]
    """
    parts: list[_Part] = []
    found: list[Overlap] = []
    for own in covers:
        small = [cut and 2 * taken < length for length, taken in zip(own.lengths, own.taken)]
        read = [taken if one else length for length, taken, one in zip(own.lengths, own.taken, small)]
        found.append(Overlap(len(parts), 0 if small[0] else own.start, tuple(read), own.taken))
        for k, length in enumerate(own.lengths):
            start = own.start if small[k] and not k else 0
            parts.append(_Part((own.first + k) % count, start, read[k], length))
    return parts, found
