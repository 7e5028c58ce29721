"""Chunks of unknown size: a function's result is checked and measured, then written to its slot.

A program promises a shape with lengths of -1, and perhaps a bound (`ChunkType`). Its last step returns the chunk in
memory of its own: an array, or `Pieces` for bytes that lie in several places. Executors ask for a slot between the two
steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.kernels.program import ChunkType
from jmars.units import format_bytes

__all__ = ["Pieces", "detached", "measured", "write"]

Array = np.ndarray[Any, Any]


class Pieces:
    """A chunk of bytes (uint8, a single axis) in several buffers, which are joined only when the chunk is stored.

    Examples
    --------
    >>> Pieces([b"ab", b"", b"cde"]).nbytes
    5
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = [np.frombuffer(part, np.uint8) for part in parts if memoryview(part).nbytes]

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)


def measured(result: Any, promised: ChunkType, name: str) -> tuple[Array | Pieces, tuple[int, ...]]:
    """Check a function's result against the promised chunk type; returns the result and its shape.

    Raises
    ------
    TypeError, ValueError
        If it has another dtype, shape or more bytes than was promised.

    Examples
    --------
    >>> measured([1, 2], ChunkType((-1,), np.dtype(int)), "f")[1]
    (2,)
    """
    if isinstance(result, Pieces):
        shape: tuple[int, ...] = (result.nbytes,)
        dtype = np.dtype(np.uint8)
    else:
        result = np.asarray(result)
        shape, dtype = result.shape, result.dtype
    if dtype != promised.dtype:
        raise TypeError(f"{name} gave {dtype} and {promised.dtype} was promised; cast the result")
    if len(shape) != len(promised.shape) or any(a not in (-1, b) for a, b in zip(promised.shape, shape)):
        wanted = str(promised.shape).replace("-1", "any")
        raise ValueError(f"{name} gave an array of shape {shape} and {wanted} was promised; give what was promised")
    if promised.most is not None and result.nbytes > promised.most:
        raise ValueError(
            f"{name} gave {format_bytes(result.nbytes)} and at most {format_bytes(promised.most)} was promised; "
            "promise more"
        )
    return result, shape


def detached(result: Array | Pieces, memory: Array) -> Array | Pieces:
    """Copy the parts of a result that lie in `memory`, which other operands will overwrite."""
    if not isinstance(result, Pieces):
        return result.copy() if np.may_share_memory(result, memory) else result
    result.parts = [part.copy() if np.may_share_memory(part, memory) else part for part in result.parts]
    return result


def write(result: Array | Pieces, out: Array) -> None:
    """Copy a chunk to its slot.

    Parameters
    ----------
    out
        Of the shape and dtype that `measured` told.
    """
    if not isinstance(result, Pieces):
        np.copyto(out, result)
        return
    at = 0
    for part in result.parts:
        out[at : at + part.nbytes] = part
        at += part.nbytes
