"""What a compiled graph reads of its sources, and why bytes of a source are read more than once.

A source is a file, or a function of `from_blocks`. Parts of it may be read apart (parts.py), it may be opened several
times, and chunks may cut the pieces of a file, which are read whole. Plans and `GraphBuilt` events tell the reads.
Source: docs/decisions/0067-read-what-is-needed.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import numpy as np
from msgspec import Struct

from jmars.optimize.passes import Compiled
from jmars.tensor.parts import Part, SourcePart, common, joined, pieces_read, size, touched_pieces
from jmars.units import format_bytes

COMPARED = 6  # parts of a source that are compared with each other, the largest


class SourceRead(Struct, frozen=True):
    """The reads of a source.

    Attributes
    ----------
    layers
        Rows in `Compiled.before.layers` of the operands that read the source.
    read, nbytes
        Bytes to read, and bytes of the whole source.
    why
        Why bytes are read more than once; "" where they are not.
    """

    layers: tuple[int, ...]
    read: int
    nbytes: int
    why: str = ""


def sources_of(compiled: Compiled) -> list[SourceRead]:
    """The sources that the graph reads, most bytes first."""
    before = compiled.before
    reads = np.where(compiled.group >= 0, before.reads, 0)
    if not reads.any():
        return []
    by_layer = np.bincount(before.layer, reads, len(before.layers)).astype(np.int64).tolist()
    found: dict[Hashable, list[tuple[int, SourcePart]]] = {}
    for layer, (operand, meta) in enumerate(zip(compiled.unfused.operands, compiled.unfused.metas, strict=True)):
        part = operand.source_part(meta) if by_layer[layer] else None
        if part is not None:
            found.setdefault(part.source, []).append((layer, part))
    rows = []
    for own in found.values():
        layers, parts = zip(*own, strict=True)
        rows.append(SourceRead(layers, sum(by_layer[k] for k in layers), parts[0].nbytes, _why(parts)))
    return sorted(rows, key=lambda row: -row.read)


def _why(parts: Sequence[SourcePart]) -> str:
    """Why elements, or pieces of a file, are read more than once."""
    itemsize = parts[0].whole.dtype.itemsize
    together = sum(size(one.part) for one in parts)
    twice = together - _union([one.part for one in parts])
    opened = len({one.whole.key for one in parts})
    texts = []
    if twice and opened > 1:
        texts.append(
            f"it is opened {opened} times, and {format_bytes(twice * itemsize)} are read again for that; "
            "open it once and use the tensor again"
        )
    elif twice:
        around = size(tuple(map(joined, *(one.part for one in parts))))
        texts.append(
            f"its {len(parts)} parts share {format_bytes(twice * itemsize)}; joined they would be "
            f"{format_bytes(around * itemsize)}, and apart they are {format_bytes(together * itemsize)}"
        )
    times, apart, pieces = _pieces(parts)
    if times > pieces:
        shape = " × ".join(f"{n:,}" for n in parts[0].pieces)
        cut = times > apart
        why = "chunks cut pieces" if cut else "parts lie in the same pieces"
        advice = "; cut it at whole pieces" if cut else ""
        which = f"{pieces:,} pieces of {shape} are" if pieces > 1 else f"piece of {shape} is"
        texts.append(f"its {which} read {times:,} times, since {why}{advice}")
    return "; ".join(texts)


def _union(parts: Sequence[Part]) -> int:
    """Elements in any part; of more than `COMPARED` different parts the smallest count as if they shared none."""
    different: list[Part] = []
    for part in sorted(parts, key=size, reverse=True):
        if not any(all(len(common(a, b)) == len(a) == len(b) for a, b in zip(part, one)) for one in different):
            different.append(part)
    found = sum(map(size, different[COMPARED:]))
    for k in range(1, len(different[:COMPARED]) + 1):
        for some in itertools.combinations(different[:COMPARED], k):
            shared = some[0]
            for one in some[1:]:
                shared = tuple(map(common, shared, one))
            found += size(shared) if k % 2 else -size(shared)
    return found


def _pieces(parts: Sequence[SourcePart]) -> tuple[int, int, int]:
    """Reads of pieces of the file: by chunk, by part, and of all parts together; zeros where pieces are not known."""
    if not all(one.pieces for one in parts):
        return 0, 0, 0
    times = sum(pieces_read(one.part, one.chunks, one.pieces) for one in parts)
    read = [tuple(map(touched_pieces, one.part, one.pieces)) for one in parts]
    return times, sum(map(size, read)), _union(read)
