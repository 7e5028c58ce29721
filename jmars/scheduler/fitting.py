"""Refuses jobs that cannot fit in memory before they run: by their hungriest operand, and by their number of operands.

An operand holds inputs, output and scratch at once. Where they need more than the memory limit leaves for chunks, no
order of the run helps, only other chunks; the client, which knows the user's arrays, looks for such chunks.
Source: docs/explanation/seeds.md, "Memory management".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jmars.errors import MemoryLimitError
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.source_line import SourceLine
from jmars.units import format_bytes

__all__ = [
    "LIMIT",
    "OPERAND_BYTES",
    "TILED_BYTES",
    "Hungriest",
    "hungriest",
    "raise_limit",
    "refuse_many",
    "refuse_unfit",
]

OPERAND_BYTES = 1000  # that one takes in the control process from being planned to the end of its job, at least
TILED_BYTES = 250  # the same of each that there is before they are fused
PAGE = 4096  # bytes: what a chunk takes is rounded up to them
LIMIT = "the memory limit leaves"  # for errors: what bounds the memory of a cluster on one host
SPARE = 0.97  # of the room that a proposed chunk would need


class Hungriest(NamedTuple):
    """The operand that needs most at once."""

    operand: int
    nbytes: int  # that it needs
    shape: tuple[int, ...]  # of the largest chunk that it reads or writes; () where that is not known


def hungriest(graph: ChunkGraph, whole: bool = False) -> Hungriest | None:
    """The operand that needs most memory at once; chunks of unknown size do not count.

    Parameters
    ----------
    whole
        Whether operands that gather ranges of their inputs hold whole inputs, as on an engine.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.program import Call, ChunkType, single
    >>> from jmars.tensor.chunk import ChunkGraphBuilder
    >>> builder, chunk = ChunkGraphBuilder(), ChunkType((1024,), np.dtype("f8"))
    >>> one = builder.add(single("make", (), Call(print, (), (), chunk)))
    >>> two = builder.add(single("double", (chunk,), Call(print, (), (0,), chunk)), [one])
    >>> hungriest(builder.finish({}))
    Hungriest(operand=1, nbytes=16384, shape=(1024,))
    """
    if not graph.n:
        return None
    sizes = np.where(graph.unsized, 0, -(-graph.nbytes // PAGE) * PAGE)
    gathers = np.array([*(program.gathers for program in graph.programs), False], np.bool_)[graph.program]
    before = np.concatenate([[0], np.cumsum(sizes[graph.input_idx])])
    inputs = before[graph.input_ptr[1:]] - before[graph.input_ptr[:-1]]
    needs = np.where(graph.program < 0, 0, sizes + graph.work + np.where(gathers & (not whole), 0, inputs))
    operand = int(needs.argmax())
    held = [operand] if gathers[operand] and not whole else [operand, *graph.inputs(operand).tolist()]
    largest = max(held, key=lambda chunk: int(sizes[chunk]))
    row = int(graph.program[largest])
    shape = graph.programs[row].output.shape if row >= 0 else ()
    return Hungriest(operand, int(needs[operand]), shape)


def raise_limit(lacking: int = 0) -> str:
    """Advice for a cluster with a memory limit that lacks so many bytes; 0 for an unknown number."""
    return "raise memory_limit" + (f" by {format_bytes(lacking)}" if lacking else "")


def refuse_many(
    n: int,
    each: int,
    room: int,
    name: str,
    line: SourceLine | None,
    advise: Callable[[int], str] = raise_limit,
    giver: str = LIMIT,
) -> None:
    """Raise MemoryLimitError where planning and running so many operands takes all memory for chunks.

    Parameters
    ----------
    n, each
        Operands on chunks, at least, and bytes that each takes.
    room
        Bytes for chunks and scratch.
    name, line
        What most of them compute, and the user's line that asked for it.
    advise
        Tells how to get more memory, by the bytes that are lacking.
    giver
        Subject and verb of a sentence about `room`.
    """
    if n * each <= room:
        return
    which = f" of line {line.lineno} ({line.text.strip()})" if line is not None else ""
    raise MemoryLimitError(
        f"the graph has {n:,} operands on chunks or more, most of them for {name}{which}; to plan and run them takes "
        f"{format_bytes(n * each)} at least and {giver} {format_bytes(room)}; use a larger chunk_size, "
        f"or {advise(n * each - room)} and what the chunks take"
    )


def refuse_unfit(
    most: Hungriest, room: int, what: str, advise: Callable[[int], str] = raise_limit, giver: str = LIMIT
) -> None:
    """Raise MemoryLimitError where the hungriest operand cannot run.

    Parameters
    ----------
    room
        Bytes for chunks and scratch.
    what
        The operand in words, for the error.
    advise, giver
        As of `refuse_many`.
    """
    if most.nbytes <= room:
        return
    # what it gives may have no size yet: often it is a function then, with its `memory=`
    said = " (where it is a spawned function, a smaller `memory=`)" if min(most.shape, default=0) < 0 else ""
    more = advise(most.nbytes - room)
    advice = f"use a smaller chunk_size{said}, or {more}"
    error = MemoryLimitError(
        f"{what} needs {format_bytes(most.nbytes)} in memory at once (inputs, output and scratch) and {giver} "
        f"{format_bytes(room)}; {advice}"
    )
    error.operand, error.need, error.room = most.operand, most.nbytes, room
    error.proposed, error.more = advice, more
    raise error
